"""Records of attempts: the full record, and the summary used for comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct, field

from reconciler.resource.inputs import CODE, Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.quantities import parse_decimal

FORMAT = 1
REHEARSAL = "rehearsal"  # permanent mark of everything that the spec declares a rehearsal
TRIAL = "trial"  # mark of an experimental run, which never becomes a result
QUICK = "quick"  # additional mark of a trial whose run was shorter than its round requires
IMPORTED = "imported"  # mark of what was made elsewhere
UNKNOWN = "unknown "  # prefix of a mark for an undeclared input: "unknown code"
LOG_LIMIT = 1 << 20  # maximum size of a log in git, in bytes
SESSION = "session/"  # prefix of the names of files that the power kit wrote for a measured run
POWER_CHECK = "power-check.txt"  # output of the power kit's own check of them
CHILD_LOG, SERVICE_LOG = "child.log", "service.log"  # output of a child process, and of the server that its run queried
TELEMETRY_LOG = "telemetry.jsonl"  # measurements of the machine during a run, once a second
REDUNDANT_LOGS = frozenset({CHILD_LOG, SERVICE_LOG, TELEMETRY_LOG})  # kept if possible, but not required
CODE_ARCHIVE = "code.tar.gz"  # the code of a performance run, which the tree publishes
REQUIREMENTS = "requirements.txt"  # packages installed in the environment of a performance run
NOT_HANDED_ON = REDUNDANT_LOGS | {CODE_ARCHIVE, REQUIREMENTS}  # artifacts of a run that later steps do not use


class Ended(StrEnum):
    """How a recorded attempt ended. An INVALID run is Done: LoadGen's verdict is a finding, not a failure."""

    DONE = "Done"
    FAILED = "Failed"


class Artifact(NamedTuple):
    """A file that an attempt created. ``place`` is "logs" (``state/logs``, in git) or "objects" (the store); ``size``
    is in bytes. Files are stored by digest; a log that the tree needs is stored in both places."""

    name: str
    sha256: str
    size: int
    place: str = "objects"


class RecordedInput(Struct, frozen=True):
    """An identity input as recorded: its value, and where the spec (or round) set it then."""

    value: Any
    origin: str


class RecordedFact(Struct, frozen=True):
    value: Any
    role: Role


class Record(Struct, frozen=True):
    """One immutable outcome. ``started`` is UTC, ISO 8601; ``seconds`` monotonic. ``values``: metrics, verdict, and
    facts about what was made.

    ``spec``: path → git blob id of each spec file; ``dirty``: they were not committed then. ``upstream``: input name →
    id of the record it was made from. ``marks``: "rehearsal", "synthetic", "trial", "quick" (forever), "imported".
    ``problem``/``fix`` for a failed attempt.

    The fields are the format of the file. A new field has a default and is listed in ``LEFT_OUT``, so that older
    records keep their bytes and their ids.
    """

    LEFT_OUT: ClassVar[frozenset[str]] = frozenset()

    address: Address
    key: str
    revision: int
    ended: Ended
    started: str
    seconds: int | float
    attempt: str
    inputs: Mapping[str, RecordedInput]
    facts: Mapping[str, RecordedFact] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    upstream: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, str] = field(default_factory=dict)
    dirty: bool = False
    marks: tuple[str, ...] = ()
    problem: str = ""
    problem_class: str = ""
    fix: str = ""
    supersedes: str = ""
    shared: tuple[Address, ...] = ()
    tool: str = ""

    @property
    def imported_whole(self) -> bool:
        """Return True for a compliance test's folder that was imported with a tree. It has no declared inputs, and its
        key is computed from its files."""
        return self.address.kind is Kind.COMPLIANCE_TEST and IMPORTED in self.marks and not self.inputs


class LogFinding(Struct, frozen=True, array_like=True):
    """A problem in a record's kept files. ``rule``: the id of the rule that found it; ``line``: the 1-based line of
    ``file``, 0 for none. ``premise``: as in an ``Inconsistency``; if set, the finding is only a doubt. ``lasting``: the
    run would end the same way if it were repeated with the same settings."""

    rule: str
    text: str
    file: str
    line: int = 0
    premise: str = ""
    lasting: bool = False


class Judgement(Struct, frozen=True, array_like=True):
    """Judgement of a record's kept files by the current rules: ``findings`` prevent its cell from being ready,
    ``notes`` have no effect. ``unknown``: why the files could not be read and judged; ``missing``: the name of a file
    that is not here as recorded."""

    findings: tuple[LogFinding, ...] = ()
    notes: tuple[LogFinding, ...] = ()
    unknown: str = ""
    missing: str = ""


CODE_WRITTEN = "code.written"  # fact of a run: the files that it created in its code's folder
CODE_CHANGED = "code.changed"  # fact of a run that failed because its command's code changed during it


def find_written(record: Record) -> tuple[str, tuple[str, ...]] | None:
    """Find the files that a record's command created in its code folder: the folder's location, and their names."""
    fact = record.facts.get(CODE_WRITTEN)
    return (str(fact.value["location"]), tuple(map(str, fact.value["names"]))) if fact is not None else None


LATE_QUERIES = "queries over"  # unit of the margin that counts queries over the latency limit


