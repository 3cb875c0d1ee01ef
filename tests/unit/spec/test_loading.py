"""What a right spec becomes: layers, origins, locations, merging, YAML 1.2, bounds, and where its tree is rendered."""

from __future__ import annotations

import cProfile
import pickle
from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Cell
from reconciler.spec.declaration import expand_backgrounds
from reconciler.spec.declared import Declared, DeclaredCell
from reconciler.spec.executor_models import HardwareGroup
from reconciler.spec.files import compute_blob_id
from reconciler.spec.groups import Group
from reconciler.spec.layers import flatten
from reconciler.spec.loading import list_left_out, load
from reconciler.spec.models import System
from reconciler.spec.nodes import parse
from reconciler.spec.settings_models import SettingsGroup
from tests.unit.spec.writing import HEADER, VALID, catch_problems, load_texts, problems_in, replaced, write


def values(declared: Declared, index: int = 0) -> dict[str, object]:
    return {name: value.value for name, value in declared.cells[index].settings.items()}


def test_a_small_spec(tmp_path: Path) -> None:
    declared = load_texts(tmp_path, main=VALID)
    assert declared.name == "acme"
    assert (declared.round.value, str(declared.round.origin)) == ("v6.1", "main.yaml:5")
    assert declared.rehearsal.value is False
    assert [item.cell for item in declared.cells] == [Cell("open", "box", "digits", "Offline")]
    assert declared.cells[0].origin.origin == Origin("main.yaml", 20, 11)
    assert values(declared) == {
        "benchmark.code": "digits",
        "benchmark.official": "resnet",
        "engine.backend": "onnxruntime",
        "engine.batch_size": 1,
        "system.category": "edge",
        "system.status": "available",
        "target_qps": "54",
    }
    assert declared.cells[0].settings["target_qps"].origin == Origin("main.yaml", 20, 33)
    assert declared.files[0].blob == compute_blob_id(VALID.encode())
    assert pickle.loads(pickle.dumps(declared)) == declared


def test_systems_and_benchmarks_spread_over_files(tmp_path: Path) -> None:
    hardware = "hardware: {cpu: EPYC, power_limit: 300 W, nodes: 2}"
    system = f"    box: {{{hardware}, description: {{cooling: air, number_of_nodes: 2}}}}\n"
    cells = "    open: {box: {digits: {Server: {target_qps: 5}}}}\n"
    second = f"{HEADER}spec:\n  systems:\n{system}  divisions:\n{cells}"
    declared = load_texts(tmp_path, main=VALID, second=second)
    assert [item.cell.scenario for item in declared.cells] == ["Server", "Offline"]
    box = declared.systems["box"]
    assert box.settings["hardware.power_limit"].value == 300_000
    assert box.settings["hardware.cpu"].origin == Origin("second.yaml", 5, 27)
    assert {name: value.value for name, value in box.description.items()} == {"cooling": "air", "number_of_nodes": 2}
    assert declared.cells[0].settings["hardware.nodes"].value == 2
    assert load([tmp_path], tmp_path, {}) == declared
    assert load([tmp_path, tmp_path / "main.yaml"], tmp_path, {}) == declared


def test_variables_expand_in_locations_and_are_recorded(tmp_path: Path) -> None:
    text = replaced("as: resnet", "model: {path: '${A}/m/${B}.onnx'}\n      dataset: {path: data}").replace(
        "  round:", "  tree: ${A}/tree\n  round:"
    )
    declared = load_texts(tmp_path, {"A": "/a", "B": "b", "C": "c"}, main=text)
    assert declared.cells[0].settings["model.path"].value == "/a/m/b.onnx"
    assert declared.cells[0].settings["dataset.path"].value == "data"
    assert declared.settings["tree"].value == "/a/tree"
    assert declared.variables == {"A": "/a", "B": "b"}


def test_yaml_1_2_scalars_keep_their_text(tmp_path: Path) -> None:
    text = replaced(
        "as: resnet",
        "model: {retraining: No, settings: {a: on, b: 0x10, c: 1.20, d: 24_576, e: true, f: 12, g: '12', h: 1e3}}\n"
        "      engine: {version: 1.20, backend: onnxruntime}",
    ).replace("      engine: {backend: onnxruntime, batch_size: 1}\n", "")
    found = values(load_texts(tmp_path, main=text))
    settings = {name[-1]: value for name, value in found.items() if name.startswith("model.settings")}
    assert settings == {"a": "on", "b": "0x10", "c": "1.2", "d": "24_576", "e": True, "f": 12, "g": "12", "h": "1e3"}
    assert found["engine.version"] == "1.20"
    assert found["measurements.retraining"] == "No"


