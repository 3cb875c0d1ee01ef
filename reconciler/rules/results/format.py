"""Protocol that every result format implements as a module, with its argument and result types."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from reconciler.resource.records import LogFinding
from reconciler.rules.context import RuleContext

RecordValues = dict[str, Any]  # a record's outcome: JSON with different names for each kind


class KeptFile(Struct, frozen=True):
    """File to keep. ``in_git``: the tree needs it."""

    path: Path
    name: str
    in_git: bool = False


class AttemptVerdict(Struct, frozen=True):
    """Verdict on an attempt. If ``problem`` is not empty, the attempt failed, whatever its child process reported. Only
    files that are unreadable, incomplete or clearly from another run cause this; everything else is judged from the
    kept files."""

    values: RecordValues
    problem: str = ""
    problem_class: str = ""
    fix: str = ""


class RunFiles(Struct, frozen=True):
    """Files of a run in ``output``, with its request: identity ``inputs`` and the round's ``rules``.

    ``reported``: the child's report. ``by_command``: made by a harness command. ``rehearsal``: part of a rehearsal.
    ``scratch``: a folder for derived files.
    """

    output: Path
    inputs: Mapping[str, object]
    rules: RuleContext
    reported: RecordValues
    user_conf: Path
    scratch: Path
    by_command: bool = False
    rehearsal: bool = False

    @property
    def mode(self) -> str:
        return str(self.inputs["mode"])


class Kept(Struct, frozen=True):
    """A recorded run or score to be judged: its identity ``inputs``, its duration in ``seconds``, the adjustment of the
    machine's clock during it (``clock_set``, seconds), and its available ``files`` by artifact name; for a score also
    those of its accuracy run.

    ``started``: start of the attempt, ISO. ``metrics``: of a score's bars; None for a run.
    """

    inputs: Mapping[str, object]
    seconds: float
    clock_set: float
    files: Mapping[str, Path]
    started: str = ""
    rehearsal: bool = False
    imported: bool = False
    metrics: tuple[str, ...] | None = None


class Recheck(Struct, frozen=True):
    """The result of reading the recorded files of a run or score again. ``missing``: absent files; if there are any,
    nothing else is known. ``differing``: where the run differs from the request; ``shown``: evidence that it matches.
    ``values``: the record's values derived again, from the file ``source``. ``partial``: names of values of which the
    record may state more, taken from files that git does not keep. ``other_metrics``: the same file's figures in units
    that other rule versions may publish."""

    source: str
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    shown: str = ""
    values: RecordValues = field(default_factory=dict)
    problem: str = ""
    partial: frozenset[str] = frozenset()
    other_metrics: tuple[RecordValues, ...] = ()


class ShownFiles(Struct, frozen=True):
    """Artifact names of a result that the tree publishes; "" if there is no such file.

    Performance run: ``performance``, ``user_conf``, ``configuration``, and ``tests``, the folder of the tests included
    in the run. Accuracy run: ``accuracy``; ``answers``, the complete log; ``answers_shown``, its published part. Score:
    ``score``.
    """

    performance: tuple[str, ...]
    accuracy: tuple[str, ...]
    user_conf: str = ""
    configuration: str = ""
    tests: str = ""
    answers: str = ""
    answers_shown: str = ""
    score: str = ""


class ResultFormat(Protocol):
    """Result format, one module each. ``NAME``: its name in specs and child requests; ``LEAVES``: description for
    users; ``DECLARE``: how to declare it in a spec whose runs produce it. ``LOGS``: pattern of the files kept of a
    failed run. ``SCORES_ITSELF``: accuracy runs state their score; ``TESTS_ITSELF``: performance runs include the
    compliance tests. ``READS_CONF``: runs read a user.conf; ``NAMES_MODEL``: runs state their model, which a spec must
    name. ``TIES_ACCURACY``: an accuracy run belongs to the preceding performance run. ``SCORED_BY``: the author of a
    score's text. ``SHOWN``: its files in the tree; ``JUDGED``: name patterns of the files that ``judge_kept`` reads."""

    NAME: str
    LEAVES: str
    DECLARE: str
    LOGS: str
    SCORES_ITSELF: bool
    TESTS_ITSELF: bool
    READS_CONF: bool
    NAMES_MODEL: bool
    TIES_ACCURACY: bool
    SCORED_BY: str
    SHOWN: ShownFiles
    JUDGED: tuple[str, ...]

    def is_shown(self, has: Callable[[str], bool]) -> bool:
        """Return True if a scenario folder of a tree contains results of this format. ``has``: whether a path below it
        exists."""

    def list_asked(self, mode: str, scenario: str, declared: Container[str]) -> tuple[str, ...]:
        """List a run's required settings, from the spec and the round. ``declared``: those in the spec."""

    def judge_run(self, run: RunFiles) -> AttemptVerdict:
        """Judge a run. The exit status is never trusted: the files show what ran and whether it matches the request."""

    def judge_score(self, output: Path, run: Path, rules: RuleContext, reported: RecordValues) -> AttemptVerdict:
        """Judge a score. ``output``: files from the scorer; ``run``: the files of the accuracy run."""

    def find_missing(self, kept: Kept) -> str:
        """Return the name of a file that is missing and needed to judge the run or score; "" if all exist."""

    def judge_kept(self, kept: Kept) -> Iterator[LogFinding]:
        """Judge the kept files of a completed run or score: a pure function, repeated when rules change. Raises
        LogError or ValueError for unreadable files."""

    def list_kept(self, run: RunFiles) -> Iterator[KeptFile]:
        """List, in a fixed order, the files of a successful run that the tree and later judgements need."""

    def list_kept_answers(self, run: RunFiles) -> Iterator[KeptFile]:
        """List its answers and the files derived from them."""

    def recheck_run(
        self,
        inputs: Mapping[str, object],
        files: Mapping[str, bytes],
        rules: RuleContext,
        *,
        timed: bool,
        foreign: bool,
        rehearsal: bool,
    ) -> Recheck:
        """Check a run's recorded files. ``files``: artifacts by name. ``timed``: it has a metric; ``foreign``: it was
        made elsewhere. Raises LogError or ValueError for unreadable files."""

    def recheck_score(self, files: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
        """Check a score's ``files``; ``run``: those of its accuracy run. Raises the same errors as ``recheck_run``."""
