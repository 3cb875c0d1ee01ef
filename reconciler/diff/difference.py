"""Compare desired, recorded and observed state: which resources change and why, what drifted, and what is wrong.

A resource is satisfied by a record with its key. The first step walks the resources in pipeline order. Artifacts matter
only if an action reads them, so the second step adds those that the first step's actions need.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from msgspec import field

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT, drop_unneeded_builds, judge_acceptances, list_accepted_keys, spread
from reconciler.diff.change import (
    ACCURACY_BELOW,
    DIFFERS,
    FAILED,
    INVALID,
    NEEDED,
    WAITS,
    Action,
    Chosen,
    Difference,
    Drift,
    Finding,
    Reason,
    Work,
)
from reconciler.diff.comparison import ComparisonState
from reconciler.diff.compliance import compare_cell_tests, list_cell_tests
from reconciler.diff.fingerprint import compute_fingerprint, compute_submission_fingerprint, differ_only_in_code
from reconciler.diff.run_selection import ALLOWED_TO_DIFFER, LASTING, find_differing_evidence, select_valid
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.resource.decisions import NONE, Decisions, Freeze, find_freeze
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import CODE_ARCHIVE, IMPORTED, NOT_HANDED_ON, REDUNDANT_LOGS, Ended, Recorded, Summary
from reconciler.resource.resources import Resource

# Drift without consequences: a cell's runs on different machines of the same kind or with different kernels, and
# repeats that failed.


def find_host_drift(published: Summary | None, others: Iterable[Summary]) -> Iterator[Drift]:
    """Find the hosts of ``others`` that differ from that of the published performance run.

    Facts that must not differ are declared (accelerator, count, power limit) or are evidence (driver, code, engine
    bytes).
    """
    here = dict(published.noted) if published is not None else {}
    for other in others:
        for name, value in other.noted:
            if name in here and here[name] != value:
                what = f"{name} ({value}, of the performance run {here[name]})"
                yield Drift(other.address, what, DIFFERS, "the rules allow it")


def find_failed_repeats(
    desired: Desired, recorded: Recorded, used: Mapping[Address, Summary], due: Container[Address]
) -> Iterator[Drift]:
    """Report outcomes that still count although their last repeat, such as a forced one, failed. Nothing is due, since
    the inputs are the same, but users want to know."""
    for resource in desired.resources:
        known = recorded.by_key.get(resource.key, ())
        own = used.get(resource.address) if known and resource.address not in due else None
        if own is None or own is known[-1] or own.problem:
            continue
        how = FAILED if known[-1].ended is Ended.FAILED else INVALID if known[-1].validity == "INVALID" else ""
        if how:
            repair = "the earlier outcome counts; `--rerun` repeats it"
            yield Drift(resource.address, f"repeat of {known[-1].started[:16]}", how, repair)


# Cells without their own accuracy run use another cell's run, which must have run on the same system.


def list_accuracy_dependents(desired: Desired) -> dict[Address, tuple[Resource, ...]]:
    """Map each accuracy run to the performance runs of other cells that use it."""
    found: dict[Address, list[Resource]] = {}
    for resource in desired.resources:
        cell = resource.cell
        if cell is None or resource.kind is not Kind.RUN or resource.address.mode != PERFORMANCE:
            continue
        if RunAddress(cell, ACCURACY).address not in desired.by_address:
            result = desired.by_address[Address(Kind.RESULT, str(cell))]
            source = next(up for up in result.upstream if up.mode == ACCURACY)
            found.setdefault(source, []).append(resource)
    return {source: tuple(runs) for source, runs in found.items()}


_BROUGHT = "imported with the result"  # why a compliance test is not made here


class Comparison(ComparisonState):
    """The comparison of a whole submission; the resulting ``difference`` is frozen."""

    drifts: list[Drift] = field(default_factory=list)
    chosen: dict[Cell, Chosen] = field(default_factory=dict)
    imported_tests: dict[Cell, list[tuple[Address, tuple[Summary, ...]]]] = field(default_factory=dict)
    frozen: tuple[Freeze, ...] = ()
    accuracy_dependents: Mapping[Address, tuple[Resource, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for address, summaries in self.recorded.by_address.items():
            whole = address.kind is Kind.COMPLIANCE_TEST and not summaries[-1].upstream
            if whole and address.cell is not None and IMPORTED in summaries[-1].marks:
                self.imported_tests.setdefault(address.cell, []).append((address, summaries))

    def walk(self) -> None:
        if self.forced:  # first, because downstream resources check whether these are due
            for resource in self.desired.resources:
                if resource.address in self.forced:
                    self.plan_change(resource, Action.REPLACE, Reason.FORCED)
        self.accuracy_dependents = list_accuracy_dependents(self.desired)
        shared, later = {run.cell for runs in self.accuracy_dependents.values() for run in runs}, list[Resource]()
        for resource in self.desired.resources:
            if resource.kind in BUILT:
                self.compare_artifact(resource)
            elif resource.kind is Kind.SERVICE:
                self.compare_service(resource)
            elif resource.kind is Kind.RUN and resource.address.mode == PERFORMANCE:
                if resource.cell in shared:
                    later.append(resource)
                else:
                    self.compare_cell(resource)
            elif resource.kind is Kind.RESULT and not (resource.cell in self.chosen or resource.cell in shared):
                self.compare_inferred_result(resource)
        for resource in later:  # after the cells whose accuracy runs they share
            self.compare_cell(resource)
        if self.accepted:
            drop_unneeded_builds(self)

    # -- built resources -----------------------------------------------------------------------------------------

    def compare_artifact(self, resource: Resource) -> None:
        done = self.recorded.list_done(resource.key)
        if not done:
            self.plan_creation(resource)
            return
        best = next((s for s in reversed(done) if not self.find_unusable_artifacts(s)), done[-1])
        self.used[resource.address] = best
        wrong = self.find_unusable_artifacts(best)
        corrupt = [name for name, presence in wrong if presence is ArtifactPresence.CORRUPT]
        if corrupt:
            self.plan_change(resource, Action.REPLACE, Reason.ARTIFACT_CORRUPT, f"{', '.join(corrupt)} is damaged")
        elif wrong:
            names = ", ".join(name for name, _ in wrong)
            self.drifts.append(Drift(resource.address, names, "missing", "rebuilt when a run needs it"))

    def find_unusable_artifacts(self, summary: Summary) -> list[tuple[str, ArtifactPresence]]:
        if not self.observed.artifacts:
            return []
        needed = (a for a in summary.artifacts if a.name not in REDUNDANT_LOGS)
        found = ((a.name, self.observed.artifacts.get(("objects", a.sha256))) for a in needed)
        return [(name, presence) for name, presence in found if presence is not None]

    def compare_service(self, resource: Resource) -> None:
        """Plan to start a server that never ran with this key. ``plan_needs`` starts any other that a run needs."""
        done = self.recorded.list_done(resource.key)
        if done:
            self.used[resource.address] = done[-1]
        else:
            self.plan_creation(resource, Work.START)

    # -- measured resources --------------------------------------------------------------------------------------

    def compare_cell(self, performance: Resource) -> None:
        """Compare a cell's runs, score and result together, since they are only published together."""
        assert performance.cell is not None
        cell, at = performance.cell, self.desired.by_address
        result = at[Address(Kind.RESULT, str(cell))]
        accuracy = next(at[up] for up in result.upstream if up.mode == ACCURACY)
        score = next(at[up] for up in result.upstream if up.kind is Kind.SCORE)
        own = accuracy.cell == cell
        done = self.list_done(performance)
        audits = tuple(list_cell_tests(self.desired, cell))
        runs = [(audit, self.list_done(audit.test)) for audit in audits]
        tests = [(found, audit.list_allowed_differences((*found, *done))) for audit, found in runs]
        dependents = self.accuracy_dependents.get(accuracy.address, ()) if own else ()
        tests += [(select_valid(self.list_done(run)), ALLOWED_TO_DIFFER) for run in dependents]
        counts = self.used.get(accuracy.address)  # the accuracy run that its own cell uses
        others = self.select_trusted(self.list_done(accuracy)) if own else (counts,) if counts else ()
        published, matching = self.select_published(performance, others, tests)
        if own and accuracy.address not in self.forced:
            self.compare_run(accuracy, matching)
            self.find_contradictions(accuracy.address, matching)
        if performance.address not in self.forced:
            self.compare_performance_run(performance, published, done)
        if published and matching and not {performance.address, accuracy.address} & set(self.changes):
            self.repeat_unless_evidence_matches(performance, accuracy, published, matching)
        if published and matching and dependents:
            self.repeat_outdated((accuracy, performance), matching, dependents)
        if own:
            self.compare_score(score, accuracy, matching)
        imported = self.list_imported_tests(cell)
        brought = imported if published is not None and IMPORTED in published.marks else {}
        kept = [a for a in audits if a.test.address.label in brought and a.test.address not in self.forced]
        self.unmade |= dict.fromkeys((at for a in kept for at in (a.test.address, a.verdict.address)), _BROUGHT)
        audits = tuple(audit for audit in audits if audit not in kept)
        judged = compare_cell_tests(self, audits, published)
        others_of_cell = (accuracy.address, *(audit.test.address for audit in audits))
        self.drifts += find_host_drift(published, (self.used[a] for a in others_of_cell if a in self.used))
        red = performance.address in self.contradicted or (published is None and bool(done))
        timed = "" if red else self.find_published_id(performance.address)
        self.chosen[cell] = Chosen(
            accuracy=self.find_published_id(accuracy.address),
            performance=timed,
            score=""
            if score.address in self.used and self.used[score.address].problem
            else self.find_published_id(score.address),
            tests=tuple({**brought, **{name: test for name, test, _ in judged}}.items()) or tuple(imported.items()),
            verdicts=tuple((name, verdict) for name, _, verdict in judged),
            code=find_kept_code(self.used[performance.address]) if timed else "",
        )
        self.compare_result(
            result, (performance, accuracy, score, *(a.test for a in audits), *(a.verdict for a in audits))
        )

    def list_imported_tests(self, cell: Cell) -> dict[str, str]:
        """List the compliance tests that were imported with runs. They are shown in the tree, but not run or judged
        here."""
        found = {address.label: summaries[-1].id for address, summaries in self.imported_tests.get(cell, ())}
        return dict(sorted(found.items()))

    def compare_inferred_result(self, result: Resource) -> None:
        """Choose the source cell's records for a cell without its own runs."""
        ups = [self.desired.by_address[address] for address in result.upstream]
        assert result.cell is not None
        self.chosen[result.cell] = next((self.chosen[up.cell] for up in ups if up.cell in self.chosen), Chosen())
        self.compare_result(result, ups)

    def find_published_id(self, address: Address) -> str:
        """Return the id of the record to publish; "" if the resource is due or contradicted."""
        due = address in self.changes and self.changes[address].how is Work.MAKE
        if address in self.contradicted:
            return ""
        return self.used[address].id if address in self.used and not due else ""

    def compare_performance_run(self, resource: Resource, published: Summary | None, done: tuple[Summary, ...]) -> None:
        if published is None and done:
            self.used[resource.address] = done[-1]
            tried = len(done)
            lasting = done[-1].lasting
            if tried < resource.attempts and not lasting:
                note = f"INVALID, attempt {tried + 1} of {resource.attempts}"
                self.plan_change(resource, Action.REPLACE, Reason.PREVIOUS_ATTEMPT_FAILED, note)
            else:
                fix = "change the target as the message says, raise `attempts`, or repeat with --rerun"
                fix = LASTING if lasting else fix
                message = done[-1].problem or "LoadGen judged this run INVALID"
                self.findings.append(Finding("Invalid", str(resource.cell), message, fix))
            return
        self.compare_run(resource, published)
        self.find_contradictions(resource.address, published)

    def repeat_unless_evidence_matches(
        self, performance: Resource, accuracy: Resource, published: Summary, accuracy_run: Summary
    ) -> None:
        """Repeat the older of two runs with different evidence, which may not be published together."""
        unequal = find_differing_evidence(published, accuracy_run)
        if not unequal:
            if performance.address in accuracy.upstream and accuracy_run.started < published.started:
                note = "its performance run was repeated"
                self.plan_change(accuracy, Action.REPLACE, Reason.UPSTREAM_REPLACED, note)
            return
        older = accuracy if accuracy_run.started <= published.started else performance
        names = ", ".join(name for name, _, _ in unequal)
        other = PERFORMANCE if older is accuracy else ACCURACY
        self.plan_change(older, Action.REPLACE, Reason.EVIDENCE_DIFFERS, f"{names} differs from the {other} run")

    def repeat_outdated(self, runs: Iterable[Resource], accuracy_run: Summary, dependents: Iterable[Resource]) -> None:
        """Repeat both ``runs`` of the cell with accuracy run ``accuracy_run`` if a cell that shares it was measured
        later on another system: an accuracy run belongs to the performance run of its own cell."""
        for run in dependents:
            if run.address in self.forced or run.cell is None:
                continue
            published, _ = self.select_published(run, (accuracy_run,))
            unequal = find_differing_evidence(published, accuracy_run) if published is not None else ()
            if published is not None and unequal and accuracy_run.started <= published.started:
                names = ", ".join(name for name, _, _ in unequal)
                note = f"{names} differs from the performance run of {run.cell.scenario}"
                for due in runs:
                    if due.address not in self.changes:
                        self.plan_change(due, Action.REPLACE, Reason.EVIDENCE_DIFFERS, note)

    def compare_score(self, resource: Resource, accuracy: Resource, accuracy_run: Summary | None) -> None:
        """Compare the score. It belongs to one accuracy run: after a repeat the run is scored again, even under the
        same key."""
        if resource.address in self.forced:
            return
        scored = [s for s in self.list_done(resource) if accuracy_run and ("run", accuracy_run.id) in s.upstream]
        remade = accuracy.address in self.changes and self.changes[accuracy.address].how is Work.MAKE
        if scored and not remade:
            self.compare_run(resource, scored[-1])
            self.find_contradictions(resource.address, scored[-1])
            if scored[-1].problem:
                fix = "raise the precision, improve calibration, or move the cell to the open division"
                self.findings.append(Finding(ACCURACY_BELOW, str(resource.cell), scored[-1].problem, fix))
        elif remade and self.list_done(resource):
            self.plan_change(resource, Action.REPLACE, Reason.UPSTREAM_REPLACED)
        else:
            self.plan_creation(resource)

    def compare_result(self, resource: Resource, upstream: Iterable[Resource]) -> None:
        ups = tuple(upstream)
        if any(up.address in self.changes and self.changes[up.address].how is Work.MAKE for up in ups):
            reason = Reason.UPSTREAM_REPLACED if str(resource.cell) in self.observed.rendered else Reason.NOT_RECORDED
            self.plan_change(resource, _replace_or_create(reason), reason, how=Work.RENDER)
            return
        cell = resource.cell
        assert cell is not None
        if not self.observed.tree_present or not is_published(self.chosen[cell]):
            return
        fingerprint = compute_fingerprint(resource, list(self.chosen[cell].all))
        self.compare_rendered_files(resource, str(resource.cell), fingerprint)

    def compare_rendered_files(self, resource: Resource, name: str, fingerprint: str) -> None:
        """Compare rendered files, if the tree exists. A missing tree is not a difference, since it can be rendered from
        the records."""
        before, edited = self.observed.rendered.get(name), self.observed.tree.get(name, ())
        if before != fingerprint:
            reason, note = (Reason.INPUT_CHANGED, "rendered from other inputs") if before else (Reason.NOT_RECORDED, "")
            self.plan_change(resource, _replace_or_create(reason), reason, note, how=Work.RENDER)
        elif edited:
            worst = Reason.ARTIFACT_CORRUPT if any(w != "missing" for _, w in edited) else Reason.ARTIFACT_MISSING
            note = ", ".join(f"{path} is {what}" for path, what in edited[:3])
            more = f" and {len(edited) - 3} more" if len(edited) > 3 else ""
            self.plan_change(resource, Action.REPLACE, worst, note + more, how=Work.RENDER)

    def compare_submission(self) -> None:
        resource = next((r for r in self.desired.resources if r.kind is Kind.SUBMISSION), None)
        if resource is None:
            return
        for path, _ in self.observed.tree.get("", ()):
            self.drifts.append(Drift(resource.address, path, "unknown", "kept: it was not rendered here"))
        if not self.observed.tree_present:
            return
        pending = {str(a.cell) for a in self.changes if str(a.cell) in self.observed.rendered}
        kept = {name for name in self.observed.rendered if name != "submission" and self.is_frozen(name)}
        cells = list_published_cells(self.chosen) | pending | kept
        fingerprint = compute_submission_fingerprint(self.desired, cells, self.chosen)
        before = self.observed.rendered.get("submission", "")
        due = any(change.how is Work.MAKE and str(a.cell) in pending for a, change in self.changes.items())
        if due and differ_only_in_code(before, fingerprint):
            fingerprint = before  # the due runs determine which code the tree will show
        self.compare_rendered_files(resource, "submission", fingerprint)

    def is_frozen(self, cell: str) -> bool:
        return bool(self.frozen) and find_freeze(Cell.parse(cell), self.frozen) is not None

    # -- resources that the actions need ------------------------------------------------------------------------

    def plan_needs(self) -> None:
        """Plan every missing artifact that an action will read, up the chain. Servers have no artifacts, and only start
        if a due run uses them."""
        queue = [a for a, change in self.changes.items() if change.how is Work.MAKE]
        started: set[Address] = set()
        while queue:
            resource = self.desired.by_address[queue.pop()]
            if resource.kind is Kind.VERDICT:
                continue  # it is made from logs, and a run is not repeated for a missing copy of them
            for up in resource.upstream:
                if resource.kind is up.kind is Kind.RUN:
                    continue  # it only follows the other run, and reads nothing from it
                if up.kind is Kind.SERVICE:
                    if up not in started:
                        started.add(up)
                        queue.append(up)
                        self.plan_start(self.desired.by_address[up])
                    continue
                summary = self.used.get(up)
                if (up in self.changes and self.changes[up].how is Work.MAKE) or summary is None:
                    continue
                # The artifacts of an imported record may be missing here.
                absent = IMPORTED in summary.marks and not summary.artifacts
                artifacts = [a for a in summary.artifacts if a.name not in NOT_HANDED_ON]
                if absent or any(self.find_unreadable(a.sha256, a.place) for a in artifacts):
                    self.plan_change(self.desired.by_address[up], Action.REPLACE, Reason.ARTIFACT_MISSING, NEEDED)
                    queue.append(up)
        idle = [a for a in self.changes if a.kind is Kind.SERVICE and a not in started]
        for address in idle:
            del self.changes[address]
        self.drifts = [d for d in self.drifts if d.address not in self.changes]

    def plan_start(self, resource: Resource) -> None:
        if resource.address not in self.changes:
            self.plan_change(resource, Action.REPLACE, Reason.ARTIFACT_MISSING, "needed by a due run", how=Work.START)

    def find_unreadable(self, sha256: str, place: str) -> bool:
        places = {"objects", place}
        return all((p, sha256) in self.observed.artifacts for p in places)


