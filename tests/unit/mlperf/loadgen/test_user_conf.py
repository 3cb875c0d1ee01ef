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
from reconciler.loadgen.settings import Unit, find_settings, list_ruled, list_settings, name_loadgen_scenario
from reconciler.loadgen.user_conf import (
    audit_settings,
    parse_user_conf,
    read_conf_settings,
    read_decimal,
    read_integer,
    select_settings,
    write_audit_settings,
    write_user_conf,
)
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
        found = None if ours.rejected else ours.effective("resnet50", scenario, key)
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


@pytest.mark.parametrize(
    ("conf", "line", "fatal", "message"),
    [
        (b"\n*.*.min_duration=5", 2, False, "blanks are needed around ="),
        (b"*.*.min_duration = 5 # note", 1, True, "a comment needs its own line"),
        (b"#comment with words", 1, True, "a comment needs a blank after #"),
        (b"*.*.min_duration = five", 1, True, "five is not a number"),
        (b"*.*.min_duration 5", 1, True, "expected =, found 5"),
        (b"*.*.min_duration =", 1, False, "it has no value"),
        (b"*.*.min_duration", 1, False, "it sets nothing"),
    ],
)
def test_problems_name_line_and_cause(conf: bytes, line: int, fatal: bool, message: str) -> None:
    (problem,) = parse_user_conf(conf).problems
    assert (problem.line, problem.fatal) == (line, fatal)
    assert message in problem.message


def test_interactive_is_looked_up_as_server_with_its_own_model() -> None:
    conf = parse_user_conf(
        b"x-interactive.Server.target_qps = 2\n*.Server.target_qps = 1\n*.Interactive.target_qps = 3\n"
    )
    found = conf.effective("x-interactive", "Interactive", "target_qps")
    assert found is not None
    assert (found.decimal, found.line, found.name) == (2, 1, "x-interactive.Server.target_qps")
    assert conf.keys() == {"target_qps"}


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
        found = conf.effective("resnet50", scenario, key.conf_key)
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


@pytest.mark.parametrize(("text", "number"), [("2.7", 2), ("1e3", 1), ("0x10", 16), ("08", 0), ("x", 0), ("", 0)])
def test_read_integer_as_strtoull(text: str, number: int) -> None:
    assert read_integer(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", "1.5"), ("0x1p3", "8"), ("x", "0"), ("-.5", "-0.5"), ("1e2", "100")]
)
def test_read_decimal_as_strtod(text: str, number: str) -> None:
    assert read_decimal(text) == Decimal(number)


def test_loadgen_scenario_maps_interactive_only() -> None:
    assert [name_loadgen_scenario(name) for name in SCENARIOS] == [
        "SingleStream",
        "MultiStream",
        "Server",
        "Offline",
        "Server",
    ]


