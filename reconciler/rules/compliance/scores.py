"""Scores by which TEST01, TEST04 and TEST05 compare two runs, and the allowed difference."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.summary import SummaryLog

# Always the scenario's own metric, even for token benchmarks.
DETAIL_KEYS: Mapping[str, str] = {
    "Offline": keys.RESULT_SAMPLES_PER_SECOND,
    "SingleStream": keys.EARLY_STOPPING_LATENCY_SS,
    "MultiStream": keys.EARLY_STOPPING_LATENCY_MS,
    "Server": keys.RESULT_COMPLETED_SAMPLES_PER_SEC,
}
SUMMARY_KEYS: Mapping[str, re.Pattern[str]] = {
    "Offline": re.compile(r"Samples per second"),
    "SingleStream": re.compile(r".*Early stopping (90|90\.0|99\.9)th percentile estimate"),
    "MultiStream": re.compile(r".*Early stopping (99|99\.0)th percentile estimate"),
    "Server": re.compile(r"Completed samples per second"),
}
_FIRST_ESTIMATE, _ESTIMATED = 2, "Early stopping satisfied"  # LoadGen's release, and a name in its summaries
# Rounds before early stopping: a percentile, the scheduled rate, and the maximum number of samples per query.
_EARLY_DETAIL_KEYS: Mapping[str, str] = {
    **DETAIL_KEYS,
    "SingleStream": keys.RESULT_PERCENTILES["90.00"],
    "MultiStream": keys.EFFECTIVE_SAMPLES_PER_QUERY,
    "Server": keys.RESULT_SCHEDULED_SAMPLES_PER_SEC,
}
_SAMPLES_PER_QUERY = re.compile(r"Samples per query")
EARLY_SUMMARY_KEYS: Mapping[str, re.Pattern[str]] = {
    "Offline": re.compile(r"Samples per second"),
    "SingleStream": re.compile(r"90(\.0)?th percentile latency"),
    "MultiStream": _SAMPLES_PER_QUERY,
    "Server": re.compile(r"Scheduled samples per second"),
}
# LoadGen 2.0 estimates, but its round's scripts still compared percentiles (mlcommons/inference v2.0:
# compliance/nvidia). v2.1's were the first to use the estimates.
_PERCENTILES = "2.0"
_PERCENTILE_DETAIL_KEYS = {**_EARLY_DETAIL_KEYS, "MultiStream": keys.RESULT_QUERY_PERCENTILES["99.00"]}
_PERCENTILE_SUMMARY_KEYS = {**EARLY_SUMMARY_KEYS, "MultiStream": re.compile(r"99(\.0)?th percentile latency")}


class Slack(Struct, frozen=True):
    """Allowed difference of a score, in percent. Very short latencies vary with other load on the system, so scores up
    to ``single_stream`` and ``multi_stream`` use ``when_short``."""

    usual: float = 10
    when_short: float = 20
    single_stream: float = 200_000
    multi_stream: float = 1_600_000

    @classmethod
    def from_limits(cls, limits: Mapping[str, object], name: str) -> Slack:
        """Read from ``limits``, a test's limits as stated by its round; ``name`` is the usual limit. Unstated limits
        get the general values."""
        usual = cls()
        stated = {
            "usual": limits.get(name, usual.usual),
            "when_short": limits.get(f"{name}_when_short", usual.when_short),
            "single_stream": limits.get("short_single_stream_latency", usual.single_stream),
            "multi_stream": limits.get("short_multi_stream_latency", usual.multi_stream),
        }
        return cls(**{part: float(str(value)) for part, value in stated.items()})

    def find_allowed(self, scenario: str, score: float) -> float:
        """Return the allowed fraction of the score: 0.1 for 10 %."""
        most = {"SingleStream": self.single_stream, "MultiStream": self.multi_stream}.get(scenario, -1)
        return (self.when_short if score <= most else self.usual) / 100


class Scored(Struct, frozen=True):
    """Score of a run. ``score`` is None if the log contains none. Latencies are in nanoseconds, rates in samples per
    second. ``errors``: from a detail log; ``lower_is_better``: for a score read from a summary."""

    scenario: str
    validity: str
    score: float | None
    errors: int = 0
    lower_is_better: bool = False


def find_score_key(log: DetailLog) -> str:
    """Return the key of the score that tests compare; "" for an unknown scenario."""
    if _compares_percentiles(log):
        return _PERCENTILE_DETAIL_KEYS.get(log.scenario, "")
    early = log.release < _FIRST_ESTIMATE and keys.EARLY_STOPPING_MET not in log.index
    return (_EARLY_DETAIL_KEYS if early else DETAIL_KEYS).get(log.scenario, "")


def find_summary_keys(log: DetailLog) -> Mapping[str, re.Pattern[str]] | None:
    """Return the names of scores in the summary next to a detail log if the summary does not identify them."""
    return _PERCENTILE_SUMMARY_KEYS if _compares_percentiles(log) else None


def _compares_percentiles(log: DetailLog) -> bool:
    return log.version == _PERCENTILES or log.version.startswith((f"{_PERCENTILES} ", f"{_PERCENTILES}."))


def read_from_detail(log: DetailLog) -> Scored:
    return Scored(log.scenario, log.validity, _parse_number(log.get(find_score_key(log))), len(log.errors))


def read_from_summary(log: SummaryLog, keys: Mapping[str, re.Pattern[str]] | None = None) -> Scored:
    """Read the score from a summary. ``keys``: other score names by scenario; without them, the names used before early
    stopping."""
    scenario = log.get("Scenario")
    choices = (keys,) if keys else (SUMMARY_KEYS,) if _ESTIMATED in log.values else (EARLY_SUMMARY_KEYS, SUMMARY_KEYS)
    for shape in (choice[scenario] for choice in choices if scenario in choice):
        found = [line.value for key, line in log.values.items() if shape.match(key)]
        if found:
            lower = scenario == "SingleStream" or (scenario == "MultiStream" and shape is not _SAMPLES_PER_QUERY)
            return Scored(scenario, log.validity, _parse_number(found[-1]), lower_is_better=lower)
    return Scored(scenario, log.validity, None)


def _parse_number(value: object) -> float | None:
    """Return None for anything but a number."""
    try:
        return float(str(value))
    except ValueError:
        return None


def find_unfit(reference: Scored, test: Scored) -> list[str]:
    """Return the reasons why two runs cannot be compared at all."""
    runs = (("performance", reference), ("audit", test))
    invalid = ((name, run.validity or "without a result") for name, run in runs if run.validity != "VALID")
    reasons = [f"the {name} run is {validity}, not VALID" for name, validity in invalid]
    if reference.scenario != test.scenario:
        reasons.append(f"the performance run is {reference.scenario or 'unknown'}, the audit run {test.scenario}")
    return reasons + [f"the {name} run's log holds no score" for name, run in runs if run.score is None]


def show_score(number: float | None) -> str:
    return "none" if number is None else f"{number:.10g}"


def describe_distance(reference: float, test: float) -> str:
    """Compare the test's score with the reference: "11.00 % below 100"."""
    if not reference:
        return f"not comparable with {show_score(reference)}"
    return f"{abs(test / reference - 1) * 100:.2f} % {'below' if test < reference else 'above'} {show_score(reference)}"


def measure_distance(reference: float, test: float) -> str:
    """Return the difference between the test's score and the reference, in percent and signed."""
    return f"{(test / reference - 1) * 100:+.2f} %" if reference else "beyond measure"
