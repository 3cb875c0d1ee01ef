"""What a user.conf sets for a run, in LoadGen's lookup order, and under which model key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.loadgen import keys
from reconciler.loadgen.settings import Setting, Unit, find_settings
from reconciler.loadgen.user_conf import ConfValue, UserConf
from reconciler.resource.canonical import show_decimal

_MILLISECOND = 1_000_000
# LoadGen's release since which it reads the expected latency of SingleStream with its fraction, and one of MultiStream
# at all (mlcommons/inference 86164589 and a67f9f34, January 2022).
FRACTIONS_SINCE = 2


class ConfSetting(Struct, frozen=True):
    """``value`` in the unit of specs (ns, ms, counts, decimal text); ``line`` is the conf's that decides."""

    value: Any
    line: ConfValue


class ConfReading(Struct, frozen=True):
    """``model``: the key under which the file was read."""

    model: str
    settings: Mapping[str, ConfSetting]

    def values(self) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.settings.items()}


def read_settings(conf: UserConf, model: str, scenario: str, release: int = FRACTIONS_SINCE) -> ConfReading:
    """``scenario``: the one that ran; ``release``: of LoadGen. Values that no number of LoadGen's can hold are left
    out."""
    fractions = release >= FRACTIONS_SINCE
    known: ConfReading | None = conf.made.get((read_settings, model, scenario, fractions))
    if known is None:
        known = _read_settings(conf, model, scenario, fractions=fractions)
        conf.made[read_settings, model, scenario, fractions] = known
    return known


def _read_settings(conf: UserConf, model: str, scenario: str, *, fractions: bool) -> ConfReading:
    found: dict[str, ConfSetting] = {}
    for key in find_settings(scenario):
        if not fractions and key.name == keys.TARGET_LATENCY:
            if scenario == "MultiStream":
                continue
            key = replace(key, unit=Unit.WHOLE_MS)
        line = conf.effective(model, scenario, key.conf_key)
        if line is not None:
            try:
                found[key.name] = ConfSetting(_value(key, line), line)
            except (ArithmeticError, ValueError):
                continue
    return ConfReading(model, found)


def list_model_keys(conf: UserConf, right: str, folder: str = "", *, is_known: bool = True) -> tuple[str, ...]:
    """The benchmark's own model key; behind it the name of its folder, where the file has lines for that; else, where
    no line is meant for the former, the one other key of the file. Every key of the file where the benchmark's own is
    not known.

    A submitter whose code passes another key meant those lines, so that they are compared as well.
    """
    named = {name.split(".")[0] if name.count(".") == 2 else name.rsplit(".", 2)[0] for name in conf.values}
    others = sorted(name for name in named if name not in ("*", right))
    if not is_known:
        return (right, *others)
    if folder in others:
        return (right, folder)
    return (right, others[0]) if len(others) == 1 and right not in named else (right,)


def _value(key: Setting, line: ConfValue) -> Any:
    match key.unit:
        case Unit.RATE | Unit.PERCENT:
            return show_decimal(line.decimal)
        case Unit.MS:
            return show_decimal(line.decimal * _MILLISECOND)
        case Unit.WHOLE_MS:
            return line.integer * _MILLISECOND
        case Unit.FLAG:
            return bool(line.integer)
    return line.integer
