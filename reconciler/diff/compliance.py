"""Compare a cell's compliance tests: which record of a test counts, whether its verdict is current, what to repeat.

A test is repeated only if its own inputs changed, its evidence differs from the published run's, or its verdict fails
and attempts are left. If it fails by speed only, either run may be the outlier: the test and the performance run are
repeated in turn. A verdict that was made with other runs is computed again from stored logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.desired.state import Desired
from reconciler.diff.change import AUDIT_FAILS, WAITS, Action, Difference, Finding, Reason, Work
from reconciler.diff.comparison import ComparisonState
from reconciler.diff.run_selection import ALLOWED_TO_DIFFER, LASTING, find_differing_evidence
from reconciler.observed.state import Observed
from reconciler.resource.kinds import AUDIT, MODES, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import Recorded, Summary
from reconciler.resource.resources import Resource

_DATASET = "dataset."  # prefix of evidence about a dataset file


class CellTest(Struct, frozen=True):
    """A test of a cell with its verdict."""

    test: Resource
    verdict: Resource
    own_dataset: bool = False

    def list_allowed_differences(self, summaries: Iterable[Summary]) -> frozenset[str]:
        """List the evidence that may differ from the performance run: also the dataset's if the test has its own."""
        if not self.own_dataset:
            return ALLOWED_TO_DIFFER
        return ALLOWED_TO_DIFFER | {name for s in summaries for name, _ in s.evidence if name.startswith(_DATASET)}


def list_cell_tests(desired: Desired, cell: Cell) -> Iterator[CellTest]:
    """List the upstream tests of the cell's result, in order."""
    result = desired.by_address[Address(Kind.RESULT, str(cell))]
    for address in result.upstream:
        if address.kind is Kind.VERDICT:
            test = desired.by_address[Address(Kind.COMPLIANCE_TEST, address.name)]
            own = Address(Kind.DATASET, address.name) in test.upstream
            yield CellTest(test, desired.by_address[address], own)


def compare_cell_tests(
    walk: ComparisonState, audits: Sequence[CellTest], published: Summary | None
) -> tuple[tuple[str, str, str], ...]:
    """Plan the changes in ``walk``. Return (name, test's record, verdict's record) of each test, with "" if none
    passes. ``published``: the performance run, None if none is VALID."""
    found = []
    for audit in audits:
        good = _compare(walk, audit, published)
        names = (audit.test.address, audit.verdict.address)
        test, verdict = (walk.used[name].id if good and name in walk.used else "" for name in names)
        found.append((audit.test.address.label, test, verdict))
    return tuple(found)


def _compare(walk: ComparisonState, audit: CellTest, published: Summary | None) -> bool:
    """Return True if the test has a passing verdict."""
    remade = _is_made(walk, _find_performance_address(audit))
    if published is None and not remade:
        walk.unmade |= dict.fromkeys((audit.test.address, audit.verdict.address), WAITS)
        return False  # an INVALID run proves nothing and has its own finding
    done = walk.select_trusted(walk.list_done(audit.test))
    allowed = audit.list_allowed_differences((*done, *((published,) if published else ())))
    alike = [t for t in done if remade or published is None or not find_differing_evidence(published, t, allowed)]
    if audit.test.address not in walk.forced:
        if not done:
            walk.plan_creation(audit.test)
        elif not alike and published is not None:
            _repeat_older(walk, audit, published, done[-1], allowed)
    if _is_made(walk, audit.test.address) or not alike:
        _judge_again(walk, audit.verdict)
        return False
    verdict = _select_judged(walk, audit, alike)
    if walk.find_contradictions(audit.test.address, walk.used.get(audit.test.address)):
        return False
    if verdict is None or not verdict.problem:
        return verdict is not None
    if published is not None and done[-1] is not alike[-1]:
        # Another test would differ from the performance run like the newest one, and would not fix the earlier failure.
        _repeat_older(walk, audit, published, done[-1], allowed)
        _judge_again(walk, audit.verdict)
    else:
        _repeat_failed(walk, audit, alike, verdict)
    return False


def _repeat_older(
    walk: ComparisonState, audit: CellTest, published: Summary, test: Summary, allowed: frozenset[str]
) -> None:
    """Repeat the older of two runs with different evidence, which may not be published together."""
    names = ", ".join(name for name, _, _ in find_differing_evidence(published, test, allowed))
    if test.started < published.started:
        note = f"{names} differs from the performance run"
        walk.plan_change(audit.test, Action.REPLACE, Reason.EVIDENCE_DIFFERS, note)
    else:
        performance = walk.desired.by_address[_find_performance_address(audit)]
        note = f"{names} differs from {audit.test.address.label}"
        walk.plan_change(performance, Action.REPLACE, Reason.EVIDENCE_DIFFERS, note)


