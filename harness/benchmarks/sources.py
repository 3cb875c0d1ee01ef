"""A benchmark's source files in their usual layout on disk; generated ones are marked permanently."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import IO, Any

from harness.errors import HarnessError

# This file is in the folder of every generated dataset; anything made from it is marked synthetic.
REHEARSAL = "rehearsal.json"


def is_rehearsal(source: Path | None) -> bool:
    return source is not None and (source / REHEARSAL).is_file()


def require_source(source: Path | None, what: str) -> Path:
    """Return the source's folder. ``what``: description of the folder that a spec should name."""
    if source is None:
        raise HarnessError("dataset.path is not set", "input", f"set dataset.path to the folder with {what}")
    return source


def choose_dtype(settings: Mapping[str, Any], known: Sequence[str] = ("float32", "float16")) -> str:
    """Choose the samples' dtype by the dataset's settings."""
    return choose_setting("dataset", settings, "dtype", known)


def choose_setting(of: str, settings: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    """Choose by a setting of the dataset or model; the default is the first of the known values."""
    value = str(settings.get(name, known[0]))
    if value not in known:
        raise HarnessError(f"{of}.settings.{name} is {value!r}", "input", f"use one of {', '.join(known)}")
    return value


def count_threads(settings: Mapping[str, Any], most: int = 0) -> int:
    """Return the number of threads: the one in the settings, otherwise one per processor, but at most ``most``."""
    cores = len(os.sched_getaffinity(0))
    return int(settings.get("threads", 0)) or min(most or cores, cores)


def choose_count(settings: Mapping[str, Any], there: int) -> int:
    """Return the number of samples to prepare: the first ``count``, or all if the spec has none. Raises HarnessError if
    there are fewer."""
    count = int(settings.get("count", 0)) or there
    if count > there:
        fix = "complete the dataset, or lower dataset.settings.count"
        raise HarnessError(f"count asks for {count:,} samples, but the dataset has {there:,}", "input", fix)
    return count


def read_list(benchmark: str, name: str) -> list[str]:
    """Return the words of a list included with a benchmark's code."""
    return files(f"harness.benchmarks.{benchmark}").joinpath(name).read_text(encoding="ascii").split()


def read_case_names(benchmark: str, count: int) -> list[str]:
    """Return the first of a benchmark's cases. Raises HarnessError if it has fewer."""
    names = read_list(benchmark, "cases.txt")[:count]
    if count > len(names):
        raise HarnessError(f"the benchmark has {len(names)} cases, not {count}", "input", "use fewer samples")
    return names


def read_json(path: Path, fix: str) -> Any:
    """Read JSON. Raises HarnessError naming the file and the position of the error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path} is truncated or not JSON: {error}", "input", fix) from error


# A benchmark lists its files; everything that is missing, empty, truncated, of another kind or size, has another
# digest, or is not listed is reported at once, by name and with the fix. Digests come from the list, or from a file
# like those that `sha256sum` writes, which many people store with their data.

SUMS = {"SHA256SUMS": "sha256", "sha256sums.txt": "sha256", "MD5SUMS": "md5", "md5sums.txt": "md5"}


FileProblem = tuple[str, str]
"""Problem with a file, worded for one file and for several."""
_LISTED = 5  # names in a message
_LOCAL_HEADER = 30  # bytes of a zip member's own header, before its name
_TAIL = 4096  # some programs write a few bytes after the end of their format
_LONGEST_NAME, _LONGEST_PATH = 255, 2048  # bytes; the limit of file systems, with room for the folder
_SUM = re.compile(r"([0-9a-fA-F]{32,64}) [ *](.+)")
# Names of duplicates made by browsers, file managers and wget, and of incomplete files.
_COPY = re.compile(r"(.+?) ?(?:\((?:\d+|copy)\)| - Copy)((?:\.[^.]+)*)", re.DOTALL)
_PIECE = re.compile(r"(.+)\.(?:\d+|aria2|crdownload|download|part|partial|tmp)", re.DOTALL)
_DIGEST = ("has the wrong digest", "have the wrong digest")
_EXTRA = ("belongs to nothing", "belong to nothing")


@dataclass(frozen=True, slots=True)
class FileRule:
    """A file below the folder. ``kind``: what it is, for messages; ``start``: its first bytes; ``end``: bytes that
    occur near its end; ``size``: in bytes, if it is known; ``digest``: "sha256:…" or "md5:…"."""

    name: str
    kind: str = "file"
    start: bytes = b""
    end: bytes = b""
    size: int = 0
    digest: str = ""


def is_below(name: object) -> bool:
    """Return True if a name in a file refers to a file below its folder."""
    if not isinstance(name, str) or "\0" in name or len(name) > _LONGEST_PATH:
        return False
    path = PurePosixPath(name)
    fits = all(len(part.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME for part in path.parts)
    return fits and not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def check_files(folder: Path, rules: Sequence[FileRule], *, fix: str, only: str | Iterable[str] = ()) -> None:
    """Check the files. Raises HarnessError naming the first few files of each problem. ``only``: files of these
    patterns below the folder must be listed. Others are ignored, except duplicates and unfinished downloads of listed
    ones."""
    sums = read_sums(folder)
    problems: dict[FileProblem, list[str]] = {}
    # Hashing and reading release the interpreter lock.
    with ThreadPoolExecutor(count_threads({})) as pool:
        found = pool.map(lambda rule: _find_problem(folder, rule, sums), rules)
        for rule, problem in zip(rules, found, strict=True):
            if problem:
                problems.setdefault(problem, []).append(rule.name)
    names = {rule.name for rule in rules}
    extra = find_leftovers(folder, names)
    for pattern in [only] if isinstance(only, str) else only:
        extra.update(find_extra(folder, names, pattern) if pattern else ())
    if extra:
        problems[_EXTRA] = sorted(extra)
        fix = f"{fix}; remove unneeded files"
    if problems:
        raise HarnessError(f"{folder}: {_describe(problems, len(rules))}", "input", fix)


def describe_problems(state: str, names: Sequence[str], total: int) -> str:
    """Describe problems, such as "of 2 files 1 is truncated: a.npy"."""
    return _describe({_make_problem(state): names}, total)


def check_ends(folder: Path, ends: Mapping[str, int], fix: str) -> None:
    """Check files that consist of parts. ``ends``: the end of the last part of each. Raises HarnessError naming the
    first few that are missing or cut off."""
    sizes = {name: (folder / name).stat().st_size if (folder / name).is_file() else -1 for name in ends}
    for problem, names in (
        ("missing", [name for name, size in sizes.items() if size < 0]),
        ("cut off", [name for name, size in sizes.items() if 0 <= size < ends[name]]),
    ):
        if names:
            raise HarnessError(f"{folder}: {describe_problems(problem, sorted(names), len(ends))}", "input", fix)


def find_stored(stream: IO[bytes], header: int) -> int:
    """Find the first byte of an uncompressed member of a zip file. The member's own header begins at ``header``."""
    stream.seek(header + _LOCAL_HEADER - 4)
    name, extra = struct.unpack("<2H", stream.read(4))
    return header + _LOCAL_HEADER + int(name) + int(extra)


def _describe(problems: Mapping[FileProblem, Sequence[str]], total: int) -> str:
    files = "1 file" if total == 1 else f"{total} files"
    return f"of {files} " + "; ".join(
        f"{len(names)} {one if len(names) == 1 else several}: "
        f"{', '.join(names[:_LISTED])}{', …' if len(names) > _LISTED else ''}"
        for (one, several), names in problems.items()
    )


def find_extra(folder: Path, names: Iterable[str], pattern: str) -> list[str]:
    """Find files below the folder that match the pattern and are not among the names."""
    return sorted(
        {path.relative_to(folder).as_posix() for path in folder.glob(pattern)}.difference(
            str(PurePosixPath(name)) for name in names
        )
    )


def find_leftovers(folder: Path, names: Collection[str]) -> set[str]:
    """Find duplicates and unfinished downloads of the files with these names, since one may be the intended file."""
    listed = set(names)
    found = set()
    for parent in {PurePosixPath(name).parent for name in listed}:
        with suppress(OSError):  # a missing folder is reported with its files
            for entry in [path.name for path in (folder / parent).iterdir()]:
                if (match := _COPY.fullmatch(entry) or _PIECE.fullmatch(entry)) is None:
                    continue
                if (parent / "".join(match.groups())).as_posix() in listed:
                    found.add((parent / entry).as_posix())
    return found - listed


def is_there(path: Path) -> bool:
    """Return True if an optional file exists. Raises HarnessError for a dangling link, since a file was intended."""
    if path.is_symlink() and not path.exists():
        fix = "restore its target, or remove the link"
        raise HarnessError(f"{path} is a link to {path.readlink()}, which is missing", "missing", fix)
    return path.is_file()


def read_sums(folder: Path) -> dict[str, str]:
    """Map files to "sha256:…" or "md5:…" from the folder's own lists. Raises HarnessError for an invalid line."""
    found: dict[str, str] = {}
    for name, algorithm in SUMS.items():
        path = folder / name
        if not is_there(path):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            match = _SUM.fullmatch(line.strip())
            if match is None and line.strip():
                raise HarnessError(f"{path}:{number} is not a digest and a file", "input", f"restore or remove {name}")
            if match is not None:
                found.setdefault(match[2].removeprefix("./"), f"{algorithm}:{match[1].lower()}")
    return found


def _find_problem(folder: Path, rule: FileRule, sums: Mapping[str, str]) -> FileProblem | None:
    path = folder / rule.name
    try:
        with path.open("rb") as stream:
            start = stream.read(len(rule.start))
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL))
            tail = stream.read()
    except FileNotFoundError:
        return _make_problem("missing")
    except OSError as error:
        return (f"cannot be read ({error.strerror})",) * 2
    if not size:
        return _make_problem("empty")
    if start != rule.start:
        other = (f"is no {rule.kind}", f"are not {rule.kind}s")
        return _make_problem("of another format") if rule.kind == "file" else other
    if rule.end not in tail or (rule.size and size < rule.size):
        return _make_problem("truncated")
    if rule.size and size > rule.size:
        return _make_problem("too long")
    digest = rule.digest or sums.get(rule.name, "")
    return _DIGEST if digest and hash_like(path, digest) != digest else None


def _make_problem(state: str) -> FileProblem:
    return f"is {state}", f"are {state}"


def hash_like(path: Path, digest: str) -> str:
    """Return the file's digest by the algorithm of another one."""
    algorithm = digest.partition(":")[0]
    with path.open("rb") as stream:
        value = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    return f"{algorithm}:{value}"
