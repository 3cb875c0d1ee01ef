"""`reconcile push` and `pull` on a recorded repository and a fresh clone of it."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.storage.files import Lock, RepositoryPaths, hash_file
from reconciler.storage.machine_locks import make_machine_lock
from reconciler.stores.command import PauseWhileTimed
from reconciler.stores.remote import Remote

from .conftest import CELL, Reconcile, console, edit, git


@pytest.fixture
def stored(recorded: Path, tmp_path: Path) -> Path:
    """The recorded repository with a declared store."""
    edit(recorded, "  rehearsal: true\n", f"  rehearsal: true\n  stores: {{lab: {{url: 'file://{tmp_path}/store'}}}}\n")
    git(recorded, "commit", "--quiet", "--all", "--message", "Declare a store")
    return recorded


@pytest.fixture
def clone(stored: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "--quiet", str(stored), "clone")
    return tmp_path / "clone"


def named(root: Path) -> set[str]:
    """Digests that records name and git does not hold."""
    found: set[str] = set()
    for path in (root / "state/records").rglob("*.json"):
        found |= {sha for _, sha, _, place in json.loads(path.read_text())["artifacts"] if place == "objects"}
    return found


def test_a_clone_that_pulled_is_in_sync_with_its_engines(
    stored: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(stored, '"null"', "onnxruntime")  # a backend that builds an engine
    assert reconcile("--commit")[0] == 0
    git(stored, "commit", "--quiet", "--all", "--message", "Use ONNX Runtime")
    git(tmp_path, "clone", "--quiet", str(stored), "clone")
    clone = tmp_path / "clone"
    count = len(named(stored))
    out = reconcile.succeed("push")
    assert out.startswith(f"lab: {count} objects (")
    assert {p.name for p in (tmp_path / "store").glob("*/*")} == named(stored)
    assert "0 objects (0 B) pushed" in reconcile("push")[1]
    monkeypatch.chdir(clone)
    assert re.search("Engine .*missing", reconcile("plan")[1])
    assert reconcile("pull", "--dry-run")[0] == 2
    assert not (clone / ".reconcile/objects").exists()
    report = reconcile.report("pull", ends=0)
    assert report["counts"] == {"moved": count, "present": 0, "absent": 0, "wrong": 0}
    assert {item["sha256"] for item in report["objects"]} == named(stored)
    assert reconcile("plan")[1] == "In sync: 8 resources, nothing to do.\n"
    for path in (clone / ".reconcile/objects").glob("*/*"):
        assert hash_file(path) == path.name


def test_selectors_choose(stored: Path, clone: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reconcile("push", "--parallel", "1")[0] == 0
    monkeypatch.chdir(clone)
    found = reconcile.report("pull", "kind=Run", "mode=accuracy", ends=0)
    assert {item["address"] for item in found["objects"]} == {f"Run:{CELL}/accuracy"}
    assert reconcile("pull", "engine=x")[0] == 1


def test_a_wrong_byte_there_is_named_and_the_command_ends_with_2(
    stored: Path, clone: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile("push")
    damaged = max((tmp_path / "store").glob("*/*"), key=lambda path: path.stat().st_size)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    monkeypatch.chdir(clone)
    code, out, _ = reconcile("pull")
    assert code == 2
    assert [line for line in out.splitlines() if line.startswith("wrong") and damaged.name[:12] in line]
    assert not (clone / ".reconcile/objects" / damaged.name[:2] / damaged.name).exists()
    monkeypatch.chdir(stored)
    assert reconcile("push", "--deep")[0] == 0
    monkeypatch.chdir(clone)
    assert reconcile("pull")[0] == 0


def test_an_embargo_allows_pushing_to_allowed_stores(stored: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    edit(stored, "  rehearsal: true\n", "  rehearsal: true\n  embargo: {until: 2999-01-01}\n")
    assert "embargo until 2999-01-01" in reconcile.refuse("push")
    assert not (tmp_path / "store").exists()
    assert reconcile("push", "--to", f"file://{tmp_path}/other")[0] == 1
    edit(stored, "{until: 2999-01-01}", f"{{until: 2999-01-01, allow: ['file://{tmp_path}/store']}}")
    assert reconcile("push")[0] == 0


def test_which_store_is_meant(stored: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    edit(stored, "lab: {url", f"two: {{url: 'file://{tmp_path}/two'}}, lab: {{url")
    assert "--to two | lab" in reconcile.refuse("push")
    assert reconcile("push", "--to", "two")[0] == 0
    assert (tmp_path / "two").is_dir()
    assert "declared: two, lab" in reconcile("pull", "--from", "tow")[2]
    assert reconcile("pull", "--from", f"file://{tmp_path}/two")[0] == 0


def test_a_spec_without_a_store_says_how_to_declare_one(recorded: Path, reconcile: Reconcile) -> None:
    assert "stores: {lab: {url: s3://bucket/folder}}" in reconcile.refuse("pull")


def test_secret_options_come_from_outside(stored: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(stored, "/store'}", "/store', options: {auto_mkdir: {from_env: STORE_OPTION}}}")
    monkeypatch.setenv("RECONCILE_STORE_VARIABLES", "OTHER,STORE_OPTION")
    assert "option auto_mkdir of the store: STORE_OPTION is not set" in reconcile.refuse("push")
    monkeypatch.setenv("STORE_OPTION", "yes")
    assert reconcile("push")[0] == 0


@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_spec_does_not_choose_which_variables_a_store_gets(
    stored: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """That of a pull request would name a store of its own, and our token as its user."""
    edit(stored, "/store'}", "/store', options: {auto_mkdir: {from_env: FORGE_TOKEN}}}")
    monkeypatch.setenv("FORGE_TOKEN", "do-not-send")
    code, out, error = reconcile(command)
    assert (code, "FORGE_TOKEN would be sent to the store" in error, "do-not-send" in out + error) == (1, True, False)
    assert "export RECONCILE_STORE_VARIABLES=FORGE_TOKEN" in error


@pytest.mark.parametrize("protocol", ["reference", "filecache", "blockcache", "simplecache", "cached", "zip", "dir"])
def test_a_mere_view_of_a_place_is_none(stored: Path, reconcile: Reconcile, tmp_path: Path, protocol: str) -> None:
    """Some versions of fsspec run what they find in a cache or a list of references, which a branch may hold."""
    code, _, error = reconcile("pull", "--from", f"{protocol}://{tmp_path}/store")
    assert (code, f"protocol {protocol} is not supported" in error, "fix:" in error) == (1, True, True), error


@pytest.mark.parametrize(
    ("url", "said"),
    [("lab", "is not a store url"), ("s3://", "is not a store url"), ("https://me:word@host/x", "looks like a secret")],
)
def test_a_false_store_is_refused_at_its_line(recorded: Path, reconcile: Reconcile, url: str, said: str) -> None:
    edit(recorded, "  rehearsal: true\n", f"  rehearsal: true\n  stores: {{lab: {{url: '{url}'}}}}\n")
    error = reconcile.refuse("push")
    assert said in error
    assert "specs/one.yaml:9:" in error


def test_a_transfer_takes_turns_with_timed_runs_and_other_transfers(stored: Path, reconcile: Reconcile) -> None:
    with make_machine_lock("quiet").acquire():
        code, _, error = reconcile("push")
        assert (code, "a timed run or another transfer" in error) == (1, True)
        assert "--wait SECONDS" in error
    with Lock(RepositoryPaths(stored).transfer_lock, purpose="transfer of objects").acquire():
        assert "transfer of objects (held by" in reconcile("pull")[2]
    assert reconcile("push")[0] == 0


def test_a_slow_store_keeps_no_run_waiting(stored: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's lock is free while bytes pass, and bytes wait while a run holds it."""
    before, seen = Remote.put, list[str]()

    def put(self: Remote, source: Path, sha256: str, moved: Callable[[int], None]) -> None:
        make_machine_lock("quiet").acquire().release()
        seen.append(sha256)
        before(self, source, sha256, moved)

    monkeypatch.setattr(Remote, "put", put)
    assert reconcile("push")[0] == 0
    assert seen
    give_way, ended = PauseWhileTimed(), threading.Event()
    with make_machine_lock("quiet").acquire():
        threading.Thread(target=lambda: (give_way(), ended.set()), daemon=True).start()
        assert not ended.wait(1.0)
    assert ended.wait(20)


