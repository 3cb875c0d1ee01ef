"""A declared cell as its resources use it: its settings combined with the round's rules, its marks, its locations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from harness.catalog import BACKENDS
from reconciler.desired.inputs import SettingsReader
from reconciler.desired.state import Pins
from reconciler.loadgen import keys
from reconciler.loadgen.settings import find_settings
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import SCENARIOS, Cell
from reconciler.resource.programs import PROGRAMS, find_program_of_results
from reconciler.resource.records import QUICK, REHEARSAL, TRIAL
from reconciler.resource.settings import BUILD, CLIENT_SOURCES, COMMAND, SERVICE
from reconciler.rules.accuracy import WHOLE_SET
from reconciler.rules.context import InferredMetric, RuleContext
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import find_declared_format
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.spec.declared import Declared, DeclaredCell


class CellReaders(Struct):
    """Create a reader for each cell, and cache what cells share. ``noting``: its readers record the requested names."""

    declared: Declared
    ruleset: Ruleset
    pins: Pins
    noting: bool = False
    settings_of_rules: dict[tuple[str, str], Mapping[str, Value]] = field(default_factory=dict)
    contexts: dict[tuple[object, ...], RuleContext] = field(default_factory=dict)

    def find_rules(self, cell: DeclaredCell) -> BenchmarkRules | None:
        official = cell.official
        return self.ruleset.find_rules(cell.cell.division, str(official.value)) if official else None

    def make_reader(self, cell: DeclaredCell) -> SettingsReader:
        system = self.declared.systems[cell.cell.system]
        rules = self.find_rules(cell)
        settings = dict(cell.settings)
        settings["system.name"] = Value(system.name, system.origin)
        settings["benchmark.name"] = Value(cell.cell.benchmark, cell.origin.origin)
        settings["cell"] = Value(str(cell.cell), cell.origin.origin)
        settings.update({name: value for name, value in system.settings.items() if name not in settings})
        if self.declared.rehearsal.value:
            settings["rehearsal"] = self.declared.rehearsal
        if self.declared.trial:
            settings[TRIAL] = Value(self.declared.trial, Origin(TRIAL))
        ruled = self.find_benchmark_rules(rules, cell.cell.scenario) if rules else {}
        return SettingsReader(settings, ruled, self.pins, set() if self.noting else None, unread=self.declared.unread)

    def find_benchmark_rules(self, rules: BenchmarkRules, scenario: str) -> Mapping[str, Value]:
        """Return the round's settings, cached by benchmark and scenario."""
        known = self.settings_of_rules.get((rules.name, scenario))
        if known is None:
            known = self.settings_of_rules[rules.name, scenario] = {
                **rules.list_settings(scenario),
                **rules.list_generation_rules(scenario),
                **rules.list_required_files(scenario),
            }
        return known

    def make_rule_context(self, cell: DeclaredCell) -> RuleContext | None:
        """Return the rules for a cell; None if the division does not accept its benchmark."""
        rules = self.find_rules(cell)
        if rules is None:
            return None
        if program := find_program_of_results(find_declared_format(cell.settings).NAME):
            return self._make_context(rules, cell, program)
        category = cell.settings.get("system.category")
        shared = (rules.name, cell.cell.division, cell.cell.scenario, category and category.value)
        if shared not in self.contexts:
            self.contexts[shared] = self._make_context(rules, cell, "")
        return self.contexts[shared]

    def _make_context(self, rules: BenchmarkRules, cell: DeclaredCell, program: str) -> RuleContext:
        """``program``: the program whose results are judged; "" for LoadGen's logs."""
        scenario, rehearsed = cell.cell.scenario, bool(self.declared.rehearsal.value)
        context = RuleContext(
            metric=rules.find_metric(scenario),
            accuracy_log=self.ruleset.accuracy_log,
            bars=tuple(bar for bar in rules.list_bars(scenario) if bar.metric not in WHOLE_SET or not rehearsed),
            bars_bind=self.ruleset.binds(cell.cell.division, "accuracy")
            and not (rehearsed and self.ruleset.layout in PROGRAMS),
        )
        if program:
            shortest = self.find_benchmark_rules(rules, scenario).get(keys.MIN_DURATION)
            least = shortest.value if shortest else 0
            return load_program(program).complete_context(context, self.ruleset, rules, cell.cell, least)
        return replace(
            context,
            inferred=tuple(self._list_inferred(rules, cell)),
            shown=rules.find_extra_files(scenario),
            built_in=self._list_built_in(rules, scenario),
        )

    def _list_built_in(self, rules: BenchmarkRules, scenario: str) -> dict[str, Any]:
        """Return LoadGen's built-in values; none for a benchmark that the round has dropped, since LoadGen may have
        dropped it too."""
        if self.ruleset.find_benchmark(rules.name) is None:
            return {}
        found = {setting.name: rules.get_built_in(setting.name, scenario) for setting in find_settings(scenario)}
        return {name: value for name, value in found.items() if value is not None}

    def _list_inferred(self, rules: BenchmarkRules, cell: DeclaredCell) -> Iterator[InferredMetric]:
        category = cell.settings.get("system.category")
        for scenario in SCENARIOS:
            rule = self.ruleset.find_inference(scenario, cell.cell.scenario, str(category.value)) if category else None
            if rule is not None and rules.find_ruled_value("metric_key", scenario) is not None:
                yield InferredMetric(rule, rules.find_metric(scenario).unit)


