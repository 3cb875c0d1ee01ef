"""Checks of a declared submission that need its round's rules. All problems are reported at once, each at its line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from harness.catalog import BACKENDS
from reconciler.desired.cell_settings import find_source_cell
from reconciler.desired.compliance import ASKED, has_test, list_asked_tests
from reconciler.errors import Problem, ReconcilerError, SpecError, suggest_nearest
from reconciler.loadgen import keys
from reconciler.loadgen.user_conf import select_settings
from reconciler.resource.canonical import show_decimal
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import SCENARIOS, Cell
from reconciler.resource.programs import find_program_of_results
from reconciler.resource.quantities import join_listing
from reconciler.resource.queues import EXECUTOR, QUEUES, find_queue, find_queues
from reconciler.resource.ruled_values import Bar, Presence
from reconciler.resource.settings import (
    ADAPTER,
    COMMAND,
    DIRECTOR,
    SERVICE_COMMAND,
    STATE_EXPECT,
    STATE_READ,
    STATE_RESTORE,
    STATE_SET,
)
from reconciler.resource.wording import show_value
from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.rules.compliance.judging import TESTS
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import find_declared_format
from reconciler.rules.ruled_value import choose_strict_side, is_field
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.spec.declared import Declared, DeclaredCell, Reading
from reconciler.storage.launch.adapters import can_start_bare
from reconciler.storage.launch.launcher import LAUNCHER, NO_PYTHON, PYTHON, Launcher

# Reasons why a cell may not use another cell's runs (`infer_from`). A scenario folder may contain the logs of another
# scenario (``Ruleset.find_inference``); a benchmark's variant with a laxer bar may use the runs of the stricter one.


def explain_refusal(ruleset: Ruleset, source: str, scenario: str, category: str) -> str:
    """Explain why a scenario may not be inferred from another on a system of this category; "" if it may."""
    if ruleset.find_inference(scenario, source, category) is not None:
        return ""
    able = [rule for rule in ruleset.inferences if rule.scenario == scenario]
    if not able:
        return f"round {ruleset.round} never infers {scenario}"
    if any(rule.measured == source for rule in able):
        categories = sorted({rule.category for rule in able if rule.measured == source})
        return f"{scenario} is inferred from {source} on {' and '.join(categories)} systems only"
    return f"{scenario} is inferred from {' or '.join(dict.fromkeys(rule.measured for rule in able))} only"


def explain_variant_refusal(source: BenchmarkRules, target: BenchmarkRules, scenario: str) -> str:
    """Explain why a benchmark variant may not use another variant's runs; "" if it may."""
    same = ("model_key", "dataset_size")
    if any(source.get_value(name, scenario) != target.get_value(name, scenario) for name in same):
        return f"{source.name} and {target.name} are not variants of one benchmark"
    strict = {bar.metric: bar for bar in source.list_bars(scenario)}
    for bar in target.list_bars(scenario):
        if bar.metric not in strict or not _is_stricter(strict[bar.metric], bar):
            return f"{source.name} does not have the stricter bar for {bar.metric}"
    return ""


def _is_stricter(source: Bar, target: Bar) -> bool:
    least = target.least is None or (source.least is not None and source.least >= target.least)
    most = target.most is None or (source.most is not None and source.most <= target.most)
    return least and most


def check(declared: Declared, ruleset: Ruleset) -> None:
    """Raise SpecError for every cell that the round forbids or that cannot be run as declared."""
    if problems := find_problems(declared, ruleset):
        raise SpecError(problems)


def check_reading(reading: Reading, load_ruleset: Callable[[str], Ruleset]) -> tuple[Declared, Ruleset]:
    """Check the declaration against its round's rules. Raises SpecError with the problems found while reading, and the
    rule violations in everything that could be read."""
    declared = reading.declared
    if declared is None or any(problem.path == "spec.round" for problem in reading.problems):
        raise SpecError(list(reading.problems))
    try:
        ruleset = load_ruleset_of(declared, load_ruleset)
    except SpecError as error:
        raise SpecError([*reading.problems, *error.problems]) from error
    ruled = find_problems(declared, ruleset, [problem.path for problem in reading.problems])
    found = {(each.file, each.line, each.column): each for each in reversed([*reading.problems, *ruled])}
    if problems := [*reading.problems, *(each for each in ruled if each in found.values())]:
        raise SpecError(problems)
    return declared, ruleset


