"""user.conf: what is written is what LoadGen reads, and what LoadGen reads is what is read here."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ReconcilerError
from reconciler.loadgen.settings import Unit, find_settings, list_settings, select_conf_settings
from reconciler.loadgen.user_conf import parse_user_conf, read_decimal, select_settings, write_user_conf
from reconciler.resource.canonical import show_decimal
from reconciler.resource.kinds import SCENARIOS

Read = Callable[..., list[dict[str, Any]]]

# Keys by scenario: the attribute of TestSettings, how it is read, and the factor from the conf's unit.
ATTRIBUTES: dict[tuple[str, str], tuple[str, str, float]] = {
    ("*", "min_duration"): ("min_duration_ms", "integer", 1),
    ("*", "max_duration"): ("max_duration_ms", "integer", 1),
    ("*", "min_query_count"): ("min_query_count", "integer", 1),
    ("*", "max_query_count"): ("max_query_count", "integer", 1),
    ("*", "performance_sample_count_override"): ("performance_sample_count_override", "integer", 1),
    ("SingleStream", "target_latency"): ("single_stream_expected_latency_ns", "double", 1e6),
    ("MultiStream", "target_latency"): ("multi_stream_expected_latency_ns", "double", 1e6),
    ("MultiStream", "samples_per_query"): ("multi_stream_samples_per_query", "integer", 1),
    ("Server", "target_latency"): ("server_target_latency_ns", "integer", 1e6),
    ("Server", "target_qps"): ("server_target_qps", "double", 1),
    ("Offline", "target_qps"): ("offline_expected_qps", "double", 1),
    ("SingleStream", "target_latency_percentile"): ("single_stream_target_latency_percentile", "double", 0.01),
    ("Server", "target_latency_percentile"): ("server_target_latency_percentile", "double", 0.01),
}


def check(conf: bytes, scenario: str, answer: dict[str, Any], untouched: dict[str, Any]) -> None:
    """Our reading of a conf against LoadGen's, for every key of the table that the scenario reads."""
    ours = parse_user_conf(conf)
    assert answer["code"] == (-22 if ours.rejected else 0), conf
    for (only, key), (attribute, form, factor) in ATTRIBUTES.items():
        if only not in ("*", scenario):
            continue
        found = None if ours.rejected else ours.get_effective("resnet50", scenario, key)
        if found is None:
            expected = untouched[attribute]
        elif form == "integer":
            expected = found.integer * int(factor) % 2**64
        else:
            expected = float(found.decimal) * factor
        assert answer[attribute] == expected, (conf, key)


TRAPS = [
    b"*.*.min_duration = 5",
    b"*.*.min_duration=5",
    b"*.*.min_duration = 5 # note",
    b"#comment without blank",
    b"#comment",
    b"# *.*.min_duration = 5",
    b"  # *.*.min_duration = 5",
    b"*.*.min_duration # = 5",
    b"*.*.min_duration = 5 6",
    b"*.*.min_duration = 0x10",
    b"*.*.min_duration = 010",
    b"*.*.min_duration = 09",
    b"*.*.min_duration = 0x",
    b"*.*.min_duration = 2.7",
    b"*.*.min_duration = 1e3",
    b"*.*.min_duration = -1",
    b"*.*.min_duration = +7",
    b"*.*.min_duration = 99999999999999999999999",
    b"*.*.min_duration = five",
    b"*.*.min_duration =",
    b"*.*.min_duration",
    b"= 5",
    b"*.*.min_duration = = 5",
    b"*.*.min_duration = 5\r\n*.*.min_query_count = 6\r\n",
    b"*.*.min_duration\t=\x0b5",
    b"*.Server.target_latency = 0.5\n*.SingleStream.target_latency = 0.5",
    b"*.server.min_duration = 5\n*.Server.min_duration = 6",
    b"*.*.min_duration = 1\nresnet50.*.min_duration = 2\n*.Server.min_duration = 3\nresnet50.Server.min_duration = 4",
    b"resnet50.*.min_duration = 2\n*.Offline.min_duration = 3",
    b"*.*.min_duration = 1\n*.*.min_duration = 2",
    b"bert.*.min_duration = 1\n*.*.unknown = 2",
    b"*.Server.target_qps = 0x10\n*.Offline.target_qps = 1.5e2",
    b"*.Server.target_latency = 18446744073709551615",
    b"",
    b"\xff\xfe = 1",
]


