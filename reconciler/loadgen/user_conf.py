"""LoadGen's conf files: write user.conf and audit.config so that LoadGen reads back the exact values, and read any
user.conf the way LoadGen does (``TestSettings::FromConfig``), to find the line that decides a setting.

One line gives ``key = value``. LoadGen looks a key up as model.scenario.key, *.scenario.key, model.*.key, *.*.key; a
repeated name replaces the earlier line. Names are case-sensitive, and unknown ones are ignored. LoadGen's reader has
traps that the text written here avoids: tokens are separated by blanks (``key=value`` is silently ignored), comments
are on their own lines and begin with "# " (an inline comment rejects the file), and integer keys get plain decimal
integers ("1e3" would be read as 1).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from reconciler.errors import ReconcilerError
from reconciler.loadgen.settings import Setting, Unit, find_settings, name_loadgen_scenario
from reconciler.resource.canonical import show_decimal

AUDIT_PREFIX = "audit."  # of audit settings among a test's inputs
_NANOSECONDS = 1_000_000  # in a millisecond, the unit of latencies in a user.conf
_MAX = 2**64 - 1
_WORD = 2**64
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?\d+)?")
_SPECIAL = re.compile(r"[+-]?(inf(inity)?|nan(\(\w*\))?)", re.IGNORECASE | re.ASCII)


def select_settings(scenario: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Select those of a cell's settings that LoadGen reads in this scenario, as {conf key: text}, in a fixed order.

    Values are integers (counts, ms, ns), decimal text (rates, percent) and booleans; other settings and None are left
    out. Raise ReconcilerError if user.conf cannot express a value, such as a Server latency of 0.5 ms.
    """
    texts: dict[str, str] = {}
    for setting in find_settings(scenario):
        value = settings.get(setting.name)
        if value is not None:
            texts[setting.conf_key] = _format_value(setting, value)
    return texts


def write_user_conf(model_key: str, scenario: str, texts: Mapping[str, str], notes: Iterable[str] = ()) -> bytes:
    """Write a user.conf: every key under its most specific name, so that no other line can override it.

    ``model_key`` is LoadGen's (resnet50); ``texts`` comes from ``select_settings``; ``notes`` become comment lines.
    """
    name = f"{model_key}.{name_loadgen_scenario(scenario)}"
    return _write_lines(notes, (f"{name}.{key} = {text}" for key, text in texts.items()))


def select_audit_settings(inputs: Mapping[str, object]) -> dict[str, Any]:
    """Return the audit settings among a test's inputs, under LoadGen's names; empty for a run that is not a test."""
    found = ((name, value) for name, value in inputs.items() if name.startswith(AUDIT_PREFIX))
    return {name.removeprefix(AUDIT_PREFIX): value for name, value in found}


def write_audit_config(settings: Mapping[str, object], notes: Iterable[str] = ()) -> bytes:
    """Write an audit.config, with every setting for any model and scenario. The file belongs to one cell, and LoadGen
    itself applies only lines for any model. ``settings`` already includes values that a round sets for one model.
    """
    texts = ((name, int(value) if isinstance(value, bool) else value) for name, value in settings.items())
    return _write_lines(notes, (f"*.*.{name} = {text}" for name, text in texts))


def _write_lines(notes: Iterable[str], lines: Iterable[str]) -> bytes:
    comments = (f"# {' '.join(note.split())}".rstrip() for note in notes)
    return "".join(f"{line}\n" for line in (*comments, *lines)).encode()


