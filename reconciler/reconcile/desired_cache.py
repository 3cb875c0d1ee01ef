"""Load the desired state from its cache if none of its sources has changed, or else compile it.

Only the cold path imports YAML, pydantic and the rounds, and only this module does so.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from reconciler import __version__
from reconciler.desired.cache_file import Compiled, digest_variables, read, write
from reconciler.desired.cell_cache import CellCache
from reconciler.desired.state import Desired, Pins
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.installed_backends import list_installed
from reconciler.observed.observe import find_unlike_systems, list_installed_for
from reconciler.observed.pins import observe_pins
from reconciler.observed.probed_nodes import read_probed_nodes
from reconciler.resource.canonical import digest
from reconciler.resource.inputs import Pin
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.records import Recorded
from reconciler.resource.settings import SystemSettings, Trial
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.untrusted_files import read_regular, walk_files

if TYPE_CHECKING:
    from reconciler.rules.ruleset import Ruleset
    from reconciler.spec.declared import Declared, Reading
    from reconciler.spec.files import Source

_ROOT = Path(__file__).parents[2]
_SPECS = (".yaml", ".yml")
_COMMITTED, _KEPT = "committed-desired-", 4  # number of caches kept for commits: a base, and recent heads
_LARGEST_SPEC = 8 << 20  # bytes; a larger spec is refused when it is read
# The parts of our own code on which a compiled state depends, below the folder of our packages. An edit of them counts
# as a new version.
_SOURCES = (
    *(f"reconciler/{name}" for name in ("spec", "desired", "loadgen", "rules", "resource", "storage")),
    *(entry.program.partition(":")[0].rpartition(".")[0].replace(".", "/") for entry in PROGRAMS.values()),
    *(f"harness/{name}" for name in ("contract.py", "catalog.py", "benchmark_catalog.py")),
)
_FACTS = "harness/benchmarks"  # only their YAML counts, since their Python runs in child processes


class DesiredCache(Struct):
    """The state of a process between compilations. ``unsaved``: the file to which ``last`` is to be saved."""

    last: Compiled | None = None
    reuse: CellCache = field(default_factory=CellCache)
    unsaved: Path | None = None

    def save(self) -> None:
        """Save for the next process. It takes as long as compiling everything, so it runs after the plan."""
        if self.unsaved is None or self.last is None:
            return
        from reconciler.storage.leftovers import sweep_folders

        with contextlib.suppress(OSError):  # a read-only checkout keeps its old caches
            sweep_folders((self.unsaved.parent,))
            for old in self.unsaved.parent.glob("desired-*.jsonl"):
                old.unlink(missing_ok=True)
        write(self.unsaved, self.last)
        self.unsaved = None


def list_spec_paths(paths: RepositoryPaths, names: Sequence[str]) -> list[Path]:
    """List the given files and folders, or ``specs/``."""
    return [Path(name) if Path(name).is_absolute() else paths.root / name for name in names] or [paths.specs]


def _list_files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        try:
            found += (
                sorted(p for p in walk_files(path) if p.suffix in _SPECS or p.is_symlink()) if path.is_dir() else [path]
            )
        except OSError:
            found.append(path)  # problems with it are reported when specs are read
    return found


def _compute_fingerprint(paths: RepositoryPaths, spec_paths: Sequence[Path]) -> str:
    """Compute the fingerprint of everything except the environment and the pins: spec bytes and names, and the code
    that compiles them."""
    specs = []
    for path in _list_files(spec_paths):
        try:
            specs.append([ascii(os.path.relpath(path, paths.root)), hash_bytes(read_regular(path, _LARGEST_SPEC))])
        except OSError:
            specs.append([ascii(str(path)), ""])
    return digest({"version": __version__, "specs": specs, "code": _stamp_code()})


def list_code(root: Path = _ROOT) -> list[str]:
    """List the paths below ``root`` of the Python and YAML files on which a compiled state depends. Raises OSError if a
    folder is missing, since an old state would then count as current."""
    found: list[str] = []
    for source in (*_SOURCES, _FACTS):
        endings = (".yaml",) if source == _FACTS else (".py", ".yaml")
        waiting = [source]
        while waiting:
            name = waiting.pop()
            if name.endswith(".py"):
                found.append(name)
                continue
            with os.scandir(root / name) as entries:
                for entry in entries:
                    if entry.name.endswith(endings):
                        found.append(f"{name}/{entry.name}")
                    elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                        waiting.append(f"{name}/{entry.name}")
    return sorted(found)


@functools.cache
def _stamp_code() -> list[list[object]]:
    """Stamp the code once per process, which keeps using the code that it loaded even if another version is installed
    later."""
    stamped = ((name, os.stat(f"{_ROOT}/{name}")) for name in list_code())  # noqa: PTH116 - twice as fast as Path
    return [[name, status.st_size, status.st_mtime_ns] for name, status in stamped]


def load_desired(
    paths: RepositoryPaths,
    names: Sequence[str],
    recorded: Recorded,
    stamps: DigestCache,
    kept: DesiredCache,
    trial: Trial | None = None,
) -> Compiled:
    """Load the desired state, with a trial's settings if there is one. Raises SpecError with every problem of the
    spec."""
    spec_paths = list_spec_paths(paths, names)
    fingerprint = _compute_fingerprint(paths, spec_paths)
    if trial is not None:  # its settings are used once or twice, so a file is not worthwhile
        fingerprint = digest({"specs": fingerprint, "trial": repr(trial)})
    cache = paths.index / f"desired-{fingerprint[:16]}.jsonl"
    same = kept.last is not None and kept.last.fingerprint == fingerprint
    known = kept.last if same or trial is not None else read(cache)
    if known is not None and known.fingerprint == fingerprint and _is_same_world(known):
        pins = observe_pins_here(known.pins.values, known.desired.submission.systems, paths, recorded, stamps)
        if pins.values == known.pins.values:
            kept.last = known
            return known
    # Only from here on, YAML, pydantic and rounds are loaded.
    from reconciler.spec.cell_edit import read_for_trial
    from reconciler.spec.loading import read as read_specs

    if trial is None:
        reading = read_specs(spec_paths, paths.root, os.environ)
    else:
        reading = read_for_trial(spec_paths, paths.root, os.environ, trial)
    kept.last = _compile(paths, reading, fingerprint, recorded, stamps, kept.reuse)
    kept.unsaved = cache if trial is None else None
    return kept.last


def observe_pins_here(
    needed: Iterable[Pin],
    systems: Mapping[str, SystemSettings],
    paths: RepositoryPaths,
    recorded: Recorded,
    stamps: DigestCache,
) -> Pins:
    """Look up pinned inputs on the systems' machines, on this disk and in the records."""
    reached = read_probed_nodes(paths)
    there = list_installed_for(systems, reached, list_installed())
    return observe_pins(needed, recorded, paths, stamps, there, find_unlike_systems(systems, reached))


