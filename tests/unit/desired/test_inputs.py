"""What each kind is made from: a setting makes exactly the kinds stale that read it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.compile import compile_desired
from reconciler.desired.requirements import list_needed_pins
from reconciler.desired.state import Desired, Pins
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.rules.context import RuleContext
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared, DeclaredCell, DeclaredSystem

RULES = load_ruleset("v6.1")
HERE = Origin("specs/a.yaml", 7, 3)
BASE: dict[str, object] = {
    "benchmark.official": "resnet",
    "benchmark.code": "digits",
    "engine.backend": "onnxruntime",
    "engine.precision": "fp32",
    "engine.batch_size": 4,
    "engine.version": "1.20.1",
    "target_qps": "100",
    "target_latency": 15000000,
    "min_duration": 600000,
    "measurements.input_data_types": "fp32",
    "model.retraining": "No",
    "run.streams": 1,
    "dataset.settings.seed": 1,
    "model.settings.epochs": 3,
}
EVERYTHING = {"Dataset", "Model", "Engine", "Run accuracy", "Run performance", "Score", "Result"}
BUILT = EVERYTHING - {"Dataset"}
RUNS = EVERYTHING - {"Dataset", "Model", "Engine"}


def declare(scenario: str = "Server", *, origin: Origin = HERE, **changes: object) -> Declared:
    values = {**BASE, **{name.replace("__", "."): value for name, value in changes.items()}}
    cell = Cell("open", "box", "digits", scenario)
    found = {name: Value(value, origin) for name, value in sorted(values.items()) if value is not None}
    system = DeclaredSystem(
        "box", {"system.category": Value("edge", HERE), "system.status": Value("available", HERE)}, {}
    )
    return Declared(
        name="a",
        round=Value("v6.1", HERE),
        submitter=Value("ACME", HERE),
        rehearsal=Value(False, HERE),
        systems={"box": system},
        cells=(DeclaredCell(cell, found, Value(str(cell), HERE), {}),),
        files=(),
        variables={},
        settings={},
    )


def compiled(declared: Declared, pins: Pins | None = None) -> Desired:
    return compile_desired(declared, RULES, pins or Pins())[0]


def stale(before: Desired, after: Desired) -> set[str]:
    """Labels of the resources whose key differs."""
    return {r.address.label for r in after.resources if before.by_address[r.address].key != r.key} - {"Submission"}


def find_rules(desired: Desired, address: Address) -> RuleContext:
    rules = desired.detail(address).rules
    assert rules is not None
    return rules


def move_to(division: str, declared: Declared) -> Declared:
    """Its one cell in another division."""
    (cell,) = declared.cells
    return replace(declared, cells=(replace(cell, cell=replace(cell.cell, division=division)),))


def name_case(value: object) -> str:
    """The same in every process that collects: a set has no order."""
    return str(sorted(value)) if isinstance(value, set) else str(value)


CUT = {"hardware__accelerator": "A100", "hardware__mig": "7x 1g.10gb"}
COMMAND = {"engine__backend": None, "harness__command": ["run"], "harness__score.command": ["score"]}
SERVED = {**COMMAND, "harness__service.command": ["serve"]}


@pytest.mark.parametrize(
    ("base", "change", "expected"),
    [
        ({}, {"target_qps": "101"}, {"Run performance", "Result"}),
        ({}, {"policy__publish": "best"}, {"Result"}),
        ({}, {"target_latency": 14000000}, {"Run performance", "Result"}),
        ({}, {"min_duration": 600001}, {"Run performance", "Result"}),
        ({}, {"min_query_count": 300000}, {"Run performance", "Result"}),
        ({}, {"accuracy_sample_count": 10}, {"Run accuracy", "Score", "Result"}),
        ({}, {"performance_sample_count": 2048}, RUNS),
        ({}, {"run__streams": 2}, RUNS),
        ({}, {"engine__batch_size": 8}, BUILT - {"Model"}),
        ({}, {"engine__version": "1.20.2"}, BUILT - {"Model"}),
        ({}, {"engine__options.graph_optimization": "none"}, BUILT - {"Model"}),
        ({}, {"model__settings.epochs": 4}, BUILT),
        ({}, {"model__sha256": "0" * 64}, BUILT),
        ({}, {"dataset__settings.seed": 2}, EVERYTHING),
        ({}, {"measurements__input_data_types": "int8"}, {"Result"}),
        ({}, {"model__retraining": "Yes"}, {"Result"}),
        ({}, {"attempts": 3}, set()),
        (CUT, {"hardware__mig": "6x 1g.10gb"}, RUNS),  # the engine is made for a slice, of however many
        (CUT, {"hardware__mig": "7x 1g.5gb"}, BUILT - {"Model"}),
        (CUT, {"hardware__mig": "1x 3g.40gb, 4x 1g.10gb"}, BUILT - {"Model"}),
        (CUT, {"hardware__mig": None}, BUILT - {"Model"}),
        (COMMAND, {"harness__command": ["run", "fast"]}, RUNS),
        (COMMAND, {"harness__image": "lab@sha256:1"}, RUNS),
        (COMMAND, {"harness__env.THREADS": "2"}, RUNS),
        (COMMAND, {"harness__user_conf": "user.conf"}, RUNS),
        (COMMAND, {"harness__audit_config": "audit.config"}, RUNS),
        (COMMAND, {"harness__score.command": ["score", "well"]}, {"Score", "Result"}),
        (COMMAND, {"harness__timeout": 60}, set()),
        (SERVED, {"harness__service.command": ["serve", "fast"]}, {"Service", *RUNS}),
        (SERVED, {"harness__service.image": "lab@sha256:1"}, {"Service", *RUNS}),
        (SERVED, {"harness__service.env.THREADS": "2"}, {"Service", *RUNS}),
    ],
    ids=name_case,
)
def test_change_of_a_setting_makes_stale_what_reads_it(
    base: dict[str, object], change: dict[str, object], expected: set[str]
) -> None:
    assert stale(compiled(declare(**base)), compiled(declare(**{**base, **change}))) == expected


def test_systems_that_are_declared_alike_share_what_is_built_and_no_measurement() -> None:
    declared = declare()
    (cell,), (system,) = declared.cells, declared.systems.values()
    crate = replace(cell, cell=Cell("open", "crate", "digits", "Server"))
    other = replace(declared, systems={"crate": replace(system, name="crate")}, cells=(crate,))
    one, two = ({r.address.label: r.key for r in compiled(each).resources} for each in (declared, other))
    assert {label for label in one if one[label] != two[label]} - {"Submission"} == RUNS


def declare_with(**changes: object) -> Declared:
    """Offline with Server in the background; ``changes`` of Server, as they go with Offline's settings."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    ours = {f"background.0.{name}": value for name, value in {**BASE, **named}.items()}
    offline = declare("Offline", background=("digits/Server",), **{n.replace(".", "__"): v for n, v in ours.items()})
    server = declare("Server", **changes)
    return replace(offline, cells=(*server.cells, *offline.cells))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"run__streams": 2}, {"Run performance", "Result"}),
        ({"engine__batch_size": 8}, {"Run performance", "Result"}),
        ({"target_qps": "101"}, set()),
        ({"measurements__input_data_types": "int8"}, set()),
    ],
    ids=name_case,
)
def test_what_computes_next_to_a_run_makes_it_stale(change: dict[str, object], expected: set[str]) -> None:
    before, after = compiled(declare_with()), compiled(declare_with(**change))
    others = {
        r.address.label
        for r in after.resources
        if r.cell is not None and r.cell.scenario == "Offline" and before.by_address[r.address].key != r.key
    }
    assert others == expected
    run = next(r for r in after.resources if str(r.address) == "Run:open/box/digits/Offline/performance")
    assert "Engine:open/box/digits/Server" in {str(up) for up in run.upstream}


