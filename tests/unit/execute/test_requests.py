"""What a child is asked for: the request of each kind of attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contract import BackgroundLoad, Benchmark, BuildRequest, CommandRequest, RunRequest
from reconciler.desired.cell_settings import CellReaders
from reconciler.desired.state import Pins
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, create
from reconciler.execute.requests import make_request
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import RepositoryPaths
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
    assert request.audit_config == str(attempt.audit_file)
    assert "*.*.performance_issue_same = 1" in attempt.audit_file.read_text()


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
def test_a_command_is_started_as_declared(tmp_path: Path, kind: Kind, declared: str, purpose: str) -> None:
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
