"""Run durations by result format. Separate from the formats, since a plan predicts every due run without loading any
code that reads results."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.loadgen.duration import predict_run_seconds
from reconciler.resource.programs import find_program_of_results
from reconciler.resource.settings import CellSettings
from reconciler.rules.programs import load_program


def predict_seconds(settings: CellSettings, inputs: Mapping[str, object]) -> float | None:
    """Predict a run's seconds from its identity inputs; None if only an earlier run can show it."""
    program = find_program_of_results(settings.results)
    return load_program(program).predict_seconds(settings.results, inputs) if program else predict_run_seconds(inputs)