def test_reading_is_loadgens_reading_in_every_trap(loadgen_read: Read) -> None:
    cases = [(conf, "resnet50", s) for conf in TRAPS for s in ("SingleStream", "MultiStream", "Server", "Offline")]
    untouched = loadgen_read([(b"", "resnet50", "Server")])[0]
    for (conf, _, scenario), answer in zip(cases, loadgen_read(cases), strict=True):
        check(conf, scenario, answer, untouched)


def test_reading_is_loadgens_reading_of_random_confs(loadgen_read: Read) -> None:
    rng = random.Random(20260820)
    scenarios = ["SingleStream", "MultiStream", "Server", "Offline"]
    keys = sorted({key for _, key in ATTRIBUTES})
    values = [
        "5",
        "0",
        "2.7",
        "1e3",
        "0x1F",
        "017",
        "-3",
        "+4",
        ".5",
        "6.",
        "9x",
        "1e",
        "0x",
        "#",
        "=",
        "600000",
        "99.9",
    ]

    def line() -> str:
        name = ".".join(
            (rng.choice(["*", "resnet50", "bert"]), rng.choice([*scenarios, "*", "server"]), rng.choice(keys))
        )
        tokens = [name, "=", rng.choice(values)]
        if rng.random() < 0.1:
            tokens.insert(rng.randrange(4), rng.choice(["#", "=", "7", "#x"]))
        return rng.choice([" ", "  ", "\t"]).join(tokens)

    cases = [
        ("\n".join(line() for _ in range(rng.randrange(1, 7))).encode(), "resnet50", rng.choice(scenarios))
        for _ in range(1500)
    ]
    untouched = loadgen_read([(b"", "resnet50", "Server")])[0]
    for (conf, _, scenario), answer in zip(cases, loadgen_read(cases), strict=True):
        check(conf, scenario, answer, untouched)


def test_interactive_is_looked_up_as_server_with_its_own_model() -> None:
    conf = parse_user_conf(
        b"x-interactive.Server.target_qps = 2\n*.Server.target_qps = 1\n*.Interactive.target_qps = 3\n"
    )
    found = conf.get_effective("x-interactive", "Interactive", "target_qps")
    assert found is not None
    assert (found.decimal, found.line, found.name) == (2, 1, "x-interactive.Server.target_qps")


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "target_qps": st.decimals("0.001", "1000000", places=3).map(show_decimal),
        "target_latency": st.integers(1, 10**6).map(lambda ms: ms * 1_000_000),
        "target_latency_percentile": st.sampled_from(["90", "99", "99.9", "97"]),
        "samples_per_query": st.integers(1, 64),
        "coalesce_queries": st.booleans(),
        "min_duration": st.integers(0, 10**7),
        "max_duration": st.just(0),
        "min_query_count": st.integers(0, 2**63),
        "performance_sample_count": st.integers(0, 10**6),
        "accuracy_sample_count": st.integers(0, 10**6),
        "engine.batch_size": st.integers(1, 64),
    },
)


