"""Compare cells: one log in two places, or the user.conf of another cell."""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.check.demands import OURS
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_TEXT
from reconciler.resource.kinds import strip_variant
from reconciler.resource.rules import Premise, Severity, applies, question, rule
from reconciler.rules.accuracy import is_digest, list_digests, parse_accuracy
from reconciler.tree.findings import Complaint, Facts, Place, TreeFinding
from reconciler.tree.reading.log_cache import CachedAnswers
from reconciler.tree.reading.system import SystemEntry
from reconciler.tree.reading.values import find_at, read_end, read_start
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About
from reconciler.verify.causes import ESTIMATE, OTHER_CELL, SEVERAL
from reconciler.verify.verdicts import verify_hashes

_CONF = "user-conf.contradicts"
_CONF_DIGEST = "user.conf"
_FEW = 1e-5

Run = tuple[str, str, str]  # submitter, cell, run
Pairs = frozenset[tuple[str, str]]  # (scenario, measured): which results may be inferred from which scenario


class PublishedLogs(Struct):
    """The logs of all cells. ``files``: run → its log's path; ``fingerprints``: run → values that no other run shares;
    ``inferable``: None if the round is unknown; ``machines``: (submitter, cell) → the description of its system."""

    facts: list[Facts] = field(default_factory=list)
    files: dict[Run, str] = field(default_factory=dict)
    fingerprints: dict[Run, tuple[str, ...]] = field(default_factory=dict)
    inferable: Pairs | None = frozenset()
    machines: dict[tuple[str, str], SystemEntry] = field(default_factory=dict)


_ONE_MACHINE = "both systems are described as one machine, entered in two categories"
_TWO_NAMES = "one submitter describes both systems identically: they may be one machine under two names"
_TWO_SUBMITTERS = "two submitters describe the same machine identically"
_MEASURED = "performance"
_ROUND_ALLOWS_IT = "the rules of this round are unknown; they may allow one result to be inferred from the other"


@rule(
    "placement.copied",
    "one log in two cells",
    sources=(OURS,),
    cause="copied-logs",
    premises=(
        Premise("The round is known, since it may allow one result to be inferred from the other."),
        Premise("The two systems are described as different machines, if the log is in the same result of both."),
        Premise(
            "The two submitters describe different machines, if an accuracy or test log is in the same result of both."
        ),
    ),
    proof="no round, tool or machine produces two runs with the same latencies, dates and process ids",
)
def verify_copied_logs(logs: PublishedLogs) -> Iterator[tuple[About, Complaint]]:
    """Two detail logs are identical byte for byte (for long ones, their lengths and 8 KiB at both ends), including
    dates in nanoseconds and process ids. Or they differ but share all latencies in nanoseconds, or the logger's clock
    at both ends, which no two of 6,471 published logs do. Scenarios that may be inferred and accuracy variants of one
    system are left out. The later cell gets the finding. Shared logs are questions in these cases: one result in two
    divisions; a machine entered as a datacenter and as an edge system with the same processors, accelerators and
    framework; a machine that two submitters describe in the same words, except for performance logs, since each must
    publish its own measurement; several results of two systems that one submitter describes in the same words."""
    yield from _find_copies(logs)
    yield from _find_edited_copies(logs)


def _find_copies(logs: PublishedLogs) -> Iterator[tuple[About, Complaint]]:
    seen: dict[str, tuple[Facts, str]] = {}
    for item in logs.facts:
        for run, digest in item.digests:
            if run != _CONF_DIGEST:
                yield from _judge_copy(*seen.setdefault(digest, (item, run)), item, run, logs)


def _find_edited_copies(logs: PublishedLogs) -> Iterator[tuple[About, Complaint]]:
    """Find detail logs that are modified copies of another cell's log, for example with other dates."""
    seen: dict[str, tuple[Facts, str, str]] = {}
    wanted = "latencies and a logger clock that differ from those of other runs"
    cause = "two copies of one run's log, one of them changed"
    for item in logs.facts:
        for run, digest in item.digests:
            marks = logs.fingerprints.get((item.submitter, item.cell, run), ())
            known = [seen.setdefault(mark, (item, run, digest)) for mark in marks]
            first, first_run, _ = next((entry for entry in known if entry[2] != digest), (item, run, digest))
            for about, complaint in _judge_copy(first, first_run, item, run, logs):
                yield about, replace(complaint, wanted=wanted, cause=cause, common="")


