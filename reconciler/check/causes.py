"""Causes of findings: what most likely happened, which rule it violates, and what evidence would settle it.

One mistake can appear in many cells and files, but a reviewer wants to read about it once. No cause claims intent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.resource.rules import Severity
from reconciler.rules.benchmark_facts import strip_variant
from reconciler.tree.findings import Facts, TreeFinding


class Cause(Struct, frozen=True):
    """Cause of findings. ``title``: what happened, as one clause. ``rule``: the violated rule and the document that
    states it. ``settled_by``: the evidence that the submitter would have to show."""

    id: str
    title: str
    rule: str
    settled_by: str


_LOGS = "submission rules: the logs of a result are those of its own runs"
_CONF = "submission rules: user.conf is the file that the published run was started with"
_TEST = "compliance rules: the verification compares the published run with the test's run"
_ACCURACY = "submission rules: accuracy.txt is made from the accuracy run that is published"
_LOADGEN = "LoadGen writes both numbers itself, in one run"

# Worst first: causes that leave the published number unproven, then those that contradict a verdict, then those that
# only misdescribe a run.
CAUSES: tuple[Cause, ...] = (
    Cause(
        "accuracy-of-another-run",
        "the published accuracy is not confirmed by its log",
        _ACCURACY,
        "the accuracy run of this cell with its detail log, and accuracy.txt made from it",
    ),
    Cause(
        "copied-logs",
        "one log is published for two runs",
        _LOGS,
        "the log of each run, or the statement that one result is derived from the other",
    ),
    Cause(
        "denied-verdict",
        "a compliance test is called passed, and its own logs say that it failed",
        _TEST,
        "the verification repeated on the published logs; where it fails, the test repeated",
    ),
    Cause(
        "contradicted-verdict",
        "a compliance test is called passed, and the figures above the verdict say that it failed",
        _TEST,
        "the whole output of the verification, run on the published logs; where it fails, the test repeated",
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
    Cause("impossible-log", "a log contradicts itself", _LOADGEN, "the log as LoadGen wrote it"),
    Cause(
        "impossible-accuracy",
        "the answers or accuracy.txt are not what the accuracy run and its scorer can have left",
        _ACCURACY,
        "the whole accuracy log, whose hash is in accuracy.txt, and the score computed from it again",
    ),
    Cause(
        "small-library",
        "a run used more samples than its library says that it has",
        "inference rules: performance runs load samples of the round's data set",
        "how many samples the library had",
    ),
    Cause(
        "revision",
        "one commit of LoadGen is described in two ways",
        "LoadGen takes its date and version from the commit that it is built from",
        "the log as LoadGen wrote it, or the sources that it was built from",
    ),
    Cause(
        "other-summary",
        "the summary is not that of its detail log",
        _LOADGEN,
        "the summary that LoadGen wrote with the detail log",
    ),
    Cause(
        "percentile",
        "a run was judged by another percentile of its latency than the round's",
        "inference rules: the latency of a scenario is stated by the round's percentile",
        "the logs of a run at the round's percentile",
    ),
    Cause(
        "seeds",
        "a run does not carry the seeds of the round",
        "inference rules: the random seeds of the round are used in every run",
        "the run repeated with the round's LoadGen and mlperf.conf",
    ),
    Cause(
        "not-a-test",
        "the log of a compliance test has not the settings or the scenario of the test",
        "compliance rules: a test is run under its own audit.config",
        "the logs of the test's own run",
    ),
    Cause(
        "verdict-of-other-runs",
        "a compliance verdict does not state what the published runs have",
        _TEST,
        "the verification repeated on the published logs",
    ),
    Cause(
        "missing-verdict",
        "the logs of a compliance test pass, and its verification does not say so",
        _TEST,
        "the whole output of the verification, run on the published logs",
    ),
    Cause(
        "empty-test",
        "a compliance test is called passed, and logged no answers",
        _TEST,
        "the test repeated so that it logs answers, and its verification",
    ),
    Cause(
        "verdict-without-figures",
        "the verdict of a compliance test does not say what it compared",
        _TEST,
        "the whole output of the verification, run on the published logs",
    ),
    Cause(
        "power-of-another-session",
        "the files of a power session contradict each other",
        "power rules: the files of a session are published as client and director wrote them",
        "all files of the session that measured the published run, unchanged",
    ),
    Cause(
        "hash",
        "the hash in accuracy.txt is not that of the accuracy log",
        "submission rules: truncation",
        "the untruncated accuracy log, whose SHA-256 can be taken",
    ),
    Cause(
        "no-hash",
        "accuracy.txt has no hash of the accuracy log",
        "submission rules: truncation",
        "the hash that the truncation script wrote, with the untruncated accuracy log",
    ),
    Cause(
        "short-accuracy",
        "the accuracy run has another number of samples than the round asks for",
        "submission rules: an accuracy run covers the whole validation set",
        "the accuracy run over the whole set",
    ),
    Cause(
        "category",
        "a result that the system's type or the division cannot have",
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
        "the output folder of one run, whole",
    ),
    Cause(
        "unreadable",
        "a file that is there cannot be read",
        "submission rules: files of a result",
        "the file as it was written",
    ),
    Cause(
        "conf-of-quick-test",
        "user.conf asks for a run as short as a quick test",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-audit-run",
        "user.conf has the setting of a compliance run",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-accuracy-run",
        "user.conf has the setting of the accuracy run",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-other-cell",
        "user.conf has the setting of another result",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-several",
        "one user.conf is published for several results, and does not say what ran",
        _CONF,
        "the user.conf of each published run",
    ),
    Cause(
        "conf-said-twice",
        "which line of user.conf ran, where it states a setting twice?",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-another-run",
        "user.conf does not say what ran",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "rehearsal",
        "a folder among the results says that it is a rehearsal",
        "submission rules: what is submitted was measured on the round's data",
        "the result that was meant",
    ),
    Cause(
        "conf-estimate",
        "the expected rate or latency in user.conf is not the one that ran",
        f"{_CONF}; an estimate sizes the run and is not what is measured",
        "the user.conf that the published run was started with",
    ),
    Cause("conf-detail", "why is user.conf not exactly what LoadGen logged?", _CONF, "an answer of the submitter"),
    Cause("two-divisions", "is one result published in two divisions?", _LOGS, "an answer of the submitter"),
    Cause("two-categories", "is one machine entered in two categories?", _LOGS, "an answer of the submitter"),
    Cause("two-submitters", "is one machine entered by two submitters?", _LOGS, "an answer of the submitters"),
    Cause(
        "tests-of-own-scenario",
        "why is a result inferred from another scenario than its tests are of?",
        "compliance README: a test is compared with the submission's run",
        "the run that the tests were compared with, or tests of the scenario that is published",
    ),
    Cause(
        "uncounted-errors",
        "which errors did LoadGen meet that its detail log does not hold?",
        "submission rules: a submitted log holds no ERROR that the round does not waive",
        "the detail log as LoadGen wrote it",
    ),
    Cause(
        "clock-set-back",
        "was the machine's clock set back during a run?",
        "LoadGen takes latencies from the system's clock",
        "what set the clock, or the run repeated",
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
    """Return the cause that a finding names, or its rule's cause. A rule without one, such as a note's, is its own
    cause."""
    rule = finding.rule
    named = _BY_ID.get(finding.complaint.mechanism or rule.cause)
    return named or Cause(rule.id, rule.title, _name_sources(finding), "an answer of the submitter")


def _name_sources(finding: TreeFinding) -> str:
    """This project's own statements are not rules of any round."""
    none = "none, a question" if finding.severity is Severity.NOTE else "the files of one result fit each other"
    return ", ".join(source for source in finding.rule.sources if source != _OURS) or none


