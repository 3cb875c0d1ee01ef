"""Makes records of external runs. Facts that their files prove are recorded; the others are listed as unknown, in a
mark that prevents packing the result until they are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.resource.canonical import canonicalise, digest
from reconciler.resource.inputs import REVISIONS, Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import IMPORTED, UNKNOWN, Ended, Record, RecordedFact, RecordedInput
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import KeptFile, RecordValues

# Facts of a run that no LoadGen log can prove.
UNKNOWABLE = ("code", "dataset", "engine", "machine")
_NOTES = ("machine",)  # all other facts must be equal for a cell's runs


class ImportContext(Struct, frozen=True):
    """The context shared by all records of one import. ``scratch``: an empty folder for derived files.

    ``declared``: names in UNKNOWABLE → the user's declaration.
    """

    scratch: Path
    tool: str
    spec: Mapping[str, str]
    dirty: bool
    declared: Mapping[str, str] = field(default_factory=dict)


class Import(Struct, frozen=True):
    """A record, the files to store before it, and remarks for the user."""

    record: Record
    kept: tuple[KeptFile, ...] = ()
    notes: tuple[str, ...] = ()


class Made(Struct, frozen=True):
    """How and when an external run was made, from its own files: ``fact`` names the program; times are in UTC."""

    fact: str
    version: str
    started: datetime | None = None
    ended: datetime | None = None


def check_declared(declared: Mapping[str, str]) -> None:
    for name, value in declared.items():
        if name not in UNKNOWABLE or not value.strip():
            raise ReconcilerError(f"{name}={value} declares nothing", fix=f"use one of {', '.join(UNKNOWABLE)}=VALUE")


def make_placeholder(resource: Resource, detail: Detail, run: Made, context: ImportContext) -> Import:
    """Make a placeholder for a dataset, model or engine from which an imported run was made: it is not here, and has no
    files. If a run is due here, it is made like any missing resource."""
    values = {"imported": {"made_elsewhere": True}}
    record = make_record(resource, detail, run, {}, replace(context, declared={}), values=values, source=resource.key)
    return Import(replace(record, marks=tuple(m for m in record.marks if not m.startswith(UNKNOWN))))


def import_test(
    address: Address, files: Mapping[str, Path], run: Made, context: ImportContext, failure: str = ""
) -> Import:
    """Import a compliance test's folder unchanged, to be shown in the tree. ``failure``: why its own verify files do
    not pass."""
    kept = tuple(KeptFile(path, name, in_git=True) for name, path in sorted(files.items()))
    artifacts = tuple(map(describe_artifact, kept))
    key = digest([[a.name, a.sha256] for a in artifacts])
    resource = Resource(address, key, cell=address.cell)
    values: RecordValues = {"passed": False, "reasons": [failure]} if failure else {}
    record = make_record(resource, Detail(()), run, {}, context, values=values, source=key)
    return Import(replace(record, artifacts=artifacts), kept)


def redeclare(record: Record, upstream: Mapping[str, str], context: ImportContext) -> Record:
    """Return the record with more of its unknown inputs declared."""
    before = dict(record.values.get("imported", {}).get("declared", {}))
    declared = {**before, **context.declared}
    facts = {name: fact for name, fact in record.facts.items() if not name.startswith("declared.")}
    marks = tuple(mark for mark in record.marks if not mark.startswith(UNKNOWN))
    return replace(
        record,
        facts={**facts, **_make_facts(declared)},
        marks=(*marks, *_list_unknown_marks(record.address.kind, declared)),
        values={**record.values, "imported": {"declared": declared}},
        upstream={**record.upstream, **upstream},
        spec=context.spec,
        dirty=context.dirty,
        tool=context.tool,
    )


def make_record(
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
    facts = _make_facts(context.declared)
    if made.version:
        facts[made.fact] = RecordedFact(made.version, Role.EVIDENCE)
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
        facts=facts,
        values={**values, "imported": {**values.get("imported", {}), "declared": dict(context.declared)}},
        upstream=upstream,
        spec=context.spec,
        dirty=context.dirty,
        marks=(*sorted({*detail.marks, IMPORTED}), *_list_unknown_marks(resource.kind, context.declared)),
        tool=context.tool,
    )


def _make_facts(declared: Mapping[str, str]) -> dict[str, RecordedFact]:
    return {
        f"declared.{name}": RecordedFact(value, Role.NOTE if name in _NOTES else Role.EVIDENCE)
        for name, value in sorted(declared.items())
    }


def _list_unknown_marks(kind: Kind, declared: Mapping[str, str]) -> Iterator[str]:
    if kind in (Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST):
        yield from (f"{UNKNOWN}{name}" for name in UNKNOWABLE if name not in declared)
