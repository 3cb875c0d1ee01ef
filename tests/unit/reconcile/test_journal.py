"""What a pass leaves in its log, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.passes.repository import Repository, make_repository
from tests.shared import need
from tests.warm.commands import run_command

need("mlperf_loadgen")


def read_logs(repository: Repository) -> list[list[dict[str, Any]]]:
    files = sorted((repository.root / ".reconcile/log").glob("*.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_pass_logs_what_it_did_under_one_id_and_a_second_pass_under_another(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    report = repository.reconcile()
    again = repository.reconcile()
    first, second = read_logs(repository)
    assert {line["reconcile"] for line in first} == {report.id}
    assert {line["reconcile"] for line in second} == {again.id}
    assert (first[0]["message"], first[-1]["message"]) == ("pass began", "pass ended")
    assert first[-1]["in_sync"] is True
    assert {line["submission"] for line in first if line["message"] != "pass began"} == {report.after.desired.name}
    ended = [line for line in first if line["message"] == "step ended"]
    made = [outcome for outcome in report.outcomes if outcome.record is not None]
    assert [line["resource"] for line in ended] == [str(outcome.step.change.address) for outcome in made]
    assert [line["attempt"] for line in ended] == [o.record.attempt for o in made if o.record is not None]
    assert all(line["seconds"] > 0 and line["status"] == "Done" for line in ended)
    due = [address for line in first if line["message"] == "steps due" for address, _ in line["due"]]
    assert due == [line["resource"] for line in ended]
    run = next(line for line in ended if line["resource"].endswith("/performance"))
    assert run["resource"].startswith(f"Run:{run['cell']}")
    assert [line["message"] for line in second] == ["pass began", "planned", "pass ended"]


@pytest.mark.parametrize("words", [["--verbose", "apply"], ["apply", "-v"]], ids=["before-the-command", "behind-it"])
def test_verbose_shows_the_log_on_standard_error(tmp_path: Path, words: list[str]) -> None:
    repository = make_repository(tmp_path)
    command = [*words, "--only", "Dataset"]
    quiet = [word for word in command if word not in ("-v", "--verbose")]
    shown = run_command(command, repository.root)
    hidden = run_command(quiet, repository.root)
    assert "step ended" in shown.stderr
    assert "resource=" in shown.stderr
    assert "pass ended" not in shown.stdout + hidden.stdout + hidden.stderr
