"""Select the records of a cell: the publishable pair of runs, and the score of its accuracy run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from reconciler.diff.change import CONTRADICTED, Finding
from reconciler.resource.kinds import Address
from reconciler.resource.records import IMPORTED, Judgement, LogFinding, Summary

# Evidence that may differ between a cell's runs according to the rules (rules.md: LoadGen revisions may mix).
ALLOWED_TO_DIFFER = frozenset({"loadgen.version", "loadgen.digest"})
LASTING = "change the run's settings as the message says; a repeat or another target gives the same result"


def select_valid(summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """Select the performance runs that LoadGen called VALID."""
    return tuple(s for s in summaries if s.validity != "INVALID")


def select_trusted(summaries: tuple[Summary, ...], judgements: Mapping[str, Judgement]) -> tuple[Summary, ...]:
    """Select the runs whose kept logs contain no contradiction, or all runs if each has one."""
    good = tuple(s for s in summaries if s.id not in judgements or not judgements[s.id].findings)
    return (good or summaries) if judgements else summaries


def list_contradictions(
    address: Address, summary: Summary | None, judgements: Mapping[str, Judgement]
) -> tuple[Finding, ...]:
    """Return the findings about a chosen record's kept logs, with their lines."""
    judgement = judgements.get(summary.id) if summary is not None else None
    usual = "check which program wrote the file, then measure again: --rerun"
    items = judgement.findings if judgement is not None else ()
    return tuple(
        Finding(CONTRADICTED, str(address), _describe(item), LASTING if item.lasting else usual) for item in items
    )


def _describe(item: LogFinding) -> str:
    where = f"{item.file}:{item.line}" if item.line else item.file
    return f"{item.rule}: {where}: {item.text}"


def _read_metric(summary: Summary) -> Decimal:
    try:
        return Decimal(summary.metric[0]) if summary.metric else Decimal(0)
    except InvalidOperation:
        return Decimal(0)


def choose_by_policy(summaries: Sequence[Summary], policy: str, *, lower_is_better: bool = False) -> Summary | None:
    """Select the run to publish by the declared policy. For an even number of runs, "median" is the worse of the middle
    two."""
    if not summaries:
        return None
    if policy == "latest":
        return summaries[-1]
    ranked = sorted(summaries, key=lambda s: (_read_metric(s), s.started), reverse=lower_is_better)
    return ranked[-1] if policy == "best" else ranked[(len(ranked) - 1) // 2]


def find_differing_evidence(
    a: Summary, b: Summary, allowed: frozenset[str] = ALLOWED_TO_DIFFER
) -> tuple[tuple[str, str, str], ...]:
    """Return evidence that differs between two runs: (name, in a, in b). A fact known for only one run is a difference,
    unless one of them is imported; unknown facts of an imported run prevent packaging instead."""
    if a.evidence == b.evidence:
        return ()
    left, right = dict(a.evidence), dict(b.evidence)
    imported = IMPORTED in a.marks or IMPORTED in b.marks
    names = sorted((set(left) & set(right) if imported else set(left) | set(right)) - allowed)
    return tuple((n, left.get(n, ""), right.get(n, "")) for n in names if left.get(n) != right.get(n))


def _matches_any(run: Summary, others: Sequence[Summary], allowed: frozenset[str]) -> bool:
    return any(not find_differing_evidence(run, other, allowed) for other in others)


def select_runs(
    performance: Sequence[Summary],
    accuracy: Sequence[Summary],
    policy: str,
    *,
    lower: bool,
    tests: Sequence[tuple[Sequence[Summary], frozenset[str]]] = (),
) -> tuple[Summary | None, Summary | None]:
    """Select the performance run that the policy publishes, and the newest accuracy run that may accompany it.

    The policy chooses among the runs that have an accuracy run with equal evidence, or among all runs if none has one.
    ``tests``: the records of each compliance test, and their allowed differences. If tests exist, but no performance
    run matches them all, the newest run is taken: older runs that differ from it are repeated, so that the repeats end.
    """
    run = [item for item in ((accuracy, ALLOWED_TO_DIFFER), *tests) if item[0]]
    together = [p for p in performance if run and all(_matches_any(p, *item) for item in run)]
    if any(records for records, _ in tests) and not together and performance:
        published: Summary | None = performance[-1]
    else:
        published = choose_by_policy(together or performance, policy, lower_is_better=lower)
    if published is None:
        return None, accuracy[-1] if accuracy else None
    matching = [a for a in accuracy if not find_differing_evidence(published, a)]
    candidates = matching or accuracy
    return published, candidates[-1] if candidates else None
