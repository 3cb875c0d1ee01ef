"""A tree with its round: the input for checking and verifying."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from itertools import combinations, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.loadgen import keys
from reconciler.resource.quantities import is_whole, show_count
from reconciler.rules.programs import load_programs
from reconciler.rules.rounds import list_rounds, load_ruleset, states_itself
from reconciler.rules.ruleset import Ruleset, make_unknown_ruleset
from reconciler.tree.reading.cell import CellFiles
from reconciler.tree.reading.files import decode_text, list_files, read_file
from reconciler.tree.reading.places import CellPlace, RootPlace, SubmitterPlace, find_roots
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.view import CellView, FindOriginal

# Benchmark folders and their official benchmarks.

# The official checker also guesses from a part of the name, in this order (submission checker: model mapping).
_GUESSES = (
    # For rounds with small detectors.
    ("ssdlite", "ssd-small"),
    ("ssd-inception", "ssd-small"),
    ("ssd-mobilenet", "ssd-small"),
    ("ssd-resnet50", "ssd-small"),
    ("yolo", "ssd-small"),
    ("mobilenet", "resnet"),
    ("efficientnet", "resnet"),
    ("resnet50", "resnet"),
    ("bert-99.9", "bert-99.9"),
    ("bert-99", "bert-99"),
    ("llama3_1-405b", "llama3.1-405b"),
)


def find_official_name(folder: str, ruleset: Ruleset, mapping: Mapping[str, object]) -> str:
    """Return the official benchmark of a folder, "" for none. ``mapping``: the submitter's model_mapping.json, in
    open."""
    if folder in ruleset.benchmarks:
        return folder
    mapped = mapping.get(folder)
    if isinstance(mapped, str):
        return mapped if mapped in ruleset.benchmarks else ""
    guesses = (ruleset.find_official_name(name) for part, name in _GUESSES if part in folder)
    return ruleset.find_official_name(folder) or next(filter(None, guesses), "")


UNKNOWN = "unknown"  # round name if no file states one
_ASKED = 25  # number of cells whose logs are read to recognise a round
_TITLE = re.compile(r"\bMLPerf\W{0,6}Inference\W+(v\d+\.\d+)\b")
_FOLDER = re.compile(r"(?:.*[_\-])?(v\d+\.\d+)")
_VERSION = re.compile(r"(\d+\.\d+)")
_HEAD = 4096  # characters of a README that are searched for its title
_UNNUMBERED = ("0.", "1.0")  # LoadGen versions from before each round had its own
Seeds = tuple[int, ...]  # seeds for qsl, sample index and schedule; other harnesses have fewer
Progress = Callable[[int, int, str], None]  # cells done, total cells, the next cell


class RecognisedRound(Struct, frozen=True):
    """Round recognised from evidence. ``name``: UNKNOWN if there is no evidence. ``evidence``: as text that completes
    "by …"."""

    name: str
    evidence: str

    @property
    def is_known(self) -> bool:
        """True if the round's rules are available."""
        return self.name in list_rounds()


class Survey(Struct, frozen=True, dict=True):
    """One tree. ``recognised``: None if the round was specified."""

    root: RootPlace
    ruleset: Ruleset
    recognised: RecognisedRound | None
    original: FindOriginal | None = None

    @cached_property
    def total(self) -> int:
        """Number of cells."""
        return sum(1 for submitter in self.root.submitters for _ in submitter.list_cells())

    def find_official_name(self, files: SubmitterFiles, benchmark: str) -> str:
        mapping = files.mapping.value.values if files.mapping.value else {}
        return find_official_name(benchmark, self.ruleset, mapping)

    def make_view(self, submitter: SubmitterPlace, place: CellPlace, system: SystemFile, official: str) -> CellView:
        return CellView(CellFiles(submitter, place), system, self.ruleset, official, self.original)


def survey_tree(path: Path, round_name: str = "", original: FindOriginal | None = None) -> tuple[Survey, ...]:
    """Find every tree at a path with its round: the specified one, else the recognised one, with an empty ruleset if
    its rules are not available. Raises ReconcilerError if there is no tree, or no such round."""
    return tuple(_survey(root, round_name, original) for root in find_roots(path))


def _survey(root: RootPlace, round_name: str, original: FindOriginal | None) -> Survey:
    if round_name:
        return Survey(root, load_ruleset(round_name), None, original)
    recognised = recognise_round(root)
    if recognised.is_known:
        return Survey(root, load_ruleset(recognised.name), recognised, original)
    layout = root.submitters[0].layout if root.submitters else ""
    inferences = dict.fromkeys(rule for name in list_rounds() for rule in load_ruleset(name).inferences)
    return Survey(root, make_unknown_ruleset(recognised.name, layout, tuple(inferences)), recognised, original)


