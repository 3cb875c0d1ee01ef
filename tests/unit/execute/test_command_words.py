"""What a harness's command, and the script of a job, are told."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.contract import SOURCE_NOTE, ProbeRequest
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, create
from reconciler.execute.commands import (
    collect_environment,
    collect_placeholder_values,
    find_folder,
    find_location,
    write_client_config,
)
from reconciler.execute.executors.executor import Submission
from reconciler.execute.executors.job_script import make_script
from reconciler.execute.service import Services
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import EndpointsContext, RuleContext
from reconciler.storage.files import RepositoryPaths

SETTINGS = {
    "scenario": "Offline",
    "benchmark.official": "resnet",
    "system.name": "box",
    "engine.precision": "int8",
    "engine.batch_size": "16",
    "harness.image": "net@sha256:0",
}


def begin(root: Path, address: Address) -> Attempt:
    (root / "repository").mkdir()
    intent = Intent("2026-1", address, "k" * 64, 1, "2026", {}, CellSettings(SETTINGS))
    return create(RepositoryPaths(root / "repository").attempts, intent)


def test_placeholders_stand_for_what_the_cell_declares(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Address(Kind.RUN, "open/box/net/Offline/accuracy"))
    paths = RepositoryPaths(tmp_path / "repository")
    found = collect_placeholder_values(attempt, paths, {"engine": "made/net.engine"})
    told = ("benchmark", "system", "precision", "batch_size", "image", "scenario", "mode", "loadgen_mode", "engine")
    assert {name: found[name] for name in told} == {
        "benchmark": "resnet",
        "system": "box",
        "precision": "int8",
        "batch_size": "16",
        "image": "net@sha256:0",
        "scenario": "Offline",
        "mode": "accuracy",
        "loadgen_mode": "AccuracyOnly",
        "engine": "made/net.engine",
    }
    untold = ("target_qps", "target_latency", "audit_config", "port", "service_url")
    assert {name: found[name] for name in untold} == dict.fromkeys(untold, "")
    assert found["user_conf"] == str(attempt.user_conf)


def test_a_job_carries_out_its_request_with_the_harness(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Address(Kind.MODEL, "net"))
    script = make_script(Submission(attempt, ProbeRequest(), attempt.result), "echo slurm 7")
    last = shlex.split(script.splitlines()[-1])
    command = [sys.executable, "-P", "-m", "harness", "probe", str(attempt.request), str(attempt.result)]
    assert last[:2] == ["exec", "env"]
    assert last[-len(command) :] == command


def test_a_pass_without_a_server_ends_none() -> None:
    services = Services()
    assert services.runs("k" * 64) is None
    assert services.seconds == 0


def ask(root: Path, settings: dict[str, Any], inputs: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
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
    assert ask(tmp_path, hardware)["device"] == device


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
def test_targets_are_told_in_the_units_of_loadgen(
    asked: dict[str, Any], mode: str, loadgen: str, qps: str, latency: str, tmp_path: Path
) -> None:
    found = ask(tmp_path, {}, address=Address(Kind.RUN, "open/box/net/Server/performance"), asked=asked)
    told = [found[name] for name in ("mode", "loadgen_mode", "scenario", "target_qps", "target_latency")]
    assert told == [mode, loadgen, "Server", qps, latency]
    unsaid = ("sample_index_seed", "schedule_seed", "min_duration", "max_duration", "min_query_count", "model_name")
    assert {found[name] for name in unsaid} == {""}


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_the_endpoints_harness_is_told_in_its_own_words(scenario: str, mode: str, tmp_path: Path) -> None:
    asked = {
        "mode": mode,
        "sample_index_rng_seed": 11,
        "schedule_rng_seed": 12,
        "min_duration": 600,
        "max_duration": 700,
        "min_query_count": 0,
    }
    address = Address(Kind.RUN, f"open/box/net/{scenario}/{mode}")
    found = ask(tmp_path, {"harness.model_name": "oss"}, address=address, asked=asked)
    told = ("sample_index_seed", "schedule_seed", "min_duration", "max_duration", "min_query_count", "model_name")
    assert [found[name] for name in told] == ["11", "12", "600", "700", "0", "oss"]
    assert found["endpoints_mode"] == ("perf" if mode == "performance" else "acc")
    assert found["endpoints_type"] == ("offline" if scenario == "Offline" else "online")


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_model_is_what_was_made_of_it_else_its_source(kind: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    locations, inputs = {f"{kind}.path": "data/x"}, {kind: str(made)}
    source = str((tmp_path / "repository/data/x").resolve())
    assert ask(tmp_path / "a", {}, inputs)[kind] == str(made)
    assert ask(tmp_path, {}, inputs, locations=locations)[kind] == str(made)
    assert ask(tmp_path, {}, locations=locations)[kind] == source
    by_command = {**locations, "benchmark.code": "command"}
    assert ask(tmp_path, {}, inputs, locations=by_command)[kind] == source
    assert ask(tmp_path, {}, inputs, locations={"benchmark.code": "command"})[kind] == ""
    (made / SOURCE_NOTE).touch()  # it is used as it is
    assert ask(tmp_path, {}, inputs, locations=locations)[kind] == source
    assert ask(tmp_path, {}, inputs)[kind] == str(made)


def test_a_server_is_told_by_its_port_and_address(tmp_path: Path) -> None:
    server = ServerAccess(8123)
    found = ask(tmp_path, {"client.python": "env/bin/python"}, server=server)
    assert (found["port"], found["service_url"]) == ("8123", server.url)
    assert found["client_python"] == str(tmp_path / "repository/env/bin/python")


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
def test_a_placeholder_is_replaced_and_one_in_two_braces_is_told_in_one(text: str, filled: str) -> None:
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
def test_a_conditional_part_is_there_where_its_name_stands_for_something(text: str, tested: str, plain: str) -> None:
    assert (fill_placeholders(text, TESTED), fill_placeholders(text, PLAIN)) == (tested, plain)


def test_a_word_of_which_a_condition_leaves_nothing_is_not_handed_over() -> None:
    words = ("run", "{accuracy:+--accuracy}", "{target_qps}", "", "{test:+--audit_test}", "{test:+{test}}")
    assert fill_words(words, TESTED) == ("run", "7", "", "--audit_test", "TEST06")
    assert fill_words(words, PLAIN) == ("run", "--accuracy", "", "")


def test_a_folder_of_which_a_condition_leaves_nothing_is_the_usual_one(tmp_path: Path) -> None:
    settings = CellSettings({"harness.logs": "{test:+logs/{test}}"})
    assert find_location(settings, "harness.logs", PLAIN, tmp_path) == ""
    assert find_location(settings, "harness.logs", TESTED, tmp_path) == str(tmp_path / "logs/TEST06")


def test_variables_are_told_by_text_and_secrets_by_the_name_of_their_variable() -> None:
    settings = CellSettings({"harness.env.A": "x{mode}", "harness.env.B": ["env", "TOKEN"], "harness.build.env.C": "c"})
    assert collect_environment(settings, {"mode": "accuracy"}) == ({"A": "xaccuracy"}, {"B": "TOKEN"})
    assert collect_environment(settings, {}, "harness.build") == ({"C": "c"}, {})


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({}, ""),
        ({"harness.code": "src"}, "src"),
        ({"harness.code": "src/run.py"}, "src"),
        ({"harness.code": "other", "harness.build.code": "src/run.py"}, "src"),
        ({"harness.cwd": "{mode}", "harness.code": "src"}, "accuracy"),
        ({"harness.cwd": "x", "harness.build.cwd": "y", "harness.build.code": "src"}, "y"),
    ],
)
def test_a_command_starts_where_it_is_declared_else_beside_its_code(
    settings: dict[str, Any], folder: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/run.py").touch()
    found = find_folder(CellSettings(settings), "harness.build", {"mode": "accuracy"}, tmp_path)
    assert found == (str((tmp_path / folder).resolve()) if folder else "")


@pytest.mark.parametrize(("declared", "url"), [("", "http://127.0.0.1:8123"), ("http://far:1", "http://far:1")])
def test_the_official_client_is_told_of_the_declared_endpoint_else_of_the_server_here(
    declared: str, url: str, tmp_path: Path
) -> None:
    asked = {
        "mode": "performance",
        "scenario": "c8",
        "point.concurrency": 8,
        "point.least_duration": 600_000,
        "min_duration": 750_000,
        "performance_sample_count": 10,
        "schedule_rng_seed": 1,
        "sample_index_rng_seed": 2,
        "harness.model_name": "oss",
    }
    settings = {
        "client.tokenizer": "tokens",
        "client.accuracy.dataset": "questions",
        **({"endpoint.url": declared, "endpoint.api_key_env": "KEY"} if declared else {}),
    }
    inputs = {name: (value, "specs/a.yaml:1") for name, value in asked.items()}
    address = Address(Kind.RUN, "open/box/net/c8/performance")
    attempt = create(tmp_path, Intent("2026-1", address, "k" * 64, 1, "2026", inputs, CellSettings(settings)))
    write_client_config(attempt, tmp_path, {"service_url": "http://127.0.0.1:8123", "dataset": "/data/x"})
    config = json.loads(attempt.user_conf.read_text())
    key = {"api_key": "${KEY}"} if declared else {}
    assert config["endpoint_config"]["endpoints"] == [url]
    assert {name: value for name, value in config["endpoint_config"].items() if name == "api_key"} == key
    assert config["report_dir"] == str(attempt.run_dir / "report")
    assert config["name"] == "open-box-net-c8"
    assert config["model_params"]["tokenizer_name"] == str((tmp_path / "tokens").resolve())
    assert [dataset["path"] for dataset in config["datasets"]] == ["/data/x"]


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
def test_an_accuracy_run_of_the_endpoints_harness_is_told_what_its_configuration_needs(
    own: dict[str, int], ruled: int | None, said: str, tmp_path: Path
) -> None:
    """What is asked of the run itself counts before what is declared for the cell."""
    settings = {"harness.results": "endpoints", "target_qps": 7, "max_duration": 9, "min_query_count": 3, **own}
    endpoints = EndpointsContext(min_duration=ruled) if ruled is not None else None
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), endpoints=endpoints)
    names = ("min_duration", "max_duration", "min_query_count", "target_qps")
    found = ask(tmp_path, settings, rules=rules)
    assert [found[name] for name in names] == [said, "9", "3", "7"]
    found = ask(tmp_path, settings, rules=rules, asked={"max_duration": 8, "target_qps": 6})
    assert [found[name] for name in names] == [said, "8", "3", "6"]
    usual = ask(tmp_path, {**settings, "harness.results": "loadgen"}, rules=rules)
    assert [usual[name] for name in names] == [""] * 4


def test_placeholders_of_what_belongs_to_no_cell_name_no_scenario(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Address(Kind.MODEL, "net"))
    found = collect_placeholder_values(attempt, RepositoryPaths(tmp_path / "repository"), {})
    assert (found["scenario"], found["mode"], found["benchmark"]) == ("", "accuracy", "resnet")