def test_an_address_needs_no_quotes_between_braces(tmp_path: Path) -> None:
    address, model = "http://127.0.0.1:8000", "as: resnet\n      model: {settings: {url: %s, b: c}}"
    written = [replaced("as: resnet", model % text) for text in (address, f'"{address}"')]
    bare, quoted = [values(load_texts(tmp_path, main=text)) for text in written]
    assert bare == quoted
    assert bare["model.settings.url"] == address
    broken = written[0].replace("divisions:", "divisions")
    line = broken.splitlines().index("  divisions") + 1
    assert [problem.line for problem in problems_in(tmp_path, main=broken)] == [line]


def test_aliases_point_at_their_anchor(tmp_path: Path) -> None:
    text = replaced("Offline: {target_qps: 54}", "Offline: &o {target_qps: 54}\n          Server: *o")
    server = load_texts(tmp_path, main=text).cells[0]
    assert server.cell.scenario == "Server"
    assert server.settings["target_qps"].origin.line == 20


def test_an_alias_bomb_is_bounded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (problem,) = problems_in(tmp_path, main="\n".join(lines))  # all of it would never fit into memory
    assert "aliases expand to more than" in problem.message


@pytest.mark.parametrize("text", ["[" * 50_000, "{a: " * 50_000, "- " * 50_000])
def test_deep_nesting_is_refused(tmp_path: Path, text: str) -> None:
    assert any("nested more than" in problem.message for problem in problems_in(tmp_path, main=text))


def test_blocks_that_use_each_other_many_times_stay_small(tmp_path: Path) -> None:
    blocks = "".join(f"    b{n}: {{use: [b{n - 1}, b{n - 1}], attempts: 1}}\n" for n in range(1, 100))
    text = replaced("  defaults:\n", "  defaults:\n    b0: {attempts: 1}\n" + blocks).replace("as: resnet", "use: b99")
    assert load_texts(tmp_path, main=text).cells  # 2 ** 99 blocks, were each resolved where it is used


def many_cells(systems: int, benchmarks: int) -> str:
    """A spec of systems x benchmarks x 4 cells."""
    lines = [HEADER + "metadata: {name: many}\nspec:\n  round: v6.1\n  submitter: A\n  systems:"]
    lines += [f"    s{n}: {{category: edge, status: available, hardware: {{count: 8}}}}" for n in range(systems)]
    lines += ["  benchmarks:"]
    lines += [f"    b{n}: {{code: digits, as: resnet, engine: {{backend: onnxruntime}}}}" for n in range(benchmarks)]
    lines += ["  divisions:", "    closed:"]
    for system in range(systems):
        lines += [f"      s{system}:"]
        for benchmark in range(benchmarks):
            lines += [f"        b{benchmark}:", "          SingleStream:"]
            lines += ["          MultiStream: {min_query_count: 10}"]
            lines += [f"          Server: {{target_qps: {system + 1}, target_latency: 15 ms}}"]
            lines += ["          Offline: {target_qps: 54.5, engine: {batch_size: 32}}"]
    return "\n".join(lines) + "\n"


def test_work_of_loading_grows_with_the_cells_and_no_faster(tmp_path: Path) -> None:
    few, many = (calls_while_loading(tmp_path, many_cells(systems, 5), systems * 20) for systems in (5, 25))
    assert many < 5.5 * few


def calls_while_loading(folder: Path, text: str, cells: int) -> int:
    """How many functions are called: a measure of work that no load of the machine changes."""
    profile = cProfile.Profile()
    declared = profile.runcall(load_texts, folder, main=text)
    assert len(declared.cells) == cells
    return sum(entry.callcount for entry in profile.getstats())


def test_spec_of_its_own_applies_only_when_its_file_is_named(tmp_path: Path) -> None:
    main, apart = write(tmp_path, main=VALID, apart=VALID.replace("spec:\n", "only_when_named: true\nspec:\n", 1))
    assert [file.path for file in load([tmp_path], tmp_path, {}).files] == ["main.yaml"]
    assert [file.path for file in load([apart], tmp_path, {}).files] == ["apart.yaml"]
    for paths in ([tmp_path, apart], [apart, tmp_path], [main, apart]):
        with pytest.raises(SpecError, match="set here and in"):
            load(paths, tmp_path, {})
    assert list_left_out([tmp_path], tmp_path) == ("apart.yaml",)
    assert list_left_out([main, apart], tmp_path) == ()


def test_mistakes_in_a_spec_of_its_own_do_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, main=VALID, apart=f"{HEADER}only_when_named: true\nspec: {{rounds: v6.1}}\n")
    assert load([tmp_path], tmp_path, {}).name == "acme"


def test_folder_of_nothing_but_specs_of_their_own_declares_nothing(tmp_path: Path) -> None:
    write(tmp_path, apart=f"{HEADER}only_when_named: true\n")
    (problem,) = catch_problems(load, [tmp_path], tmp_path, {})
    assert problem.message == "every spec here applies only if passed on the command line"
    assert problem.fix == "pass one, such as apart.yaml"


