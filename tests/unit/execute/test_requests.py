"""What a child is asked for: the request of each kind of attempt."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contract import (
    BACKENDS,
    SOURCE_NOTE,
    BackgroundLoad,
    Benchmark,
    BuildRequest,
    CommandRequest,
    FileMessage,
    LaunchRequest,
    PowerRequest,
    ProbeRequest,
    RunRequest,
    StateRequest,
)
from reconciler.desired.cell_settings import CellReaders
from reconciler.desired.state import Pins
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, create
from reconciler.execute.commands import collect_placeholder_values
from reconciler.execute.power_state import hold_state
from reconciler.execute.request_parts import list_locations, list_secrets, select_slices
from reconciler.execute.requests import make_request
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.resource.ruled_values import AccuracyLogRule, ExtraFiles, Metric
from reconciler.resource.settings import SLICES, CellSettings
from reconciler.rules.context import EndpointsContext, RuleContext
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import RepositoryPaths, hash_file
from reconciler.storage.machine_locks import lock_folder
from tests.unit.desired.test_inputs import declare

CELL = "closed/box/net/Server"
BACKEND = {"engine.backend": "onnxruntime", "engine.precision": "int8"}


def begin(
    root: Path,
    kind: Kind,
    what: str,
    settings: dict[str, Any],
    *inputs: str,
    values: dict[str, Any] | None = None,
    **more: Any,
) -> Attempt:
    """``inputs``: of what it is made from; ``values``: of the inputs that its key is made of."""
    asked = {name: (value, "specs/a.yaml:1") for name, value in (values or {}).items()}
    intent = Intent("1", Address(kind, what), "k" * 64, 1, "2026-01-01", asked, CellSettings(settings), **more)
    attempt = create(RepositoryPaths(root).attempts, intent)
    for name in inputs:
        (attempt.inputs / name).mkdir(parents=True)
    attempt.inputs.mkdir(exist_ok=True)
    (attempt.inputs / "a file").touch()
    return attempt


def run(root: Path, mode: str, settings: dict[str, Any], *inputs: str, **more: Any) -> Attempt:
    values = {"scenario": "Server", "mode": mode, "model_key": "resnet50", **more.pop("values", {})}
    return begin(root, Kind.RUN, f"{CELL}/{mode}", {**BACKEND, **settings}, *inputs, values=values, **more)


def places(attempt: Attempt, *names: str) -> dict[str, str]:
    return {name: str(attempt.inputs / name) for name in names}


def test_an_engine_is_built_of_its_model_by_its_backend_with_a_timing_cache(tmp_path: Path) -> None:
    settings = {
        **BACKEND,
        "engine.backend": "onnxruntime-cuda",
        "engine.version": "1.2",
        "engine.batch_size": 8,
        "engine.options.graph": True,
        "engine.options.batch_size": 4,
        "run.streams": 2,
        "hardware.mig": "1x 2g.20gb, 2x 1g.10gb",
    }
    attempt = begin(tmp_path, Kind.ENGINE, CELL, settings, "model", locations={"benchmark.code": "digits"})
    paths = RepositoryPaths(tmp_path)
    assert make_request(attempt, paths) == BuildRequest(
        kind="Engine",
        benchmark=Benchmark(name="digits", path=None),
        output=str(attempt.output),
        counter=str(attempt.counter),
        backend="onnxruntime-cuda",
        settings={"precision": "int8", "batch_size": 8, "graph": True},
        inputs=places(attempt, "model"),
        caches={"timing": str(paths.caches / "timing-onnxruntime-cuda.cache")},
        slices=("1g.10gb",),
    )


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.DATASET])
def test_what_a_spec_names_is_prepared_for_no_backend(tmp_path: Path, kind: Kind) -> None:
    name = kind.lower()
    settings = {**BACKEND, "quantization.method": "ptq"}
    attempt = begin(tmp_path, kind, "net", settings, "dataset", locations={f"{name}.path": "data/x", "other": "y"})
    paths = RepositoryPaths(tmp_path)
    request = make_request(attempt, paths)
    assert isinstance(request, BuildRequest)
    assert (request.kind, request.source, request.backend) == (str(kind), str((tmp_path / "data/x").resolve()), None)
    assert (request.settings, request.slices) == (settings, ())
    calibration = {"calibration": str(paths.caches / "calibration")}
    assert request.caches == (calibration if kind is Kind.MODEL else {})


def test_a_run_is_given_its_own_inputs_and_what_computes_next_to_it_its_own(tmp_path: Path) -> None:
    settings = {
        "engine.backend": "onnxruntime-cuda",
        "hardware.mig": "2x 2g.20gb, 1x 1g.10gb",
        "background": ["bert", "own"],
        "background.0.benchmark.code": "bert",
        "background.0.engine.backend": "tensorrt",
        "background.0.performance_sample_count": 64,
        "background.0.engine.batch_size": 4,
        "background.1.benchmark.path": "own/net.py",
        "background.1.engine.backend": "onnxruntime",
    }
    extra = ("background0_engine", "background0_dataset", "background1_model")
    attempt = run(tmp_path, "performance", settings, "engine", "dataset", *extra)
    request = make_request(attempt, RepositoryPaths(tmp_path))
    assert isinstance(request, RunRequest)
    assert request.inputs == places(attempt, "engine", "dataset")
    smallest = "1g.10gb"
    assert request.slices == ("2g.20gb", "2g.20gb", smallest)
    assert request.background == (
        BackgroundLoad(
            benchmark=Benchmark(name="bert", path=None),
            backend="tensorrt",
            slice=smallest,
            performance_sample_count=64,
            settings={"batch_size": 4},
            inputs={name: str(attempt.inputs / f"background0_{name}") for name in ("engine", "dataset")},
        ),
        BackgroundLoad(
            benchmark=Benchmark(name="net", path=str((tmp_path / "own/net.py").resolve())),
            backend="onnxruntime",
            slice=smallest,
            inputs={"model": str(attempt.inputs / "background1_model")},
        ),
    )


def test_a_run_is_given_all_that_decides_how_it_is_made(tmp_path: Path) -> None:
    settings = {
        "engine.batch_size": 8,
        "engine.options.graph": True,
        "run.options.api_key_env": "KEY",
        "run.streams": 2,
        "run.queue_delay": 500,
        "run.stall_timeout": 1,
        "hardware.count": 4,
        "target_qps": 100,
    }
    values = {"performance_sample_count": 1024, "generation.max_new_tokens": 128, "target_qps": 100}
    values |= {"test": "TEST04", "audit.performance_issue_same": True}
    attempt = run(
        tmp_path,
        "performance",
        settings,
        "model",
        values=values,
        locations={"model.path": "m/x.onnx", "benchmark.code": "digits"},
        server=ServerAccess(8000, "/logs"),
    )
    request = make_request(attempt, RepositoryPaths(tmp_path))
    assert isinstance(request, RunRequest)
    assert (request.backend, request.scenario, request.mode, request.model_key) == (
        "onnxruntime",
        "Server",
        "performance",
        "resnet50",
    )
    assert (request.user_conf, request.log_dir, request.counter) == (
        str(attempt.user_conf),
        str(attempt.output),
        str(attempt.counter),
    )
    assert request.benchmark == Benchmark(name="digits", path=None)
    assert (request.performance_sample_count, request.generation) == (1024, {"max_new_tokens": 128})
    assert request.sources == {"model": str((tmp_path / "m/x.onnx").resolve())}
    server = ServerAccess(8000, "/logs")
    assert (request.service_url, request.service_log) == (server.url, "/logs")
    assert request.secrets == {"api_key": "KEY"}
    assert request.settings == {
        "streams": 2,
        "batch_size": 8,
        "devices": 4,
        "queue_delay_us": 500,
        "api_key_env": "KEY",
        "precision": "int8",
    }
    assert "resnet50.Server.target_qps = 100" in attempt.user_conf.read_text()
    assert request.audit_config == str(attempt.audit_settings)
    assert "*.*.performance_issue_same = 1" in attempt.audit_settings.read_text()


METER = {"power.director": "10.0.0.1", "power.ntp": "time.example", "power.kit": "kit"}


def test_a_timed_run_under_a_meter_is_measured_and_no_other(tmp_path: Path) -> None:
    attempt = run(tmp_path / "a", "performance", METER)
    request = make_request(attempt, RepositoryPaths(tmp_path / "a"))
    assert isinstance(request, PowerRequest)
    assert (request.director, request.ntp) == ("10.0.0.1", "time.example")
    assert request.kit == str((tmp_path / "a/kit").resolve())
    assert (request.session, request.counter) == (str(attempt.session), str(attempt.counter))
    assert (request.run.mode, request.run.log_dir) == ("performance", str(attempt.output))
    other = run(tmp_path / "b", "accuracy", METER)
    assert isinstance(make_request(other, RepositoryPaths(tmp_path / "b")), RunRequest)


@pytest.mark.parametrize("meter", [{}, METER], ids=["plain", "measured"])
def test_a_run_is_made_in_the_power_state_of_its_system(tmp_path: Path, meter: dict[str, str]) -> None:
    settings = {
        **meter,
        "power_state.set": ["set", "it"],
        "power_state.restore": ["put", "back"],
        "power_state.read": ["read", "it"],
        "power_state.expect": "300 W",
        "run.options.api_key_env": "KEY",
    }
    attempt = run(tmp_path, "performance", settings, locations={"model.path": "m/x.onnx"})
    request = make_request(attempt, RepositoryPaths(tmp_path))
    assert isinstance(request, StateRequest)
    assert request.inner_verb == ("power" if meter else "run")
    assert (request.set_by, request.restore, request.read_by) == (("set", "it"), ("put", "back"), ("read", "it"))
    assert (request.expect, request.cwd, request.counter) == ("300 W", str(tmp_path), str(attempt.counter))
    assert request.secrets == {"api_key": "KEY"}
    assert request.places == (str((tmp_path / "m/x.onnx").resolve()),)


COMMANDS = {
    "harness.command": ["serve", "{mode}"],
    "harness.score.command": ["score", "{accuracy_log}"],
    "harness.build.command": ["build", "{output}"],
}


@pytest.mark.parametrize(
    ("kind", "declared", "purpose"),
    [
        (Kind.RUN, "harness.command", "run"),
        (Kind.SCORE, "harness.score.command", "score"),
        (Kind.ENGINE, "harness.build.command", "build"),
    ],
)
def test_a_command_is_started_for_what_it_is_declared_for_alone(
    tmp_path: Path, kind: Kind, declared: str, purpose: str
) -> None:
    def ask(folder: str, settings: dict[str, Any]) -> object:
        root = tmp_path / folder
        if kind is Kind.RUN:
            return make_request(run(root, "accuracy", settings), RepositoryPaths(root))
        return make_request(begin(root, kind, CELL, {**BACKEND, **settings}, "run"), RepositoryPaths(root))

    request = ask("a", {declared: COMMANDS[declared]})
    assert isinstance(request, CommandRequest)
    assert (request.purpose, request.command[0]) == (purpose, COMMANDS[declared][0])
    others = {name: words for name, words in COMMANDS.items() if name != declared}
    assert not isinstance(ask("b", others), CommandRequest)


@pytest.mark.parametrize(
    ("scenario", "mode", "settings", "paced"),
    [
        ("Server", "accuracy", {"harness.command": ["x"], "target_qps": 70}, True),
        ("Interactive", "accuracy", {"harness.command": ["x"], "target_qps": 70}, True),
        ("Offline", "accuracy", {"harness.command": ["x"], "target_qps": 70}, False),
        ("Server", "performance", {"harness.command": ["x"], "target_qps": 70}, False),
        ("Server", "accuracy", {"target_qps": 70}, False),
        ("Server", "accuracy", {"harness.command": ["x"]}, False),
    ],
)
def test_the_queries_of_a_commands_accuracy_run_come_at_the_declared_rate(
    tmp_path: Path, scenario: str, mode: str, settings: dict[str, Any], paced: bool
) -> None:
    attempt = run(tmp_path, mode, settings, values={"scenario": scenario})
    make_request(attempt, RepositoryPaths(tmp_path))
    assert ("target_qps = 70" in attempt.user_conf.read_text()) is paced


@pytest.mark.parametrize("round_name", ["v4.1", "v5.1", "v6.1"])
def test_user_conf_leaves_to_loadgen_what_the_round_has_built_in(round_name: str, tmp_path: Path) -> None:
    """The submitter's own values are written, and those that LoadGen would not have by itself."""
    ruleset = load_ruleset(round_name)
    (cell,) = declare("Offline", target_qps="54", min_duration=None, target_latency=None).cells
    declared = replace(declare("Offline"), cells=(cell,))
    context = CellReaders(declared, ruleset, Pins()).make_rule_context(cell)
    rules = ruleset.benchmarks["resnet"]
    values = {name: value.value for name, value in rules.list_settings("Offline").items()}
    asked = {**values, "scenario": "Offline", "mode": "performance", "target_qps": "54"}

    def write(**changes: object) -> list[str]:
        folder = tmp_path / "-".join(["conf", *changes])
        attempt = run(folder, "performance", {}, values={**asked, **changes}, rules=context)
        make_request(attempt, RepositoryPaths(folder))
        return [line for line in attempt.user_conf.read_text().splitlines() if not line.startswith("#")]

    target = "resnet50.Offline.target_qps = 54"
    assert write() == [target]
    assert write(min_query_count=30_000) == [target, "resnet50.Offline.min_query_count = 30000"]
    assert write(min_duration=0) == [target, "resnet50.Offline.min_duration = 0"]


