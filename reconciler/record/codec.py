"""Convert records to bytes and back; the file format and its upgrades.

The bytes are canonical (sorted keys, fixed indentation): the same outcome always has the same id, so that harvesting
one attempt twice writes one record.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import msgspec

from reconciler.errors import RecordError
from reconciler.resource.codec import encode_canonical, make_versioned, read_document
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.quantities import parse_decimal, read_count
from reconciler.resource.records import (
    CODE_CHANGED,
    FORMAT,
    LATE_QUERIES,
    REDUNDANT_LOGS,
    Ended,
    Record,
    Summary,
    find_written,
    is_latency_limit,
    show_margin,
)
from reconciler.resource.settings import CLIENT_SOURCES
from reconciler.storage.files import hash_bytes
from reconciler.storage.json_files import parse_json

# Limits of a record's outcome. Records may come from any branch. A value of the wrong type, or larger than anything
# measured, would crash every command that shows it, so such a record counts as damaged.

_LONGEST = 1e9  # seconds, thirty years
_LARGEST = 1 << 62  # bytes
_KEYED = frozenset((str, int, bool, type(None)))
_MOST = 40  # powers of ten on either side of 1: no rate, latency or power is beyond


class _Measured(msgspec.Struct):
    value: str
    unit: str


class _Margin(msgspec.Struct):
    name: str
    measured: str
    limit: str
    unit: str
    met: bool
    headroom: str


class _Suggestion(msgspec.Struct):
    setting: str
    value: str
    unit: str
    why: str


class _Bar(msgspec.Struct):
    metric: str
    measured: str
    met: bool
    least: str | None = None
    most: str | None = None


class _Power(msgspec.Struct):
    efficiency: _Measured | None = None


class _Imported(msgspec.Struct):
    declared: dict[str, Any] = {}


class _Values(msgspec.Struct):
    """The values that are shown or compared; the rest of a record is never read."""

    validity: str = ""
    reasons: list[str] = []
    metric: _Measured | None = None
    margins: list[_Margin] = []
    suggestion: _Suggestion | None = None
    bars: list[_Bar] = []
    accuracy_met: bool = True
    passed: bool = True
    figures: dict[str, Any] = {}
    power: _Power | None = None
    inferred: dict[str, _Measured] = {}
    imported: _Imported | None = None


def check_plausible(record: Record) -> None:
    """Raise ValueError for values that no pass would record."""
    if not (math.isfinite(record.seconds) and 0 <= record.seconds < _LONGEST):
        raise ValueError("seconds is not a duration")
    for item in record.artifacts:
        if not 0 <= item.size < _LARGEST:
            raise ValueError("an artifact has no size")
    for name, given in record.inputs.items():
        if type(given.value) not in _KEYED and not _is_keyed(given.value):
            raise ValueError(f"input {name!r} has a value of an unsupported type")
    if not record.values:  # as for built resources and accuracy runs
        return
    for name, text in _list_numbers(msgspec.convert(record.values, _Values)):
        number = parse_decimal(text)
        if number is None or (number and abs(number.adjusted()) > _MOST):
            raise ValueError(f"{name} is {text[:40]!r}, not a number")


def _is_keyed(value: Any) -> bool:
    """Return True for text, integers, booleans, and containers of them."""
    if type(value) in _KEYED:
        return True
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, (list, tuple, dict)) and all(map(_is_keyed, parts))


def _list_numbers(values: _Values) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each number that people are shown. An empty text is not a number."""
    measured = (values.metric, values.power.efficiency if values.power else None, *values.inferred.values())
    found = [("value", item.value) for item in measured if item is not None]
    for margin in values.margins:
        found += [(name, getattr(margin, name)) for name in ("measured", "limit", "headroom")]
    for bar in values.bars:
        found += [(name, getattr(bar, name) or "") for name in ("measured", "least", "most")]
    if values.suggestion is not None:
        found.append(("suggestion", values.suggestion.value))
    yield from (item for item in found if item[1])


# format → a pure function that converts its documents to the next format.
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_REQUIRED = frozenset(Record.__struct_fields__) - Record.LEFT_OUT

# Inputs that a later pass takes from the record if this machine does not have them.
_PINS = ("source", "version", "engine.backend", "benchmark.code")
_COMMAND_PINS = (
    *(f"harness.{part}{name}" for part in ("", "service.", "build.") for name in ("code.sha256", "config.")),
    *(f"{source}.sha256" for source in CLIENT_SOURCES),
)


def encode(record: Record) -> bytes:
    return encode_canonical(make_versioned(FORMAT, record)) + b"\n"


def make_record_id(address: Address, key: str, data: bytes) -> str:
    """Return ``Run/3f2c1ab09d11-<20 hex of the digest of the bytes>``, which is also the path below ``state/records``
    without ``.json``."""
    return compose_record_id(address, key, hash_bytes(data))


def compose_record_id(address: Address, key: str, sha256: str) -> str:
    """Return the id of a record whose digest is known."""
    return f"{address.kind}/{key[:12]}-{sha256[:20]}"