def find_source_cell(cell: DeclaredCell) -> Cell:
    """Find the cell whose runs an inferred cell uses. ``infer_from`` names its scenario or its benchmark."""
    named, own = str(cell.settings["infer_from"].value), cell.cell
    if named in SCENARIOS:
        return Cell(own.division, own.system, own.benchmark, named)
    return Cell(own.division, own.system, named, own.scenario)


def is_trained(reader: SettingsReader) -> bool:
    """Return True if the model depends on the dataset: without a file it is trained on it, and a quantized model is
    calibrated on it."""
    return not reader.model_path or bool(reader.take_below("model.settings"))


def collect_marks(declared: Declared, reader: SettingsReader) -> tuple[str, ...]:
    """Collect the permanent marks of a cell's records; ``package`` refuses each of them."""
    backend = BACKENDS.get(reader.backend)
    reads = (
        (REHEARSAL, bool(declared.rehearsal.value)),
        ("synthetic", bool(backend and backend.synthetic)),
        (TRIAL, bool(declared.trial)),
        (QUICK, declared.trial == QUICK),
    )
    return tuple(name for name, is_read in reads if is_read)


_CLIENT = (*CLIENT_SOURCES, "client.python")


def collect_locations(reader: SettingsReader, cell: DeclaredCell) -> dict[str, str]:
    """Collect the paths on this machine. They never enter a key."""
    found = {name: reader.get_text(name) for name in ("model.path", "dataset.path", "benchmark.path")}
    found |= {name: reader.get_text(name) for name in ("model.looked_for", "dataset.looked_for", "dataset.prepared")}
    found |= {name: reader.get_text(name) for name in _CLIENT}
    found["benchmark.code"] = reader.benchmark_code
    found["backend"] = reader.backend
    found["system"] = reader.system
    code = reader.harness_code
    if reader.get_text(COMMAND):
        found |= {COMMAND: "declared", "harness.code": code}
    for part in (SERVICE, BUILD):
        if reader.get_text(f"{part}.command"):
            found |= {f"{part}.command": "declared", f"{part}.code": reader.get_text(f"{part}.code", code)}
    return {name: path for name, path in (found | dict(cell.needs)).items() if path}


def strip_origins(settings: Mapping[str, Value]) -> dict[str, object]:
    return {name: value.value for name, value in settings.items()}
