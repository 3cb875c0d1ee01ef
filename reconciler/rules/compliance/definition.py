"""Definition of a compliance test: the input logs, the test's declarations, its judge function, and its verdict.

Each test is one module with a ``ComplianceTest``; ``judging.py`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.rules.compliance.entries import Entry, read_entries
from reconciler.rules.compliance.scores import Slack

PASS, FAIL = "TEST PASS", "TEST FAIL"  # the lines that the submission checkers look for


class Part(Struct, frozen=True):
    """One comparison of a test: why it fails, with figures; and the compared values in the order of its text, as text.
    ``by_speed``: it fails only because the scores of two runs differ too much, so either may be the outlier. ``where``:
    file and line of the first wrong answer. ``by_type``: the official script passes the answers,
    because the type in which it reads them compares only a part of each."""

    reasons: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    by_speed: bool = False
    where: str = ""
    by_type: bool = False

    @property
    def passed(self) -> bool:
        return not self.reasons


class AuditVerdict(Part, frozen=True, kw_only=True):
    """Verdict of a test. ``notes``: remarks on a pass, such as why the fallback was used. ``files``: texts of the
    verify files by name."""

    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def make_verdict(part: Part, title: str, file: str) -> AuditVerdict:
    """Return the verdict of a test with one comparison and one verify file."""
    files = {file: render_verify_text(title, part)}
    return AuditVerdict(part.reasons, part.figures, part.by_speed, part.where, files=files)


def render_verify_text(title: str, part: Part) -> str:
    """Return the text of a verify file. TEST PASS is on a separate line; a failure lists its reasons."""
    lines = [title, *(f"{name}: {value}" for name, value in part.figures.items())]
    lines += [f"{FAIL}: {reason}" for reason in part.reasons] or [PASS]
    return "".join(f"{line}\n" for line in lines)


def merge_parts(figures: Iterable[tuple[str, Part]]) -> dict[str, str]:
    """Merge the figures of several parts, each under its part's name."""
    return {f"{name}.{key}": value for name, part in figures for key, value in part.figures.items()}


class RunLogs(Struct, frozen=True):
    """Logs of one run, empty if not available. ``answers`` returns the lines of the entire accuracy log from the start
    on each call; None if not available."""

    detail: bytes = b""
    summary: bytes = b""
    answers: Callable[[], Iterable[bytes]] | None = None

    def read_entries(self, run: str) -> Iterable[Entry]:
        if self.answers is None:
            raise MissingLogError(run)
        return read_entries(self.answers(), f"{ACCURACY_LOG} of the {run} run")

    def read_detail_log(self, run: str) -> DetailLog:
        if not self.detail:
            raise MissingLogError(run)
        return parse_detail(self.detail, f"{DETAIL} of the {run} run")

    def read_summary_log(self, run: str) -> SummaryLog:
        if not self.summary:
            raise MissingLogError(run)
        return parse_summary(self.summary, f"{SUMMARY} of the {run} run")


class MissingLogError(LookupError):
    """A verdict needs an unavailable log of a run (by name), usually the complete accuracy log."""


class VerdictInputs(Struct, frozen=True):
    """Inputs of a verdict. ``limits``: the round's limits, as decimal text. ``dtype``: "" for the official script's
    default. ``metrics``: the benchmark's accuracy metrics. ``reports``: scorer output by file name. ``known_answers``:
    an earlier comparison of answers, used if the complete logs are not available."""

    audit: RunLogs
    performance: RunLogs = RunLogs()
    accuracy: RunLogs = RunLogs()
    scenario: str = ""
    dtype: str = ""
    eos_token_id: int = 2
    limits: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    reports: Mapping[str, str] = field(default_factory=dict)
    known_answers: Part | None = None

    def find_slack(self, name: str) -> Slack:
        return Slack.from_limits(self.limits, name)


class ComplianceTest(Struct, frozen=True, kw_only=True):
    """Definition of a test, without the rounds' rules for it (``TestRules``: audit settings, files, limits).

    ``judge``: computes the verdict, or raises MissingLogError if a required log is not available, LogError if one is
    damaged. ``reads_answers``: the runs ("audit", "accuracy") whose complete accuracy log it reads.
    ``compare_answers``: where the verdict stores its comparison of answers for reuse without the logs; if answers
    differ, the benchmark's scorer decides. ``scored``: the scorer decides the verdict. ``dtypes``: answer types
    supported by the official script, ``usual_dtype``: its default. ``unknown_dtype``: how to read a command's answers
    if their type is not declared; "": the default. ``speed_file``: the verify file that needs no answers.

    For the test's folder in the tree: ``shows_run`` (the run's logs below performance/run_1) and ``shows_answers``;
    ``shown_whole``: not truncated, and no hash is required. ``own_files``: the verify files if the round does not have
    the test. ``sure``: a published failure is wrong if the logs pass. ``marks``: settings of which a log of this test
    shows at least one and a performance run none.
    """

    judge: Callable[[VerdictInputs], AuditVerdict]
    reads_answers: tuple[str, ...] = ()
    compare_answers: Callable[[VerdictInputs], Part] | None = None
    scored: bool = False
    dtypes: tuple[str, ...] = ()
    usual_dtype: str = ""
    unknown_dtype: str = ""
    speed_file: str = ""
    shows_run: bool = True
    shows_answers: bool = True
    shown_whole: bool = False
    own_files: tuple[str, ...] = ()
    sure: bool = True
    marks: tuple[str, ...] = ()

    @property
    def asks_scorer(self) -> bool:
        """Return True if the benchmark's scorer is needed: always, or if the answers differ."""
        return self.scored or self.compare_answers is not None
