"""Causes of findings: what most likely happened, which rule it breaks, and what would settle it.

One mistake shows in many cells and files; a reviewer wants to hear of it once. No cause says that somebody meant it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from reconciler.tree.findings import TreeFinding


class Cause(Struct, frozen=True):
    """``title``: what happened, as one clause. ``rule``: what it breaks, with the document that says so.
    ``settled_by``: what the submitter would have to show."""

    id: str
    title: str
    rule: str
    settled_by: str


_LOGS = "submission rules: the logs of a result are those of its own runs"
_CONF = "submission rules: user.conf is the file that the published run was started with"
_TEST = "compliance rules: the verification compares the published run with the test's run"
_ACCURACY = "submission rules: accuracy.txt is made from the accuracy run that is published"
_LOADGEN = "LoadGen writes both numbers itself, in one run"

# Worst first: what makes the published number unproven, then what denies a verdict, then what only misdescribes a run.
CAUSES: tuple[Cause, ...] = (
    Cause(
        "accuracy-of-another-run",
        "the published accuracy is of another run",
        _ACCURACY,
        "the accuracy run of this cell with its detail log, and accuracy.txt made from it",
    ),
    Cause(
        "copied-logs",
        "one log is published for two results",
        _LOGS,
        "the logs of each result's own run, or the statement that one result is derived from the other",
    ),
    Cause(
        "denied-verdict",
        "a compliance test is called passed, and its own logs say that it failed",
        _TEST,
        "the verification repeated on the published logs; where it fails, the test repeated",
    ),
    Cause(
        "edited-verdict",
        "a compliance test is called passed, and the figures above the verdict say that it failed",
        _TEST,
        "the whole output of the verification, run on the published logs; where it fails, the test repeated",
    ),
    Cause(
        "audited-run",
        "the published run was made under the settings of a compliance test",
        "compliance rules: audit.config is removed before the submitted runs",
        "the run repeated without audit.config",
    ),
    Cause(
        "other-scenario",
        "a log stands in the folder of another scenario or mode",
        _LOGS,
        "the logs of a run of this scenario",
    ),
    Cause(
        "impossible-log",
        "a log contradicts itself",
        _LOADGEN,
        "the log as LoadGen wrote it",
    ),
    Cause(
        "impossible-accuracy",
        "the answers or accuracy.txt are not what the accuracy run and its scorer can have left",
        _ACCURACY,
        "the whole accuracy log, whose hash is in accuracy.txt, and the score made again from it",
    ),
    Cause(
        "other-summary",
        "the summary is not that of the run",
        _LOADGEN,
        "the summary that LoadGen wrote beside the detail log",
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
        "a compliance run is not the run of its test",
        "compliance rules: a test is run under its own audit.config",
        "the logs of the test's own run",
    ),
    Cause(
        "verdict-of-other-runs",
        "a compliance verdict was made on other runs than those published",
        _TEST,
        "the verification repeated on the published logs",
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
        "the published power is not that of the session beside it",
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
        "user.conf is that of a quick test",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-audit-run",
        "user.conf was written last by a compliance run",
        _CONF,
        "the user.conf that the published run was started with",
    ),
    Cause(
        "conf-of-accuracy-run",
        "user.conf was written last by the accuracy run",
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
    Cause(
        "uncounted-errors",
        "which errors did LoadGen meet that its detail log does not hold?",
        "submission rules: a submitted log holds no ERROR that the round does not waive",
        "the detail log as LoadGen wrote it",
    ),
    Cause(
        "dataset",
        "the runs of a result cover different datasets",
        "inference rules: all runs of a result use the same data set",
        "the logs of runs on the round's data set",
    ),
)

# A rule's findings are counted under this cause unless they name another one themselves.
_OF_RULES: Mapping[str, str] = {
    "accuracy.answers": "impossible-accuracy",
    "accuracy.hash": "hash",
    "accuracy.hashes": "hash",
    "accuracy.possible": "impossible-accuracy",
    "accuracy.samples": "accuracy-of-another-run",
    "compliance.answers": "denied-verdict",
    "compliance.counts": "verdict-of-other-runs",
    "compliance.empty": "empty-test",
    "compliance.figures": "verdict-without-figures",
    "compliance.passes": "denied-verdict",
    "compliance.scores": "verdict-of-other-runs",
    "compliance.settings": "not-a-test",
    "compliance.stated": "edited-verdict",
    "compliance.verdicts": "verdict-without-figures",
    "files.readable": "unreadable",
    "log.consistency": "impossible-log",
    "log.duration": "impossible-log",
    "log.trace": "impossible-log",
    "log.validity": "impossible-log",
    "measurements.rehearsal": "rehearsal",
    "measurements.retraining": "category",
    "placement.accuracy": "accuracy-of-another-run",
    "placement.compliance": "not-a-test",
    "placement.copied": "copied-logs",
    "placement.endpoints": "other-scenario",
    "placement.measurements": "other-scenario",
    "placement.performance": "other-scenario",
    "power.digests": "power-of-another-session",
    "power.phases": "power-of-another-session",
    "power.products": "power-of-another-session",
    "power.session": "power-of-another-session",
    "power.times": "power-of-another-session",
    "power.watts": "power-of-another-session",
    "run.percentile": "percentile",
    "runs.dataset": "dataset",
    "runs.revision": "impossible-log",
    "runs.seeds": "seeds",
    "summary.contradicts": "other-summary",
    "system.category": "category",
    "system.description": "description",
    "system.names": "description",
    "user-conf.contradicts": "conf-of-another-run",
    "user-conf.refused": "conf-of-another-run",
}
_BY_ID = {cause.id: cause for cause in CAUSES}
_RANKS = {cause.id: rank for rank, cause in enumerate(CAUSES)}


def find_cause(finding: TreeFinding) -> Cause:
    """The cause that a finding names, else that of its rule; a rule without one, as those of notes, is its own."""
    rule = finding.rule
    named = _BY_ID.get(finding.complaint.mechanism or _OF_RULES.get(rule.id, ""))
    if named is None and rule.kind == "endpoints":
        named = _BY_ID["endpoints"]
    return named or Cause(rule.id, rule.title, ", ".join(rule.sources), "an answer of the submitter")


def rank_cause(cause: Cause) -> int:
    """0 for the worst consequence; causes that are no more than their rule come last."""
    return _RANKS.get(cause.id, len(CAUSES))
