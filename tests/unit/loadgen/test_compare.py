"""What was asked against what the real LoadGen logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.loadgen.compare import (
    Asked,
    find_conf_contradictions,
    find_contradictions,
    is_unlogged,
    read_logged_settings,
)
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.rules.results.loadgen_logs import collect_asked
from reconciler.rules.rounds import load_ruleset
from tests.unit.loadgen.conftest import Run

Runs = Callable[[str], Run]

SEEDS = load_ruleset("v6.1").seeds()

ASKED = {
    "single-stream-valid": Asked(
        "SingleStream",
        "performance",
        {"target_latency": 1000, "min_duration": 50, "min_query_count": 700, "target_latency_percentile": "90"},
        SEEDS,
    ),
    "multi-stream-valid": Asked(
        "MultiStream",
        "performance",
        {"target_latency": 200_000, "min_duration": 0, "samples_per_query": 8, "target_latency_percentile": "99.0"},
        SEEDS,
    ),
    "server-valid": Asked(
        "Server",
        "performance",
        {
            "target_qps": "2000.0",
            "target_latency": 5_000_000_000,
            "target_latency_percentile": "99",
            "coalesce_queries": False,
            "use_token_latencies": False,
            "max_async_queries": 0,
            "max_duration": 0,
            "max_query_count": 0,
        },
        SEEDS,
    ),
    "offline-valid": Asked(
        "Offline",
        "performance",
        {
            "target_qps": "1000",
            "min_query_count": 2000,
            "performance_sample_count": 256,
            "accuracy_sample_count": 1000,
            "sample_concatenate_permutation": False,
            "target_latency": 1,
            "engine.batch_size": 7,
        },
        SEEDS,
    ),
    "offline-audit": Asked("Offline", "performance", {"min_query_count": 500}, SEEDS, audit=True),
    "offline-accuracy": Asked("Offline", "accuracy", {"accuracy_sample_count": 0, "target_qps": "1000"}, SEEDS),
    "server-accuracy": Asked("Interactive", "accuracy", {"target_qps": "5000"}),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_run_that_did_what_was_asked_contradicts_nothing(loadgen_run: Runs, name: str) -> None:
    assert find_contradictions(loadgen_run(name).detail, ASKED[name]) == ()


@pytest.mark.parametrize(
    ("name", "change", "field", "asked", "logged"),
    [
        ("offline-valid", {"scenario": "Server"}, "scenario", "Server", "Offline"),
        ("offline-valid", {"mode": "accuracy"}, "mode", "AccuracyOnly", "PerformanceOnly"),
        ("offline-valid", {"audit": True}, "audit", "settings from an audit.config", "no audit.config"),
        ("offline-audit", {"audit": False}, "audit", "no audit.config", "settings from an audit.config"),
        ("offline-valid", {"seeds": {"qsl_rng_seed": 7}}, "qsl_rng_seed", "7", str(SEEDS["qsl_rng_seed"])),
        ("offline-valid", {"seeds": {"new_rng_seed": 7}}, "new_rng_seed", "7", "nothing"),
    ],
)
def test_each_way_a_run_can_differ(
    loadgen_run: Runs, name: str, change: dict[str, Any], field: str, asked: str, logged: str
) -> None:
    log = loadgen_run(name).detail
    found = find_contradictions(log, replace(ASKED[name], settings={}, **change))
    assert [(c.field, c.asked, c.logged) for c in found] == [(field, asked, logged)]
    if logged not in ("nothing", "no audit.config"):
        assert found[0].line > 0
        assert f"(line {found[0].line})" in str(found[0])


@pytest.mark.parametrize(
    ("name", "settings", "logged"),
    [
        ("server-valid", {"target_qps": "2001"}, "2000"),
        ("server-valid", {"target_latency": 15_000_000}, "5000000000"),
        ("server-valid", {"target_latency_percentile": "99.9"}, "99"),
        ("server-valid", {"coalesce_queries": True}, "False"),
        ("server-valid", {"ttft_latency": 2_000_000_000}, "nothing"),
        ("server-valid", {"ttft_latency": 0}, "nothing"),
        ("server-valid", {"use_token_latencies": True}, "nothing"),
        ("offline-valid", {"min_duration": 600_000}, "0"),
        ("offline-valid", {"min_query_count": 24576}, "2000"),
        ("offline-valid", {"performance_sample_count": 1024}, "256"),
        ("offline-valid", {"accuracy_sample_count": 50_000}, "1000"),
        ("single-stream-valid", {"target_latency": 10_000_000}, "1000"),
    ],
)
def test_each_setting_is_compared(loadgen_run: Runs, name: str, settings: dict[str, Any], logged: str) -> None:
    found = find_contradictions(loadgen_run(name).detail, replace(ASKED[name], settings=settings))
    (name, value) = next(iter(settings.items()))
    assert [(c.field, c.asked, c.logged) for c in found] == [(name, str(value), logged)]


def test_other_seeds_are_explained_by_the_release_that_ran(loadgen_run: Runs) -> None:
    log = loadgen_run("offline-valid").detail
    (found,) = find_contradictions(log, replace(ASKED["offline-valid"], seeds={"qsl_rng_seed": 7}))
    assert log.version.startswith(f"{found.release} @ ")
    assert found.release in str(found)


def test_the_rounds_token_latencies_are_asked_of_the_log(loadgen_run: Runs) -> None:
    rules = load_ruleset("v5.1").find_benchmark("llama2-70b-99")
    assert rules is not None
    ruled = {name: value.value for name, value in rules.list_settings("Interactive").items()}
    asked = collect_asked({"scenario": "Interactive", **ruled}, "performance")
    data = loadgen_run("server-valid").bytes("detail.txt")
    for key, value in {"ttft": b"450000000", "tpot": b"200000000"}.items():
        data += b':::MLLOG {"key": "requested_server_%s_latency", "value": %s}\n' % (key.encode(), value)
    found = [c for c in find_contradictions(parse_detail(data), asked) if c.field in ("ttft_latency", "tpot_latency")]
    assert [(c.field, c.asked, c.logged) for c in found] == [("tpot_latency", "40000000", "200000000")]


@pytest.mark.parametrize(("asked", "named"), [(500, []), (3000, ["min_query_count"])])
def test_a_test_may_issue_more_than_its_config_asks(loadgen_run: Runs, asked: int, named: list[str]) -> None:
    """LoadGen takes only lines of all models from an audit.config, so that the round's greater count applies."""
    log = loadgen_run("single-stream-valid").detail
    wanted = Asked("SingleStream", "performance", {"min_query_count": asked}, audited={"min_query_count": asked})
    found = [item.field for item in find_contradictions(log, wanted)]
    assert [name for name in found if name == "min_query_count"] == named
    unaudited = find_contradictions(log, replace(wanted, audited={}))
    assert "min_query_count" in [item.field for item in unaudited]


