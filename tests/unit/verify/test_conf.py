"""user.conf against the performance log next to it, line by line: cells of a few small files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.resource.rules import AppliedRule
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.view import CellView
from reconciler.verify.conf import (
    read_conf,
    verify_contradicting,
    verify_ignored,
    verify_old_seeds,
    verify_rejected,
    verify_unexplained,
)
from reconciler.verify.settings import list_model_keys, read_settings
from tests.unit.tree.small_cells import DETAIL, RUN, Line, log, rules, say, small_cell

Check = AppliedRule[CellView, Complaint]
LOG = f"./{RUN}/{DETAIL}"
SEEN = f"; see {LOG}:2; mechanism: "
KEYED = rules(values={"model_key": "resnet50"})


def ran(scenario: str, *lines: Line) -> dict[str, str]:
    """Its scenario is on the first line."""
    return {f"{RUN}/{DETAIL}": log(("effective_scenario", scenario), *lines)}


def find(check: Check, root: Path, files: Mapping[str, str], **options: Any) -> list[str]:
    return say(check(small_cell(root, files, **{"benchmark": KEYED, **options})))


QPS, LATENCY = "effective_target_qps", "requested_single_stream_expected_latency_ns"


@pytest.mark.parametrize(
    ("scenario", "line", "conf", "said"),
    [
        ("Server", (QPS, 100), "*.Server.target_qps = 100", ""),
        ("Server", (QPS, 100), "\n*.Server.target_qps = 50", f"./user.conf:2{SEEN}conf-of-another-run"),
        ("Server", (QPS, 99.6), "*.Server.target_qps = 100", f"note ./user.conf:1{SEEN}conf-detail"),
        ("Server", (QPS, 100), "*.Server.target_qps = 96", f"./user.conf:1{SEEN}conf-of-another-run"),
        ("SingleStream", (LATENCY, 1_000_000), "*.*.target_latency = 2", f"./user.conf:1{SEEN}conf-estimate"),
        (
            "Server",
            ("effective_max_async_queries", 1),
            "*.*.max_async_queries = 0",
            f"note ./user.conf:1{SEEN}conf-detail",
        ),
        ("Server", (QPS, 100), "resnet.Server.target_qps = 100\nresnet50.Server.target_qps = 100", ""),
        ("Server", ("effective_min_duration_ms", 5), "bert.Server.target_qps = 7\nresnet50.*.min_duration = 5", ""),
    ],
)
def test_what_user_conf_says_is_what_is_logged(tmp_path: Path, scenario: str, line: Line, conf: str, said: str) -> None:
    files = {**ran(scenario, line), "user.conf": f"{conf}\n"}
    found = find(verify_contradicting, tmp_path / "a", files, scenario=scenario)
    place = f"closed/Acme/results/sys1/resnet/{scenario}"
    assert [each.replace(place, ".") for each in found] == ([said] if said else [])
    assert not find(verify_contradicting, tmp_path / "b", {"user.conf": conf}, scenario=scenario)
    assert not find(verify_contradicting, tmp_path / "c", ran(scenario, line), scenario=scenario)


GATHERED = "resnet50.Server.performance_sample_count_override = 1024\n"


@pytest.mark.parametrize(
    ("conf", "question"),
    [
        pytest.param("resnet50.Server.target_qps = 500\nresnet50.Server.target_qps = 90\n", True, id="two"),
        pytest.param("resnet50.Server.target_qps = 500\n" * 2 + "resnet50.Server.target_qps = 90\n", True, id="three"),
        pytest.param("resnet50.Server.target_qps = 400\nresnet50.Server.target_qps = 90\n", False, id="none as logged"),
        pytest.param("resnet50.Server.target_qps = 90\n", False, id="once"),
        pytest.param(
            "resnet50.Server.target_qps = 500\n\n*.*.min_duration = 1\nresnet50.Server.target_qps = 90\n",
            False,
            id="added",
        ),
        pytest.param("resnet50.Server.target_qps = 500\nresnet50.Server.target_qps = 200\n", False, id="not sorted"),
    ],
)
def test_a_conf_that_gathers_settings_of_several_runs_is_doubted(tmp_path: Path, conf: str, question: bool) -> None:
    """Sorted, as a program leaves them, with what ran among them."""
    files = {**ran("Server", (QPS, 500)), "user.conf": f"# made by a program\n{GATHERED}{conf}"}
    found = find(verify_contradicting, tmp_path, files)
    twice = [said for said in found if said.startswith("note ") and said.endswith("; mechanism: conf-said-twice")]
    assert bool(twice) is question


@pytest.mark.parametrize(
    ("conf", "model", "settings"),
    [
        pytest.param("*.Server.target_qps = 5", "resnet50", {"target_qps": "5"}, id="of all"),
        pytest.param("bert.Server.target_qps = 5", "bert", {"target_qps": "5"}, id="of one other"),
        pytest.param("bert.Server.target_qps = 7", "bert", {"target_qps": "7"}, id="of one other that contradicts"),
        pytest.param("a.Server.target_qps = 5\nb.Server.target_qps = 5", "resnet50", {}, id="of two others"),
        pytest.param("*.*.min_duration = 1\nbert.*.min_duration = 5", "resnet50", {"min_duration": 1}, id="the better"),
        pytest.param("*.*.min_duration = 5\nbert.*.min_duration = 1", "bert", {"min_duration": 1}, id="of the other"),
        pytest.param("resnet50.*.min_duration = 5\nbert.*.min_duration = 1", "resnet50", {"min_duration": 5}, id="own"),
        pytest.param("*.*.target_qps = 5 # five", None, {}, id="refused"),
    ],
)
def test_user_conf_is_read_as_meant(tmp_path: Path, conf: str, model: str | None, settings: dict[str, object]) -> None:
    files = {**ran("Server", (QPS, 5), ("effective_min_duration_ms", 1)), "user.conf": f"{conf}\n"}
    reading = read_conf(small_cell(tmp_path / "a", files, scenario="Server", benchmark=KEYED))
    assert (reading.model if reading else None) == model
    assert (reading.values() if reading else {}) == settings
    for number, broken in enumerate(({"user.conf": conf}, ran("Server", (QPS, 5)), {**ran(""), "user.conf": conf})):
        assert read_conf(small_cell(tmp_path / str(number), broken, scenario="Server", benchmark=KEYED)) is None


def test_every_model_key_of_a_file_is_tried_where_the_right_one_is_not_known() -> None:
    conf = parse_user_conf(b"b.x.c = 1\na.x.c = 1\n*.x.c = 1\n")
    assert list_model_keys(conf, "right", "b", is_known=False) == ("right", "a", "b")


_SERVER_CONFS = {"user.conf": "*.Server.min_query_count = 5\n", "mlperf.conf": "*.Server.min_query_count = 9\n"}
_COUNTED = ("requested_min_query_count", 9)


@pytest.mark.parametrize(
    ("release", "user", "built_in", "explained"),
    [
        (".5a1", "", "", True),  # the SUT may have read mlperf.conf last
        ("5.0.11", "", "", False),  # LoadGen read it first
        (".5a1", "*.Server.target_qps = 100\n", "*.Server.target_qps = 1\n", False),  # as this value shows
        (".5a1", "*.Server.target_qps = 100\n", "*.Server.target_qps = 100\n", True),
        (".5a1", "", "resnet50.Server.min_query_count = 8\n", False),  # it states another value
        (".5a1", "*.Server.target_qps = 7\n", "", False),  # user.conf did not apply at all
    ],
)
def test_the_mlperf_conf_that_states_the_logged_value_may_have_been_read_last(
    tmp_path: Path, release: str, user: str, built_in: str, explained: bool
) -> None:
    files = ran("Server", ("loadgen_version", f"{release} @ 1"), (QPS, 100), _COUNTED)
    files |= {"user.conf": _SERVER_CONFS["user.conf"] + user, "mlperf.conf": _SERVER_CONFS["mlperf.conf"] + built_in}
    found = list(verify_contradicting(small_cell(tmp_path, files, scenario="Server", benchmark=KEYED)))
    assert {(item.doubt, bool(item.common)) for item in found} == {("", explained)}


def test_values_are_read_in_the_units_of_specs() -> None:
    conf = parse_user_conf(
        b"*.*.target_qps = 2.50\n*.*.target_latency = 1.5\n*.*.min_duration = 7\n*.*.coalesce_queries = 2\n"
        b"*.*.min_query_count = 9\n*.*.target_latency_percentile = 99.0\nm.*.min_duration = 8\n"
        b"*.Server.max_async_queries = 1e999999999\n"
    )
    reading = read_settings(conf, "m", "Server")
    assert reading.model == "m"
    assert reading.values()["min_duration"] == 8
    assert reading.values() | {"min_duration": 8} == reading.values()
    found = read_settings(conf, "x", "Server").values()
    known = {"target_qps": "2.5", "target_latency": 1_000_000, "min_duration": 7, "min_query_count": 9}
    assert read_settings(conf, "x", "SingleStream").values()["target_latency"] == "1500000"
    assert {name: value for name, value in found.items() if name in known} == known
    assert found.get("coalesce_queries") is True
    assert read_settings(conf, "m", "Server") is read_settings(conf, "m", "Server")
    assert read_settings(conf, "m", "Offline") is not reading


DEFAULTS = rules(values={"model_key": "resnet50", "target_qps": 1, "min_duration": "600000", "min_query_count": True})


@pytest.mark.parametrize(
    ("line", "files", "said"),
    [
        ((QPS, 5), {}, f"; see {LOG}:2"),
        ((QPS, 1), {}, ""),
        ((QPS, 5), {"user.conf": "*.*.target_qps = 5\n"}, ""),
        ((QPS, 5), {"mlperf.conf": "*.*.target_qps = 5\n"}, ""),
        ((QPS, 5), {"mlperf.conf": "resnet50.Offline.target_qps = 4\n*.*.target_qps = 5\n"}, f"; see {LOG}:2"),
        (("effective_min_duration_ms", 5), {}, f"; see {LOG}:2"),
        (("effective_max_duration_ms", 5), {}, f"; see {LOG}:2"),
        (("effective_max_duration_ms", 0), {}, ""),
        (("effective_max_query_count", 7), {}, f"; see {LOG}:2"),
        (("requested_min_query_count", 7), {}, ""),  # whose default no one states as a number
        ((LATENCY, 7), {}, ""),
    ],
)
def test_what_no_line_sets_is_built_into_loadgen(tmp_path: Path, line: Line, files: dict[str, str], said: str) -> None:
    given = {**ran("Offline", line), "user.conf": "", **files}
    found = find(verify_unexplained, tmp_path / "a", given, benchmark=DEFAULTS)
    assert found == ([f"./user.conf{said}"] if said else [])
    assert not find(verify_unexplained, tmp_path / "a", given, benchmark=None)
    del given["user.conf"]
    assert not find(verify_unexplained, tmp_path / "b", given, benchmark=DEFAULTS)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("min_query_count", "requested_min_query_count"),
        ("performance_sample_count_override", "effective_performance_sample_count"),
    ],
)
def test_counts_of_the_accuracy_runs_own_set_are_a_note(tmp_path: Path, name: str, key: str) -> None:
    """A result has one user.conf, and where the round has two sets it cannot hold the counts of both."""
    files = {**ran("Offline", (key, 6396)), "user.conf": f"*.*.{name} = 4395\n"}
    for answered, count, note in ((4395, 6396, True), (4395, 4395, False), (4000, 6396, False), (None, 6396, False)):
        values = {"model_key": "x", "exact_accuracy_sample_count": answered, "dataset_size": count}
        (said,) = find(verify_contradicting, tmp_path, files, benchmark=rules(values=values))
        assert said.startswith("note ") is note


def test_a_file_that_loadgen_refuses_is_reported_once_and_lines_without_effect_each(tmp_path: Path) -> None:
    files = {"user.conf": "*.*.a=5\n*.*.b = 5 # x\n*.*.c = 5 # y\n*.*.d\n"}
    refused = find(verify_rejected, tmp_path / "a", files)
    assert refused == ["./user.conf:2"]
    ignored = find(verify_ignored, tmp_path / "a", files)
    assert [line.partition(": ")[0] for line in ignored] == ["./user.conf:1", "./user.conf:4"]
    assert ignored[0] == ("./user.conf:1")
    for name, quiet in (("b", {"user.conf": "*.*.b = 5\n"}), ("c", {})):
        assert not find(verify_rejected, tmp_path / name, quiet)
        assert not find(verify_ignored, tmp_path / name, quiet)


def test_seeds_of_a_copied_mlperf_conf_are_those_of_the_log(tmp_path: Path) -> None:
    first, second = list(load_ruleset("v6.1").seeds())[:2]
    logs = ran("Offline", (f"effective_{first}", 5), (f"effective_{second}", 6))
    for name, conf, wrong in (
        ("a", f"\n*.*.{first} = 7\n*.*.{second} = 8\n", True),
        ("b", f"*.*.{first} = 5\n*.*.{second} = 8\n", True),
        ("c", f"*.*.{first} = 5\n*.*.{second} = 6\n", False),
        ("d", f"*.Server.{first} = 7\nbert.*.{first} = 7\n", False),
    ):
        found = find(verify_old_seeds, tmp_path / name, {**logs, "mlperf.conf": conf})
        assert found == [f"./mlperf.conf:2; see {LOG}:{2 if name == 'a' else 3}"] * wrong
    unlogged = {**ran("Offline"), "mlperf.conf": f"*.*.{first} = 7\n"}
    alone = {"mlperf.conf": f"*.*.{first} = 7\n"}
    for name, files in (("e", unlogged), ("f", alone), ("g", logs)):
        assert not find(verify_old_seeds, tmp_path / name, files)


@pytest.mark.parametrize(
    ("version", "logged", "accused"),
    [
        ("1.1 @ 0123456789", 4_000_000, 0),
        ("1.1 @ 0123456789", 4_400_000, 1),
        (".5a1", 4_000_000, 0),
        ("2.0 @ 0123456789", 4_400_000, 0),
        ("2.0 @ 0123456789", 4_000_000, 1),
    ],
)
def test_loadgen_before_2_cuts_the_fraction_off(tmp_path: Path, version: str, logged: int, accused: int) -> None:
    files = {
        **ran("SingleStream", (LATENCY, logged), ("loadgen_version", version)),
        "user.conf": "*.SingleStream.target_latency = 4.4\n",
    }
    found = [said for said in find(verify_contradicting, tmp_path, files) if not said.startswith("note ")]
    assert len(found) == accused


@pytest.mark.parametrize(("logged", "accused"), [("12477800", False), ("12477600", True), ("12477900", True)])
def test_one_in_the_last_digit_that_is_printed_is_asked_about(tmp_path: Path, logged: str, accused: bool) -> None:
    files = {**ran("SingleStream", (LATENCY, int(logged))), "user.conf": "*.*.target_latency = 12.477742826\n"}
    (said,) = find(verify_contradicting, tmp_path, files)
    assert said.startswith("note ") is not accused


@pytest.mark.parametrize(
    ("text", "accused"), [("Same as the one of the Offline scenario\n", False), ("*.*.x = 5 # five\n", True)]
)
def test_a_text_that_sets_nothing_is_asked_about(tmp_path: Path, text: str, accused: bool) -> None:
    (said,) = find(verify_rejected, tmp_path, {**ran("Server", (QPS, 5)), "user.conf": text}, scenario="Server")
    assert said.startswith("note ") is not accused


@pytest.mark.parametrize(("folder", "said"), [("resnet", 0), ("retinanet", 1)])
def test_lines_for_the_folders_own_name_are_compared_where_they_fit(tmp_path: Path, folder: str, said: int) -> None:
    conf = f"resnet50.Server.target_qps = 7\n{folder}.Server.target_qps = 5\nbert.Server.target_qps = 9\n"
    files = {**ran("Server", (QPS, 5)), "user.conf": conf}
    assert len(find(verify_contradicting, tmp_path, files, scenario="Server")) == said
