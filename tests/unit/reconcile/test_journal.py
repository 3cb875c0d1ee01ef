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


def test_what_an_executor_does_is_reported_with_its_attempt(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    report = repository.reconcile()
    (lines,) = read_logs(repository)
    children = [outcome.record for outcome in report.outcomes if outcome.record is not None]
    for record in children:
        own = [line for line in lines if line.get("attempt") == record.attempt and "executor" in line]
        reported = [line["message"] for line in own]
        assert reported[0] == "submitted"
        assert reported[-2:] == ["ended", "harvested"]
        assert {"state changed"} >= set(reported[1:-2])
        assert own[0]["resource"] == str(record.address)
        assert (own[-2]["state"], own[-2]["status"]) == ("ended", 0)
        assert {line["executor"] for line in own} == {"local"}


@pytest.mark.parametrize("command", ["plan", "audit"])
def test_a_command_that_only_reads_reports_too(tmp_path: Path, command: str) -> None:
    repository = make_repository(tmp_path)
    repository.commit()
    quiet = run_command([command], repository.root)
    loud = run_command([command, "-v"], repository.root)
    first, second = read_logs(repository)
    assert [line["message"] for line in first] == [line["message"] for line in second]
    assert (first[0]["message"], first[-1]["message"]) == (f"{command} began", f"{command} ended")
    assert first[0]["reconcile"] != second[0]["reconcile"]
    assert f"{command} ended" in loud.stderr
    assert f"{command} ended" not in quiet.stdout + quiet.stderr + loud.stdout


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
