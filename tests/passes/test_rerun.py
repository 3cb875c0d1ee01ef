"""`--rerun` makes again what it names, of every kind that can be made, and says so when it names nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.diff.change import Reason
from reconciler.errors import ReconcilerError
from reconciler.execute.outcome import Status
from tests.passes.repository import Repository, make_passed
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
    assert ("kinds that can be made again: Dataset, Model, Engine, Run, Score" in caught.value.fix) is (
        words[0] != "scenario=Nope"
    )
    assert set(copied.records()) == before
