"""Facts of a round for executing, judging and auditing a cell: taken from the rules once, where the desired state is
compiled, so that no later stage reads a round."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from reconciler.resource.ruled_values import AccuracyLogRule, Bar, ExtraFiles, Inference, LatencyLimits, Metric


class EndpointsContext(Struct, frozen=True):
    """Context of a cell that is measured by the endpoints harness.

    ``audits``: test → the harness's name of it, of tests whose file is asked for. ``mean_tokens``: the bounds of the
    mean number of output tokens, where TEST09 is asked for. ``single_score``: one plain score counts as the accuracy.
    ``min_duration``: in ms, where the cell itself asks for none.
    """

    limits: LatencyLimits = field(default_factory=LatencyLimits)
    audits: Mapping[str, str] = field(default_factory=dict)
    mean_tokens: tuple[Decimal, Decimal] | None = None
    single_score: bool = False
    min_duration: int = 0


class InferredMetric(Struct, frozen=True):
    """Metric of another scenario on a cell's system by the cell's runs, in ``unit``."""

    rule: Inference
    unit: str


class RuleContext(Struct, frozen=True):
    """``bars_bind``: whether accuracy below a bar counts in the cell's division. ``answers_compared``: a compliance
    test compares its answers with those of this run. ``performance_checked``: whether LoadGen's word on this run
    counts; a test that ends after a fixed number of queries may be too short for it. ``inferred``: the scenarios that
    the round lets follow from this cell's runs. ``shown``: what it wants to see of the accuracy run's answers.
    ``built_in``: the settings that the round's LoadGen has without a user.conf."""

    metric: Metric
    accuracy_log: AccuracyLogRule
    bars: tuple[Bar, ...] = ()
    bars_bind: bool = True
    endpoints: EndpointsContext | None = None
    answers_compared: bool = False
    performance_checked: bool = True
    inferred: tuple[InferredMetric, ...] = ()
    shown: ExtraFiles | None = None
    built_in: Mapping[str, Any] = field(default_factory=dict)
