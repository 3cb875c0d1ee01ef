"""Compile a declared submission, a ruleset and pins into desired resources, in display order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from operator import attrgetter

from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS
from reconciler.desired.cell_cache import CachedCell, CellCache
from reconciler.desired.cell_settings import CellReaders
from reconciler.desired.cells import CellCompiler, ResourceBuilder, SharedKeys, find_shared_keys
from reconciler.desired.compliance import find_answer_type, select_tests
from reconciler.desired.detail import Detail
from reconciler.desired.inputs import make_upstream_input
from reconciler.desired.requirements import (
    collect_submission_settings,
    collect_submission_values,
    find_missing_cells,
    list_notes,
    list_published_code,
    list_published_pins,
)
from reconciler.desired.state import Desired, Pins, SampleDemand
from reconciler.errors import Problem
from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import compute_least_queries
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.canonical import digest
from reconciler.resource.inputs import Input, Origin, Value
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.quantities import is_whole
from reconciler.resource.records import QUICK
from reconciler.resource.settings import ACCURACY_FROM, COMMAND, COUNTED, NO_HARDWARE, RESULTS, USUAL
from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.declared import Declared, DeclaredCell, DeclaredSystem, is_filled

# Gaps for which a submission of the declared cells would be refused, found in the spec before anything runs.
#
# None of them prevents a run: a spec is often completed only on the last day. A rehearsal is never submitted, so
# nothing is missing from it.

_FOLLOWING = ("division", "submitter", "status", "system_type")  # derived from the rest of the spec, not described
_COUNT, _UNPUBLISHED = "dataset.settings.count", "dataset.settings.unpublished"
_PACED = ("Server", "Offline", "Interactive")
_LISTED = 4
_OTHER_MAKERS = ("amd", "instinct", "mi300", "intel", "gaudi", "tpu", "qualcomm")
_NOT_OFFICIAL = frozenset(BENCHMARKS) - {"command", "external"}


def find_gaps(declared: Declared, ruleset: Ruleset) -> tuple[Problem, ...]:
    """Find the gaps, each once, at the line to complete. Unknown description fields and answers of unknown type are
    also reported in rehearsals, since a rehearsal's tests must compare the same values as the submission's."""
    if ruleset.layout in PROGRAMS:  # other programs have their own description fields and disclosures
        return load_program(ruleset.layout).find_gaps(declared)
    misnamed = [gap for system in declared.systems.values() for gap in _find_misnamed_fields(system)]
    found = list({(gap.file, gap.line, gap.column): gap for gap in misnamed}.values())
    found += [gap for cell in declared.cells for gap in _find_untyped_answers(cell, ruleset)]
    if not declared.rehearsal.value:
        for name in dict.fromkeys(cell.cell.system for cell in declared.cells):
            found += _find_empty_fields(declared.systems[name], ruleset)
            found += _find_miscounts(declared.systems[name])
        for cell in declared.cells:
            found += _find_cell_gaps(cell, ruleset)
        found += _find_missing_documents(declared, ruleset)
    return tuple(dict.fromkeys(found))


def _find_misnamed_fields(system: DeclaredSystem) -> Iterator[Problem]:
    for name, (origin, meant) in system.unknown.items():
        near = f"did you mean {meant}? " if meant else ""
        fix = f"{near}`reconcile explain spec.systems.description` lists the fields"
        yield origin.make_problem(f"spec.systems.{system.name}.description", f"no checker reads the field {name}", fix)


def _find_empty_fields(system: DeclaredSystem, ruleset: Ruleset) -> Iterator[Problem]:
    """Report the fields of systems/<name>.json that must not be empty. A field that the spec lists without a value is
    reported at its line; all other fields of a system are reported as one gap."""
    meant = {near for _, near in system.unknown.values()}
    named = (field.name for field in ruleset.system_fields if field.filled)
    empty = {name: system.description.get(name) for name in named if name not in (*_FOLLOWING, *meant)}
    command = f"reconcile detect --system {system.name} --write"
    fix = f"`{command}` on that machine fills in the detectable fields; add the rest by hand"
    path, what = f"spec.systems.{system.name}.description", f"the description of {system.name} has no"
    for name, value in empty.items():
        if value is not None and not is_filled(value):
            yield value.origin.make_problem(f"{path}.{name}", f"{what} {name}", fix)
    absent = [name for name, value in empty.items() if value is None]
    if absent:
        listed = ", ".join(absent[:_LISTED]) + (f" and {len(absent) - _LISTED} more" if len(absent) > _LISTED else "")
        yield system.origin.make_problem(path, f"{what} {listed}", fix)


def _find_miscounts(system: DeclaredSystem) -> Iterator[Problem]:
    """Report counts that differ between the published description and the hardware that runs require."""
    for field, setting in COUNTED.items():
        described, declared = system.description.get(field), system.settings.get(setting)
        if described is None or declared is None or not str(described.value).strip().isdecimal():
            continue
        if int(str(described.value)) != int(str(declared.value)):
            message = f"{field} is {described.value}, and the hardware of {system.name} has {declared.value}"
            fix = f'write {field}: "{declared.value}", or correct {setting} ({declared.origin})'
            yield described.origin.make_problem(f"spec.systems.{system.name}.description.{field}", message, fix)


def _find_cell_gaps(cell: DeclaredCell, ruleset: Ruleset) -> Iterator[Problem]:
    settings, division = cell.settings, cell.cell.division
    if "infer_from" in settings:
        return
    official, code = cell.official or cell.origin, cell.code
    path = f"spec.benchmarks.{cell.cell.benchmark}"
    if code is not None and code.value in _NOT_OFFICIAL and ruleset.binds(division, "accuracy"):
        facts = find_benchmark_facts(str(code.value))
        if facts is None or str(official.value) not in facts.names.values():
            what = BENCHMARKS[str(code.value)].help
            fix = "use the code of the official benchmark, move the cell to the open division, or set `rehearsal: true`"
            message = f"{code.value} ({what}) does not use the data and model of {official.value}"
            yield code.origin.make_problem(path, f"{message}, which the closed division requires", fix)
            return
    yield from _find_dataset_gaps(cell, path, ruleset)
    yield from _find_wrong_device(cell, path)
    if cell.cell.scenario in _PACED and not _has_target(cell):
        message = f"target_qps is missing: LoadGen would use 1 query/s in {cell.cell.scenario}"
        fix = f"write '{cell.cell.scenario}: {{target_qps: …}}', the rate you expect"
        yield cell.origin.origin.make_problem(f"spec.divisions.{str(cell.cell).replace('/', '.')}", message, fix)
    absent = [name for name in ruleset.measurements_fields if not is_filled(settings.get(f"measurements.{name}"))]
    if absent:
        fix = f"write 'measurements: {{{absent[0]}: …}}' there; the fields are published in measurements.json"
        yield _choose_origin(code, official, cell).make_problem(path, f"measurements lack {', '.join(absent)}", fix)
    if COMMAND in settings and "harness.code" not in settings and not list_published_code(cell):
        message = f"the command of {cell.cell.benchmark} does not declare its code, so its code is not published"
        fix = "write 'code: FOLDER' next to the command, or `source` in the benchmark"
        yield settings[COMMAND].origin.make_problem(f"{path}.harness", message, fix)


def _find_untyped_answers(cell: DeclaredCell, ruleset: Ruleset) -> Iterator[Problem]:
    """Report a command whose answers have no known type: a test that compares their first element must know its
    size."""
    command = cell.settings.get(COMMAND)
    if command is None or "infer_from" in cell.settings:
        return
    official = cell.official
    rules = ruleset.find_benchmark(str(official.value)) if official is not None else None
    for rules_of_test in select_tests(cell, rules, ruleset):
        name, test = rules_of_test.name, find_test(rules_of_test.name)
        dtype, origin = find_answer_type(cell.settings, name)
        if dtype or not test.unknown_dtype:
            continue
        message = f"the data type of the answers that {name} compares is unknown, so they must match as any type"
        fix = f"write 'compliance: {{{name}: {{dtype: TYPE}}}}' in the benchmark; types: {', '.join(test.dtypes)}"
        at = origin if origin.line else command.origin
        yield at.make_problem(f"spec.benchmarks.{cell.cell.benchmark}.compliance", message, fix)


def _find_dataset_gaps(cell: DeclaredCell, path: str, ruleset: Ruleset) -> Iterator[Problem]:
    """Report a dataset that is declared with fewer samples than the round's, or with unpublished samples."""
    demand = _demand_samples(cell, ruleset)
    count, unpublished = cell.settings.get(_COUNT), cell.settings.get(_UNPUBLISHED)
    if demand and count is not None and is_whole(count.value) and 0 < count.value < demand.least:
        yield demand.gap._replace(message=f"{count.value} samples: {demand.gap.message}")
    if unpublished is not None and unpublished.value is True and ruleset.binds(cell.cell.division, "accuracy"):
        message = "unpublished samples: the closed division requires the published dataset"
        fix = "remove unpublished, move the cell to the open division, or set `rehearsal: true`"
        yield unpublished.origin.make_problem(f"{path}.{_UNPUBLISHED}", message, fix)


