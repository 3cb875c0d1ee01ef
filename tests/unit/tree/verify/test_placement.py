"""A log that belongs elsewhere is told by what it says of itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.check.engine import check_tree
from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.tree.reading.places import LEGACY
from reconciler.tree.reading.view import CellView
from reconciler.verify.contradiction import ViewRule
from reconciler.verify.engine import verify_tree
from reconciler.verify.placement import (
    PLACEMENT_RULES,
    verify_accuracy_run,
    verify_measurements,
    verify_performance,
    verify_tests,
)
from tests.unit.tree.check.made import add_error, set_log
from tests.unit.tree.check.written import TOKENS, open_cell
from tests.unit.tree.small_cells import Line, log, rules, small_cell
from tests.unit.tree.small_cells import say as tell_all

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


OFFLINE, SINGLE = ("effective_scenario", "Offline"), ("effective_scenario", "SingleStream")
PERFORMED, ANSWERED = ("effective_test_mode", "PerformanceOnly"), ("effective_test_mode", "AccuracyOnly")
AUDITED = ("warning_generic", AUDIT_TEXT)


def tell(check: ViewRule[CellView], root: Path, **logs: tuple[Line, ...]) -> list[str]:
    """Each log is named for its run; its lines stand from the first on."""
    folders = {"performed": PERFORMANCE, "answered": ACCURACY, "TEST01": FIRST, "TEST04": FIRST.replace("1", "4", 1)}
    folders["TEST06"] = FIRST.replace("1", "6", 1)
    files = {f"{folders[name]}/{DETAIL}": log(*lines) for name, lines in logs.items()}
    found = tell_all(check(small_cell(root, files, benchmark=rules())))
    for name, folder in folders.items():
        found = [line.replace(f"./{folder}/{DETAIL}", name) for line in found]
    return found


def test_a_performance_log_is_of_its_folder(tmp_path: Path) -> None:
    assert tell(verify_performance, tmp_path / "a", performed=(OFFLINE, PERFORMED)) == []
    assert tell(verify_performance, tmp_path / "b", answered=(OFFLINE, PERFORMED)) == []
    server = ("effective_scenario", "Server")
    found = tell(verify_performance, tmp_path / "c", performed=(server, ANSWERED, AUDITED))
    assert found[:2] == [
        "performed:1: Server; wanted a run of Offline; because: the logs of another scenario's folder",
        "performed:2: AccuracyOnly; wanted PerformanceOnly; because: the log of an accuracy run was copied here",
    ]
    assert found[2].startswith("performed:3: LoadGen took settings from an audit.config; wanted a run without audit")
    assert found[2].endswith("; mechanism: audited-run")
    assert len(found) == 3


def test_an_accuracy_log_is_of_its_folder(tmp_path: Path) -> None:
    good = {"answered": (OFFLINE, ANSWERED), "performed": (OFFLINE,)}
    assert tell(verify_accuracy_run, tmp_path / "a", **good) == []
    assert tell(verify_accuracy_run, tmp_path / "b", performed=(SINGLE,)) == []
    assert tell(verify_accuracy_run, tmp_path / "c", answered=(SINGLE, ANSWERED), performed=(SINGLE,)) == []
    said = "a run of SingleStream; wanted a run of Offline"
    cause = "because: the accuracy run of another scenario, taken for this one"
    for number, performed in enumerate(({}, {"performed": (OFFLINE,)})):
        found = tell(verify_accuracy_run, tmp_path / str(number), answered=(("a", 1), SINGLE, ANSWERED), **performed)
        assert found == [f"answered:2: {said}; {cause}"]
    (first, second, third) = tell(verify_accuracy_run, tmp_path / "d", answered=(PERFORMED, AUDITED))
    assert first.startswith("answered:1: PerformanceOnly; wanted AccuracyOnly; because: the log of a performance run")
    assert second.startswith("answered:2: LoadGen took settings from an audit.config; wanted")
    assert third == f"answered: a run of nothing; wanted a run of Offline; {cause}"


SAME = ("effective_performance_issue_same", True)
WANTED = "accuracy_log_sampling_target"


def test_a_compliance_log_is_of_its_test(tmp_path: Path) -> None:
    performed = (("a", 1), OFFLINE)
    assert tell(verify_tests, tmp_path / "a", performed=performed, TEST04=(OFFLINE, AUDITED, SAME)) == []
    assert tell(verify_tests, tmp_path / "b", TEST04=(OFFLINE, AUDITED, SAME)) == []
    scenario = "a run of SingleStream; wanted a run of Offline"
    assert tell(verify_tests, tmp_path / "c", performed=performed, TEST04=(SINGLE, AUDITED, SAME)) == [
        f"TEST04:1: {scenario}; beside performed:2"
    ]
    assert tell(verify_tests, tmp_path / "d", TEST04=(SINGLE, AUDITED, SAME)) == [f"TEST04:1: {scenario}"]
    unaudited = "no audit.config took part; wanted a run of TEST04"
    for name, lines in (("e", (OFFLINE,)), ("i", (OFFLINE, (SAME[0], False)))):
        assert tell(verify_tests, tmp_path / name, TEST04=lines) == [
            f"TEST04: {unaudited}; because: a run without the test's audit.config, or the log of another run"
        ]
    assert tell(verify_tests, tmp_path / "by code", TEST04=(OFFLINE, SAME)) == []  # as the tests' own README suggests
    other = "wanted the settings of TEST04; because: the log of another test"
    for name, mark, said in (("f", (("a", 1),), ": {} nothing"), ("g", ((SAME[0], False),), ":3: {} false")):
        shown = said.format("performance_issue_same")
        assert tell(verify_tests, tmp_path / name, TEST04=(OFFLINE, AUDITED, *mark)) == [f"TEST04{shown}; {other}"]
    assert tell(verify_tests, tmp_path / "unmarked", TEST06=(OFFLINE, AUDITED)) == []
    assert tell(verify_tests, tmp_path / "h", performed=(SINGLE,), TEST04=(SINGLE, AUDITED, SAME)) == []


@pytest.mark.parametrize(("target", "share", "foreign"), [(0, 0.1, 0), (4096, 0, 0), (0, 0, 1)])
def test_a_log_of_test01_asks_for_a_number_or_a_share_of_answers(
    tmp_path: Path, target: int, share: float, foreign: int
) -> None:
    """A share is another audit.config than the round's, and no run of another test."""
    lines = (OFFLINE, AUDITED, (f"effective_{WANTED}", target), ("effective_accuracy_log_probability", share))
    assert len(tell(verify_tests, tmp_path, TEST01=lines)) == foreign


