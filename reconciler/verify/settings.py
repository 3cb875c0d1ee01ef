"""Read the settings of a user.conf for a run in LoadGen's lookup order, and choose the model key to read them under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.loadgen import keys
from reconciler.loadgen.settings import Setting, Unit, find_settings
from reconciler.loadgen.user_conf import ConfValue, UserConf, read_conf_value
from reconciler.resource.canonical import show_decimal

_MILLISECOND = 1_000_000
# LoadGen's first release that reads fractions in SingleStream's expected latency, and supports MultiStream's at all
# (mlcommons/inference 86164589 and a67f9f34, January 2022).
FRACTIONS_SINCE = 2


class ConfSetting(Struct, frozen=True):
    """An effective setting. ``value``: in the unit of specs (ns, ms, counts, decimal text); ``line``: the conf's line
    that sets it."""

    value: Any
    line: ConfValue


class ConfReading(Struct, frozen=True):
    """The settings read from a conf. ``model``: the key under which they were read."""

    model: str
    settings: Mapping[str, ConfSetting]

    def values(self) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.settings.items()}


def read_settings(conf: UserConf, model: str, scenario: str, release: int = FRACTIONS_SINCE) -> ConfReading:
    """Read the settings for a run. ``scenario``: the one that ran; ``release``: LoadGen's. Values outside the range of
    LoadGen's number types are left out."""
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
        line = conf.get_effective(model, scenario, key.conf_key)
        if line is not None:
            try:
                found[key.name] = ConfSetting(_read_value(key, line), line)
            except (ArithmeticError, ValueError):
                continue
    return ConfReading(model, found)


def list_model_keys(conf: UserConf, right: str, folder: str = "", *, is_known: bool = True) -> tuple[str, ...]:
    """List the model keys under which to read the file: the benchmark's own, and its folder's name if the file has
    lines for it. If no line is for the benchmark's key, add the file's only other key. If the benchmark's key is
    unknown, add all keys of the file.

    The submitter's code may pass another key than the benchmark's, so those lines are compared as well.
    """
    named = {name.split(".")[0] if name.count(".") == 2 else name.rsplit(".", 2)[0] for name in conf.values}
    others = sorted(name for name in named if name not in ("*", right))
    if not is_known:
        return (right, *others)
    if folder in others:
        return (right, folder)
    return (right, others[0]) if len(others) == 1 and right not in named else (right,)


def _read_value(key: Setting, line: ConfValue) -> Any:
    """Read a line's value; a latency keeps its fraction of a nanosecond."""
    return show_decimal(line.decimal * _MILLISECOND) if key.unit is Unit.MS else read_conf_value(key, line)