def _demand_samples(cell: DeclaredCell, ruleset: Ruleset) -> SampleDemand | None:
    """Return the number of samples that the round requires of the cell's dataset; None if it accepts any."""
    division, count = cell.cell.division, cell.settings.get(_COUNT)
    rules = ruleset.find_rules(division, str(cell.official.value)) if cell.official else None
    least = rules.get_value("dataset_size", cell.cell.scenario) if rules else None
    if rules is None or least is None or not ruleset.binds(division, "accuracy_samples"):
        return None
    moved = "" if ruleset.binds("open", "accuracy_samples") else ", move the cell to the open division"
    way = "remove count" if count else f"use the complete dataset of {rules.name}"
    message, fix = f"the {division} division requires {least:,}", f"{way}{moved}, or set `rehearsal: true`"
    origin = count.origin if count else _choose_origin(cell.code, cell.official or cell.origin, cell)
    path = f"spec.benchmarks.{cell.cell.benchmark}{f'.{_COUNT}' if count else ''}"
    return SampleDemand(cell.cell, int(least), origin.make_problem(path, message, fix))


def list_sample_demands(declared: Declared, ruleset: Ruleset) -> tuple[SampleDemand, ...]:
    """List the demands on datasets whose size only a record shows."""
    if declared.rehearsal.value or ruleset.layout in PROGRAMS:
        return ()
    cells = (cell for cell in declared.cells if "infer_from" not in cell.settings and _COUNT not in cell.settings)
    return tuple(demand for cell in cells if (demand := _demand_samples(cell, ruleset)))


