"""A command that edits what its run left: files that cannot be of one whole run are refused by name, and kept; else the
run is recorded, with a finding or a note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.diff.conditions import summarise_cells
from reconciler.execute.outcome import Outcome, Status
from reconciler.loadgen.log import parse_detail
from reconciler.reconcile.planning import PlanResult
from reconciler.resource.conditions import CellStatus, ConditionStatus
from reconciler.resource.records import Ended
from tests.passes.repository import SPEC, Repository
from tests.passes.standin import with_command
from tests.shared import make_once, need

need("mlperf_loadgen")
PERFORMANCE, ACCURACY = "Run:open/box/tiny/Offline/performance", "Run:open/box/tiny/Offline/accuracy"
AFTER = """
import datetime, re
summary, answers, detail = (folder / f"mlperf_log_{name}" for name in ("summary.txt", "accuracy.json", "detail.txt"))


def change(path, old, new):
    path.write_text(re.sub(old, new, path.read_text(), count=1))


def lie(key, value):
    change(detail, rf'("key": "{key}", "value": )("[^"]*"|[^,]+)', rf'\\g<1>{value}')


"""
BROKEN = {
    "summary.unlink()": "summary: ",
    "summary.write_text('')": "summary: ",
    "summary.write_text(summary.read_text()[:300])": "summary: ",
    "detail.write_text('')": "mlperf_log_detail.txt:1: ",
    "lie('effective_performance_issue_same', 'true')": "performance_issue_same: ",
    "shutil.copyfile(detail, folder / 'second_mlperf_log_detail.txt')": "log sets: ",
}
# What its log shows all the same, by the rule that finds it.
CONTRADICTED = {
    "change(summary, r'per second: .*', 'per second: 99999999')": "summary.differs",
    "change(summary, 'Result is : VALID', 'Result is : INVALID')": "summary.differs",
    "change(detail, r'(power_end\", \"value\": \")', r'\\g<1>at ')": "log.notation",
    "lie('result_samples_per_second', '99999999')": "log.rates",
    "lie('qsl_reported_total_count', '1')": "log.loaded-samples",
    "lie('requested_performance_sample_count_override', '7')": "log.sample-counts",
    "change(Path(conf), r'min_duration = .*', 'min_duration = 77')": "user-conf.differs",
}
CENTURY = "".join(
    f"change(detail, r'({key}{rest})20', r'\\g<1>19'); "
    for key, rest in (
        ("power_begin", r"\", \"value\": \"\S{6}"),
        ("power_end", r"\", \"value\": \"\S{6}"),
        ("test_datetime", r"\", \"value\": \""),
    )
)
DOUBTED = {
    CENTURY: {"log.dates", "run.dated-before"},
    "change(detail, r'(power_begin\", \"value\": \"\\S*-)2', r'\\g<1>1')": {
        "log.dates",
        "run.duration",
        "run.dated-before",
    },
    "change(detail, r'(power_begin\", \"value\": \"\\S*-)2', r'\\g<1>3')": {"log.dates"},
    "change(detail, r'(power_end\", \"value\": \"\\S*-)2', r'\\g<1>3')": {"log.dates", "run.duration"},
    "lie('power_end', '\"01-01-2020 00:00:00.000\"')": {"log.dates"},
}
BROKEN_ANSWERS = {
    "answers.unlink()": "answers: ",
    "answers.write_text('')": "answers: ",
    "answers.write_text(answers.read_text()[:200])": "answers: ",
    "summary.unlink()": "summary: ",
    "lie('effective_accuracy_sample_count', '1')": "accuracy_sample_count: ",
}
CONTRADICTED_ANSWERS = {
    "change(answers, r'(?s)\\n[^\\n]*,\\n', r'\\n')": "answers.differ",
    "answers.write_text(re.sub(r'(qsl_idx. : )\\d+', r'\\g<1>3', answers.read_text()))": "answers.differ",
    "change(detail, '\"is_error\": false', '\"is_error\": true')": "log.errors",
}


def outcomes(repository: Repository) -> dict[str, Outcome]:
    return {str(outcome.step.change.address): outcome for outcome in repository.reconcile().outcomes}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """After a pass with a command that does nothing yet to what its honest runs left."""
    return make_once(tmp_path_factory, "log-sets", _make)


def _make(folder: Path) -> Repository:
    repository = with_command(folder / "repository")
    repository.edit("ours/run.py", "sys.exit(", f'{AFTER}exec(os.environ.get("THEN", ""))\nsys.exit(')
    assert {outcome.status for outcome in outcomes(repository).values()} == {Status.DONE}
    return repository


def does_then(made: Repository, root: Path, statement: str, *addresses: str) -> Repository:
    """The runs at these addresses are due, and something is done to what they leave."""
    repository = made.copy(root)
    for address in addresses:
        for path in repository.record_paths(address):
            path.unlink()
    reported = f"        env: {{THEN: {json.dumps(statement)}}}\n"
    repository.edit(SPEC, "        code: ours\n", f"{reported}        code: ours\n")
    return repository


def test_what_a_command_does_to_one_run_leaves_the_other_alone(made: Repository, tmp_path: Path) -> None:
    repository = does_then(made, tmp_path / "copy", "mode == 'accuracy' or summary.unlink()", PERFORMANCE, ACCURACY)
    found = outcomes(repository)
    assert (found[PERFORMANCE].status, found[ACCURACY].status) == (Status.FAILED, Status.DONE)


@pytest.mark.parametrize("statement", BROKEN)
def test_a_performance_run_is_one_whole_set(made: Repository, tmp_path: Path, statement: str) -> None:
    repository = does_then(made, tmp_path / "copy", statement, PERFORMANCE)
    found = outcomes(repository)
    assert BROKEN[statement] in found[PERFORMANCE].message
    assert found[PERFORMANCE].status is Status.FAILED
    (record,) = repository.records_of(PERFORMANCE).values()
    assert record.ended is Ended.FAILED
    assert any("mlperf_log_" in artifact.name for artifact in record.artifacts)


@pytest.mark.parametrize("statement", BROKEN_ANSWERS)
def test_an_accuracy_run_has_its_answers(made: Repository, tmp_path: Path, statement: str) -> None:
    repository = does_then(made, tmp_path / "copy", statement, ACCURACY)
    found = outcomes(repository)
    assert BROKEN_ANSWERS[statement] in found[ACCURACY].message
    assert found[ACCURACY].status is Status.FAILED


@pytest.mark.parametrize(
    ("address", "statement", "rule"),
    [
        *((PERFORMANCE, statement, rule) for statement, rule in CONTRADICTED.items()),
        *((ACCURACY, statement, rule) for statement, rule in CONTRADICTED_ANSWERS.items()),
    ],
)
def test_a_run_that_its_log_contradicts_is_recorded_and_its_cell_is_not_ready(
    made: Repository, tmp_path: Path, address: str, statement: str, rule: str
) -> None:
    mode = address.rpartition("/")[2]
    repository = does_then(made, tmp_path / "copy", f"if mode == {mode!r}: {statement}", address)
    report = repository.reconcile()
    assert {outcome.status for outcome in report.outcomes} == {Status.DONE}
    (record,) = repository.records_of(address).values()
    assert (record.ended, record.problem) == (Ended.DONE, "")
    found = [f for f in report.after.difference.findings if f.kind == "LogContradicted"]
    assert (address, rule) in {(f.where, f.message.partition(":")[0]) for f in found}
    assert ready(report.after) is ConditionStatus.FALSE
    assert "open/box/tiny/Offline" not in report.after.observed.rendered
    again = repository.reconcile()  # nothing is repeated, and the finding stays
    assert again.outcomes == ()
    assert again.after.difference.findings == report.after.difference.findings


@pytest.mark.parametrize("statement", DOUBTED)
def test_a_run_whose_clock_was_set_is_ready_and_says_so(made: Repository, tmp_path: Path, statement: str) -> None:
    repository = does_then(made, tmp_path / "copy", statement, PERFORMANCE)
    report = repository.reconcile()
    (record,) = repository.records_of(PERFORMANCE).values()
    assert record.ended is Ended.DONE
    assert report.after.difference.findings == ()
    (cell,) = standings(report.after)
    assert cell.ready is ConditionStatus.TRUE
    assert {note.split(": ")[1] for note in cell.notes} == DOUBTED[statement]


def standings(seen: PlanResult) -> tuple[CellStatus, ...]:
    return summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference)


def ready(seen: PlanResult) -> ConditionStatus:
    return next(standing.ready for standing in standings(seen) if str(standing.cell) == "open/box/tiny/Offline")


def test_a_command_that_removes_more_than_its_own_folder_fails_alone(made: Repository, tmp_path: Path) -> None:
    removes = "mode == 'performance' or shutil.rmtree(folder.parent)"
    repository = does_then(made, tmp_path / "copy", removes, PERFORMANCE, ACCURACY)
    found = outcomes(repository)
    assert found[ACCURACY].message.startswith("the folder of the attempt was removed while it ran")
    assert found[PERFORMANCE].status is Status.DONE
    assert not list(repository.paths.attempts.iterdir())


def test_an_accuracy_run_of_a_server_is_asked_at_the_declared_rate(tmp_path: Path) -> None:
    """LoadGen's own rate is one query a second."""
    repository = with_command(tmp_path)
    repository.edit(SPEC, "Offline: {", "Server: {target_latency: 15 ms, ")
    address = ACCURACY.replace("Offline", "Server")
    assert outcomes(repository)[address].status is Status.DONE
    log = parse_detail(repository.log_of(address, "mlperf_log_detail.txt").read_bytes())
    assert log.get_effective("target_qps") == 100