OWN, OTHER = Benchmark(name="own", path="/own/net.py"), Benchmark(name="other", path="/b.py")
GIVEN = Benchmark(name="resnet50")
SECRETS = {"api_key": "TOKEN"}
BUILD = BuildRequest(kind="Model", benchmark=OWN, output="o", counter="c", source="/own/weights")
RUN = RunRequest(
    benchmark=OWN,
    backend="vllm",
    scenario="Offline",
    mode="performance",
    model_key="*",
    user_conf="u",
    log_dir="l",
    counter="c",
    sources={"model": "/own/model"},
    secrets=SECRETS,
    background=tuple(
        BackgroundLoad(benchmark=b, backend="vllm", slice="") for b in (Benchmark(name="b", path="/b.py"), GIVEN)
    ),
)
COMMAND = CommandRequest(
    purpose="run",
    command=("run",),
    cwd="/own/cwd",
    run_dir="r",
    output="o",
    counter="c",
    secrets=SECRETS,
    logs="/own/logs",
    user_conf_at="/own/conf",
    code="/own/code",
)
STATE = StateRequest(
    inner_verb="run",
    inner={},
    set_by=(),
    restore=(),
    read_by=(),
    expect="",
    cwd="w",
    journal="j",
    counter="c",
    secrets=SECRETS,
    places=("/own/place",),
)
LAUNCH = LaunchRequest(command=(), answer="a", counter="c", counter_there="t", cwd="w", secrets=SECRETS)


