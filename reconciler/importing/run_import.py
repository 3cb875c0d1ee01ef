"""Records of runs that were made elsewhere. What LoadGen's logs prove is taken from them; what they cannot prove is
listed as unknown, in a mark that keeps the result from being packed until somebody declares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler.desired.state import Detail
from reconciler.errors import LogError, ReconcilerError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.files import hash_file
from reconciler.files import replace as write
from reconciler.importing.log_folder import FoundRun, Made
from reconciler.importing.results_folder import FoundResults
from reconciler.mlperf.loadgen.compare import find_conf_contradictions, find_contradictions
from reconciler.mlperf.loadgen.consistency import find_inconsistencies
from reconciler.mlperf.loadgen.settings import ENDPOINTS_SEEDS, select_conf_settings
from reconciler.mlperf.loadgen.user_conf import select_settings, write_user_conf
from reconciler.mlperf.loadgen.verdict import judge_accuracy
from reconciler.mlperf.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, TRUNCATED
from reconciler.resource.canonical import canonicalise, digest
from reconciler.resource.inputs import REVISIONS, Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import (
    IMPORTED,
    REHEARSAL,
    UNKNOWN,
    Artifact,
    Ended,
    Record,
    RecordedFact,
    RecordedInput,
)
from reconciler.resource.resources import Resource
from reconciler.result_formats.endpoints_results import find_result_contradictions, measure_results, score_results
from reconciler.result_formats.format import KeptFile, RecordValues
from reconciler.result_formats.loadgen_logs import find_asked_elsewhere, judge_text, measure_performance, shorten_log

# What no log of LoadGen can prove of the run it describes.
UNKNOWABLE = ("code", "dataset", "engine", "machine")
_NOTES = ("machine",)  # the others must be equal for a cell's runs


@dataclass(frozen=True, slots=True)
class ImportContext:
    """What all records of one import share. ``scratch``: an empty folder for files that are derived.

    ``declared``: names of UNKNOWABLE → what the user says of them."""

    scratch: Path
    tool: str
    spec: Mapping[str, str]
    dirty: bool
    declared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Import:
    """A record, the files to store before it, and what the user should know of it."""

    record: Record
    kept: tuple[KeptFile, ...] = ()
    notes: tuple[str, ...] = ()


def check_declared(declared: Mapping[str, str]) -> None:
    for name, value in declared.items():
        if name not in UNKNOWABLE or not value.strip():
            raise ReconcilerError(f"{name}={value} declares nothing", fix=f"name one of {', '.join(UNKNOWABLE)}=VALUE")


def import_run(
    run: FoundRun, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
) -> Import:
    """The record of a run for the resource that it satisfies. ``upstream``: input name → record id.

    LogError names every setting in which the log contradicts the cell. An INVALID run is recorded as what it is.
    """
    values = detail.values()
    asked = find_asked_elsewhere(values, run.mode)
    own = find_inconsistencies(run.log, rehearsal=REHEARSAL in detail.marks)
    differing = [*map(str, find_contradictions(run.log, asked)), *map(str, own)]
    if differing:
        listed = "\n".join(f"  {item}" for item in differing)
        raise LogError(
            f"{run.detail} is not a run of {resource.address}; the spec asks for something else:\n{listed}",
            fix="change the cell's settings to what ran, or import the log of a run with the declared settings",
        )
    conf, note = _user_conf(run, resource.address, values, context)
    found: dict[str, Any] = {"loadgen_version": run.log.version}
    if run.mode == "performance":
        found = measure_performance(run.log, detail.ruling.metric)
    elif reasons := judge_accuracy(run.log).reasons:
        raise LogError(f"{run.detail}: {'; '.join(reasons)}", fix="repeat the accuracy run")
    kept = [KeptFile(conf, "user.conf", in_git=True)]
    kept += [KeptFile(run.folder / name, name, in_git=True) for name in (SUMMARY, DETAIL)]
    lost: list[Artifact] = []
    if run.accuracy_log is not None:
        short = context.scratch / f"{resource.key[:16]}-{TRUNCATED}"
        write(
            short,
            run.accuracy_log.read_bytes()
            if run.original
            else shorten_log(run.accuracy_log, detail.ruling.accuracy_log),
        )
        kept.append(KeptFile(short, TRUNCATED, in_git=True))
        if run.original:
            lost.append(Artifact(ACCURACY_LOG, run.original, 0))
        else:
            kept.append(KeptFile(run.accuracy_log, ACCURACY_LOG, in_git=detail.ruling.answers_compared))
    record = _record(resource, detail, run.made, upstream, context, values=found, source=hash_file(run.detail))
    record = replace(record, artifacts=(*map(describe_artifact, kept), *lost))
    return Import(record, tuple(kept), (note,) if note else ())


def import_results(
    run: FoundResults, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
) -> Import:
    """The same of a run of the endpoints harness."""
    wanted = detail.values()
    if run.mode == "accuracy":
        wanted = {name: value for name, value in wanted.items() if name not in ENDPOINTS_SEEDS}
    differing = find_result_contradictions(run.left, wanted)
    if differing:
        listed = "\n".join(f"  {item}" for item in differing)
        raise LogError(
            f"{run.folder} does not hold a run of {resource.address}; the spec asks for something else:\n{listed}",
            fix="change the cell's settings to what ran, or import the results of a run with the declared settings",
        )
    least = detail.settings.number("min_duration")
    values = measure_results(run.left, detail.ruling, least) if run.mode == "performance" else {}
    kept = tuple(KeptFile(path, name, in_git=True) for name, path in run.files.items())
    source = digest([[name, hash_file(path)] for name, path in run.files.items()])
    record = _record(resource, detail, run.made, upstream, context, values=values, source=source)
    return Import(replace(record, artifacts=tuple(map(describe_artifact, kept))), kept)


def import_result_score(
    run: FoundResults, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
) -> Import:
    """The record of the score that an accuracy run of the endpoints harness states. LogError when it has none."""
    try:
        values = score_results(run.left, detail.ruling)
    except ValueError as error:
        raise LogError(f"{run.folder}: {error}", fix="score the accuracy run with the harness") from error
    return Import(_record(resource, detail, run.made, upstream, context, values=values, source=resource.key))


def import_score(
    run: FoundRun, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
) -> Import:
    """The record of an accuracy.txt that came with its run. LogError when it does not state what the round asks."""
    assert run.accuracy_text is not None
    text = run.accuracy_text.read_bytes().decode("utf-8", "surrogateescape")
    verdict = judge_text(text, detail.ruling, {})
    if verdict.problem:
        raise LogError(f"{run.accuracy_text}: {verdict.problem}", fix="score the accuracy log with the official script")
    source = hash_file(run.accuracy_text)
    record = _record(resource, detail, run.made, upstream, context, values=verdict.values, source=source)
    kept = (KeptFile(run.accuracy_text, ACCURACY_TEXT, in_git=True),)
    return Import(replace(record, artifacts=tuple(map(describe_artifact, kept))), kept)


def make_placeholder(resource: Resource, detail: Detail, run: Made, context: ImportContext) -> Import:
    """Stands for a dataset, model or engine that an imported run was made from: it is not here, and has no files. Where
    a run is due here, it is made like anything that is missing."""
    values = {"imported": {"made_elsewhere": True}}
    record = _record(resource, detail, run, {}, replace(context, declared={}), values=values, source=resource.key)
    return Import(replace(record, marks=tuple(m for m in record.marks if not m.startswith(UNKNOWN))))


def import_test(address: Address, files: Mapping[str, Path], run: Made, context: ImportContext) -> Import:
    """A compliance test's folder as it came: shown in the tree, judged by nobody here."""
    kept = tuple(KeptFile(path, name, in_git=True) for name, path in sorted(files.items()))
    artifacts = tuple(map(describe_artifact, kept))
    key = digest([[a.name, a.sha256] for a in artifacts])
    resource = Resource(address, key, cell=address.cell)
    record = _record(resource, Detail(()), run, {}, context, values={}, source=key)
    return Import(replace(record, artifacts=artifacts), kept)