def _format_value(setting: Setting, value: Any) -> str:
    match setting.unit:
        case Unit.RATE | Unit.PERCENT:
            return _format_positive(setting, Decimal(value))
        case Unit.MS:
            return _format_positive(setting, Decimal(value) / _NANOSECONDS)
        case Unit.FLAG:
            return "1" if value else "0"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX:
        raise ReconcilerError(f"{setting.name}: {value!r} is not a whole number from 0 to 2^64 - 1")
    if setting.unit is not Unit.WHOLE_MS:
        return str(value)
    if value % _NANOSECONDS:
        problem = f"{setting.name}: {value} ns is not a whole number of milliseconds; LoadGen truncates it"
        raise ReconcilerError(problem, fix=f"write {-(-value // _NANOSECONDS)} ms")
    return str(value // _NANOSECONDS)


def _format_positive(setting: Setting, number: Decimal) -> str:
    if not number.is_finite() or number < 0:
        raise ReconcilerError(f"{setting.name}: {number} is not a rate, latency or percentage")
    return show_decimal(number)


class ConfValue(Struct, frozen=True):
    """A key's value as LoadGen reads it: the text, its 1-based line, and the name that matched. ``before``: the value
    that LoadGen would use without that line."""

    text: str
    line: int
    name: str
    before: ConfValue | None = None

    @property
    def integer(self) -> int:
        """Value of an integer key: base by prefix (0x, 0), cut at the first invalid character, modulo 2^64."""
        return read_integer(self.text)

    @property
    def decimal(self) -> Decimal:
        """Exact value of a rate, percentage or float latency, as written (LoadGen stores it as a double)."""
        return read_decimal(self.text)


class ConfProblem(Struct, frozen=True):
    """``fatal``: LoadGen rejects the whole file; otherwise the line has no effect."""

    line: int
    message: str
    fatal: bool


class UserConf(Struct, frozen=True):
    """``values`` maps a full name (model.scenario.key) to its last line. ``made``: values that other code computed,
    once for all identical files."""

    file: str
    values: Mapping[str, ConfValue]
    problems: tuple[ConfProblem, ...]
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @property
    def rejected(self) -> bool:
        """True if LoadGen rejects the file: FromConfig returns -22, and none of its settings applies."""
        return any(problem.fatal for problem in self.problems)

    def get_effective(self, model: str, scenario: str, key: str) -> ConfValue | None:
        """Return the value that decides a key, None if the file does not set it. Interactive is looked up as Server."""
        name = name_loadgen_scenario(scenario)
        for candidate in (f"{model}.{name}.{key}", f"*.{name}.{key}", f"{model}.*.{key}", f"*.*.{key}"):
            if candidate in self.values:
                return self.values[candidate]
        return None


def parse_user_conf(data: bytes, file: str = "user.conf") -> UserConf:
    """Parse a user.conf. This never raises: ``problems`` lists by line what LoadGen would reject or ignore."""
    return UserConf(file, *_parse_conf(data))


@functools.lru_cache(maxsize=8)  # a submitter's cells mostly share one mlperf.conf and many user.conf files
def _parse_conf(data: bytes) -> tuple[Mapping[str, ConfValue], tuple[ConfProblem, ...], dict[tuple[Any, ...], Any]]:
    values: dict[str, ConfValue] = {}
    problems: list[ConfProblem] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        # bytes.split() splits at the same blanks as C's isspace.
        tokens = [token.decode("utf-8", "replace") for token in line.split()]
        problem = _read_line(tokens, number, values)
        if problem is not None:
            problems.append(problem)
    return values, tuple(problems), {}


def _read_line(tokens: list[str], number: int, values: dict[str, ConfValue]) -> ConfProblem | None:
    if not tokens or tokens[0] == "#":
        return None
    name, rest = tokens[0], tokens[1:]
    if not rest or rest[0] == "#":
        hint = "put spaces around =" if "=" in name else "it sets nothing"
        return None if name.startswith("#") else ConfProblem(number, f"{name} is ignored: {hint}", fatal=False)
    if rest[0] != "=":
        hint = "put a space after #" if name.startswith("#") else f"expected =, found {rest[0]}"
        return ConfProblem(number, hint, fatal=True)
    for text in rest[1:]:
        if not _is_number(text):
            hint = "put the comment on its own line" if text.startswith("#") else f"{text} is not a number"
            return ConfProblem(number, hint, fatal=True)
        values[name] = ConfValue(text, number, name, values.get(name))
    return None if rest[1:] else ConfProblem(number, f"{name} is ignored: it has no value", fatal=False)


def _is_number(text: str) -> bool:
    return any(form.fullmatch(text) for form in (_INTEGER, _DECIMAL, _HEX_FLOAT, _SPECIAL))


def read_integer(text: str) -> int:
    """Convert like C's strtoull with base 0: "2.7" is 2, "1e3" is 1, "0x10" is 16, "010" is 8, "-1" is 2^64 - 1, "x" is
    0."""
    found = _INTEGER.match(text)
    if found is None:
        return 0
    sign, digits = found.groups()
    if digits[:2].lower() == "0x":
        number = int(digits, 16)
    elif digits.startswith("0"):
        octal = re.match(r"[0-7]+", digits)
        number = int(octal.group(), 8) if octal else 0
    else:
        number = int(digits)
    if number >= _WORD:
        return _WORD - 1
    return -number % _WORD if sign == "-" else number


def read_decimal(text: str) -> Decimal:
    """Convert exactly like C's strtod, including hexadecimal forms; 0 for text that is not a number."""
    if found := _HEX_FLOAT.match(text):
        return Decimal(float.fromhex(found.group()))
    for form in (_DECIMAL, _SPECIAL):
        if found := form.match(text):
            return Decimal(re.sub(r"\(.*\)", "", found.group()))
    return Decimal(0)


def read_conf_settings(conf: UserConf, model_key: str, scenario: str) -> dict[str, Any]:
    """Read the settings that a user.conf gives a run, under the names and units of a spec."""
    found = {}
    for setting in find_settings(scenario):
        line = conf.get_effective(model_key, scenario, setting.conf_key)
        if line is not None:
            found[setting.name] = read_conf_value(setting, line)
    return found


def read_conf_value(setting: Setting, line: ConfValue) -> Any:
    """Return a line's value in the unit of specs. Raise ArithmeticError or ValueError for a number that no integer can
    represent."""
    match setting.unit:
        case Unit.RATE | Unit.PERCENT:
            return show_decimal(line.decimal)
        case Unit.MS:
            return int(line.decimal * _NANOSECONDS)
        case Unit.WHOLE_MS:
            return line.integer * _NANOSECONDS
        case Unit.FLAG:
            return bool(line.integer)
    return line.integer