@pytest.mark.parametrize(
    ("request_", "places"),
    [
        pytest.param(BUILD, ["/own/net.py", "/own/weights"], id="build"),
        pytest.param(BuildRequest(kind="Engine", benchmark=GIVEN, output="o", counter="c"), [], id="build of ours"),
        pytest.param(RUN, ["/own/net.py", "/own/model", "/b.py"], id="run"),
        pytest.param(COMMAND, ["/own/cwd", "/own/code", "/own/logs", "/own/conf"], id="command"),
        pytest.param(
            CommandRequest(purpose="run", command=(), cwd="/w", run_dir="r", output="o", counter="c"), ["/w"], id="bare"
        ),
        pytest.param(STATE, ["/own/place"], id="state"),
        pytest.param(LAUNCH, [], id="launch"),
        pytest.param(ProbeRequest(), [], id="probe"),
    ],
)
def test_places_outside_are_those_that_a_request_names(request_: FileMessage, places: list[str]) -> None:
    assert list(list_locations(request_)) == [Path(place) for place in places]


@pytest.mark.parametrize(
    ("request_", "secrets"),
    [(RUN, SECRETS), (COMMAND, SECRETS), (STATE, SECRETS), (LAUNCH, SECRETS), (BUILD, {}), (ProbeRequest(), {})],
    ids=["run", "command", "state", "launch", "build", "probe"],
)
def test_secrets_are_those_of_what_asks_somebody(request_: FileMessage, secrets: dict[str, str]) -> None:
    assert list_secrets(request_) == secrets


