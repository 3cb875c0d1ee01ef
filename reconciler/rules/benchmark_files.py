"""Source files of an MLPerf benchmark, from ``files.yaml`` in the benchmark's folder: where each is published, how it
is verified, and where it belongs in a scratch space.

Paths are relative to the scratch space, laid out as in submitters' guides: ``data``, ``models`` and
``preprocessed_data``. ``each`` has the fields of files that do not state them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, convert, field

from harness import catalog
from reconciler.errors import ReconcilerError
from reconciler.rules.benchmark_facts import find_benchmark_facts, load_benchmark_facts
from reconciler.storage.documents import parse_yaml_mapping

_FOLDER = Path(catalog.__file__).parent / "benchmarks"
_FILE = "files.yaml"
SCRATCH_VARIABLE = "MLPERF_SCRATCH_PATH"
# Default locations in the guides if the variable is not set; the newer guide first.
SCRATCH_DEFAULTS = ("/home/mlperf_inference_storage", "/home/mlperf_inference_data")
GIT = "git"
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def choose_scratch(named: str | None, is_there: Callable[[str], bool]) -> str:
    """Choose the scratch space: the value of the variable if it is set, else the first of the guides' locations that
    ``is_there``, else "". Raises ReconcilerError for a value that is not an absolute path, since it would name another
    folder in each process."""
    if not named:
        return next((path for path in SCRATCH_DEFAULTS if is_there(path)), "")
    if not named.startswith(("/", "${")):  # a commit is read independently of the machine, with unexpanded variables
        problem = f"{SCRATCH_VARIABLE} is {named!r}, which is not an absolute path"
        raise ReconcilerError(problem, fix=f"export {SCRATCH_VARIABLE}=/path/to/it, or name the datasets and models")
    return named


class FileDigest(Struct, frozen=True):
    """Digest of a file. ``algorithm``: sha256; md5 if the source publishes nothing better; git (the blob id) if only a
    repository is published. ``origin``: who published it. ``others``: digests of equally valid versions that
    submitters' guides have under the same name."""

    algorithm: str
    value: str
    origin: str = ""
    others: tuple[str, ...] = ()

    def accepts(self, value: str) -> bool:
        return value == self.value or value in self.others


class SourceFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published file, or the files of one folder.

    ``path``: destination, a pattern if there are ``count`` files. ``sources``: alternative addresses of the file or of
    the archive that contains it; empty if it must be obtained ``by_hand``. ``member``: its name in the archive;
    ``unpack``: prefix of the archive members to extract into the folder of ``path``. ``listed_in``: the file that lists
    the members, each below an address. ``digest``: digest of the downloaded file. ``size``: approximate bytes on disk,
    for estimates only; ``packed``: bytes of the archive. ``known_as``: other locations used in guides. ``optional``:
    the benchmark runs without it.
    """

    path: str
    about: str
    licence: str
    size: int
    sources: tuple[str, ...] = ()
    digest: FileDigest | None = None
    member: str = ""
    unpack: str | None = None
    listed_in: str = ""
    packed: int = 0
    count: int = 1
    by_hand: str = ""
    known_as: tuple[str, ...] = ()
    optional: bool = False

    @property
    def is_archive(self) -> bool:
        return bool(self.member) or self.unpack is not None

    @property
    def archive(self) -> str:
        """Name of the archive that contains it; "" if it is not packed."""
        return PurePosixPath(urlsplit(self.sources[0]).path).name if self.is_archive else ""

    @property
    def is_pattern(self) -> bool:
        return "*" in self.path

    @property
    def places(self) -> tuple[str, ...]:
        return (self.path, *self.known_as)


class BenchmarkFiles(Struct, frozen=True, kw_only=True):
    """Source files of one benchmark. ``folder``: its code folder. ``names``: those in a spec. ``datasets`` and
    ``models``: default locations for a spec without a path; the first that exists is used."""

    folder: str
    names: tuple[str, ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    files: tuple[SourceFile, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return self.names[0]


@cache
def load_benchmark_files() -> Mapping[str, BenchmarkFiles]:
    """Load the files of each benchmark by its first name, in name order."""
    found = filter(None, (_load_files(code) for code in load_benchmark_facts()))
    return {item.name: item for item in sorted(found, key=lambda item: item.name)}


def find_benchmark_files(*names: str) -> BenchmarkFiles | None:
    """Find a benchmark by any of its names or its code name; the first known one of ``names`` wins."""
    known = filter(None, map(find_benchmark_facts, names))
    return next(filter(None, (_load_files(facts.code) for facts in known)), None)


@cache
def _load_files(code: str) -> BenchmarkFiles | None:
    path, facts = _FOLDER / code / _FILE, find_benchmark_facts(code)
    if facts is None or not path.is_file():
        return None
    values = parse_yaml_mapping(path.read_bytes()).values
    files = [_arrange_file({**values.get("each", {}), **_read_entry(path, item)}) for item in values["files"]]
    return convert({**values, "folder": code, "names": tuple(facts.names), "files": files}, BenchmarkFiles)


def _read_entry(path: Path, entry: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return the fields of a file. A text is the path of a document with them, which several benchmarks share."""
    return parse_yaml_mapping((path.parent / entry).read_bytes()).values if isinstance(entry, str) else entry


def _arrange_file(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a file, with sizes in bytes and the digest as a group of its own."""
    fields = {**written, "size": parse_size(written["size"]), "packed": parse_size(written.get("packed", "0 B"))}
    for algorithm in ("sha256", "md5", GIT):
        if algorithm in written:
            origin, others = fields.pop("digest_by"), fields.pop("or_digest", ())
            value = str(fields.pop(algorithm))
            fields["digest"] = {"algorithm": algorithm, "value": value, "origin": origin, "others": others}
    return fields


def parse_size(text: str) -> int:
    """Return the bytes of a size such as "98 MiB"."""
    amount, unit = text.split()
    return int(float(amount) * _UNITS[unit])