def test_a_store_changes_no_key(stored: Path, reconcile: Reconcile) -> None:
    assert reconcile("plan")[0] == 0


def test_an_interrupted_or_killed_pull_is_gone_on_with(stored: Path, clone: Path, reconcile: Reconcile) -> None:
    """A part of one object, as a killed process leaves it, and nothing else."""
    reconcile("push")
    largest = max((stored / ".reconcile/objects").glob("*/*"), key=lambda path: path.stat().st_size)
    assert largest.name in named(stored)
    (clone / ".reconcile/incoming").mkdir(parents=True)
    (clone / ".reconcile/incoming" / largest.name).write_bytes(largest.read_bytes()[:10])
    ended = console("pull", at=clone)
    assert ended.returncode == 0, ended.stderr
    assert not (clone / ".reconcile/incoming").exists()
    assert (clone / ".reconcile/objects" / largest.name[:2] / largest.name).read_bytes() == largest.read_bytes()


def test_without_the_extra_the_command_says_what_to_install(stored: Path, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sitecustomize.py").write_text("import sys\nsys.modules['fsspec'] = None\n")
    ended = console("push", at=stored, PYTHONPATH=f"{absent}:{Path(__file__).parents[3]}")
    assert ended.returncode == 1
    assert "pip install 'mlperf-reconciler[store]'" in ended.stderr
    shutil.rmtree(absent)
