"""Facts of a round for executing, judging and auditing a cell. They are copied from the rules when the desired state is
compiled, so that later stages need no round."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from reconciler.resource.ruled_values import AccuracyLogRule, Bar, ExtraFiles, Inference, LatencyLimits, Metric


class EndpointsContext(Struct, frozen=True):
    """Context of a cell measured by the endpoints harness.

    ``audits``: test → the harness's name for it; only tests whose file is required. ``mean_tokens``: bounds of the mean
    number of output tokens, if TEST09 is required. ``single_score``: a single plain score counts as the accuracy.
    ``min_duration``: in ms, for cells that do not set one.
    """

    limits: LatencyLimits = field(default_factory=LatencyLimits)
    audits: Mapping[str, str] = field(default_factory=dict)
    mean_tokens: tuple[Decimal, Decimal] | None = None
    single_score: bool = False
    min_duration: int = 0


class InferredMetric(Struct, frozen=True):
    """Metric of another scenario, in ``unit``, derived from a cell's runs on the same system."""

    rule: Inference
    unit: str


class RuleContext(Struct, frozen=True):
    """Rule context of a run. ``bars_bind``: whether accuracy bars apply in the cell's division. ``answers_compared``: a
    compliance test compares its answers with this run's. ``performance_checked``: whether LoadGen's verdict on this run
    counts; a test with a fixed number of queries may be too short for it. ``inferred``: scenarios whose results the
    round lets follow from this cell's runs. ``shown``: the part of the accuracy run's answers that is published.
    ``built_in``: the round's LoadGen defaults without a user.conf."""

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
