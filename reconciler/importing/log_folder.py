"""Reads folders with LoadGen's logs that were made elsewhere: what ran, as LoadGen's own logs say it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.importing.loadgen_run import LoadgenRun
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.loadgen.compare import read_logged_settings
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, is_truncated
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.rules.accuracy import is_digest, parse_accuracy
from reconciler.rules.ruleset import BenchmarkRules
from reconciler.storage.untrusted_files import list_special_entries, walk_files
from reconciler.tree.reading.cell import CellFiles

MODES = {"PerformanceOnly": "performance", "AccuracyOnly": "accuracy"}
_ENDS = 1 << 16  # bytes at each end of an accuracy log in which a truncation would show


def is_reader_of(_: Path) -> bool:
    return True


def is_reader_of_cell(_: CellFiles) -> bool:
    return True


def find_runs(folder: Path, user_conf: Path | None) -> tuple[LoadgenRun, ...]:
    return (find_run(folder, user_conf),)


def read_cell(cell: TakenCell, files: CellFiles, rules: BenchmarkRules) -> TakenCell:
    """Its performance log says what a spec must ask for."""
    runs, problems = _runs(files)
    settings: dict[str, Any] = {}
    performance = next((run for run in runs if run.mode == "performance"), None)
    if performance is not None:
        key = str(rules.get_value("model_key", cell.cell.scenario) or "*")
        settings = read_logged_settings(performance.log, files.user_conf.value, key)
    tests = {name: dict(_files(folder.path)) for name, folder in files.tests.items()}
    power = _power(files.results.path / "performance")
    return replace(cell, settings=settings, runs=tuple(runs), tests=tests, problems=tuple(problems), power=power)


def _power(performance: Path) -> dict[str, Path]:
    """Find the files of a power session: its own folders, and all that LoadGen and it left in the run that was
    measured."""
    if not (performance / "power").is_dir():
        return {}
    return {
        f"{part}/{name}": path for part in ("power", "ranging", "run_1") for name, path in _files(performance / part)
    }


def _runs(files: CellFiles) -> tuple[list[LoadgenRun], list[str]]:
    runs, problems = [], []
    conf = files.measurements_folder.path / "user.conf"
    for part in (files.accuracy, files.performance):
        try:
            run = find_run(part.folder.path, conf if conf.is_file() else None, below=False)
        except (LogError, OSError, ValueError) as error:
            problems.append(f"{part.name} run: {error}")
            continue
        if run.mode != part.name:
            problems.append(f"{part.name} run: {run.detail} is the log of an {run.mode} run")
        else:
            runs.append(run)
    return runs, problems


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(walk_files(folder)) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix(), path


def find_run(path: Path, user_conf: Path | None = None, *, audit: bool = False, below: bool = True) -> LoadgenRun:
    """Find the one run at or below ``path``; without ``below`` the one right there. ``audit`` takes the run of a
    compliance test instead. LogError: none or several, no summary, an audit, a run that did not end, logs that are not
    of one run."""
    refuse_special(path)
    folder = _folder(path, below=below)
    log = parse_detail((folder / DETAIL).read_bytes(), str(folder / DETAIL))
    if (log.audit is not None) != audit:
        line = log.audit.line if log.audit else 0
        raise LogError(
            f"{folder / DETAIL}:{line}: an audit.config set this run's settings: it is a compliance test, no result",
            fix="name the folder of the performance or accuracy run",
        )
    mode = _mode(log, folder)
    _same_run(log, folder)
    conf = user_conf or next((c for f in (folder, path) if (c := f / "user.conf").is_file()), None)
    if mode == "performance":
        return LoadgenRun(folder, log, mode, conf)
    accuracy_log, text = folder / ACCURACY_LOG, folder / ACCURACY_TEXT
    if not accuracy_log.is_file() or accuracy_log.stat().st_size == 0:
        fix = (
            "import from where LoadGen wrote it; TRUNCATED logs need accuracy.txt with its hash line in the same folder"
        )
        raise LogError(f"{folder} has no {ACCURACY_LOG}, without which an accuracy run proves nothing", fix=fix.lower())
    found = text if text.is_file() else None
    return LoadgenRun(folder, log, mode, conf, accuracy_log, found, _original(accuracy_log, found))


def refuse_special(path: Path) -> None:
    """LogError when anything in a folder from elsewhere is more than a file, or leads out of it."""
    for entry, what in list_special_entries(path):
        raise LogError(
            f"{entry} is {what}", fix="provide a folder of regular files: copy it with links followed, `cp -rL`"
        )


def _folder(path: Path, *, below: bool) -> Path:
    if not path.is_dir():
        raise LogError(f"{path}: no such folder", fix="name the folder that LoadGen wrote its logs into")
    found = sorted({file.parent for file in (path.rglob if below else path.glob)(f"*{DETAIL}")})
    named = sorted(file.name for folder in found for file in folder.glob(f"*{DETAIL}"))
    if not found:
        raise LogError(f"{path} holds no {DETAIL}", fix="name the folder that LoadGen wrote its logs into")
    if len(named) > 1:
        where = ", ".join(str(folder) for folder in found[:6])
        raise LogError(
            f"{path} holds the logs of {len(named)} runs: {where}", fix="import one at a time, by its folder"
        )
    if named[0] != DETAIL:
        raise LogError(f"{found[0] / named[0]}: the logs carry a prefix", fix="rename them to mlperf_log_*")
    if not (found[0] / SUMMARY).is_file():
        raise LogError(
            f"{found[0]} has a {DETAIL} but no {SUMMARY}, which a submission needs",
            fix="import from where LoadGen wrote both; a summary cannot be made afterwards",
        )
    return found[0]


def _mode(log: DetailLog, folder: Path) -> str:
    if log.mode not in MODES:
        fix = "a submission needs one PerformanceOnly and one AccuracyOnly run, each in its own folder"
        raise LogError(f"{folder}: LoadGen ran in mode {log.mode or 'unknown'}", fix=fix)
    if not log.complete:
        raise LogError(
            f"{folder / DETAIL}:{log.length}: the log ends without a result", fix="the run did not end: repeat it"
        )
    return MODES[log.mode]


def _same_run(log: DetailLog, folder: Path) -> None:
    """A summary of another run shows in what both logs state."""
    summary = parse_summary((folder / SUMMARY).read_bytes(), SUMMARY)
    stated = {"Scenario": log.scenario, "Mode": log.mode, "Result is": log.validity}
    for name, logged in stated.items():
        text = summary.get(name).replace(" ", "")
        if text and logged and text != logged:
            raise _strangers(folder, summary, name, text, logged)
    for name, key in (("min_duration (ms)", keys.EFFECTIVE_MIN_DURATION_MS), (keys.SAMPLES_PER_QUERY, None)):
        if key and summary.get(name) and str(log.get(key)) != summary.get(name):
            raise _strangers(folder, summary, name, summary.get(name), str(log.get(key)))


def _strangers(folder: Path, summary: SummaryLog, name: str, there: str, here: str) -> LogError:
    where = f"{folder / SUMMARY}:{summary.number(name)}"
    return LogError(
        f"{where}: {name} is {there}, but {DETAIL} says {here}: these are logs of two runs",
        fix="import the two logs of one run together",
    )


def _original(log: Path, text: Path | None) -> str:
    """The hash line of a truncated log's accuracy.txt; "" for a whole log."""
    if not _is_truncated(log):
        return ""
    digest = parse_accuracy(text.read_text(encoding="utf-8", errors="replace"), ()).hash if text else ""
    if not digest:
        raise LogError(
            f"{log} is truncated, and its folder has no accuracy.txt with a hash line",
            fix="import the untruncated log, or provide its accuracy.txt",
        )
    if not is_digest(digest):
        raise LogError(
            f"{log} is truncated, and hash={digest} in its {ACCURACY_TEXT} is not a SHA-256",
            fix="import the untruncated log, or provide the accuracy.txt with its hash",
        )
    return digest.lower()


def _is_truncated(log: Path) -> bool:
    size = log.stat().st_size
    return size < _ENDS and is_truncated(log.read_bytes())