def redeclare(record: Record, upstream: Mapping[str, str], context: ImportContext) -> Record:
    """The record with more of its unknown inputs declared."""
    before = dict(record.values.get("imported", {}).get("declared", {}))
    declared = {**before, **context.declared}
    facts = {name: fact for name, fact in record.facts.items() if not name.startswith("declared.")}
    marks = tuple(mark for mark in record.marks if not mark.startswith(UNKNOWN))
    return replace(
        record,
        facts={**facts, **_facts(declared)},
        marks=(*marks, *_unknown(record.address.kind, declared)),
        values={**record.values, "imported": {"declared": declared}},
        upstream={**record.upstream, **upstream},
        spec=context.spec,
        dirty=context.dirty,
        tool=context.tool,
    )


def _record(
    resource: Resource,
    detail: Detail,
    made: Made,
    upstream: Mapping[str, str],
    context: ImportContext,
    *,
    values: RecordValues,
    source: str,
) -> Record:
    began, ended = made.started, made.ended
    return Record(
        address=resource.address,
        key=resource.key,
        revision=REVISIONS[resource.kind],
        ended=Ended.DONE,
        started=began.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if began else "",
        seconds=round((ended - began).total_seconds(), 3) if began and ended and resource.kind is Kind.RUN else 0.0,
        attempt=f"import-{source[:16]}",
        inputs={
            i.name: RecordedInput(canonicalise(i.value), str(i.origin)) for i in detail.inputs if i.value is not None
        },
        facts=_facts(context.declared)
        | ({made.fact: RecordedFact(made.version, Role.EVIDENCE)} if made.version else {}),
        values={**values, "imported": {**values.get("imported", {}), "declared": dict(context.declared)}},
        upstream=upstream,
        spec=context.spec,
        dirty=context.dirty,
        marks=(*sorted({*detail.marks, IMPORTED}), *_unknown(resource.kind, context.declared)),
        tool=context.tool,
    )


