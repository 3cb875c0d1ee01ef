"""Trial of a declared submission: each run is made once, and with ``--quick`` it is short."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import compute_least_queries
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.records import QUICK
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.declared import Declared, DeclaredCell

_OVER = 2  # queries that may exceed the percentile's latency in a run this short
_COMMON = Decimal(99)  # percentile where the round rules none
_ORIGIN = Origin("--quick")


def prepare_trial(declared: Declared, ruleset: Ruleset) -> Declared:
    """An INVALID run has its answer, and is not repeated. A quick one is as short as LoadGen can call it VALID;
    anything that the spec makes shorter still stays so."""
    return replace(declared, cells=tuple(_prepare(declared, cell, ruleset) for cell in declared.cells))


def _prepare(declared: Declared, cell: DeclaredCell, ruleset: Ruleset) -> DeclaredCell:
    settings = {name: value for name, value in cell.settings.items() if name != "attempts"}
    if declared.trial == QUICK and "infer_from" not in settings:
        _lower(settings, keys.MIN_DURATION, declared.quick)
        _lower(settings, keys.MIN_QUERY_COUNT, _count(cell, ruleset))
    return replace(cell, settings=dict(sorted(settings.items())))


def _lower(settings: dict[str, Value], name: str, most: int) -> None:
    declared = settings.get(name)
    if declared is None or int(str(declared.value)) > most:
        settings[name] = Value(most, _ORIGIN)


def _count(cell: DeclaredCell, ruleset: Ruleset) -> int:
    """Count queries; samples in Offline, where no percentile is to be proved."""
    percentile = _percentile(cell, ruleset)
    return compute_least_queries(0 if name_loadgen_scenario(cell.cell.scenario) == "Offline" else _OVER, percentile)


def _percentile(cell: DeclaredCell, ruleset: Ruleset) -> Decimal:
    rules = ruleset.find_rules(cell.cell.division, str(cell.official.value)) if cell.official else None
    ruled = rules.get_value(keys.TARGET_LATENCY_PERCENTILE, cell.cell.scenario) if rules else None
    return Decimal(str(ruled)) if ruled is not None else _COMMON
