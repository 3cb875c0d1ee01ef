"""Compare a power session's watts with the analyzer daemon's statistics and with the other measured values.

Before the kit stops a phase, it requests the mean, minimum and maximum of the samples so far, and the director records
the answers. The analyzer measures watts, volts, amperes and power factor in one interval, with the factor P / (U * I).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import mul

import msgspec
from msgspec import Struct

from reconciler.check.demands import OURS, Complaints
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.view import CellView
from reconciler.verify.power import DAEMON_LOG, find_key, read_session
from reconciler.verify.premises import FILE_IS_WHOLE

_FOLDERS = {"ranging": "ranging", "testing": "run_1"}  # by the phase at the end of a sample's mark
_ANSWER = re.compile(r"Watts,(\d{1,9}\.\d+),(\d{1,9}\.\d+),(\d{1,9}\.\d+),(\d{1,9}),(\d{1,9}),(\d{1,9})", re.ASCII)
# Match to the end of the line, so that the next match is tried only at a line's start.
_SAMPLE = re.compile(rb"^Time,[^,\n]{1,40}+,Watts,(-?\d{1,9}+(?:\.\d{1,9}+)?+),[^\n]*+\n?", re.MULTILINE)
_CACHE_LIMIT = 4 << 20  # bytes of samples that are cached; a run of hours has one or two megabytes
_NEAR = 1e-5  # for a mean that is printed with six decimals
_NUMBER = rb"(-?+[0-9]{1,9}+(?:\.[0-9]{1,9}+|))"
_NUMBERS = msgspec.json.Decoder(list[float])
_WATTS = b",Watts,"
_VALUES = rb",Watts,%b,Volts,%b,Amps,%b,PF,%b" % ((_NUMBER,) * 4)
_MOST_CHANNELS, _IDLE = 16, (0.0,) * 4  # no analyzer has more than 7 channels
_SEVERAL = b",Analyzer"  # the kit adds up several analyzers' samples; those of a single one need not have channels
# Over all samples, none of 110 published files is off by more than 0.001; single samples are off by 0.003.
_PRODUCT_NEAR = 0.01
# The last lines may be missing if the daemon had not written them when the kit copied its log.
_SENT = re.compile(rb"Response to client sent: (Watts,[\d.]{1,20}(?:,[\d.]{1,20}){5})\r?$", re.MULTILINE)
# LoadGen's release from which the kit is known to request statistics. The kit of v3.0 did not, and none of the 2,475
# published sessions of v2.1 has an answer.
_FIRST_ASKED = 4


class _Counted(Struct, frozen=True):
    """An answer of the daemon: watts of the first ``total`` samples, of which ``valid`` were above 0. ``text``: as in
    the file."""

    text: str
    mean: float
    least: float
    most: float
    total: int
    valid: int


class Samples(Struct, frozen=True):
    """The samples of a file. ``watts``: of each sample, None if the number of channels varies; ``denied``: found and
    expected text if watts do not match their volts, amperes and power factor."""

    watts: list[float] | None
    denied: tuple[tuple[str, str], ...]


_SAMPLES_ARE_OF_SESSION = Premise("The samples and the answers come from the same session.")


@rule(
    "power.watts",
    "watts that contradict the analyzer's statistics",
    sources=("power kit", OURS),
    cause="power-of-another-session",
    premises=(FILE_IS_WHOLE, _SAMPLES_ARE_OF_SESSION),
)
def verify_watts(view: CellView) -> Complaints:
    """Before the kit stops a phase, it requests the mean, minimum and maximum of the samples so far from the analyzer's
    daemon, and the director records the answer. All 165 answers of the 55 sessions of v4.1 and v5.1 match the published
    ``spl.txt`` to the last digit, if samples at or below 0 W are left out, as the daemon does. A different number of
    samples is a warning, and so, from v4.0 on, is a session without any answer: earlier kits did not request them, and
    none of the 2,475 sessions of v2.1 has one. The daemon's own log has only answers that the director received; its
    last lines may be missing, as in four sessions."""
    _, server = view.compute_once(read_session)
    if server.value is None:
        return
    performance, place = view.files.performance_folder, find_key(server, "ptd_messages")
    answers = list(_list_answers(server.value))
    for phase, counted in answers:
        path = f"{_FOLDERS[phase]}/spl.txt"
        data = view.files.read_content(performance, path)
        samples = view.compute_once(_read_samples).get(path)
        watts = (samples.watts if samples else None) or (read_watts(data) if data else [])
        if data and (said := _deny(watts[: counted.total], counted)):
            found, wanted, severity = said
            yield Complaint(
                Place(f"{performance.shown}/{path}"),
                found,
                f"{wanted}, according to the analyzer's daemon",
                cause="edited samples, or samples of another session",
                other=place,
                severity=severity,
            )
    if _requests_statistics(view) and not any(phase == "testing" for phase, _ in answers):
        yield Complaint(
            Place(server.file),
            "no answer with the analyzer's statistics",
            "answers to the kit's requests before it stops a phase",
            cause="a session of another kit, or removed messages",
            severity=Severity.WARNING,
        )
    log = view.files.read_content(performance / "power", DAEMON_LOG)
    given = Counter(counted.text.encode() for _, counted in answers)
    unexpected = list(Counter(_SENT.findall(log or b"")) - given) if answers else []
    if unexpected:
        yield Complaint(
            Place(f"{performance.shown}/power/{DAEMON_LOG}"),
            f"the answer {unexpected[0].decode()}",
            "only answers that the director received",
            cause="edited answers, or answers of another session",
            other=place,
        )


def _requests_statistics(view: CellView) -> bool:
    """Return True if the power kit of that release requests statistics from the daemon."""
    run = view.performance
    return run is None or not run.log.version or run.log.release >= _FIRST_ASKED


@rule(
    "power.products",
    "watts that contradict their volts and amperes",
    sources=("power kit", OURS),
    cause="power-of-another-session",
    premises=(FILE_IS_WHOLE, Premise("One analyzer measured all four values of a sample in one interval.")),
)
def verify_products(view: CellView) -> Complaints:
    """An analyzer measures watts, volts, amperes and power factor in one interval, and reports the factor as P / (U *
    I). Over all valid samples of a file, the watts are within 1 % of the product, and total watts are within 1 % of the
    sum of the channels. None of the 110 published files of v4.1 and v5.1 is off by more than 0.1 %; single samples of
    single channels are off by 0.3 %. Samples that the kit added up from several analyzers are skipped.
    """
    for path, samples in view.compute_once(_read_samples).items():
        for found, wanted in samples.denied:
            cause = "edited watts, or watts scaled differently than amperes"
            yield Complaint(Place(f"{view.files.performance_folder.shown}/{path}"), found, wanted, cause=cause)


def _read_samples(view: CellView) -> dict[str, Samples]:
    """Read the samples by the path of their file, once for both rules."""
    found = {}
    for folder in _FOLDERS.values() if view.files.measures_power else ():
        path = f"{folder}/spl.txt"
        data = view.files.read_content(view.files.performance_folder, path)
        if data and _SEVERAL not in data:
            found[path] = read_samples(data)
    return found


def read_samples(data: bytes) -> Samples:
    return _read_lately(data) if len(data) <= _CACHE_LIMIT else _read_all(data)


def _read_all(data: bytes) -> Samples:
    stated = added = product = 0.0
    kinds, all_alike = _list_samples(data)
    watts = None
    for samples in kinds:
        columns = [_read_numbers(column) for column in zip(*samples, strict=True)]
        watts = columns[0] if all_alike else None
        if columns and min(map(min, columns)) <= 0:
            rows = (row if min(row) > 0 else _choose_valid(row) for row in zip(*columns, strict=True))
            columns = [list(column) for column in zip(*filter(None, rows), strict=True)]
        if columns:
            parts = columns[4:] or columns
            stated += sum(columns[0])
            added += sum(map(sum, parts[::4]))
            for volts, amps, factors in zip(parts[1::4], parts[2::4], parts[3::4], strict=True):
                product += sum(map(mul, map(mul, volts, amps), factors))
    denied = []
    if abs(stated - added) > added * _PRODUCT_NEAR:
        denied.append((f"{stated / added:.3g} times the watts of the channels", "their sum"))
    if abs(added - product) > product * _PRODUCT_NEAR:
        denied.append((f"{added / product:.3g} times the product of volts, amperes and power factor", "their product"))
    return Samples(watts, tuple(denied))


# Variants of a benchmark may publish identical samples.
_read_lately = functools.lru_cache(maxsize=4)(_read_all)


def _list_samples(data: bytes) -> tuple[Iterable[list[tuple[bytes, ...]]], bool]:
    """List the samples by their number of channels, smallest first. Also return whether all have as many as the first
    one, which is usual."""
    channels = data.partition(b"\n")[0].count(_WATTS) - 1
    samples = _compile_sample(channels).findall(data) if 0 <= channels <= _MOST_CHANNELS else []
    if samples and len(samples) * (channels + 1) == data.count(_WATTS) and b"\r" not in data:
        return (samples,), True
    counts = {line.count(_WATTS) for line in data.splitlines()}
    known = sorted(count for count in counts if 0 < count <= _MOST_CHANNELS + 1)
    return (_compile_sample(count - 1).findall(data) for count in known), False


def _read_numbers(texts: tuple[bytes, ...]) -> list[float]:
    try:
        return _NUMBERS.decode(b"[%b]" % b",".join(texts))
    except msgspec.MsgspecError:  # a leading zero, which JSON does not allow
        return list(map(float, texts))


@functools.lru_cache
def _compile_sample(channels: int) -> re.Pattern[bytes]:
    """Build a pattern for a line with this number of channels. Its groups are the four values of the total and of each
    channel."""
    each = rb"(?>(?:,Mark,[^,\n]*+)?+,Ch\d{1,2}|[^\n]*?,Ch\d{1,2})" + _VALUES  # the first is a faster case of the other
    return re.compile(rb"^Time,[^,\n]{1,40}+" + _VALUES + each * channels + rb"(?![^\n]*,Watts,)", re.MULTILINE)


def _choose_valid(sample: tuple[float, ...]) -> tuple[float, ...]:
    """Return the sample with zeros for channels that measured nothing; () if another value is invalid or no channel
    measured anything."""
    parts = [sample[at : at + 4] for at in range(0, len(sample), 4)]
    whole, channels = parts[0], parts[1:] or parts
    measured = [part for part in channels if part[0] > 0]
    if not measured or whole[0] <= 0 or min(map(min, measured)) <= 0:
        return ()
    return (*whole, *(value for part in parts[1:] for value in (part if part[0] > 0 else _IDLE)))


def _list_answers(session: ResultDocument) -> Iterator[tuple[str, _Counted]]:
    """Yield each answer with the phase of its samples."""
    messages, phase = session.get("ptd_messages"), ""
    for message in messages if isinstance(messages, list) else ():
        asked, answer = (
            (str(message.get(name)) for name in ("cmd", "reply")) if isinstance(message, Mapping) else ("", "")
        )
        if asked.startswith("Go,"):
            phase = asked.rpartition("_")[2]
        elif asked == "Watts" and phase in _FOLDERS and (found := _ANSWER.fullmatch(answer)):
            mean, least, most = (float(part) for part in found.groups()[:3])
            yield phase, _Counted(answer, mean, least, most, total=int(found[4]), valid=int(found[6]))


def read_watts(data: bytes) -> list[float]:
    """Read the watts of all samples, ignoring the rest of the lines."""
    return [float(watts) for watts in _SAMPLE.findall(data)]


def _deny(samples: list[float], counted: _Counted) -> tuple[str, str, Severity | None] | None:
    """Return the found and expected text and the severity. The daemon treats samples at or below 0 W as invalid."""
    valid = [watts for watts in samples if watts > 0]
    if (len(samples), len(valid)) != (counted.total, counted.valid):
        found = f"{len(samples)} samples, {len(valid)} of them above 0 W"
        return found, f"{counted.total} and {counted.valid}", Severity.WARNING
    if not valid:
        return None
    mean = sum(valid) / len(valid)
    if abs(mean - counted.mean) > counted.mean * _NEAR:
        return f"a mean of {mean:.6g} W over {counted.total} samples", f"{counted.mean:.6g} W", None
    ends = ("least", min(valid), counted.least), ("most", max(valid), counted.most)
    for name, found_end, wanted in ends:
        if abs(found_end - wanted) > wanted * _NEAR:
            return f"at {name} {found_end:.6g} W in {counted.total} samples", f"{wanted:.6g} W", None
    return None


WATTS_CONTRADICTIONS = (verify_watts, verify_products)
