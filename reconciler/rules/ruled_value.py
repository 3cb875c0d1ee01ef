"""One ruled value: the value, the sources that state it, and the values of other sources. Defines which value is
stricter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.loadgen import keys
from reconciler.loadgen.settings import BUILT_IN, DECLARED, RULED

# policy: the written rules. checker: the newer official checker. old checker: the previous one, which still runs.
# mlperf.conf: LoadGen's built-in settings. loadgen: LoadGen's behaviour without any setting. audit.config: the files
# that turn a run into a compliance test. verification: the scripts that judge one.
SOURCES = ("policy", "checker", "old checker", "mlperf.conf", "loadgen", "audit.config", "verification")

# A run's initial settings, under their names in specs.
SETTING_FIELDS = (*BUILT_IN, *DECLARED, *RULED)

# Demands on a result. The prefix also determines which of two differing sources is stricter.
DEMAND_FIELDS = (
    "least_min_duration",
    "least_query_count",
    "least_runs",
    "least_performance_sample_count",
    "least_samples_per_query",
    "exact_accuracy_sample_count",
    "exact_sample_concatenate_permutation",
    "exact_use_token_latencies",
    "most_target_latency",
    "most_ttft_latency",
    "most_tpot_latency",
)
OTHER_FIELDS = (
    "accuracy_files",
    "accuracy_log_rng_seed",
    "cell_documents",
    "compliance_tests",
    "dataset_size",
    "infer_token_latencies",
    "metric_better",
    "metric_divisor",
    "metric_key",
    "metric_unit",
    "most_file_bytes",
    "token_latency_scaling_factor",
)
# Values that apply to all scenarios of a benchmark; one for a single scenario would never be read.
UNDIVIDED_FIELDS = frozenset({"cell_documents", "compliance_tests", "most_file_bytes", *keys.SEEDS})
FIELDS = frozenset(SETTING_FIELDS + DEMAND_FIELDS + OTHER_FIELDS)

# Grouped fields, by their dotted name: an accuracy bar, a parameter of one mode or both, a part of a compliance test.
GROUPS = ("accuracy", "generation", "tests")
TEST_PARTS = ("compared_with", "files", "expects", "performance_checks")  # required for every test
_GROUPED = re.compile(
    r"accuracy\.\w+\.(least|most)"
    r"|generation\.(both|accuracy|performance)\.\w+"
    rf"|tests\.[\w-]+\.({'|'.join(TEST_PARTS)}|(settings|limits)\.\w+)"
)
_EXEMPTION = ("ignored", "because")


class RoundFileError(ReconcilerError):
    """A round file is malformed. ``place``: the dotted path of the problem; ``at``: its file:line, once known."""

    def __init__(self, place: str, problem: str, *, fix: str = "", at: str = "") -> None:
        super().__init__(": ".join(filter(None, (at, place, problem))), fix=fix)
        self.place, self.problem, self.at = place, problem, at


class Ignored(Struct, frozen=True):
    """A source's value that does not count, with the reason, such as an evident error or a newer statement."""

    source: str
    value: Any
    because: str


class RuledValue(Struct, frozen=True):
    """A value and the sources that state it. ``overruled``: the less strict values of other sources."""

    value: Any
    sources: tuple[str, ...]
    overruled: tuple[tuple[str, Any], ...] = ()
    ignored: tuple[Ignored, ...] = ()


def is_field(name: str) -> bool:
    """Return True if a round may rule on this name."""
    return name in FIELDS or _GROUPED.fullmatch(name) is not None


def is_sourced(entry: Any) -> bool:
    """Return True for the mapping of one ruled value: sources to values. Such a mapping is a single value and is never
    merged."""
    if not isinstance(entry, Mapping) or not entry:
        return False
    return all(str(key) in _EXEMPTION or set(str(key).split("+")) <= set(SOURCES) for key in entry)


def parse_ruled_value(name: str, entry: Mapping[str, Any], where: str = "") -> RuledValue:
    """Parse a ruled value from its mapping of sources to values; the strictest of several wins.

    Greater is stricter for least, less for most. For all other values, sources must not differ, unless one is listed
    under ``ignored`` with a reason under ``because``.
    """
    where = f"{where}.{name}" if where else name
    options = _list_options(entry, where)
    ignored = _parse_ignored(entry, where)
    if len(options) == 1:
        return RuledValue(options[0][1], options[0][0], (), ignored)
    side = choose_strict_side(name)
    if not side:
        fix = "list the ignored source under `ignored`, and the reason under `because`"
        raise RoundFileError(where, "sources differ, and neither is stricter", fix=fix)
    strictest = (max if side == "least" else min)(options, key=lambda option: Decimal(str(option[1])))
    overruled = [(source, value) for sources, value in options for source in sources if (sources, value) != strictest]
    return RuledValue(strictest[1], strictest[0], tuple(overruled), ignored)


def _list_options(entry: Mapping[str, Any], where: str) -> list[tuple[tuple[str, ...], Any]]:
    """Return each value with all the sources that state it."""
    options: list[tuple[tuple[str, ...], Any]] = []
    for names, stated in entry.items():
        if names in _EXEMPTION:
            continue
        sources, value = _parse_sources(names, where), _require_exact(stated, where)
        same = next((i for i, option in enumerate(options) if option[1] == value), None)
        if same is None:
            options.append((sources, value))
        else:
            options[same] = (options[same][0] + sources, value)
    if not options:
        raise RoundFileError(where, "no source", fix=f"write {{SOURCE: value}}; known: {', '.join(SOURCES)}")
    return options


def choose_strict_side(name: str) -> str:
    """Return "least" if a greater value is stricter, "most" if a smaller one is, and "" if neither."""
    last = name.rpartition(".")[2]
    return next((side for side in ("least", "most") if last == side or last.startswith(f"{side}_")), "")


def _parse_ignored(entry: Mapping[str, Any], where: str) -> tuple[Ignored, ...]:
    named = entry.get("ignored", {})
    if bool(named) != bool(entry.get("because")):
        fix = "write both `ignored` and `because`, or neither"
        raise RoundFileError(where, "`ignored` and `because` require each other", fix=fix)
    found = [(source, value) for keys, value in named.items() for source in _parse_sources(keys, where)]
    return tuple(Ignored(source, _require_exact(value, where), entry["because"]) for source, value in found)


def _parse_sources(text: str, where: str) -> tuple[str, ...]:
    sources = tuple(text.split("+"))
    if not set(sources) <= set(SOURCES):
        raise RoundFileError(where, f"unknown source {text!r}", fix=f"known: {', '.join(SOURCES)}")
    return sources


def _require_exact(value: Any, where: str) -> Any:
    """Refuse floats at any depth; convert sequences to tuples, so that a shared ruleset cannot be changed."""
    if isinstance(value, float):
        raise RoundFileError(where, f"{value!r} is not exact as a number", fix=f'write it in quotes: "{value!r}"')
    if isinstance(value, Mapping):
        return {str(name): _require_exact(item, where) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_require_exact(item, where) for item in value)
    return value
