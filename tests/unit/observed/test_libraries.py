"""What keeps an action from being done: libraries of a benchmark, and what an installed LoadGen carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.loadgen.settings import RELEASES
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.observed.installed_backends import PROJECT
from reconciler.observed.loadgen_library import (
    explain_missing_settings,
    find_other_seeds,
    find_other_settings,
    read_conf_here,
    read_seeds,
)
from reconciler.observed.observe import find_obstacle, find_wrong_source
from reconciler.resource.kinds import Address, Kind
from reconciler.rules.rounds import load_ruleset

HERE = {PROJECT: "1", "onnxruntime": "1", "mlcommons-loadgen": "6", "scipy": "1"}
LOCATIONS = {"benchmark.code": "unet3d", "backend": "onnxruntime"}


@pytest.mark.parametrize("kind", [Kind.DATASET, Kind.RUN, Kind.SCORE])
def test_libraries_that_are_missing_are_named_with_the_extra_that_brings_them(tmp_path: Path, kind: Kind) -> None:
    address = Address(kind, "3d-unet-99")
    found = find_obstacle(address, LOCATIONS, tmp_path, HERE)
    assert found is not None
    assert "nibabel" in found.message
    assert "scipy" not in found.message
    assert "mlperf-reconciler[unet3d]" in found.fix
    fewer = {name: version for name, version in HERE.items() if name != "scipy"}
    several = find_obstacle(address, LOCATIONS, tmp_path, fewer)
    assert several is not None
    assert "nibabel, scipy" in several.message
    assert find_obstacle(address, LOCATIONS, tmp_path, {**HERE, "nibabel": "5"}) is None


def test_any_of_several_packages_will_do(tmp_path: Path) -> None:
    locations, address = {"benchmark.code": "resnet50"}, Address(Kind.DATASET, "resnet")
    assert find_obstacle(address, locations, tmp_path, {**HERE, "opencv-python": "4"}) is None
    assert "opencv-python-headless" in str(find_obstacle(address, locations, tmp_path, HERE))


def test_a_machine_that_only_reports_its_backends_finds_out_itself(tmp_path: Path) -> None:
    there = {"onnxruntime": "1", "mlcommons-loadgen": "6"}
    assert find_obstacle(Address(Kind.RUN, "3d-unet-99"), LOCATIONS, tmp_path, there) is None


def test_a_users_own_code_brings_its_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.touch()
    locations = {**LOCATIONS, "benchmark.path": str(own)}
    assert find_obstacle(Address(Kind.DATASET, "3d-unet-99"), locations, tmp_path, HERE) is None


@pytest.mark.parametrize("kind", [Kind.RUN, Kind.COMPLIANCE_TEST])
def test_runs_of_a_round_without_a_loadgen_are_refused_but_for_a_command_s(tmp_path: Path, kind: Kind) -> None:
    address, there = Address(kind, "3d-unet-99"), {**HERE, "nibabel": "5"}
    found = find_obstacle(address, LOCATIONS, tmp_path, there, "v1.0")
    assert found is not None
    assert "v1.0" in found.message
    assert "reconcile adopt" in found.fix
    assert find_obstacle(address, LOCATIONS, tmp_path, there, "v4.1") is None
    own = {"harness.command": "./run"}
    assert find_obstacle(address, own, tmp_path, there, "v1.0") is None


@pytest.mark.parametrize(("kind", "path"), [(Kind.RUN, "code/main.py"), (Kind.SCORE, "evaluation.py")])
def test_code_of_another_folder_than_its_adapter_s_is_refused(tmp_path: Path, kind: Kind, path: str) -> None:
    needs = {
        "needs.command": "Makefile\ncode/main.py",
        "needs.score": "evaluation.py",
        "needs.code": "closed/ACME of it",
    }
    own = {"harness.command": "declared", "harness.code": "theirs", **needs}
    (tmp_path / "theirs/code").mkdir(parents=True)
    (tmp_path / "theirs/Makefile").touch()
    found = find_obstacle(Address(kind, "cell"), own, tmp_path, HERE)
    assert found is not None
    assert f"theirs/{path} is missing" in found.message
    assert "closed/ACME of it" in found.fix
    (tmp_path / "theirs" / path).touch()
    assert find_obstacle(Address(kind, "cell"), own, tmp_path, HERE) is None


def test_a_source_without_a_place_is_not_looked_for(tmp_path: Path) -> None:
    """Its place would be the whole repository, with everything that passes left in it."""

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    for location, declared in (("", "0" * 64), ("net.onnx", None), ("", None)):
        assert find_wrong_source(Kind.MODEL, location, declared, tmp_path, refuse) is None
    assert find_wrong_source(Kind.MODEL, "net.onnx", "0" * 64, tmp_path, lambda _: "1" * 64) is not None


ROUND = load_ruleset("v5.0")
SEEDS = "".join(f"*.*.{name} = {seed}\n" for name, seed in ROUND.seeds().items())
CONF = f"""# Of a model that this release knows.
{SEEDS}
*.Server.target_latency_percentile = 99
llama2-70b.*.performance_sample_count_override = 24576
llama2-70b.*.use_token_latencies = 1
llama2-70b.*.sample_concatenate_permutation = 1
llama2-70b.Server.ttft_latency = 2000
llama2-70b.Server.tpot_latency = 200
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In front of all that is installed."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "mlperf_loadgen.so"


