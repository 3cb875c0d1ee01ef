"""Reads folders with LoadGen logs from elsewhere: the logs show what ran."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.errors import LogError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.importing.run_import import Import, ImportContext, Made, make_record
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.loadgen.compare import find_conf_contradictions, find_contradictions, read_logged_settings
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, TRUNCATED, is_truncated
from reconciler.loadgen.settings import select_conf_settings
from reconciler.loadgen.summary import parse_summary
from reconciler.loadgen.user_conf import select_audit_settings, select_settings, write_user_conf
from reconciler.loadgen.verdict import judge_accuracy
from reconciler.resource.kinds import Address
from reconciler.resource.records import Artifact
from reconciler.resource.resources import Resource
from reconciler.rules.accuracy import is_digest, parse_accuracy
from reconciler.rules.results import loadgen_logs
from reconciler.rules.results.format import KeptFile, ResultFormat, RunFiles
from reconciler.rules.results.loadgen_logs import (
    find_asked_elsewhere,
    find_broken_answers,
    judge_text,
    list_kept,
    list_kept_answers,
    logs_answers,
    measure_run,
)
from reconciler.rules.ruleset import BenchmarkRules
from reconciler.storage.files import hash_file
from reconciler.storage.files import replace as write
from reconciler.storage.untrusted_files import list_special_entries, read_regular, walk_files
from reconciler.tree.reading.cell import CellFiles

# An external LoadGen run and its records, as LoadGen's own logs prove them.


class LoadgenRun(Struct, frozen=True):
    """A LoadGen run from elsewhere. ``folder``: contains the logs. ``accuracy_text``: None if there is none.

    ``original``: the SHA-256 of the untruncated accuracy log, "" if the log here is complete.
    """

    folder: Path
    log: DetailLog
    mode: str
    user_conf: Path | None = None
    accuracy_text: Path | None = None
    original: str = ""

    @property
    def format(self) -> ResultFormat:
        return loadgen_logs

    @property
    def made(self) -> Made:
        return Made("loadgen.version", self.log.version, self.log.started, self.log.ended)

    @property
    def detail(self) -> Path:
        return self.folder / DETAIL

    @property
    def summary(self) -> Path:
        return self.folder / SUMMARY

    @property
    def has_score(self) -> bool:
        return self.accuracy_text is not None

    @property
    def logged_scenario(self) -> str:
        return self.log.scenario

    def read_log(self) -> bytes:
        return self.detail.read_bytes()

    def make_run(self, resource: Resource, detail: Detail, context: ImportContext) -> Import:
        values = detail.collect_values()
        asked = find_asked_elsewhere(values, self.mode)
        differing = find_contradictions(self.log, asked)
        if differing:
            listed = "\n".join(f"  {item}" for item in differing)
            raise LogError(
                f"{self.detail} is not a run of {resource.address}; the spec declares other settings:\n{listed}",
                fix="change the cell's settings to match, or import a log with the declared settings",
            )
        answers = self.folder / ACCURACY_LOG
        if logs_answers(values, self.mode) and not answers.is_file():
            raise LogError(
                f"{self.folder} has no {ACCURACY_LOG}, which {resource.address.label} needs",
                fix="import the original folder",
            )
        if logs_answers(values, self.mode) and not self.original and any(find_broken_answers(answers)):
            fix = "import the original folder, or repeat the run if its log is cut short, too"
            raise LogError(f"{answers} is cut short: it does not end in ']'", fix=fix)
        conf, note = _choose_user_conf(self, resource.address, values, context)
        found: dict[str, Any] = {keys.LOADGEN_VERSION: self.log.version}
        if self.mode == "performance":
            found = measure_run(self.log, detail.ruling)
        elif reasons := judge_accuracy(self.log).reasons:
            raise LogError(f"{self.detail}: {'; '.join(reasons)}", fix="repeat the accuracy run")
        run = RunFiles(self.folder, values, detail.ruling, {}, conf, context.scratch)
        kept, lost = [*list_kept(run)], list[Artifact]()
        if self.original:
            kept.append(KeptFile(self.folder / ACCURACY_LOG, TRUNCATED, in_git=True))
            lost.append(Artifact(ACCURACY_LOG, self.original, 0))
        else:
            kept += list_kept_answers(run)
        record = make_record(resource, detail, self.made, {}, context, values=found, source=hash_file(self.detail))
        record = replace(record, artifacts=(*map(describe_artifact, kept), *lost))
        return Import(record, tuple(kept), (note,) if note else ())

    def make_score(
        self, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
    ) -> Import:
        assert self.accuracy_text is not None
        text = self.accuracy_text.read_bytes().decode("utf-8", "surrogateescape")
        verdict = judge_text(text, detail.ruling, {})
        if verdict.problem:
            raise LogError(
                f"{self.accuracy_text}: {verdict.problem}", fix="score the accuracy log with the official script"
            )
        source = hash_file(self.accuracy_text)
        record = make_record(resource, detail, self.made, upstream, context, values=verdict.values, source=source)
        kept = (KeptFile(self.accuracy_text, ACCURACY_TEXT, in_git=True),)
        return Import(replace(record, artifacts=tuple(map(describe_artifact, kept))), kept)


def _choose_user_conf(
    run: LoadgenRun, address: Address, values: Mapping[str, object], context: ImportContext
) -> tuple[Path, str]:
    """Return the run's conf: the given one if it agrees with the log, or else one written from the log."""
    scenario, key = str(values["scenario"]), str(values.get("model_key", "*"))
    if run.user_conf is not None:
        # Only the performance run's conf is published; its rates and durations do not concern the other run.
        performance = run.mode == "performance"
        audited = select_audit_settings(values)
        data = read_regular(run.user_conf)
        wrong = find_conf_contradictions(data, run.log, key, scenario, audited) if performance else []
        if not wrong:
            return run.user_conf, ""
    texts = select_settings(scenario, select_conf_settings(values, run.mode, scenario))
    note = f"{address.cell}: settings of the imported {run.mode} run, written by mlperf-reconciler from its log"
    target = context.scratch / f"{address.name.replace('/', '-')}.user.conf"
    write(target, write_user_conf(key, scenario, texts, [note]))
    if run.user_conf is None:
        return target, "the logs had no user.conf: it was written from LoadGen's log"
    why = f"{run.user_conf} is not the conf of this run ({'; '.join(wrong)})"
    return target, f"{why}: it is written from the log instead"


