"""Measures how far a rendering reproduces the adopted tree: byte for byte, in content, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from reconciler.importing.submitted_files import is_readable, walk_sent
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.storage.files import hash_bytes
from reconciler.tree.content import Content, LogRef, hash_content
from reconciler.tree.documents import read_statements


class Reproduced(Struct, frozen=True):
    """Paths of the adopted tree, each sorted. ``same``: equal bytes, under that name or the proper one.

    ``equal``: JSON or YAML with equal values in another notation. ``differing``: rendered with other content.
    ``missing``: not rendered.
    """

    same: tuple[str, ...]
    equal: tuple[str, ...]
    differing: tuple[str, ...]
    missing: tuple[str, ...]


def compare_with(
    rendered: Mapping[str, Content],
    folders: Mapping[str, Path],
    read: Callable[[LogRef], bytes],
    unreadable: Collection[Path] = (),
) -> Reproduced:
    """Compare a rendering with the adopted tree. ``folders``: division/submitter → its path on disk. ``unreadable``:
    paths in it that are not read."""
    by_name = {path.casefold(): content for path, content in rendered.items()}
    found: dict[str, list[str]] = {"same": [], "equal": [], "differing": [], "missing": []}
    for shown, folder in folders.items():
        for path in sorted(p for p in walk_sent(folder) if is_readable(p, unreadable) and p.is_file()):
            name = f"{shown}/{path.relative_to(folder).as_posix()}"
            content = by_name.get(name.casefold()) or _renamed(name, rendered)
            found[_verdict(path, content, read)].append(name)
    return Reproduced(**{kind: tuple(names) for kind, names in found.items()})


def _renamed(name: str, rendered: Mapping[str, Content]) -> Content | None:
    """Find the rendered file of a legacy measurements file, which may have any name that begins with the system's."""
    path = PurePosixPath(name)
    if path.suffix != ".json" or "/measurements/" not in name:
        return None
    siblings = (
        p for p in rendered if PurePosixPath(p).parent.as_posix().casefold() == path.parent.as_posix().casefold()
    )
    return next((rendered[p] for p in siblings if p.endswith(".json")), None)


def _verdict(path: Path, content: Content | None, read: Callable[[LogRef], bytes]) -> str:
    if content is None:
        return "missing"
    data = path.read_bytes()
    if hash_bytes(data) == hash_content(content):
        return "same"
    own = read(content) if isinstance(content, LogRef) else content
    if path.suffix == ".yaml":
        return "equal" if _same(parse_yaml_mapping, data, own) else "differing"
    if path.suffix != ".json":
        return "differing"
    stated = read_statements(data)
    same = stated is not None and stated == read_statements(own)
    return "equal" if same or _same(parse_json_object, data, own) else "differing"


def _same(parse: Callable[[bytes], ResultDocument], data: bytes, own: bytes) -> bool:
    """Return True if two documents have equal values, in any order."""
    try:
        return parse(data).values == parse(own).values
    except (ValueError, RecursionError):
        return False
