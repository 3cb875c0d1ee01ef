"""What an installed LoadGen carries and what its release cannot do, as known before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.observed.loadgen_library import (
    RELEASES,
    explain_missing_settings,
    find_other_seeds,
    find_other_settings,
    read_conf_here,
    read_seeds,
)
from reconciler.rules.rounds import load_ruleset

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