def find_missing_answers(
    desired: Desired, recorded: Recorded, observed: Observed, difference: Difference, at: Address
) -> str:
    """Find the run whose complete accuracy log is needed for a due verdict but is missing here; "" if none. An earlier
    comparison of the same runs' answers makes the log unnecessary."""
    from reconciler.loadgen.log_files import ACCURACY_LOG
    from reconciler.rules.compliance.judging import find_test

    inputs = desired.detail(at).inputs
    test = find_test(next(str(i.value) for i in inputs if i.name == "test"))
    due = {change.address: change for change in difference.changes if change.how is Work.MAKE}
    runs = {i.name: i.upstream for i in inputs if i.upstream is not None and i.name in test.reads_answers}
    known = (recorded.by_key.get(desired.by_address[address].key, ()) for address in runs.values())
    by_id = {s.id: s for found in (*known, recorded.by_address.get(at, ())) for s in found}
    used = {name: by_id.get(difference.recorded_as.get(address, "")) for name, address in runs.items()}
    if any(address in due for address in runs.values()):
        return ""
    before = by_id.get(due[at].previous) if at in due else None
    if before and test.compare_answers and {(n, s.id) for n, s in used.items() if s} <= set(before.upstream):
        return ""
    for name, summary in used.items():
        logs = [a for a in summary.artifacts if a.name == ACCURACY_LOG] if summary else []
        if any(("objects", a.sha256) in observed.artifacts for a in logs if a.place == "objects"):
            return name
    return ""


def explain_missing_answers(run: str) -> tuple[str, str]:
    """Explain why a verdict cannot be made here, and what to do."""
    why = f"the full accuracy log of the {run} run is missing"
    return why, "run the test where that run was made, or copy .reconcile/objects from there"


def _find_performance_address(audit: CellTest) -> Address:
    assert audit.test.cell is not None
    return RunAddress(audit.test.cell, PERFORMANCE).address


def _is_made(walk: ComparisonState, address: Address) -> bool:
    return address in walk.changes and walk.changes[address].how is Work.MAKE


def _select_judged(walk: ComparisonState, audit: CellTest, alike: Sequence[Summary]) -> Summary | None:
    """Select the newest test until it has a verdict, then the newest that passes against the current runs, if any.
    Return its verdict, or None if it has none."""
    inputs = walk.desired.detail(audit.verdict.address).inputs
    runs = {i.name: i.upstream for i in inputs if i.upstream is not None and i.name in MODES}
    compared = {name: walk.used[address].id for name, address in runs.items() if address in walk.used}
    pairs = [(test, _find_verdict(walk, audit, test, compared)) for test in alike]
    passing = [pair for pair in pairs if pair[1] is not None and not pair[1].problem]
    test, verdict = (passing if passing and pairs[-1][1] is not None else pairs)[-1]
    walk.compare_run(audit.test, test)
    if audit.verdict.address in walk.forced:
        return None
    if verdict is None or any(_is_made(walk, address) for address in runs.values()):
        _judge_again(walk, audit.verdict)
        return None
    walk.compare_run(audit.verdict, verdict)
    return verdict


def _find_verdict(walk: ComparisonState, audit: CellTest, test: Summary, compared: Mapping[str, str]) -> Summary | None:
    wanted = {(AUDIT, test.id), *compared.items()}
    found = [v for v in walk.list_done(audit.verdict) if wanted <= set(v.upstream)]
    return found[-1] if found else None


def _judge_again(walk: ComparisonState, verdict: Resource) -> None:
    if walk.list_done(verdict):
        walk.plan_change(verdict, Action.REPLACE, Reason.UPSTREAM_REPLACED)
    else:
        walk.plan_creation(verdict)


def _repeat_failed(walk: ComparisonState, audit: CellTest, alike: Sequence[Summary], verdict: Summary) -> None:
    name, most, tried = audit.test.address.label, audit.test.attempts, len(alike)
    lasting = alike[-1].lasting
    performance = walk.desired.by_address[_find_performance_address(audit)]
    measured = len(walk.list_done(performance))
    if verdict.by_speed and measured < performance.attempts and (measured < tried or tried >= most):
        note = f"{name} was slower, attempt {measured + 1} of {performance.attempts}"
        walk.plan_change(performance, Action.REPLACE, Reason.PREVIOUS_ATTEMPT_FAILED, note)
        _judge_again(walk, audit.verdict)
    elif tried < most and not lasting:
        note = f"its verdict was FAIL, attempt {tried + 1} of {most}"
        walk.plan_change(audit.test, Action.REPLACE, Reason.PREVIOUS_ATTEMPT_FAILED, note)
        _judge_again(walk, audit.verdict)
    else:
        fix = f"fix the system, raise compliance.{name}.attempts, or repeat with --rerun kind={name}"
        if verdict.by_speed:
            fix = f"stop other work on the machine, raise `attempts`, or repeat with --rerun cell={audit.test.cell}"
        fix = LASTING if lasting else fix
        walk.findings.append(Finding(AUDIT_FAILS, str(audit.test.cell), f"{name}: {verdict.problem}", fix))