def _is_same_world(known: Compiled) -> bool:
    """Return True if variables have their earlier values and the same files exist."""
    if known.variables != digest_variables(known.variables):
        return False
    return all(os.path.exists(path) == there for path, there in known.looked.items())  # noqa: PTH110


def load_committed(
    index: Path | None,
    specs: Mapping[str, str],
    declare: Callable[[], Declared],
    observe: Callable[[Iterable[Pin]], Pins],
    kept: DesiredCache,
) -> Compiled:
    """Load the desired state of a commit, without resolving any location on this machine. ``specs``: path → blob id of
    its files. ``index``: the folder of caches, None to use none. Raises SpecError."""
    code = {"version": __version__, "code": _stamp_code()}
    found = [[ascii(path), blob] for path, blob in sorted(specs.items())]  # names need not be UTF-8
    fingerprint = digest({**code, "blobs": found})
    cache = None if index is None else index / f"{_COMMITTED}{fingerprint[:16]}.jsonl"
    known = kept.last
    if cache is not None and (known is None or known.fingerprint != fingerprint):
        known = read(cache)
    same = known is not None and known.fingerprint == fingerprint and _is_same_world(known)
    if known is not None and same and observe(known.pins.values).values == known.pins.values:
        kept.last = known
        return known
    from reconciler.desired.checks import check, load_ruleset_of
    from reconciler.rules.rounds import load_ruleset

    declared, whole = declare(), not kept.reuse.cells
    ruleset = load_ruleset_of(declared, load_ruleset)
    check(declared, ruleset)
    desired, pins = _derive(declared, ruleset, observe, kept.reuse)
    applied = {file.path: file.blob for file in declared.files}
    kept.last = compiled = Compiled(desired, fingerprint, {}, pins, applied, declared.looked)
    if cache is not None and whole:  # otherwise most details are missing, and computing them is slow
        with contextlib.suppress(OSError):  # a read-only checkout keeps its old caches
            for old in sorted(cache.parent.glob(f"{_COMMITTED}*"), key=_read_age)[_KEPT - 1 :]:
                old.unlink(missing_ok=True)
        write(cache, compiled)
    return compiled


def _read_age(path: Path) -> int:
    try:
        return -path.stat().st_mtime_ns
    except OSError:
        return 0


def compile_sources(
    paths: RepositoryPaths, sources: Sequence[Source], recorded: Recorded, stamps: DigestCache
) -> Compiled:
    """Compile the desired state of specs that are not on disk yet. Raises SpecError."""
    from reconciler.spec.loading import read_texts

    return _compile(paths, read_texts(sources, paths.root, os.environ), "", recorded, stamps, CellCache())


def _compile(
    paths: RepositoryPaths,
    reading: Reading,
    fingerprint: str,
    recorded: Recorded,
    stamps: DigestCache,
    reuse: CellCache,
) -> Compiled:
    from reconciler.desired.checks import check_reading
    from reconciler.desired.requirements import collect_systems
    from reconciler.rules.rounds import load_ruleset

    declared, ruleset = check_reading(reading, load_ruleset)
    if declared.trial:
        from reconciler.desired.compile import prepare_trial

        declared = prepare_trial(declared, ruleset)

    def observe(needed: Iterable[Pin]) -> Pins:
        return observe_pins_here(needed, collect_systems(declared), paths, recorded, stamps)

    desired, pins = _derive(declared, ruleset, observe, reuse)
    spec = {file.path: file.blob for file in declared.files}
    variables = digest_variables(declared.variables)
    return Compiled(desired, fingerprint, variables, pins, spec, declared.looked, declared.written)


def _derive(
    declared: Declared, ruleset: Ruleset, observe: Callable[[Iterable[Pin]], Pins], reuse: CellCache
) -> tuple[Desired, Pins]:
    from reconciler.desired.compile import compile_desired
    from reconciler.desired.requirements import list_needed_pins

    pins = observe(list_needed_pins(declared, ruleset))
    return compile_desired(declared, ruleset, pins, reuse)[0], pins