@pytest.mark.parametrize(
    ("first", "second", "exchanged"), [(990, 10000, 0), (10000, 990, 2), (990, 990, 1), (7, 10000, 0), (None, 990, 1)]
)
def test_a_compliance_log_has_the_settings_of_its_test_and_of_no_other(
    tmp_path: Path, first: int | None, second: int, exchanged: int
) -> None:
    """Two tests of one result that want different numbers of answers logged; a number of neither says nothing."""
    tests = {
        name: SimpleNamespace(settings={WANTED: SimpleNamespace(value=wanted)})
        for name, wanted in (("TEST07", 990), ("TEST09", 10000))
    }
    logged = {"TEST07": first, "TEST09": second}
    files = {
        f"{name}/{PERFORMANCE}/{DETAIL}": log(OFFLINE, AUDITED, *(((f"effective_{WANTED}", count),) if count else ()))
        for name, count in logged.items()
    }
    found = tell_all(verify_tests(small_cell(tmp_path, files, benchmark=rules(tests=tests))))
    assert len(found) == exchanged
    for said in found:
        name, other = ("TEST07", "TEST09") if "TEST07/" in said else ("TEST09", "TEST07")
        assert f"as the audit.config of {other} sets; wanted {tests[name].settings[WANTED].value}, as that of" in said


@pytest.mark.parametrize(
    ("name", "scenario", "said"),
    [
        ("sys1_Offline.json", "Offline", ""),
        ("sys1_offline.json", "Offline", ""),
        ("sys1.json", "Offline", ""),
        ("sys1Server.json", "Offline", ""),
        ("sys1_Server.json", "Offline", "a file for Server"),
        ("sys1_server.json", "Offline", "a file for Server"),
        ("sys1_SingleStream.json", "SingleStream", ""),
        ("sys1_Offline.json", "SingleStream", ""),
        ("sys1_MultiStream.json", "SingleStream", "a file for MultiStream"),
    ],
)
def test_the_measurements_of_older_trees_are_named_for_their_scenario(
    tmp_path: Path, name: str, scenario: str, said: str
) -> None:
    """Or for the one that the result is inferred from."""
    files = {
        f"/measurements/sys1/resnet/Offline/{name}": "{}",
        f"{PERFORMANCE}/{DETAIL}": log(("effective_scenario", scenario)),
        "/code/resnet/ours/main.py": "",
    }
    place = f"closed/Acme/measurements/sys1/resnet/Offline/{name}"
    found = tell_all(verify_measurements(small_cell(tmp_path / "a", files, layout=LEGACY)))
    assert found == ([f"{place}: {said}; wanted one for Offline; because: the file of another cell"] if said else [])
    assert not list(verify_measurements(small_cell(tmp_path / "b", {**files, "measurements.json": "{}"})))
    assert not list(verify_measurements(small_cell(tmp_path / "c", {}, layout=LEGACY)))
    named = {"/measurements/sys1/resnet/Offline/sys1_Server.json": "{}"}
    assert len(list(verify_measurements(small_cell(tmp_path / "d", named, layout=LEGACY)))) == 1


@pytest.mark.parametrize(
    ("code", "doubted"),
    [("ours", False), ("SUT_server", None), ("server", False), ("", True)],
    ids=["another", "the one named", "the end of it", "none in the copy"],
)
def test_measurements_named_for_an_implementation_name_no_scenario(
    tmp_path: Path, code: str, doubted: bool | None
) -> None:
    """Of which the name may end as that of a scenario does: the checkers of older rounds take <system>_<code>.json."""
    files = {
        "/measurements/sys1/resnet/Offline/sys1_SUT_server.json": "{}",
        f"{PERFORMANCE}/{DETAIL}": log(("effective_scenario", "Offline")),
        **({f"/code/resnet/{code}/main.py": ""} if code else {}),
    }
    found = list(verify_measurements(small_cell(tmp_path, files, layout=LEGACY)))
    assert [bool(item.doubt) for item in found] == ([] if doubted is None else [doubted])


def test_rules_of_places_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in PLACEMENT_RULES] == [
        ("placement.performance", verify_performance.find),
        ("placement.accuracy", verify_accuracy_run.find),
        ("placement.compliance", verify_tests.find),
        ("placement.measurements", verify_measurements.find),
    ]