def _judge_copy(
    first: Facts, first_run: str, second: Facts, run: str, logs: PublishedLogs
) -> Iterator[tuple[About, Complaint]]:
    alike = first.submitter == second.submitter and first_run == run
    if alike and (first.cell == second.cell or _may_share(first, second, logs.inferable)):
        return
    (_, system, *result), (_, system2, *result2) = _split_cell(first), _split_cell(second)
    divisions = alike and (system, result) == (system2, result2)
    scenarios = alike and logs.inferable is None and system == system2
    named_apart = alike and system != system2
    entry, entry2 = (logs.machines.get((each.submitter, each.cell), SystemEntry()) for each in (first, second))
    one_run = _may_be_of_one_run(first, second, logs.inferable)
    one_machine = one_run and bool(entry.machine) and entry.machine == entry2.machine
    # With identical descriptions of one machine, one run under two names is enough.
    described_alike = one_run and bool(entry.description) and entry.description == entry2.description
    # Rounds without systems of both categories require two entries of one machine, with the same logs.
    categories = named_apart and one_machine and entry.category != entry2.category
    # Partners who enter one machine may publish the same logs of its accuracy run and tests.
    submitters = first.submitter != second.submitter and first_run == run != _MEASURED and described_alike
    doubt = "both cells are the same result in two divisions" if divisions else _ROUND_ALLOWS_IT if scenarios else ""
    doubt = doubt or (_ONE_MACHINE if categories else _TWO_SUBMITTERS if submitters else "")
    asked = {"two-divisions": divisions, "two-categories": categories, "two-submitters": submitters}
    whose = "" if first.submitter == second.submitter else f"{first.submitter} "
    complaint = Complaint(
        Place(logs.files.get((second.submitter, second.cell, run), second.cell)),
        f"the {run} log of {whose}{first.cell}{'' if first_run == run else f' ({first_run})'}",
        "a log of a separate run",
        cause="a run published twice, or a copied log",
        other=Place(logs.files.get((first.submitter, first.cell, first_run), first.cell)),
        doubt=doubt,
        mechanism=next((name for name, applies in asked.items() if applies), ""),
        common=_TWO_NAMES if named_apart and described_alike else "",
    )
    yield About(second.submitter, second.cell), complaint


def _may_share(one: Facts, two: Facts, inferable: Pairs | None) -> bool:
    """Return True for variants of one system's benchmark (-99, -99.9), for scenarios that may be inferred from each
    other, or for both."""
    (_, system, benchmark, scenario), (_, system2, benchmark2, scenario2) = _split_cell(one), _split_cell(two)
    differ = (benchmark, scenario) != (benchmark2, scenario2)
    return system == system2 and differ and _may_be_of_one_run(one, two, inferable)


def _may_be_of_one_run(one: Facts, two: Facts, inferable: Pairs | None) -> bool:
    """Return True if one run on one machine may count for both cells."""
    (_, _, benchmark, scenario), (_, _, benchmark2, scenario2) = _split_cell(one), _split_cell(two)
    if strip_variant(one.official or benchmark) != strip_variant(two.official or benchmark2):
        return False
    pairs = ({made, measured} for made, measured in inferable or ())
    return scenario == scenario2 or {scenario, scenario2} in pairs


def _split_cell(facts: Facts) -> list[str]:
    return [*facts.cell.split("/"), "", "", ""][:4]


