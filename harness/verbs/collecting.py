"""Find a command's LoadGen logs: those of exactly one run that began during this attempt, or the reason why not."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.child.digests import hash_file
from harness.contract import CommandRequest

DETAIL = "mlperf_log_detail.txt"
_LOG = "mlperf_log_"
_DATED = rf"{_LOG}(?:\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ_)"  # LoadGen's prefix_with_datetime
_DETAILS = re.compile(rf"(?:{_DATED}|{_LOG})detail.*\.txt$")
_DATED_NAME = re.compile(_DATED)
_BEGAN = re.compile(rb'"key": "power_begin", "value": "([^"]+)"')
_TIME = "%m-%d-%Y %H:%M:%S.%f"
_KEPT_OLD = 3  # how many log sets of earlier runs are kept as evidence


@dataclass(frozen=True, slots=True)
class LogSet:
    """A detail log and its folder. LoadGen may add a prefix and a suffix to its file names; only the default names and
    those with the date of the run are accepted; others come from a run that was not requested.

    ``began``: None if the log has no time. ``written``: written during the attempt.
    """

    folder: Path
    name: str
    began: datetime | None
    written: bool

    @property
    def prefix(self) -> str:
        """The prefix of the file names: the default, or one with the date of the run."""
        dated = _DATED_NAME.match(self.name)
        return dated[0] if dated else _LOG

    @property
    def is_usual(self) -> bool:
        return self.name == DETAIL.replace(_LOG, self.prefix)

    def list_files(self) -> list[Path]:
        """List LoadGen's files in its folder; if dated, only those of this run."""
        logs = [path for path in sorted(self.folder.glob(f"*{_LOG}*")) if path.is_file()]
        return [path for path in logs if path.name.startswith(self.prefix)] if self.prefix != _LOG else logs


@dataclass(frozen=True, slots=True)
class Collected:
    """``folder``: the folder of the one set. ``problem``: the field in which the found files differ from the request;
    "" if all is well."""

    folder: Path | None
    problem: str = ""


Stamps = Mapping[Path, tuple[int, int]]  # path of a detail log → its size, and the time of its last change in ns
Collector = Callable[[CommandRequest, int, Stamps], Collected]
"""Moves the results of a run's command to the request's output, given the monotonic ns at its start, and the logs that
existed then."""


def collect_run(request: CommandRequest, _clock: int, before: Stamps) -> Collected:
    """Collect one set of logs and the user.conf of its run: the one from the request, or the command's own. If the
    request's file was changed, the log decides."""
    since = datetime.fromisoformat(request.since)
    found = collect(Path(request.logs), since, Path(request.run_dir), Path(request.output), before)
    if found.folder is None:
        return found
    if request.user_conf_sha256:
        there = Path(request.user_conf).is_file()
        return found if there else replace(found, problem="user.conf: the command removed the provided file")
    return replace(found, problem=_harvest_user_conf(request, found.folder))


def _harvest_user_conf(request: CommandRequest, found: Path) -> str:
    logs = Path(request.logs)
    above = [folder for folder in (found, *found.parents) if folder.is_relative_to(logs)]
    candidates = [Path(request.user_conf_at)] if request.user_conf_at else [folder / "user.conf" for folder in above]
    conf = next((path for path in candidates if path.is_file()), None)
    if conf is None:
        return f"user.conf: the command wrote none at {candidates[0]}{_name_similar(request.user_conf_at)}"
    Path(request.user_conf).write_bytes(conf.read_bytes())
    return ""


def _name_similar(user_conf_at: str) -> str:
    """Name a user.conf of another system, benchmark or scenario, if there is one."""
    folders = Path(user_conf_at).parents[:3]
    near = [path for folder in folders for path in folder.parent.glob(f"*/{Path(user_conf_at).relative_to(folder)}")]
    return f", but one at {near[0]}: correct the system's name, or harness.user_conf_at" if near else ""


def list_stamps(logs: Path) -> dict[Path, tuple[int, int]]:
    """Record the detail logs at any depth, in order to find out afterwards which ones a command wrote."""
    stamps = ((path, path.stat()) for path in _find_details(logs))
    return {path: (stamp.st_size, stamp.st_mtime_ns) for path, stamp in stamps}


def _find_details(logs: Path) -> list[Path]:
    paths = (Path(parent) / name for parent, _, files in os.walk(logs) for name in files if _DETAILS.search(name))
    return [path for path in paths if path.is_file()]


def find_sets(logs: Path, before: Stamps) -> list[LogSet]:
    """Return the sets, newest first."""
    stamps = list_stamps(logs)
    found = [LogSet(path.parent, path.name, _read_start(path), before.get(path) != stamps[path]) for path in stamps]
    return sorted(found, key=lambda item: item.began or datetime.min.replace(tzinfo=UTC), reverse=True)


