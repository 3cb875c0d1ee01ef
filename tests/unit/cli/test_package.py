"""`reconcile package` and `unpack`: reproducible bytes, every refusal with its reason, and the way back."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.history import packaging
from reconciler.publish.preconditions import find_refused_records
from reconciler.publish.unpacking import unpack
from reconciler.record.codec import decode
from reconciler.resource.kinds import Cell
from reconciler.rules.results import loadgen_logs
from tests.acceptance.conftest import console
from tests.shared import copy_folder, make_once

from .conftest import CELL, Reconcile, commit, edit, git

DECLARED = [word for name in ("code", "dataset", "engine", "machine") for word in ("--declare", f"{name}=known")]
FOLDER = "open/Tester/results/box/digits/Offline"
SECRET = "correct horse"


def _stated(values: dict[str, str]) -> dict[str, str]:
    counts = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")
    return {name: value or ("1" if name in counts else "stated") for name, value in values.items()}


def full_length(tree: Path) -> None:
    """Relabel the logs of a short rehearsal as those of a full-length run of the official size. No test has the time
    for a real one, so no one may ask whether these agree with themselves (``believe_logs``)."""
    edits = {
        r'("(?:effective|requested)_min_duration_ms", "value": )\d+': r"\g<1>600000",
        r'("effective_performance_sample_count", "value": )\d+': r"\g<1>1024",
        r'("(?:effective_accuracy_sample_count|qsl_reported_total_count)", "value": )\d+': r"\g<1>50000",
    }
    for path in tree.rglob("mlperf_log_detail.txt"):
        text = path.read_text()
        for pattern, replacement in edits.items():
            text = re.sub(pattern, replacement, text)
        path.write_text(text)
    for path in tree.rglob("mlperf_log_summary.txt"):
        path.write_text(re.sub(r"(min_duration \(ms\) *: )\d+", r"\g<1>600000", path.read_text()))
    for path in tree.rglob("REPRODUCE.md"):
        path.unlink()  # it says that the backend was a synthetic one
    for path in tree.rglob("systems/*.json"):
        path.write_text(json.dumps(_stated(json.loads(path.read_text()))))
    for path in tree.rglob("measurements.json"):
        values = json.loads(path.read_text())
        del values["rehearsal"]
        path.write_text(json.dumps({name: value or "stated" for name, value in values.items()}))


def believe_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadgen_logs, "find_inconsistencies", lambda log, **_: ())
    monkeypatch.setattr(loadgen_logs, "judge_kept", lambda _: iter(()))


@pytest.fixture(scope="session")
def packable_once(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return make_once(tmp_path_factory, "packable", partial(_adopt, recorded_once, DECLARED))


def _adopt(recorded_once: Path, declared: list[str], folder: Path) -> Path:
    tree, root = folder / "sent", folder / "mine"
    shutil.copytree(recorded_once / ".reconcile/tree", tree)
    full_length(tree)
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / ".gitignore").write_text(".reconcile/\n")
    (root / "LICENSE").write_text("Apache-2.0\n")
    with pytest.MonkeyPatch.context() as patch:
        believe_logs(patch)
        adopted = console(root, "adopt", str(tree), *declared)
        assert adopted.code == 0, adopted
        commit(root)
        made = console(root)
        assert made.code == 0, made
    return root


@pytest.fixture
def packable(packable_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a committed repository whose one cell breaks no rule of the open division."""
    believe_logs(monkeypatch)
    for name in ("sent", "mine"):
        copy_folder(packable_once.with_name(name), tmp_path / name)
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def packed(reconcile: Reconcile, target: Path, *options: str) -> Path:
    reconcile.succeed("package", "-o", str(target), *options)
    return target