def show_late_room(measured: object, limit: object) -> str:
    """Return "970 too many" or "2 to spare"; "" if either is no number. A percentage of a small count would say
    nothing."""
    over, allowed = parse_decimal(measured), parse_decimal(limit)
    if over is None or allowed is None:
        return ""
    left = allowed - over
    return f"{left:,} to spare" if left >= 0 else f"{-left:,} too many"


def show_margin(margin: Mapping[str, object]) -> str:
    """Return "p99 latency 12 ms, limit 15 ms (+20.0%)" or "early stopping 979 late queries, limit 9 (970 too many)"."""
    name, measured, limit, unit = (margin[part] for part in ("name", "measured", "limit", "unit"))
    if unit == LATE_QUERIES:
        shown, room = f"{name} {measured} late queries, limit {limit}", show_late_room(measured, limit)
    else:
        shown = f"{name} {measured} {unit}, limit {limit} {unit}"
        room = f"{margin['headroom']}%" if margin["headroom"] else ""
    return f"{shown} ({room})" if room else shown


def is_thin(headroom: float | Decimal) -> bool:
    """Return True for a latency limit that is met with less than two per cent of headroom, so that the next run may
    miss it."""
    return 0 <= headroom < 2


def is_latency_limit(name: str) -> bool:
    """Return True for the margin of a latency or, for language models, of TTFT or TPOT."""
    return name.endswith((" latency", " TTFT", " TPOT"))


class Summary(Struct, frozen=True, array_like=True):
    """Summary of a record for comparing, selecting and reporting, so that a warm pass opens no record file.

    ``validity`` is "VALID", "INVALID" or "" (no performance run). ``evidence``: sorted (name, canonical text) pairs.
    ``noted``: the same for facts that may differ and are reported (host, kernel). ``metric``: (value, unit) of a run or
    score. ``pins``: digests and versions of the record, by input name. ``by_speed``: True for a verdict that fails only
    because the two runs' speeds differ. ``inferred``: (scenario, value, unit) for other scenarios, derived from the
    run. ``efficiency``: (value, unit) of a run with power measurement. ``written``: (location, names) of files that a
    command created in its code folder. ``lasting``: True for an INVALID run that a repeat would not make VALID.
    ``margin``: (name, headroom in percent) of the one that decides: the worst that is not met, else the tightest of the
    latency limits. ``samples``: of a dataset, 0 if its maker does not count them. ``left_code``: digest of the
    code after a run that changed it.

    ``array_like`` omits the field names from the index, which every pass reads.
    """

    id: str
    address: Address
    key: str
    ended: Ended
    started: str
    seconds: float
    artifacts: tuple[Artifact, ...]
    validity: str = ""
    evidence: tuple[tuple[str, str], ...] = ()
    metric: tuple[str, str] | None = None
    pins: tuple[tuple[str, str], ...] = ()
    upstream: tuple[tuple[str, str], ...] = ()
    marks: tuple[str, ...] = ()
    problem: str = ""
    shared: tuple[Address, ...] = ()
    dirty: bool = False
    noted: tuple[tuple[str, str], ...] = ()
    by_speed: bool = False
    inferred: tuple[tuple[str, str, str], ...] = ()
    efficiency: tuple[str, str] | None = None
    written: tuple[str, tuple[str, ...]] | None = None
    lasting: bool = False
    margin: tuple[str, str] | None = None
    samples: int = 0
    left_code: str = ""

    def find_metric(self, scenario: str) -> tuple[str, str] | None:
        """Find the metric of a run for a cell of this scenario; it may be inferred from the run's own metric."""
        own = self.address.cell
        if own is None or own.scenario == scenario:
            return self.metric
        return next(((value, unit) for name, value, unit in self.inferred if name == scenario), None)


class Recorded(Struct, frozen=True):
    """All records of a repository, by key and by address, oldest first."""

    by_key: Mapping[str, tuple[Summary, ...]] = field(default_factory=dict)
    by_address: Mapping[Address, tuple[Summary, ...]] = field(default_factory=dict)
    digest: str = ""

    def find_written(self) -> dict[str, set[str]]:
        """Map the location of each command's code to the files that commands created there, which are not code."""
        found: dict[str, set[str]] = {}
        for summaries in self.by_address.values():
            for location, names in (summary.written for summary in summaries if summary.written):
                found.setdefault(location, set()).update(names)
        return found

    def find_self_changed(self, address: Address, code: str) -> Summary | None:
        """Find the last run at an address if a repeat would only change its own code again: the run did so, so did
        another run before or after it, and ``code`` is the digest of the code that one of them left."""
        last = self.by_address.get(address, ())[-1:]
        if not (last and last[0].left_code):
            return None
        changed = [s for summaries in self.by_address.values() for s in summaries if s.left_code]
        before, left = {dict(s.pins).get(CODE) for s in changed}, {s.left_code for s in changed}
        again = last[0].left_code in before or dict(last[0].pins).get(CODE) in left
        return last[0] if again and code in left else None

    def list_done(self, key: str) -> tuple[Summary, ...]:
        found = self.by_key.get(key, ())
        for summary in found:
            if summary.ended is not Ended.DONE:
                return tuple([s for s in found if s.ended is Ended.DONE])
        return found
