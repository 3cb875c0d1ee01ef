"""The watts of a power session against what the analyzer's daemon counted of them: before the kit stops a phase it asks
for the mean, the least and the most of the samples so far, and the director keeps the answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.mlperf.documents import ResultDocument
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.files import LOG_LIMIT
from reconciler.tree.reading.view import CellView
from reconciler.tree.verify.power import find_key, read_session

_FOLDERS = {"ranging": "ranging", "testing": "run_1"}  # by the phase that ends the mark of its samples
_ANSWER = re.compile(r"Watts,(\d{1,9}\.\d+),(\d{1,9}\.\d+),(\d{1,9}\.\d+),(\d{1,9}),(\d{1,9}),(\d{1,9})", re.ASCII)
_SAMPLE = re.compile(rb"^Time,[^,\n]{1,40},Watts,(-?\d{1,9}(?:\.\d{1,9})?),", re.MULTILINE)
_NEAR = 1e-5  # of a mean: six digits after the point are printed
# The last lines may be missing, which the daemon had not written yet when the kit copied its log.
_SENT = re.compile(rb"Response to client sent: (Watts,[\d.]{1,20}(?:,[\d.]{1,20}){5})\r?$", re.MULTILINE)
_DAEMON = "ptd_logs.txt"


class _Counted(Struct, frozen=True):
    """One answer: watts over ``total`` samples from the first on, of which ``valid`` were above 0. ``text``: as it
    stands in the file."""

    text: str
    mean: float
    least: float
    most: float
    total: int
    valid: int


def verify_watts(view: CellView) -> Complaints:
    """Each answer is of the samples that are published, and the daemon's own log has no other."""
    _, server = view.once(read_session)
    if server.value is None:
        return
    performance, place = view.files.results / "performance", find_key(server, "ptd_messages")
    answers = list(_list_answers(server.value))
    for phase, counted in answers:
        path = f"{_FOLDERS[phase]}/spl.txt"
        data = view.files.content(performance, path, LOG_LIMIT)
        said = _deny(_read_watts(data, counted.total), counted) if data else None
        if said is not None:
            found, wanted, severity = said
            yield Complaint(
                Place(f"{performance.shown}/{path}"),
                found,
                f"{wanted}, as the analyzer's daemon counted",
                cause="samples that were edited, or of another session",
                other=place,
                severity=severity,
            )
    if not any(phase == "testing" for phase, _ in answers):
        yield Complaint(
            Place(server.file),
            "no answer of what the analyzer measured",
            "those that the kit asks for before it stops a phase",
            cause="a session of another kit, or messages that were taken out",
            severity=Severity.WARNING,
        )
    log = view.files.content(performance / "power", _DAEMON, LOG_LIMIT)
    given = Counter(counted.text.encode() for _, counted in answers)
    strange = list(Counter(_SENT.findall(log or b"")) - given) if answers else []
    if strange:
        yield Complaint(
            Place(f"{performance.shown}/power/{_DAEMON}"),
            f"the answer {strange[0].decode()}",
            "those alone that the director was given",
            cause="answers that were edited, or of another session",
            other=place,
        )


def _list_answers(session: ResultDocument) -> Iterator[tuple[str, _Counted]]:
    """With the phase whose samples it is of."""
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


def _read_watts(data: bytes, total: int) -> list[float]:
    return [float(watts) for watts in _SAMPLE.findall(data)[:total]]


def _deny(samples: list[float], counted: _Counted) -> tuple[str, str, Severity | None] | None:
    """What was found, what was wanted, how bad it is; samples at or below 0 W are not valid to the daemon."""
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


WATTS_CONTRADICTIONS = ((Rule("power.watts", "watts that the analyzer counted", ("power kit", OURS)), verify_watts),)
