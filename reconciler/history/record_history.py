"""Every record in any commit of a history, and the causes of changes in a cell's results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from reconciler.diff.timeline import ChangeCause, MeasuredValue, TimelineStep, Written, drop_repeated
from reconciler.errors import RecordError
from reconciler.history.commit_records import name_record
from reconciler.record.codec import decode, summarize
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import PERFORMANCE, Cell, Kind
from reconciler.resource.records import Ended, Record
from reconciler.storage import git
from reconciler.storage.files import RECORDS
from reconciler.storage.git import Commit, find_appearances

_FOLLOWS = ("engine.", "model.", "dataset.")  # digests that follow from inputs
_OUTPUTS = ("run.",)  # digests of a run's outputs, which differ each time
_MACHINE = ("machine.host", "machine.kernel")  # notes that may nevertheless explain different results


class RecordHistory(Struct, frozen=True, dict=True):
    """All records of a history. ``records``: id → record; ``brought``: id → the commit that added it; ``kept``: ids at
    the tip; ``specs``: (path, blob) → the first commit with these bytes."""

    root: Path
    tip: str
    records: Mapping[str, Record]
    brought: Mapping[str, Commit]
    kept: frozenset[str]
    specs: Mapping[tuple[str, str], Commit]
    lines: dict[tuple[str, str, int], Written | None] = field(default_factory=dict)

    @cached_property
    def cells(self) -> dict[Cell, list[str]]:
        """Cell → ids of the records of its results, oldest first."""
        found: dict[Cell, list[str]] = {}
        for identity, record in sorted(self.records.items(), key=lambda item: item[1].started):
            for address in (record.address, *record.shared):
                if address.cell is not None and _label_result(record):
                    found.setdefault(address.cell, []).append(identity)
        return found

    def list_measured(self, cell: Cell) -> tuple[MeasuredValue, ...]:
        return tuple(self._make_measured(identity) for identity in self.cells.get(cell, ()))

    def _make_measured(self, identity: str) -> MeasuredValue:
        record = self.records[identity]
        value, unit = summarize(record, identity).metric or ("", "")
        validity = str(record.values.get("validity", ""))
        what, commit = _label_result(record), self.brought[identity]
        by = Written(commit.id, commit.author, commit.when, commit.subject)
        kept = identity in self.kept
        return MeasuredValue(identity, what, record.started, value, unit, validity, record.marks, by, kept)

    def list_steps(self, cell: Cell) -> tuple[TimelineStep, ...]:
        """Return the steps from each result of a cell to the next of its kind, with the changes between them."""
        last: dict[str, MeasuredValue] = {}
        steps = []
        for result in self.list_measured(cell):
            before = last.get(result.what)
            if before is not None:
                steps.append(TimelineStep(before, result, self.list_causes(before.record, result.record)))
            last[result.what] = result
        return tuple(steps)

    def list_causes(self, before: str, after: str, seen: frozenset[str] = frozenset()) -> tuple[ChangeCause, ...]:
        """Return the differences of its own inputs first, then those of its sources, then differences that no input
        explains."""
        one, other = self.records.get(before), self.records.get(after)
        if one is None or other is None or before == after or after in seen:
            return ()
        found = []
        for name in sorted({*one.inputs, *other.inputs} - {*one.upstream, *other.upstream}):
            was, now = one.inputs.get(name), other.inputs.get(name)
            if (was.value if was else None) != (now.value if now else None):
                origin = (now or was).origin  # type: ignore[union-attr]
                by = self._find_line(other if now else one, name, origin)
                values = was.value if was else None, now.value if now else None
                found.append(ChangeCause(other.address.label, name, *values, origin, by))
        for name in sorted({*one.upstream} & {*other.upstream}):
            found += self.list_causes(one.upstream[name], other.upstream[name], seen | {after})
        found += _list_circumstances(one, other, (*_FOLLOWS, *_OUTPUTS) if found else _OUTPUTS)
        return drop_repeated(found)

    def _find_later(self, record: Record, name: str, file: str, line: str) -> tuple[Commit | None, str]:
        """Find the first later commit in which exactly one line sets the input to the record's value. This serves a run
        whose spec was committed only together with other changes."""
        leaf = name.rpartition(".")[2]
        value = record.inputs.get(name)
        versions = sorted((c.when, blob, c) for (path, blob), c in self.specs.items() if path == file)
        began = datetime.fromisoformat(record.started).timestamp()
        for when, blob, commit in versions:
            if when.timestamp() + 1 < began:  # git stores whole seconds
                continue
            text = git.read_blobs(self.root, [blob]).get(blob, b"").decode(errors="replace").splitlines()
            setting = [number for number, written in enumerate(text, 1) if re.search(rf"\b{re.escape(leaf)}:", written)]
            exact = [number for number in setting if value is not None and str(value.value) in text[number - 1]]
            found = exact if len(exact) == 1 else setting
            if len(found) == 1:
                return commit, str(found[0])
        return None, line

    def _find_line(self, record: Record, name: str, origin: str) -> Written | None:
        """Find who last changed the line that set an input, in the spec of that time."""
        file, _, line = origin.rpartition(":")
        commit = self.specs.get((file, record.spec.get(file, "")))
        if commit is None and line.isdigit():
            commit, line = self._find_later(record, name, file, line)
        if commit is None or not line.isdigit():
            return None
        key = (commit.id, file, int(line))
        if key not in self.lines:
            found = git.find_line_commits(self.root, file, [int(line)], commit.id).get(int(line))
            when = found.when if found else None
            self.lines[key] = Written(found.commit, found.author, when, found.summary) if found and when else None
        return self.lines[key]


def read_record_history(root: Path, tip: str) -> RecordHistory:
    """Read with one call of git for the log and one for all records. Files that are no longer records are left out."""
    added = find_appearances(root, tip, [RECORDS, "specs"])
    named = {at: commit for at, commit in added.items() if at[0].startswith(f"{RECORDS}/")}
    contents = git.read_blobs(root, [blob for _, blob in named])
    records, brought = {}, {}
    for (path, blob), commit in named.items():
        identity = name_record(path)
        try:
            records[identity] = decode(contents[blob], path)
        except (KeyError, RecordError):
            continue
        brought[identity] = commit
    here = git.list_files_at(root, tip, [RECORDS])
    kept = frozenset(name_record(path) for path in here)
    return RecordHistory(root, tip, records, brought, kept, {at: c for at, c in added.items() if at not in named})


def _list_circumstances(one: Record, other: Record, without: tuple[str, ...]) -> Iterator[ChangeCause]:
    """Yield differences in evidence, such as a driver or the harness's code, and in the machine. ``without``: prefixes
    of names that follow from differing inputs."""
    for name in sorted({*one.facts, *other.facts}):
        facts = [side.facts.get(name) for side in (one, other)]
        weighs = name in _MACHINE or any(fact is not None and fact.role is Role.EVIDENCE for fact in facts)
        before, after = (fact.value if fact else None for fact in facts)
        if weighs and before != after and not name.startswith(without):
            yield ChangeCause(other.address.label, name, before, after)


def _label_result(record: Record) -> str:
    """Return "Run performance" or "Score" for resources with a metric; "" for all others."""
    score = record.address.kind is Kind.SCORE
    run = record.address.mode == PERFORMANCE
    return record.address.label if record.ended is Ended.DONE and (score or run) else ""