def ask(model_key: str, **more: Any) -> dict[str, Any]:
    rules = ROUND.benchmarks["llama2-70b-99"]
    asked = {name: value.value for name, value in rules.list_settings("Server").items()}
    return {**asked, "scenario": "Server", "mode": "performance", "model_key": model_key, **more}


def test_configuration_that_is_built_in_is_read_from_the_library(library: Path) -> None:
    library.write_bytes(b"\x7fELF\0before\0" + CONF.encode() + b"\0*.*.min_duration = 1\n\0")
    conf = read_conf_here()
    assert conf is not None
    assert not find_other_seeds(ROUND.seeds(), conf)
    assert find_other_seeds(load_ruleset("v5.1").seeds(), conf)
    assert conf.get_effective("llama2-70b", "Server", "min_duration") is None, "another text of the library"
    assert find_other_settings(ask("llama2-70b"), {"performance_sample_count": 24576}, conf) == []


def test_a_library_without_a_configuration_has_the_seeds_of_no_round(library: Path) -> None:
    library.write_bytes(b"\x7fELF\0nothing\0")
    conf = read_conf_here()
    assert conf is not None
    assert find_other_seeds(ROUND.seeds(), conf)


def test_a_library_without_a_configuration_has_that_of_the_file_next_to_it(library: Path) -> None:
    library.write_bytes(b"\x7fELF\0nothing\0")
    library.with_name("mlperf.conf").write_text(CONF)
    conf = read_conf_here()
    assert conf is not None
    assert not find_other_seeds(ROUND.seeds(), conf)
    assert read_seeds(library) == ROUND.seeds()
    library.write_bytes(f"\x7fELF\0{CONF.replace('llama2-70b', 'other')}\0".encode())
    conf = read_conf_here()
    assert conf is not None
    assert conf.get_effective("other", "Server", "ttft_latency") is not None, "what is built in counts"


def test_a_release_that_does_not_know_the_benchmark_is_named_with_what_it_would_do() -> None:
    conf = parse_user_conf(CONF.encode())
    found = find_other_settings(ask("llama2-70b-interactive"), {"performance_sample_count": 24576}, conf)
    named = {item.partition(" ")[0] for item in found}
    tokens = {"use_token_latencies", "sample_concatenate_permutation", "ttft_latency", "tpot_latency"}
    assert named == {*tokens, "performance_sample_count"}


@pytest.mark.parametrize(
    ("release", "asked", "missing"),
    [
        ("5.1.2", {"mode": "accuracy", "accuracy_sample_count": 100}, "accuracy_sample_count"),
        ("6.0.5", {"mode": "accuracy", "accuracy_sample_count": 100}, "accuracy_sample_count"),
        ("6.0.6", {"mode": "accuracy", "accuracy_sample_count": 100}, ""),
        ("5.1.2", {"mode": "accuracy", "accuracy_sample_count": 0}, ""),
        ("5.1.2", {"accuracy_sample_count": 100}, ""),
        ("4.1.30", {}, ""),
        ("4.1.30", {"audit.mode": 2}, "audit.config"),
        ("4.1.8", {"audit.mode": 2}, "audit.config"),
        ("4.1.7", {"audit.mode": 2}, ""),
        ("2.1", {"audit.mode": 2, "use_token_latencies": False, "ttft_latency": 0, "tpot_latency": 0}, ""),
        ("3.1", {"ttft_latency": 0, "tpot_latency": 0}, "use_token_latencies"),
        ("4.0", {}, ""),
        ("5.0.5", {"audit.mode": 2}, "audit.config"),
        ("5.0.6", {"audit.mode": 2}, ""),
        ("", {"audit.mode": 2}, ""),
        ("6.0.dev1", {"mode": "accuracy", "accuracy_sample_count": 100}, ""),
    ],
)
def test_what_a_release_cannot_do_is_known_of_its_number(release: str, asked: dict[str, Any], missing: str) -> None:
    values = ask("llama2-70b", **asked)
    found = explain_missing_settings(values, str(values["mode"]), release)
    assert (missing in found, bool(found)) == (True, bool(missing))


def test_the_release_that_is_installed_for_a_round_runs_its_compliance_tests() -> None:
    for name, release in RELEASES.items():
        assert explain_missing_settings({"scenario": "Server", "audit.mode": 2}, "performance", release) == "", name
