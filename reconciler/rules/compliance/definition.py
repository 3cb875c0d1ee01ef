"""Definition of a compliance test: the logs a verdict is made from, what a test declares of itself, and its judgement.

A test is one module that holds a ``ComplianceTest``; ``judging.py`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Protocol

from msgspec import Struct, field

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.rules.compliance.entries import Entry, read_entries
from reconciler.rules.compliance.scores import Slack
from reconciler.rules.compliance.verdict import AuditVerdict, Part


class RunLogs(Struct, frozen=True):
    """The logs of one run, empty where they are not at hand. ``answers`` gives the lines of the whole accuracy log,
    from its beginning at each call; None where it is not at hand."""

    detail: bytes = b""
    summary: bytes = b""
    answers: Callable[[], Iterable[bytes]] | None = None

    def read_entries(self, run: str) -> Iterable[Entry]:
        if self.answers is None:
            raise MissingLogError(run)
        return read_entries(self.answers(), name_answers(run))

    def read_detail_log(self, run: str) -> DetailLog:
        if not self.detail:
            raise MissingLogError(run)
        return parse_detail(self.detail, f"{DETAIL} of the {run} run")

    def read_summary_log(self, run: str) -> SummaryLog:
        if not self.summary:
            raise MissingLogError(run)
        return parse_summary(self.summary, f"{SUMMARY} of the {run} run")


def name_answers(run: str) -> str:
    """Name the accuracy log of a run for messages."""
    return f"{ACCURACY_LOG} of the {run} run"


class MissingLogError(LookupError):
    """A verdict needs a log of a run (by its name), most often the whole accuracy log, and it is not at hand."""


class VerdictInputs(Struct, frozen=True):
    """Inputs of a verdict. ``limits``: the round's, as decimal text. ``dtype`` "" is the official script's default.
    ``metrics``: the benchmark's accuracy metrics. ``reports``: what the scorer said, by file name. ``known_answers``:
    the comparison of answers as made before, for when the whole logs are not at hand."""

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

    def limit(self, name: str, default: str) -> Decimal:
        return Decimal(self.limits.get(name, default))

    def find_slack(self, name: str) -> Slack:
        return Slack.from_limits(self.limits, name)


class Judge(Protocol):
    """The verdict of a test. MissingLogError when a log that it needs is not at hand, LogError for a damaged one."""

    def __call__(self, inputs: VerdictInputs, /) -> AuditVerdict: ...


class ComplianceTest(Struct, frozen=True, kw_only=True):
    """Definition of a test, apart from what each round says of it (``TestRules``: audit settings, files, limits).

    ``judge``: its verdict. ``reads_answers``: the runs whose whole accuracy log it reads, of "audit" and "accuracy".
    ``compare_answers``: where the verdict keeps its comparison of answers, so that it can be made again without them;
    if they differ, the benchmark's scorer decides. ``scored``: the verdict is the scorer's. ``dtypes``: what the
    official script offers to read the answers as, ``usual_dtype``: its default. ``unknown_dtype``: how a command's
    answers are read where nothing says their type; "": as the default. ``speed_file``: the verify file for which no
    answers are read.

    Of the folder in the tree: ``shows_run`` (the run's logs below performance/run_1) and ``shows_answers``;
    ``shown_whole``: truncation passes them over, and no hash is asked for. ``own_files``: the verify files where the
    round has no such test. ``sure``: a published failure is wrong where the logs pass. ``marks``: settings of which a
    log of this test shows one, and one of a performance run none.
    """

    judge: Judge
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
        """True where the benchmark's scorer is asked: always, or when the answers differ."""
        return self.scored or self.compare_answers is not None