@given(st.sampled_from(SCENARIOS), SETTINGS, st.lists(st.text(max_size=30), max_size=3))
def test_what_is_written_is_read_back(scenario: str, settings: dict[str, Any], notes: list[str]) -> None:
    texts = select_settings(scenario, settings)
    conf = parse_user_conf(write_user_conf("resnet50", scenario, texts, notes))
    assert conf.problems == ()
    for key in find_settings(scenario):
        found = conf.get_effective("resnet50", scenario, key.conf_key)
        if key.name not in settings:
            assert found is None
            continue
        assert found is not None
        value = settings[key.name]
        if key.unit in (Unit.MS, Unit.WHOLE_MS):
            assert found.decimal * 1_000_000 == value
        elif key.unit in (Unit.RATE, Unit.PERCENT):
            assert found.decimal == Decimal(value)
        else:
            assert found.integer == int(value)


def test_written_confs_are_read_by_the_real_loadgen(loadgen_read: Read) -> None:
    settings = {
        "target_qps": "1234.5",
        "target_latency": 3_000_000,
        "target_latency_percentile": "99.9",
        "samples_per_query": 4,
        "min_duration": 77,
        "min_query_count": 88,
        "performance_sample_count": 99,
        "model_key": "resnet50",
    }
    scenarios = ("SingleStream", "MultiStream", "Server", "Offline")
    confs = [
        (write_user_conf("resnet50", name, select_settings(name, settings), ["made by a test"]), "resnet50", name)
        for name in scenarios
    ]
    single, multi, server, offline = loadgen_read(confs)
    for answer in (single, multi, server, offline):
        assert answer["code"] == 0
        assert (answer["min_duration_ms"], answer["min_query_count"]) == (77, 88)
        assert answer["performance_sample_count_override"] == 99
    assert single["single_stream_expected_latency_ns"] == 3_000_000
    assert single["single_stream_target_latency_percentile"] == pytest.approx(0.999)
    assert multi["multi_stream_expected_latency_ns"] == 3_000_000
    assert multi["multi_stream_samples_per_query"] == 4
    assert (server["server_target_qps"], server["server_target_latency_ns"]) == (1234.5, 3_000_000)
    assert offline["offline_expected_qps"] == 1234.5


def test_settings_of_other_scenarios_are_left_out() -> None:
    settings = {"target_qps": "5", "target_latency": 500_000, "engine.batch_size": 4, "min_duration": None}
    assert select_settings("SingleStream", settings) == {"target_latency": "0.5"}
    assert select_settings("Offline", settings) == {"target_qps": "5"}
    assert "target_qps" not in list_settings("performance", "MultiStream")
    assert find_settings("Interactive") == find_settings("Server")


@pytest.mark.parametrize(
    ("scenario", "settings", "message"),
    [
        ("Server", {"target_latency": 500_000}, "not a whole number of milliseconds"),
        ("Offline", {"min_duration": 1.5}, "not a whole number"),
        ("Offline", {"min_duration": True}, "not a whole number"),
        ("Offline", {"min_query_count": 2**64}, "not a whole number"),
        ("Offline", {"target_qps": "-1"}, "not a rate"),
        ("Server", {"target_qps": "NaN"}, "not a rate"),
    ],
)
def test_settings_for_when_loadgen_could_not_read_it_back(scenario: str, settings: Any, message: str) -> None:
    with pytest.raises(ReconcilerError, match=message):
        select_settings(scenario, settings)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0X.8P1", "1"),
        ("-0x10", "-16"),
        ("6.", "6"),
        ("1e", "1"),
        ("inf", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("", "0"),
        ("e5", "0"),
    ],
)
def test_a_decimal_is_read_in_every_form(text: str, number: str) -> None:
    assert read_decimal(text) == Decimal(number)
    assert read_decimal("nan(7)").is_nan()


def test_a_conf_states_what_a_spec_says_and_nothing_of_the_round() -> None:
    said = {"target_qps": "7", "min_duration": 0, "max_duration": None, "tpot_latency": 5, "accuracy_sample_count": 3}
    assert select_conf_settings(said, "performance", "Server") == {"target_qps": "7", "min_duration": 0}
    assert select_conf_settings(said, "accuracy", "Server") == {"accuracy_sample_count": 3}