@pytest.mark.parametrize("backend", [*BACKENDS, "", "of nobody"])
def test_slices_are_taken_by_all_but_backends_on_processors(backend: str) -> None:
    settings = {SLICES: "1x 1g.10gb, 1x 2g.20gb", **({"engine.backend": backend} if backend else {})}
    processors = {name for name, facts in BACKENDS.items() if facts.drives == "cpu"}
    assert {"onnxruntime", "pytorch"} & processors
    assert select_slices(CellSettings(settings)) == (() if backend in processors else ("1g.10gb", "2g.20gb"))


CELL_COMMANDS = "closed/box/net/Offline"


def begin_commands(root: Path, kind: Kind, settings: dict[str, Any], *, audit: bool = False, **more: Any) -> Attempt:
    asked = {"scenario": "Offline", "mode": "performance", "model_key": "net", "target_qps": 7}
    inputs = {**asked, **({"test": "TEST04", "audit.mode": 2} if audit else {})} if kind is Kind.RUN else {}
    what = f"{CELL_COMMANDS}/performance" if kind is Kind.RUN else CELL_COMMANDS
    origins = {name: (value, "specs/a.yaml:1") for name, value in inputs.items()}
    intent = Intent("1", Address(kind, what), "k" * 64, 1, "2026", origins, CellSettings(settings), **more)
    attempt = create(RepositoryPaths(root).attempts, intent)
    (attempt.inputs / "run").mkdir(parents=True)
    (root / "src/below").mkdir(parents=True)
    (root / "src/run.py").touch()
    return attempt


