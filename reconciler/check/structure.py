"""Rules for the tree as a whole and for a submitter's folder (submission rules: directory structure)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reconciler.check.demands import NEW, OLD, OURS, Complaints, soften
from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.rules import Severity, rule
from reconciler.rules.rounds import list_rounds
from reconciler.storage.untrusted_files import DEEPEST
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import (
    decode_text,
    is_folder,
    is_there,
    list_entries,
    list_files,
    list_folders,
    read_file,
)
from reconciler.tree.reading.places import LEGACY, RootPlace
from reconciler.tree.reading.survey import Survey
from reconciler.tree.reading.system import SubmitterFiles
from reconciler.tree.reading.unreadable_folders import is_passed_over, list_if_open, read_if_open
from reconciler.tree.source import LARGEST

_STRUCTURE = f"{OLD}: directory structure"

_ROOT_FOLDERS = {*DIVISIONS, ".git", ".github", "assets"}
_ROOT_FILES = (".md", ".pdf")
_ROOT_NAMES = (".gitignore", ".gitattributes", ".gitkeep")
_DOCUMENT = re.compile(r"(?i).*\.(md|pdf|rst)|(readme|licen[cs]e|copying|notice)(\..*)?")
# A repository's address followed on the same line by a commit or a release, as in /releases/, /tree/ or @.
_PUBLIC = re.compile(r"https?://\S+.*?(?:\b[0-9a-f]{7,40}\b|/(?:releases|tree|tag|commit)/\S|@\S|\bv?\d+\.\d+)")
_CALIBRATION = ("calibration.md", "documentation/calibration.md", "Documentation/calibration.md")


@rule("tree.round", "the rules of the round are known", sources=(OURS,), severity=Severity.WARNING)
def check_round(tree: Survey) -> Complaints:
    """Without the round's rules, no bar, scenario, seed, duration or compliance test can be checked."""
    if tree.recognised is not None and not tree.recognised.is_known:
        yield Complaint(
            Place(tree.root.shown or "."),
            f"no rules for round {tree.recognised.name} here, recognised by {tree.recognised.evidence}",
            f"one of {', '.join(list_rounds())}",
            cause="only rules common to all rounds were checked",
            fix="choose the rules of another round: --round ROUND",
        )


@rule("tree.root", "only divisions and documents in the root", sources=(_STRUCTURE,))
def check_root_entries(root: RootPlace) -> Complaints:
    """The root contains only division folders, documents, and git's files."""
    for name in list_folders(root.path):
        if name not in _ROOT_FOLDERS:
            yield Complaint(Place(f"{root.shown}{name}"), f"folder {name}", "closed, open and network only")
    for name in list_files(root.path):
        if not name.endswith(_ROOT_FILES) and name not in _ROOT_NAMES:
            yield Complaint(Place(f"{root.shown}{name}"), f"file {name}", "documents (.md, .pdf) only")


@rule("tree.division", "only submitters in a division", sources=(_STRUCTURE,))
def check_division_files(root: RootPlace) -> Complaints:
    """A division contains its submitters' folders and no files."""
    for division in DIVISIONS:
        for name in list_files(root.path / division):
            place = Place(f"{root.shown}{division}/{name}")
            yield Complaint(place, f"file {name} next to the submitters", "submitters' folders only")


@rule("submitter.results", "there are results", sources=(NEW, OURS))
def check_results(files: SubmitterFiles) -> Complaints:
    """A submitter's folder contains results/."""
    if not (files.place.path / "results").is_dir():
        yield Complaint(Place(f"{files.place.shown}/results"), "missing", "a folder with the results")


@rule("submitter.source", "the code is published", sources=(f"{NEW}: measurements check", OLD))
def check_source(files: SubmitterFiles) -> Complaints:
    """The code folder exists. In older trees it also has, for each benchmark with results, a folder or a file that
    names another benchmark's folder; their checkers reject a result without it."""
    name = "code" if files.place.layout == LEGACY else "src"
    tops = [top for top in dict.fromkeys((name, "src")) if is_folder(files.place.path / top)]
    if not (files.place.path / "results").is_dir():
        return
    if not tops:
        yield Complaint(Place(f"{files.place.shown}/{name}"), "missing", "a folder with the code of each benchmark")
        return
    if files.place.layout != LEGACY:
        return
    for benchmark in sorted(_list_entered(files)):
        if not any(_holds_code(files.place.path / top, benchmark) for top in tops):
            place = Place(f"{files.place.shown}/{tops[0]}/{benchmark}")
            yield Complaint(place, "missing", "the code of this benchmark, which has results")