def test_the_same_commit_gives_the_same_bytes(
    packable: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = packed(reconcile, tmp_path / "a/x.tar.gz")
    clone = tmp_path / "elsewhere/clone"
    git(packable, "clone", "--quiet", str(packable), str(clone))
    monkeypatch.chdir(clone)
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C")
    second = packed(reconcile, tmp_path / "b/x.tar.gz")
    for ending in ("", ".sha1", ".sha256", ".MANIFEST.json"):
        names = [path.with_name(path.name + ending) for path in (first, second)]
        assert names[0].read_bytes() == names[1].read_bytes()
    assert (
        f"{hashlib.sha256(first.read_bytes()).hexdigest()}  x.tar.gz\n" == (tmp_path / "a/x.tar.gz.sha256").read_text()
    )
    with tarfile.open(first) as tar:
        members = tar.getmembers()
    assert [m.name for m in members] == sorted((m.name for m in members), key=lambda name: name.split("/"))
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members} == {(0, 0, "", 315532800)}
    assert {m.mode for m in members if m.isfile()} == {0o644}
    manifest = json.loads((tmp_path / "a/x.tar.gz.MANIFEST.json").read_text())
    assert manifest["commit"] == git(packable, "rev-parse", "HEAD")
    assert set(manifest["files"]) == {m.name for m in members if m.isfile()}


