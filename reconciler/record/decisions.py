"""The files of decisions below ``state/``, each named by the digest of its bytes."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from reconciler.resource.codec import make_versioned, read_document
from reconciler.resource.decisions import FORMAT, Acceptance, Amendment, Decisions, Freeze
from reconciler.storage.files import RepositoryPaths, hash_bytes, replace
from reconciler.storage.json_files import parse_json
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import LARGEST_RECORD, read_regular

ACCEPTED, FROZEN, AMENDED = "state/accepted", "state/frozen", "state/amended"
FOLDERS = (ACCEPTED, FROZEN, AMENDED)
_PLAIN = re.compile(r"[^A-Za-z0-9.-]+")
_T = TypeVar("_T")


def read(paths: RepositoryPaths, today: date) -> Decisions:
    """Read the decisions of the work tree. ``today``: a day in UTC."""
    files: dict[str, bytes] = {}
    unread: dict[str, str] = {}
    for path in _list_files(paths.root):
        try:
            files[path] = read_regular(paths.root / path, LARGEST_RECORD)
        except OSError as error:
            refuse_storage_error(error, paths.root / path)
            unread[path] = error.strerror or str(error)
    found = parse_decisions(files, today)
    return structs.replace(found, damaged={**found.damaged, **unread}) if unread else found


def parse_decisions(files: Mapping[str, bytes], today: date) -> Decisions:
    """Parse path → bytes. An edited file is reported and does not count, since a decision must be made again rather
    than edited."""
    damaged: dict[str, str] = {}
    acceptances = _decode(files, ACCEPTED, Acceptance, damaged)
    freezes, amendments = _decode(files, FROZEN, Freeze, damaged), _decode(files, AMENDED, Amendment, damaged)
    return Decisions(acceptances, freezes, damaged, today, amendments)


def is_decision(path: str) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and path.endswith(".json")


def write(paths: RepositoryPaths, decision: Acceptance | Freeze | Amendment) -> str:
    """Write the file and return its path, relative to the repository."""
    from reconciler.storage.leftovers import sweep_folders

    folder = {Acceptance: ACCEPTED, Freeze: FROZEN, Amendment: AMENDED}[type(decision)]
    data = json.dumps(make_versioned(FORMAT, decision), indent=1, ensure_ascii=False).encode() + b"\n"
    name = _PLAIN.sub("_", str(decision.cell or "submission"))[:120]
    path = f"{folder}/{name}-{hash_bytes(data)[:20]}.json"
    sweep_folders((paths.root / folder,))
    replace(paths.root / path, data)
    return path


def _list_files(root: Path) -> list[str]:
    found = []
    for folder in FOLDERS:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            names = (entry.name for entry in os.scandir(root / folder))
            found += [f"{folder}/{name}" for name in names if name.endswith(".json") and not name.startswith(".")]
    return sorted(found)


def _decode(files: Mapping[str, bytes], folder: str, of: type[_T], damaged: dict[str, str]) -> dict[str, _T]:
    found = {}
    for path, data in sorted(files.items()):
        if not path.startswith(f"{folder}/"):
            continue
        if hash_bytes(data)[:20] != Path(path).stem.rpartition("-")[2]:
            damaged[path] = "it was changed after it was written"
            continue
        try:
            document = parse_json(data)
            if document["format"] != FORMAT:
                raise ValueError(f"unknown format {document['format']}")
            found[path] = read_document(document, of)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            damaged[path] = f"not a readable decision: {error}"
    return found
