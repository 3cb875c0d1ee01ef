"""A packed archive is enough: its cells are repeated with the real LoadGen as REPRODUCE.md says, and by `audit --rerun`
after it was adopted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path

import pytest

from reconciler import __version__
from reconciler.history.rerun import WHAT
from reconciler.loadgen.log_files import DETAIL
from reconciler.publish.archive import pack
from reconciler.publish.unpacking import unpack
from reconciler.resource.records import Ended
from tests.acceptance.conftest import console
from tests.passes.repository import HERE, Repository, make_repository, unfinished
from tests.passes.standin import with_command
from tests.shared import need

need("mlperf_loadgen")
TOP = Path(__file__).parents[2]
RUN = "Run:open/box/tiny/Offline/performance"
HIDDEN = "only-known-here"
_RECONCILE = 'reconcile() { "$PYTHON" -m reconciler.cli.main "$@"; }\n'
_VARIABLES = '        env: {WORDS: "a b", HIDDEN: {from_env: HIDDEN}}\n'


def _with_variables(root: Path) -> Repository:
    repository = with_command(root, more=_VARIABLES)
    outside = root.parent / "outside"
    (root / "ours").rename(outside)
    repository.edit("specs/spec.yaml", "        code: ours\n", "        code: ${OURS}\n")
    return repository


def _with_model(root: Path) -> Repository:
    (root.parent / "net.onnx").write_bytes(b"a model")
    spec = (HERE / "spec.yaml").read_text()
    assert spec.count("model: {") == 1
    return make_repository(root, spec.replace("model: {", "model: {path: '${NET}', "))


CASES = {"own benchmark": make_repository, "model": _with_model, "command": with_command, "variables": _with_variables}


@dataclass(frozen=True, slots=True)
class Archive:
    """Unpacked in ``tree``, with the settings that its LoadGen logged. What it was made from is gone."""

    tree: Path
    model: Path
    published: list[str]


@pytest.fixture(scope="module", params=CASES)
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Not to be changed."""
    case, folder = request.param, tmp_path_factory.mktemp("archive")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OURS", str(folder / "outside"))
        patch.setenv("NET", str(folder / "net.onnx"))
        patch.setenv("HIDDEN", HIDDEN)
        made = CASES[case](folder / "repository")
        assert unfinished(made.reconcile()) == []
    packed = folder / "tree.tar.gz"
    pack(packed, [(name, (made.paths.tree / name).read_bytes()) for name in made.tree()], lambda _: packed)
    published = read_effective(made.log_of(RUN, DETAIL))
    (folder / "repository").rename(folder / "gone")
    if case == "variables":
        (folder / "outside").rename(folder / "gone-too")
    unpack(packed, folder / "unpacked", None)
    return Archive(folder / "unpacked", folder / "net.onnx", published)


def test_an_archive_alone_is_enough_to_repeat_a_cell(archive: Archive, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    values = {"HARNESS_CODE": empty / "brought", "HIDDEN": "other", "MODEL_PATH": archive.model}

    guide = next(archive.tree.rglob("REPRODUCE.md"))
    repeated = _follow(guide, empty, values)
    (record,) = repeated.records_of(RUN).values()
    assert record.ended is Ended.DONE
    assert "Result is : VALID" in repeated.log_of(RUN, "mlperf_log_summary.txt").read_text()
    assert read_effective(repeated.log_of(RUN, DETAIL)) == archive.published
    assert not repeated.look().plan.steps
    listed = re.findall(r"^([0-9a-f]{64})  Run performance: (.+)$", guide.read_text(), re.M)
    assert {name: record.inputs[name].value for _, name in listed} == {name: digest for digest, name in listed}


def test_an_adopted_archive_is_reproduced(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", HIDDEN)
    adopted = Repository(tmp_path / "adopted")
    adopted.root.mkdir()
    adopted.git("init", "--quiet")
    said = console(adopted.root, "adopt", str(archive.tree), "--rehearsal", "--json")
    assert (said.code, said.report["left_out"]) == (0, {}), said
    assert (said.report["reproduced"]["differing"], said.report["reproduced"]["missing"]) == ([], [])
    assert not adopted.look().plan.steps
    monkeypatch.setenv("MODEL_PATH", str(archive.model))
    assert not adopted.look().plan.steps
    assert adopted.reconcile().after.plan.in_sync
    adopted.commit()
    said = console(adopted.root, "audit", "--rerun", "tiny", "--busy", "--json")
    (claim,) = [claim for claim in said.report["claims"] if claim["what"] == WHAT]
    assert [path.suffix for path in adopted.paths.audits.iterdir()] == [".json"], claim
    report = json.loads(next(adopted.paths.audits.iterdir()).read_text())
    assert (report["record"]["address"], report["of"]) == (RUN, next(iter(adopted.records_of(RUN))))


def _follow(guide: Path, folder: Path, values: dict[str, object]) -> Repository:
    """Do what the guide says, but for the installation, which is what runs the test."""
    text = guide.read_text()
    assert HIDDEN not in text
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", text, re.S):
        if kind == "yaml":
            (folder / "specs").mkdir()
            (folder / "specs/repeat.yaml").write_text(block)
            continue
        lines = []
        for line in block.splitlines():
            if "--no-deps" in line:
                lines.append(line.partition(" | ")[0])  # it finds the list, or fails
            elif "pip install" in line:
                _check_installation(line)
            elif given := re.match(r"export (\w+)=", line):
                lines.append(f"{given[0]}'{values[given[1]]}'")
            else:
                lines.append(line)
        _run(folder, guide.parent, "\n".join(lines), values)
    return Repository(folder)


def _check_installation(line: str) -> None:
    found = re.search(r"'mlperf-reconciler\[([a-z0-9,-]+)\]==(.+)'", line)
    assert found is not None, line
    assert set(found[1].split(",")) <= set(metadata("mlperf-reconciler").get_all("Provides-Extra") or [])
    assert found[2] == __version__


def _run(folder: Path, source: Path, script: str, values: dict[str, object]) -> None:
    """In a shell that keeps the variables that the reader filled in."""
    own = {"SRC": str(source), "PYTHON": sys.executable, "PYTHONPATH": str(TOP)}
    environment = {**os.environ, **{name: str(value) for name, value in values.items()}, **own}
    done = subprocess.run(
        ["bash", "-euc", _RECONCILE + script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def read_effective(detail: Path) -> list[str]:
    """The settings with which LoadGen ran, as it logs them."""
    found = re.findall(r'"key": "(effective_[^"]+|qsl_rng_seed)", "value": ([^,]+)', detail.read_text())
    assert found
    return sorted(f"{name}={value}" for name, value in found)
