"""`--rerun` makes again what it names, of every kind that can be made, and says so when it names nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cli.shared.run_pass import choose_pass_code
from reconciler.diff.change import FAILED, Reason
from reconciler.errors import ERROR, IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.execute.outcome import Outcome, Status
from reconciler.reconcile.run import PassReport
from tests.passes.repository import Repository, make_passed
from tests.passes.standin import with_command
from tests.shared import need

need("mlperf_loadgen")

CELL = "open/box/tiny/Offline"
RUNS = [f"Run:{CELL}/accuracy", f"Run:{CELL}/performance"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_passed(tmp_path_factory)


@pytest.mark.parametrize(
    ("words", "forced"),
    [
        (("kind=Score",), [f"Score:{CELL}"]),
        (("kind=Model benchmark=tiny",), ["Model:tiny"]),
        (("kind=Dataset",), ["Dataset:tiny"]),
        (("kind=Model,Score scenario=off*",), ["Model:tiny", f"Score:{CELL}"]),
        (("kind=Score", "kind=Dataset"), ["Dataset:tiny", f"Score:{CELL}"]),
        (("kind=Dataset", "scenario=Offline"), ["Dataset:tiny", *RUNS]),
        (("scenario=Offline",), RUNS),
        (("tiny",), RUNS),
    ],
)
def test_what_is_named_is_made_again_and_nothing_before_it(
    made: Repository, tmp_path: Path, words: tuple[str, ...], forced: list[str]
) -> None:
    copied = made.copy(tmp_path / "copy")
    before = set(copied.records())
    steps = copied.look(rerun=words).plan.steps
    assert sorted(str(s.change.address) for s in steps if s.change.reason is Reason.FORCED) == forced
    report = copied.reconcile(rerun=words)
    assert {outcome.status for outcome in report.outcomes} == {Status.DONE}
    new = {str(record.address) for identity, record in copied.records().items() if identity not in before}
    assert set(forced) <= new <= {*forced, f"Score:{CELL}"}
    assert copied.look().plan.in_sync


@pytest.mark.parametrize("words", [("scenario=Nope",), ("kind=Nope",), ("kind=Result",), ("kind=Score system=b",)])
def test_what_fits_nothing_is_refused(made: Repository, tmp_path: Path, words: tuple[str, ...]) -> None:
    copied = made.copy(tmp_path / "copy")
    before = set(copied.records())
    with pytest.raises(ReconcilerError) as caught:
        copied.reconcile(rerun=words)
    assert caught.value.message == f"no declared cell matches {' '.join(words)}"
    assert "scenario: Offline" in caught.value.fix
    assert ("kinds that can be repeated: Dataset, Model, Engine, Run, Score" in caught.value.fix) is (
        words[0] != "scenario=Nope"
    )
    assert set(copied.records()) == before


def test_a_repeat_that_failed_leaves_the_earlier_result_and_is_reported(tmp_path: Path) -> None:
    """The command is the same, and so is the key: nothing is due again, though the pass says that it failed."""
    repository = with_command(tmp_path / "repository")
    broken = tmp_path / "broken"
    script = (repository.root / "ours/run.py").read_text(encoding="utf-8")
    repository.write(
        "ours/run.py", f"import os\nif os.path.exists({str(broken)!r}):\n    raise SystemExit(9)\n{script}"
    )
    repository.reconcile()
    before = repository.look()
    assert (before.plan.in_sync, before.plan.drifts) == (True, ())
    broken.touch()
    report = repository.reconcile(rerun=("scenario=Offline",))
    assert {outcome.status for outcome in report.outcomes} == {Status.FAILED}
    assert choose_pass_code(report) == ERROR
    after = repository.look()
    assert after.plan.in_sync
    assert {(str(drift.address), drift.presence) for drift in after.plan.drifts} == {(run, FAILED) for run in RUNS}
    assert after.difference.chosen == before.difference.chosen
    broken.unlink()
    repository.reconcile(rerun=("scenario=Offline",))
    assert repository.look().plan.drifts == ()


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ([Status.DONE], IN_SYNC),
        ([Status.RETRY, Status.DONE], IN_SYNC),
        ([Status.RETRY], NOT_IN_SYNC),
        ([Status.BLOCKED], NOT_IN_SYNC),
        ([Status.RETRY, Status.FAILED], ERROR),
    ],
)
def test_a_pass_that_did_not_repeat_is_not_in_sync(made: Repository, ended: list[Status], code: int) -> None:
    after = made.look()
    step = made.look(rerun=(f"cell={CELL}",)).plan.steps[0]
    outcomes = tuple(Outcome(step, status) for status in ended)
    assert choose_pass_code(PassReport(after, outcomes, after.tree, 0.0, 0.0, 0)) == code
