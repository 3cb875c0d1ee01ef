"""The working state of a comparison, and the steps that all of its parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from reconciler.desired.state import Desired
from reconciler.diff.change import Action, Change, Finding, Reason, Work
from reconciler.diff.run_selection import list_contradictions, select_runs, select_trusted, select_valid
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.resource.decisions import AcceptedKey
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.resources import Resource


class ComparisonState(Struct):
    """``used``: the record that satisfies each resource; ``accepted``: accepted keys, by resource. ``contradicted``:
    resources whose chosen record has logs that contradict it. ``unmade``: compliance tests and verdicts that no step
    makes, with the reason."""

    desired: Desired
    recorded: Recorded
    observed: Observed
    forced: frozenset[Address]
    changes: dict[Address, Change] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    used: dict[Address, Summary] = field(default_factory=dict)
    accepted: Mapping[Address, AcceptedKey] = field(default_factory=dict)
    contradicted: set[Address] = field(default_factory=set)
    unmade: dict[Address, str] = field(default_factory=dict)

    def list_done(self, resource: Resource) -> tuple[Summary, ...]:
        """List a resource's successful records, or else the accepted ones."""
        own, instead = self.recorded.list_done(resource.key), self.accepted.get(resource.address)
        return own if own or instead is None else self.recorded.list_done(instead.key.before)

    def plan_change(self, resource: Resource, action: Action, reason: Reason, note: str = "", **extra: object) -> None:
        known = self.recorded.by_address.get(resource.address, ())
        done = [s for s in known if s.ended is Ended.DONE]
        latest = done or list(known)
        previous = latest[-1] if latest else None
        self.changes[resource.address] = Change(
            resource.address,
            resource.key,
            action,
            reason,
            previous=previous.id if previous else "",
            note=note,
            **extra,  # type: ignore[arg-type]
        )

    def plan_creation(self, resource: Resource, how: Work = Work.MAKE) -> None:
        """Plan a resource whose key has no record, with the best reason known here; ``explain`` refines InputChanged
        later."""
        failed = [s for s in self.recorded.by_key.get(resource.key, ()) if s.ended is Ended.FAILED]
        known = self.recorded.by_address.get(resource.address, ())
        action = Action.REPLACE if any(s.ended is Ended.DONE for s in known) else Action.CREATE
        if failed:
            self.plan_change(resource, action, Reason.PREVIOUS_ATTEMPT_FAILED, failed[-1].problem, how=how)
        elif not known:
            self.plan_change(resource, action, Reason.NOT_RECORDED, how=how)
        elif any(up in self.changes for up in resource.upstream):
            self.plan_change(resource, action, Reason.UPSTREAM_REPLACED, how=how)
        else:
            self.plan_change(resource, action, Reason.INPUT_CHANGED, how=how)

    def select_trusted(self, summaries: tuple[Summary, ...]) -> tuple[Summary, ...]:
        return select_trusted(summaries, self.observed.judgements)

    def find_contradictions(self, address: Address, summary: Summary | None) -> bool:
        """Return True if a chosen record's kept logs contradict it, and add the findings."""
        found = list_contradictions(address, summary, self.observed.judgements)
        self.findings += found
        if found:
            self.contradicted.add(address)
        return bool(found)

    def select_published(
        self,
        performance: Resource,
        accuracy: Sequence[Summary],
        tests: Sequence[tuple[Sequence[Summary], frozenset[str]]] = (),
    ) -> tuple[Summary | None, Summary | None]:
        """Apply ``select_runs`` to the valid runs of a cell, with its declared policy."""
        done, cell = self.list_done(performance), performance.cell
        valid = self.select_trusted(select_valid(done))
        assert cell is not None
        inputs = self.desired.detail(Address(Kind.RESULT, str(cell))).inputs if len(done) > 1 else ()
        policy = next((str(item.value) for item in inputs if item.name == "policy.publish"), "latest")
        lower = cell.scenario in ("SingleStream", "MultiStream")
        return select_runs(valid, accuracy, policy, lower=lower, tests=tests)

    def compare_run(self, resource: Resource, summary: Summary | None) -> None:
        if summary is None:
            self.plan_creation(resource)
            return
        self.used[resource.address] = summary
        self.check_logs(resource, summary)

    def check_logs(self, resource: Resource, summary: Summary) -> None:
        """Restore unreadable logs: those in git's folder, which the tree needs, and corrupt copies in the store."""
        if not self.observed.artifacts:
            return
        bad = [a for a in summary.artifacts if a.place == "logs" and ("logs", a.sha256) in self.observed.artifacts]
        spoilt = [
            a for a in summary.artifacts
            if self.observed.artifacts.get(("objects", a.sha256)) is ArtifactPresence.CORRUPT and a not in bad
        ]  # fmt: skip
        if not bad and not spoilt:
            return
        wanted = tuple(("logs", a.sha256) for a in bad) + tuple(("objects", a.sha256) for a in spoilt)
        presence = self.observed.artifacts[wanted[0]]
        names = ", ".join(a.name for a in [*bad, *spoilt])
        reason = Reason.ARTIFACT_CORRUPT if presence is ArtifactPresence.CORRUPT else Reason.ARTIFACT_MISSING
        self.plan_change(resource, Action.REPLACE, reason, f"{names} is {presence}", how=Work.RESTORE, restore=wanted)
