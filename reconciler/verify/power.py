"""Compare a power session with the files that it measured. The kit's client and director list the SHA-1 of each
file."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from reconciler.check.demands import OURS, Complaints, ask_repeated
from reconciler.loadgen import keys
from reconciler.resource.quantities import is_whole
from reconciler.resource.rules import Premise, Severity, applies, rule
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import read_end, read_start
from reconciler.tree.reading.view import CellView
from reconciler.verify.premises import FILE_IS_WHOLE

_CLIENT, _SERVER = "client.json", "server.json"
_LISTED = re.compile(r"(?:run_1|ranging|power)/[\w.-]{1,80}")
_IDENTITIES = ("session_name", "uuid")
_NAME = "spl.txt"
DAEMON_LOG = "ptd_logs.txt"
_MOST_OTHERS = 3  # sessions of a system to read; each takes megabytes
_SAMPLES = f"run_1/{_NAME}"  # the analyzer's samples, in watts
# Match to the end of the line, so that the next match is tried only at a line's start.
_SAMPLED = re.compile(rb"^Time,(\d\d-\d\d-\d{4} \d\d:\d\d)[^\n]*+\n?", re.MULTILINE)
_MINUTE = timedelta(minutes=1)
_MOST_MINUTES = 100_000
_PHASE = re.compile(r"session,[^,]{1,200},(start|stop),testing")
_DELAY = 2.0  # seconds between a message and the run that it begins or ends, for clocks in two time zones
_CLOCKS = 60.0  # allowed difference in seconds between the clocks of LoadGen's machine and the kit's
_DAY = 86_400  # seconds
_FIRST, _LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LATEST = _LAST.timestamp()
# Possible differences of local time from UTC: by half hours, and in three places by quarters.
_ZONES = tuple(
    timedelta(minutes=sign * by) for by in sorted((*range(30, 14 * 60 + 1, 30), 345, 525, 765)) for sign in (1, -1)
)
_MARK = re.compile(rb",Mark,([^,\r\n]*+)")  # the session and phase of a sample


@rule(
    "power.session",
    "files of different power sessions",
    sources=("power kit", OURS),
    cause="power-of-another-session",
    premises=(
        FILE_IS_WHOLE,
        Premise("This copy has the session's other large files, if a listed one is missing."),
    ),
)
def verify_sessions(view: CellView) -> Complaints:
    """Client and director state different session names or identities, do not list the logs and samples, or listed
    files are missing; in all 55 sessions of v4.1 and v5.1 they agree. Or samples have the mark of another session or
    phase, as in none of these and of 2,474 sessions of v2.1. If both the samples and the analyzer's log are missing, it
    is a question, because large files may have been left out."""
    client, server = view.compute_once(read_session)
    if view.files.measures_power:
        for read in (client, server):
            if read.value is None:
                found = read.problem or "no such file"
                yield Complaint(Place(read.file, read.line), found, "the client's and director's files of the session")
    if client.value is None or server.value is None:
        return
    for name in _IDENTITIES:
        if client.value.get(name) != server.value.get(name):
            yield Complaint(
                find_key(server, name),
                f"another {name} than {_CLIENT}",
                "the same session for client and director",
                cause="a file of another session",
                other=find_key(client, name),
            )
            return
    if _SAMPLES not in dict(_list_digests(server.value)) or not dict(_list_digests(client.value)):
        yield Complaint(
            find_key(server, "results"),
            f"{_SAMPLES} or the logs are not listed",
            "the SHA-1 of each file of the session",
            cause="an incomplete session, or an edited file",
            other=find_key(client, "results"),
        )
    else:
        yield from _deny_samples(view, server)


def _deny_samples(view: CellView, server: Read[ResultDocument]) -> Complaints:
    """Check that the samples exist and are marked with their session."""
    performance = view.files.performance_folder
    place = Place(f"{performance.shown}/{_SAMPLES}")
    if (performance / "run_1").get_size(_NAME) is None:
        large = (performance / "ranging").get_size(_NAME) or (performance / "power").get_size(DAEMON_LOG)
        yield Complaint(
            place,
            "no samples",
            "the samples that the session lists",
            cause="a missing file",
            other=find_key(server, "results"),
            doubt="" if large else "this copy has none of the session's large files, so they may have been left out",
        )
        return
    name = server.value.get("session_name") if server.value is not None else None
    data = view.files.read_content(performance, _SAMPLES)
    if not data or not isinstance(name, str):
        return
    own = f"{name}_testing".encode(errors="replace")
    if data.count(b",Mark,") == data.count(b",Mark,%b," % own):
        return
    marks = _MARK.findall(data)
    others = len(marks) - marks.count(own)
    if others:
        yield Complaint(
            place,
            f"{others} of {len(marks)} samples have another mark",
            f"samples of {name}_testing",
            cause="samples of another session or phase",
            other=find_key(server, "session_name"),
        )


@applies(ask_repeated.rule)
def verify_stated_once(view: CellView) -> Complaints:
    for read in view.compute_once(read_session):
        yield from ask_repeated(read)


@rule(
    "power.digests",
    "a file that differs from its digest in the power session",
    sources=("power kit", OURS),
    cause="power-of-another-session",
    premises=(FILE_IS_WHOLE, Premise("The file's bytes are unchanged, including its line ends.")),
)
def verify_digests(view: CellView) -> Complaints:
    """The kit's client and director list the SHA-1 of each file of a session. All 489 published files of the 55
    sessions of v4.1 and v5.1, including the open division, match. Files that are not in the tree are skipped, and line
    ends may be those of another system. Each file has one kind of line end, except the log of the analyzer's daemon,
    which has both. Git may have unified these, so its bytes are certainly unchanged only if it still has both kinds, or
    if another file of the session still matches its digest with line ends that git would have changed."""
    for read, name, digest, data in _read_listed(view):
        if digest.lower() not in _hash_all(data):
            normalised = name.endswith(f"/{DAEMON_LOG}") and not _are_ends_kept(view, data)
            yield Complaint(
                Place(f"{view.files.performance_folder.shown}/{name}"),
                f"SHA-1 {_hash(data)[:12]}…",
                f"{digest[:12]}…, as listed by the session",
                cause="" if normalised else "a file of another session, or an edited one",
                other=find_key(read, name),
                doubt=_ENDS_ARE_LOST if normalised else "",
            )


def _read_listed(view: CellView) -> Iterator[tuple[Read[ResultDocument], str, str, bytes]]:
    """Read the files that the session lists: the listing document, the name, the listed digest, and the bytes."""
    for read in view.compute_once(read_session):
        for name, digest in _list_digests(read.value) if read.value is not None else ():
            data = view.files.read_content(view.files.performance_folder, name)
            if data is not None:
                yield read, name, digest, data


_ENDS_ARE_LOST = "it had two kinds of line ends, which git may have unified"


def _are_ends_kept(view: CellView, data: bytes) -> bool:
    """Return True if git left the file unchanged: it has both kinds of line ends; or another file of the session has
    Windows line ends and matches its digest; or the daemon's log of another session of the system matches with one kind
    of line end, since the daemon writes all its logs alike."""
    if 0 < data.count(b"\r\n") < data.count(b"\n"):
        return True
    listed = _read_listed(view)
    if any(b"\r\n" in other and _hash(other) == digest.lower() for _, _, digest, other in listed):
        return True
    return any(_has_digest(view, folder) for folder in _list_other_sessions(view))


def _list_other_sessions(view: CellView) -> Iterator[Folder]:
    cell, top = view.cell, view.files.submitter
    system, own = f"results/{cell.system}", view.files.performance_folder / "power"
    results = Folder(f"{top.path}/{system}", f"{top.shown}/{system}")
    sessions = (
        results / benchmark / name / "performance/power"
        for benchmark in results.list_folders()
        for name in (results / benchmark).list_folders()
    )
    others = (folder for folder in sessions if folder.shown != own.shown and folder.get_size(DAEMON_LOG))
    return itertools.islice(others, _MOST_OTHERS)


def _has_digest(view: CellView, folder: Folder) -> bool:
    """Return True if the daemon's log in a session's folder matches the digest that the session listed."""
    read = view.files.read_document(folder, _SERVER)
    listed = dict(_list_digests(read.value)) if read.value is not None else {}
    data = view.files.read_content(folder, DAEMON_LOG)
    return data is not None and _hash(data) == listed.get(f"power/{DAEMON_LOG}", "").lower()


@rule(
    "power.times",
    "no power samples during the run",
    sources=("power checker", OURS),
    cause="power-of-another-session",
    premises=(Premise("The clocks of the analyzer and of LoadGen are in the same time zone."),),
)
def verify_times(view: CellView) -> Complaints:
    """``spl.txt`` has a sample in each whole minute of the published run, in UTC or with the offset that the session
    states. No sample at all is an error, and the official checker also rejects it. Some minutes without samples are a
    warning, because an analyzer may pause. All 54 sessions of v4.1 and v5.1 with a detail log have one sample every 1.1
    s from before the run until after its end. If samples match the run in another time zone, it is a question."""
    read = view.files.performance.detail
    began, ended = (read_start(read.value), read_end(read.value)) if read.value else (None, None)
    data = view.files.read_content(view.files.performance_folder, _SAMPLES) if view.files.measures_power else None
    if read.value is None or began is None or ended is None or not data or not _FIRST <= began <= ended <= _LAST:
        return
    sampled = frozenset(_SAMPLED.findall(data))
    none, missing = min(_find_missing(sampled, began + by, ended + by) for by in _list_offsets(view))
    if none or missing:
        shift = _find_zone(lambda by: _find_missing(sampled, began + by, ended + by) == (False, 0)) if none else None
        yield Complaint(
            Place(f"{view.files.performance_folder.shown}/{_SAMPLES}"),
            "no sample of the run" if none else f"no sample in {missing} minutes of the run",
            f"samples from {read.value.get('power_begin')} to {read.value.get('power_end')}",
            cause="samples of another session" if none else "lost or removed samples",
            other=Place(read.file, read.value.find_line_number(keys.POWER_BEGIN)),
            severity=None if none else Severity.WARNING,
            doubt=_show_zone(shift) if shift is not None else "",
        )


def _find_zone(fits: Callable[[timedelta], bool]) -> timedelta | None:
    """Find the shift between time zones with which two clocks agree; None if there is none."""
    return next((by for by in _ZONES if fits(by)), None)


def _show_zone(shift: timedelta) -> str:
    return f"the clocks may be in different time zones: they agree with a shift of {shift.total_seconds() / 3600:g} h"


@rule(
    "power.phases",
    "a power session of another run",
    sources=("power kit", OURS),
    cause="power-of-another-session",
    premises=(Premise("Both clocks are in the same time zone, since the kit synchronises them before a session."),),
)
def verify_phases(view: CellView) -> Complaints:
    """Client and director record the time of each message. LoadGen's run begins after the director has started the
    measured phase and ends before the client stops it. The clocks may differ by a minute. This is true for all 54
    sessions of v4.1 and v5.1 with a detail log, and for 2,474 of v2.1, the closest within 0.1 s. If the phase matches
    the run in another time zone, it is a question."""
    read = view.files.performance.detail
    began, ended = (read_start(read.value), read_end(read.value)) if read.value else (None, None)
    if read.value is None or began is None or ended is None:
        return
    sides = [(side, _read_phase(side.value)) for side in view.compute_once(read_session) if side.value is not None]
    phases = [phase for _, phase in sides if phase is not None]
    for side, phase in sides:
        if phase is None or _is_within(phase, began, ended, _CLOCKS):
            continue
        shift = _find_zone(lambda by: all(_is_within(each, began, ended, _DELAY, by) for each in phases))
        first, last = (f"{datetime.fromtimestamp(at, UTC):%m-%d-%Y %H:%M:%S}" for at in phase)
        yield Complaint(
            find_key(side, "messages"),
            f"a measured phase from {first} to {last}",
            f"a phase around the run from {read.value.get('power_begin')} to {read.value.get('power_end')}",
            cause="a session of another run, or changed dates",
            other=Place(read.file, read.value.find_line_number(keys.POWER_BEGIN)),
            doubt=_show_zone(shift) if shift is not None else "",
        )
        return


def _is_within(
    phase: tuple[float, float], began: datetime, ended: datetime, apart: float, by: timedelta = timedelta()
) -> bool:
    """Return True if a run is within a phase, with clocks up to ``apart`` seconds and time zones ``by`` apart."""
    return phase[0] - apart <= (began + by).timestamp() and (ended + by).timestamp() <= phase[1] + apart


def _read_phase(session: ResultDocument) -> tuple[float, float] | None:
    """Return the start and end in seconds since 1970; None if the session does not state them."""
    times: dict[str, float] = {}
    messages = session.get("messages")
    for message in messages if isinstance(messages, list) else ():
        found = _PHASE.fullmatch(str(message.get("cmd"))) if isinstance(message, Mapping) else None
        if found:
            time = message.get("reply_time" if found[1] == "start" else "cmd_time")
            if isinstance(time, (int, float, Decimal)) and not isinstance(time, bool) and 0 <= time < _LATEST:
                times[found[1]] = float(time)
    return (times["start"], times["stop"]) if len(times) == 2 else None


def _find_missing(sampled: frozenset[bytes], began: datetime, ended: datetime) -> tuple[bool, int]:
    """Return whether a run has no samples, and in how many of its whole minutes there is none."""
    first, last = began.replace(second=0, microsecond=0), ended.replace(second=0, microsecond=0)
    count = min(_MOST_MINUTES, (last - first) // _MINUTE)
    whole = [f"{first + at * _MINUTE:%m-%d-%Y %H:%M}".encode() for at in range(1, count)]
    ends = (f"{first:%m-%d-%Y %H:%M}".encode(), f"{last:%m-%d-%Y %H:%M}".encode())
    return sampled.isdisjoint((*ends, *whole)), sum(minute not in sampled for minute in whole)


def _list_offsets(view: CellView) -> list[timedelta]:
    stated = (read.value.get("timezone") for read in view.compute_once(read_session) if read.value is not None)
    seconds = [by for by in stated if is_whole(by) and abs(by) <= _DAY]
    return [timedelta(seconds=by) for by in (0, *seconds, *(-by for by in seconds))]


def read_session(view: CellView) -> tuple[Read[ResultDocument], Read[ResultDocument]]:
    """Read the client's and the director's sessions; absent if no power was measured."""
    folder = view.files.performance_folder / "power"
    if not view.files.measures_power:
        return Read(folder.shown), Read(folder.shown)
    return view.files.read_document(folder, _CLIENT), view.files.read_document(folder, _SERVER)


def find_key(read: Read[ResultDocument], key: str) -> Place:
    """Find the first place of a name in a document, which must exist."""
    assert read.value is not None
    return Place(read.file, read.value.lines.get(key, 0))


def _list_digests(session: ResultDocument) -> Iterator[tuple[str, str]]:
    """Yield (path below performance/, SHA-1) for the files of one run. A director on Windows writes backslashes."""
    listed = session.get("results")
    for name, digest in listed.items() if isinstance(listed, Mapping) else ():
        path = str(name).replace("\\", "/")
        if _LISTED.fullmatch(path) and isinstance(digest, str):
            yield path, digest


def _hash_all(data: bytes) -> Iterator[str]:
    """Yield the possible hashes of a file, each computed only if the previous one does not match."""
    yield _hash(data)
    plain = data.replace(b"\r\n", b"\n")
    yield _hash(plain)
    yield _hash(plain.replace(b"\n", b"\r\n"))


def _hash(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


POWER_CONTRADICTIONS = (verify_sessions, verify_stated_once, verify_digests, verify_phases, verify_times)
