"""Findings of one kind that are too many to be of submitters' making: one question about the round, the tool or the
machine that they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.tree.findings import Complaint, Facts, TreeFinding

_PART = 20  # of a round's results: a kind that is found in more than one of so many
_FEWEST = 5  # results: fewer may share a mistake by chance, or by one hand
_SHOWN = 3

Result = tuple[str, str]  # submitter, cell


class _Group(Struct):
    """Findings of one kind, and the results that they are about."""

    findings: list[TreeFinding] = field(default_factory=list)
    results: set[Result] = field(default_factory=set)

    @property
    def submitters(self) -> set[str]:
        return {submitter for submitter, _ in self.results}


def fold_systemic(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> tuple[TreeFinding, ...]:
    """Put one question in the place of all findings of a kind that are about more than a twentieth of a round's results
    and several submitters, or about every result of a submitter that has several, or about several of them where the
    findings have an explanation in common. A rule with a proof is folded for the last reason alone: what it finds is
    so, however often. One that only asks is never folded. The members stay with the question."""
    found = tuple(findings)
    of_round, of_submitter = _list_results(facts, "round"), _list_results(facts, "submitter")
    results = {
        id(finding): _list_about(finding, of_submitter.get(finding.submitter, ()))
        for finding in found
        if not finding.rule.proof and finding.rule.severity is not Severity.NOTE
    }
    folded: dict[int, TreeFinding] = {}
    for name, own in of_submitter.items():
        explained = [finding for finding in found if finding.complaint.common and not finding.complaint.doubt]
        about = {id(finding): _list_about(finding, own) for finding in explained}
        for group in _group_by_kind(explained, about, folded, own):
            if len(group.results) >= _FEWEST:
                common = group.findings[0].complaint.common
                _fold(group, f"the {show_count(len(own), 'result')} of {name}", name, folded, common)
    for name, own in of_round.items():
        for group in _group_by_kind(found, results, folded, own):
            if len(group.results) * _PART > len(own) and len(group.results) >= _FEWEST and len(group.submitters) > 1:
                _fold(group, f"{show_count(len(own), 'result')} of {name}", "", folded)
    for name, own in of_submitter.items():
        for group in _group_by_kind(found, results, folded, own):
            if len(group.results) == len(own) >= _FEWEST:
                _fold(group, f"the {show_count(len(own), 'result')} of {name}", name, folded)
    # Each question once, in the place of the first of its members.
    kept = (folded.get(id(finding), finding) for finding in found)
    return tuple({id(finding): finding for finding in kept}.values())


def _list_results(facts: Sequence[Facts], by: str) -> dict[str, dict[Result, None]]:
    found: dict[str, dict[Result, None]] = {}
    for item in facts:
        found.setdefault(getattr(item, by), {})[item.submitter, item.cell] = None
    return found


def _list_about(finding: TreeFinding, own: Iterable[Result]) -> list[Result]:
    """The results of a finding: one, or all of its system or benchmark."""
    result = finding.submitter, finding.cell
    return [result] if result in own else [each for each in own if each[1].startswith(f"{finding.cell}/")]


def _group_by_kind(
    found: Sequence[TreeFinding],
    results: dict[int, list[Result]],
    folded: dict[int, TreeFinding],
    own: dict[Result, None],
) -> Iterable[_Group]:
    """Findings that are not folded yet about some of a round's or a submitter's results; doubtful ones apart."""
    groups: dict[tuple[str, str, bool, str], _Group] = {}
    for finding in found:
        about = [] if id(finding) in folded else [each for each in results.get(id(finding), ()) if each in own]
        if about:
            complaint = finding.complaint
            kind = finding.rule.id, complaint.aspect, bool(complaint.doubt), complaint.common
            group = groups.setdefault(kind, _Group())
            group.findings.append(finding)
            group.results.update(about)
    return groups.values()


def _fold(group: _Group, of: str, submitter: str, folded: dict[int, TreeFinding], common: str = "") -> None:
    first = group.findings[0]
    cells = list(dict.fromkeys(f"{item.submitter} {item.cell}" for item in group.findings))
    more = f" and {len(cells) - _SHOWN:,} more" if len(cells) > _SHOWN else ""
    count = f"{len(group.results):,} of {of}"
    whose = "these results" if submitter else "results of this round"
    complaint = Complaint(
        first.complaint.place,
        f"{first.complaint.found}, and the like in {count}: {', '.join(cells[:_SHOWN])}{more}",
        first.complaint.wanted,
        cause=common or f"what {whose} have in common: a tool or a machine",
        other=first.complaint.other,
        mechanism=first.complaint.mechanism,
        doubt=f"it is found in {count}, so that the cause is probably the round, the tool or the machine",
        aspect=first.complaint.aspect,
    )
    question = TreeFinding(first.rule, submitter, "", complaint, members=tuple(group.findings))
    folded.update((id(finding), question) for finding in group.findings)