def _find_wrong_device(cell: DeclaredCell, path: str) -> Iterator[Problem]:
    """Report a backend that leaves the declared accelerator idle, or that needs one that is not declared."""
    backend, accelerator, system = cell.backend, cell.accelerator, cell.cell.system
    facts = BACKENDS.get(str(backend.value)) if backend is not None else None
    if backend is None or facts is None or not facts.drives or COMMAND in cell.settings:
        return
    named = str(accelerator.value) if accelerator is not None else ""
    there = named.lower() not in NO_HARDWARE
    if facts.drives == "cpu" and there:
        able = ", ".join(name for name, other in BACKENDS.items() if other.drives == "nvidia")
        what = f"computes on the CPU and leaves {named} of {system} idle"
        fix = f"use a backend that supports it ({able}), or remove accelerator"
    elif there and any(other in named.lower() for other in _OTHER_MAKERS):
        what = f"needs NVIDIA GPUs, but {system} declares {named}"
        fix = "use a backend that supports it, or `harness: {command: …}`"
    elif facts.drives == "nvidia" and not there:
        what = f"needs an NVIDIA GPU, but {system} declares no accelerator"
        fix = f"write 'hardware: {{accelerator: …, count: …}}' in spec.systems.{system}"
    else:
        return
    yield backend.origin.make_problem(path, f"backend {backend.value} {what}", fix)


def _choose_origin(code: Value | None, official: Value, cell: DeclaredCell) -> Origin:
    origins = (value.origin for value in (code, official) if value is not None and value.origin.line)
    return next(origins, cell.origin.origin)


def _has_target(cell: DeclaredCell) -> bool:
    settings = cell.settings
    if keys.TARGET_QPS in settings or (RESULTS in settings and settings[RESULTS].value != USUAL):
        return True
    if "harness.user_conf" in settings and settings["harness.user_conf"].value == "harvested":
        return True  # the command writes it
    return _is_external(cell)


def _find_missing_documents(declared: Declared, ruleset: Ruleset) -> Iterator[Problem]:
    # No records describe how these cells' models were made.
    elsewhere = [cell for cell in declared.cells if COMMAND in cell.settings or _is_external(cell)]
    bound = any(ruleset.binds(cell.cell.division, "calibration") for cell in elsewhere)
    if not bound or "documents.calibration" in declared.settings:
        return
    message = (
        "no calibration document is declared; the closed division publishes one as documentation/calibration.md, "
        "and it cannot be derived from runs of a command or imported runs"
    )
    fix = "write 'documents: {calibration: docs/calibration.md}' in spec"
    yield declared.submitter.origin.make_problem("spec.documents", message, fix)


def _is_external(cell: DeclaredCell) -> bool:
    return cell.code is not None and cell.code.value == "external"


