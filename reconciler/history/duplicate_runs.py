"""One run that a commit shows as two: a log of an earlier run that came again with other dates, or as it is for
another result.

Its latencies and the clock of LoadGen's logger give an edited one away. Runs with one result, and runs of one address,
are compared. A run that was recorded twice would be the newest again, or weigh twice where the median is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from reconciler.diff.claims import Claim, Proof
from reconciler.diff.run_selection import select_valid
from reconciler.errors import LogError
from reconciler.history.logs import Logs
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.fingerprint import find_fingerprints
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Ended, Summary
from reconciler.rules.benchmark_facts import strip_variant

_OWN = "a run of its own"


def find_copies(at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Find copies among records that count, and everything else in the commit; nothing where every run is one of its
    own."""
    counting = {i: str(cell) for cell in sorted(at.difference.chosen) for i in at.difference.chosen[cell].all}
    yield from _find_shared_logs(at, counting)
    yield from _find_recorded_twice(at)
    for group in _group_candidates(at):
        if counting.keys().isdisjoint(group):
            continue
        known = {identity: at.committed.summaries[identity] for identity in group}
        seen = {identity: _read_fingerprints(summary, logs) for identity, summary in known.items()}
        ordered = sorted(group, key=lambda i: (known[i].started, i))
        for one, other in _pair_alike(ordered, seen):
            cell = counting.get(other) or counting.get(one)
            if cell and set(seen[one].values()) != set(seen[other].values()):
                earlier, later = known[one], known[other]
                detail = f"its log has the latencies or the clock of {one}, a run of {earlier.started}, and other bytes"
                yield Claim(cell, f"{later.address.label}: {_OWN}", Proof.CONTRADICTED, detail)


def _find_shared_logs(at: Snapshot, counting: Mapping[str, str]) -> Iterator[Claim]:
    """A log that counts for two systems, or for two benchmarks of which none is the other's stricter variant, and that
    a record of each calls its own run. Where one run may serve two cells, they share its record."""
    first: dict[str, str] = {}
    known = {identity: at.committed.summaries[identity] for identity in counting if identity in at.committed.summaries}
    for identity, later in sorted(known.items(), key=lambda item: (item[1].started, item[0])):
        digest = next((a.sha256 for a in later.artifacts if a.name == DETAIL), "")
        one = first.setdefault(digest, identity) if digest else identity
        earlier = known[one]
        if not _may_share(at, earlier.address.cell, later.address.cell):
            # Either of them may be the one that ran.
            for i, run, copy in ((one, earlier, later), (identity, later, earlier)):
                detail = f"its log is, byte for byte, that of {copy.id}, the run of {copy.address.cell}"
                yield Claim(counting[i], f"{run.address.label}: {_OWN}", Proof.CONTRADICTED, detail)


def _find_recorded_twice(at: Snapshot) -> Iterator[Claim]:
    """Among the runs that a policy chooses from. What was imported may have come twice."""
    for cell, chosen in sorted(at.difference.chosen.items(), key=lambda item: str(item[0])):
        published = at.committed.summaries.get(chosen.performance)
        first: dict[str, Summary] = {}
        for summary in select_valid(at.recorded.done(published.key)) if published is not None else ():
            digest = next((a.sha256 for a in summary.artifacts if a.name == DETAIL), "")
            one = first.setdefault(digest, summary) if digest and IMPORTED not in summary.marks else summary
            if one is not summary:
                detail = f"its log is, byte for byte, that of {one.id}: one run, recorded twice"
                what = f"{summary.address.label} of {summary.started}: {_OWN}"
                yield Claim(str(cell), what, Proof.CONTRADICTED, detail)


def _may_share(at: Snapshot, one: Cell | None, other: Cell | None) -> bool:
    if one is None or other is None or one.system != other.system:
        return one == other
    if strip_variant(one.benchmark) == strip_variant(other.benchmark):
        return True
    official, theirs = _find_official(at, one), _find_official(at, other)
    return official != theirs and strip_variant(official) == strip_variant(theirs)


def _find_official(at: Snapshot, cell: Cell) -> str:
    """The benchmark that the spec enters it as."""
    result = at.desired.by_address.get(Address(Kind.RESULT, str(cell)))
    return at.desired.detail(result.address).settings.official or cell.benchmark if result else ""


def _pair_alike(ordered: Sequence[str], seen: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, str]]:
    """The pairs that have a fingerprint in common, in this order. Thousands of runs may have one result."""
    holders: dict[str, list[int]] = {}
    for number, identity in enumerate(ordered):
        for fingerprint in seen[identity]:
            holders.setdefault(fingerprint, []).append(number)
    pairs = {pair for numbers in holders.values() for pair in combinations(numbers, 2)}
    return ((ordered[one], ordered[other]) for one, other in sorted(pairs))


def _group_candidates(at: Snapshot) -> list[set[str]]:
    """Ids of records that one run may have made, of those with different logs."""
    groups: dict[tuple[object, ...], dict[str, str]] = {}
    for identity, summary in at.committed.summaries.items():
        digest = next((a.sha256 for a in summary.artifacts if a.name == DETAIL), "")
        if not digest or summary.ended is not Ended.DONE:
            continue
        groups.setdefault(("address", summary.address), {})[identity] = digest
        if summary.metric is not None:
            groups.setdefault(("metric", *summary.metric), {})[identity] = digest
    found = {frozenset(group) for group in groups.values() if len(set(group.values())) > 1}
    return sorted(map(set, found), key=sorted)


def _read_fingerprints(record: Summary, logs: Logs) -> dict[str, bytes]:
    """Fingerprint → the log, whatever its line ends. Nothing of a log that is not here or cannot be read."""
    own = [a for a in record.artifacts if a.name == DETAIL and a.place == "logs"]
    good = logs.read(own)
    for data in good.values():
        try:
            return dict.fromkeys(find_fingerprints(parse_detail(data, DETAIL)), data.replace(b"\r\n", b"\n"))
        except LogError:
            continue
    return {}
