"""Compile the resources of one declared cell, from its dataset to its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from harness.catalog import BACKENDS
from reconciler.desired.cell_cache import CachedCell
from reconciler.desired.cell_settings import (
    CellReaders,
    collect_locations,
    collect_marks,
    find_source_cell,
    is_trained,
    strip_origins,
)
from reconciler.desired.commands import (
    collect_built_inputs,
    collect_command_inputs,
    collect_scorer_inputs,
    collect_service_inputs,
)
from reconciler.desired.compliance import (
    collect_test_inputs,
    collect_verdict_inputs,
    count_attempts,
    has_own_dataset,
    list_brought_tests,
    select_tests,
    use_own_dataset,
)
from reconciler.desired.detail import Detail
from reconciler.desired.inputs import (
    SettingsReader,
    collect_dataset_inputs,
    collect_driving_inputs,
    collect_engine_inputs,
    collect_model_inputs,
    collect_result_inputs,
    collect_run_inputs,
    collect_score_inputs,
    make_upstream_input,
)
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import ACCURACY, MODES, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.resources import Resource
from reconciler.resource.ruled_values import TestRules
from reconciler.resource.settings import (
    ACCURACY_DATASET,
    ACCURACY_FROM,
    BACKGROUND,
    BUILD_COMMAND,
    SERVICE_COMMAND,
    CellSettings,
)
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.results.table import find_declared_format
from reconciler.spec.declared import DeclaredCell

INFERRED = "inferred"
_ACCURACY_PIN = f"{ACCURACY_DATASET}.sha256"
_Locations = Callable[[], Mapping[str, str]]  # computes them on demand
SHARED = ("benchmark.", "dataset.", "model.")  # prefixes of the settings that datasets and models depend on


class SharedKeys(Struct, frozen=True):
    """``common``: benchmark → the dataset and model keys that most of its cells have; ``cells``: the keys of each cell
    with its own runs."""

    common: Mapping[str, tuple[str, str]]
    cells: Mapping[Cell, CachedCell]


class CellCompiler:
    """Add the resources of one cell, each after its upstream resources."""

    def __init__(
        self, making: ResourceBuilder, readers: CellReaders, cell: DeclaredCell, *, as_background: bool = False
    ) -> None:
        """``as_background``: compile only the parts that another cell, currently being compiled, needs as background
        load."""
        self._making, self._readers, self._cell = making, readers, cell
        self._reader = readers.make_reader(cell)
        self._rules = readers.make_rule_context(cell)
        self._marks = collect_marks(readers.declared, self._reader)
        if not as_background:
            making.begin(cell)

    @cached_property
    def _settings(self) -> CellSettings:
        """Values without origins, computed on demand."""
        return CellSettings(strip_origins(self._reader.settings))

    def compile_own(self, keys: SharedKeys) -> None:
        """Compile a cell with its own runs."""
        dataset = self._compile_dataset(keys)
        made_from = self._compile_engine(self._compile_model(keys, dataset), dataset)
        made_of = [made_from, dataset, *self._compile_service(made_from, dataset)]
        ruled = select_tests(self._cell, self._readers.find_rules(self._cell), self._readers.ruleset)
        answers = any(ACCURACY in find_test(test.name).reads_answers for test in ruled)
        if find_declared_format(self._reader.settings).TIES_ACCURACY:
            self._compile_tied(made_of)
            return
        timed = [*made_of, *self._compile_backgrounds(keys)]
        accuracy = self._compile_run(ACCURACY, *made_of, answers=answers)
        performance = self._compile_run(PERFORMANCE, *timed, answers=False)
        ups = [accuracy, performance, self._compile_score(accuracy, dataset)]
        ups += [self._compile_test(test, ups, *timed) for test in ruled]
        self._compile_result(ups)

    def _compile_tied(self, made_of: list[Input]) -> None:
        """Compile a cell whose accuracy run, if it has one, belongs to the preceding performance run."""
        performance = self._compile_run(PERFORMANCE, *made_of, answers=False)
        if ACCURACY_FROM in self._reader.settings:
            return  # ``compile_sharing`` adds its result once the other cell has its resources
        accuracy = self._compile_run(ACCURACY, *made_of, performance, answers=False)
        self._compile_result([performance, accuracy, self._compile_score(accuracy, made_of[1])])

    def compile_sharing(self) -> None:
        """Compile the result of a cell that shares another cell's accuracy run."""
        source = replace(self._cell.cell, scenario=self._settings.get_text(ACCURACY_FROM))
        self._compile_result(self._find_made({PERFORMANCE: self._cell.cell, ACCURACY: source}))

    def compile_inferred(self) -> None:
        """Compile a result that is inferred from another cell's runs."""
        source = find_source_cell(self._cell)
        self._marks = tuple(sorted({*self._marks, INFERRED}))
        self._compile_result(self._find_made(dict.fromkeys(MODES, source)))

    def _find_made(self, runs: Mapping[str, Cell]) -> list[Input]:
        """Return the runs of these cells by mode, and the score of the accuracy run, as inputs."""
        made = {mode: RunAddress(cell, mode).address for mode, cell in runs.items()}
        made["score"] = Address(Kind.SCORE, str(runs[ACCURACY]))
        return [make_upstream_input(name, at, self._making.resources[at].key) for name, at in made.items()]

    def _compile_result(self, ups: list[Input]) -> None:
        reader = self._reader.start_fresh()
        brought = list_brought_tests(self._cell, self._readers.find_rules(self._cell), self._readers.ruleset)
        self._put(Kind.RESULT, "", collect_result_inputs(reader, ups), reader, locations=dict, brought=brought)

    def _compile_backgrounds(self, keys: SharedKeys) -> list[Input]:
        """Compile the background load of the timed runs: other cells' engines and datasets, and how they are driven."""
        found: list[Input] = []
        if BACKGROUND not in self._reader.settings:
            return found
        for number, name in enumerate(self._settings.get_words(BACKGROUND)):
            benchmark, _, scenario = name.partition("/")
            at = replace(self._cell.cell, benchmark=benchmark, scenario=scenario)
            cell = next(cell for cell in self._readers.declared.cells if cell.cell == at)
            found += CellCompiler(self._making, self._readers, cell, as_background=True)._compile_load(number, keys)
        return found

    def _compile_load(self, number: int, keys: SharedKeys) -> list[Input]:
        """Compile one background load; its inputs get names with its number."""
        dataset = self._compile_dataset(keys)
        made_from = self._compile_engine(self._compile_model(keys, dataset), dataset)
        own = [*collect_driving_inputs(self._reader.start_fresh()), Input("scenario", self._scenario)]
        ups = (replace(up, name=f"{BACKGROUND}{number}_{up.name}") for up in (made_from, dataset))
        return [*ups, *(replace(item, name=f"{BACKGROUND}.{number}.{item.name}") for item in own)]

    def _compile_dataset(self, keys: SharedKeys) -> Input:
        common, _ = keys.common[self._cell.cell.benchmark]
        return self._put_shared(Kind.DATASET, keys.cells[self._cell.cell].dataset, common, collect_dataset_inputs)

    def _compile_model(self, keys: SharedKeys, dataset: Input) -> Input:
        _, common = keys.common[self._cell.cell.benchmark]
        collect = partial(_collect_own_model_inputs, dataset=dataset)
        return self._put_shared(Kind.MODEL, keys.cells[self._cell.cell].model, common, collect)

    def _compile_engine(self, model: Input, dataset: Input) -> Input:
        """Compile the engine; return the model if neither a user's command nor the backend builds one."""
        if self._reader.get_text(BUILD_COMMAND):
            reader = self._reader.start_fresh()
            return self._put(Kind.ENGINE, "", collect_built_inputs(reader, self._scenario, model, dataset), reader)
        facts = BACKENDS.get(self._reader.backend)
        if facts is None or not facts.builds_engine:
            return model
        reader = self._reader.start_fresh()
        return self._put(Kind.ENGINE, "", collect_engine_inputs(reader, model), reader)

    def _compile_service(self, made_from: Input, dataset: Input) -> list[Input]:
        """Compile the server that the cell's runs query, if its harness has one."""
        reader = self._reader.start_fresh()
        if not reader.get_text(SERVICE_COMMAND):
            return []
        return [self._put(Kind.SERVICE, "", collect_service_inputs(reader, self._scenario, made_from, dataset), reader)]

    def _compile_run(self, mode: str, made_from: Input, dataset: Input, *service: Input, answers: bool) -> Input:
        """``service``: a server and the background loads. ``answers``: a compliance test compares its own answers with
        those of this run."""
        reader = self._reader.start_fresh()
        if mode == PERFORMANCE:
            reader.get(BACKGROUND)  # its inputs come with ``service``
        inputs = [
            *collect_run_inputs(reader, self._scenario, mode, made_from, dataset),
            *(i for i in collect_command_inputs(reader) if mode == ACCURACY or i.name != _ACCURACY_PIN),
            *service,
        ]
        rules = replace(self._rules, answers_compared=True) if self._rules and answers else self._rules
        made = self._put(Kind.RUN, mode, inputs, reader, settings=partial(self._apply_inputs, inputs), rules=rules)
        return Input(mode, made.value, made.origin, made.upstream)

    def _compile_score(self, run: Input, dataset: Input) -> Input:
        reader = self._reader.start_fresh()
        # Only the benchmark's own scorer writes the extra files that the round requires; a command cannot know them.
        scorer = collect_scorer_inputs(reader) or reader.take("accuracy_files")
        inputs = [*collect_score_inputs(reader, replace(run, name="run"), dataset), *scorer]
        return self._put(Kind.SCORE, "", inputs, reader)

    def _compile_test(
        self, test: TestRules, runs: list[Input], made_from: Input, dataset: Input, *service: Input
    ) -> Input:
        """Compile a test and its verdict, on the cell's samples or on its own dataset."""
        locations = self._read_locations
        if has_own_dataset(self._reader, test.name):
            reader = use_own_dataset(self._reader, test.name)
            locations = partial(collect_locations, reader, self._cell)
            at = Address(Kind.DATASET, f"{self._cell.cell}/{test.name}")
            settings = partial(_read_settings_of, reader, Kind.DATASET)
            own: dict[str, Any] = {"settings": settings, "locations": locations, "marks": self._marks}
            dataset = self._making.put(at, collect_dataset_inputs(reader), reader, None, **own)
        audit = self._compile_test_run(test, locations, made_from, dataset, *service)
        return self._compile_verdict(test, audit, runs, dataset, locations)

    def _compile_test_run(
        self, test: TestRules, locations: _Locations, made_from: Input, dataset: Input, *service: Input
    ) -> Input:
        reader = self._reader.start_fresh()
        reader.get(BACKGROUND)
        inputs = [*collect_test_inputs(reader, self._scenario, test, made_from, dataset), *service]
        rules = replace(self._rules, performance_checked=test.performance_checks) if self._rules else None
        own = {"settings": partial(self._apply_inputs, inputs), "locations": locations, "rules": rules}
        return self._put(Kind.COMPLIANCE_TEST, test.name, inputs, reader, **own)

    def _compile_verdict(
        self, test: TestRules, audit: Input, runs: list[Input], dataset: Input, locations: _Locations
    ) -> Input:
        reader = self._reader.start_fresh()
        compared = [run for run in runs if run.name in test.compared_with]
        inputs = collect_verdict_inputs(reader, test, audit, compared, dataset)
        made = self._put(Kind.VERDICT, test.name, inputs, reader, locations=locations)
        return replace(made, name=f"verdict.{test.name}")

    @property
    def _scenario(self) -> str:
        return self._cell.cell.scenario

    def _apply_inputs(self, inputs: list[Input]) -> CellSettings:
        return CellSettings({**self._settings.values, **{i.name: i.value for i in inputs}})

    def _put(self, kind: Kind, part: str, inputs: list[Input], reader: SettingsReader, **extra: Any) -> Input:
        """``part``: a run's mode or a test's name, appended to the cell."""
        address = Address(kind, f"{self._cell.cell}/{part}" if part else str(self._cell.cell))
        own = {"settings": self._read_settings, "locations": self._read_locations, "rules": self._rules, **extra}
        return self._making.put(address, inputs, reader, self._cell, marks=self._marks, **own)

    def _put_shared(self, kind: Kind, key: str, common: str, collect: Callable[[SettingsReader], list[Input]]) -> Input:
        """Store a key that most cells of a benchmark share under the benchmark's name, and any other key under the
        cell's name."""
        cell, reader = self._cell.cell, self._reader.start_fresh()
        address = Address(kind, cell.benchmark if key == common else str(cell))
        if reader.noted is None and self._making.share(address):
            return make_upstream_input(str(kind).lower(), address, key)
        settings = partial(_read_settings_of, self._reader, kind)
        own: dict[str, Any] = {"settings": settings, "locations": self._read_locations, "marks": self._marks}
        return self._making.put(address, collect(reader), reader, None, **own)

    def _read_settings(self) -> CellSettings:
        return self._settings

    def _read_locations(self) -> dict[str, str]:
        """Collect the locations of all resources of the cell, except for a test's own dataset."""
        return collect_locations(self._reader, self._cell)