def ask(attempt: Attempt, root: Path) -> CommandRequest:
    request = make_request(attempt, RepositoryPaths(root))
    assert isinstance(request, CommandRequest)
    return request


def place(attempt: Attempt) -> dict[str, str]:
    return {name: str(getattr(attempt, name)) for name in ("run_dir", "output", "counter")}


def test_a_bare_run_writes_its_own_folder_and_must_follow_the_conf_that_was_written(tmp_path: Path) -> None:
    attempt = begin_commands(tmp_path, Kind.RUN, {"harness.command": ["go"]}, clock="2026-01-02T00:00:00")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="run",
        command=("go",),
        cwd=str(attempt.run_dir),
        **place(attempt),
        logs=str(attempt.run_dir),
        since="2026-01-02T00:00:00",
        user_conf=str(attempt.user_conf),
        user_conf_sha256=hash_file(attempt.user_conf),
    )
    assert attempt.run_dir.is_dir()


DECLARED = {
    "harness.cwd": "src",
    "harness.code": "src/run.py",
    "harness.logs": "logs/{scenario}",
    "harness.outputs": ["{mode}.txt", "more"],
    "harness.timeout": 90_000,
    "harness.env.MODE": "{loadgen_mode}",
    "harness.env.TOKEN": ["env", "SECRET"],
    "hardware.mig": "1x 2g.20gb, 1x 1g.10gb",
}


def test_a_run_is_given_all_that_its_command_declares(tmp_path: Path) -> None:
    settings = {**DECLARED, "harness.command": ["go", "{run_dir}", "{user_conf}"]}
    attempt = begin_commands(tmp_path, Kind.RUN, settings)
    src = (tmp_path / "src").resolve()
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="run",
        command=("go", str(attempt.run_dir), str(attempt.user_conf)),
        cwd=str(src),
        **place(attempt),
        env={"MODE": "PerformanceOnly"},
        secrets={"TOKEN": "SECRET"},
        timeout=90.0,
        logs=str(src / "logs/Offline"),
        user_conf=str(attempt.user_conf),
        user_conf_sha256=hash_file(attempt.user_conf),
        outputs=("performance.txt", "more"),
        code=str(src / "run.py"),
        code_location="src/run.py",
        slices=("2g.20gb", "1g.10gb"),
    )


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"harness.code": "src/run.py"}, "src"),
        ({"harness.code": "src/below"}, "src/below"),
        ({"harness.code": "src", "harness.cwd": "src/{mode}"}, "src/performance"),
        ({"client.code": "src/run.py"}, "src"),
    ],
)
@pytest.mark.parametrize("kind", [Kind.RUN, Kind.SCORE])
def test_a_command_starts_in_its_folder_else_next_to_its_code(
    settings: dict[str, str], folder: str, kind: Kind, tmp_path: Path
) -> None:
    command = "harness.command" if kind is Kind.RUN else "harness.score.command"
    attempt = begin_commands(tmp_path, kind, {**settings, command: ["go"]})
    wanted = folder.replace("performance", "accuracy") if kind is Kind.SCORE else folder
    found = ask(attempt, tmp_path)
    assert found.cwd == str((tmp_path / wanted).resolve())
    own = settings.get("harness.code") or (settings["client.code"] if kind is Kind.RUN else "")
    assert found.code == (str((tmp_path / own).resolve()) if own else "")


