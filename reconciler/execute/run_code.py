"""The code of a performance run, packed when it begins: for a command, the code that the spec names; otherwise the
parts of our harness that it uses, with the user's own benchmark file if there is one."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import MappingProxyType

import harness.contract
from harness.contract import BACKENDS, BENCHMARKS
from reconciler.resource.settings import BUILD, COMMAND, HARNESS, SCORE_COMMAND, SERVICE, CellSettings
from reconciler.storage.code_archive import (
    LEFT_OUT,
    describe_left_out,
    pack_code,
    read_code,
    read_left_out,
    unpack_code,
)
from reconciler.storage.code_files import list_code_names
from reconciler.storage.files import hash_bytes, hash_file
from reconciler.storage.files import replace as write

_OWN = "harness/"
_OWN_LEFT_OUT = _OWN + LEFT_OUT
_HARNESS = Path(harness.contract.__file__).parent
_CHOSEN = ("backends", "benchmarks")  # folders of the harness from which a run needs only some entries
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+harness\.([\w.]+)(?:[ \t]+import[ \t]+(\([^)]*|[^\n#]*))?", re.M)


def pack_run_code(
    settings: CellSettings,
    locations: Mapping[str, str],
    root: Path,
    written: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> bytes:
    """Pack the code of a run. ``locations``: the run's locations; ``written``: location → files that commands created
    there. Raises OSError if any file cannot be read."""
    found: dict[str, bytes] = {}
    large: dict[str, str] = {}
    for prefix, location in list_declared_code(settings, locations, root):
        files, more = read_code(root / location, prefix, written.get(location, ()))
        found |= files
        large |= more
    if COMMAND not in settings:
        found |= _read_harness(settings.backend, locations.get("benchmark.code", ""), found)
    if large:
        found[LEFT_OUT] = describe_left_out(large)
    if COMMAND in settings:
        return pack_code(found) if found else b""
    return _pack(tuple(sorted(found.items())))


@functools.lru_cache(maxsize=4)  # most files of a cell's runs also belong to the next cell's runs
def _pack(files: tuple[tuple[str, bytes], ...]) -> bytes:
    return pack_code(dict(files))


def take_launched_code(code: Path, launched: Path) -> None:
    """Replace the kept ``code`` with the code that ran, since a container may have another harness than the one packed
    here."""
    if not code.exists() or not launched.exists():
        return
    try:
        ran = unpack_code(launched.read_bytes())
    except ValueError:
        code.unlink()  # the code that ran is unknown
        return
    kept = unpack_code(code.read_bytes())
    own = {name: hash_bytes(data) for name, data in kept.items() if name.startswith(_OWN) and name.endswith(".py")}
    left = {_OWN + name: digest for name, digest in read_left_out(kept.get(_OWN_LEFT_OUT, b"")).items()}
    if own | left != {name: hash_bytes(data) for name, data in ran.items()}:
        write(code, pack_code({n: d for n, d in kept.items() if n not in own and n != _OWN_LEFT_OUT} | ran))


def list_declared_code(settings: CellSettings, locations: Mapping[str, str], root: Path) -> Iterator[tuple[str, str]]:
    """List the folder for each part, with its location as declared: the run's own code at the top, each other part in
    its own folder."""
    listed: list[Path] = []

    def add_new(written: object) -> bool:
        path = (root / str(written)).resolve()
        known = any(path == other or other in path.parents for other in listed)
        if not known and path.exists():
            listed.append(path)
            return True
        return False

    if (own := locations.get("benchmark.path")) and add_new(own):
        yield "", own
    for part, prefix in ((HARNESS, ""), (SERVICE, "service/"), (BUILD, "build/")):
        if f"{part}.command" not in settings and part != HARNESS:
            continue
        if COMMAND in settings or SCORE_COMMAND in settings or part != HARNESS:
            prefix = prefix if COMMAND in settings or part != HARNESS else "score/"
            if (code := settings.get_part_text(part, "code")) and add_new(code):
                yield prefix, code
            configs = settings.get(f"{part}.configs")
            for config in configs if isinstance(configs, list | tuple) else ():
                if add_new(config):
                    yield "configs/", str(config)


def _read_harness(backend: str, benchmark: str, own: Mapping[str, bytes]) -> dict[str, bytes]:
    """Read our harness without the backends and benchmarks that this run does not load, but with their digests: so the
    archive proves that its code has the digest recorded as a fact of the run."""
    module = BENCHMARKS[benchmark].module if benchmark in BENCHMARKS else ""
    imported = tuple(sorted({unit for data in own.values() for unit in _list_imported(data)}))
    stated = tuple((name, s.st_size, s.st_mtime_ns) for name in _list_files() for s in ((_HARNESS / name).stat(),))
    return _read_units(backend, module, imported, stated)


def _list_files() -> list[str]:
    return sorted(list_code_names(_HARNESS))


@functools.lru_cache(maxsize=8)  # a pass has few benchmarks and backends but many runs
def _read_units(
    backend: str, module: str, imported: tuple[str, ...], stated: tuple[tuple[str, int, int], ...]
) -> dict[str, bytes]:
    units: dict[str, list[str]] = {}
    for name, _, _ in stated:
        units.setdefault(_find_unit(name), []).append(name)
    own = BACKENDS[backend].module.split(".")[1:3] if backend in BACKENDS else []
    backends = ["/".join(own)] if own else [unit for unit in units if unit.startswith("backends/")]
    queue = [
        *(unit for unit in units if unit.partition("/")[0] not in _CHOSEN),
        *(f"{folder}/__init__" for folder in _CHOSEN),
        f"benchmarks/{module.partition('.')[0]}",
        *backends,
        *imported,
    ]
    files: dict[str, bytes] = {}
    done: set[str] = set()
    while queue:
        unit = queue.pop()
        if unit in done:
            continue
        done.add(unit)
        for name in units.get(unit, ()):
            files[f"harness/{name}"] = (_HARNESS / name).read_bytes()
            queue += _list_imported(files[f"harness/{name}"])
    left = {
        name: hash_file(_HARNESS / name) for name, _, _ in stated if name.endswith(".py") and _OWN + name not in files
    }
    return {**files, "harness/LICENSE": _read_licence(), _OWN_LEFT_OUT: describe_left_out(left)}


def digest_own_harness() -> dict[str, str]:
    """Return name → digest of each Python file of this program's harness."""
    return {name: hash_file(_HARNESS / name) for name in _list_files() if name.endswith(".py")}


def _find_unit(name: str) -> str:
    """Find the unit that is packed completely or not at all: "" for the harness's own files, "cuda", "backends/null",
    "benchmarks/bert"."""
    folder, *rest = name.split("/")
    if not rest:
        return ""
    return f"{folder}/{rest[0].removesuffix('.py')}" if folder in _CHOSEN else folder


def _list_imported(source: bytes) -> list[str]:
    found = []
    for match in _IMPORT.finditer(source):
        folder, *rest = match[1].decode().split(".")
        if folder not in _CHOSEN:
            found.append(folder)
        elif rest:
            found.append(f"{folder}/{rest[0]}")
        else:
            found += [f"{folder}/{name}" for name in re.findall(r"\w+", (match[2] or b"").decode())]
    return found


def _read_licence() -> bytes:
    """Read this project's licence: next to the packages in a checkout, else from the metadata of the installation."""
    licence = _HARNESS.parent / "LICENSE"
    if licence.is_file():
        return licence.read_bytes()
    try:
        return (distribution("mlperf-reconciler").read_text("licenses/LICENSE") or "").encode()
    except PackageNotFoundError:
        return b""