def _list_entered(files: SubmitterFiles) -> set[str]:
    """Return the benchmarks that have results."""
    return {name for system in files.place.list_systems() for name in files.place.list_benchmarks(system)}


def _holds_code(top: Path, benchmark: str) -> bool:
    path = top / benchmark
    if is_folder(path) or not is_there(str(path)):
        return is_folder(path)
    named = read_file(path, benchmark, decode_text).value
    return named is None or is_folder(top / named.strip())


@rule("submitter.code", "the code is not only documents", sources=("submission rules: source code", OURS))
def check_code(files: SubmitterFiles) -> Complaints:
    """The code of a benchmark with results is published here, or its document links to public code at a commit or
    release. Rounds up to v5.1 accepted documents without code."""
    mild = soften(files, "source_code")
    entered = _list_entered(files)
    for top in ("src", "code"):
        for name in sorted(entered & set(list_folders(files.place.path / top))):
            folder = files.place.path / top / name
            below = [Path(item.entry.path) for item in _walk(folder, name) if item.entry.is_file()]
            documents = [path for path in below if _DOCUMENT.fullmatch(path.name)]
            if len(documents) < len(below) or is_passed_over(folder) or any(map(_names_public_code, documents)):
                continue
            place = Place(f"{files.place.shown}/{top}/{name}")
            fix = "publish the code that ran, or link its public repository at the commit or release"
            yield Complaint(place, "no code, documents only", "the code that made the results", fix=fix, severity=mild)


def _names_public_code(document: Path) -> bool:
    read = read_file(document, document.name, decode_text)
    return read.value is not None and _PUBLIC.search(read.value) is not None


@rule("submitter.calibration", "calibration is documented", sources=(OLD, "submission rules: calibration"))
def check_calibration(files: SubmitterFiles) -> Complaints:
    """In closed and network, a document describes how the models were calibrated or quantized."""
    if files.place.division == "open" or not (files.place.path / "results").is_dir():
        return
    wanted = "the calibration or quantization of the models"
    there = [name for name in _CALIBRATION if (files.place.path / name).is_file()]
    if not there:
        place = Place(f"{files.place.shown}/documentation/calibration.md")
        yield Complaint(place, "missing", wanted, severity=soften(files, "calibration"))
    elif not any(_says_something(files.place.path / name) for name in there):
        yield Complaint(Place(f"{files.place.shown}/{there[0]}"), "empty", wanted, severity=Severity.WARNING)


def _says_something(document: Path) -> bool:
    """Return True also for an unreadable document, which another rule reports."""
    read = read_file(document, document.name, decode_text)
    return read.value is None or bool(read.value.strip())


@rule("submitter.systems", "every described system has results", sources=(OLD,))
def check_unused_systems(files: SubmitterFiles) -> Complaints:
    """Each file in systems/ and, in older trees, each folder in measurements/ belongs to a system with results."""
    known = set(list_folders(files.place.path / "results"))
    mild = soften(files, "used_systems")
    for name in files.described:
        if name not in known:
            place = Place(f"{files.place.shown}/systems/{name}.json")
            yield Complaint(place, f"no results/{name}", "results for every described system", severity=mild)
    for name in list_folders(files.place.path / "measurements"):
        if name not in known:
            place = Place(f"{files.place.shown}/measurements/{name}")
            yield Complaint(place, f"no results/{name}", "results for every measured system", severity=mild)


@rule("submitter.mapping", "model_mapping.json can be read", sources=(NEW,))
def check_mapping(files: SubmitterFiles) -> Complaints:
    """model_mapping.json is an object that maps folders to official benchmarks."""
    read = files.mapping
    if read.problem:
        yield Complaint(Place(read.file, read.line), read.problem, "a JSON object: folder → official benchmark")


class _WalkedEntry(Struct, frozen=True):
    entry: os.DirEntry[str]
    shown: str
    depth: int


# The demand that names can be handled by any file system and git: earlier rounds accepted others.
_PORTABLE = "portable_files"


