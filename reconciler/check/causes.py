"""Causes of findings: what most likely happened, which rule it violates, and what evidence would settle it.

One mistake can appear in many cells and files, but a reviewer wants to read about it once. No cause claims intent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from reconciler.resource.kinds import strip_variant
from reconciler.resource.rules import Severity
from reconciler.tree.findings import Facts, TreeFinding


class Cause(Struct, frozen=True):
    """Cause of findings. ``title``: what happened, as one clause. ``rule``: the violated rule and the document that
    states it. ``settled_by``: the evidence that the submitter would have to show."""

    id: str
    title: str
    rule: str
    settled_by: str


_LOGS = "submission rules: a result contains the logs of its own runs"
_CONF = "submission rules: user.conf is the file used for the published run"
_TEST = "compliance rules: the verification compares the published run with the test's run"
_ACCURACY = "submission rules: accuracy.txt is derived from the published accuracy run"
_LOADGEN = "LoadGen writes both numbers itself, in one run"
_CONF_OF_RUN = "the user.conf used for the published run"
_VERIFIED_AGAIN = "the verification repeated on the published logs"
_VERIFICATION = "the complete output of the verification, run on the published logs"
_LOG_AS_WRITTEN = "the log as LoadGen wrote it"

# Worst first: causes that leave the published number unproven, then those that contradict a verdict, then those that
# only misdescribe a run.
CAUSES: tuple[Cause, ...] = (
    Cause(
        "accuracy-of-another-run",
        "the published accuracy is not confirmed by its log",
        _ACCURACY,
        "the accuracy run of this cell with its detail log, and accuracy.txt derived from it",
    ),
    Cause(
        "copied-logs",
        "one log is published for two runs",
        _LOGS,
        "the log of each run, or a statement that one result is inferred from the other",
    ),
    Cause(
        "denied-verdict",
        "a compliance test is marked passed, but its logs show a failure",
        _TEST,
        "the verification repeated on the published logs; if it fails, the test repeated",
    ),
    Cause(
        "contradicted-verdict",
        "a compliance test is marked passed, but the figures above the verdict show a failure",
        _TEST,
        "the complete output of the verification, run on the published logs; if it fails, the test repeated",
    ),
    Cause(
        "audited-run",
        "the published run has settings of a compliance test, or of an audit.config",
        "compliance rules: audit.config is removed before the submitted runs, which have the round's settings",
        "the run repeated without audit.config and such settings",
    ),
    Cause(
        "other-scenario",
        "a log is in the folder of another scenario or mode",
        _LOGS,
        "the logs of a run of this scenario",
    ),
    Cause("impossible-log", "a log contradicts itself", _LOADGEN, _LOG_AS_WRITTEN),
    Cause(
        "impossible-accuracy",
        "the answers or accuracy.txt cannot come from the accuracy run and its scorer",
        _ACCURACY,
        "the complete accuracy log, with the hash in accuracy.txt, and its score computed again",
    ),
    Cause(
        "small-library",
        "a run used more samples than its library reports",
        "inference rules: performance runs load samples of the round's data set",
        "the number of samples of the library",
    ),
    Cause(
        "revision",
        "one LoadGen commit has two descriptions",
        "LoadGen takes its date and version from its commit",
        "the log as LoadGen wrote it, or its LoadGen sources",
    ),
    Cause(
        "other-summary",
        "the summary does not match its detail log",
        _LOADGEN,
        "the summary that LoadGen wrote with the detail log",
    ),
    Cause(
        "percentile",
        "a run used another latency percentile than the round's",
        "inference rules: the latency of a scenario is stated by the round's percentile",
        "the logs of a run at the round's percentile",
    ),
    Cause(
        "seeds",
        "a run does not use the round's seeds",
        "inference rules: the random seeds of the round are used in every run",
        "the run repeated with the round's LoadGen and mlperf.conf",
    ),
    Cause(
        "not-a-test",
        "the log of a compliance test has other settings or another scenario than the test",
        "compliance rules: a test is run under its own audit.config",
        "the logs of the test's own run",
    ),
    Cause("verdict-of-other-runs", "a compliance verdict does not match the published runs", _TEST, _VERIFIED_AGAIN),
    Cause("missing-verdict", "the logs of a compliance test pass, but its verification does not", _TEST, _VERIFICATION),
    Cause(
        "empty-test",
        "a compliance test is marked passed, but logged no answers",
        _TEST,
        "the test repeated so that it logs answers, and its verification",
    ),
    Cause(
        "verdict-without-figures",
        "the verdict of a compliance test does not state the compared values",
        _TEST,
        _VERIFICATION,
    ),
    Cause(
        "power-of-another-session",
        "the files of a power session contradict each other",
        "power rules: the files of a session are published unchanged",
        "all files of the session that measured the published run, unchanged",
    ),
    Cause(
        "hash",
        "the hash in accuracy.txt does not match the accuracy log",
        "submission rules: truncation",
        "the untruncated accuracy log, to compute its SHA-256",
    ),
    Cause(
        "no-hash",
        "accuracy.txt has no hash of the accuracy log",
        "submission rules: truncation",
        "the hash that the truncation script wrote, with the untruncated accuracy log",
    ),
    Cause(
        "short-accuracy",
        "the accuracy run has another number of samples than the round requires",
        "submission rules: an accuracy run covers the complete validation set",
        "the accuracy run over the complete set",
    ),
    Cause(
        "category",
        "a result not allowed for the system's type or division",
        "submission rules: system types and divisions",
        "a corrected system description, or the result moved to the open division",
    ),
    Cause(
        "description",
        "the system description contradicts the folder that it describes",
        "submission rules: system descriptions",
        "a corrected systems/<system>.json",
    ),
    Cause(
        "endpoints",
        "the output of the endpoints harness contradicts itself",
        "the harness derives both values from one run",
        "the complete output folder of one run",
    ),
    Cause("unreadable", "a file cannot be read", "submission rules: files of a result", "the original file"),
    Cause("conf-of-quick-test", "user.conf configures a run as short as a quick test", _CONF, _CONF_OF_RUN),
    Cause("conf-of-audit-run", "user.conf has the setting of a compliance run", _CONF, _CONF_OF_RUN),
    Cause("conf-of-accuracy-run", "user.conf has the setting of the accuracy run", _CONF, _CONF_OF_RUN),
    Cause("conf-of-other-cell", "user.conf has the setting of another result", _CONF, _CONF_OF_RUN),
    Cause(
        "conf-of-several",
        "one user.conf is published for several results, but does not match the runs",
        _CONF,
        "the user.conf of each published run",
    ),
    Cause("conf-said-twice", "which line of user.conf was used, if a setting appears twice?", _CONF, _CONF_OF_RUN),
    Cause("conf-of-another-run", "user.conf does not match the run", _CONF, _CONF_OF_RUN),
    Cause(
        "rehearsal",
        "a results folder is marked as a rehearsal",
        "submission rules: submissions are measured on the round's data",
        "the intended result",
    ),
    Cause(
        "conf-estimate",
        "the expected rate or latency in user.conf differs from the run",
        f"{_CONF}; an estimate sizes the run but is not measured",
        _CONF_OF_RUN,
    ),
    Cause("conf-detail", "why does user.conf differ from LoadGen's log?", _CONF, "an answer of the submitter"),
    Cause("two-divisions", "is one result published in two divisions?", _LOGS, "an answer of the submitter"),
    Cause("two-categories", "is one machine submitted in two categories?", _LOGS, "an answer of the submitter"),
    Cause("two-submitters", "is one machine submitted by two submitters?", _LOGS, "an answer of the submitters"),
    Cause(
        "tests-of-own-scenario",
        "why is a result inferred from another scenario than its tests?",
        "compliance README: a test is compared with the submission's run",
        "the run used by the tests, or tests of the published scenario",
    ),
    Cause(
        "uncounted-errors",
        "which LoadGen errors are missing from its detail log?",
        "submission rules: a submitted log contains only ERRORs that the round waives",
        "the detail log as LoadGen wrote it",
    ),
    Cause(
        "clock-set-back",
        "was the machine's clock set back during a run?",
        "LoadGen takes latencies from the system's clock",
        "the cause of the clock change, or the run repeated",
    ),
    Cause(
        "dataset",
        "the runs of a result cover different datasets",
        "inference rules: all runs of a result use the same data set",
        "the logs of runs on the round's data set",
    ),
)

_OURS = "ours"
_BY_ID = {cause.id: cause for cause in CAUSES}
_RANKS = {cause.id: rank for rank, cause in enumerate(CAUSES)}


def find_cause(finding: TreeFinding) -> Cause:
    """Return the cause that a finding or its rule names. If neither names one, as for notes, make a cause of the rule
    itself."""
    rule = finding.rule
    if named := _BY_ID.get(finding.complaint.mechanism or rule.cause):
        return named
    # This project's own statements are not rules of any round.
    none = "none, a question" if finding.severity is Severity.NOTE else "the files of one result fit each other"
    sources = ", ".join(source for source in rule.sources if source != _OURS) or none
    return Cause(rule.id, rule.title, sources, "an answer of the submitter")


def rank_cause(cause: Cause) -> int:
    """Return 0 for the worst consequence; causes that only repeat their rule come last."""
    return _RANKS.get(cause.id, len(CAUSES))


# Findings grouped by their most likely explanation: a cause, a submitter, and the affected cells.

_SEVERITIES = tuple(Severity)


class FoldedCell(Struct, frozen=True):
    """Cells with identical findings: accuracy variants of a benchmark, or one set of logs published under several
    system names or scenarios. ``shown``: closed/sys/llama2-70b-{99,99.9}/Offline."""

    shown: str
    cells: tuple[str, ...]


class CauseGroup(Struct, frozen=True):
    """Findings of one submitter with the same cause, in their original order. ``severity``: the worst among them."""

    cause: Cause
    submitter: str
    findings: tuple[TreeFinding, ...]
    cells: tuple[FoldedCell, ...]

    @property
    def title(self) -> str:
        """Title of the cause, phrased as a question if the findings are not accusations."""
        asked = self.severity is not Severity.NOTE or self.cause.title.endswith("?")
        return self.cause.title if asked else f"is it true that {self.cause.title}?"

    @property
    def severity(self) -> Severity:
        return min((finding.severity for finding in self.findings), key=_SEVERITIES.index)


def group_by_cause(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> tuple[CauseGroup, ...]:
    """Group findings and sort the groups by severity, consequence of the cause, and number of cells. Errors and
    questions stay separate."""
    grouped: dict[tuple[str, bool, str], list[TreeFinding]] = {}
    for finding in findings:
        note = finding.severity is Severity.NOTE
        grouped.setdefault((find_cause(finding).id, note, finding.submitter), []).append(finding)
    logs = {(item.submitter, item.cell): dict(item.digests).get("performance", "") for item in facts}
    groups = [
        CauseGroup(
            find_cause(members[0]), submitter, tuple(members), fold_cells(submitter, (f.cell for f in members), logs)
        )
        for (_, _, submitter), members in grouped.items()
    ]
    return tuple(sorted(groups, key=_rank_group))


def _rank_group(group: CauseGroup) -> tuple[int, int, str, int, str]:
    rank = _SEVERITIES.index(group.severity)
    return rank, rank_cause(group.cause), group.cause.id, -len(group.cells), group.submitter.lower()


def fold_cells(submitter: str, cells: Iterable[str], logs: Mapping[tuple[str, str], str]) -> tuple[FoldedCell, ...]:
    """Fold cells with identical findings, sorted by the shown text. ``logs``: (submitter, cell) → digest of its
    performance log."""
    twins: dict[tuple[str, ...], list[str]] = {}
    for cell in sorted(set(cells)):
        parts = cell.split("/")
        family = strip_variant(parts[2]) if len(parts) > 2 else ""
        twins.setdefault((*parts[:2], family, *parts[3:]), []).append(cell)
    renamed: dict[str, list[list[str]]] = {}
    for members in twins.values():
        digest = logs.get((submitter, members[0]), "")
        renamed.setdefault(digest or f"cell {members[0]}", []).append(members)
    groups = [[cell for members in group for cell in members] for group in renamed.values()]
    folded = [FoldedCell(_join_cells(cells), tuple(cells)) for cells in groups]
    return tuple(sorted(folded, key=lambda item: item.shown))


def _join_cells(cells: Sequence[str]) -> str:
    """Return closed/sys/bert-{99,99.9}/Offline for cells that are all combinations of some parts; others are joined
    with =."""
    parts = [cell.split("/") for cell in cells]
    choices = [sorted(set(column)) for column in zip(*parts, strict=False)]
    if len({len(row) for row in parts}) > 1 or math.prod(map(len, choices)) != len(cells):
        return " = ".join(cells)
    return "/".join(map(_join_choices, choices))


def _join_choices(choices: Sequence[str]) -> str:
    """Return bert-{99,99.9} for bert-99 and bert-99.9."""
    if len(choices) == 1:
        return choices[0]
    words = zip(*(choice.split("-")[:-1] for choice in choices), strict=False)
    shared = "".join(f"{one[0]}-" for one in takewhile(lambda one: len(set(one)) == 1, words))
    return f"{shared}{{{','.join(choice.removeprefix(shared) for choice in choices)}}}"