@pytest.mark.parametrize(("how", "at"), [("", ""), ("written", ""), ("own", ""), ("own", "conf/{scenario}.conf")])
def test_a_conf_that_the_command_writes_itself_is_looked_for_where_it_says(how: str, at: str, tmp_path: Path) -> None:
    settings = {"harness.command": ["go"], **({"harness.user_conf": how} if how else {})}
    settings |= {"harness.user_conf_at": at} if at else {}
    attempt = begin_commands(tmp_path, Kind.RUN, settings)
    found = ask(attempt, tmp_path)
    assert bool(found.user_conf_sha256) is (how != "own")
    assert found.user_conf_at == (str((attempt.run_dir / "conf/Offline.conf").resolve()) if at else "")


@pytest.mark.parametrize("audit", [True, False])
@pytest.mark.parametrize("placed", [True, False])
def test_audit_settings_are_placed_under_a_lock_of_the_folder_where_that_is_declared(
    audit: bool, placed: bool, tmp_path: Path
) -> None:
    settings = {"harness.command": ["go"], "harness.cwd": "src"}
    settings |= {"harness.audit_config": "placed"} if placed else {}
    attempt = begin_commands(tmp_path, Kind.RUN, settings, audit=audit)
    found = ask(attempt, tmp_path)
    assert found.place_audit == (str(attempt.audit_settings) if audit and placed else "")
    assert bool(found.lock) is placed
    other = begin_commands(tmp_path / "b", Kind.RUN, settings)
    assert not placed or ask(other, tmp_path / "b").lock != found.lock


def test_a_score_is_of_the_log_of_its_run_and_leaves_what_the_round_wants_to_see(tmp_path: Path) -> None:
    settings = {**DECLARED, "harness.score.command": ["score", "{accuracy_log}", "{mode}", "{run_dir}"]}
    shown = ExtraFiles("images", ("1", "2"))
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), shown=shown)
    attempt = begin_commands(tmp_path, Kind.SCORE, settings, rules=rules)
    log = str(attempt.inputs / "run/mlperf_log_accuracy.json")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="score",
        command=("score", log, "accuracy", str(attempt.run_dir)),
        cwd=str((tmp_path / "src").resolve()),
        **place(attempt),
        env={"MODE": "AccuracyOnly"},
        secrets={"TOKEN": "SECRET"},
        timeout=90.0,
        outputs=("images",),
        code=str((tmp_path / "src/run.py").resolve()),
        code_location="src/run.py",
    )
    bare = begin_commands(tmp_path / "b", Kind.SCORE, {"harness.score.command": ["score"]})
    assert ask(bare, tmp_path / "b") == CommandRequest(
        purpose="score", command=("score",), cwd=str(bare.run_dir), **place(bare)
    )


def test_a_build_has_its_own_words_else_those_of_the_harness(tmp_path: Path) -> None:
    settings = {
        **DECLARED,
        "harness.image": "net",
        "harness.build.command": ["build", "{image}", "{run_dir}"],
        "harness.build.timeout": 5000,
        "harness.build.outputs": ["{precision}.engine"],
        "harness.build.env.KIND": "{precision}",
        "engine.precision": "fp8",
    }
    attempt = begin_commands(tmp_path, Kind.ENGINE, settings, clock="2026-01-02T00:00:00")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="build",
        command=("build", "net", str(attempt.run_dir)),
        cwd=str((tmp_path / "src").resolve()),
        **place(attempt),
        env={"KIND": "fp8"},
        timeout=5.0,
        since="2026-01-02T00:00:00",
        outputs=("fp8.engine",),
        code=str((tmp_path / "src/run.py").resolve()),
        code_location="src/run.py",
        slices=("1g.10gb",),
    )
    own = {"harness.build.image": "builder", "harness.build.code": "src/below", "harness.build.cwd": "."}
    found = ask(begin_commands(tmp_path / "b", Kind.ENGINE, {**settings, **own}), tmp_path / "b")
    assert found.command[1] == "builder"
    assert (found.cwd, found.code) == (str((tmp_path / "b").resolve()), str((tmp_path / "b/src/below").resolve()))
    bare = begin_commands(tmp_path / "c", Kind.ENGINE, {"harness.build.command": ["build"]})
    assert ask(bare, tmp_path / "c") == CommandRequest(
        purpose="build", command=("build",), cwd=str(bare.run_dir), **place(bare)
    )


