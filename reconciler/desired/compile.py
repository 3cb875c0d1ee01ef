"""Declared submission x ruleset x pins -> desired resources, in the order in which a person reads them."""

from __future__ import annotations

from functools import cache
from operator import attrgetter

from msgspec.structs import replace

from reconciler.desired.cell_cache import CachedCell, CellCache
from reconciler.desired.cell_settings import CellReaders
from reconciler.desired.cells import CellCompiler, SharedKeys, find_shared_keys
from reconciler.desired.detail import Detail
from reconciler.desired.gaps import find_gaps
from reconciler.desired.inputs import collect_submission_inputs, make_upstream_input
from reconciler.desired.published import (
    collect_published_inputs,
    collect_submission_settings,
    collect_submission_values,
)
from reconciler.desired.requirements import find_missing_cells, list_notes
from reconciler.desired.resource_builder import ResourceBuilder
from reconciler.desired.state import Desired, Pins
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import ACCURACY_FROM
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.declared import Declared, DeclaredCell


def compile_desired(
    declared: Declared, ruleset: Ruleset, pins: Pins, reuse: CellCache | None = None, *, noting: bool = False
) -> tuple[Desired, dict[str, set[str]]]:
    """The desired state; and, where ``noting``, which settings each kind of resource read (for the printed reference).

    ``reuse``: what earlier compilations of this process gave; it learns what this one gives.
    """
    making, readers, reuse = ResourceBuilder(), CellReaders(declared, ruleset, pins, noting), reuse or CellCache()
    reuse.begin((ruleset, declared.rehearsal.value, declared.trial, dict(pins.values)))
    kept = {
        cell.cell: reuse.find_cached(cell.cell, cell.settings)
        for cell in declared.cells
        if "infer_from" not in cell.settings
    }
    keys = find_shared_keys(readers, kept)
    own = [cell for cell in declared.cells if cell.cell in kept]
    reuse.cells = {cell.cell: _own(making, readers, keys, cell, kept[cell.cell]) for cell in own}
    for cell in declared.cells:
        if "infer_from" in cell.settings:
            CellCompiler(making, readers, cell).compile_inferred()
        elif ACCURACY_FROM in cell.settings:
            CellCompiler(making, readers, cell).compile_sharing()
    results = [make_upstream_input(str(a), a, r.key) for a, r in making.resources.items() if a.kind is Kind.RESULT]
    inputs = [
        *collect_submission_inputs(collect_submission_values(declared)),
        *collect_published_inputs(declared, pins),
    ]
    shared = sorted(inputs, key=attrgetter("name"))
    making.begin(None)
    making.put(
        Address(Kind.SUBMISSION, declared.name),
        [*shared, *results],
        None,
        None,
    )
    resources = tuple(making.resources.values())
    named = [[str(r.address), r.key, r.attempts] for r in resources]

    @cache
    def detail(address: Address) -> Detail:
        cell = making.makers[address]
        if address not in making.details and cell is not None:
            CellCompiler(making, readers, cell).own(keys)
        return making.details[address]()

    whole = Desired(
        digest=digest({"resources": named, "round": declared.round.value}),
        resources=resources,
        detail=detail,
        name=declared.name,
        by_address={r.address: r for r in resources},
        shared=tuple(shared),
        missing_cells=find_missing_cells(declared, ruleset),
        notes=list_notes(declared, ruleset),
        gaps=find_gaps(declared, ruleset),
        submission=collect_submission_settings(declared),
    )
    return whole, making.noted


def _own(
    making: ResourceBuilder, readers: CellReaders, keys: SharedKeys, cell: DeclaredCell, known: CachedCell
) -> CachedCell:
    """Gives what there is to keep of a cell with runs of its own."""
    common = keys.common[cell.cell.benchmark]
    if known.resources and known.commons == common:
        making.begin(cell)
        for resource in known.resources:
            making.take(resource)
        return known
    CellCompiler(making, readers, cell).own(keys)
    return replace(known, commons=common, resources=tuple(making.given))