def refuse_unknown_round(tree: Survey) -> None:
    """Raise ReconcilerError if the rules of a tree's round are not available."""
    if tree.recognised is not None and not tree.recognised.is_known:
        problem = f"{tree.root.path}: no rules for round {tree.recognised.name} here (by {tree.recognised.evidence})"
        raise ReconcilerError(problem, fix=f"use --round with a known round: {', '.join(list_rounds())}")


def recognise_round(root: RootPlace) -> RecognisedRound:
    """Recognise the round of any tree. The seeds in its logs decide, because each round has its own. If no log has
    seeds, the README, the folder names and LoadGen's version are used, in this order."""
    votes: Counter[str | Seeds] = Counter()
    versions: Counter[str] = Counter()
    asked = tuple(islice(_spread(root), _ASKED))
    for submitter, place in asked:
        found = list(_read_seeds(CellFiles(submitter, place), versions))
        if found:
            votes[next(filter(None, map(_find_round, found)), found[0])] += 1
    winner = max(votes, key=lambda vote: (votes[vote], isinstance(vote, str)), default=None)
    share = f"{votes[winner]} of {show_count(len(asked), 'result')}" if winner else ""
    if isinstance(winner, str):
        return RecognisedRound(winner, f"the seeds of {share}")
    stated = _read_name(root, versions)
    if winner is None:
        return stated
    seeds = f"the seeds of {share}, which no known round has: {', '.join(map(str, winner))}"
    if stated.name == UNKNOWN:
        return RecognisedRound(UNKNOWN, seeds)
    if stated.is_known:  # its name and its logs contradict each other
        return RecognisedRound(UNKNOWN, f"{seeds}, while {stated.evidence} says {stated.name}")
    return RecognisedRound(stated.name, f"{stated.evidence} and {seeds}")


def _read_seeds(files: CellFiles, versions: Counter[str]) -> Iterator[Seeds]:
    """Read the seeds of each run of a cell that has all three. Zeros do not count, since LoadGen logs them if it read
    no configuration. ``versions`` counts LoadGen's versions."""
    for run in (files.performance, files.accuracy):
        log = run.detail.value
        if log is None:
            continue
        versions[log.version] += 1
        seeds = tuple(log.get_plain(f"effective_{name}") for name in keys.SEEDS)
        if all(is_whole(seed) and seed for seed in seeds):
            yield seeds
    for program in load_programs():
        stated = program.read_seeds(files)
        if stated and all(is_whole(seed) and seed for seed in stated):
            yield stated


@cache  # reading a round takes milliseconds
def _find_round(seeds: Seeds) -> str:
    """Find the newest round with these seeds, or with all but one of three; "" for none."""
    least = min(2, len(seeds))
    for name in reversed(list_rounds()):
        stating = any(states_itself(name, some) for some in combinations(seeds, least))
        if stating and len(set(seeds) & set(load_ruleset(name).seeds().values())) >= least:
            return name
    return ""


def _read_name(root: RootPlace, versions: Counter[str]) -> RecognisedRound:
    """Recognise the round that the tree states, or else the round of the most frequent LoadGen version."""
    for file in list_files(root.path):
        if file.upper().startswith("README"):
            text = read_file(root.path / file, file, decode_text).value or ""
            if title := _TITLE.search(text[:_HEAD]):
                return RecognisedRound(title[1], f"the title in {file}")
    for folder in (root.path.resolve(), *root.path.resolve().parents):
        if named := _FOLDER.fullmatch(folder.name):
            return RecognisedRound(named[1], f"the folder {folder.name}")
    version = next((name for name, _ in versions.most_common(1)), "")
    if (release := _VERSION.match(version)) and not version.startswith(_UNNUMBERED):
        return RecognisedRound(f"v{release[1]}", f"LoadGen {release[1]}")
    return RecognisedRound(UNKNOWN, "no seeds, no title and no version in its files")


def _spread(root: RootPlace) -> Iterator[tuple[SubmitterPlace, CellPlace]]:
    """Yield cells from each submitter in turn, so that no single one decides; includes cells outside the user's
    path."""
    whole = [replace(submitter, only=()) for submitter in root.submitters]
    iterators = [(submitter, submitter.list_cells()) for submitter in whole]
    while iterators:
        left = []
        for submitter, cells in iterators:
            place = next(cells, None)
            if place is not None:
                yield submitter, place
                left.append((submitter, cells))
        iterators = left