def add_causes(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> Iterator[TreeFinding]:
    """Explain contradicting user.conf files without a cause by another cell with the same file or its target."""
    by_cell = {(item.submitter, item.cell): item for item in facts}
    shared: dict[tuple[str, str], list[Facts]] = {}
    for item in facts:
        for run, digest in item.digests:
            if run == _CONF_DIGEST:
                shared.setdefault((item.submitter, digest), []).append(item)
    for finding in findings:
        own = by_cell.get((finding.submitter, finding.cell))
        if finding.rule.id != _CONF or finding.complaint.cause or finding.complaint.doubt or own is None:
            yield finding
            continue
        about_target = finding.complaint.found.startswith("target_")
        text, mechanism = _explain_conf(own, facts if about_target else (), shared)
        if finding.complaint.mechanism == ESTIMATE:
            mechanism = ESTIMATE
        cause = replace(finding.complaint, cause=text, mechanism=mechanism or finding.complaint.mechanism)
        yield replace(finding, complaint=cause)


def _explain_conf(own: Facts, facts: Sequence[Facts], shared: Mapping[tuple[str, str], list[Facts]]) -> tuple[str, str]:
    """Explain the difference by another cell. Also return the id of that cause."""
    if own.conf_target is not None:
        for item in facts:
            same = item.submitter == own.submitter and item.cell != own.cell
            close = same and item.target and abs(item.target - own.conf_target) <= _FEW * item.target
            if close and _are_related(own, item):
                return f"the target in the log of {item.cell}", OTHER_CELL
    digest = dict(own.digests).get(_CONF_DIGEST, "")
    others = [item for item in shared.get((own.submitter, digest), []) if item.cell != own.cell]
    return (f"one user.conf in {len(others) + 1} cells, as in {others[0].cell}", SEVERAL) if others else ("", "")


def _are_related(one: Facts, two: Facts) -> bool:
    """Return True for cells whose files can be confused: those of one system, or of one benchmark and scenario. Other
    cells may have equal round numbers by chance."""
    (_, system, benchmark, scenario), (_, system2, benchmark2, scenario2) = _split_cell(one), _split_cell(two)
    same_result = (strip_variant(benchmark), scenario) == (strip_variant(benchmark2), scenario2)
    return same_result or (system == system2 and scenario == scenario2)


# The hash in accuracy.txt belongs to one log: if two cells state the same hash, their logs have the same ends. This
# detects an accuracy.txt copied from another run even if the logs are truncated.

_END = 2000  # bytes at each end of a log, fewer than truncation keeps
_SMALL = 1 << 20  # bytes of a complete log


class StatedHash(Struct, frozen=True):
    """A log's hash stated in accuracy.txt. ``ends``: digest of the log's ends, valid only in this process."""

    submitter: str
    cell: str
    run: str
    digest: str
    ends: int
    place: Place


def list_stated_hashes(view: CellView) -> Iterator[StatedHash]:
    """List the stated hashes of the accuracy run and of each test. Files with several hashes are skipped, since their
    order is unknown, and so are complete logs that do not match their hash, since another rule reports them."""
    folders = {"accuracy": view.files.accuracy.folder}
    folders |= {test: folder / "accuracy" for test, folder in view.files.tests.items()}
    for run, folder in folders.items():
        read = view.files.read_text(folder, ACCURACY_TEXT)
        report = parse_accuracy(read.value, (), read.file) if read.value else None
        answers = view.files.read_answers(folder) if report and is_digest(report.hash) else None
        if report is None or answers is None or not _is_named(answers, report.hash.lower()):
            continue
        text = read.value or ""
        if text.count("hash=") > 1 and list_digests(text) != (report.hash.lower(),):
            continue
        yield StatedHash(
            view.files.submitter.submitter,
            str(view.cell),
            run,
            report.hash.lower(),
            hash((_strip_returns(answers.data[: 2 * _END])[:_END], _strip_returns(answers.data[-2 * _END :])[-_END:])),
            Place(read.file, report.hash_line),
        )


def _is_named(answers: CachedAnswers, digest: str) -> bool:
    """Return True if the log may have this hash: it is truncated, or complete with an equal hash."""
    if answers.truncated:
        return len(answers.data) >= 2 * _END
    return len(answers.data) <= _SMALL and digest in answers.list_own_hashes()


def _strip_returns(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


@applies(verify_hashes.rule)
def verify_stated_hashes(hashes: Iterable[StatedHash]) -> Iterator[tuple[About, Complaint]]:
    """Two cells state the same hash for logs that differ. The logs that differ from the majority are reported, or all
    if there is no majority. A warning, because it is unknown which file was copied. Runs within a cell are compared
    elsewhere."""
    by_digest: dict[str, list[StatedHash]] = {}
    for item in hashes:
        by_digest.setdefault(item.digest, []).append(item)
    for same in by_digest.values():
        (usual, often), *others = Counter(item.ends for item in same).most_common()
        alone = bool(others) and others[0][1] < often
        for item in same if others else ():
            if alone and item.ends == usual:
                continue
            other = next(each for each in same if each.ends != item.ends and (not alone or each.ends == usual))
            if (item.submitter, item.cell) != (other.submitter, other.cell):
                yield About(item.submitter, item.cell), _complain(item, other)


def _complain(item: StatedHash, other: StatedHash) -> Complaint:
    whose = other.cell if other.submitter == item.submitter else f"{other.submitter} {other.cell}"
    return Complaint(
        item.place,
        f"hash={item.digest[:12]}…, also stated for the {other.run} log of {whose}, which has other answers",
        "the hash of this log",
        cause="one of the two files is of another log",
        other=other.place,
        severity=Severity.WARNING,
        mechanism="accuracy-of-another-run",
    )


# Runs of one system at the same time, by LoadGen's own clock: either they slowed each other, or there were two such
# machines.

_LEAST = 60.0  # minimum overlap of two runs in seconds; less may be a difference between two machines' clocks


class Span(Struct, frozen=True):
    """The start and end of a run, in seconds since 1970. ``digest``: of its log, which several cells may share."""

    submitter: str
    cell: str
    run: str
    digest: str
    began: float
    ended: float
    place: Place

    @property
    def system(self) -> tuple[str, str]:
        return self.submitter, "/".join(self.cell.split("/")[:2])


def list_spans(view: CellView) -> Iterator[Span]:
    for run in view.list_runs():
        start, end = read_start(run.log), read_end(run.log)
        if start is not None and end is not None:
            submitter, cell = view.files.submitter.submitter, str(view.cell)
            place = find_at(run.log, keys.POWER_BEGIN)
            yield Span(submitter, cell, run.name, run.run.digest, start.timestamp(), end.timestamp(), place)


@question("runs.overlap", "did two runs of one system overlap?", sources=(OURS,))
def verify_overlaps(spans: Iterable[Span]) -> Iterator[tuple[About, Complaint]]:
    """Two runs of one system overlap by a minute or more by LoadGen's own clocks, and one of them is a performance run.
    One finding per system. A question, because there may have been two such machines."""
    systems: dict[tuple[str, str], dict[str, Span]] = {}
    for span in spans:
        systems.setdefault(span.system, {}).setdefault(span.digest, span)
    for (submitter, system), runs in systems.items():
        ordered = sorted(runs.values(), key=lambda span: (span.began, span.cell, span.run))
        pair, count = _find_pairs(ordered)
        if pair is not None:
            first, second = pair
            common = min(first.ended, second.ended) - second.began
            more = f", the first of {count} pairs" if count > 1 else ""
            complaint = Complaint(
                second.place,
                f"the {second.run} run of {second.cell} during the {first.run} run of {first.cell}, "
                f"for {common:.0f} s{more}",
                "one run at a time, or several such machines",
                other=first.place,
            )
            yield About(submitter, system), complaint


def _find_pairs(runs: list[Span]) -> tuple[tuple[Span, Span] | None, int]:
    """Return the first overlapping pair and the number of pairs. All of a thousand runs may overlap, so pairs are not
    listed. ``runs``: in order of their start."""
    ends, measured, count = list[float](), list[float](), 0  # the ends of the runs so far, in order
    for run in runs:
        others, at = ends if run.run == _MEASURED else measured, run.began + _LEAST
        count += len(others) - bisect_right(others, at) if run.ended > at else 0
        for known in (ends, measured) if run.run == _MEASURED else (ends,):
            insort(known, run.ended)
    pairs = itertools.combinations(runs, 2) if count else ()
    return next((pair for pair in pairs if _overlap(*pair)), None), count


def _overlap(one: Span, later: Span) -> bool:
    return min(one.ended, later.ended) > later.began + _LEAST and _MEASURED in (one.run, later.run)