@rule("submitter.names", "no hidden names, spaces or compiled files", sources=(_STRUCTURE,))
def check_names(files: SubmitterFiles) -> Complaints:
    """Names must not contain spaces or begin with a dot, and __pycache__ folders are not allowed."""
    mild = soften(files, _PORTABLE)
    for item in _walk(files.place.path, files.place.shown):
        name = item.entry.name
        if name == "__pycache__":
            yield Complaint(Place(item.shown), "a folder with compiled Python", "none", fix="remove it", severity=mild)
        elif name.startswith(".") and name != ".gitkeep":
            said = f"hidden name {name}"
            yield Complaint(Place(item.shown), said, "names without a dot in front", fix="remove it", severity=mild)
        elif " " in name:
            said = f"a space in {name}"
            yield Complaint(Place(item.shown), said, "names without spaces", fix="rename it", severity=mild)


@rule("submitter.links", "files instead of links", sources=(_STRUCTURE,))
def check_links(files: SubmitterFiles) -> Complaints:
    """The official checker resolves a link's text as a path from the tree's root, whatever folder contains the link."""
    root = files.place.path.parent.parent
    for item in _walk(files.place.path, files.place.shown):
        if not item.entry.is_symlink():
            continue
        path = Path(item.entry.path)
        if not path.exists():
            said, severity = "a broken link", soften(files, _PORTABLE)
        elif path.is_file() and not (root / path.readlink()).exists():
            said, severity = f"a link to {path.readlink()}, broken as a path of the tree", soften(files, _PORTABLE)
        else:
            said, severity = "a link", Severity.NOTE
        yield Complaint(Place(item.shown), said, "files", fix="replace the link with the file", severity=severity)


@rule("submitter.sizes", "no file above 50 MiB", sources=(_STRUCTURE,))
def check_sizes(files: SubmitterFiles) -> Complaints:
    """A file has at most 50 MiB."""
    for item in _walk(files.place.path, files.place.shown):
        size = item.entry.stat(follow_symlinks=False).st_size
        if size > LARGEST and not item.entry.is_dir(follow_symlinks=False):
            most = f"at most {LARGEST:,} bytes"
            yield Complaint(Place(item.shown), f"{size:,} bytes", most, severity=soften(files, _PORTABLE))


@rule("submitter.empty", "no empty folders", sources=(_STRUCTURE,))
def check_empty_folders(files: SubmitterFiles) -> Complaints:
    """git does not store empty folders."""
    for item in _walk(files.place.path, files.place.shown):
        if item.entry.is_dir(follow_symlinks=False) and read_if_open(False, _is_empty, item.entry.path):
            mild = soften(files, _PORTABLE)
            yield Complaint(Place(item.shown), "an empty folder", "no empty folders", fix="remove it", severity=mild)


def _is_empty(folder: str) -> bool:
    return not list_entries(folder)


@rule("submitter.depth", "no endlessly nested folders", sources=(OURS,))
def check_depth(files: SubmitterFiles) -> Complaints:
    """Folders below the deepest level that a submission needs are not examined."""
    for item in _walk(files.place.path, files.place.shown):
        if item.depth == DEEPEST and item.entry.is_dir(follow_symlinks=False):
            text = f"folders nested more than {DEEPEST} deep, which were not examined"
            yield Complaint(Place(item.shown), text, "the layout of a submission", fix="remove them")


def _walk(folder: Path, shown: str, depth: int = 1) -> Iterator[_WalkedEntry]:
    """Limit the depth, so that nested folders cannot exhaust the stack."""
    entries = list_if_open(list_entries, folder)
    for entry in sorted(entries, key=lambda entry: entry.name):
        yield _WalkedEntry(entry, f"{shown}/{entry.name}", depth)
        if depth < DEEPEST and entry.is_dir(follow_symlinks=False) and entry.name != ".git":
            yield from _walk(Path(entry.path), f"{shown}/{entry.name}", depth + 1)


SURVEY_RULES = (check_round,)
ROOT_RULES = (check_root_entries, check_division_files)
SUBMITTER_RULES = (
    check_results,
    check_source,
    check_code,
    check_calibration,
    check_unused_systems,
    check_mapping,
    check_names,
    check_links,
    check_depth,
    check_sizes,
    check_empty_folders,
)
