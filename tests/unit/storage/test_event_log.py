"""Lines of the log: constant messages, named facts, a file of bounded number, and never a reason to fail."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from reconciler.storage.event_log import KEPT, RECONCILING, add_context, facts, open_log

log = logging.getLogger("reconciler.of.a.test")


def lines(folder: Path) -> list[dict[str, object]]:
    """Of the one file in the folder."""
    (path,) = folder.iterdir()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_line_has_its_facts_and_those_of_its_context(tmp_path: Path) -> None:
    with open_log(tmp_path, "plan") as identity:
        add_context(submission="acme")
        log.info("step ended", extra=facts(cell="a/b", seconds=1.5, attempt="", problem=None))
    _, line = lines(tmp_path)
    assert line.pop("time")
    assert line == {
        "level": "info",
        "message": "step ended",
        "reconcile": identity,
        "submission": "acme",
        "cell": "a/b",
        "seconds": 1.5,
    }


def test_context_ends_with_its_pass(tmp_path: Path) -> None:
    with open_log(tmp_path / "outer", "plan"):
        with open_log(tmp_path / "inner", "plan"):
            add_context(submission="acme")
        log.info("later")
    assert lines(tmp_path / "outer")[-1].keys() == {"time", "level", "message", "reconcile"}


def test_nothing_is_written_once_the_file_is_left(tmp_path: Path) -> None:
    with open_log(tmp_path, "plan"):
        log.info("within")
    log.info("after")
    assert [line["message"] for line in lines(tmp_path)] == ["plan began", "within"]


def test_newest_files_stay(tmp_path: Path) -> None:
    made = []
    for _ in range(KEPT + 3):
        with open_log(tmp_path, RECONCILING) as identity:
            made.append(identity)
    assert [path.stem for path in sorted(tmp_path.iterdir())] == made[3:]


def test_files_of_one_command_do_not_push_out_those_of_another(tmp_path: Path) -> None:
    with open_log(tmp_path, RECONCILING):
        pass
    for _ in range(KEPT + 2):
        with open_log(tmp_path, "plan"):
            pass
    names = [path.stem for path in tmp_path.iterdir()]
    assert len([name for name in names if name.startswith("plan-")]) == KEPT
    assert len(names) == KEPT + 1


def test_a_command_that_breaks_off_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), open_log(tmp_path, "plan"):
        raise ValueError("no")
    assert [(line["message"], line.get("error"), line.get("problem")) for line in lines(tmp_path)] == [
        ("plan began", None, None),
        ("plan broken off", "ValueError", "no"),
    ]


def test_folder_that_cannot_be_written_stops_no_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("a file")
    with open_log(tmp_path / "log", "plan"):
        log.info("within")
    assert capsys.readouterr().err == ""
