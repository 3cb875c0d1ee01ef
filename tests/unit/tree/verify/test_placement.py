"""A log that belongs elsewhere is told by what it says of itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.tree.check.engine import check_tree
from reconciler.tree.verify.engine import verify_tree
from tests.unit.tree.check.made import add_error, set_log
from tests.unit.tree.check.written import TOKENS, open_cell

CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"
PERFORMANCE, ACCURACY, FIRST = "performance/run_1", "accuracy", "TEST01/performance/run_1"


def place(root: Path) -> list[tuple[str, str, str, str]]:
    """(rule, found, wanted, mechanism) of each log of the cell that is where it does not belong."""
    found = [f for f in verify_tree(root, round_name="v6.1").findings if f.rule.kind == "placement"]
    complaints = [(f.rule.id.partition(".")[2], f.complaint) for f in found if f.cell.endswith("/Offline")]
    return [(rule, it.found, it.wanted, it.mechanism) for rule, it in complaints if rule != "copied"]


def say(folder: str, key: str, value: object, root: Path) -> None:
    set_log(root / CELL / folder, key, value)


def copy(old: str, new: str, root: Path) -> None:
    shutil.copyfile(root / CELL / old / DETAIL, root / CELL / new / DETAIL)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, []),
        (
            partial(say, PERFORMANCE, "effective_test_mode", '"AccuracyOnly"'),
            [("performance", "AccuracyOnly", "PerformanceOnly", "")],
        ),
        (
            partial(say, ACCURACY, "effective_test_mode", '"PerformanceOnly"'),
            [("accuracy", "PerformanceOnly", "AccuracyOnly", "")],
        ),
        (
            partial(copy, FIRST, PERFORMANCE),
            [
                (
                    "performance",
                    "LoadGen took settings from an audit.config",
                    "a run without audit.config",
                    "audited-run",
                )
            ],
        ),
        (
            partial(copy, PERFORMANCE, FIRST),
            [("compliance", "no audit.config took part", "a run of TEST01", "")],
        ),
        (
            partial(say, FIRST, "effective_scenario", '"SingleStream"'),
            [("compliance", "a run of SingleStream", "a run of Offline", "")],
        ),
    ],
    ids=["honest", "accuracy-log", "performance-log", "test-log", "no-test", "other-scenario"],
)
def test_a_log_that_belongs_elsewhere_is_named(
    change: Callable[[Path], None], said: list[tuple[str, str, str, str]], tree: Path
) -> None:
    change(tree)
    assert place(tree) == said


def test_an_accuracy_run_is_of_the_scenario_that_was_performed(tree: Path) -> None:
    copy(f"../SingleStream/{ACCURACY}", ACCURACY, tree)
    assert ("accuracy", "a run of SingleStream", "a run of Offline", "") in place(tree)


def test_both_runs_may_be_of_the_scenario_that_the_result_is_inferred_from(tree: Path) -> None:
    copy(f"../SingleStream/{ACCURACY}", ACCURACY, tree)
    copy(f"../SingleStream/{PERFORMANCE}", PERFORMANCE, tree)
    assert [said for said in place(tree) if said[0] == "accuracy"] == []


def test_an_accuracy_run_of_another_scenario_is_named_where_no_run_was_performed(tree: Path) -> None:
    copy(f"../SingleStream/{ACCURACY}", ACCURACY, tree)
    (tree / CELL / PERFORMANCE / DETAIL).unlink()
    assert place(tree) == [("accuracy", "a run of SingleStream", "a run of Offline", "")]


def test_errors_of_a_run_are_counted_behind_the_first(tree: Path) -> None:
    def said() -> list[str]:
        found = [f for f in check_tree(tree, round_name="v6.1").findings if f.rule.id == "run.errors"]
        return [f.complaint.found for f in found if f.cell.endswith("/Offline")]

    add_error(tree / CELL / PERFORMANCE, "first")
    assert said() == ["first"]
    add_error(tree / CELL / PERFORMANCE, "second")
    add_error(tree / CELL / PERFORMANCE, "third")
    assert said() == ["first and 2 more"]


@pytest.mark.parametrize(
    ("key", "limit", "said"),
    [
        ("requested_server_ttft_latency", 500_000_000, []),
        (
            "requested_server_ttft_latency",
            500_000_001,
            [("performance", "LoadGen's TTFT limit was 500.000001 ms", "at most 500 ms, the limit of Interactive", "")],
        ),
        ("requested_server_tpot_latency", 30_000_000, []),
        (
            "requested_server_tpot_latency",
            100_000_000,
            [("performance", "LoadGen's TPOT limit was 100 ms", "at most 30 ms, the limit of Interactive", "")],
        ),
    ],
)
def test_an_interactive_run_has_the_limits_of_interactive(
    key: str, limit: int, said: list[tuple[str, str, str, str]], tmp_path: Path
) -> None:
    open_cell(tmp_path, "llama3.1-8b", "Interactive", {**TOKENS, key: limit})
    found = [f for f in verify_tree(tmp_path, round_name="v6.1").findings if f.rule.id == "placement.performance"]
    assert [("performance", f.complaint.found, f.complaint.wanted, "") for f in found] == said


def test_a_log_that_does_not_say_its_limits_is_not_of_server(tmp_path: Path) -> None:
    silent = {key: value for key, value in TOKENS.items() if key != "requested_server_ttft_latency"}
    open_cell(tmp_path, "llama3.1-8b", "Interactive", {**silent, "requested_server_tpot_latency": 100_000_000})
    found = [f for f in verify_tree(tmp_path, round_name="v6.1").findings if f.rule.id == "placement.performance"]
    assert [f.complaint.found for f in found] == ["LoadGen's TPOT limit was 100 ms"]


def test_a_submitter_with_a_dot_in_front_is_judged(tree: Path) -> None:
    """To the official checkers it is one; folders of git and editors are none."""
    (submitter,) = (tree / "closed").iterdir()
    (tree / "closed/.git/objects").mkdir(parents=True)
    assert {facts.submitter for facts in verify_tree(tree).facts} == {submitter.name}
    submitter.rename(tree / "closed/.hidden")
    assert {facts.submitter for facts in verify_tree(tree).facts} == {".hidden"}


def test_an_accuracy_run_of_another_scenario_is_named_at_its_line(tree: Path) -> None:
    copy(f"../SingleStream/{ACCURACY}", ACCURACY, tree)
    found = [f for f in verify_tree(tree, round_name="v6.1").findings if f.rule.id == "placement.accuracy"]
    (place,) = [f.complaint.place for f in found if f.cell.endswith("/Offline")]
    assert place.file == f"{CELL}/{ACCURACY}/{DETAIL}"
    line = (tree / place.file).read_text().splitlines()[place.line - 1]
    assert '"key": "effective_scenario", "value": "SingleStream"' in line


def test_an_accuracy_run_that_names_no_scenario_is_named(tree: Path) -> None:
    say(ACCURACY, "effective_scenario", '""', tree)
    assert ("accuracy", "a run of nothing", "a run of Offline", "") in place(tree)


def test_results_of_a_benchmark_that_the_round_does_not_have_are_verified_without_its_rules(tree: Path) -> None:
    (tree / CELL).parent.rename((tree / CELL).parents[1] / "mine")
    for look in (check_tree, verify_tree):
        found = look(tree, round_name="v6.1").findings
        assert not [str(f.complaint) for f in found if f.rule.id == "internal.rule"]
