"""Declared submission x ruleset x pins -> desired resources, in the order in which a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.contract import BACKENDS, BENCHMARKS
from reconciler.desired.auditing import attempts_of, test_inputs, tests_of, verdict_inputs
from reconciler.desired.commands import COMMAND, command_inputs, command_pins, scorer_inputs
from reconciler.desired.inputs import (
    Reader,
    dataset_inputs,
    engine_inputs,
    model_inputs,
    result_inputs,
    run_inputs,
    score_inputs,
    submission_inputs,
    upstream,
)
from reconciler.desired.state import Desired, Pins
from reconciler.mlperf.ruleset import BenchmarkRules, Ruleset
from reconciler.resource.canonical import digest
from reconciler.resource.inputs import Input, Origin, Value, make_key
from reconciler.resource.kinds import SCENARIOS, Address, Cell, Kind
from reconciler.resource.resources import Detail, Resource
from reconciler.spec.declared import Declared, DeclaredCell

INFERRED = "inferred"
MODES = ("accuracy", "performance")  # accuracy first: a broken engine fails before the long run


@dataclass(frozen=True, slots=True)
class Made:
    """A resource with its detail, before addresses that share a key are settled."""

    resource: Resource
    detail: Detail


@dataclass(slots=True)
class Compiler:
    """Compiles cell by cell; keeps what cells share."""

    declared: Declared
    ruleset: Ruleset
    pins: Pins
    made: dict[Address, Made] = field(default_factory=dict)
    noted: dict[str, set[str]] = field(default_factory=dict)
    settings_of_rules: dict[tuple[str, str], Mapping[str, Value]] = field(default_factory=dict)

    def put(
        self, address: Address, inputs: list[Input], reader: Reader | None, cell: DeclaredCell | None, **extra: object
    ) -> Input:
        """Add one resource; gives back the input by which others are made from it."""
        ups = tuple(Address.parse(i.origin.file) for i in inputs if i.origin.file.partition(":")[0] in _KINDS)
        key = make_key(address.kind, inputs)
        if reader is not None:
            self.noted.setdefault(address.label, set()).update(reader.noted)
        attempts = 1
        if cell is not None and address.kind is Kind.RUN and "attempts" in cell.settings:
            attempts = int(cell.settings["attempts"].value)
        elif reader is not None and address.kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT):
            attempts = attempts_of(reader, address)
        resource = Resource(address, key, ups, cell.cell if cell else None, attempts)
        detail = Detail(tuple(sorted(inputs, key=lambda i: i.name)), **extra)  # type: ignore[arg-type]
        self.made.setdefault(address, Made(resource, detail))
        return upstream(_INPUT_NAME[address.kind], address, key)

    def reader(self, cell: DeclaredCell) -> Reader:
        system = self.declared.systems[cell.cell.system]
        official = cell.settings.get("benchmark.official")
        rules = self.ruleset.benchmark(str(official.value)) if official else None
        settings = dict(cell.settings)
        settings["system.name"] = Value(cell.cell.system, cell.origin.origin)
        settings["benchmark.name"] = Value(cell.cell.benchmark, cell.origin.origin)
        settings["cell"] = Value(str(cell.cell), cell.origin.origin)
        settings.update({name: value for name, value in system.settings.items() if name not in settings})
        if self.declared.rehearsal.value:
            settings["rehearsal"] = self.declared.rehearsal
        return Reader(settings, self.rules_of(rules, cell.cell.scenario) if rules else {}, self.pins)

    def rules_of(self, rules: BenchmarkRules, scenario: str) -> Mapping[str, Value]:
        """Many cells are of one benchmark and scenario."""
        known = self.settings_of_rules.get((rules.name, scenario))
        if known is None:
            known = self.settings_of_rules[rules.name, scenario] = rules.settings(scenario)
        return known

    def ruled(self, cell: DeclaredCell) -> dict[str, object]:
        """What executing needs of the rules, so that it need not read the round: plain values under ``ruled.``."""
        official = cell.settings.get("benchmark.official")
        rules = self.ruleset.benchmark(str(official.value)) if official else None
        if rules is None:
            return {}
        metric, log = rules.metric(cell.cell.scenario), self.ruleset.accuracy_log
        bars = [
            [bar.metric, *(None if x is None else str(x) for x in (bar.least, bar.most))]
            for bar in rules.bars(cell.cell.scenario)
        ]
        return {
            "ruled.metric": [metric.key, metric.unit, metric.divisor, metric.lower_is_better],
            "ruled.accuracy_log": [log.limit, log.whole_below, log.keep],
            "ruled.bars": bars,
            "ruled.bars_bind": self.ruleset.binds(cell.cell.division, "accuracy"),
        }

    def shared(self, kind: Kind, cell: DeclaredCell, keys: Counter[str], key: str) -> Address:
        """The key that most of a benchmark's cells share stands under the benchmark's name; one that differs under
        its cell's."""
        common = keys.most_common(1)[0][0]
        return Address(kind, cell.cell.benchmark if key == common else str(cell.cell))

    def cell(self, cell: DeclaredCell, datasets: Counter[str], models: Counter[str]) -> None:
        reader = self.reader(cell)
        marks = marks_of(self.declared, reader)
        locations = locations_of(reader)

        def fresh() -> Reader:
            return replace(reader, noted=set())

        data_reader = fresh()
        inputs = dataset_inputs(data_reader)
        address = self.shared(Kind.DATASET, cell, datasets, make_key(Kind.DATASET, inputs))
        common = {"locations": locations, "marks": marks}
        settings = {**_plain(reader.settings), **self.ruled(cell)}
        dataset = self.put(address, inputs, data_reader, None, settings=_below(settings, "dataset"), **common)
        model_reader = fresh()
        inputs = model_inputs(model_reader, dataset if trains(model_reader) else None)
        address = self.shared(Kind.MODEL, cell, models, make_key(Kind.MODEL, inputs))
        model = self.put(address, inputs, model_reader, None, settings=_below(settings, "model"), **common)
        made_from = model
        facts = BACKENDS.get(reader.text("engine.backend"))
        if facts is not None and facts.builds_engine:
            engine_reader = fresh()
            engine = engine_inputs(engine_reader, model)
            at = Address(Kind.ENGINE, str(cell.cell))
            made_from = self.put(at, engine, engine_reader, cell, settings=settings, **common)
        ups = [self.run(cell, fresh(), mode, made_from, dataset, settings, common) for mode in MODES]
        score_reader = fresh()
        at = Address(Kind.SCORE, str(cell.cell))
        score = [*score_inputs(score_reader, replace(ups[0], name="run"), dataset), *scorer_inputs(score_reader)]
        ups.append(self.put(at, score, score_reader, cell, settings=settings, **common))
        ups += self.tests(cell, reader, made_from, dataset, ups, {**common, "settings": settings})
        result_reader = fresh()
        at = Address(Kind.RESULT, str(cell.cell))
        self.put(at, result_inputs(result_reader, ups), result_reader, cell, settings=settings, marks=marks)

    def inferred(self, cell: DeclaredCell) -> None:
        """A result of another cell's runs: it has no runs of its own."""
        reader, source = self.reader(cell), source_of(cell)
        own = [(Kind.RUN, f"{source}/{mode}", mode) for mode in MODES] + [(Kind.SCORE, str(source), "score")]
        ups = []
        for kind, name, as_ in own:
            address = Address(kind, name)
            ups.append(upstream(as_, address, self.made[address].resource.key))
        settings = {**_plain(reader.settings), **self.ruled(cell)}
        marks = tuple(sorted({*marks_of(self.declared, reader), INFERRED}))
        inputs = result_inputs(reader, ups)
        self.put(Address(Kind.RESULT, str(cell.cell)), inputs, reader, cell, settings=settings, marks=marks)

    def run(
        self,
        cell: DeclaredCell,
        reader: Reader,
        mode: str,
        made_from: Input,
        dataset: Input,
        settings: Mapping[str, object],
        common: Mapping[str, object],
    ) -> Input:
        inputs = [*run_inputs(reader, cell.cell.scenario, mode, made_from, dataset), *command_inputs(reader)]
        effective = {**settings, **{i.name: i.value for i in inputs}}
        made = self.put(
            Address(Kind.RUN, f"{cell.cell}/{mode}"), inputs, reader, cell, **{**common, "settings": effective}
        )
        return replace(made, name=mode)

    def tests(
        self,
        cell: DeclaredCell,
        reader: Reader,
        made_from: Input,
        dataset: Input,
        runs: list[Input],
        common: Mapping[str, Any],
    ) -> list[Input]:
        """The cell's compliance tests, each with its verdict; gives the verdicts."""
        official = cell.settings.get("benchmark.official")
        rules = self.ruleset.benchmark(str(official.value)) if official else None
        verdicts = []
        for test in tests_of(cell, rules, self.ruleset):
            own = replace(reader, noted=set())
            inputs = test_inputs(own, cell.cell.scenario, test, made_from, dataset)
            effective = {
                **common["settings"],
                **{i.name: i.value for i in inputs},
                "ruled.judged": test.performance_checks,
            }
            at = Address(Kind.COMPLIANCE_TEST, f"{cell.cell}/{test.name}")
            audit = self.put(at, inputs, own, cell, **{**common, "settings": effective})
            own = replace(reader, noted=set())
            compared = [run for run in runs if run.name in test.compared_with]
            inputs = verdict_inputs(own, test, audit, compared, dataset)
            at = Address(Kind.VERDICT, f"{cell.cell}/{test.name}")
            verdict = self.put(at, inputs, own, cell, **common)
            verdicts.append(replace(verdict, name=f"verdict.{test.name}"))
        return verdicts


