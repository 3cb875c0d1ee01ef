"""Every case: its plan and its pass are as written down, and a second pass finds nothing to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from reconciler.execute.outcome import Status
from reconciler.reconcile.run import PassReport
from tests.passes.cases import Case, case_names, prepare, read_case
from tests.passes.repository import HERE, Repository, make_passed
from tests.passes.text import pass_lines, plan_lines
from tests.shared import need

need("mlperf_loadgen")


@dataclass(frozen=True, slots=True)
class Done:
    """A case after its pass; ``plan`` is the text of the look before it."""

    case: Case
    repository: Repository
    plan: str
    records_before: frozenset[str]
    report: PassReport


@pytest.fixture(scope="module", params=case_names())
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    case = read_case(HERE / request.param)
    environment = dict(os.environ)
    try:
        root = tmp_path_factory.mktemp("cases") / "repository"
        repository = prepare(case, partial(make_passed, tmp_path_factory), root)
        plan = plan_lines(repository.look(**case.options).plan, str(repository.root))
        before = frozenset(repository.whole_records())
        report = repository.reconcile(**case.options)
        yield Done(case, repository, plan, before, report)
    finally:
        os.environ.clear()
        os.environ.update(environment)


def test_plan_is_as_written_down(done: Done) -> None:
    assert done.plan == done.case.golden("plan.txt").read_text(encoding="utf-8")


def test_pass_does_what_is_written_down(done: Done) -> None:
    text = pass_lines(done.report, str(done.repository.root))
    assert text == done.case.golden("pass.txt").read_text(encoding="utf-8")


def test_nothing_recorded_is_taken_away(done: Done) -> None:
    assert done.records_before <= set(done.repository.records())


def test_second_pass_has_nothing_to_do(done: Done) -> None:
    """The pass of a selection leaves the rest to a whole one; after that, another changes nothing at all.

    A step that failed is tried once in every pass, and only that.
    """
    whole = done.repository.reconcile()
    failing = {outcome.step.change.address for outcome in whole.outcomes if outcome.status is Status.FAILED}
    good, tree = done.repository.done(), done.repository.tree()
    again = done.repository.reconcile()
    tried = [outcome for outcome in again.outcomes if outcome.status is not Status.BLOCKED]
    assert {outcome.step.change.address for outcome in tried} == failing
    assert (done.repository.done(), done.repository.tree()) == (good, tree)
    assert plan_lines(again.after.plan, "") == plan_lines(whole.after.plan, "")
    assert done.repository.leftovers() == []
