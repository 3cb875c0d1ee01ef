"""Remove stored files that no record names, in the work tree or in any local branch or tag, and lost attempts, except
those that a queue may still run."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from reconciler.errors import RecordError
from reconciler.record.codec import decode
from reconciler.resource.kinds import Kind
from reconciler.storage.files import RepositoryPaths, TrialPaths, remove
from reconciler.storage.json_files import parse_json
from reconciler.storage.untrusted_files import LARGEST_RECORD, read_regular


class GcReport(Struct, frozen=True):
    """The result of a collection. ``objects``: number of stored files removed (or to be removed), ``bytes``: their
    size; ``attempts``: folders of lost attempts; ``trials``: number of trials' records."""

    objects: int
    bytes: int
    attempts: int
    trials: int
    paths: tuple[str, ...]


def collect(
    paths: RepositoryPaths,
    elsewhere: Iterable[bytes],
    *,
    spared: Collection[Path] = (),
    dry_run: bool = False,
    trials: bool = False,
) -> GcReport:
    """Remove unused files. ``elsewhere``: the bytes of every record in local refs. ``spared``: folders of attempts that
    a queue may still run. ``trials``: remove trials with the files that only they name; otherwise they are kept like
    results. Requires the pass lock. Raises RecordError for a damaged record."""
    trial_paths = TrialPaths(paths.root, paths.apart)
    tried = list(trial_paths.records.glob("*/*.json"))
    try:
        here = [_read(path) for path in paths.records.glob("*/*.json")]
        here += [] if trials else [_read(path) for path in tried]
        here += [_read_record(path) for path in paths.audits.glob("*.json")]
        # An unreadable record stops the collection, because it could name any file.
        named = {item.sha256 for data in (*here, *elsewhere) for item in decode(data, "a record").artifacts}
    except RecordError as error:
        problem = f"nothing was removed: {error.message}"
        raise RecordError(problem, fix="run `reconcile` first: it repairs records") from error
    stored = sorted(folder for folder in paths.objects.glob("*") if folder.is_dir())
    unnamed = [Path(e.path) for folder in stored for e in os.scandir(folder) if e.name not in named]
    size = sum(path.stat().st_size for path in unnamed)
    folders = [p for at in (paths.attempts, trial_paths.attempts) for p in sorted(at.glob("*"))]
    attempts = [p for p in folders if p not in spared and not (p / "result.json").exists()]
    if not dry_run:
        for path in [*unnamed, *attempts, *(_list_trials(trial_paths, spared) if trials else [])]:
            remove(path)
    made = sum(1 for path in tried if path.parent.name == Kind.RUN) if trials else 0
    return GcReport(len(unnamed), size, len(attempts), made, tuple(str(p) for p in unnamed))


def _list_trials(trial_paths: TrialPaths, spared: Collection[Path]) -> list[Path]:
    """List all files of trials, except those that a queue may still use."""
    if not any(folder.parent == trial_paths.attempts for folder in spared):
        return [trial_paths.trials] if trial_paths.trials.exists() else []
    ended = [folder for folder in trial_paths.attempts.glob("*") if folder not in spared]
    return [*(path for path in trial_paths.trials.glob("*") if path != trial_paths.attempts), *ended]


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_RECORD)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}", fix="restore the file from git") from error


def _read_record(report: Path) -> bytes:
    """Read the record of a repeated measurement from its audit's report."""
    try:
        return json.dumps(parse_json(_read(report))["record"]).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{report}: not a readable report: {error}", fix="restore the file from git") from error
