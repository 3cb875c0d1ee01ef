"""A log that belongs elsewhere is identified by what it says of itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.check.engine import check_tree
from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.resource.rules import AppliedRule
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.places import LEGACY
from reconciler.tree.reading.view import CellView
from reconciler.verify.engine import verify_tree
from reconciler.verify.placement import verify_measurements, verify_performance, verify_tests
from tests.unit.tree.small_cells import Line, log, rules, small_cell
from tests.unit.tree.small_cells import say as find_all

CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"
PERFORMANCE, ACCURACY, FIRST = "performance/run_1", "accuracy", "TEST01/performance/run_1"


def place(root: Path) -> list[tuple[str, str, str, str]]:
    """(rule, found, wanted, mechanism) of each log of the cell that is where it does not belong."""
    found = [f for f in verify_tree(root, round_name="v6.1").findings if f.rule.kind == "placement"]
    complaints = [(f.rule.id.partition(".")[2], f.complaint) for f in found if f.cell.endswith("/Offline")]
    return [(rule, it.found, it.wanted, it.mechanism) for rule, it in complaints if rule != "copied"]


def copy(old: str, new: str, root: Path) -> None:
    shutil.copyfile(root / CELL / old / DETAIL, root / CELL / new / DETAIL)


def test_a_submitter_with_a_dot_in_front_is_judged(tree: Path) -> None:
    """To the official checkers it is one; folders of git and editors are none."""
    (submitter,) = (tree / "closed").iterdir()
    (tree / "closed/.git/objects").mkdir(parents=True)
    assert {facts.submitter for facts in verify_tree(tree).facts} == {submitter.name}
    submitter.rename(tree / "closed/.hidden")
    assert {facts.submitter for facts in verify_tree(tree).facts} == {".hidden"}


def test_results_of_a_benchmark_that_the_round_does_not_have_are_verified_without_its_rules(tree: Path) -> None:
    (tree / CELL).parent.rename((tree / CELL).parents[1] / "mine")
    for look in (check_tree, verify_tree):
        found = look(tree, round_name="v6.1").findings
        assert not [str(f.complaint) for f in found if f.rule.id == "internal.rule"]


OFFLINE, SINGLE = ("effective_scenario", "Offline"), ("effective_scenario", "SingleStream")
PERFORMED, ANSWERED = ("effective_test_mode", "PerformanceOnly"), ("effective_test_mode", "AccuracyOnly")
AUDITED = ("warning_generic", AUDIT_TEXT)


def find(check: AppliedRule[CellView, Complaint], root: Path, **logs: tuple[Line, ...]) -> list[str]:
    """Each log is named for its run; its lines stand from the first on."""
    folders = {"performed": PERFORMANCE, "answered": ACCURACY, "TEST01": FIRST, "TEST04": FIRST.replace("1", "4", 1)}
    folders["TEST06"] = FIRST.replace("1", "6", 1)
    files = {f"{folders[name]}/{DETAIL}": log(*lines) for name, lines in logs.items()}
    found = find_all(check(small_cell(root, files, benchmark=rules())))
    for name, folder in folders.items():
        found = [line.replace(f"./{folder}/{DETAIL}", name) for line in found]
    return found


def test_a_performance_log_is_of_its_folder(tmp_path: Path) -> None:
    assert find(verify_performance, tmp_path / "a", performed=(OFFLINE, PERFORMED)) == []
    assert find(verify_performance, tmp_path / "b", answered=(OFFLINE, PERFORMED)) == []
    server = ("effective_scenario", "Server")
    found = find(verify_performance, tmp_path / "c", performed=(server, ANSWERED, AUDITED))
    assert found == ["performed:1", "performed:2", "performed:3; mechanism: audited-run"]


SAME = ("effective_performance_issue_same", True)
WANTED = "accuracy_log_sampling_target"


def test_a_compliance_log_is_of_its_test(tmp_path: Path) -> None:
    performed = (("a", 1), OFFLINE)
    assert find(verify_tests, tmp_path / "a", performed=performed, TEST04=(OFFLINE, AUDITED, SAME)) == []
    assert find(verify_tests, tmp_path / "b", TEST04=(OFFLINE, AUDITED, SAME)) == []
    assert find(verify_tests, tmp_path / "c", performed=performed, TEST04=(SINGLE, AUDITED, SAME)) == [
        "TEST04:1; see performed:2"
    ]
    assert find(verify_tests, tmp_path / "d", TEST04=(SINGLE, AUDITED, SAME)) == ["TEST04:1"]
    for name, lines in (("e", (OFFLINE,)), ("i", (OFFLINE, (SAME[0], False)))):
        assert find(verify_tests, tmp_path / name, TEST04=lines) == ["TEST04"]
    assert find(verify_tests, tmp_path / "by code", TEST04=(OFFLINE, SAME)) == []  # as the tests' own README suggests
    for name, mark, line in (("f", ("a", 1), ""), ("g", (SAME[0], False), ":3")):
        assert find(verify_tests, tmp_path / name, TEST04=(OFFLINE, AUDITED, mark)) == [f"TEST04{line}"]
    assert find(verify_tests, tmp_path / "unmarked", TEST06=(OFFLINE, AUDITED)) == []
    assert find(verify_tests, tmp_path / "h", performed=(SINGLE,), TEST04=(SINGLE, AUDITED, SAME)) == []


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
    found = find_all(verify_tests(small_cell(tmp_path, files, benchmark=rules(tests=tests))))
    assert len(found) == exchanged


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
def test_measurements_of_older_trees_name_the_scenario(tmp_path: Path, name: str, scenario: str, said: str) -> None:
    """Or for the one that the result is inferred from."""
    files = {
        f"/measurements/sys1/resnet/Offline/{name}": "{}",
        f"{PERFORMANCE}/{DETAIL}": log(("effective_scenario", scenario)),
        "/code/resnet/ours/main.py": "",
    }
    place = f"closed/Acme/measurements/sys1/resnet/Offline/{name}"
    found = find_all(verify_measurements(small_cell(tmp_path / "a", files, layout=LEGACY)))
    assert found == ([f"{place}"] if said else [])
    assert not list(verify_measurements(small_cell(tmp_path / "b", {**files, "measurements.json": "{}"})))
    assert not list(verify_measurements(small_cell(tmp_path / "c", {}, layout=LEGACY)))
    named = {"/measurements/sys1/resnet/Offline/sys1_Server.json": "{}"}
    assert len(list(verify_measurements(small_cell(tmp_path / "d", named, layout=LEGACY)))) == 1


@pytest.mark.parametrize(
    ("code", "doubted"),
    [("ours", False), ("SUT_server", None), ("server", False), ("", True)],
    ids=["another", "the one named", "the end of it", "none in the copy"],
)
def test_measurements_of_an_implementation_name_no_scenario(tmp_path: Path, code: str, doubted: bool | None) -> None:
    """Of which the name may end as that of a scenario does: the checkers of older rounds take <system>_<code>.json."""
    files = {
        "/measurements/sys1/resnet/Offline/sys1_SUT_server.json": "{}",
        f"{PERFORMANCE}/{DETAIL}": log(("effective_scenario", "Offline")),
        **({f"/code/resnet/{code}/main.py": ""} if code else {}),
    }
    found = list(verify_measurements(small_cell(tmp_path, files, layout=LEGACY)))
    assert [bool(item.doubt) for item in found] == ([] if doubted is None else [doubted])