def find_problems(declared: Declared, ruleset: Ruleset, wrong: Sequence[str] = ()) -> list[Problem]:
    """Find all problems, without duplicates. ``wrong``: paths of the spec that were already refused; values that depend
    on them are not checked."""
    problems: list[Problem] = []
    for cell in declared.cells:
        c = cell.cell
        about = (f"spec.systems.{c.system}", f"spec.benchmarks.{c.benchmark}", "spec.defaults")
        own = f"spec.divisions.{c.division}.{c.system}.{c.benchmark}"
        known = c.system in declared.systems and (not wrong or "benchmark.official" in cell.settings)
        if not known or any(_is_within(path, (*about, own)) for path in wrong):
            continue
        problems += _check_cell(declared, cell, ruleset)
    problems += _find_double_entries(declared, ruleset)
    return list({(each.file, each.line, each.column, each.message): each for each in reversed(problems)}.values())[::-1]


def _is_within(path: str, above: Sequence[str]) -> bool:
    return any(path == top or path.startswith(f"{top}.") for top in above)


def _find_double_entries(declared: Declared, ruleset: Ruleset) -> Iterator[Problem]:
    """Find cells that would get the same folder in divisions whose folders have official names."""
    entered: dict[Cell, DeclaredCell] = {}
    for cell in declared.cells:
        official = cell.official
        if official is None or ruleset.binds(cell.cell.division, "model_mapping"):
            continue
        first = entered.setdefault(replace(cell.cell, benchmark=str(official.value)), cell)
        if first is not cell:
            message = f"{cell.cell} and {first.cell} are both submitted as {official.value}"
            fix = "keep one of them, or move one to the open division, which allows other folder names"
            yield make_cell_problem(cell, None, message, fix)


def make_cell_problem(cell: DeclaredCell, value: Value | None, message: str, fix: str) -> Problem:
    """Report a problem at the line of a value, or of its cell if the value has no line."""
    origin = value.origin if value is not None and value.origin.line else cell.origin.origin
    path = f"spec.divisions.{str(cell.cell).replace('/', '.')}"
    return origin.make_problem(path, message, fix)


def _check_cell(declared: Declared, cell: DeclaredCell, ruleset: Ruleset) -> list[Problem]:
    official = cell.official
    name = str(official.value) if official else cell.cell.benchmark
    rules = ruleset.find_rules(cell.cell.division, name)
    if rules is None and name in ruleset.earlier:
        message = f"round {ruleset.round} no longer has benchmark {name!r}"
        fix = "move it to the open division, which takes benchmarks of earlier rounds, or choose a round that has"
        fix += f" {name}"
        return [make_cell_problem(cell, official, message, fix)]
    if rules is None:
        taken = (*ruleset.benchmarks, *ruleset.earlier)
        known = sorted(known for known in taken if ruleset.find_rules(cell.cell.division, known))
        message = f"round {ruleset.round} has no benchmark {name!r}"
        near, choice = suggest_nearest(name, known), f"set `as:` in benchmarks.{cell.cell.benchmark} to"
        fix = f"{near}{choice} it" if near else f"{choice} its official benchmark: {', '.join(known)}"
        return [make_cell_problem(cell, official, message, fix)]
    problems = _check_scenario(declared, cell, rules, ruleset) + _check_values(cell) + _check_sparsity(cell, ruleset)
    problems += _check_service(declared, cell) + _check_queues(declared, cell) + _check_power(declared, cell)
    program = find_program_of_results(find_declared_format(cell.settings).NAME)
    problems += _check_power_state(declared, cell) + _check_store(declared, cell) + _check_interpreter(declared, cell)
    problems += _check_benchmark_name(cell, name, ruleset)
    if program:
        problems += load_program(program).check_cell(cell, rules, ruleset)
    else:
        problems += _check_tests(cell, rules, ruleset)
    if "infer_from" in cell.settings:
        return problems + _check_inference(declared, cell, rules, ruleset)
    if not cell.backend and ADAPTER not in cell.settings:  # else already reported
        fix = f"add `engine: {{backend: onnxruntime}}` to benchmarks.{cell.cell.benchmark}"
        problems.append(make_cell_problem(cell, None, "no backend is declared for this cell", fix))
    problems += _check_query_limit(cell, rules, ruleset)
    if not (declared.rehearsal.value or declared.trial):
        problems += _check_bounds(cell, rules, ruleset)
        if ruleset.binds(cell.cell.division, "accuracy"):
            problems += _check_answer_lengths(cell, rules) + _check_latency(cell, rules) + _check_shortcuts(cell)
    return problems