def ask_command_words(
    root: Path, settings: dict[str, Any], inputs: dict[str, str] | None = None, **more: Any
) -> dict[str, str]:
    """The words of an accuracy run with these settings."""
    address = more.pop("address", Address(Kind.RUN, "open/box/net/Offline/accuracy"))
    asked = {name: (value, "specs/a.yaml:1") for name, value in more.pop("asked", {}).items()}
    paths = RepositoryPaths(root / "repository")
    name = f"2026-{len(list(paths.attempts.glob('*')))}"
    intent = Intent(name, address, "k" * 64, 1, "2026", asked, CellSettings(settings), **more)
    return collect_placeholder_values(create(paths.attempts, intent), paths, inputs or {})


@pytest.mark.parametrize(
    ("hardware", "device"),
    [
        ({}, "cpu"),
        ({"hardware.count": 4}, "cpu"),
        ({"hardware.accelerator": "none", "hardware.count": 4}, "cpu"),
        ({"hardware.accelerator": "H100"}, "0"),
        ({"hardware.accelerator": "H100", "hardware.count": 3}, "0,1,2"),
        ({"hardware.accelerator": "H100", "hardware.count": 1, "hardware.mig": "2x 1g.10gb"}, "0,1"),
    ],
)
def test_devices_are_the_slices_else_the_accelerators(hardware: dict[str, Any], device: str, tmp_path: Path) -> None:
    assert ask_command_words(tmp_path, hardware)["device"] == device


@pytest.mark.parametrize(
    ("asked", "mode", "loadgen", "qps", "latency"),
    [
        (
            {"mode": "performance", "target_qps": 100, "target_latency": 15_000_000},
            "performance",
            "PerformanceOnly",
            "100",
            "15",
        ),
        ({"mode": "accuracy", "target_qps": None}, "accuracy", "AccuracyOnly", "", ""),
        ({}, "accuracy", "AccuracyOnly", "", ""),
    ],
    ids=["performance", "accuracy", "unsaid"],
)
def test_targets_are_reported_in_the_units_of_loadgen(
    asked: dict[str, Any], mode: str, loadgen: str, qps: str, latency: str, tmp_path: Path
) -> None:
    found = ask_command_words(tmp_path, {}, address=Address(Kind.RUN, "open/box/net/Server/performance"), asked=asked)
    reported = [found[name] for name in ("mode", "loadgen_mode", "scenario", "target_qps", "target_latency")]
    assert reported == [mode, loadgen, "Server", qps, latency]
    unsaid = ("sample_index_seed", "schedule_seed", "min_duration", "max_duration", "min_query_count", "model_name")
    assert {found[name] for name in unsaid} == {""}


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_model_is_what_was_made_of_it_else_its_source(kind: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    locations, inputs = {f"{kind}.path": "data/x"}, {kind: str(made)}
    source = str((tmp_path / "repository/data/x").resolve())
    assert ask_command_words(tmp_path / "a", {}, inputs)[kind] == str(made)
    assert ask_command_words(tmp_path, {}, inputs, locations=locations)[kind] == str(made)
    assert ask_command_words(tmp_path, {}, locations=locations)[kind] == source
    by_command = {**locations, "benchmark.code": "command"}
    assert ask_command_words(tmp_path, {}, inputs, locations=by_command)[kind] == source
    assert ask_command_words(tmp_path, {}, inputs, locations={"benchmark.code": "command"})[kind] == ""
    (made / SOURCE_NOTE).touch()  # it is used as it is
    assert ask_command_words(tmp_path, {}, inputs, locations=locations)[kind] == source
    assert ask_command_words(tmp_path, {}, inputs)[kind] == str(made)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--qps={target_qps}", "--qps=7"),
        ("{target_qps}{mode}", "7accuracy"),
        ("{{target_qps}}", "{target_qps}"),
        ("{none}", ""),
        ("{Upper} {1}", "{Upper} {1}"),
    ],
)
def test_a_placeholder_is_replaced_and_one_in_two_braces_is_passed_in_one(text: str, filled: str) -> None:
    assert fill_placeholders(text, {"target_qps": "7", "mode": "accuracy"}) == filled


TESTED = {
    "mode": "performance",
    "performance": "performance",
    "Offline": "Offline",
    "test": "TEST06",
    "target_qps": "7",
}
PLAIN = {"mode": "accuracy", "accuracy": "accuracy", "Server": "Server", "test": "", "target_qps": ""}