def test_older_logs_give_the_dataset_size_for_the_accuracy_count(loadgen_run: Runs) -> None:
    data = loadgen_run("offline-accuracy").bytes("detail.txt").replace(b"effective_accuracy_sample_count", b"gone")
    log = parse_detail(data)
    assert find_contradictions(log, Asked("Offline", "accuracy", {"accuracy_sample_count": 1000})) == ()
    (found,) = find_contradictions(log, Asked("Offline", "accuracy", {"accuracy_sample_count": 999}))
    assert found.line == log.find_line_number("qsl_reported_total_count")


def test_an_older_log_may_leave_out_that_all_samples_were_asked(loadgen_run: Runs) -> None:
    whole = Asked("Offline", "accuracy", {}, whole=True)
    data = loadgen_run("offline-accuracy").bytes("detail.txt")
    assert find_contradictions(parse_detail(data), whole) == ()
    for key in (b"effective_accuracy_sample_count", b"qsl_reported_total_count"):
        assert find_contradictions(parse_detail(data.replace(key, b"gone")), whole) == ()
    fewer = data.replace(b'"qsl_reported_total_count", "value": 1000', b'"qsl_reported_total_count", "value": 1001')
    (found,) = find_contradictions(parse_detail(fewer), whole)
    assert (found.field, found.asked, found.logged) == ("accuracy_sample_count", "all 1001 samples", "1000")


def test_what_a_log_says_of_no_bound_is_nothing_to_ask_for(loadgen_run: Runs) -> None:
    found = read_logged_settings(loadgen_run("offline-valid").detail)
    assert (found["target_qps"], found["min_duration"]) == ("1000", 0)
    assert not {"max_duration", "max_query_count"} & found.keys()


def test_a_log_without_its_end_is_a_contradiction(loadgen_run: Runs) -> None:
    data = loadgen_run("offline-valid").bytes("detail.txt")
    log = parse_detail(data[: data.index(b':::MLLOG {"key": "power_begin')])
    (found,) = find_contradictions(log, ASKED["offline-valid"])
    assert (found.field, found.line) == ("end", log.length)