def decode(data: bytes, where: str) -> Record:
    """Decode a record. Raises RecordError if the bytes are not a record of a known format."""
    try:
        document = parse_json(data)
        if b"\\ud" in data:  # possibly half a character, which no file can contain
            encode_canonical(document)
        version = document["format"]
        while version in UPGRADES:
            document = UPGRADES[version](document)
            version = document["format"]
        if version != FORMAT:
            problem = f"{where}: record format {version} is newer than this program"
            raise RecordError(problem, fix="install a newer mlperf-reconciler")
        if missing := _REQUIRED - document.keys():
            raise KeyError(", ".join(sorted(missing)))
        record = read_document(document, Record)
        _check_artifacts(record)
        check_plausible(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise RecordError(f"{where}: not a readable record: {error}", fix="restore the file from git") from error
    return record


_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch
_PLACES = frozenset({"logs", "objects"})


def _check_artifacts(record: Record) -> None:
    """Check the artifacts, since a record may come from any branch. A digest must not be a path, and no two files of an
    outcome may share a name, or one would be judged and the other published."""
    names = []
    for name, sha256, _, place in record.artifacts:
        if not _is_digest(sha256) or place not in _PLACES:
            raise ValueError(f"artifact {name!r} needs digest, place and size")
        if not _is_below(name):
            raise ValueError(f"artifact {name!r} is not a relative name")
        if name not in REDUNDANT_LOGS:
            names.append(name)
    if len(set(names)) != len(names) and record.ended is Ended.DONE:
        raise ValueError("two artifacts have the same name")


@lru_cache(maxsize=4096)
def _is_below(name: str) -> bool:
    """Cached, since thousands of records have the same few names."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts) and "\0" not in name


_SORTED = json.JSONEncoder(sort_keys=True)
_NOTED = ("machine.host", "machine.kernel")


def summarize(record: Record, identity: str) -> Summary:
    """Summarise a record. Raises RecordError if its values do not have the types of a record."""
    try:
        return _summarize(record, identity)
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise RecordError(f"{identity}: not a readable record: {error!r}", fix="restore the file from git") from error


def _summarize(record: Record, identity: str) -> Summary:
    values, metric = record.values, record.values.get("metric")
    pins = [(name, record.inputs[name].value) for name in _PINS if name in record.inputs]
    pins += [(name, record.inputs[name].value) for name in sorted(filter(_is_command_pin, record.inputs))]
    proofs = [(name, fact.value) for name, fact in record.facts.items() if fact.role is Role.EVIDENCE]
    return Summary(
        id=identity,
        address=record.address,
        key=record.key,
        ended=record.ended,
        started=record.started,
        seconds=record.seconds,
        artifacts=record.artifacts,
        validity=str(values.get("validity", "")),
        evidence=tuple(sorted([(n, _show_text(v) if type(v) is str else _SORTED.encode(v)) for n, v in proofs])),
        noted=tuple((name, str(record.facts[name].value)) for name in _NOTED if name in record.facts),
        metric=(str(metric["value"]), str(metric["unit"])) if metric else None,
        pins=tuple([pin for pin in pins if isinstance(pin[1], str)]),
        upstream=tuple(sorted(record.upstream.items())),
        marks=record.marks,
        problem=record.problem or _explain_invalid(values) or _explain_low_accuracy(values) or _explain_failure(values),
        shared=record.shared,
        dirty=record.dirty,
        by_speed=values.get("by_speed") is True,
        inferred=tuple(sorted((s, str(m["value"]), str(m["unit"])) for s, m in values.get("inferred", {}).items())),
        efficiency=_find_efficiency(values.get("power")),
        written=find_written(record),
        lasting=values.get("lasting") is True,
        margin=_find_margin(values),
        samples=read_count(values.get("count"), 0) if record.address.kind is Kind.DATASET else 0,
        left_code=str(record.facts[CODE_CHANGED].value["after"]) if CODE_CHANGED in record.facts else "",
    )


@lru_cache(maxsize=4096)
def _is_command_pin(name: str) -> bool:
    return name.startswith(_COMMAND_PINS)


def _find_efficiency(power: Any) -> tuple[str, str] | None:
    found = power.get("efficiency") if power else None
    return (str(found["value"]), str(found["unit"])) if found else None


def _find_margin(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find (name, headroom in percent) of the margin that decides: the worst of the limits that are not met, else the
    tightest of the latency limits. A count of late queries does not qualify, because its limit is often close to 0."""
    known = [m for m in values.get("margins") or () if m["headroom"] and m["unit"] != LATE_QUERIES]
    asked = [m for m in known if not m["met"]] or [m for m in known if is_latency_limit(str(m["name"]))]
    least = min(asked, key=lambda margin: float(margin["headroom"]), default=None)
    return (str(least["name"]), str(least["headroom"])) if least else None


@lru_cache(maxsize=4096)
def _show_text(value: str) -> str:
    """Cached, since thousands of records contain the same versions and digests."""
    return _SORTED.encode(value)


def _explain_failure(values: Mapping[str, Any]) -> str:
    """Explain why a compliance test's verdict fails."""
    where = f" ({values['where']})" if "where" in values else ""
    return "" if values.get("passed", True) else f"{'; '.join(values['reasons'])}{where}"


def _explain_low_accuracy(values: Mapping[str, Any]) -> str:
    """List the accuracy bars that a score misses, if the division enforces them."""
    if values.get("accuracy_met", True):
        return ""
    missed = (bar for bar in values.get("bars", ()) if not bar["met"])
    limits = ((bar, f"at least {bar['least']}" if bar["least"] else f"at most {bar['most']}") for bar in missed)
    return "; ".join(f"{bar['metric']} is {bar['measured']}, the round requires {limit}" for bar, limit in limits)


def _explain_invalid(values: Mapping[str, Any]) -> str:
    """Explain why a run is INVALID: LoadGen's reasons, the missed constraints with their margins, and the suggested
    change."""
    if values.get("validity") != "INVALID":
        return ""
    missed = (show_margin(margin) for margin in values.get("margins", ()) if not margin["met"])
    found = [*values.get("reasons", ()), *missed]
    suggestion = values.get("suggestion")
    if suggestion:
        wanted = f"{suggestion['value'] or 'leave it out'} {suggestion['unit']}".rstrip()
        found.append(f"try {suggestion['setting']}: {wanted}")
    return "; ".join(found)