def names(group: type[Group], text: str) -> set[str]:
    root, problems = parse(text, "a.yaml")
    assert root is not None
    assert not problems
    written = {name: getattr(node, "value", {}) for name, node in root.items.items()}
    return set(flatten(group.model_validate(written), root, ""))


def test_a_group_within_a_system_has_its_own_name() -> None:
    root, _ = parse("hardware:\n  cpu: any\n", "a.yaml")
    system = System(category="edge", status="available", hardware=HardwareGroup(cpu="any"))
    assert set(flatten(system, root, "")) == {"hardware.cpu"}


def test_settings_of_a_cell_have_no_prefix() -> None:
    assert names(SettingsGroup, "target_qps: 5\npublish: best\n") == {"target_qps", "policy.publish"}


HERE = Origin("specs/a.yaml", 7, 3)
OWN = {"engine.backend": "tensorrt", "run.streams": 2, "target_qps": "5", "measurements.input_data_types": "int8"}
SLICED = {**OWN, "hardware.mig": "7x 1g.10gb"}


def declare(benchmark: str, **settings: object) -> DeclaredCell:
    cell = Cell("closed", "box", benchmark, "Offline")
    values = {name.replace("__", "."): Value(value, HERE) for name, value in {**SLICED, **settings}.items()}
    return DeclaredCell(cell, values, Value(str(cell), HERE))


def test_what_a_cell_is_driven_by_goes_with_the_one_that_it_accompanies() -> None:
    names = ("bert/Offline", "rnnt/Offline")
    (resnet, *others), problems = expand_backgrounds(
        [declare("resnet", background=names), declare("bert"), declare("rnnt", run__streams=9)]
    )
    assert problems == []
    found = {name: value.value for name, value in resnet.settings.items() if name.startswith("background.")}
    assert found == {
        "background.0.engine.backend": "tensorrt",
        "background.0.run.streams": 2,
        "background.1.engine.backend": "tensorrt",
        "background.1.run.streams": 9,
    }
    assert not any(name.startswith("background") for other in others for name in other.settings)


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ({}, {"engine__backend": "vllm"}, "its backend does not batch"),
        ({}, {"harness__command": ["run"]}, "it runs a command"),
        ({}, {"infer_from": "Server"}, "its result is inferred"),
        ({"harness__command": ["run"]}, {}, "background is not supported with a command"),
        ({"background": ("bert/Server",)}, {}, "bert/Server is not a cell of closed/box"),
    ],
)
def test_an_unfit_background_is_left_out(own: dict[str, object], other: dict[str, object], said: str) -> None:
    cells = [declare("resnet", **{"background": ("bert/Offline",), **own}), declare("bert", **other)]
    (resnet, _), problems = expand_backgrounds(cells)
    assert [said in problem.message for problem in problems] == [True]
    assert (problems[0].file, problems[0].line) == ("specs/a.yaml", 7)
    assert problems[0].path == "closed.box.resnet.Offline.background"
    assert "background" not in resnet.settings


def with_tree(tree: str) -> str:
    return VALID.replace("  submitter: ACME\n", f"  submitter: ACME\n  tree: {tree}\n")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (".", "is the repository itself"),
        ("a/..", "is the repository itself"),
        ("..", "contains the repository"),
        ("/", "contains the repository"),
        ("state", "be state/"),
        ("state/tree", "be inside state/"),
        ("a/../state/records", "be inside state/"),
        ("linked/tree", "be inside state/"),
        ("specs/tree", "be inside specs/"),
        (".git/tree", "is inside .git"),
        ("/srv/other/.git/tree", "is inside .git"),
        (".reconcile", "be .reconcile/"),
        (".reconcile/objects", "be inside .reconcile/"),
        (".reconcile/tree/deeper", "be inside .reconcile/"),
    ],
)
def test_a_tree_that_would_mix_with_the_repository_is_refused(tree: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "linked").symlink_to("state")
    (problem,) = problems_in(tmp_path, main=with_tree(tree))
    assert (problem.file, problem.line, problem.column, problem.path) == ("main.yaml", 7, 9, "spec.tree")
    assert said in problem.message
    assert "tree: submission" in problem.fix


def test_a_tree_that_would_hold_a_part_of_the_repository_is_refused(tmp_path: Path) -> None:
    root, kept = tmp_path / "repository", tmp_path / "kept"
    (kept / "state").mkdir(parents=True)
    root.mkdir()
    (root / "state").symlink_to(kept / "state")
    (problem,) = problems_in(root, main=with_tree(str(kept)))
    assert "the tree would contain state/" in problem.message


@pytest.mark.parametrize("tree", [".reconcile/tree", "submission", "../submission", "stately", "/srv/submission"])
def test_any_other_folder_is_taken(tree: str, tmp_path: Path) -> None:
    assert load_texts(tmp_path, main=with_tree(tree)).settings["tree"].value == tree
