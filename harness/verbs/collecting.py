"""Finds the LoadGen logs that a command left: of exactly one run that began with this attempt, or a reason why not."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from harness.contract import CommandRequest

DETAIL = "mlperf_log_detail.txt"
_LOG = "mlperf_log_"
_DATED = rf"{_LOG}(?:\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ_)"  # LoadGen's prefix_with_datetime
_DETAILS = re.compile(rf"(?:{_DATED}|{_LOG})detail.*\.txt$")
_DATED_NAME = re.compile(_DATED)
_BEGAN = re.compile(rb'"key": "power_begin", "value": "([^"]+)"')
_TIME = "%m-%d-%Y %H:%M:%S.%f"
_KEPT_OLD = 3  # log sets of earlier runs that are kept to show what was found


@dataclass(frozen=True, slots=True)
class LogSet:
    """A detail log and its folder. LoadGen may put something before and behind the names of its files; only the usual
    ones are taken, and those with the date of the run; others are of a run that was not asked for.

    ``began``: None when the log states no time. ``written``: during the attempt.
    """

    folder: Path
    name: str
    began: datetime | None
    written: bool

    @property
    def prefix(self) -> str:
        """Of the names of its files: the usual one, or that with the date of the run."""
        dated = _DATED_NAME.match(self.name)
        return dated[0] if dated else _LOG

    @property
    def is_usual(self) -> bool:
        return self.name == DETAIL.replace(_LOG, self.prefix)

    def list_files(self) -> list[Path]:
        """LoadGen's in its folder: those of this very run where it is dated."""
        logs = _list_logs(self.folder)
        return [path for path in logs if path.name.startswith(self.prefix)] if self.prefix != _LOG else logs


@dataclass(frozen=True, slots=True)
class Collected:
    """``folder``: that of the one set. ``problem`` names the field in which what was found differs from what was asked;
    "" when all is there."""

    folder: Path | None
    problem: str = ""


Stamps = Mapping[Path, tuple[int, int]]  # path of a detail log → its size and time of change, in ns


class Collector(Protocol):
    """A module per format of results: this one of LoadGen's logs."""

    def collect_run(self, request: CommandRequest, clock: int, before: Stamps) -> Collected:
        """Brings what the command of a run left to ``request.output``. ``clock``: monotonic ns at its start;
        ``before``: the logs that were there then."""


def collect_run(request: CommandRequest, _clock: int, before: Stamps) -> Collected:
    """One set of logs, and the user.conf that its run was made with: the given one, or its own. One that was changed is
    judged by the log."""
    since = datetime.fromisoformat(request.since)
    found = collect(Path(request.logs), since, Path(request.run_dir), Path(request.output), before)
    if found.folder is None:
        return found
    if request.user_conf_sha256:
        there = Path(request.user_conf).is_file()
        return found if there else replace(found, problem="user.conf: the command removed the file that it was given")
    return replace(found, problem=_harvest_user_conf(request, found.folder))


def _harvest_user_conf(request: CommandRequest, found: Path) -> str:
    logs = Path(request.logs)
    above = [folder for folder in (found, *found.parents) if folder.is_relative_to(logs)]
    candidates = [Path(request.user_conf_at)] if request.user_conf_at else [folder / "user.conf" for folder in above]
    conf = next((path for path in candidates if path.is_file()), None)
    if conf is None:
        return "user.conf: the command left none where it was to be harvested from"
    Path(request.user_conf).write_bytes(conf.read_bytes())
    return ""


def list_stamps(logs: Path) -> dict[Path, tuple[int, int]]:
    """Detail logs at any depth, to know afterwards which of them a command wrote."""
    stamps = ((path, path.stat()) for path in _find_details(logs))
    return {path: (stamp.st_size, stamp.st_mtime_ns) for path, stamp in stamps}


def _find_details(logs: Path) -> list[Path]:
    paths = (Path(parent) / name for parent, _, files in os.walk(logs) for name in files if _DETAILS.search(name))
    return [path for path in paths if path.is_file()]


