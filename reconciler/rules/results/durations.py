"""How long a run takes, by the format of its results: apart from the formats, since a plan asks it of each run that is
due, and loads nothing that reads results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reconciler.loadgen.duration import predict_run_seconds
from reconciler.loadgen.settings import RESULTS
from reconciler.resource.kinds import PERFORMANCE
from reconciler.resource.settings import Settings

_MILLISECONDS = 1000


def _predict_point_seconds(inputs: Mapping[str, object]) -> float | None:
    """A performance run ends after its duration and whatever is still under way; of an accuracy run only the last one
    can tell."""
    if inputs.get("mode") != PERFORMANCE or not inputs.get("min_duration"):
        return None
    return int(str(inputs["min_duration"])) / _MILLISECONDS


DURATIONS: dict[str, Callable[[Mapping[str, object]], float | None]] = {
    "loadgen": predict_run_seconds,
    "endpoints": predict_run_seconds,
    "points": _predict_point_seconds,
}


def predict_seconds(settings: Settings, inputs: Mapping[str, object]) -> float | None:
    """Of a run with these identity inputs; None where only an earlier one can tell."""
    return DURATIONS[settings.text(RESULTS, "loadgen")](inputs)