def _check_scenario(declared: Declared, cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    if not ruleset.binds(cell.cell.division, "scenarios"):
        return []
    category = declared.systems[cell.cell.system].category
    if category is None or rules.find_presence(str(category.value), cell.cell.scenario) is not Presence.FORBIDDEN:
        return []
    kind = str(category.value)
    allowed = [name for name in SCENARIOS if rules.find_presence(kind, name) is not Presence.FORBIDDEN]
    system = f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind} system"
    message = f"round {ruleset.round} does not allow {cell.cell.scenario} for {rules.name} on {system}"
    message += f" in the {cell.cell.division} division"
    allowed_text = f"allowed here: {', '.join(allowed)}" if allowed else f"no scenario of {rules.name} is allowed here"
    return [make_cell_problem(cell, None, message, f"remove the cell or move it to the open division; {allowed_text}")]


def _check_benchmark_name(cell: DeclaredCell, official: str, ruleset: Ruleset) -> list[Problem]:
    """Refuse a benchmark whose name now refers to a different benchmark."""
    code = cell.code
    facts = find_benchmark_facts(str(code.value)) if code else None
    if facts is None or not facts.until or not ruleset.binds(cell.cell.division, "accuracy"):
        return []
    message = f"{facts.title}: in round {ruleset.round} {official} is another benchmark"
    return [make_cell_problem(cell, code, message, "move the cell to the open division")]


def _check_sparsity(cell: DeclaredCell, ruleset: Ruleset) -> list[Problem]:
    """Refuse pruned weights in a division that requires the reference's accuracy: it requires its weights as well."""
    sparsity = cell.sparsity
    if sparsity is None or not ruleset.binds(cell.cell.division, "accuracy"):
        return []
    message = f"the {cell.cell.division} division does not allow weights to be discarded"
    fix = "remove model.settings.sparsity, or move the cell to the open division"
    return [make_cell_problem(cell, sparsity, message, fix)]