MODES = {"PerformanceOnly": "performance", "AccuracyOnly": "accuracy"}
_ENDS = 1 << 16  # bytes at each end of an accuracy log where a truncation would show


def is_reader_of(_: Path) -> bool:
    return True


def is_reader_of_cell(_: CellFiles) -> bool:
    return True


def find_runs(folder: Path, user_conf: Path | None) -> tuple[LoadgenRun, ...]:
    return (find_run(folder, user_conf),)


def read_cell(cell: TakenCell, files: CellFiles, rules: BenchmarkRules) -> TakenCell:
    """Read a cell, with the settings that a spec must declare, from its performance log."""
    runs, problems = _find_cell_runs(files)
    settings: dict[str, Any] = {}
    performance = next((run for run in runs if run.mode == "performance"), None)
    if performance is not None:
        key = str(rules.get_value("model_key", cell.cell.scenario) or "*")
        settings = read_logged_settings(performance.log, files.user_conf.value, key)
    tests = {name: dict(_walk(folder.path)) for name, folder in files.tests.items()}
    power = _find_power_files(files.results.path / "performance")
    return replace(cell, settings=settings, runs=tuple(runs), tests=tests, problems=tuple(problems), power=power)


def _find_power_files(performance: Path) -> dict[str, Path]:
    """Find the files of a power session: its own folders, and all files that LoadGen and the session left in the
    measured run."""
    parts = ("power", "ranging", "run_1") if (performance / "power").is_dir() else ()
    return {f"{part}/{name}": path for part in parts for name, path in _walk(performance / part)}


def _find_cell_runs(files: CellFiles) -> tuple[list[LoadgenRun], list[str]]:
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


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(walk_files(folder)) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix(), path


def find_run(path: Path, user_conf: Path | None = None, *, tests: bool = False, below: bool = True) -> LoadgenRun:
    """Find the one run at or below ``path``; without ``below``, only directly in it. ``tests``: accept a compliance
    test's run too. Raises LogError for none or several, no summary, an audit, an unfinished run, or logs of different
    runs."""
    refuse_special(path)
    folder = _find_log_folder(path, below=below)
    log = parse_detail((folder / DETAIL).read_bytes(), str(folder / DETAIL))
    if log.audit is not None and not tests:
        raise LogError(
            f"{folder / DETAIL}:{log.audit.line}: the run used an audit.config and is a compliance test",
            fix="pass the folder of the performance or accuracy run, or omit --cell",
        )
    mode = _check_mode(log, folder)
    _check_same_run(log, folder)
    conf = user_conf or next((c for f in (folder, path) if (c := f / "user.conf").is_file()), None)
    if mode == "performance":
        return LoadgenRun(folder, log, mode, conf)
    accuracy_log, text = folder / ACCURACY_LOG, folder / ACCURACY_TEXT
    if not accuracy_log.is_file() or accuracy_log.stat().st_size == 0:
        fix = "import the original folder; truncated logs need accuracy.txt with its hash line in the same folder"
        raise LogError(f"{folder} has no {ACCURACY_LOG}, which an accuracy run needs", fix=fix)
    found = text if text.is_file() else None
    return LoadgenRun(folder, log, mode, conf, found, _read_original_hash(accuracy_log, found))


