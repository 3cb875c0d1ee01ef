"""The files that a benchmark of MLPerf is made from: where each is published, what proves it, where it belongs in a
scratch space. From the ``files.yaml`` of the benchmark's folder.

Places are relative to the scratch space, laid out as the guides of submitters have it: ``data``, ``models`` and
``preprocessed_data``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from harness import catalog
from reconciler.storage.documents import parse_yaml_mapping

_FOLDER = Path(catalog.__file__).parent / "benchmarks"
_FILE = "files.yaml"
SCRATCH_VARIABLE = "MLPERF_SCRATCH_PATH"
# Where the guides have it where the variable is not set; the newer guide first.
SCRATCH_DEFAULTS = ("/home/mlperf_inference_storage", "/home/mlperf_inference_data")
GIT = "git"
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class FileDigest(Struct, frozen=True):
    """``algorithm``: sha256, or md5 where the source publishes nothing better, or git: the name that git has for the
    file where its repository is all that is published. ``origin``: who published it.
    ``others``: of other versions that are as good, which guides of submitters have under the same name."""

    algorithm: str
    value: str
    origin: str = ""
    others: tuple[str, ...] = ()

    def accepts(self, value: str) -> bool:
        return value == self.value or value in self.others


class SourceFile(Struct, frozen=True, kw_only=True):
    """One file, or the files of one folder, as they are published.

    ``path``: where it belongs, a pattern where it is ``count`` files. ``sources``: addresses of the file, or of the
    archive that it is packed in, any of which will do; none where it must be brought ``by_hand``. ``member``: its name
    in the archive; ``unpack``: the prefix of the names in the archive that are wanted, below the folder of ``path``.
    ``listed_in``: the file that names them, each of which is below an address. ``digest``: of what the address gives.
    ``size``: bytes on disk as people know it, for estimates alone; ``packed``: bytes of the archive. ``known_as``:
    other places where guides have it. ``optional``: a benchmark runs without it.
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
        """The name of the archive that it comes out of; "" where it comes as it is."""
        return PurePosixPath(urlsplit(self.sources[0]).path).name if self.is_archive else ""

    @property
    def is_pattern(self) -> bool:
        return "*" in self.path

    @property
    def places(self) -> tuple[str, ...]:
        return (self.path, *self.known_as)


class BenchmarkFiles(Struct, frozen=True, kw_only=True):
    """``folder``: of its code. ``datasets`` and ``models``: where a spec without a path of its own finds them, the
    first that is there."""

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
    """By the first name of each, in the order of the names."""
    found = (_parse(path) for path in _FOLDER.glob(f"*/{_FILE}"))
    return {item.name: item for item in sorted(found, key=lambda item: item.name)}


def find_benchmark_files(*names: str) -> BenchmarkFiles | None:
    """By any of its names, or that of its code; the first of ``names`` that is known."""
    known = load_benchmark_files().values()
    return next((item for name in names for item in known if name in (*item.names, item.folder)), None)


def _parse(path: Path) -> BenchmarkFiles:
    values = parse_yaml_mapping(path.read_bytes()).values
    return BenchmarkFiles(
        folder=path.parent.name,
        names=tuple(values["names"]),
        datasets=tuple(values["datasets"]),
        models=tuple(values["models"]),
        files=tuple(_parse_file(item) for item in values["files"]),
    )


def _parse_file(written: Mapping[str, Any]) -> SourceFile:
    values = dict(written)
    others = tuple(values.pop("or_digest", ()))
    digests = [FileDigest(name, str(values.pop(name)), values.pop("digest_by"), others) for name in _named(values)]
    return SourceFile(
        **{
            **values,
            "digest": digests[0] if digests else None,
            "size": parse_size(values["size"]),
            "packed": parse_size(values.get("packed", "0 B")),
            "sources": tuple(values.get("sources", ())),
            "known_as": tuple(values.get("known_as", ())),
        }
    )


def _named(values: Mapping[str, Any]) -> Iterable[str]:
    return [name for name in ("sha256", "md5", GIT) if name in values]


def parse_size(text: str) -> int:
    """ "98 MiB" as bytes."""
    amount, unit = text.split()
    return int(float(amount) * _UNITS[unit])