def test_unpack_is_the_inverse(packable: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    archive = packed(reconcile, tmp_path / "x.tar.gz")
    assert "manifest" in reconcile.succeed("unpack", str(archive), "--verify", "-o", str(tmp_path / "out"))
    tree = packable / ".reconcile/tree"
    rendered = {p.relative_to(tree): p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    found = {p.relative_to(tmp_path / "out"): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == rendered
    assert "is not empty" in reconcile.refuse("unpack", str(archive), "-o", str(tmp_path / "out"))


@pytest.mark.parametrize("tool", ["gpg", "openssl"])
def test_an_encrypted_archive(
    packable: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    packed(reconcile, tmp_path / "x.tar.gz", "--encrypt", tool, "--password-file", str(tmp_path / "secret"))
    archive = next(tmp_path.glob("x.tar.gz.???"))
    assert not (tmp_path / "x.tar.gz").exists()
    assert not (tmp_path / "x.tar.gz.MANIFEST.json").exists()
    assert b"mlperf" not in archive.read_bytes()
    monkeypatch.setenv("PACK_SECRET", "wrong")
    unpack = ["unpack", str(archive), "--verify", "-o", str(tmp_path / "out"), "--password-env", "PACK_SECRET"]
    assert "check the password" in reconcile.refuse(*unpack)
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("PACK_SECRET", SECRET)
    assert reconcile(*unpack)[0] == 0
    assert (tmp_path / f"out/{FOLDER}/user.conf").is_file()
    assert f"{FOLDER}/user.conf" in list_with_tool(tool, archive, tmp_path)


def list_with_tool(tool: str, archive: Path, folder: Path) -> list[str]:
    """List an archive as a user without this program does."""
    secret, plain, home = (folder / name for name in ("secret", "plain.tar.gz", "home"))
    home.mkdir(mode=0o700)
    openssl = f"openssl enc -d -aes-256-cbc -pbkdf2 -iter 600000 -in {archive} -out {plain} -pass file:{secret}"
    gpg = f"gpg --homedir {home} --batch --pinentry-mode loopback --passphrase-file {secret} -o {plain} -d {archive}"
    commands = {"openssl": openssl.split(), "gpg": gpg.split()}
    subprocess.run(commands[tool], check=True, capture_output=True)
    if tool == "gpg":
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False)
    with tarfile.open(plain) as tar:
        return tar.getnames()


def refused(reconcile: Reconcile, *reasons: str) -> None:
    rows = reconcile.report("package", ends=1)["refused"]
    assert all(row["fix"] for row in rows)
    said = "\n".join(f"{row['where']}: {row['reason']}" for row in rows)
    for reason in reasons:
        assert reason in said, said
    text = reconcile("package")[1]
    assert "Nothing is packed" in text
    assert not Path(".reconcile/packages").exists()


def test_a_device_or_pipe_is_no_place_for_an_archive(packable: Path, reconcile: Reconcile) -> None:
    os.mkfifo(packable / "pipe")
    code, _, err = reconcile("package", "-o", "pipe")
    assert (code, "pipe is not a file" in err, (packable / "pipe").is_fifo()) == (1, True, True)


def test_rehearsals_and_synthetic_data(recorded: Path, reconcile: Reconcile) -> None:
    refused(reconcile, f"{CELL}: it is a rehearsal", f"{CELL}: its data or backend is synthetic")


def test_unknown_input(
    recorded_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    root = _adopt(recorded_once, [], tmp_path)
    believe_logs(monkeypatch)
    monkeypatch.chdir(root)
    refused(reconcile, "not declared for its imported runs: code, dataset, engine, machine")
    assert reconcile("import", "--cell", CELL, *DECLARED)[0] == 0
    commit(root, "Declare")
    assert reconcile("package")[0] == 0


def test_what_is_not_committed(packable: Path, reconcile: Reconcile) -> None:
    edit(packable, "spec:\n", "# a note\nspec:\n", spec="tester")
    refused(reconcile, "specs/tester.yaml: the spec is not committed")
    git(packable, "checkout", "--quiet", "--", "specs")
    git(packable, "rm", "--quiet", "--cached", "-r", "state")
    git(packable, "commit", "--quiet", "--message", "Forget the records")
    refused(reconcile, f"{CELL}: the record or logs of Run performance are not committed")


def test_unreadable_is_not_uncommitted(packable: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: bytes) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(packaging, "compute_blob_id", fail)
    assert "Input/output error (EIO)\nfix: " in reconcile.refuse("package")


def test_a_cell_that_is_not_ready(packable: Path, reconcile: Reconcile) -> None:
    edit(packable, "target_qps: 1000 /s", "target_qps: 1001 /s", "Raise the target", spec="tester")
    refused(reconcile, f"{CELL}: it is not ready")


def test_code_without_a_licence(packable: Path, reconcile: Reconcile) -> None:
    spec = packable / "specs/tester.yaml"
    (packable / "mine").mkdir()
    (packable / "mine/run.py").write_text("print()\n")
    lines = [line for line in spec.read_text().splitlines(keepends=True) if "source:" not in line]
    at = next(i for i, line in enumerate(lines) if "engine: {backend: external}" in line)
    lines.insert(at + 1, "      source: mine\n")
    spec.write_text("".join(lines))
    refused(reconcile, "mine/run.py: it is published, but not committed", "src/digits: no licence for 1 published file")
    (packable / "mine/run.py").write_text("# SPDX-License-Identifier: Apache-2.0\nprint()\n")
    commit(packable, "Publish the code")
    reconcile()
    reconcile.succeed("package")


def test_an_embargo(packable: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    git(packable, "remote", "add", "origin", "git@github.com:acme/results.git")
    assert reconcile("package", "-o", str(tmp_path / "open.tar.gz"))[0] == 0
    embargo = "  embargo: {until: 2999-01-01}\n\n"
    edit(packable, "  systems:\n", f"{embargo}  systems:\n", "Keep it secret", spec="tester")
    refused(reconcile, "remote origin: git@github.com:acme/results.git is on a public host")
    assert reconcile("package", "--despite-embargo", "-o", str(tmp_path / "told.tar.gz"))[0] == 0
    edit(packable, "{until: 2999-01-01}", '{until: 2999-01-01, allow: "git@github.com:acme/*"}', "Allow ours", "tester")
    assert reconcile("package", "-o", str(tmp_path / "allowed.tar.gz"))[0] == 0


def damaged(archive: Path, target: Path) -> Path:
    for path in archive.parent.glob(f"{archive.name}*"):
        shutil.copyfile(path, target / path.name)
    return target / archive.name


def test_verify_finds_what_was_changed(packable: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    archive = packed(reconcile, tmp_path / "x.tar.gz")
    (tmp_path / "d").mkdir()
    copy = damaged(archive, tmp_path / "d")
    copy.write_bytes(copy.read_bytes() + b"\0")
    assert "does not match" in reconcile.refuse("unpack", str(copy), "--verify", "-o", str(tmp_path / "out"))
    copy = damaged(archive, tmp_path / "d")
    manifest = copy.with_name(f"{copy.name}.MANIFEST.json")
    document = json.loads(manifest.read_text())
    document["files"][f"{FOLDER}/user.conf"]["sha256"] = "0" * 64
    document["files"]["open/Tester/more.txt"] = {"sha256": "0" * 64, "bytes": 1}
    manifest.write_text(json.dumps(document))
    code, _, err = reconcile("unpack", str(copy), "--verify", "-o", str(tmp_path / "out2"))
    assert (code, "2 files differ from the manifest" in err) == (1, True)
    manifest.unlink()
    assert reconcile("unpack", str(copy), "--verify", "-o", str(tmp_path / "out3"))[0] == 1


def hostile(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size) if member.isfile() else None)
    return path


def make_hole(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(20 << 30)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([member("../x")], id="parent"),
        pytest.param([member("l", tarfile.SYMTYPE, "/etc/passwd")], id="symbolic link"),
        pytest.param([member("a"), member("./a")], id="twice by another name"),
        pytest.param([member("closed/x"), member("closed/x/y")], id="a file, then a folder"),
        pytest.param([member("closed/x/y"), member("closed/x")], id="a folder, then a file"),
        pytest.param([member("closed/x"), member("closed/x", tarfile.DIRTYPE)], id="a file and a folder"),
        pytest.param([member("closed/ACME/.git/hooks/pre-commit")], id="a hook of git"),
        pytest.param([member("home/ada/x")], id="no division"),
        pytest.param([member("closed/ACME/a b")], id="a blank"),
        pytest.param([member("closed/" + "d/" * 60 + "x")], id="folders without end"),
    ],
)
def test_hostile_archives(tmp_path: Path, reconcile: Reconcile, bad: list[tarfile.TarInfo]) -> None:
    archive = hostile(tmp_path / "x.tar.gz", member("fine"), *bad)
    assert "nothing was unpacked" in reconcile.refuse("unpack", str(archive), "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_heads_of_a_gigabyte_are_not_read(tmp_path: Path, kind: bytes) -> None:
    """Also of a file that has them, which the gate for holes lets pass."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 1 << 30
    with (tmp_path / "x.tar").open("wb") as stream:
        stream.write(info.tobuf(tarfile.GNU_FORMAT))
        stream.truncate(1 << 31)
    tracemalloc.start()
    try:
        with pytest.raises(ReconcilerError, match="a head of 1,073,741,824 bytes"):
            unpack(tmp_path / "x.tar", tmp_path / "out", None)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "out").exists()


def test_what_has_no_room_is_not_begun(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = hostile(tmp_path / "x.tar.gz", member("fine"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "1,000 are free" in reconcile.refuse("unpack", str(archive), "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(os.mkfifo, "it is not a regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is not a regular file", id="device"),
        pytest.param(make_hole, "of 21,474,836,480 bytes, 0 are stored", id="hole"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--verify",)], ids=["bare", "verified"])
def test_what_would_be_read_without_end_is_no_archive(
    make: Callable[[Path], None], said: str, options: tuple[str, ...], tmp_path: Path, reconcile: Reconcile
) -> None:
    make(tmp_path / "x.tar.gz")
    (tmp_path / "x.tar.gz.MANIFEST.json").write_text("{}")
    code, _, err = reconcile("unpack", str(tmp_path / "x.tar.gz"), "-o", str(tmp_path / "out"), *options)
    assert (code, f"x.tar.gz is not an archive: {said}\n" in err) == (1, True), err
    assert not (tmp_path / "out").exists()


def test_what_is_no_archive(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"no")
    err = reconcile.refuse("unpack", str(tmp_path / "x.tar.gz"), "-o", str(tmp_path / "out"))
    assert err.startswith("error: x.tar.gz is not an archive that `package` wrote\nfix: name the .tar.gz")


def test_accepted_results_are_packed_when_asked_for(packable: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    edit(packable, "{backend: external}", "{backend: external, batch_size: 16}", "Say how large batches are", "tester")
    refused(reconcile, f"{CELL}: it is not ready")
    reconcile.succeed("accept", "digits", "--reason", "they always were as large")
    assert reconcile()[0] == 0
    refused(reconcile, "accepts its results, but is not committed")
    commit(packable, "Accept them")
    refused(reconcile, f"{CELL}: its results are accepted")
    archive = packed(reconcile, tmp_path / "x.tar.gz", "--accepted")
    (cell,) = json.loads(archive.with_name("x.tar.gz.MANIFEST.json").read_text())["cells"]
    assert cell["accepted"]["reason"] == "they always were as large"


def test_a_run_counts_once_a_commit_holds_the_bytes_of_its_spec(recorded: Path) -> None:
    records = [decode(path.read_bytes(), path.name) for path in (recorded / "state/records/Run").glob("*.json")]
    cell = Cell("open", "box", "digits", "Offline")
    dirty = {cell: [("x", replace(record, dirty=True)) for record in records]}
    known = find_refused_records(dirty, lambda _: True, lambda _, blob: blob in records[0].spec.values())
    assert known == []
    unknown = find_refused_records(dirty, lambda _: True, lambda _, __: False)
    assert {refusal.reason for refusal in unknown} == {
        f"{record.address.label} was made from an uncommitted spec" for record in records
    }