def _read_settings_of(reader: SettingsReader, kind: Kind) -> CellSettings:
    """Return the preprocessing settings of a dataset, or the quantization settings of a model, without their prefix."""
    settings = CellSettings(strip_origins(reader.settings))
    return CellSettings(settings.get_below(f"{str(kind).lower()}.settings."))


def _collect_own_model_inputs(reader: SettingsReader, dataset: Input) -> list[Input]:
    return collect_model_inputs(reader, dataset if is_trained(reader) else None)


def find_shared_keys(readers: CellReaders, kept: Mapping[Cell, CachedCell]) -> SharedKeys:
    """Find the shared keys of the cells with their own runs, and add those not cached yet. Cells with the same
    values from the same places share one computation."""
    counts: dict[str, tuple[Counter[str], Counter[str]]] = {}
    made: dict[tuple[object, ...], tuple[str, str]] = {}
    for cell in readers.declared.cells:
        known = kept.get(cell.cell)
        if known is None:
            continue
        if not known.dataset:
            own = [(name, id(value)) for name, value in cell.settings.items() if name.startswith(SHARED)]
            sources = (cell.cell.benchmark, cell.cell.division, cell.cell.scenario, *own)
            if sources not in made:
                made[sources] = _make_shared_keys(readers.make_reader(cell), cell.cell.benchmark)
            known.dataset, known.model = made[sources]
        datasets, models = counts.setdefault(cell.cell.benchmark, (Counter(), Counter()))
        datasets[known.dataset] += 1
        models[known.model] += 1
    common = {
        name: (datasets.most_common(1)[0][0], models.most_common(1)[0][0])
        for name, (datasets, models) in counts.items()
    }
    return SharedKeys(common, kept)