@pytest.mark.parametrize(
    ("text", "tested", "plain"),
    [
        ("a{test:+ --audit_test={test}}", "a --audit_test=TEST06", "a"),
        ("{Offline:+{target_qps:+--offline_expected_qps={target_qps}}}", "--offline_expected_qps=7", ""),
        ("{accuracy:+--accuracy}{performance:+{{mode}}}", "{mode}", "--accuracy"),
        ("${test:+-v x} ${test}", "${test:+-v x} $TEST06", "${test:+-v x} $"),
        ("{mode}} {Server:+}", "{mode}} ", "{mode}} "),
    ],
)
def test_a_conditional_part_is_there_where_its_name_represents_something(text: str, tested: str, plain: str) -> None:
    assert (fill_placeholders(text, TESTED), fill_placeholders(text, PLAIN)) == (tested, plain)


def test_a_word_of_which_a_condition_leaves_nothing_is_not_handed_over() -> None:
    words = ("run", "{accuracy:+--accuracy}", "{target_qps}", "", "{test:+--audit_test}", "{test:+{test}}")
    assert fill_words(words, TESTED) == ("run", "7", "", "--audit_test", "TEST06")
    assert fill_words(words, PLAIN) == ("run", "--accuracy", "", "")


@pytest.mark.parametrize(
    ("own", "ruled", "said"),
    [
        ({"min_duration": 5}, None, "5"),
        ({"min_duration": 5}, 600, "5"),
        ({"min_duration": 0}, 600, "0"),
        ({}, 600, "600"),
        ({}, None, ""),
    ],
)
def test_an_accuracy_run_of_the_endpoints_harness_is_given_what_its_configuration_needs(
    own: dict[str, int], ruled: int | None, said: str, tmp_path: Path
) -> None:
    """What is asked of the run itself counts before what is declared for the cell."""
    settings = {"harness.results": "endpoints", "target_qps": 7, "max_duration": 9, "min_query_count": 3, **own}
    endpoints = EndpointsContext(min_duration=ruled) if ruled is not None else None
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), endpoints=endpoints)
    names = ("min_duration", "max_duration", "min_query_count", "target_qps")
    found = ask_command_words(tmp_path, settings, rules=rules)
    assert [found[name] for name in names] == [said, "9", "3", "7"]
    found = ask_command_words(tmp_path, settings, rules=rules, asked={"max_duration": 8, "target_qps": 6})
    assert [found[name] for name in names] == [said, "8", "3", "6"]
    usual = ask_command_words(tmp_path, {**settings, "harness.results": "loadgen"}, rules=rules)
    assert [usual[name] for name in names] == [""] * 4


STATE_POWER_STATE = {
    "power_state.set": ["set", "400"],
    "power_state.restore": ["restore"],
    "power_state.read": ["read"],
    "power_state.expect": "400",
}
COMMAND_POWER_STATE = CommandRequest(
    purpose="run",
    command=("go",),
    cwd="/work",
    run_dir="r",
    output="o",
    counter="c",
    code="/code",
    secrets={"key": "TOKEN"},
)


@pytest.mark.parametrize("within", [False, True])
def test_a_request_is_carried_out_in_the_state_that_its_system_declares(within: bool, tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    intent = Intent("1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, CellSettings(STATE_POWER_STATE))
    attempt = create(tmp_path, intent)
    asked = ProbeRequest() if within else COMMAND_POWER_STATE
    assert hold_state(asked, attempt, paths, COMMAND_POWER_STATE if within else None) == StateRequest(
        inner_verb=asked.verb,
        inner=asdict(asked),
        set_by=("set", "400"),
        restore=("restore",),
        read_by=("read",),
        expect="400",
        cwd=str(tmp_path),
        journal=str(lock_folder() / "power_state.json"),
        counter=str(attempt.counter),
        secrets={"key": "TOKEN"},
        places=("/work", "/code"),
    )


def test_where_none_is_declared_a_request_stays_as_it_is(tmp_path: Path) -> None:
    settings = {name: value for name, value in STATE_POWER_STATE.items() if name != "power_state.set"}
    intent = Intent("1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, CellSettings(settings))
    assert hold_state(COMMAND_POWER_STATE, create(tmp_path, intent), RepositoryPaths(tmp_path)) is COMMAND_POWER_STATE