@contextmanager
def refuse_vanished(folder: Path) -> Iterator[None]:
    """Raise LogError if a file below the folder disappears while it is read, as where a run is still being written."""
    try:
        yield
    except FileNotFoundError as error:
        gone = Path(os.fsdecode(error.filename or ""))
        if not gone.is_relative_to(folder):
            raise
        fix = "wait until nothing writes to this folder, or copy it, and import it again"
        raise LogError(f"{gone} disappeared while it was read; nothing of this run is recorded", fix=fix) from error


def refuse_special(path: Path) -> None:
    """Raise LogError if a foreign folder contains anything but files, or leads out of itself."""
    for entry, what in list_special_entries(path):
        raise LogError(
            f"{entry} is {what}", fix="provide a folder of regular files: copy it with links followed, `cp -rL`"
        )


def _find_log_folder(path: Path, *, below: bool) -> Path:
    if not path.is_dir():
        raise LogError(f"{path}: no such folder", fix="pass the folder with LoadGen's logs")
    found = sorted({file.parent for file in (path.rglob if below else path.glob)(f"*{DETAIL}")})
    named = sorted(file.name for folder in found for file in folder.glob(f"*{DETAIL}"))
    if not found:
        raise LogError(f"{path} contains no {DETAIL}", fix="pass the folder with LoadGen's logs")
    if len(named) > 1:
        where = ", ".join(str(folder) for folder in found[:6])
        raise LogError(f"{path} contains logs of {len(named)} runs: {where}", fix="import the folders one at a time")
    if named[0] != DETAIL:
        raise LogError(f"{found[0] / named[0]}: the log names have a prefix", fix="rename them to mlperf_log_*")
    if not (found[0] / SUMMARY).is_file():
        raise LogError(
            f"{found[0]} has a {DETAIL} but no {SUMMARY}, which a submission needs",
            fix="import the original folder with both files; a summary cannot be created afterwards",
        )
    return found[0]


def _check_mode(log: DetailLog, folder: Path) -> str:
    if log.mode not in MODES:
        fix = "a submission needs one PerformanceOnly and one AccuracyOnly run, each in its own folder"
        raise LogError(f"{folder}: LoadGen ran in mode {log.mode or 'unknown'}", fix=fix)
    if not log.complete:
        raise LogError(
            f"{folder / DETAIL}:{log.length}: the log ends without a result", fix="repeat the run: it did not complete"
        )
    return MODES[log.mode]


def _check_same_run(log: DetailLog, folder: Path) -> None:
    """Check the values that both logs contain, which reveal another run's summary."""
    summary = parse_summary((folder / SUMMARY).read_bytes(), SUMMARY)
    stated = {"Scenario": log.scenario, "Mode": log.mode, "Result is": log.validity}
    stated["min_duration (ms)"] = str(log.get(keys.EFFECTIVE_MIN_DURATION_MS))
    for name, logged in stated.items():
        text = summary.get(name).replace(" ", "")
        if text and logged and text != logged:
            where = f"{folder / SUMMARY}:{summary.find_line_number(name)}"
            raise LogError(
                f"{where}: {name} is {text}, but {DETAIL} says {logged}: the logs are from different runs",
                fix="import both logs of the same run",
            )


def _read_original_hash(log: Path, text: Path | None) -> str:
    """Return the hash line of a truncated log's accuracy.txt; "" for a complete log."""
    if log.stat().st_size >= _ENDS or not is_truncated(log.read_bytes()):
        return ""
    digest = parse_accuracy(text.read_text(encoding="utf-8", errors="replace"), ()).hash if text else ""
    if not digest:
        raise LogError(
            f"{log} is truncated, but its folder has no accuracy.txt with a hash line",
            fix="import the untruncated log, or provide its accuracy.txt",
        )
    if not is_digest(digest):
        raise LogError(
            f"{log} is truncated, and hash={digest} in its {ACCURACY_TEXT} is not a SHA-256",
            fix="import the untruncated log, or provide the accuracy.txt with its hash",
        )
    return digest.lower()