def _read_start(path: Path) -> datetime | None:
    stated = _BEGAN.search(path.read_bytes())
    try:
        return datetime.strptime(stated[1].decode(), _TIME).replace(tzinfo=UTC) if stated else None
    except ValueError:
        return None


def collect(logs: Path, since: datetime, run_dir: Path, output: Path, before: Stamps) -> Collected:
    """Move the one set written during the attempt to ``output``; if there are none or several, move the sets found into
    folders below it. A set dated before the attempt is a copy of an earlier run, unless all sets are: then the clock
    was behind or was set back, and the record notes that. LoadGen logs milliseconds."""
    sets = find_sets(logs, before)
    written = [item for item in sets if item.written]
    earliest = since - timedelta(microseconds=since.microsecond % 1000)
    new = _drop_copies([item for item in written if item.began is None or item.began >= earliest] or written)
    new = _drop_warm_ups(new)
    usual = [item for item in new if item.is_usual]
    if len(new) == len(usual) == 1:
        _bring(new[0], output, run_dir)
        return Collected(new[0].folder)
    for number, item in enumerate(new or sets[:_KEPT_OLD], start=1):
        _bring(item, output / f"set-{number}", run_dir)
    if len(new) > 1:
        listed = ", ".join(sorted(_describe_place(item, logs) for item in new))
        return Collected(None, f"log sets: expected one, the command wrote {len(new)}: {listed}")
    if new:
        called = _describe_place(new[0], logs)
        return Collected(None, f"log sets: expected one named {DETAIL}, the command wrote {called}")
    if sets:
        began = f"{sets[0].began:%Y-%m-%d %H:%M:%S}" if sets[0].began else "an unknown time"
        asked = f"{since:%Y-%m-%d %H:%M:%S} UTC"
        return Collected(None, f"start: expected a run at or after {asked}, LoadGen logged {began}")
    return Collected(None, f"log sets: expected one, the command wrote none: no {DETAIL} in its log folder")


def _drop_copies(sets: list[LogSet]) -> list[LogSet]:
    """Detail logs with the same name and bytes belong to one run. Keep the folder with the most LoadGen files; of equal
    ones, keep the topmost."""
    runs: dict[tuple[str, str], LogSet] = {}
    for item in sorted(sets, key=lambda item: (-len(item.list_files()), len(item.folder.parts), item.folder)):
        runs.setdefault((item.name, hash_file(item.folder / item.name)), item)
    return [item for item in sets if item in runs.values()]


def _drop_warm_ups(sets: list[LogSet]) -> list[LogSet]:
    """Drop runs that began earlier and are in a folder below another run's, because they prepared that run. Of several
    runs the last counts, so that no command can choose among them."""
    for item in sets:
        others = [other for other in sets if other is not item]
        if others and all(_is_warm_up(other, item) for other in others):
            return [item]
    return sets


def _is_warm_up(item: LogSet, run: LogSet) -> bool:
    below = run.folder in item.folder.parents
    return below and item.began is not None and run.began is not None and item.began < run.began


def bring_outputs(patterns: tuple[str, ...], cwd: Path, run_dir: Path, output: Path) -> None:
    """Keep further files, folders or matches of patterns, and ignore missing ones. Files with the same name get
    separate folders."""
    taken = set[Path]()
    for found in (found for pattern in patterns for found in find_matching(pattern, cwd)):
        if found.resolve() in taken:
            continue
        taken.add(found.resolve())
        target = _find_free_target(output / "outputs", found)
        if found.is_dir():
            shutil.copytree(found, target)
        elif found.is_file():
            take(found, target, run_dir)


def _find_free_target(folder: Path, found: Path) -> Path:
    """Find a free target: the file's name, preceded by as many parent folders as it needs to be unique."""
    parts = found.parts
    targets = (folder.joinpath(*parts[-count:]) for count in range(1, len(parts)))
    return next(target for target in targets if not target.exists())


def find_matching(pattern: str, cwd: Path) -> list[Path]:
    """Find files and folders by a pattern, absolute or relative to ``cwd``."""
    path = Path(pattern)
    base, relative = (cwd, pattern) if not path.is_absolute() else (Path("/"), str(path.relative_to("/")))
    return sorted(base.glob(relative))


def _bring(item: LogSet, target: Path, run_dir: Path) -> None:
    for path in item.list_files():
        take(path, target / path.name.replace(item.prefix, _LOG), run_dir)


def take(path: Path, target: Path, run_dir: Path) -> None:
    """Move files that are in the run's own folder, since accuracy logs are large, and copy all others."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.resolve().is_relative_to(run_dir.resolve()):
        path.replace(target)
    else:
        shutil.copyfile(path, target)


def _describe_place(item: LogSet, logs: Path) -> str:
    """Return the log's folder, and its name if that is unusual."""
    path = item.folder if item.name == DETAIL else item.folder / item.name
    return path.relative_to(logs).as_posix()