def _facts(declared: Mapping[str, str]) -> dict[str, RecordedFact]:
    return {
        f"declared.{name}": RecordedFact(value, Role.NOTE if name in _NOTES else Role.EVIDENCE)
        for name, value in sorted(declared.items())
    }


def _unknown(kind: Kind, declared: Mapping[str, str]) -> Iterator[str]:
    if kind in (Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST):
        yield from (f"{UNKNOWN}{name}" for name in UNKNOWABLE if name not in declared)


def _user_conf(
    run: FoundRun, address: Address, values: Mapping[str, object], context: ImportContext
) -> tuple[Path, str]:
    """The conf of the run, as given where it agrees with the log, else written from what the log says."""
    scenario, key = str(values["scenario"]), str(values.get("model_key", "*"))
    if run.user_conf is not None:
        # Only the performance run's conf is published; what it says of rates and durations is nothing to the other.
        performance = run.mode == "performance"
        wrong = find_conf_contradictions(run.user_conf.read_bytes(), run.log, key, scenario) if performance else []
        if not wrong:
            return run.user_conf, ""
    texts = select_settings(scenario, select_conf_settings(values, run.mode, scenario))
    note = f"{address.cell}: settings of the imported {run.mode} run, written by mlperf-reconciler from its log"
    target = context.scratch / f"{address.name.replace('/', '-')}.user.conf"
    write(target, write_user_conf(key, scenario, texts, [note]))
    if run.user_conf is None:
        return target, "no user.conf stood beside the logs: it is written from what LoadGen logged"
    return (
        target,
        f"{run.user_conf} is not the conf of this run ({'; '.join(wrong)}): it is written from the log instead",
    )