def source_of(cell: DeclaredCell) -> Cell:
    """The cell whose runs an inferred one takes. ``infer_from`` names its scenario, else its benchmark."""
    named, own = str(cell.settings["infer_from"].value), cell.cell
    if named in SCENARIOS:
        return Cell(own.division, own.system, own.benchmark, named)
    return Cell(own.division, own.system, named, own.scenario)


_INPUT_NAME = {kind: str(kind).lower() for kind in Kind}
_KINDS = {str(kind) for kind in Kind}


def trains(reader: Reader) -> bool:
    """A model without a file of its own is trained on the dataset; one that is quantized is calibrated on it."""
    return not reader.text("model.path") or bool(reader.under("model.settings"))


def marks_of(declared: Declared, reader: Reader) -> tuple[str, ...]:
    """Marks that the record keeps for ever; ``package`` refuses each of them."""
    backend = BACKENDS.get(reader.text("engine.backend"))
    code = BENCHMARKS.get(reader.text("benchmark.code"))
    synthetic = bool(backend and backend.synthetic) or bool(code and code.synthetic)
    return tuple(
        name for name, held in (("rehearsal", bool(declared.rehearsal.value)), ("synthetic", synthetic)) if held
    )


def locations_of(reader: Reader) -> dict[str, str]:
    """Paths: where things are found here. They never enter a key."""
    found = {name: reader.text(name) for name in ("model.path", "dataset.path", "benchmark.path")}
    found["benchmark.code"] = reader.text("benchmark.code")
    found["backend"] = reader.text("engine.backend")
    found["system"] = reader.text("system.name")
    if reader.text(COMMAND):
        found |= {"harness.command": "declared", "harness.code": reader.text("harness.code")}
    return {name: path for name, path in found.items() if path}