def compile_desired(
    declared: Declared, ruleset: Ruleset, pins: Pins, reuse: CellCache | None = None, *, noting: bool = False
) -> tuple[Desired, dict[str, set[str]]]:
    """Compile the desired state. With ``noting``, also return the settings that each kind of resource read, for the
    printed reference.

    ``reuse``: the cells compiled earlier in this process; this compilation updates it.
    """
    making, readers, reuse = ResourceBuilder(), CellReaders(declared, ruleset, pins, noting), reuse or CellCache()
    reuse.begin((ruleset, declared.rehearsal.value, declared.trial, dict(pins.values)))
    kept = {
        cell.cell: reuse.find_cached(cell.cell, cell.settings)
        for cell in declared.cells
        if "infer_from" not in cell.settings
    }
    keys = find_shared_keys(readers, kept)
    measured = [cell for cell in declared.cells if cell.cell in kept]
    reuse.cells = {cell.cell: _compile_own(making, readers, keys, cell, kept[cell.cell]) for cell in measured}
    for cell in declared.cells:
        if "infer_from" in cell.settings:
            CellCompiler(making, readers, cell).compile_inferred()
        elif ACCURACY_FROM in cell.settings:
            CellCompiler(making, readers, cell).compile_sharing()
    results = [make_upstream_input(str(a), a, r.key) for a, r in making.resources.items() if a.kind is Kind.RESULT]
    values = collect_submission_values(declared)
    own = [Input(name, value.value, value.origin) for name, value in values.items()]
    shared = sorted([*own, *pins.list_inputs(list_published_pins(declared))], key=attrgetter("name"))
    making.begin(None)
    making.put(Address(Kind.SUBMISSION, declared.name), [*shared, *results], None, None)
    resources = tuple(making.resources.values())
    named = [[str(r.address), r.key, r.attempts] for r in resources]

    @cache
    def detail(address: Address) -> Detail:
        cell = making.makers[address]
        if address not in making.details and cell is not None:
            CellCompiler(making, readers, cell).compile_own(keys)
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
        sample_demands=list_sample_demands(declared, ruleset),
        submission=collect_submission_settings(declared),
    )
    return whole, making.noted


def _compile_own(
    making: ResourceBuilder, readers: CellReaders, keys: SharedKeys, cell: DeclaredCell, known: CachedCell
) -> CachedCell:
    """Compile a cell with its own runs, or reuse it, and return its cache entry."""
    common = keys.common[cell.cell.benchmark]
    if known.resources and known.commons == common:
        making.begin(cell)
        for resource in known.resources:
            making.take(resource)
        return known
    CellCompiler(making, readers, cell).compile_own(keys)
    return replace(known, commons=common, resources=tuple(making.given))


# Trial of a declared submission: each run is made once; with `--quick` it is shortened.

_OVER = 2  # queries that may exceed the percentile's latency in a run this short
_COMMON = Decimal(99)  # percentile if the round sets none
_ORIGIN = Origin("--quick")


def prepare_trial(declared: Declared, ruleset: Ruleset) -> Declared:
    """Limit each run to one attempt: an INVALID run is also an answer. A quick run is as short as LoadGen allows for a
    VALID one; shorter values in the spec are kept."""
    return replace(declared, cells=tuple(_prepare(declared, cell, ruleset) for cell in declared.cells))


def _prepare(declared: Declared, cell: DeclaredCell, ruleset: Ruleset) -> DeclaredCell:
    settings = {name: value for name, value in cell.settings.items() if name != "attempts"}
    if declared.trial == QUICK and "infer_from" not in settings:
        _lower(settings, keys.MIN_DURATION, declared.quick)
        _lower(settings, keys.MIN_QUERY_COUNT, _count_queries(cell, ruleset, declared.quick))
    return replace(cell, settings=dict(sorted(settings.items())))


def _lower(settings: dict[str, Value], name: str, most: int) -> None:
    declared = settings.get(name)
    if declared is None or int(str(declared.value)) > most:
        settings[name] = Value(most, _ORIGIN)


def _count_queries(cell: DeclaredCell, ruleset: Ruleset, quick: int) -> int:
    """Return the minimum number of queries, or of samples in Offline, which has no percentile to prove. Without a
    minimum duration, only their number makes a run last ``quick`` ms."""
    over = 0 if name_loadgen_scenario(cell.cell.scenario) == "Offline" else _OVER
    least = compute_least_queries(over, _get_percentile(cell, ruleset))
    duration, rate = cell.settings.get(keys.MIN_DURATION), cell.settings.get(keys.TARGET_QPS)
    if duration is None or int(str(duration.value)) or rate is None:
        return least
    return max(least, math.ceil(Decimal(str(rate.value)) * quick / 1000))


def _get_percentile(cell: DeclaredCell, ruleset: Ruleset) -> Decimal:
    rules = ruleset.find_rules(cell.cell.division, str(cell.official.value)) if cell.official else None
    ruled = rules.get_value(keys.TARGET_LATENCY_PERCENTILE, cell.cell.scenario) if rules else None
    return Decimal(str(ruled)) if ruled is not None else _COMMON
