"""Convert a validated document to a ``Declared`` submission, resolving references and applying layers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS
from reconciler.errors import Problem, ReconcilerError
from reconciler.loadgen.keys import TARGET_QPS
from reconciler.resource.canonical import show_decimal
from reconciler.resource.inputs import DEFAULT, Origin, Value
from reconciler.resource.kinds import DIVISIONS, SCENARIOS, Cell, read_point
from reconciler.resource.programs import BUILT_IN, PROGRAMS, find_program_of_division
from reconciler.resource.settings import ADAPTER, BACKGROUND, COMMAND, NO_HARDWARE, SCORE_COMMAND, SLICES
from reconciler.rules.benchmark_facts import BenchmarkFacts, find_benchmark_facts, load_benchmark_facts
from reconciler.rules.benchmark_files import (
    SCRATCH_DEFAULTS,
    SCRATCH_VARIABLE,
    BenchmarkFiles,
    choose_scratch,
    find_benchmark_files,
)
from reconciler.rules.programs import load_program
from reconciler.spec.adapters import HarnessAdapter, describe_missing, list_all_adapters
from reconciler.spec.checks import add_backend, add_facts, add_types, check_benchmark_settings, check_cell
from reconciler.spec.commands import check_harness
from reconciler.spec.declared import Declared, DeclaredCell, DeclaredSystem, SpecFile
from reconciler.spec.groups import Group
from reconciler.spec.layers import (
    Block,
    LayeredSetting,
    break_cycles,
    combine,
    flatten,
    get_text,
    give_origin,
    order_layers,
    resolve_blocks,
)
from reconciler.spec.locations import Variables, explain_unset
from reconciler.spec.models import BenchmarkGroup, Document, System
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.nodes import ListNode, MapNode, Node, ScalarNode, convert_plain, parse
from reconciler.spec.proposal import DESCRIPTION_FIELDS
from reconciler.spec.quantities import PER_ACCELERATOR, UnfitError, show_quantity
from reconciler.spec.scalars import explain_wrong_slices
from reconciler.spec.settings_models import Run, SettingsGroup
from reconciler.spec.validation import find_node, find_position, is_misspelt, show_example
from reconciler.storage.escaping import find_variable
from reconciler.storage.files import RepositoryPaths

_TAKEN = ("engine.", "run.", "model.", "dataset.", "benchmark.")
_COUNT = "performance_sample_count"


def expand_backgrounds(cells: Sequence[DeclaredCell]) -> tuple[list[DeclaredCell], list[Problem]]:
    """Return the cells with their backgrounds' settings, and the problems; a cell with a wrong background has none.

    A background is a cell that computes on other GPU slices during a measurement. Its settings are copied to the
    measured cell, so that its own settings contain all inputs of its runs."""
    known = {cell.cell: cell for cell in cells}
    found, problems = [], []
    for cell in cells:
        if BACKGROUND not in cell.settings:
            found.append(cell)
            continue
        wrong = list(_list_problems(cell, known))
        problems += wrong
        kept = {name: value for name, value in cell.settings.items() if name != BACKGROUND}
        found.append(replace(cell, settings=kept if wrong else _copy_backgrounds(cell, known)))
    return found, problems


def _copy_backgrounds(cell: DeclaredCell, known: dict[Cell, DeclaredCell]) -> dict[str, Value]:
    settings = dict(cell.settings)
    for number, name in enumerate(cell.settings[BACKGROUND].value):
        other = known[_find_background(cell.cell, name)].settings
        taken = {n: value for n, value in other.items() if n.startswith(_TAKEN) or n == _COUNT}
        settings |= {f"{BACKGROUND}.{number}.{n}": value for n, value in taken.items()}
    return dict(sorted(settings.items()))


def _find_background(measured: Cell, name: str) -> Cell:
    benchmark, _, scenario = name.partition("/")
    return replace(measured, benchmark=benchmark, scenario=scenario)


def _list_problems(cell: DeclaredCell, known: dict[Cell, DeclaredCell]) -> Iterator[Problem]:
    value = cell.settings[BACKGROUND]
    if SLICES not in cell.settings:
        fix = "declare the cell's own slices as hardware.mig; background slices are extra"
        yield _make_problem(cell, value, f"{cell.cell.system} declares no MIG slices", fix)
        return
    if COMMAND in cell.settings:
        yield _make_problem(cell, value, "background is not supported with a command", "start it in the command itself")
    for name in value.value:
        other = known.get(_find_background(cell.cell, name))
        if other is None:
            near = [f"{c.benchmark}/{c.scenario}" for c in known if c.system == cell.cell.system]
            message = f"{name} is not a cell of {cell.cell.division}/{cell.cell.system}"
            yield _make_problem(cell, value, message, give_advice(name, near))
        elif why := _find_unfit(other):
            fix = "use a cell whose backend computes batches"
            yield _make_problem(cell, value, f"{name} cannot compute in the background: {why}", fix)


def _find_unfit(other: DeclaredCell) -> str:
    """Explain why a cell cannot run without LoadGen; "" if it can."""
    if COMMAND in other.settings:
        return "it runs a command"
    if "infer_from" in other.settings:
        return "its result is inferred"
    backend = other.settings.get("engine.backend")
    facts = BACKENDS.get(str(backend.value)) if backend is not None else None
    return "" if facts is not None and not facts.generates and not facts.elsewhere else "its backend does not batch"


def _make_problem(cell: DeclaredCell, value: Value, message: str, fix: str) -> Problem:
    return value.origin.make_problem(f"{cell.cell}.{BACKGROUND}".replace("/", "."), message, fix)


_FILE = Path(__file__).with_name("presets.yaml")
PRESET_MARK = "/"  # part of a preset's name; names of a spec's blocks cannot contain it


@cache
def list_presets() -> Mapping[str, Block]:
    """Return the included starting blocks for common systems by name, in the file's order. The entry ``preset.NAME`` of
    a block is not a setting; it records the preset, and where its values were published."""
    tree, problems = parse(_FILE.read_text(encoding="utf-8"), _FILE.name)
    assert tree is not None, problems
    return {name: _read_preset(name, node) for name, node in tree.items.items() if isinstance(node, MapNode)}


def _read_preset(name: str, node: MapNode) -> Block:
    settings, path, origin = node.items["settings"], f"preset {name}", Origin(f"preset {name}")
    group = SettingsGroup.model_validate(convert_plain(settings), context=Variables({}))
    source = str(convert_plain(node.items["source"])).strip()
    own = give_origin(flatten(group, settings, path), origin)
    return {**own, f"preset.{name}": (LayeredSetting(Value(source, origin), path),)}


# Places where the submission tree may not be rendered, since it would mix with the repository's own files.

_FIX = "use a separate folder, such as `tree: submission`, or omit it for .reconcile/tree"


def find_misplaced_tree(written: str, root: Path) -> tuple[str, str] | None:
    """Return the problem with a tree at ``written``, which may not mix with the repository's own files, and the fix;
    None if there is none."""
    top, tree = root.resolve(), (root / written).resolve()
    if tree == RepositoryPaths(top).tree:
        return None
    if tree == top:
        return "the tree folder is the repository itself", _FIX
    if top.is_relative_to(tree):
        return f"the tree folder {tree} contains the repository", _FIX
    if ".git" in tree.parts:
        return "the tree folder is inside .git", _FIX
    for name in ("state", "specs", ".git", ".reconcile"):
        folder = (top / name).resolve()
        if tree == folder:
            return f"the tree would be {name}/, which reconcile manages", _FIX
        if tree.is_relative_to(folder) or folder.is_relative_to(tree):
            how = "be inside" if tree.is_relative_to(folder) else "contain"
            return f"the tree would {how} {name}/, which reconcile manages", _FIX
    return None


PREPARED = "preprocessed_data/mlperf-reconciler"


def add_scratch_places(block: Block, files: BenchmarkFiles, variables: Variables, looked: dict[str, bool]) -> None:
    """Set a missing ``dataset.path`` or ``model.path`` to the first place that exists (if none does, to the first one),
    and record all places searched. Locations never enter a key, since another machine merely searches other places.
    ``looked``: updated with the existence of each place. Raises UnfitError if the variable is not an absolute path."""
    root, origin = _find_root(variables, looked)
    for kind, places in (("dataset", files.datasets), ("model", files.models)):
        if f"{kind}.path" in block:
            continue
        paths = [variables.expand(f"{root}/{place}") for place in places]
        found = next((path for path in paths if _is_there(path, looked)), paths[0])
        _put_place(block, f"{kind}.path", found, origin)
        _put_place(block, f"{kind}.looked_for", ", ".join(paths), origin)
    if variables.environment.get(SCRATCH_VARIABLE):
        _put_place(block, "dataset.prepared", variables.expand(f"{root}/{PREPARED}"), origin)


def _find_root(variables: Variables, looked: dict[str, bool]) -> tuple[str, Origin]:
    """Return the scratch space as a spec would write its location: as the variable, if that is set."""
    named = variables.environment.get(SCRATCH_VARIABLE)
    try:
        chosen = choose_scratch(named, lambda path: _is_there(path, looked))
    except ReconcilerError as error:
        raise UnfitError(error.message, error.fix) from error
    if named:
        return f"${{{SCRATCH_VARIABLE}}}", Origin(SCRATCH_VARIABLE)
    variables.read[SCRATCH_VARIABLE] = named
    return chosen or SCRATCH_DEFAULTS[0], Origin(f"{SCRATCH_VARIABLE} of the guides")


def _is_there(path: str, looked: dict[str, bool]) -> bool:
    if path not in looked:
        looked[path] = os.path.exists(path)  # noqa: PTH110  as the door of the compiled spec looks again
    return looked[path]


def _put_place(block: Block, name: str, value: str, origin: Origin) -> None:
    block[name] = (LayeredSetting(Value(value, origin), name),)


_STATED = frozenset(("system.category", "system.status"))  # required for each system with cells
_ELSEWHERE = "external"  # code of a benchmark whose runs are imported
_SCENARIO_ORDER = {name: index for index, name in enumerate(SCENARIOS)}


class Declaring:
    """Converts one document to cells, and collects all problems.

    ``complete``: every file could be read, so a missing name is not declared anywhere. ``refused``: paths of values
    that were already refused; if it is empty, a missing value was never written.
    """

    def __init__(
        self,
        document: Document,
        root: MapNode,
        folder: Path,
        variables: Variables,
        *,
        complete: bool,
        refused: frozenset[str],
        adapters: Iterable[HarnessAdapter] = (),
    ) -> None:
        self.spec = document.spec
        self.name = document.metadata.name
        self.problems: list[Problem] = []
        self.root = root
        self._folder = folder
        self._variables = variables
        self._looked: dict[str, bool] = {}
        self._complete = complete
        self.sound = complete and not refused
        self._commands_refused = any(path.endswith(f".{COMMAND}") for path in refused)
        self._scorer_refused = any("score" in path.split(".") for path in refused)
        named = document.spec.program or ""
        self._program = named if named in PROGRAMS else ""
        self._adapters = list_all_adapters(adapters)
        self._refused = refused
        self._blocks = self._resolve_defaults()
        self._cut: set[str] = set()  # systems that extend something wrong, so that their inherited settings are unknown
        self._chains = self._order_systems()
        self._hardware = self._resolve_systems()
        self.systems = {name: self._declare_system(name, block) for name, block in self._hardware.items()}
        self.benchmarks = {name: self._layer_benchmark(name, item) for name, item in self.spec.benchmarks.items()}
        self._on_systems = self._layer_systems()
        self._shared: dict[tuple[str, str], Block] = {}

    def declare(self, files: tuple[SpecFile, ...]) -> Declared:
        """Return the declared submission, which may be used only if ``problems`` is empty. Raises nothing."""
        entered = sorted(self._declare_cells(), key=lambda item: _make_sort_key(item.cell))
        cells, unfit = expand_backgrounds(entered)
        written = self._make_value(self.spec.round, "spec", "round")
        self.problems += unfit if self.sound else ()
        return Declared(
            name=self.name,
            # The round of another program is its name and the version of its rules.
            round=Value(f"{self._program}-{written.value}", written.origin) if self._program else written,
            submitter=self._make_value(self.spec.submitter, "spec", "submitter"),
            # Report a refused value once, without the rules that only a submission must meet.
            rehearsal=self._make_value(
                "spec.rehearsal" in self._refused or self.spec.rehearsal or False, "spec", "rehearsal"
            ),
            systems={name: system for name, system in self.systems.items() if _STATED.issubset(system.settings)},
            cells=tuple(cells),
            files=files,
            variables=dict(sorted(self._variables.read.items())),
            looked=self._looked,
            written=tuple(sorted(self._variables.written)),
            settings=self._collect_settings(),
            unread=frozenset(f"run.{name}" for name in Run.list_unread()),
        )

    def _collect_settings(self) -> dict[str, Value]:
        """Return the submission's own settings by flat name."""
        stores = {name: {"url": store.url, "options": dict(store.options)} for name, store in self.spec.stores.items()}
        single = {"stores": stores or None, "tree": self.spec.tree}
        found = {name: self._make_value(value, "spec", name) for name, value in single.items() if value is not None}
        groups: dict[str, Group] = {name: getattr(self.spec, name) for name in ("documents", "embargo", "signing")}
        for name, group in groups.items():
            block = flatten(group, self._find_node("spec", name), f"spec.{name}", f"{name}.")
            found |= {flat: layers[0].value for flat, layers in block.items() if layers[0].value.value is not None}
        if "documents.folder" in found and not self._program:
            fix = "list single documents: calibration, bandwidth"
            titles = " or ".join(entry.title for entry in PROGRAMS.values()) or "other"
            self.complain(("spec", "documents", "folder"), f"only an {titles} submission has docs/", fix)
        if "tree" in found:
            written = str(self.spec.tree)
            unset = explain_unset(name) if (name := find_variable(written)) else None
            wrong = (unset.message, unset.fix) if unset else find_misplaced_tree(written, self._folder)
            if wrong:
                self.complain_of_value(("spec", "tree"), *wrong)
        return found

    def _make_value(self, value: object, *where: str) -> Value:
        node = find_node(self.root, where)
        return Value(value, node.origin if node is not None else DEFAULT)

    def _find_node(self, *where: str) -> Node | None:
        return find_node(self.root, where)

    def complain(self, where: tuple[str, ...], message: str, fix: str) -> None:
        origin, _ = find_position(self.root, where)
        self.problems.append(origin.make_problem(".".join(where), message, fix))

    def complain_of_value(self, where: tuple[str, ...], message: str, fix: str) -> None:
        value = self._make_value(None, *where)
        self.problems.append(value.origin.make_problem(".".join(where), message, fix))

    def _resolve_defaults(self) -> dict[str, Block]:
        defaults = self.spec.defaults
        own = {
            name: flatten(item, self._find_node("spec", "defaults", name), f"spec.defaults.{name}")
            for name, item in defaults.items()
        }
        uses = {name: self._list_used(item, ("spec", "defaults", name)) for name, item in defaults.items()}
        origins = {
            name: Value(name, find_position(self.root, ("spec", "defaults", name, "use"))[1]) for name in defaults
        }
        uses, circles = break_cycles("defaults", "use", uses, origins)
        self.problems += circles
        presets = sorted({name for used in uses.values() for name in used if PRESET_MARK in name})
        own |= {name: list_presets()[name] for name in presets}
        return resolve_blocks(own, {**uses, **dict.fromkeys(presets, ())})

    def _list_used(self, settings: SettingsGroup, where: tuple[str, ...]) -> tuple[str, ...]:
        """Return the declared blocks and presets in ``use``; report each unknown name at its place."""
        if settings.use is None:
            return ()
        declared = self._list_names("defaults")
        for name, node in _list_named(self._find_node(*where, "use")):
            preset = PRESET_MARK in name
            known = list_presets() if preset else declared
            if name not in known and (preset or self._complete):
                fix = give_advice(name, [*known], what="preset" if preset else "block under spec.defaults")
                message = f"{name} is not {'a preset' if preset else 'a block of spec.defaults'}"
                self.problems.append(node.origin.make_problem(".".join((*where, "use")), message, fix))
        presets = {name for name in settings.use if PRESET_MARK in name and name in list_presets()}
        return tuple(name for name in settings.use if name in self.spec.defaults or name in presets)

    def _list_names(self, section: str) -> list[str]:
        """Return every name in a section, including names with refused values."""
        node = self._find_node("spec", section)
        return list(node.items) if isinstance(node, MapNode) else []

    def layer(self, settings: SettingsGroup, where: tuple[str, ...], *, leave_out: Collection[str] = ()) -> Block:
        names = self._list_used(settings, where)
        used = [list_presets()[name] if PRESET_MARK in name else self._blocks[name] for name in names]
        return combine([*used, flatten(settings, self._find_node(*where), ".".join(where), leave_out=leave_out)])

    def _order_systems(self) -> dict[str, tuple[str, ...]]:
        """Return each system's layers: the systems that it extends, lowest first, then itself."""
        extended = {name: self._list_extended(name) for name in self.spec.systems}
        origins = {
            name: Value(name, find_position(self.root, ("spec", "systems", name, "extends"))[1]) for name in extended
        }
        extended, circles = break_cycles("systems", "extends", extended, origins)
        self.problems += circles
        return order_layers(extended)

    def _list_extended(self, name: str) -> tuple[str, ...]:
        where, declared = ("spec", "systems", name, "extends"), self._list_names("systems")
        if ".".join(where) in self._refused:
            self._cut.add(name)
            return ()
        for other, node in _list_named(self._find_node(*where)):
            if other not in declared and self._complete:
                fix = give_advice(other, declared, what="system under spec.systems")
                self.sound = False
                self._cut.add(name)
                message = f"{other} is not a declared system"
                self.problems.append(node.origin.make_problem(".".join(where), message, fix))
        return tuple(other for other in self.spec.systems[name].extends or () if other in self.spec.systems)

    def _resolve_systems(self) -> dict[str, Block]:
        """Return the fields of each system, layered on top of the fields of the systems that it extends."""
        own = {}
        for name, system in self.spec.systems.items():
            where = ("spec", "systems", name)
            own[name] = flatten(system, self._find_node(*where), ".".join(where), leave_out=SettingsGroup.model_fields)
        found = {name: combine(own[layer] for layer in layers) for name, layers in self._chains.items()}
        extended = {layer for layers in self._chains.values() for layer in layers[:-1]}
        divisions = type(self.spec.divisions).model_fields
        for name, block in found.items():
            entered = any(self._find_node("spec", "divisions", division, name) for division in divisions)
            if self._cut.isdisjoint(self._chains[name]) and (name not in extended or entered):
                self._require_stated(name, block)
            self._check_count(block)
        return found

    def _require_stated(self, system: str, block: Block) -> None:
        for setting in _STATED.difference(block):
            where = ("spec", "systems", system, setting.partition(".")[2])
            if self._complete and ".".join(where) not in self._refused and not is_misspelt(where, self.root):
                self.sound = False
                self.complain(where, f"{where[-1]} is missing", f"write {show_example(where[-1])}")

    def _declare_system(self, name: str, block: Block) -> DeclaredSystem:
        values = {key: layers[0].value for key, layers in block.items()}
        description = {
            key.removeprefix("description."): value for key, value in values.items() if key.startswith("description.")
        }
        settings = {key: value for key, value in values.items() if not key.startswith("description.")}
        unknown = {}
        for layer in self._chains[name]:
            where = ("spec", "systems", layer, "description")
            for field in self.spec.systems[layer].description:
                if field not in DESCRIPTION_FIELDS:
                    place, _ = find_position(self.root, (*where, field))
                    unknown[field] = place, find_nearest(field, DESCRIPTION_FIELDS)
        origin, _ = find_position(self.root, ("spec", "systems", name))
        return DeclaredSystem(name, settings, description, origin, unknown)

    def _check_count(self, block: Block) -> None:
        accelerator = get_text(block, "hardware.accelerator", "none")
        absent = accelerator.lower() in NO_HARDWARE
        if not absent and get_text(block, "hardware.count") == "0":
            self.sound = False
            fix = "set the number per node, such as 8, or remove accelerator"
            message = f"count is 0, but {accelerator} is declared"
            self.problems.append(block["hardware.count"][0].make_problem(message, fix))
        for slices in block.get("hardware.mig", ())[:1]:
            if absent:
                message = f"slices {slices.value.value} are declared, and no accelerator"
                self.problems.append(slices.make_problem(message, "add it, such as 'accelerator: NVIDIA A30'"))
            elif wrong := explain_wrong_slices(str(slices.value.value), accelerator):
                self.problems.append(slices.make_problem(wrong, "list the GPU's profiles: nvidia-smi mig -lgip"))

    def _layer_systems(self) -> dict[tuple[str, ...], Block]:
        """Return the cell settings in each system, in its benchmarks, and in their scenarios."""
        found: dict[tuple[str, ...], Block] = {}
        for name, system in self.spec.systems.items():
            where = ("spec", "systems", name)
            found[name,] = self.layer(system, where, leave_out=System.model_fields.keys() - SettingsGroup.model_fields)
            for benchmark, group in system.benchmarks.items():
                inner = (*where, "benchmarks", benchmark)
                self._check_declared(benchmark, "benchmarks", inner)
                found[name, benchmark] = self.layer(group, inner)
                for scenario in group.model_fields_set.intersection(SCENARIOS):
                    found[name, benchmark, scenario] = self.layer(getattr(group, scenario), (*inner, scenario))
        for block in found.values():
            self._refuse_adapter(block)
        return found

    def _refuse_adapter(self, block: Block, benchmark: str = "NAME") -> None:
        if ADAPTER in block:
            fix = f"move it to spec.benchmarks.{benchmark}"
            self.problems.append(block[ADAPTER][0].make_problem("an adapter applies to all cells of a benchmark", fix))

    def find_shared(self, system: str, benchmark: str) -> Block:
        """Return the settings that all cells of a benchmark on a system share."""
        if (system, benchmark) not in self._shared:
            chain = self._chains.get(system, ())
            places: list[tuple[str, ...]] = [*((name,) for name in chain), *((name, benchmark) for name in chain)]
            layers = [self._on_systems[place] for place in places if place in self._on_systems]
            self._shared[system, benchmark] = combine([self.benchmarks.get(benchmark, {}), *layers])
        return self._shared[system, benchmark]

    def _multiply_rates(self, block: Block, system: DeclaredSystem) -> None:
        """Convert rates per accelerator to rates of the whole system; the original value is kept as overridden."""
        for name, layers in block.items():
            written = str(layers[0].value.value)
            if not name.endswith(TARGET_QPS) or not written.endswith(PER_ACCELERATOR):
                continue
            each, nodes = (system.settings.get(f"hardware.{number}") for number in ("count", "nodes"))
            count = int(each.value if each else 0) * int(nodes.value if nodes else 1)
            if not count:
                self.problems += [layers[0].make_problem(*_explain_no_count(system))] if self.sound else []
                continue
            total = show_decimal(Decimal(written.removesuffix(PER_ACCELERATOR)) * count)
            block[name] = (*layers[0].imply(total), *layers[0].imply(written), *layers[1:])

    def _layer_benchmark(self, name: str, benchmark: BenchmarkGroup) -> Block:
        where = ("spec", "benchmarks", name)
        block = self._adapt_block(name, self.layer(benchmark, where))
        implied = LayeredSetting(Value(name, find_position(self.root, where)[0]), ".".join(where))
        code, written = get_text(block, "code", name), block.pop("code", None)
        facts = find_benchmark_facts(code)
        if facts is not None and not (written is None and COMMAND in block):
            add_facts(name, block, facts)
            self._add_places(block, where, find_benchmark_files(facts.code, name))
        block.setdefault("benchmark.official", (implied,))
        if self._program:  # the program's cells define how they are measured, unless their runs are imported
            block |= {"benchmark.code": written} if written and code == _ELSEWHERE else {}
        elif written is None:
            self._imply_code(name, where, block, implied, facts)
        elif code.endswith(".py"):
            block["benchmark.path"] = written
            self._check_file(written[0], (*where, "code"))
        else:
            block["benchmark.code"] = written
        return block

    def _adapt_block(self, name: str, block: Block) -> Block:
        """Layer the block on top of the adapter's settings for this benchmark."""
        if ADAPTER not in block:
            return block
        chosen, benchmark = get_text(block, ADAPTER), get_text(block, "benchmark.official", name)
        adapter = self._adapters.get(chosen)
        if adapter is None:
            wrong = f"{chosen} is not an adapter", give_advice(chosen, [*self._adapters], what="adapter")
        elif benchmark not in adapter.known.benchmarks:
            wrong = describe_missing(adapter, benchmark)
        else:
            return combine([adapter.make_block(benchmark), block])
        if self._complete:
            self.problems.append(block[ADAPTER][0].make_problem(*wrong))
        return block

    def _add_places(self, block: Block, where: tuple[str, ...], files: BenchmarkFiles | None) -> None:
        if files is None:
            return
        try:
            add_scratch_places(block, files, self._variables, self._looked)
        except UnfitError as error:
            self.complain(where, error.message, error.fix)

    def _imply_code(
        self, name: str, where: tuple[str, ...], block: Block, implied: LayeredSetting, facts: BenchmarkFacts | None
    ) -> None:
        if COMMAND in block and (facts is not None or name not in BENCHMARKS):
            block["benchmark.code"] = block[COMMAND][0].imply("command")
        elif facts is not None and not facts.support.runs:
            fix = f"declare a harness.command; `reconcile benchmarks show {name}` explains scoring"
            self.complain(where, f"{name} does not run here by itself: {facts.support.because}", fix)
        elif facts is not None:
            block["benchmark.code"] = implied.imply(facts.code)
        elif name in BENCHMARKS:
            block["benchmark.code"] = (implied,)
        elif self._find_node(*where, "code") is None and self.sound:
            known = {
                short: official for facts in load_benchmark_facts().values() for short, official in facts.names.items()
            }
            stem = name.removesuffix(".9").removesuffix("-99")  # names with a suffix for their single target
            near = stem if stem in known else find_nearest(name, known.values())
            own = f"write 'code: path/to/{name}.py' for a benchmark of your own"
            fix = f"write {near}, or {own}" if near else f"{own}; `reconcile benchmarks` lists the built-in ones"
            self.complain(where, f"{name} is not a built-in benchmark and has no `code`", fix)

    def _check_file(self, setting: LayeredSetting, where: tuple[str, ...]) -> None:
        """Report a missing file of the repository; a file located by a variable may be on another machine."""
        node, path = self._find_node(*where), Path(str(setting.value.value))
        written = str(node.value) if isinstance(node, ScalarNode) else ""
        if "$" in written or path.is_absolute():
            return
        if os.path.isfile(self._folder / path):  # noqa: PTH113  False also for a name that is too long
            return
        message = f"no such file: {show_quantity(path)}"
        fix = "correct the path (it is relative to the repository), or add the file"
        self.problems.append(setting.value.origin.make_problem(".".join(where), message, fix))

    def _declare_cells(self) -> Iterator[DeclaredCell]:
        for (division, system, benchmark), scenarios, inner in self.list_entered(""):
            for scenario in scenarios.model_fields_set:
                cell, where = Cell(division, system, benchmark, scenario), (*inner, scenario)
                yield self.declare_cell(cell, self.layer(getattr(scenarios, scenario), where), where)
        for program in PROGRAMS:
            if program == self._program:
                yield from load_program(program).declare_cells(self)
            else:
                tuple(self.list_entered(program))  # reports divisions of other programs

    def list_entered(self, program: str) -> Iterator[tuple[tuple[str, str, str], Any, tuple[str, ...]]]:
        """Yield (division, system, benchmark), its value and its path, for the divisions of ``program``; report them
        and yield none if the spec is for another program. ``program``: "" for MLPerf Inference."""
        for division in type(self.spec.divisions).model_fields:
            owner, written = find_program_of_division(division), getattr(self.spec.divisions, division)
            if owner != program:
                continue
            if written and program != self._program:
                own = ", ".join(PROGRAMS[self._program].divisions if self._program else DIVISIONS)
                message = f"program {self._program or BUILT_IN} has no division {division}"
                fix = f"its divisions: {own}" if self._program else f"write 'program: {owner}' in spec, or use {own}"
                self.complain(("spec", "divisions", division), message, fix)
                continue
            for system, benchmarks in written.items():
                where = ("spec", "divisions", division, system)
                self._check_declared(system, "systems", where)
                for benchmark, entered in benchmarks.items():
                    inner = (*where, benchmark)
                    self._check_declared(benchmark, "benchmarks", inner)
                    yield (division, system, benchmark), entered, inner

    def _check_declared(self, name: str, section: str, where: tuple[str, ...]) -> None:
        names = self._list_names(section)
        if not names and not self.sound:
            return  # the section itself is in another file, or is misspelt
        if name not in names and self._complete:
            noun = section.removesuffix("s")
            self.complain(
                where, f"{name} is not a declared {noun}", give_advice(name, names, what=f"{noun} under spec.{section}")
            )

    def declare_cell(self, cell: Cell, own: Block, where: tuple[str, ...]) -> DeclaredCell:
        places = [(name, cell.benchmark, cell.scenario) for name in self._chains.get(cell.system, ())]
        above = [self._on_systems[place] for place in places if place in self._on_systems]
        block = combine([self.find_shared(cell.system, cell.benchmark), *above, own])
        self._refuse_adapter(own, cell.benchmark)
        if COMMAND in block and "engine.backend" not in block:
            block["engine.backend"] = block[COMMAND][0].imply("command")
        system = self.systems.get(cell.system)
        if system and "engine.backend" not in block and "infer_from" not in block:
            add_backend(block, system.settings)
        if system:
            self._multiply_rates(block, system)
        add_types(block)
        self.problems += check_benchmark_settings(block)
        if COMMAND in block or not self._commands_refused:
            self.problems += check_harness(block, scorer_refused=self._scorer_refused)
        if "engine.backend" in block:
            self.problems += check_cell(block)
        elif self.sound and cell.benchmark in self.benchmarks and "infer_from" not in block:
            fix = f"write 'engine: {{backend: onnxruntime}}' under spec.benchmarks.{cell.benchmark}"
            self.complain(where, "this cell has no backend", fix)
        settings = {name: layers[0].value for name, layers in block.items()} | (dict(system.settings) if system else {})
        layered = {**block, **self._hardware.get(cell.system, {})}
        overridden = {
            name: tuple(s.value for s in layers[1:]) for name, layers in sorted(layered.items()) if len(layers) > 1
        }
        origin = Value(str(cell), find_position(self.root, where)[0])
        return DeclaredCell(
            cell, dict(sorted(settings.items())), origin, overridden, self._find_needs(cell, block, where)
        )

    def _find_needs(self, cell: Cell, block: Block, where: tuple[str, ...]) -> dict[str, str]:
        """Find the files that the adapter's commands need; the user's own commands need none of them. Report a scenario
        that the adapter's command does not run."""
        adapter = self._adapters.get(get_text(block, ADAPTER))
        official = get_text(block, "benchmark.official", cell.benchmark)
        if adapter is None or official not in adapter.known.benchmarks:
            return {}
        words = {"system": cell.system, "scenario": cell.scenario}
        found: dict[str, str] = {}
        if _is_from(adapter, block, COMMAND):
            if "infer_from" not in block and adapter.explain_refusal(official, cell.scenario):
                self.complain(where, *describe_missing(adapter, official, cell.scenario))
            found["needs.command"] = "\n".join(adapter.list_needs(official, "command", words))
        if _is_from(adapter, block, SCORE_COMMAND):
            found["needs.score"] = "\n".join(adapter.list_needs(official, "score", words))
        needed = {name: paths for name, paths in found.items() if paths}
        return needed and {**needed, "needs.code": adapter.describe_code(official)}


def _is_from(adapter: HarnessAdapter, block: Block, name: str) -> bool:
    return name in block and block[name][0].value.origin.file == adapter.file


def _explain_no_count(system: DeclaredSystem) -> tuple[str, str]:
    """Explain why a rate per accelerator cannot be multiplied; return the problem and the fix."""
    model = system.settings.get("hardware.accelerator")
    if "hardware.count" in system.settings or (model is not None and str(model.value).lower() in NO_HARDWARE):
        return f"{system.name} is declared without accelerators", "write the rate of the complete system"
    fix = f"write 'hardware: {{count: 8}}' in spec.systems.{system.name}, or write the rate of the complete system"
    return f"the number of accelerators of {system.name} is not declared", fix


def _list_named(node: Node | None) -> list[tuple[str, Node]]:
    items = node.items if isinstance(node, ListNode) else [node]
    return [(str(item.value), item) for item in items if isinstance(item, ScalarNode)]


def _make_sort_key(cell: Cell) -> tuple[str, str, str, int]:
    """Sort scenarios in their fixed order, and points by concurrency."""
    known = _SCENARIO_ORDER.get(cell.scenario)
    return cell.division, cell.system, cell.benchmark, read_point(cell) if known is None else known
