"""REPRODUCE.md is enough: who has a packed archive and nothing else repeats its cells with the real LoadGen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

from reconciler.loadgen.log_files import DETAIL
from reconciler.publish.archive import pack
from reconciler.publish.unpacking import unpack
from reconciler.resource.records import Ended
from tests.passes.repository import Repository, make_repository, unfinished
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


CASES = {"own benchmark": make_repository, "command": with_command, "variables": _with_variables}


@pytest.mark.parametrize("case", CASES)
def test_an_archive_alone_is_enough_to_repeat_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setenv("OURS", str(tmp_path / "outside"))
    monkeypatch.setenv("HIDDEN", HIDDEN)
    made = CASES[case](tmp_path / "repository")
    assert unfinished(made.reconcile()) == []
    packed = tmp_path / "tree.tar.gz"
    pack(packed, [(name, (made.paths.tree / name).read_bytes()) for name in made.tree()], lambda _: packed)
    published = _read_effective(made.log_of(RUN, DETAIL))
    (tmp_path / "repository").rename(tmp_path / "gone")
    if case == "variables":
        (tmp_path / "outside").rename(tmp_path / "gone-too")
    monkeypatch.delenv("OURS")
    tree, empty = tmp_path / "unpacked", tmp_path / "empty"
    unpack(packed, tree, None)
    empty.mkdir()

    repeated = _follow(next(tree.rglob("REPRODUCE.md")), empty, {"HARNESS_CODE": empty / "brought", "HIDDEN": "other"})
    (record,) = repeated.records_of(RUN).values()
    assert record.ended is Ended.DONE
    assert "Result is : VALID" in repeated.log_of(RUN, "mlperf_log_summary.txt").read_text()
    assert _read_effective(repeated.log_of(RUN, DETAIL)) == published
    assert not repeated.look().plan.steps


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
            if "pip install" in line:
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
    assert found[2] == version("mlperf-reconciler")


def _run(folder: Path, source: Path, script: str, values: dict[str, object]) -> None:
    """In a shell that keeps the variables that the reader filled in."""
    own = {"SRC": str(source), "PYTHON": sys.executable, "PYTHONPATH": str(TOP)}
    environment = {**os.environ, **{name: str(value) for name, value in values.items()}, **own}
    done = subprocess.run(
        ["bash", "-euc", _RECONCILE + script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _read_effective(detail: Path) -> list[str]:
    """The settings with which LoadGen ran, as it logs them."""
    found = re.findall(r'"key": "(effective_[^"]+|qsl_rng_seed)", "value": ([^,]+)', detail.read_text())
    assert found
    return sorted(f"{name}={value}" for name, value in found)
