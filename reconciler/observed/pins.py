"""Read pins, the facts about the world that keys need: digests of files, versions of libraries. They come from this
machine if possible, or else from the last record that has them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from reconciler.desired.state import Pins
from reconciler.observed.digest_cache import DigestCache, is_of_system, seal
from reconciler.observed.installed_backends import find_backend_version
from reconciler.resource.inputs import MADE_OF_SOURCES, Pin, PinKind
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.settings import ACCURACY_DATASET, BUILD, HARNESS, SERVICE
from reconciler.storage.code_files import list_code_names, select_kept_names
from reconciler.storage.files import RepositoryPaths, hash_listing
from reconciler.storage.launch.audit_config_files import find_placed_below
from reconciler.storage.storage_errors import refuse_storage_error

# The digest of a harness command's code: a file, or a folder without the files that git ignores there.


def hash_code(
    path: Path, stamps: DigestCache, placed: Collection[Path] = (), written: Collection[str] = ()
) -> str | None:
    """Return the digest, None if the code cannot be read. Committing the files does not change it; editing a line does.
    ``placed``: files that do not count, by resolved path; ``written``: files that runs created there."""
    if not path.is_dir():
        return stamps.hash_source(path)
    if is_of_system(path):
        return None
    try:
        names = _list_names(path, placed)
        stated = [(name, s.st_size, s.st_mtime_ns) for name in names for s in ((path / name).stat(),)]
        now = seal("code", [*stated, *((name, 0, 0) for name in sorted(written))])
        return stamps.get_remembered(
            f"{path}/ (code without outputs)", now, lambda: hash_listing(_hash_each(path, names, stamps, written))
        )
    except OSError as error:
        refuse_storage_error(error, path)
        return None


def hash_code_files(
    path: Path, stamps: DigestCache, placed: Collection[Path], written: Collection[str]
) -> dict[str, str]:
    """Return the digest of each file of the code, by name, as ``hash_code`` reads them; empty if it cannot."""
    if not path.is_dir():
        return {path.name: stamps.hash_source(path) or ""}
    try:
        return {} if is_of_system(path) else _hash_each(path, _list_names(path, placed), stamps, written)
    except OSError as error:
        refuse_storage_error(error, path)
        return {}


def _list_names(folder: Path, placed: Collection[Path]) -> list[str]:
    return [name for name in list_code_names(folder) if not placed or (folder / name).resolve() not in placed]


def _hash_each(folder: Path, names: list[str], stamps: DigestCache, written: Collection[str]) -> dict[str, str]:
    """Hash each file. git runs only if something in the folder has changed, so that a warm plan need not load it."""
    return {name: stamps.hash_source(folder / name) or "" for name in select_kept_names(folder, names, written)}


# Kinds of record that contain a source's digest, and its name there: a benchmark's file is part of its dataset.
_KIND = {**MADE_OF_SOURCES, "benchmark": Kind.DATASET}
_HARNESS = f"{HARNESS}."  # a command's code and configurations, part of its runs
_CLIENT = "client."  # the parts and inputs of the official Endpoints client
_NAME = {"model": "source", "dataset": "source", "benchmark": "benchmark.code"}


def observe_pins(
    needed: Iterable[Pin],
    recorded: Recorded,
    paths: RepositoryPaths,
    stamps: DigestCache,
    distributions: Mapping[str, Mapping[str, str] | None],
    elsewhere: Collection[str],
) -> Pins:
    """Read the pins. ``paths``: of the repository, to which locations are relative. ``distributions``: system →
    packages installed where its commands run, None if unknown. ``elsewhere``: systems other than this machine, whose
    versions come from records only."""
    values: dict[Pin, str | None] = {}
    origins: dict[Pin, str] = {}
    versions = functools.cache(lambda: _list_last_versions(recorded))
    placed = functools.cache(lambda: find_placed_below(paths.attempts))
    written = functools.cache(lambda: recorded.find_written())
    # Many cells share a command.
    code = functools.cache(lambda path, location: hash_code(path, stamps, placed(), written().get(location, ())))
    for pin in needed:
        if pin.kind is PinKind.SOURCE:
            own = pin.name.startswith(_HARNESS)
            digest = functools.partial(code, location=pin.location) if own else stamps.hash_source
            values[pin], origins[pin] = _find_source(pin, recorded, paths.root, digest)
        else:
            there = None if pin.owner in elsewhere else distributions.get(pin.owner)
            here = None if there is None else find_backend_version(pin.name, there)
            values[pin] = here if here is not None else versions().get((pin.owner, pin.name))
            origins[pin] = "this machine" if here is not None else "record"
    return Pins(values, origins)


def collect_recorded_pins(needed: Iterable[Pin], recorded: Recorded, committed: Mapping[str, str]) -> Pins:
    """Collect pins without any machine: from ``committed`` (path → sha256 of a commit's files), or else from the last
    record that has them."""
    values: dict[Pin, str | None] = {}
    origins: dict[Pin, str] = {}
    versions = _list_last_versions(recorded)
    for pin in needed:
        if pin.kind is PinKind.SOURCE:
            location = os.path.normpath(pin.location)
            values[pin], origins[pin] = committed.get(location) or _find_recorded(pin, recorded), "record"
        else:
            values[pin], origins[pin] = versions.get((pin.owner, pin.name)), "record"
    return Pins(values, origins)


def _find_recorded(pin: Pin, recorded: Recorded) -> str | None:
    if pin.name.startswith((_HARNESS, _CLIENT)):
        return _find_last(recorded.by_address.get(_find_code_user(pin), ()), pin.name)
    if pin.name not in _KIND:
        return None
    return _find_last(recorded.by_address.get(Address(_KIND[pin.name], pin.owner), ()), _NAME[pin.name])


def _find_code_user(pin: Pin) -> Address:
    """Return the resource whose record has the digest of a command's code: the one that the command makes, starts or
    runs."""
    if pin.name.startswith(f"{BUILD}."):
        return Address(Kind.ENGINE, pin.owner)
    if pin.name.startswith(f"{SERVICE}."):
        return Address(Kind.SERVICE, pin.owner)
    mode = ACCURACY if pin.name.startswith(ACCURACY_DATASET) else PERFORMANCE
    return RunAddress(Cell.parse(pin.owner), mode).address


def _find_source(
    pin: Pin, recorded: Recorded, root: Path, digest: Callable[[Path], str | None]
) -> tuple[str | None, str]:
    path = root / pin.location
    found = digest(path) if path.exists() else None
    # Files that only the tree shows are in no record.
    return (found, pin.location) if found is not None else (_find_recorded(pin, recorded), "record")


def _list_last_versions(recorded: Recorded) -> dict[tuple[str, str], str]:
    """Return (system, backend) → the version in the last successful record."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for address, summaries in recorded.by_address.items():
        for summary in summaries:
            pins = dict(summary.pins) if len(summary.pins) > 1 else {}  # a version is recorded along with its backend
            version, cell = pins.get("version"), address.name.split("/", 2) if pins else ()
            if version is not None and len(cell) == 3 and summary.ended is Ended.DONE:
                at = (cell[1], pins.get("engine.backend", ""))
                if (summary.started, version) >= found.get(at, ("", "")):
                    found[at] = (summary.started, version)
    return {at: version for at, (_, version) in found.items()}


def _find_last(summaries: Iterable[Summary], name: str) -> str | None:
    found = None
    for summary in summaries:
        if summary.ended is Ended.DONE:
            found = dict(summary.pins).get(name, found)
    return found