def _plain(settings: Mapping[str, Value]) -> dict[str, object]:
    return {name: value.value for name, value in settings.items()}


def _below(settings: Mapping[str, object], kind: str) -> dict[str, object]:
    """The settings of one kind, without its prefix."""
    prefix = f"{kind}.settings."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def compile_desired(declared: Declared, ruleset: Ruleset, pins: Pins) -> tuple[Desired, dict[str, set[str]]]:
    """The desired state, and which settings each kind of resource read (for the printed reference)."""
    compiler = Compiler(declared, ruleset, pins)
    datasets, models = _common_keys(compiler)
    for cell in declared.cells:
        if "infer_from" not in cell.settings:
            compiler.cell(cell, datasets[cell.cell.benchmark], models[cell.cell.benchmark])
    for cell in declared.cells:
        if "infer_from" in cell.settings:
            compiler.inferred(cell)
    results = [upstream(str(a), a, m.resource.key) for a, m in compiler.made.items() if a.kind is Kind.RESULT]
    shared = [*submission_inputs(submission_values(declared)), *published_inputs(declared, pins)]
    compiler.put(
        Address(Kind.SUBMISSION, declared.name), [*shared, *results], None, None, settings=submission_settings(declared)
    )
    details = {address: made.detail for address, made in compiler.made.items()}
    resources = tuple(made.resource for made in compiler.made.values())
    named = [[str(r.address), r.key, r.attempts] for r in resources]
    whole = Desired(
        digest=digest({"resources": named, "round": declared.round.value}),
        resources=resources,
        detail=details.__getitem__,
        name=declared.name,
        by_address={r.address: r for r in resources},
        missing_cells=missing_cells(declared, ruleset),
    )
    return whole, compiler.noted


