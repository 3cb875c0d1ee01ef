"""A run of LoadGen that was made elsewhere, and its records: what ran, as LoadGen's own logs prove it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.errors import LogError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.importing.run_import import Import, ImportContext, Made, make_record
from reconciler.loadgen import keys
from reconciler.loadgen.compare import find_conf_contradictions, find_contradictions
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, TRUNCATED
from reconciler.loadgen.settings import select_conf_settings
from reconciler.loadgen.user_conf import select_settings, write_user_conf
from reconciler.loadgen.verdict import judge_accuracy
from reconciler.resource.kinds import Address
from reconciler.resource.records import Artifact
from reconciler.resource.resources import Resource
from reconciler.rules.results import loadgen_logs
from reconciler.rules.results.format import KeptFile, ResultFormat
from reconciler.rules.results.loadgen_logs import find_asked_elsewhere, judge_text, measure_performance, shorten_log
from reconciler.storage.files import hash_file
from reconciler.storage.files import replace as write
from reconciler.storage.untrusted_files import read_regular


class LoadgenRun(Struct, frozen=True):
    """``folder`` holds the logs. ``accuracy_log`` and ``accuracy_text`` are None where there are none.

    ``original``: the SHA-256 of the untruncated accuracy log, "" when the log here is whole."""

    folder: Path
    log: DetailLog
    mode: str
    user_conf: Path | None = None
    accuracy_log: Path | None = None
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
        values = detail.values()
        asked = find_asked_elsewhere(values, self.mode)
        differing = find_contradictions(self.log, asked)
        if differing:
            listed = "\n".join(f"  {item}" for item in differing)
            raise LogError(
                f"{self.detail} is not a run of {resource.address}; the spec asks for something else:\n{listed}",
                fix="change the cell's settings to what ran, or import the log of a run with the declared settings",
            )
        conf, note = _choose_user_conf(self, resource.address, values, context)
        found: dict[str, Any] = {keys.LOADGEN_VERSION: self.log.version}
        if self.mode == "performance":
            found = measure_performance(self.log, detail.ruling)
        elif reasons := judge_accuracy(self.log).reasons:
            raise LogError(f"{self.detail}: {'; '.join(reasons)}", fix="repeat the accuracy run")
        kept = [KeptFile(conf, "user.conf", in_git=True)]
        kept += [KeptFile(self.folder / name, name, in_git=True) for name in (SUMMARY, DETAIL)]
        lost: list[Artifact] = []
        if self.accuracy_log is not None:
            short = context.scratch / f"{resource.key[:16]}-{TRUNCATED}"
            write(
                short,
                self.accuracy_log.read_bytes()
                if self.original
                else shorten_log(self.accuracy_log, detail.ruling.accuracy_log),
            )
            kept.append(KeptFile(short, TRUNCATED, in_git=True))
            if self.original:
                lost.append(Artifact(ACCURACY_LOG, self.original, 0))
            else:
                kept.append(KeptFile(self.accuracy_log, ACCURACY_LOG, in_git=detail.ruling.answers_compared))
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
    """The conf of the run, as given where it agrees with the log, else written from what the log says."""
    scenario, key = str(values["scenario"]), str(values.get("model_key", "*"))
    if run.user_conf is not None:
        # Only the performance run's conf is published; what it says of rates and durations is nothing to the other.
        performance = run.mode == "performance"
        wrong = find_conf_contradictions(read_regular(run.user_conf), run.log, key, scenario) if performance else []
        if not wrong:
            return run.user_conf, ""
    texts = select_settings(scenario, select_conf_settings(values, run.mode, scenario))
    note = f"{address.cell}: settings of the imported {run.mode} run, written by mlperf-reconciler from its log"
    target = context.scratch / f"{address.name.replace('/', '-')}.user.conf"
    write(target, write_user_conf(key, scenario, texts, [note]))
    if run.user_conf is None:
        return target, "there was no user.conf with the logs: it is written from what LoadGen logged"
    return (
        target,
        f"{run.user_conf} is not the conf of this run ({'; '.join(wrong)}): it is written from the log instead",
    )