def _replace_or_create(reason: Reason) -> Action:
    return Action.CREATE if reason is Reason.NOT_RECORDED else Action.REPLACE


def list_published_cells(chosen: Mapping[Cell, Chosen]) -> set[str]:
    return {str(cell) for cell, records in chosen.items() if is_published(records)}


def is_published(records: Chosen) -> bool:
    runs = records.accuracy and records.performance and records.score
    return bool(runs) and all(identity for _, identity in records.tests)


def find_kept_code(performance: Summary) -> str:
    """Return the digest of the code kept with a performance run; "" if none was kept."""
    return next((item.sha256 for item in performance.artifacts if item.name == CODE_ARCHIVE), "")


def compare(
    desired: Desired,
    recorded: Recorded,
    observed: Observed,
    forced: frozenset[Address] = frozenset(),
    decisions: Decisions = NONE,
) -> Difference:
    """Find all changes that would make recorded and observed state match the desired state, all drift and all
    findings."""
    found, frozen = judge_acceptances(decisions, desired, recorded), spread(decisions.frozen, desired.resources)
    walk = Comparison(desired, recorded, observed, forced, accepted=list_accepted_keys(found), frozen=frozen)
    for path, why in sorted(decisions.damaged.items()):
        fix = f"restore it (git checkout -- {path}), or remove it and repeat the decision"
        walk.findings.append(Finding("DamagedDecision", path, f"{why}: it has no effect", fix))
    walk.walk()
    walk.plan_needs()
    walk.drifts += find_failed_repeats(desired, recorded, walk.used, walk.changes)
    for cell in desired.missing_cells:
        fix = "declare it in the spec: the round requires it"
        walk.findings.append(Finding("MissingCell", cell, "a required scenario is not declared", fix))
    walk.compare_submission()
    declared = {resource.address for resource in desired.resources}
    undeclared = tuple(sorted(a for a in recorded.by_address if a not in declared and a.kind is Kind.RUN))
    keys = {r.key for r in desired.resources if walk.unmade.get(r.address) != WAITS}
    changed = {change.key for change in walk.changes.values()}
    ordered = tuple(walk.changes[r.address] for r in desired.resources if r.address in walk.changes)
    return Difference(
        changes=ordered,
        drifts=tuple(walk.drifts),
        findings=tuple(walk.findings),
        chosen=walk.chosen,
        recorded_as={address: summary.id for address, summary in walk.used.items()},
        undeclared=undeclared,
        unchanged=len(keys - changed),
        acceptances=found,
        frozen=frozen,
        unmade=walk.unmade,
    )
