"""Declared submission x ruleset x pins -> desired resources, in the order in which a person reads them."""

from __future__ import annotations

from reconciler.desired.cells import CellCompiler, common_keys
from reconciler.desired.inputs import submission_inputs, upstream
from reconciler.desired.making import Making
from reconciler.desired.needed import missing_cells
from reconciler.desired.published import published_inputs, submission_settings, submission_values
from reconciler.desired.readers import CellReaders
from reconciler.desired.state import Desired, Pins
from reconciler.mlperf.ruleset import Ruleset
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Kind
from reconciler.spec.declared import Declared


def compile_desired(declared: Declared, ruleset: Ruleset, pins: Pins) -> tuple[Desired, dict[str, set[str]]]:
    """The desired state, and which settings each kind of resource read (for the printed reference)."""
    making, readers = Making(), CellReaders(declared, ruleset, pins)
    datasets, models = common_keys(readers)
    for cell in declared.cells:
        if "infer_from" not in cell.settings:
            CellCompiler(making, readers, cell).own(datasets, models)
    for cell in declared.cells:
        if "infer_from" in cell.settings:
            CellCompiler(making, readers, cell).inferred()
    results = [upstream(str(a), a, m.resource.key) for a, m in making.made.items() if a.kind is Kind.RESULT]
    shared = [*submission_inputs(submission_values(declared)), *published_inputs(declared, pins)]
    making.put(
        Address(Kind.SUBMISSION, declared.name), [*shared, *results], None, None, settings=submission_settings(declared)
    )
    details = {address: made.detail for address, made in making.made.items()}
    resources = tuple(made.resource for made in making.made.values())
    named = [[str(r.address), r.key, r.attempts] for r in resources]
    whole = Desired(
        digest=digest({"resources": named, "round": declared.round.value}),
        resources=resources,
        detail=details.__getitem__,
        name=declared.name,
        by_address={r.address: r for r in resources},
        missing_cells=missing_cells(declared, ruleset),
    )
    return whole, making.noted