def rank_cause(cause: Cause) -> int:
    """Return 0 for the worst consequence; causes that only repeat their rule come last."""
    return _RANKS.get(cause.id, len(CAUSES))


# Findings grouped by their most likely explanation: a cause, a submitter, and the affected cells.

_SEVERITIES = tuple(Severity)


class FoldedCell(Struct, frozen=True):
    """Cells with identical findings: accuracy variants of a benchmark, or one set of logs published under several
    system names. ``shown``: llama2-70b-{99,99.9} for variants; shared logs are joined with =."""

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
        return self.cause.title if asked else f"is it so that {self.cause.title}?"

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
    logs = _read_log_digests(facts)
    groups = [
        CauseGroup(find_cause(members[0]), submitter, tuple(members), _fold(submitter, members, logs))
        for (_, _, submitter), members in grouped.items()
    ]
    return tuple(sorted(groups, key=_order))


def _fold(
    submitter: str, findings: Sequence[TreeFinding], logs: Mapping[tuple[str, str], str]
) -> tuple[FoldedCell, ...]:
    return fold_cells(submitter, (finding.cell for finding in findings), logs)


def _order(group: CauseGroup) -> tuple[int, int, str, int, str]:
    note = group.severity is Severity.NOTE
    return int(note), rank_cause(group.cause), group.cause.id, -len(group.cells), group.submitter.lower()


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
    folded = [
        FoldedCell(" = ".join(map(_show_twins, groups)), tuple(cell for members in groups for cell in members))
        for groups in renamed.values()
    ]
    return tuple(sorted(folded, key=lambda item: item.shown))


def _show_twins(cells: Sequence[str]) -> str:
    """Return closed/sys/bert-{99,99.9}/Offline for two cells that differ only in their accuracy variant."""
    if len(cells) == 1:
        return cells[0]
    parts = cells[0].split("/")
    family = strip_variant(parts[2])
    variants = [cell.split("/")[2].removeprefix(family).removeprefix("-") for cell in cells]
    return "/".join([*parts[:2], f"{family}-{{{','.join(sorted(variants))}}}", *parts[3:]])


def _read_log_digests(facts: Sequence[Facts]) -> dict[tuple[str, str], str]:
    return {(item.submitter, item.cell): dict(item.digests).get("performance", "") for item in facts}
