"""Lines of the log: constant messages, named facts, a file of bounded number, and never a reason to fail."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from reconciler.storage.event_log import KEPT, RECONCILING, add_context, context, facts, open_log, write_file

log = logging.getLogger("reconciler.of.a.test")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_line_has_its_facts_and_those_of_its_context(tmp_path: Path) -> None:
    with write_file(tmp_path, "1"), context(reconcile="7"):
        add_context(submission="acme")
        log.info("step ended", extra=facts(cell="a/b", seconds=1.5, attempt="", problem=None))
    (line,) = lines(tmp_path / "1.jsonl")
    assert line.pop("time")
    assert line == {
        "level": "info",
        "message": "step ended",
        "reconcile": "7",
        "submission": "acme",
        "cell": "a/b",
        "seconds": 1.5,
    }


def test_context_ends_with_its_pass(tmp_path: Path) -> None:
    with write_file(tmp_path, "1"):
        with context(reconcile="7"):
            add_context(submission="acme")
        log.info("later")
    assert lines(tmp_path / "1.jsonl")[0].keys() == {"time", "level", "message"}


def test_nothing_is_written_once_the_file_is_left(tmp_path: Path) -> None:
    with write_file(tmp_path, "1"):
        log.info("within")
    log.info("after")
    assert [line["message"] for line in lines(tmp_path / "1.jsonl")] == ["within"]


def test_newest_files_stay(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        with write_file(tmp_path, f"{number:03}"):
            log.info("pass began")
    assert [path.stem for path in sorted(tmp_path.iterdir())] == [f"{number:03}" for number in range(3, KEPT + 3)]


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
    (file,) = tmp_path.iterdir()
    assert [(line["message"], line.get("error"), line.get("problem")) for line in lines(file)] == [
        ("plan began", None, None),
        ("plan broken off", "ValueError", "no"),
    ]


def test_folder_that_cannot_be_written_stops_no_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("a file")
    with write_file(tmp_path / "log", "1"):
        log.info("within")
    assert capsys.readouterr().err == ""
