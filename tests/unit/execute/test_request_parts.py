"""What an executor must know of a request: slices, secrets, and what it names outside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contract import (
    BACKENDS,
    BackgroundLoad,
    Benchmark,
    BuildRequest,
    CommandRequest,
    FileMessage,
    LaunchRequest,
    ProbeRequest,
    RunRequest,
)
from reconciler.execute.request_parts import list_locations, list_secrets, select_slices
from reconciler.resource.settings import SLICES, CellSettings

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
        pytest.param(LAUNCH, [], id="launch"),
        pytest.param(ProbeRequest(), [], id="probe"),
    ],
)
def test_places_outside_are_those_that_a_request_names(request_: FileMessage, places: list[str]) -> None:
    assert list(list_locations(request_)) == [Path(place) for place in places]


@pytest.mark.parametrize(
    ("request_", "secrets"),
    [(RUN, SECRETS), (COMMAND, SECRETS), (LAUNCH, SECRETS), (BUILD, {}), (ProbeRequest(), {})],
    ids=["run", "command", "launch", "build", "probe"],
)
def test_secrets_are_those_of_what_asks_somebody(request_: FileMessage, secrets: dict[str, str]) -> None:
    assert list_secrets(request_) == secrets


@pytest.mark.parametrize("backend", [*BACKENDS, "", "of nobody"])
def test_slices_are_taken_by_all_but_backends_on_processors(backend: str) -> None:
    settings = {SLICES: "1x 1g.10gb, 1x 2g.20gb", **({"engine.backend": backend} if backend else {})}
    processors = {name for name, facts in BACKENDS.items() if facts.drives == "cpu"}
    assert {"onnxruntime", "pytorch"} & processors
    assert select_slices(CellSettings(settings)) == (() if backend in processors else ("1g.10gb", "2g.20gb"))
