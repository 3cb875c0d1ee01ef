"""Find the results of an endpoints harness command: exactly one new set, or the reason why not.

A set is a folder with config.yaml and performance/result_summary.json or accuracy/accuracy_results.json. Everything
below its audit/ belongs to the set, including the phases of a compliance test, which also contain such files.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.contract import CommandRequest
from harness.verbs.collecting import Collected, Stamps, take

CONFIGS = ("config.yaml", "config.yml")
PARTS = ("performance/result_summary.json", "accuracy/accuracy_results.json")
_AUDIT = ("audit/audit_*.json", "audit/*/performance/result_summary.json")
_UNIX = 10**17  # above any uptime, and below the Unix time of any run
_KEPT_OLD = 3  # how many sets of earlier runs are kept as evidence


@dataclass(frozen=True, slots=True)
class ResultSet:
    """``written``: the time of its newest result. ``new``: neither that time nor the stated start precedes the
    attempt."""

    folder: Path
    written: datetime
    new: bool


def collect_run(request: CommandRequest, clock: int, _before: Stamps) -> Collected:
    """Collect one set of results, which contains its configuration. If the clock was set back during the attempt, their
    dates precede it."""
    passed = timedelta(microseconds=(time.monotonic_ns() - clock) / 1000)
    since = min(datetime.fromisoformat(request.since), datetime.now(UTC) - passed)
    return collect_results(Path(request.logs), since, clock, Path(request.run_dir), Path(request.output))


def find_result_sets(logs: Path, since: datetime, clock: int) -> list[ResultSet]:
    """Return the sets, newest first. ``clock``: monotonic ns at the start of the command; the harness states its own
    start by the same clock."""
    folders = [Path(parent) for parent, _, files in os.walk(logs) if any(name in files for name in CONFIGS)]
    sets = [folder for folder in folders if any((folder / part).is_file() for part in PARTS)]
    own = [folder for folder in sets if not any(folder.is_relative_to(other / "audit") for other in sets)]
    found = [_read(folder, since, clock) for folder in own]
    return sorted(found, key=lambda item: item.written, reverse=True)


def _read(folder: Path, since: datetime, clock: int) -> ResultSet:
    parts = [folder / part for part in PARTS if (folder / part).is_file()]
    # File systems store times less precisely than clocks.
    earliest = since - timedelta(milliseconds=50)
    written = max(datetime.fromtimestamp(part.stat().st_mtime, UTC) for part in parts)
    began = max(map(_read_start, parts))
    if began > _UNIX:
        return ResultSet(folder, written, began >= earliest.timestamp() * 1e9)
    return ResultSet(folder, written, began >= clock if began else written >= earliest)


def _read_start(part: Path) -> int:
    """Return test_started_at in ns; 0 if the file has none, as in the harness's own releases."""
    try:
        document: Any = json.loads(part.read_bytes())
        return int(document.get("test_started_at") or 0)
    except (OSError, ValueError, TypeError, AttributeError):
        return 0


def collect_results(logs: Path, since: datetime, clock: int, run_dir: Path, output: Path) -> Collected:
    """Move the one new set to ``output``; if there are none or several, move the sets found into folders below it."""
    sets = find_result_sets(logs, since, clock)
    new = [item for item in sets if item.new]
    if len(new) == 1:
        _bring(new[0].folder, output, run_dir)
        return Collected(new[0].folder)
    for number, item in enumerate(new or sets[:_KEPT_OLD], start=1):
        _bring(item.folder, output / f"set-{number}", run_dir)
    if new:
        listed = ", ".join(sorted(item.folder.relative_to(logs).as_posix() for item in new))
        return Collected(None, f"result sets: expected one, the command wrote {len(new)}: {listed}")
    if sets:
        asked, written = f"{since:%Y-%m-%d %H:%M:%S}", f"{sets[0].written:%Y-%m-%d %H:%M:%S}"
        return Collected(None, f"start: expected a run at or after {asked} UTC, its results are of {written}")
    wanted = f"no {CONFIGS[0]} with {' or '.join(PARTS)}"
    return Collected(None, f"result sets: expected one, the command wrote none: {wanted}")


def _bring(folder: Path, target: Path, run_dir: Path) -> None:
    """Store files by name only, as a record does; a compliance test's files keep their folders."""
    config = next(folder / name for name in CONFIGS if (folder / name).is_file())
    take(config, target / CONFIGS[0], run_dir)
    for part in PARTS:
        if (folder / part).is_file():
            take(folder / part, target / Path(part).name, run_dir)
    for pattern in _AUDIT:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                take(path, target / path.relative_to(folder), run_dir)
