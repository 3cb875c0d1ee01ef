"""A tree with its round: what both checking and verifying walk over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct

from reconciler.mlperf.rules.rounds import list_rounds, load_ruleset, states_itself
from reconciler.mlperf.rules.ruled_value import SEED_FIELDS
from reconciler.mlperf.rules.ruleset import Ruleset
from reconciler.tree.reading.cell import CellFiles
from reconciler.tree.reading.names import find_official_name
from reconciler.tree.reading.places import LEGACY, CellPlace, RootPlace, SubmitterPlace, find_roots
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.values import read_value
from reconciler.tree.reading.view import CellView, FindOriginal

_ASKED = 25  # logs that are read to learn the round
Progress = Callable[[int, int, str], None]  # cells done, cells in all, the one that is next


class Survey(Struct, frozen=True, dict=True):
    """One tree. ``measured``: its logs carry the seeds of the round; otherwise the round was given or guessed."""

    root: RootPlace
    ruleset: Ruleset
    measured: bool
    original: FindOriginal | None = None

    @cached_property
    def total(self) -> int:
        """The number of cells."""
        return sum(1 for submitter in self.root.submitters for _ in submitter.cells())

    def official(self, files: SubmitterFiles, benchmark: str) -> str:
        mapping = files.mapping.value.values if files.mapping.value else {}
        return find_official_name(benchmark, self.ruleset, mapping)

    def view(self, submitter: SubmitterPlace, place: CellPlace, system: SystemFile, official: str) -> CellView:
        return CellView(CellFiles(submitter, place), system, self.ruleset, official, self.original)


def survey_tree(path: Path, round_name: str = "", original: FindOriginal | None = None) -> tuple[Survey, ...]:
    """Every tree at a path, each with its round: the one given, else the one whose seeds its logs carry, else the
    newest of its layout. ReconcilerError when there is no tree, or no such round."""
    return tuple(_survey(root, round_name, original) for root in find_roots(path))


def _survey(root: RootPlace, round_name: str, original: FindOriginal | None) -> Survey:
    if round_name:
        return Survey(root, load_ruleset(round_name), False, original)
    measured = _measured(root)
    return Survey(root, load_ruleset(measured or _of_layout(root)), bool(measured), original)


def _measured(root: RootPlace) -> str:
    """The round whose seeds most of some logs carry; "" when none carries any that are known."""
    votes: Counter[str] = Counter()
    for index, (submitter, place) in enumerate(_spread(root)):
        if index == _ASKED:
            break
        log = CellFiles(submitter, place).performance.detail.value
        seeds = tuple(read_value(log, f"effective_{name}") for name in SEED_FIELDS) if log else ()
        if seeds and all(isinstance(seed, int) for seed in seeds) and (name := _find_round(seeds)):
            votes[name] += 1
    return votes.most_common(1)[0][0] if votes else ""


@cache  # each round takes milliseconds to read
def _find_round(seeds: tuple[int, ...]) -> str:
    """The newest round with these seeds, which no round leaves to the one that it extends; "" for none."""
    rounds = (name for name in reversed(list_rounds()) if states_itself(name, seeds))
    return next((name for name in rounds if tuple(load_ruleset(name).seeds().values()) == seeds), "")


def _spread(root: RootPlace) -> Iterator[tuple[SubmitterPlace, CellPlace]]:
    """Cells in turn from each submitter, so that no single one decides."""
    iterators = [(submitter, submitter.cells()) for submitter in root.submitters]
    while iterators:
        left = []
        for submitter, cells in iterators:
            place = next(cells, None)
            if place is not None:
                yield submitter, place
                left.append((submitter, cells))
        iterators = left


def _of_layout(root: RootPlace) -> str:
    """The newest round, for a legacy layout the newest that has it."""
    legacy = any(submitter.layout == LEGACY for submitter in root.submitters)
    rounds = list_rounds()
    fitting = [name for name in rounds if (load_ruleset(name).layout == LEGACY) is legacy]
    return (fitting or list(rounds))[-1]
