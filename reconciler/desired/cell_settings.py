"""One declared cell as its resources see it: its settings over the round's rules, its marks, its locations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contract import BACKENDS, BENCHMARKS
from reconciler.desired.inputs import Reader, is_endpoints
from reconciler.desired.state import Pins
from reconciler.mlperf.endpoints import LIMITS, MEAN_TOKENS, MEAN_TOKENS_LIMITS
from reconciler.mlperf.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import SCENARIOS, Cell
from reconciler.resource.setting_names import BUILD, COMMAND, SERVICE
from reconciler.spec.declared import Declared, DeclaredCell


@dataclass(slots=True)
class CellReaders:
    """Makes a reader of each cell; keeps what cells share."""

    declared: Declared
    ruleset: Ruleset
    pins: Pins
    settings_of_rules: dict[tuple[str, str], Mapping[str, Value]] = field(default_factory=dict)

    def rules(self, cell: DeclaredCell) -> BenchmarkRules | None:
        official = cell.settings.get("benchmark.official")
        return self.ruleset.benchmark(str(official.value)) if official else None

    def reader(self, cell: DeclaredCell) -> Reader:
        system = self.declared.systems[cell.cell.system]
        rules = self.rules(cell)
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
        rules = self.rules(cell)
        if rules is None:
            return {}
        scenario, log = cell.cell.scenario, self.ruleset.accuracy_log
        metric, more = rules.metric(scenario), {}
        if is_endpoints(cell.settings):
            metric = self.ruleset.endpoints.metric(rules.name, scenario, metric)
            more = self.endpoints(rules, cell)
        bars = [
            [bar.metric, *(None if x is None else str(x) for x in (bar.least, bar.most))]
            for bar in rules.bars(scenario)
        ]
        return {
            "ruled.metric": [metric.key, metric.unit, metric.divisor, metric.lower_is_better],
            "ruled.accuracy_log": [log.limit, log.whole_below, log.keep],
            "ruled.bars": bars,
            "ruled.bars_bind": self.ruleset.binds(cell.cell.division, "accuracy"),
            **more,
        }

    def endpoints(self, rules: BenchmarkRules, cell: DeclaredCell) -> dict[str, object]:
        """The limits in the order of LIMITS; test → the harness's name of it, where its file is asked for; TEST09's
        bounds of the mean output; whether one plain score stands for the benchmark's accuracy."""
        ruled, scenario = self.ruleset.endpoints, cell.cell.scenario
        limits = (rules.value(name, scenario) for name in LIMITS)
        binds = self.ruleset.binds(cell.cell.division, "compliance_tests")
        tests = rules.compliance_tests if binds else ()
        tokens = rules.test(MEAN_TOKENS, scenario).limits if MEAN_TOKENS in tests else {}
        return {
            "ruled.endpoints_limits": [None if limit is None else str(limit) for limit in limits],
            "ruled.endpoints_audits": {test: ruled.tests[test] for test in tests if test in ruled.required},
            "ruled.endpoints_tokens": [str(tokens[name].value) for name in MEAN_TOKENS_LIMITS if name in tokens],
            "ruled.endpoints_single": rules.name in ruled.single,
            "ruled.min_duration": ruling.value if (ruling := self.rules_of(rules, scenario).get("min_duration")) else 0,
        }


def find_source_cell(cell: DeclaredCell) -> Cell:
    """The cell whose runs an inferred one takes. ``infer_from`` names its scenario, else its benchmark."""
    named, own = str(cell.settings["infer_from"].value), cell.cell
    if named in SCENARIOS:
        return Cell(own.division, own.system, own.benchmark, named)
    return Cell(own.division, own.system, named, own.scenario)


def is_trained(reader: Reader) -> bool:
    """A model without a file of its own is trained on the dataset; one that is quantized is calibrated on it."""
    return not reader.text("model.path") or bool(reader.under("model.settings"))


def collect_marks(declared: Declared, reader: Reader) -> tuple[str, ...]:
    """Marks that the record keeps forever; ``package`` refuses each of them."""
    backend = BACKENDS.get(reader.text("engine.backend"))
    code = BENCHMARKS.get(reader.text("benchmark.code"))
    synthetic = bool(backend and backend.synthetic) or bool(code and code.synthetic)
    return tuple(
        name for name, held in (("rehearsal", bool(declared.rehearsal.value)), ("synthetic", synthetic)) if held
    )


def collect_locations(reader: Reader) -> dict[str, str]:
    """Paths: where things are found here. They never enter a key."""
    found = {name: reader.text(name) for name in ("model.path", "dataset.path", "benchmark.path")}
    found["benchmark.code"] = reader.text("benchmark.code")
    found["backend"] = reader.text("engine.backend")
    found["system"] = reader.text("system.name")
    if reader.text(COMMAND):
        code = reader.text("harness.code")
        found |= {COMMAND: "declared", "harness.code": code}
        for part in (SERVICE, BUILD):
            if reader.text(f"{part}.command"):
                found |= {f"{part}.command": "declared", f"{part}.code": reader.text(f"{part}.code", code)}
    return {name: path for name, path in found.items() if path}


def strip_origins(settings: Mapping[str, Value]) -> dict[str, object]:
    return {name: value.value for name, value in settings.items()}


def select_below(settings: Mapping[str, object], kind: str) -> dict[str, object]:
    """The settings of one kind, without its prefix."""
    prefix = f"{kind}.settings."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