@pytest.mark.parametrize(
    ("scenario", "own"),
    [
        ("SingleStream", {"target_latency_percentile"}),
        ("MultiStream", {"target_latency_percentile", "samples_per_query"}),
        ("Server", {"target_latency_percentile", "ttft_latency", "tpot_latency"}),
        ("Interactive", {"target_latency_percentile", "ttft_latency", "tpot_latency"}),
        ("Offline", set()),
    ],
)
def test_what_the_round_fixes_for_a_scenario_is_asked_of_both_modes(scenario: str, own: set[str]) -> None:
    everywhere = {"model_key", "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"}
    everywhere |= {"use_token_latencies", "sample_concatenate_permutation"}
    assert set(list_ruled(scenario)) == everywhere | own


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64 - 1),
        ("-18446744073709551616", 2**64 - 1),
        ("-1", 2**64 - 1),
        ("-0", 0),
        ("+7", 7),
        ("010", 8),
        ("017", 15),
        ("0189", 1),
        ("09", 0),
        ("0", 0),
        ("0XfF", 255),
        ("0x", 0),
        ("7x", 7),
    ],
)
def test_an_integer_is_read_by_its_prefix_and_within_a_word(text: str, number: int) -> None:
    assert read_integer(text) == number


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


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        (b"a = 5", []),
        (b"# a\n  # b\n\n \n#", []),
        (b"#a", []),
        (b"#a # b", []),
        (b"a", [(1, "a is ignored: it sets nothing", False)]),
        (b"a # = 5", [(1, "a is ignored: it sets nothing", False)]),
        (b"a=5", [(1, "a=5 is ignored: blanks are needed around =", False)]),
        (b"\na =", [(2, "a is ignored: it has no value", False)]),
        (b"a 5", [(1, "expected =, found 5", True)]),
        (b"#a 5", [(1, "a comment needs a blank after #", True)]),
        (b"a = 5 #b", [(1, "a comment needs its own line", True)]),
        (b"a = 5 b", [(1, "b is not a number", True)]),
        (b"a = 5\nb = c", [(2, "c is not a number", True)]),
    ],
)
def test_every_line_that_does_nothing_is_told_in_full(conf: bytes, expected: list[tuple[int, str, bool]]) -> None:
    read = parse_user_conf(conf)
    assert [(problem.line, problem.message, problem.fatal) for problem in read.problems] == expected
    assert read.rejected is any(fatal for _, _, fatal in expected)
    assert read.file == "user.conf"


def test_one_fatal_line_of_several_rejects_a_file() -> None:
    assert parse_user_conf(b"a\nb 5\n").rejected
    assert not parse_user_conf(b"a\nb\n").rejected
    assert not parse_user_conf(b"").rejected


@pytest.mark.parametrize("text", ["5", "-5", "+5", "0x1F", "5.", ".5", "1e3", "1E-3", "0x1p3", "inf", "NAN", "nan(a1)"])
def test_a_number_is_any_that_c_reads_whole(text: str) -> None:
    conf = parse_user_conf(f"a = {text}".encode())
    assert (conf.problems, conf.values["a"].text, conf.values["a"].line, conf.values["a"].name) == ((), text, 1, "a")


@pytest.mark.parametrize("text", ["5x", "0x", ".", "1e", "0xg", "infinit", "--5", "5,0"])
def test_what_c_reads_in_part_is_no_number(text: str) -> None:
    assert parse_user_conf(f"a = {text}".encode()).rejected


def test_the_most_specific_name_decides_and_the_last_of_its_lines() -> None:
    names = ["m.Server.k", "*.Server.k", "m.*.k", "*.*.k"]
    for count, name in enumerate(names):
        text = "".join(f"{other} = {at}\n" for at, other in reversed(list(enumerate(names))[count:]))
        found = parse_user_conf(text.encode()).effective("m", "Server", "k")
        assert found is not None
        assert (found.name, found.integer, found.line) == (name, count, 4 - count)
    conf = parse_user_conf(b"m.Server.k = 1 2\nm.Server.k = 3\nm.Server.other = 4\n")
    found = conf.effective("m", "Server", "k")
    assert found is not None
    assert (found.text, found.line) == ("3", 2)
    assert conf.effective("m", "Offline", "k") is conf.effective("m", "Server", "key") is None
    assert conf.keys() == {"k", "other"}