@pytest.mark.parametrize(
    ("scenario", "name", "value"),
    [
        ("Offline", "target_qps", "7"),
        ("SingleStream", "target_latency", 1),
        ("MultiStream", "target_latency", 1),
        ("Server", "target_qps", "7"),
        ("Server", "target_latency", 1),
    ],
)
def test_target_of_a_scenario_stales_its_performance_run(scenario: str, name: str, value: object) -> None:
    changed = stale(compiled(declare(scenario)), compiled(declare(scenario, **{name: value})))
    assert changed == {"Run performance", "Result"}


def test_lines_of_the_spec_are_no_identity() -> None:
    moved = compiled(declare(origin=Origin("specs/b.yaml", 99, 1)))
    assert stale(compiled(declare()), moved) == set()


def test_place_of_a_file_is_no_identity_but_its_bytes_are() -> None:
    def with_model(path: str, digest: str) -> Desired:
        declared = declare(model__path=path)
        (pin,) = list_needed_pins(declared, RULES)
        return compiled(declared, Pins({pin: digest}, {}))

    assert stale(with_model("/lab/net.onnx", "a"), with_model("/home/net.onnx", "a")) == set()
    assert stale(with_model("/lab/net.onnx", "a"), with_model("/lab/net.onnx", "b")) == BUILT


@settings(max_examples=30)
@given(st.permutations(["Offline", "Server", "SingleStream", "MultiStream"]))
def test_keys_do_not_depend_on_the_other_cells_or_their_order(names: list[str]) -> None:
    many = [declare(name) for name in names]
    together = compiled(replace(many[0], cells=tuple(cell for declared in many for cell in declared.cells)))
    for declared in many:
        for resource in compiled(declared).resources:
            if resource.address.cell:
                assert together.by_address[resource.address].key == resource.key