def _check_power(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    """Refuse to measure the power of a harness command: the power kit starts each run twice, so only our own harness
    can be measured."""
    director = declared.systems[cell.cell.system].settings.get(DIRECTOR)
    if director is None or COMMAND not in cell.settings:
        return []
    message = "cannot measure the power of a harness command: the kit's client starts each run twice"
    fix = "start the client in the command, and set the cell's `power` to its folder"
    return [make_cell_problem(cell, director, message, fix)]


def _check_service(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    """Refuse a service on a system with a queue, since each run is a separate job on any free node."""
    service = cell.settings.get(SERVICE_COMMAND)
    if service is None or not find_queue(declared.systems[cell.cell.system].settings):
        return []
    message = "a service needs a permanent machine, but this system runs its steps as queue jobs"
    return [make_cell_problem(cell, service, message, "start the server in the harness command, or use a launcher")]


def _check_interpreter(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    """Refuse runs that need our package in an image without it, and launchers that cannot start a command without
    it."""
    settings = declared.systems[cell.cell.system].settings
    python, launcher = settings.get(PYTHON), settings.get(LAUNCHER)
    if python is None or python.value != NO_PYTHON:
        return []
    words = tuple(launcher.value) if launcher is not None else ()
    if not words or not can_start_bare(Launcher(words)):
        message = "a command without an interpreter needs a container or another local program as launcher"
        fix = "set `python` to the interpreter with mlperf-reconciler, or start the container in harness.command"
        return [make_cell_problem(cell, python, message, fix)]
    backend = BACKENDS.get(str(cell.backend.value)) if cell.backend else None
    asks = SERVICE_COMMAND in cell.settings and backend is not None and backend.serves
    if COMMAND in cell.settings or "infer_from" in cell.settings or asks or backend is None or backend.elsewhere:
        return []
    message = "this cell has no harness.command, and an image without Python cannot run it"
    fix = "declare harness.command, or set `python` to the image's interpreter with mlperf-reconciler"
    return [make_cell_problem(cell, python, message, fix)]


def _check_queues(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    settings = declared.systems[cell.cell.system].settings
    found = find_queues(settings)
    if len(found) < 2:
        return []
    message = f"a system uses one queue, not {' and '.join(QUEUES[name].title for name in found)}"
    fix = "keep one below `executor`, or declare two systems"
    return [make_cell_problem(cell, settings[f"{EXECUTOR}.{found[1]}"], message, fix)]


def _check_store(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    settings = declared.systems[cell.cell.system].settings
    value = settings.get(f"{EXECUTOR}.{find_queue(settings)}.store")
    stores = declared.settings["stores"].value if "stores" in declared.settings else None
    known = tuple(stores) if isinstance(stores, Mapping) else ()
    if value is None or value.value in known:
        return []
    fix = f"{suggest_nearest(str(value.value), known)}declare it: `stores: {{{value.value}: {{url: s3://bucket/folder}}}}`"
    return [make_cell_problem(cell, value, f"no store {str(value.value)!r} is declared", fix)]


def _check_power_state(declared: Declared, cell: DeclaredCell) -> list[Problem]:
    settings = declared.systems[cell.cell.system].settings
    parts = (STATE_SET, STATE_RESTORE, STATE_READ, STATE_EXPECT)
    said = [settings[name] for name in parts if name in settings]
    missing = [name.partition(".")[2] for name in parts if name not in settings]
    if not said or not missing:
        return []
    message = f"power_state has no {' and '.join(missing)}: reconcile sets, verifies and restores the state"
    return [make_cell_problem(cell, said[0], message, "declare set, restore, read and expect")]


def _check_tests(cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    """Refuse compliance tests that do not exist in this round, belong to other benchmarks, or are not supported
    here."""
    problems = []
    for test in list_asked_tests(cell):
        own = next((v for n, v in cell.settings.items() if n.startswith(f"{ASKED}{test}.dataset.")), None)
        if own is not None and has_test(rules, test, cell.cell.scenario):
            compared = " and ".join(rules.find_test(test, cell.cell.scenario).compared_with)
            if compared:
                message = f"{test} is compared with the {compared} run, and must read the same samples"
                problems.append(make_cell_problem(cell, own, message, f"remove the dataset of {test}"))
        known = has_test(rules, test, cell.cell.scenario) and test in TESTS
        if known and test in rules.list_stated_tests():
            continue
        named = ", ".join(rules.compliance_tests) or "no test"
        fix = f"remove it; round {rules.round} requires {named} of {rules.name}"
        if known:
            others = [other.name for other in ruleset.benchmarks.values() if test in other.compliance_tests]
            fix += f", and {test} of {join_listing(others, most=12) or 'none'}"
        value = cell.settings[f"{ASKED}{test}"]
        problems.append(make_cell_problem(cell, value, f"there is no {test} for {rules.name} in this round", fix))
    return problems


def _check_values(cell: DeclaredCell) -> list[Problem]:
    """Refuse settings that LoadGen's user.conf cannot express, such as half a millisecond for a Server latency."""
    with contextlib.suppress(ReconcilerError):
        select_settings(cell.cell.scenario, {name: value.value for name, value in cell.settings.items()})
        return []  # true for nearly every cell
    problems = []
    for name, value in cell.settings.items():
        try:
            select_settings(cell.cell.scenario, {name: value.value})
        except ReconcilerError as error:
            problems.append(make_cell_problem(cell, value, error.message, error.fix))
    return problems


def _check_inference(declared: Declared, cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    """Explain why the cell named in ``infer_from`` is not declared, has no runs itself, or may not be used here."""
    value, source = cell.settings["infer_from"], find_source_cell(cell)
    found = next((other for other in declared.cells if other.cell == source), None)
    if found is None or "infer_from" in found.settings:
        message = f"{source} is {'itself inferred' if found else 'not declared'}, so nothing can be inferred from it"
        here = [other for other in declared.cells if other.cell.system == cell.cell.system]
        able = [str(other.cell) for other in here if "infer_from" not in other.settings]
        return [make_cell_problem(cell, value, message, f"set infer_from to a measured cell: {', '.join(able)}")]
    form = find_declared_format(found.settings)
    if form.TESTS_ITSELF:
        message = f"{source} has {form.LEAVES}, which cannot be used to infer another scenario"
        return [make_cell_problem(cell, value, message, "remove infer_from, so that the cell is measured")]
    category = str(declared.systems[cell.cell.system].settings["system.category"].value)
    if source.scenario != cell.cell.scenario:
        why = explain_refusal(ruleset, source.scenario, cell.cell.scenario, category)
    else:
        other = ruleset.find_rules(source.division, str(found.settings["benchmark.official"].value))
        unknown = f"round {ruleset.round} has no {source.benchmark}"
        why = explain_variant_refusal(other, rules, source.scenario) if other else unknown
    return [make_cell_problem(cell, value, why, "remove infer_from, so that the cell is measured")] if why else []


class _Demand(NamedTuple):
    """A setting and the rule that a checker compares with its logged value. ``unit``: its name in messages; ``size``:
    what one such unit is in the unit of specs. ``scenarios``: those in which checkers read it, all if empty.
    ``bound``, ``unbound``: a demand that must bind the division, and one that must not. ``whole``: 0 means all samples,
    or no bound."""

    setting: str
    rule: str
    unit: str
    size: int = 1
    scenarios: tuple[str, ...] = ()
    bound: str = ""
    unbound: str = ""
    whole: bool = False

    def applies(self, cell: DeclaredCell, ruleset: Ruleset) -> bool:
        """Return True if a checker reads the setting in the cell's scenario and division."""
        binds = partial(ruleset.binds, cell.cell.division)
        if (self.bound and not binds(self.bound)) or (self.unbound and binds(self.unbound)):
            return False
        return not self.scenarios or cell.cell.scenario in self.scenarios


_ISSUED = ("SingleStream", "MultiStream", "Server", "Interactive")
_ACCURACY_COUNT, _QUERY_SIZE = "exact_accuracy_sample_count", "least_samples_per_query"
_DEMANDS = (
    _Demand(keys.MIN_DURATION, "least_min_duration", "s", 10**3),
    _Demand(keys.MAX_DURATION, "least_min_duration", "s", 10**3, whole=True),
    _Demand(keys.PERFORMANCE_SAMPLE_COUNT, "least_performance_sample_count", "samples", whole=True),
    _Demand(keys.ACCURACY_SAMPLE_COUNT, _ACCURACY_COUNT, "samples", bound="accuracy_samples", whole=True),
    _Demand(keys.TARGET_LATENCY, "most_target_latency", "ms", 10**6),
    # In Offline, LoadGen uses the minimum number of queries as the minimum number of samples in its single query.
    _Demand(keys.MIN_QUERY_COUNT, _QUERY_SIZE, "samples", scenarios=("Offline",), bound=_QUERY_SIZE),
    # Rounds before early stopping require a number of queries.
    _Demand(keys.MIN_QUERY_COUNT, "least_query_count", "queries", scenarios=_ISSUED, unbound="early_stopping"),
)
_BOUNDS = {"least": "at least", "most": "at most", "": "exactly"}


def _check_bounds(cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    """Refuse settings that no checker would accept, except in a rehearsal. Query counts are not checked for runs made
    elsewhere: their logs contain the real counts."""
    scenario, problems = cell.cell.scenario, []
    for demand in _DEMANDS:
        value, ruled = cell.settings.get(demand.setting), rules.get_value(demand.rule, scenario)
        if value is None or ruled is None or not demand.applies(cell, ruleset):
            continue
        if demand.setting == keys.MIN_QUERY_COUNT and not _issues_queries(cell):
            continue
        side = choose_strict_side(demand.rule)
        if _fulfils(side, int(value.value), int(ruled)) or (demand.whole and not int(value.value)):
            continue
        said, asked = (
            f"{show_decimal(Decimal(int(found)) / demand.size)} {demand.unit}" for found in (value.value, ruled)
        )
        message = f"{demand.setting} is {said}; round {ruleset.round} requires {_BOUNDS[side]} {asked}"
        own = rules.get_value(demand.setting, scenario) if is_field(demand.setting) else None
        enough = own is None or _fulfils(side, int(own), int(ruled))
        way = f"remove {demand.setting}" if enough else f"write {demand.setting}: {ruled}"
        fix = f"{way}, or set `rehearsal: true` (its results are marked and cannot be packaged)"
        problems.append(make_cell_problem(cell, value, message, fix))
    return problems


def _fulfils(side: str, value: int, ruled: int) -> bool:
    return value == ruled if not side else value >= ruled if side == "least" else value <= ruled


def _check_query_limit(cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    """Refuse a maximum of queries below the round's minimum, even in a rehearsal, because LoadGen would call the run
    INVALID. A minimum that the spec declares was already compared with it when the spec was read."""
    scenario, most = cell.cell.scenario, cell.settings.get(keys.MAX_QUERY_COUNT)
    least = rules.get_value(keys.MIN_QUERY_COUNT, scenario)
    if most is None or least is None or keys.MIN_QUERY_COUNT in cell.settings or scenario not in _ISSUED:
        return []
    if not 0 < int(most.value) < int(least) or not _issues_queries(cell):
        return []
    message = f"max_query_count is {most.value}; round {ruleset.round} requires at least {least} queries"
    return [make_cell_problem(cell, most, message, f"remove max_query_count, or write {least} or more")]


def _issues_queries(cell: DeclaredCell) -> bool:
    """Return True if LoadGen will issue the queries of this cell's runs here."""
    backend = BACKENDS.get(str(cell.backend.value)) if cell.backend else None
    imported = backend is not None and backend.elsewhere
    return not imported and find_declared_format(cell.settings).READS_CONF


def _check_latency(cell: DeclaredCell, rules: BenchmarkRules) -> list[Problem]:
    """Refuse a latency bound for a language model in a division that requires its accuracy: LoadGen reads only its
    token latencies."""
    scenario, value = cell.cell.scenario, cell.settings.get(keys.TARGET_LATENCY)
    if value is None or not _issues_queries(cell):
        return []
    if scenario not in ("Server", "Interactive") or not rules.get_value("use_token_latencies", scenario):
        return []
    bounds = [
        f"{name} {show_value(keys.TARGET_LATENCY, bound)}"
        for name in ("ttft_latency", "tpot_latency")
        if (bound := rules.get_value(name, scenario)) is not None
    ]
    message = f"target_latency has no effect: {rules.name} in {scenario} is limited by {join_listing(bounds)}"
    return [make_cell_problem(cell, value, message, "take target_latency out")]


def _check_answer_lengths(cell: DeclaredCell, rules: BenchmarkRules) -> list[Problem]:
    """Refuse answer lengths other than the round's in a division that requires its accuracy: shorter answers are
    faster."""
    problems = []
    for name in ("min_new_tokens", "max_new_tokens"):
        value = cell.settings.get(f"run.options.{name}")
        generation = rules.list_generation_rules(cell.cell.scenario).items()
        ruled = {str(found.value) for at, found in generation if at.endswith(f".{name}")}
        if value is None or not ruled or not int(value.value) or {str(value.value)} == ruled:
            continue
        message = f"{name} is {value.value}; round {rules.round} requires {' or '.join(sorted(ruled))}"
        fix = f"remove {name}, or move the cell to the open division"
        problems.append(make_cell_problem(cell, value, message, fix))
    return problems


def _check_shortcuts(cell: DeclaredCell) -> list[Problem]:
    """Refuse what makes answers faster in a division that requires the benchmark's accuracy: another number of pipeline
    steps than its own, and prefix caching, by which a result serves another query."""
    division, problems = cell.cell.division, []
    if (steps := cell.steps) is not None and int(steps.value):
        message = f"steps is {steps.value}; the {division} division requires the benchmark's own"
        problems.append(make_cell_problem(cell, steps, message, "remove steps, or move the cell to the open division"))
    if (caching := cell.prefix_caching) is not None and caching.value:
        message = f"prefix_caching shares computation between queries, which the {division} division forbids"
        fix = "remove prefix_caching, or move the cell to the open division"
        problems.append(make_cell_problem(cell, caching, message, fix))
    return problems


def load_ruleset_of(declared: Declared, load_ruleset: Callable[[str], Ruleset]) -> Ruleset:
    """Load the rules of the declared round. Raises SpecError at its line for an unknown round."""
    try:
        return load_ruleset(str(declared.round.value))
    except ReconcilerError as error:
        raise SpecError([declared.round.origin.make_problem("spec.round", error.message, error.fix)]) from error