@pytest.mark.parametrize(
    ("scenario", "settings", "texts"),
    [
        (
            "Server",
            {
                "target_qps": "1.50",
                "target_latency": 3_000_000,
                "target_latency_percentile": "99.9",
                "coalesce_queries": True,
                "use_token_latencies": False,
                "max_async_queries": 0,
                "ttft_latency": 2_000_000,
                "performance_sample_count": 7,
                "accuracy_sample_count": 0,
                "samples_per_query": 8,
            },
            [
                "target_qps = 1.5",
                "target_latency = 3",
                "target_latency_percentile = 99.9",
                "coalesce_queries = 1",
                "max_async_queries = 0",
                "ttft_latency = 2",
                "use_token_latencies = 0",
                "performance_sample_count_override = 7",
                "accuracy_sample_count_override = 0",
            ],
        ),
        (
            "MultiStream",
            {"target_latency": 1_500, "samples_per_query": 8},
            ["target_latency = 0.0015", "samples_per_query = 8"],
        ),
        (
            "SingleStream",
            {"target_latency": 0, "min_query_count": 2**64 - 1},
            ["target_latency = 0", "min_query_count = 18446744073709551615"],
        ),
    ],
)
def test_a_conf_states_settings_in_a_fixed_order(scenario: str, settings: dict[str, Any], texts: list[str]) -> None:
    written = write_user_conf("m", scenario, select_settings(scenario, settings), ["made  by\na test", ""])
    lines = ["# made by a test", "#", *(f"m.{scenario}.{text}" for text in texts)]
    assert written.decode() == "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("settings", "message", "fix"),
    [
        (
            {"target_latency": 1_500_000},
            "target_latency: 1500000 ns is not a whole number of milliseconds, and LoadGen drops the rest",
            "write 2 ms",
        ),
        ({"min_duration": -1}, "min_duration: -1 is not a whole number from 0 to 2^64 - 1", ""),
        ({"min_duration": 2**64}, f"min_duration: {2**64} is not a whole number from 0 to 2^64 - 1", ""),
        ({"min_duration": False}, "min_duration: False is not a whole number from 0 to 2^64 - 1", ""),
        ({"min_duration": "5"}, "min_duration: '5' is not a whole number from 0 to 2^64 - 1", ""),
        ({"target_qps": "-0.1"}, "target_qps: -0.1 is not a rate, latency or percentage", ""),
        ({"target_qps": "Infinity"}, "target_qps: Infinity is not a rate, latency or percentage", ""),
    ],
)
def test_what_loadgen_would_read_otherwise_is_refused_in_full(settings: dict[str, Any], message: str, fix: str) -> None:
    with pytest.raises(ReconcilerError) as caught:
        select_settings("Server", settings)
    assert (caught.value.message, caught.value.fix or "") == (message, fix)


def test_settings_of_a_test_are_told_by_their_prefix() -> None:
    inputs = {"audit.mode": 2, "audit.accuracy_log_rng_seed": 7, "mode": "performance", "my.audit.a": 1}
    assert audit_settings(inputs) == {"mode": 2, "accuracy_log_rng_seed": 7}
    assert audit_settings({"mode": "performance"}) == {}


def test_an_audit_config_is_for_any_model_and_scenario() -> None:
    written = write_audit_settings({"mode": 2, "performance_issue_unique": True, "other": False}, ["of a test"])
    assert write_audit_settings({"accuracy_log_probability": "0.5"}) == b"*.*.accuracy_log_probability = 0.5\n"
    assert written == b"# of a test\n*.*.mode = 2\n*.*.performance_issue_unique = 1\n*.*.other = 0\n"


def test_a_conf_is_read_in_the_units_of_a_spec() -> None:
    conf = parse_user_conf(
        b"*.Server.target_qps = 1.50\n*.Server.target_latency = 3\n*.Server.target_latency_percentile = 99\n"
        b"*.*.min_duration = 600000\n*.*.use_token_latencies = 1\n*.Server.coalesce_queries = 0\n"
        b"*.*.performance_sample_count_override = 7\n*.SingleStream.target_latency = 0.5\n*.Server.tpot_latency = 2\n"
    )
    assert read_conf_settings(conf, "m", "Interactive") == {
        "target_qps": "1.5",
        "target_latency": 3_000_000,
        "target_latency_percentile": "99",
        "coalesce_queries": False,
        "tpot_latency": 2_000_000,
        "use_token_latencies": True,
        "min_duration": 600_000,
        "performance_sample_count": 7,
    }
    single = read_conf_settings(conf, "m", "SingleStream")
    assert single == {
        "target_latency": 500_000,
        "use_token_latencies": True,
        "min_duration": 600_000,
        "performance_sample_count": 7,
    }