def _common_keys(compiler: Compiler) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Per benchmark, how many cells ask for each dataset key and each model key."""
    datasets: dict[str, Counter[str]] = {}
    models: dict[str, Counter[str]] = {}
    for cell in compiler.declared.cells:
        if "infer_from" in cell.settings:
            continue
        reader = compiler.reader(cell)
        key = make_key(Kind.DATASET, dataset_inputs(reader))
        datasets.setdefault(cell.cell.benchmark, Counter())[key] += 1
        # The dataset's address does not matter to a key, only its key does.
        data = upstream("dataset", Address(Kind.DATASET, cell.cell.benchmark), key)
        model = make_key(Kind.MODEL, model_inputs(reader, data if trains(reader) else None))
        models.setdefault(cell.cell.benchmark, Counter())[model] += 1
    return datasets, models


def submission_values(declared: Declared) -> dict[str, Value]:
    values = {"round": declared.round, "submitter": declared.submitter}
    for system in declared.systems.values():
        for name, value in {**system.settings, **system.description}.items():
            values[f"systems.{system.name}.{name}"] = value
    return values


def submission_settings(declared: Declared) -> dict[str, object]:
    """What the shared files of the tree show, as plain values."""
    systems = {
        system.name: {"settings": _plain(system.settings), "description": _plain(system.description)}
        for system in declared.systems.values()
    }
    own = {name: value.value for name, value in declared.settings.items()}
    code = {cell.cell.benchmark: list(paths) for cell in declared.cells if (paths := published_code(cell))}
    return {
        "tree": None,
        **own,
        "round": declared.round.value,
        "submitter": declared.submitter.value,
        "systems": systems,
        "code": code,
    }


def published_code(cell: DeclaredCell) -> tuple[str, ...]:
    """Locations of what is published as src/<benchmark>: as declared, else the benchmark's own file."""
    declared = cell.settings.get("benchmark.source") or cell.settings.get("benchmark.path")
    if declared is None:
        return ()
    return (declared.value,) if isinstance(declared.value, str) else tuple(declared.value)


def published_pins(declared: Declared) -> dict[str, str]:
    """Name of the input → pin, of every file and folder that the tree carries beside the results."""
    documents = {name: value for name, value in declared.settings.items() if name.startswith("documents.")}
    found = {name: f"source:document@{name}|{value.value}" for name, value in documents.items()}
    for cell in declared.cells:
        for number, path in enumerate(published_code(cell)):
            found[f"code.{cell.cell.benchmark}.{number}"] = f"source:code@{cell.cell.benchmark}|{path}"
    return found


def published_inputs(declared: Declared, pins: Pins) -> list[Input]:
    """Their digests; where they lie is no identity."""
    found = ((name, pin) for name, pin in published_pins(declared).items() if pins.values.get(pin) is not None)
    return [Input(name, pins.values[pin], Origin(pins.origins.get(pin, "record"))) for name, pin in found]


def pins_needed(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """What the world must supply before keys are known: digests of sources without a declared one, versions not
    pinned by the spec."""
    needed = set(published_pins(declared).values())
    compiler = Compiler(declared, ruleset, Pins())
    for cell in declared.cells:
        reader = compiler.reader(cell)
        needed.update(reader.source_pin(kind) for kind in ("model", "dataset") if not reader.text(f"{kind}.sha256"))
        needed.update((reader.source_pin("benchmark"), reader.source_pin("power")))
        needed.update(command_pins(reader).values())
        facts = BACKENDS.get(reader.text("engine.backend"))
        if facts is not None and facts.distributions and not reader.text("engine.version"):
            needed.add(reader.version_pin())
    return tuple(sorted(needed - {""}))


def missing_cells(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """Each scenario that the round requires of an entered benchmark and that the spec does not declare."""
    entered: dict[tuple[str, str, str, str], set[str]] = {}
    for cell in declared.cells:
        official = cell.settings.get("benchmark.official")
        if official is None or not ruleset.binds(cell.cell.division, "scenarios"):
            continue
        c: Cell = cell.cell
        entered.setdefault((c.division, c.system, c.benchmark, str(official.value)), set()).add(c.scenario)
    found = []
    for (division, system, benchmark, official_name), scenarios in entered.items():
        rules = ruleset.benchmark(official_name)
        category = declared.systems[system].settings.get("system.category")
        if rules is None or category is None:
            continue
        missing = rules.missing(str(category.value), frozenset(scenarios))
        found += [f"{division}/{system}/{benchmark}/{scenario}" for scenario in missing]
    return tuple(found)
