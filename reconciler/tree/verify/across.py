"""What only shows when cells are compared: one log in two places, a user.conf that is another cell's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from reconciler.mlperf.benchmark_facts import strip_variant
from reconciler.tree.check.demands import OURS
from reconciler.tree.findings import Complaint, Facts, Place, Rule, Severity, TreeFinding
from reconciler.tree.verify.causes import ESTIMATE, OTHER_CELL, SEVERAL

SAME_LOG = Rule("placement.copied", "one log is in two cells", (OURS,))
_CONF = "user-conf.contradicts"
_CONF_DIGEST = "user.conf"
_FEW = 1e-5

Files = Mapping[tuple[str, str, str], str]  # (submitter, cell, run) → the log's path
Fingerprints = Mapping[tuple[str, str, str], tuple[str, ...]]  # the same → what it shares with no other run
Pairs = frozenset[tuple[str, str]]  # (scenario, measured): what may be inferred from what


def verify_copied_logs(facts: Sequence[Facts], files: Files, inferable: Pairs = frozenset()) -> Iterator[TreeFinding]:
    """A detail log that two cells share although neither is inferred from the other, nor the other's accuracy variant.

    The later cell gets the finding.
    """
    seen: dict[str, tuple[Facts, str]] = {}
    for item in facts:
        for run, digest in item.digests:
            if run == _CONF_DIGEST:
                continue
            first, first_run = seen.setdefault(digest, (item, run))
            if (first.submitter, first.cell, first_run) != (item.submitter, item.cell, run):
                finding = _shared(first, first_run, item, run, files, inferable)
                if finding is not None:
                    yield finding


def verify_edited_copies(
    facts: Sequence[Facts], files: Files, fingerprints: Fingerprints, inferable: Pairs = frozenset()
) -> Iterator[TreeFinding]:
    """A detail log that is another cell's although its bytes are not: with other dates, say. The later cell gets the
    finding."""
    seen: dict[str, tuple[Facts, str, str]] = {}
    for item in facts:
        for run, digest in item.digests:
            marks = fingerprints.get((item.submitter, item.cell, run), ())
            known = [seen.setdefault(mark, (item, run, digest)) for mark in marks]
            first, first_run, _ = next((entry for entry in known if entry[2] != digest), (item, run, digest))
            if (first.submitter, first.cell, first_run) != (item.submitter, item.cell, run):
                finding = _shared(first, first_run, item, run, files, inferable)
                if finding is not None:
                    wanted = "latencies or a clock of LoadGen's logger that are not those of another run"
                    complaint = replace(
                        finding.complaint, wanted=wanted, cause="one run's log twice, of which one was changed"
                    )
                    yield replace(finding, complaint=complaint)


def _shared(
    first: Facts, first_run: str, second: Facts, run: str, files: Files, inferable: Pairs
) -> TreeFinding | None:
    severity = Severity.ERROR
    if first.submitter == second.submitter and first_run == run and _may_share(first, second, inferable):
        return None
    if first.submitter == second.submitter and _parts(first)[1:] == _parts(second)[1:] and first_run == run:
        severity = Severity.NOTE  # the same result in two divisions
    return TreeFinding(
        SAME_LOG,
        second.submitter,
        second.cell,
        Complaint(
            Place(files.get((second.submitter, second.cell, run), second.cell)),
            f"the {run} log of {_name(first, second)}{'' if first_run == run else f' ({first_run})'}",
            "a log of its own",
            cause="one run that is published twice, or a log that was copied",
            other=Place(files.get((first.submitter, first.cell, first_run), first.cell)),
            severity=severity,
            mechanism="two-divisions" if severity is Severity.NOTE else "",
        ),
    )


def _name(first: Facts, second: Facts) -> str:
    return first.cell if first.submitter == second.submitter else f"{first.submitter} {first.cell}"


def _may_share(one: Facts, two: Facts, inferable: Pairs) -> bool:
    """One system's variants of one benchmark (-99, -99.9), scenarios of which one may be inferred from the other, or
    both at once."""
    (_, system, benchmark, scenario), (_, system2, benchmark2, scenario2) = _parts(one), _parts(two)
    if system != system2 or strip_variant(one.official or benchmark) != strip_variant(two.official or benchmark2):
        return False
    if scenario == scenario2:
        return benchmark != benchmark2
    return any({made, measured} == {scenario, scenario2} for made, measured in inferable)


def _parts(facts: Facts) -> list[str]:
    return [*facts.cell.split("/"), "", "", ""][:4]


def add_causes(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> Iterator[TreeFinding]:
    """For contradicting user.conf files without a cause of their own: the same file, or its target, in other cells."""
    by_cell = {(item.submitter, item.cell): item for item in facts}
    shared: dict[tuple[str, str], list[Facts]] = {}
    for item in facts:
        for run, digest in item.digests:
            if run == _CONF_DIGEST:
                shared.setdefault((item.submitter, digest), []).append(item)
    for finding in findings:
        own = by_cell.get((finding.submitter, finding.cell))
        asks = finding.severity is Severity.NOTE
        if finding.rule.id != _CONF or finding.complaint.cause or asks or own is None:
            yield finding
            continue
        about_target = finding.complaint.found.startswith("target_")
        text, mechanism = _conf_cause(own, facts if about_target else (), shared)
        if finding.complaint.mechanism == ESTIMATE:
            mechanism = ESTIMATE
        cause = replace(finding.complaint, cause=text, mechanism=mechanism or finding.complaint.mechanism)
        yield replace(finding, complaint=cause)


def _conf_cause(own: Facts, facts: Sequence[Facts], shared: Mapping[tuple[str, str], list[Facts]]) -> tuple[str, str]:
    """What another cell has to do with it, and the id of that cause."""
    if own.conf_target is not None:
        for item in facts:
            same = item.submitter == own.submitter and item.cell != own.cell
            close = same and item.target and abs(item.target - own.conf_target) <= _FEW * item.target
            if close and _are_related(own, item):
                return f"the target that the log of {item.cell} has", OTHER_CELL
    digest = dict(own.digests).get(_CONF_DIGEST, "")
    others = [item for item in shared.get((own.submitter, digest), []) if item.cell != own.cell]
    return (f"one user.conf in {len(others) + 1} cells, as in {others[0].cell}", SEVERAL) if others else ("", "")


def _are_related(one: Facts, two: Facts) -> bool:
    """Cells whose files can be mixed up: of one system, or one benchmark and scenario on two systems. Elsewhere two
    round numbers may be equal by chance."""
    (_, system, benchmark, scenario), (_, system2, benchmark2, scenario2) = _parts(one), _parts(two)
    same_result = (strip_variant(benchmark), scenario) == (strip_variant(benchmark2), scenario2)
    return same_result or (system == system2 and scenario == scenario2)
