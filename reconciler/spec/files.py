"""Find, read and decode the spec files named on a command line."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem, ReconcilerError
from reconciler.spec.names import find_nearest
from reconciler.storage.untrusted_files import SpecialFileError, read_regular, walk_files

LARGEST_FILE = 8 * 2**20
_SPEC_LINE = re.compile(r"""^[\s{]*["']?(apiVersion|kind|metadata|spec)["']?\s*:""", re.MULTILINE | re.IGNORECASE)
_ENDINGS = (".yaml", ".yml")
# Control characters, characters without width, and characters that change the writing direction.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    "|[\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069]"
)


class Source(Struct, frozen=True):
    """A file as read. ``name``: its path relative to the repository; ``blob``: the git blob id of its bytes. ``named``:
    whether the file itself was named rather than its folder."""

    name: str
    text: str
    blob: str
    named: bool = True


def read_readable_sources(paths: Sequence[Path], root: Path) -> list[Source]:
    """Read specs for an edit. Raises ReconcilerError if a file cannot be read."""
    sources, problems = read_sources(paths, root)
    if problems:
        raise ReconcilerError(str(problems[0]), fix="reconcile validate")
    return sources


def read_sources(paths: Sequence[Path], root: Path) -> tuple[list[Source], list[Problem]]:
    """Read every spec file in ``paths`` (files, or folders with .yaml and .yml files), each once."""
    sources: list[Source] = []
    problems: list[Problem] = []
    chosen: dict[Path, tuple[Path, bool]] = {}  # resolved path → (path as written, whether the file itself was named)
    for path in paths:
        try:
            found, missing = ([path], []) if leads_out(path, root) else _list_files(path, root)
        except (OSError, RuntimeError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            found, missing = [], [Problem(str(path), 1, 1, "", f"the path cannot be read: {why}", "check the path")]
        problems += missing
        for file in found:
            if leads_out(file, root):
                problems.append(refuse_link(make_written_name(file, root)))
                continue
            resolved = _resolve_path(file)
            spelled, named = chosen.get(resolved, (file, False))
            chosen[resolved] = spelled, named or file is path
    for file, named in chosen.values():
        source = _read_file(file, root)
        if isinstance(source, Source):
            sources.append(replace(source, named=named))
        else:
            problems.append(source)
    if not paths:
        problems.append(Problem("", 0, 0, "", "missing spec file", "pass a spec file, such as specs/quickstart.yaml"))
    return sources, problems


def _resolve_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # circular links
        return path.absolute()


def make_relative_name(path: Path, root: Path) -> str:
    """Return the path as shown in problems and origins: relative to the repository, or unchanged if it is outside."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except (ValueError, OSError, RuntimeError):
        return path.as_posix()


def make_written_name(path: Path, root: Path) -> str:
    """Return the path relative to the repository if it is inside, without following links."""
    written = Path(os.path.normpath(Path.cwd() / path))
    tops = (Path(os.path.normpath(Path.cwd() / root)), _resolve_path(root))
    return next((written.relative_to(top).as_posix() for top in tops if written.is_relative_to(top)), path.as_posix())


def leads_out(path: Path, root: Path) -> bool:
    """Return True if a path in the repository leads to a file outside, or to one of git's own. A branch's author
    controls its links, and a reader of its spec must be shown only files of that branch."""
    if Path(make_written_name(path, root)).is_absolute() or ".." in Path(make_written_name(path, root)).parts:
        return False  # the path as written is already outside, so it is the user's choice
    top, found = _resolve_path(root), _resolve_path(path)
    return not found.is_relative_to(top) or ".git" in found.relative_to(top).parts


def refuse_link(name: str) -> Problem:
    fix = "copy its target into the repository, or remove the link"
    return Problem(name, 1, 1, "", "the link points outside the repository", fix)


def is_spec_text(text: str) -> bool:
    """Return True if a file claims to be a spec, or has parts of one. Lines of any other file are never quoted."""
    return _SPEC_LINE.search(text) is not None


def compute_blob_id(data: bytes) -> str:
    """Return git's SHA-1 object id of a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _list_files(path: Path, root: Path) -> tuple[list[Path], list[Problem]]:
    name = make_relative_name(path, root)
    if path.is_dir():
        found = sorted(item for item in walk_files(path) if _is_spec(item, path))
        fix = "pass a folder with specs, or a spec file"
        return found, [] if found else [Problem(name, 1, 1, "", "the folder contains no .yaml file", fix)]
    if path.exists():
        return [path], []
    folder = path.parent
    close = find_nearest(path.name, [item.name for item in folder.iterdir()]) if folder.is_dir() else None
    fix = "check the path; 'reconcile init' writes a starter"
    fix = f"did you mean {make_relative_name(folder / close, root)}?" if close else fix
    return [], [Problem(name, 1, 1, "", "no such file", fix)]


def _is_spec(item: Path, folder: Path) -> bool:
    """Return True for .yaml and .yml files that are not hidden, and for links that cannot be followed, so that reading
    them reports a problem."""
    if any(part.startswith(".") for part in item.relative_to(folder).parts):
        return False
    if item.is_symlink() and (item.is_dir() or not item.exists()):
        return True
    return item.suffix in _ENDINGS and not item.is_dir()


def _read_file(path: Path, root: Path) -> Source | Problem:
    if path.is_symlink() and (wrong := _explain_link(path)):
        return Problem(f"{make_relative_name(path.parent, root)}/{path.name}", 1, 1, "", *wrong)
    name = make_relative_name(path, root)
    try:
        data = read_regular(path, LARGEST_FILE)
    except SpecialFileError as error:
        return Problem(name, 1, 1, "", str(error.strerror), "pass a spec, not data")
    except OSError as error:
        return Problem(name, 1, 1, "", f"the file cannot be read: {error.strerror}", "check that it is a readable file")
    return decode(data, name)


def _explain_link(path: Path) -> tuple[str, str] | None:
    if path.is_dir():
        return "links to folders are not followed", "link its files, or pass the folder on the command line"
    if path.exists():
        return None
    try:
        path.resolve(strict=True)
    except FileNotFoundError:
        return f"the link points to {path.readlink()}, which does not exist", "fix or remove the link"
    except (OSError, RuntimeError):
        pass
    return "the link points back to itself", "fix or remove the link"


def decode(data: bytes, name: str) -> Source | Problem:
    """Decode UTF-8 (skipping a byte order mark), or report the place of invalid or control characters. The name is
    checked as well, since records and plans quote it."""
    if _UNPRINTABLE.search(name) or not name.isprintable():
        message = "the file name is not UTF-8, or contains invisible characters"
        return Problem(name, 1, 1, "", message, "rename the file")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem(name, 1, 1, "", "the file is UTF-16", "save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _locate_end(data[: error.start].decode("utf-8", "replace"))
        return Problem(name, *place, "", f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8")
    if (odd := _UNPRINTABLE.search(text)) is not None:
        place, message = _locate_end(text[: odd.start()]), f"invisible character (U+{ord(odd[0]):04X})"
        return Problem(name, *place, "", message, "delete it")
    return Source(name, text, compute_blob_id(data))


def _locate_end(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")