def test_a_value_of_another_type_is_a_contradiction_not_a_crash(loadgen_run: Runs) -> None:
    data = loadgen_run("offline-valid").bytes("detail.txt")
    data = data.replace(b'"effective_min_duration_ms", "value": 0', b'"effective_min_duration_ms", "value": "soon"')
    (found,) = find_contradictions(parse_detail(data), Asked("Offline", "performance", {"min_duration": 0}))
    assert found.logged == "soon"


@pytest.mark.parametrize(
    ("conf", "model", "rate"),
    [
        ("", "*", "1234570"),
        ("*.Offline.target_qps = 1234567.8", "*", "1234567.8"),
        ("net.Offline.target_qps = 1234567.8", "net", "1234567.8"),
        ("net.Offline.target_qps = 1234567.8", "other", "1234570"),
        ("*.Offline.target_qps = 1234500", "*", "1234570"),  # of another run
        ("*.Server.target_qps = 1234567.8", "*", "1234570"),
    ],
)
def test_digits_that_loadgen_does_not_log_come_from_a_conf_that_agrees(conf: str, model: str, rate: str) -> None:
    lines = {
        "effective_scenario": '"Offline"',
        "effective_target_qps": "1.23457e+06",
        "effective_min_duration_ms": "0",
        "effective_max_duration_ms": "0",
        "requested_min_query_count": "7",
    }
    data = "".join(f':::MLLOG {{"key": "{key}", "value": {value}}}\n' for key, value in lines.items())
    found = read_logged_settings(parse_detail(data.encode()), parse_user_conf(conf.encode()) if conf else None, model)
    assert found == {"target_qps": rate, "min_duration": 0, "min_query_count": 7}


def make_log(**values: str) -> DetailLog:
    """Of a performance run that ended; the JSON text of what it logs as well."""
    begun = {"effective_scenario": '"Server"', "effective_test_mode": '"PerformanceOnly"', "result_validity": '"VALID"'}
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}}}\n' for key, value in {**begun, **values}.items())
    return parse_detail("".join(lines).encode())


@pytest.mark.parametrize(
    ("version", "unlogged"),
    [
        ("4.1 @ abc", True),
        ("5.0 @ abc", False),
        ("0.5 @ abc", True),
        ("12.0 @ abc", False),
        (".5a1 @ abc", False),
        ("", False),
    ],
)
def test_a_setting_that_an_older_loadgen_did_not_print_is_not_missed(version: str, unlogged: bool) -> None:
    key, values = "effective_sample_concatenate_permutation", {"loadgen_version": f'"{version}"'} if version else {}
    assert is_unlogged(make_log(**values), key) is unlogged
    assert not is_unlogged(make_log(**values, effective_sample_concatenate_permutation="false"), key)
    assert not is_unlogged(make_log(**values), "effective_target_qps")
    asked = Asked("Server", "performance", {"sample_concatenate_permutation": True})
    assert [c.logged for c in find_contradictions(make_log(**values), asked)] == ["nothing"] * (not unlogged)


@pytest.mark.parametrize(
    ("conf", "mode", "scenario", "reported"),
    [
        ("*.Server.target_qps = 7", "PerformanceOnly", "Server", []),
        ("*.Server.target_qps = 7", "PerformanceOnly", "Interactive", []),
        ("*.Server.target_qps = 8", "PerformanceOnly", "Server", ["target_qps: expected 8, LoadGen logged 7 (line 4)"]),
        ("net.Server.target_qps = 8", "PerformanceOnly", "Server", []),
        ("*.Server.target_qps = 8", "AccuracyOnly", "Server", ["target_qps: expected 8, LoadGen logged 7 (line 4)"]),
        ("*.Server.target_qps = 7", "PerformanceOnly", "Offline", []),  # the scenario itself is none of its settings
        ("*.Server.target_qps 7", "PerformanceOnly", "Server", ["LoadGen rejects the file"]),
    ],
)
def test_a_conf_is_checked_against_the_log_next_to_it(conf: str, mode: str, scenario: str, reported: list[str]) -> None:
    log = make_log(effective_target_qps="7", effective_test_mode=f'"{mode}"')
    assert find_conf_contradictions(conf.encode(), log, "other", scenario) == reported


def test_a_conf_digit_of_a_whole_number_is_not_taken_over() -> None:
    log = make_log(effective_target_qps="7", effective_min_duration_ms="600000", effective_max_query_count="5")
    conf = parse_user_conf(b"*.Server.min_duration = 600000\n*.Server.target_qps = 7.0000001\n")
    found = read_logged_settings(log, conf)
    assert found == {"target_qps": "7.0000001", "min_duration": 600_000, "max_query_count": 5}
    assert {type(value) for value in found.values()} == {str, int}
