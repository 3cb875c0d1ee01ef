"""Stores imported runs: their files, the records that name them, and placeholders for their upstream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.copied_runs import find_claimed_twice
from reconciler.errors import LogError, ReconcilerError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.importing.run_import import Import, ImportContext, import_test, make_placeholder, redeclare
from reconciler.importing.run_reader import FoundRun
from reconciler.record.codec import summarize
from reconciler.record.index import load_record
from reconciler.record.store import keep, write_record
from reconciler.resource.kinds import MODES, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.programs import find_program_of_division
from reconciler.resource.records import IMPORTED, REQUIREMENTS, Ended, Record, Recorded
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import KeptFile
from reconciler.rules.results.table import find_format
from reconciler.storage.files import RepositoryPaths, copy


class TakenRecord(Struct, frozen=True):
    """The result for one folder. ``identity``: the record's id; ``validity``: LoadGen's verdict on a performance
    run; ``known``: it was recorded before."""

    address: Address
    identity: str
    validity: str = ""
    metric: str = ""
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: bool = False


class ImportRecorder(Struct):
    """Writes into one repository; requires the pass lock. ``made``: key → id of each record written or known."""

    paths: RepositoryPaths
    desired: Desired
    recorded: Recorded
    context: ImportContext
    made: dict[str, str] = field(default_factory=dict)

    def record_run(
        self, cell: Cell, found: FoundRun, test: str = "", requirements: Sequence[str] = ()
    ) -> tuple[TakenRecord, ...]:
        """Record a run, or a compliance test's run, and the included score. ``requirements``: packages installed for a
        performance run. Raises LogError if it is not what the cell requests."""
        at = Address(Kind.COMPLIANCE_TEST, f"{cell}/{test}") if test else RunAddress(cell, found.mode).address
        resource = self._find_resource(at)
        detail = self.desired.detail(resource.address)
        if found.format is not (wanted := find_format(detail.settings)):
            problem = f"{found.folder} has {found.format.LEAVES}, but {cell} needs {wanted.LEAVES}"
            raise LogError(problem, fix=f"{found.format.DECLARE}, or import {wanted.LEAVES}")
        made = found.make_run(resource, detail, self.context)
        self._refuse_claimed(made.record, found)
        if requirements and found.mode == PERFORMANCE and not test:
            made = self._add_requirements(made, requirements)
        upstream = self._collect_upstream(detail, found)
        taken = [self._store(replace(made, record=replace(made.record, upstream=upstream)))]
        if found.has_score:
            score = self._find_resource(Address(Kind.SCORE, str(cell)))
            detail = self.desired.detail(score.address)
            ups = {**self._collect_upstream(detail, found), "run": taken[0].identity}
            taken.append(self._store(found.make_score(score, detail, ups, self.context)))
        return tuple(taken)

    def _refuse_claimed(self, record: Record, found: FoundRun) -> None:
        known = (summary for summaries in self.recorded.by_key.values() for summary in summaries)
        for pair in find_claimed_twice(self.desired, [*known, summarize(record, "")]):
            for new, other in (pair, pair[::-1]):
                if not new.id:
                    raise LogError(
                        f"{found.folder} is already recorded as {other.address}: state/records/{other.id}.json",
                        fix=f"import another run for {record.address.cell}, or first remove that record if it is wrong",
                    )

    def _add_requirements(self, made: Import, requirements: Sequence[str]) -> Import:
        path = self.context.scratch / REQUIREMENTS
        path.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8", errors="surrogateescape")
        kept = KeptFile(path, REQUIREMENTS, in_git=True)
        record = replace(made.record, artifacts=(*made.record.artifacts, describe_artifact(kept)))
        return replace(made, record=record, kept=(*made.kept, kept))

    def record_test(
        self, cell: Cell, name: str, files: Mapping[str, Path], found: FoundRun, failure: str = ""
    ) -> TakenRecord:
        """Record a compliance test's folder unchanged. ``found``: the run that it belongs to; ``failure``: why it is
        not passed."""
        address = Address(Kind.COMPLIANCE_TEST, f"{cell}/{name}")
        return self._store(import_test(address, files, found.made, self.context, failure))

    def redeclare(self, cell: Cell) -> tuple[TakenRecord, ...]:
        """Declare more about runs imported earlier. Raises ReconcilerError if the cell has none."""
        names: dict[str, str] = {}
        taken = []
        tests = (a for a in self.desired.by_address if a.kind is Kind.COMPLIANCE_TEST and a.cell == cell)
        for address in (*(RunAddress(cell, mode).address for mode in MODES), Address(Kind.SCORE, str(cell)), *tests):
            for summary in self.recorded.list_done(self._find_resource(address).key):
                if IMPORTED not in summary.marks:
                    continue
                record = load_record(self.paths, summary.id)
                ups = {as_: names.get(identity, identity) for as_, identity in record.upstream.items()}
                again = redeclare(record, ups, self.context)
                names[summary.id] = write_record(self.paths, again)
                taken.append(_make_taken(Import(again), names[summary.id]))
        if not taken:
            raise ReconcilerError(f"{cell} has no imported runs", fix=f"reconcile import LOGDIR --cell {cell}")
        return tuple(taken)

    def require(self, cell: Cell, found: Iterable[FoundRun]) -> None:
        """Raise ReconcilerError, before recording any, if a run is not what the cell requests."""
        for run in found:
            self._find_resource(RunAddress(cell, run.mode).address)

    def _find_resource(self, address: Address) -> Resource:
        found = self.desired.by_address.get(address)
        cell = address.cell
        if found is None and cell is not None and find_program_of_division(cell.division):
            message = f"{cell} uses the accuracy run of another point"
            raise ReconcilerError(message, fix="add the point to accuracy_points of the curve")
        if found is None:
            raise ReconcilerError(f"{address.cell} is inferred and has no runs", fix="import into its source cell")
        return found

    def _collect_upstream(self, detail: Detail, found: FoundRun) -> dict[str, str]:
        """Return input name → record id; an unrecorded input gets a placeholder record."""
        ups = [(item.name, item.upstream) for item in detail.inputs if item.upstream is not None]
        runs = [(name, self.desired.by_address[at].key) for name, at in ups if at.kind is Kind.RUN]
        known = {name: self.made[key] for name, key in runs if key in self.made}
        return known | {name: self._get_record(address, found) for name, address in ups if address.kind is not Kind.RUN}

    def _get_record(self, address: Address, found: FoundRun) -> str:
        resource = self.desired.by_address[address]
        done = self.recorded.list_done(resource.key)
        if resource.key not in self.made and done:
            self.made[resource.key] = done[-1].id
        if resource.key not in self.made:
            detail = self.desired.detail(address)
            made = make_placeholder(resource, detail, found.made, self.context)
            self._store(replace(made, record=replace(made.record, upstream=self._collect_upstream(detail, found))))
        return self.made[resource.key]

    def _store(self, made: Import) -> TakenRecord:
        """Store the files first, then the record that names them. The user's files are copied: the store's never
        change."""
        stored = {}
        for number, item in enumerate(made.kept):
            own = self.context.scratch / f"kept-{number}"
            copy(item.path, own)
            stored[item.name] = keep(self.paths, own, item.name, in_git=item.in_git)
            own.unlink()
        artifacts = tuple(stored.get(a.name, a) for a in made.record.artifacts)
        made = replace(made, record=replace(made.record, artifacts=artifacts))
        known = self._find_recorded(made.record)
        identity = known or write_record(self.paths, made.record)
        if made.record.ended is Ended.DONE:
            self.made[made.record.key] = identity
        return replace(_make_taken(made, identity), known=bool(known))

    def _find_recorded(self, record: Record) -> str:
        """Return the id of an earlier record of the same import; "" if there is none."""
        for summary in self.recorded.by_key.get(record.key, ()):
            if IMPORTED in summary.marks:
                known = load_record(self.paths, summary.id)
                if replace(known, dirty=record.dirty, tool=record.tool) == record:
                    return summary.id
        return ""


def _make_taken(made: Import, identity: str) -> TakenRecord:
    record = made.record
    metric = record.values.get("metric")
    return TakenRecord(
        record.address,
        identity,
        validity=str(record.values.get("validity", "")),
        metric=f"{metric['value']} {metric['unit']}" if metric else "",
        notes=(*made.notes, *record.values.get("reasons", ())),
        unknown=tuple(mark.partition(" ")[2] for mark in record.marks if mark.startswith("unknown ")),
    )