def _make_shared_keys(reader: SettingsReader, benchmark: str) -> tuple[str, str]:
    dataset = make_key(Kind.DATASET, collect_dataset_inputs(reader))
    # A key depends on the dataset's key, not on its address.
    data = make_upstream_input("dataset", Address(Kind.DATASET, benchmark), dataset)
    return dataset, make_key(Kind.MODEL, _collect_own_model_inputs(reader, data))


# Collects desired resources while they are compiled, each once, with the names of the settings that its kind read.

_INPUT_NAME = {kind: str(kind).lower() for kind in Kind}
_name = attrgetter("name")


class ResourceBuilder(Struct):
    """``resources`` in display order; ``noted``: label of a resource → names of the settings it read.

    ``details`` creates the detail of a resource for its maker, the first cell that has it; a resource from an earlier
    compilation has no entry until it is compiled again. ``given``: all resources of the cell ``under_way``, including
    shared ones.
    """

    resources: dict[Address, Resource] = field(default_factory=dict)
    details: dict[Address, Callable[[], Detail]] = field(default_factory=dict)
    makers: dict[Address, DeclaredCell | None] = field(default_factory=dict)
    given: list[Resource] = field(default_factory=list)
    under_way: DeclaredCell | None = None
    noted: dict[str, set[str]] = field(default_factory=dict)

    def begin(self, cell: DeclaredCell | None) -> None:
        self.under_way, self.given = cell, []

    def put(
        self,
        address: Address,
        inputs: list[Input],
        reader: SettingsReader | None,
        cell: DeclaredCell | None,
        brought: tuple[str, ...] = (),
        **extra: Any,
    ) -> Input:
        """Add one resource, and return the input by which other resources depend on it. ``extra``: further fields of
        its detail; settings and locations are callables, since few details are ever needed."""
        ups = tuple([i.upstream for i in inputs if i.upstream is not None])
        key = make_key(address.kind, inputs)
        if reader is not None and reader.noted is not None:
            self.noted.setdefault(address.label, set()).update(reader.noted)
        attempts = _choose_attempts(address, reader, cell)
        resource = Resource(address, key, ups, cell.cell if cell else None, attempts, brought)
        self.take(resource)
        if self.makers[address] is self.under_way:
            self.details[address] = partial(_make_detail, inputs, **extra)
        return make_upstream_input(_INPUT_NAME[address.kind], address, key)

    def take(self, resource: Resource) -> None:
        """Add a resource without its detail."""
        self.given.append(resource)
        self.resources.setdefault(resource.address, resource)
        self.makers.setdefault(resource.address, self.under_way)

    def share(self, address: Address) -> bool:
        """Add a resource that another cell compiled to the current cell; return False if this cell must compile it."""
        found = self.resources.get(address)
        if found is None or self.makers[address] is self.under_way:
            return False
        self.given.append(found)
        return True


def _make_detail(
    inputs: list[Input],
    settings: Callable[[], CellSettings] = CellSettings,
    locations: Callable[[], Mapping[str, str]] = dict,
    **extra: Any,
) -> Detail:
    return Detail(tuple(sorted(inputs, key=_name)), settings=settings(), locations=locations(), **extra)


def _choose_attempts(address: Address, reader: SettingsReader | None, cell: DeclaredCell | None) -> int:
    if cell is not None and address.kind in (Kind.RUN, Kind.SERVICE) and "attempts" in cell.settings:
        return int(cell.settings["attempts"].value)
    if reader is not None and address.kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT):
        return count_attempts(reader, address)
    return 1