def find_sets(logs: Path, before: Stamps) -> list[LogSet]:
    """Newest first."""
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
    """Brings the one set that was written during the attempt to ``output``; of any other number, brings what there is
    into folders below it. A set dated before the attempt is a copy of an earlier run, unless all are: then the clock
    was behind or was set back, and the record notes it. LoadGen logs milliseconds."""
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
        listed = ", ".join(sorted(_below(item, logs) for item in new))
        return Collected(None, f"log sets: expected one, the command left {len(new)}: {listed}")
    if new:
        called = _below(new[0], logs)
        return Collected(None, f"log sets: expected one named {DETAIL}, the command left {called}")
    if sets:
        began = f"{sets[0].began:%Y-%m-%d %H:%M:%S}" if sets[0].began else "an unknown time"
        asked = f"{since:%Y-%m-%d %H:%M:%S} UTC"
        return Collected(None, f"start: expected a run at or after {asked}, LoadGen logged {began}")
    return Collected(None, f"log sets: expected one, the command left none: there is no {DETAIL} in its folder of logs")


def _drop_copies(sets: list[LogSet]) -> list[LogSet]:
    """Detail logs of one name and the same bytes are of one run. Keep the folder with the most files of LoadGen's, and
    of equal ones the uppermost."""
    runs: dict[tuple[str, str], LogSet] = {}
    for item in sorted(sets, key=lambda item: (-len(item.list_files()), len(item.folder.parts), item.folder)):
        runs.setdefault((item.name, _digest(item.folder / item.name)), item)
    return [item for item in sets if item in runs.values()]


def _drop_warm_ups(sets: list[LogSet]) -> list[LogSet]:
    """Runs in folders below that of another run, each begun before it, prepared for it. Of several runs the last one
    counts, so that no command chooses among them."""
    for item in sets:
        others = [other for other in sets if other is not item]
        if others and all(_is_warm_up(other, item) for other in others):
            return [item]
    return sets


def _is_warm_up(item: LogSet, run: LogSet) -> bool:
    below = run.folder in item.folder.parents
    return below and item.began is not None and run.began is not None and item.began < run.began


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def bring_outputs(patterns: tuple[str, ...], cwd: Path, run_dir: Path, output: Path) -> None:
    """Further files to keep: files, folders, or patterns; what is not there is no fault. Files of one name are in
    folders of theirs."""
    taken = set[Path]()
    for found in (found for pattern in patterns for found in find_matching(pattern, cwd)):
        if found.resolve() in taken:
            continue
        taken.add(found.resolve())
        target = _free(output / "outputs", found)
        if found.is_dir():
            shutil.copytree(found, target)
        elif found.is_file():
            take(found, target, run_dir)


def _free(folder: Path, found: Path) -> Path:
    """Where nothing is yet: by its name, else by as many of the folders above it as tell it apart."""
    parts = found.parts
    targets = (folder.joinpath(*parts[-count:]) for count in range(1, len(parts)))
    return next(target for target in targets if not target.exists())


def find_matching(pattern: str, cwd: Path) -> list[Path]:
    """Files and folders by a pattern, which is absolute or begins in ``cwd``."""
    path = Path(pattern)
    base, relative = (cwd, pattern) if not path.is_absolute() else (Path("/"), str(path.relative_to("/")))
    return sorted(base.glob(relative))


def _bring(item: LogSet, target: Path, run_dir: Path) -> None:
    for path in item.list_files():
        take(path, target / path.name.replace(item.prefix, _LOG), run_dir)


def _list_logs(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob(f"*{_LOG}*")) if path.is_file()]


def take(path: Path, target: Path, run_dir: Path) -> None:
    """What is in the run's own folder is moved, for accuracy logs are large; the rest stays where it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.resolve().is_relative_to(run_dir.resolve()):
        path.replace(target)
    else:
        shutil.copyfile(path, target)


def _below(item: LogSet, logs: Path) -> str:
    """Its folder, and its name where that is unusual."""
    path = item.folder if item.name == DETAIL else item.folder / item.name
    return path.relative_to(logs).as_posix()