@pytest.mark.parametrize(
    ("setting", "other", "apart"),
    [
        ("benchmark.code", "resnet50", {"Dataset", "Model"}),
        ("dataset.settings.seed", 2, {"Dataset", "Model"}),
        ("model.settings.epochs", 4, {"Model"}),
        ("run.streams", 2, set()),
    ],
)
def test_a_cell_whose_data_or_model_is_another_one_has_its_own(setting: str, other: object, apart: set[str]) -> None:
    """What most cells of the benchmark have is under its name."""
    declared = declare("Offline")
    (cell,), (system,) = declared.cells, declared.systems.values()
    at = {name: replace(cell, cell=Cell("open", name, "digits", "Offline")) for name in ("box", "crate", "chest")}
    at["crate"] = replace(at["crate"], settings={**cell.settings, setting: Value(other, HERE)})
    systems = {name: replace(system, name=name) for name in at}
    desired = compiled(replace(declared, systems=systems, cells=tuple(at.values())))
    found = {str(r.address) for r in desired.resources if r.kind in (Kind.DATASET, Kind.MODEL)}
    own = {f"{kind}:open/crate/digits/Offline" for kind in apart}
    assert found == {"Dataset:digits", "Model:digits", *own}
    for kind in (Kind.DATASET, Kind.MODEL):
        keys = {name: desired.by_address[address].key for name in at for address in _list_used(desired, name, kind)}
        assert (keys["crate"] != keys["box"]) is (str(kind) in apart)
        assert keys["box"] == keys["chest"]


def _list_used(desired: Desired, system: str, kind: Kind) -> list[Address]:
    """What the engine of a system's cell depends on."""
    (model,) = desired.by_address[Address(Kind.ENGINE, f"open/{system}/digits/Offline")].upstream
    return [model] if kind is Kind.MODEL else list(desired.by_address[model].upstream)


def test_a_setting_of_a_cell_counts_before_that_of_its_system() -> None:
    run = Address(Kind.RUN, "open/box/digits/Server/performance")
    for more, said in (({}, "edge"), ({"system__category": "datacenter"}, "datacenter")):
        assert compiled(declare(**more)).detail(run).settings.get_text("system.category") == said


@pytest.mark.parametrize("rehearsal", [False, True])
def test_bars_bind_in_a_rehearsal_but_for_points_of_a_curve(rehearsal: bool) -> None:
    """Their closed division holds to the accuracy of the whole set, which a rehearsal has not."""
    whole = replace(move_to("closed", declare("Offline")), rehearsal=Value(rehearsal, HERE))
    assert find_rules(compiled(whole), Address(Kind.SCORE, "closed/box/digits/Offline")).bars_bind


def test_what_a_resource_is_made_from_comes_before_it() -> None:
    desired = compiled(declare())
    seen: set[Address] = set()
    for resource in desired.resources:
        assert set(resource.upstream) <= seen
        seen.add(resource.address)


@pytest.mark.parametrize("rehearsal", [False, True])
def test_a_rehearsal_is_required_to_meet_no_bar_of_the_whole_validation_set(rehearsal: bool) -> None:
    declared = declare("Offline", benchmark__official="gpt-oss-120b", benchmark__code="gpt_oss_120b")
    desired = compiled(replace(declared, rehearsal=Value(rehearsal, HERE)))
    bars = {bar.metric for bar in find_rules(desired, Address(Kind.SCORE, "open/box/digits/Offline")).bars}
    assert "exact_match" in bars
    assert ("TOKENS_PER_SAMPLE" in bars) is not rehearsal


@pytest.mark.parametrize(
    ("backend", "accelerator", "reported"),
    [
        ("tensorrt", "NVIDIA H200", False),
        ("tensorrt", "AMD Radeon", True),
        ("tensorrt", "Instinct 300", True),
        ("tensorrt", "MI300X", True),
        ("tensorrt", "Intel Arc B60", True),
        ("tensorrt", "Gaudi 3", True),
        ("tensorrt", "TPU v6e", True),
        ("tensorrt", "Qualcomm AI 100", True),
        ("tensorrt", None, True),
        ("onnxruntime", "MI300X", True),
        ("onnxruntime", None, False),
        ("openvino", "Intel Arc B60", False),
    ],
)
def test_a_backend_fits_the_maker_of_the_accelerator(backend: str, accelerator: str | None, reported: bool) -> None:
    desired = compiled(declare("Offline", engine__backend=backend, hardware__accelerator=accelerator))
    assert len([gap for gap in desired.gaps if gap.message.startswith(f"backend {backend} ")]) == reported


@pytest.mark.parametrize(
    ("changes", "backend", "marks"),
    [
        ({}, "onnxruntime", ()),
        ({}, "null", ("synthetic",)),
        ({"rehearsal": Value(True)}, "onnxruntime", ("rehearsal",)),
        ({"trial": "trial"}, "onnxruntime", ("trial",)),
        ({"trial": "quick"}, "onnxruntime", ("trial", "quick")),
        ({"rehearsal": Value(True), "trial": "quick"}, "null", ("rehearsal", "synthetic", "trial", "quick")),
    ],
)
def test_a_record_is_marked_by_what_it_is_not(changes: dict[str, object], backend: str, marks: tuple[str, ...]) -> None:
    desired = compiled(replace(declare(engine__backend=backend), **changes))
    for mode in ("performance", "accuracy"):
        assert desired.detail(Address(Kind.RUN, f"open/box/digits/Server/{mode}")).marks == marks
