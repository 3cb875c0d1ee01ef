"""The protocol that every format of results implements as a module, and the values it takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from reconciler.resource.records import LogFinding
from reconciler.rules.context import RuleContext

RecordValues = dict[str, Any]  # what a record says of its outcome: JSON, whose names differ from kind to kind


class KeptFile(Struct, frozen=True):
    """A file to keep: ``in_git`` when the tree needs it."""

    path: Path
    name: str
    in_git: bool = False


class Verdict(Struct, frozen=True):
    """What an attempt came to. ``problem`` not empty: it failed, whatever its child said. Only files that cannot be
    read, that end early, or that are plainly another run's make it fail: all else is judged from what is kept."""

    values: RecordValues
    problem: str = ""
    problem_class: str = ""
    fix: str = ""


class RunFiles(Struct, frozen=True):
    """What a run left in ``output``, and what was asked of it: its identity ``inputs`` and the round's ``rules``.

    ``said``: what its child said of it. ``by_command``: a harness command made it. ``rehearsal``: it is of one.
    ``scratch``: a folder for files that are derived.
    """

    output: Path
    inputs: Mapping[str, object]
    rules: RuleContext
    said: RecordValues
    user_conf: Path
    scratch: Path
    by_command: bool = False
    rehearsal: bool = False

    @property
    def mode(self) -> str:
        return str(self.inputs["mode"])


class Kept(Struct, frozen=True):
    """A recorded run or score to be judged: its identity ``inputs``, its ``seconds`` with those by which the clock was
    set during it, and those of its ``files`` that are here, by their names as artifacts; of a score those of its
    accuracy run, too. ``started``: when the attempt began, ISO. ``metrics``: of the bars of a score; None of a run."""

    inputs: Mapping[str, object]
    seconds: float
    clock_set: float
    files: Mapping[str, Path]
    started: str = ""
    rehearsal: bool = False
    imported: bool = False
    metrics: tuple[str, ...] | None = None


class Recheck(Struct, frozen=True):
    """What recorded files say of a run or a score when they are read again. ``missing``: files that are not there;
    without them nothing else is known. ``differing``: where the run is not the one that was asked; ``shown``: what
    proves that it is. ``values``: those of the record that were derived again, from the file ``source``.
    ``partial``: names of values of which the record may state more, from files that are not kept in git.
    ``other_metrics``: the same file's figures in units that rules of another version may publish."""

    source: str
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    shown: str = ""
    values: RecordValues = field(default_factory=dict)
    problem: str = ""
    partial: frozenset[str] = frozenset()
    other_metrics: tuple[RecordValues, ...] = ()


class ShownFiles(Struct, frozen=True):
    """Which artifacts of a result's records the tree shows, by their names; "" where there is no such file.

    Of the performance run: ``performance``, ``user_conf``, ``configuration``, and ``tests``, the folder of those that
    it brought. Of the accuracy run: ``accuracy``; ``answers``, the whole log of them, and ``answers_shown``, what the
    tree has of it. Of the score: ``score``."""

    performance: tuple[str, ...]
    accuracy: tuple[str, ...]
    user_conf: str = ""
    configuration: str = ""
    tests: str = ""
    answers: str = ""
    answers_shown: str = ""
    score: str = ""


class ResultFormat(Protocol):
    """A module per format. ``NAME``: as a spec and the requests of children name it; ``LEAVES``: for people, and
    ``DECLARE``: what to change in a spec whose runs leave it. ``LOGS``: pattern of what is kept of a run that failed.
    ``SCORES_ITSELF``: an accuracy run states its score; ``TESTS_ITSELF``: a performance run brings the compliance
    tests. ``READS_CONF``: a run reads a user.conf; ``NAMES_MODEL``: it states its model, which a spec must name.
    ``TIES_ACCURACY``: an accuracy run belongs to the performance run before it.
    ``SCORED_BY``: who wrote a score's text. ``SHOWN``: its files in the tree; ``JUDGED``: patterns of the names of
    files that ``judge_kept`` reads."""

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
        """Whether a scenario folder of a tree shows results of this format. ``has``: whether it has a path below it."""

    def list_asked(self, mode: str, scenario: str, declared: Container[str]) -> tuple[str, ...]:
        """The settings that a run is asked for, of the spec and of the round. ``declared``: those in the spec."""

    def judge_run(self, run: RunFiles) -> Verdict:
        """Exit status is never trusted: the files decide what ran, and whether it is what was asked."""

    def judge_score(self, output: Path, run: Path, rules: RuleContext, said: RecordValues) -> Verdict:
        """``output``: what a scorer left; ``run``: the files of the accuracy run."""

    def find_missing(self, kept: Kept) -> str:
        """What the run or score cannot be judged without, by name; "" where all is here."""

    def judge_kept(self, kept: Kept) -> Iterator[LogFinding]:
        """What is wrong with the kept files of a run or a score that ended: pure, and again whenever rules change.
        Raises LogError or ValueError for files that cannot be read."""

    def list_kept(self, run: RunFiles) -> Iterator[KeptFile]:
        """What the tree and a later judgement need of a run that did not fail, in a fixed order."""

    def list_kept_answers(self, run: RunFiles) -> Iterator[KeptFile]:
        """What it answered, and what is derived of that."""

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
        """``files``: the run's artifacts by name. ``timed``: it has a metric; ``foreign``: it was made elsewhere.
        Raises LogError or ValueError for files that cannot be read."""

    def recheck_score(self, files: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
        """``files`` of the score, ``run``: those of its accuracy run. Raises as ``recheck_run`` does."""
