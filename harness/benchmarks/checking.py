"""What a dataset's folder must hold, looked at as a whole before the first sample is prepared.

A benchmark lists its files; what is missing, empty, cut off, of another kind or size, has another digest, or belongs to
nothing is told at once, by name and with the fix. Digests are those of the list, or of a file such as ``sha256sum``
writes, which many people keep beside their data.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.errors import HarnessError

SUMS = {"SHA256SUMS": "sha256", "sha256sums.txt": "sha256", "MD5SUMS": "md5", "md5sums.txt": "md5"}
_LISTED = 5  # names in a message
_TAIL = 4096  # some programs write a few bytes behind the end of their format
_LONGEST_NAME, _LONGEST_PATH = 255, 2048  # bytes; what file systems take, with room for the folder
_SUM = re.compile(r"([0-9a-fA-F]{32,64}) [ *](.+)")


@dataclass(frozen=True, slots=True)
class FileRule:
    """A file below the folder. ``kind``: what it is, for messages; ``start``: its first bytes; ``end``: bytes within
    its last ones; ``size``: in bytes, where it is known; ``digest``: "sha256:…" or "md5:…"."""

    name: str
    kind: str = "file"
    start: bytes = b""
    end: bytes = b""
    size: int = 0
    digest: str = ""


def is_below(name: object) -> bool:
    """Whether a name that a file gives is one of a file below its folder."""
    if not isinstance(name, str) or "\0" in name or len(name) > _LONGEST_PATH:
        return False
    path = PurePosixPath(name)
    fits = all(len(part.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME for part in path.parts)
    return fits and not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def check_files(folder: Path, rules: Sequence[FileRule], *, fix: str, only: str = "") -> None:
    """Raises HarnessError naming the first few files of each problem. ``only``: files of this pattern below the
    folder must be listed; "" leaves others alone."""
    sums = read_sums(folder)
    problems: dict[str, list[str]] = {}
    # Hashing and reading let go of the interpreter.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = pool.map(lambda rule: _find_problem(folder, rule, sums), rules)
        for rule, problem in zip(rules, found, strict=True):
            if problem:
                problems.setdefault(problem, []).append(rule.name)
    if only and (extra := find_extra(folder, (rule.name for rule in rules), only)):
        problems["belong to nothing"] = extra
    if problems:
        raise HarnessError(f"{folder}: of {len(rules)} files {_tell(problems)}", "input", fix)


def _tell(problems: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f"{len(names)} {problem}: {', '.join(names[:_LISTED])}{', …' if len(names) > _LISTED else ''}"
        for problem, names in problems.items()
    )


def find_extra(folder: Path, names: Iterable[str], pattern: str) -> list[str]:
    """What fits the pattern below the folder and is not among the names."""
    return sorted({path.relative_to(folder).as_posix() for path in folder.glob(pattern)}.difference(names))


def read_sums(folder: Path) -> dict[str, str]:
    """File → "sha256:…" or "md5:…" of what the folder says of itself. Raises HarnessError for a line that is none."""
    found: dict[str, str] = {}
    for name, algorithm in SUMS.items():
        path = folder / name
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            match = _SUM.fullmatch(line.strip())
            if match is None and line.strip():
                raise HarnessError(f"{path}:{number} is not a digest and a file", "input", f"restore or remove {name}")
            if match is not None:
                found.setdefault(match[2].removeprefix("./"), f"{algorithm}:{match[1].lower()}")
    return found


def _find_problem(folder: Path, rule: FileRule, sums: Mapping[str, str]) -> str:
    path = folder / rule.name
    try:
        with path.open("rb") as stream:
            start = stream.read(len(rule.start))
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL))
            tail = stream.read()
    except FileNotFoundError:
        return "are missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not size:
        return "are empty"
    if start != rule.start:
        return f"are not {rule.kind}s" if rule.kind != "file" else "are of another format"
    if rule.end not in tail or (rule.size and size < rule.size):
        return "are cut off"
    if rule.size and size > rule.size:
        return "are longer than they should be"
    digest = rule.digest or sums.get(rule.name, "")
    return "have another digest than they should" if digest and hash_like(path, digest) != digest else ""


def hash_like(path: Path, digest: str) -> str:
    """The file's digest in the manner of another one."""
    algorithm = digest.partition(":")[0]
    with path.open("rb") as stream:
        value = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    return f"{algorithm}:{value}"
