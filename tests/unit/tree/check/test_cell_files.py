"""Which files a scenario folder holds, file by file, and what measurements.json states."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconciler.check.cell_files import (
    ENDPOINTS_READING_RULES,
    FILE_RULES,
    LOADGEN_FILE_RULES,
    LOADGEN_READING_RULES,
    check_documents,
    check_empty_logs,
    check_extra_files,
    check_further_runs,
    check_measurements,
    check_measurements_fields,
    check_power_files,
    check_readable_logs,
    check_readable_results,
    check_readme,
    check_run_files,
    check_scenario_name,
)
from reconciler.check.demands import Complaints
from reconciler.tree.reading.places import LEGACY
from reconciler.tree.reading.view import CellView
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, say, small_cell

Check = Callable[[CellView], Complaints]
ANSWERS, TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
LOGS = (f"{RUN}/{SUMMARY}", f"{RUN}/{DETAIL}", *(f"accuracy/{name}" for name in (SUMMARY, DETAIL, ANSWERS, TEXT)))
FILLED = "wanted a file that is not empty"
ALONE = "wanted LoadGen's files only; to mend: remove it"


def some(*paths: str, data: str = "x") -> dict[str, str]:
    return dict.fromkeys(paths, data)


@pytest.mark.parametrize("left_out", [None, *LOGS])
def test_each_log_of_both_runs_is_there(tmp_path: Path, left_out: str | None) -> None:
    view = small_cell(tmp_path, some(*(path for path in LOGS if path != left_out)))
    said = [f"./{left_out}: missing; wanted {left_out.rpartition('/')[2]}"] if left_out else []
    assert say(check_run_files(view)) == said


def test_a_folder_of_a_run_that_is_missing_is_told_once(tmp_path: Path) -> None:
    assert say(check_run_files(small_cell(tmp_path, {}))) == [
        f"./{RUN}: missing; wanted a folder with {SUMMARY}, {DETAIL}",
        f"./accuracy: missing; wanted a folder with {SUMMARY}, {DETAIL}, {ANSWERS}, {TEXT}",
    ]


TOLERATED = (ANSWERS, "mlperf_log_trace.json", "results.json", ".gitkeep")


def test_nothing_but_logs_is_beside_them(tmp_path: Path) -> None:
    beside = [f"{folder}/{name}" for folder in (RUN, "accuracy") for name in TOLERATED]
    strange = (f"{RUN}/{TEXT}", f"{RUN}/spl.txt", "accuracy/spl.txt", "accuracy/z.txt")
    files = some(*LOGS, *beside, *strange)
    said = [f"./{path}: a file {path.rpartition('/')[2]}; {ALONE}" for path in strange]
    assert say(check_extra_files(small_cell(tmp_path / "a", files))) == said
    powered = small_cell(tmp_path / "b", files | some("performance/power/client.json"))
    assert say(check_extra_files(powered)) == [line for line in said if f"{RUN}/spl.txt" not in line]
    mild = small_cell(tmp_path / "a", files, exempt=("listed_files",))
    assert say(check_extra_files(mild)) == [f"warning {line}" for line in said]


@pytest.mark.parametrize(
    ("check", "names"), [(check_documents, ("user.conf", "README.md")), (check_readme, ("README.md",))]
)
def test_documents_are_there_and_say_something(tmp_path: Path, check: Check, names: tuple[str, ...]) -> None:
    files, empty = {"user.conf": "x", "README.md": "x"}, {"user.conf": "", "README.md": ""}
    assert not list(check(small_cell(tmp_path / "good", files)))
    assert say(check(small_cell(tmp_path / "none", {}))) == [f"./{name}: missing; {FILLED}" for name in names]
    assert say(check(small_cell(tmp_path / "empty", empty))) == [f"./{name}: empty; {FILLED}" for name in names]
    mild = small_cell(tmp_path / "empty", {}, exempt=("filled_values",))
    assert say(check(mild)) == [f"warning ./{name}: empty; {FILLED}" for name in names]
    gone = small_cell(tmp_path / "none", {}, exempt=("filled_values",))
    assert say(check(gone)) == [f"./{name}: missing; {FILLED}" for name in names]


def test_the_measurements_file_is_there(tmp_path: Path) -> None:
    assert not list(check_measurements(small_cell(tmp_path / "a", {"measurements.json": "{}"})))
    assert not list(check_measurements(small_cell(tmp_path / "b", {"measurements.json": "{"})))
    assert say(check_measurements(small_cell(tmp_path / "c", {}))) == [
        "./measurements.json: missing; wanted measurements.json"
    ]
    older = small_cell(tmp_path / "d", {}, layout=LEGACY)
    place = "closed/Acme/measurements/sys1/resnet/Offline/measurements.json"
    assert say(check_measurements(older)) == [f"{place}: missing; wanted sys1*.json"]


FIELDS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
SAID = "wanted a value that says something"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"retraining": None}, ":3: retraining is nothing; " + SAID),
        ({"retraining": ""}, ":3: retraining is empty; " + SAID),
        ({"retraining": 0}, ":3: retraining is 0; " + SAID),
        ({"retraining": False}, ":3: retraining is false; " + SAID),
        ({"weight_data_types": ""}, ":5: weight_data_types is empty; " + SAID),
    ],
)
def test_measurements_state_each_field(tmp_path: Path, changed: Mapping[str, object], said: str) -> None:
    text = json.dumps({**dict.fromkeys(FIELDS, "stated"), **changed}, indent=1)
    for exempt, severity in (((), ""), (("filled_values",), "warning ")):
        view = small_cell(tmp_path, {"measurements.json": text}, exempt=exempt)
        assert say(check_measurements_fields(view)) == ([f"{severity}./measurements.json{said}"] if said else [])


def test_fields_that_are_missing_are_told_each(tmp_path: Path) -> None:
    for exempt in ((), ("filled_values",)):
        found = say(check_measurements_fields(small_cell(tmp_path, {"measurements.json": "{}"}, exempt=exempt)))
        assert sorted(found) == [f"./measurements.json: no field {name}; wanted a value" for name in FIELDS]
    for number, files in enumerate(({}, {"measurements.json": "["})):
        assert not list(check_measurements_fields(small_cell(tmp_path / str(number), files)))


BROKEN = "a file that can be read"


def test_files_that_cannot_be_read_are_told_at_their_lines(tmp_path: Path) -> None:
    broken = some(
        f"{RUN}/{DETAIL}",
        f"accuracy/{DETAIL}",
        f"TEST01/{RUN}/{DETAIL}",
        *(f"{name}/x" for name in ("user.conf", f"accuracy/{TEXT}", f"TEST01/{RUN}/{SUMMARY}")),
        data="no line of a log\n",
    )
    found = say(check_readable_logs(small_cell(tmp_path, broken | {"measurements.json": '{\n"a": '})))
    places = [line.partition(": ")[0] for line in found]
    assert places == [
        *(f"./{RUN}/{DETAIL}:1", f"./accuracy/{DETAIL}:1", f"./TEST01/{RUN}/{DETAIL}:1", f"./TEST01/{RUN}/{SUMMARY}"),
        *("./user.conf", "./measurements.json:2", f"./accuracy/{TEXT}"),
    ]
    assert found[3] == f"./TEST01/{RUN}/{SUMMARY}: it is not a regular file; wanted {BROKEN}"
    assert found[5].endswith(f"; wanted {BROKEN}; because: the file was cut or edited")
    whole = {f"{RUN}/{DETAIL}": log(("a", 1)), "measurements.json": "{}"}
    assert not list(check_readable_logs(small_cell(tmp_path / "whole", whole)))


def test_results_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    names = ("config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json", "measurements.json")
    found = say(check_readable_results(small_cell(tmp_path, some(*names, data="["))))
    assert [line.partition(": ")[0].partition(":")[0] for line in found] == [f"./{name}" for name in names]
    assert all(f"; wanted {BROKEN}" in line for line in found)


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("nothing\n", True),
        ("Scenario : Offline\n", False),
        ("No errors encountered during test.\n", False),
        ("2 ERRORS encountered. See detailed log.\n", False),
    ],
)
def test_a_summary_has_a_line_of_loadgen(tmp_path: Path, text: str, empty: bool) -> None:
    files = {f"{folder}/{SUMMARY}": text for folder in (RUN, "accuracy", f"TEST01/{RUN}")}
    said = "no line of LoadGen's summary; wanted a summary that LoadGen wrote"
    assert say(check_empty_logs(small_cell(tmp_path / "a", files))) == [f"./{path}: {said}" for path in files if empty]
    assert not list(check_empty_logs(small_cell(tmp_path / "b", {})))


def test_only_run_1_is_read(tmp_path: Path) -> None:
    view = small_cell(tmp_path, some(*(f"performance/{name}/x" for name in ("run_1", "run_2", "run_10", "ranging"))))
    said = "a further run; wanted run_1 alone; to mend: only run_1 is read"
    assert say(check_further_runs(view)) == [f"./performance/{name}: {said}" for name in ("run_10", "run_2")]


POWER = (
    f"{RUN}/spl.txt",
    *(f"performance/ranging/{name}" for name in (SUMMARY, DETAIL, "spl.txt")),
    *(
        f"performance/power/{name}"
        for name in ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
    ),
)


@pytest.mark.parametrize("left_out", [None, *POWER[:4]])
def test_a_power_submission_has_all_of_its_files(tmp_path: Path, left_out: str | None) -> None:
    files = some(f"{RUN}/{DETAIL}", *(path for path in POWER if path != left_out))
    said = [f"./{left_out}: missing; wanted {left_out.rpartition('/')[2]}"] if left_out else []
    assert say(check_power_files(small_cell(tmp_path, files))) == said


def test_each_file_of_the_power_folder_is_asked_for_where_there_is_one(tmp_path: Path) -> None:
    files = some(*POWER[:4], "performance/power/x")
    assert say(check_power_files(small_cell(tmp_path / "a", files))) == [
        f"./{path}: missing; wanted {path.rpartition('/')[2]}" for path in POWER[4:]
    ]
    assert not list(check_power_files(small_cell(tmp_path / "b", some(f"{RUN}/{DETAIL}"))))


def test_a_scenario_folder_has_its_proper_name(tmp_path: Path) -> None:
    assert not list(check_scenario_name(small_cell(tmp_path, {})))
    (said,) = say(check_scenario_name(small_cell(tmp_path, {}, folder="offline")))
    assert said == (
        "closed/Acme/results/sys1/resnet/offline: folder offline; wanted Offline; because: "
        "the checker takes such a result for an inferred one; to mend: rename the folder to Offline"
    )


def test_rules_of_files_by_their_ids() -> None:
    tables = (LOADGEN_READING_RULES, ENDPOINTS_READING_RULES, LOADGEN_FILE_RULES, FILE_RULES)
    assert [(rule.id, check) for table in tables for rule, check in table] == [
        ("files.readable", check_readable_logs),
        ("files.document", check_documents),
        ("files.readable", check_readable_results),
        ("files.document", check_readme),
        ("files.missing", check_run_files),
        ("files.extra", check_extra_files),
        ("files.empty-log", check_empty_logs),
        ("files.power", check_power_files),
        ("files.runs", check_further_runs),
        ("files.scenario-name", check_scenario_name),
        ("measurements.missing", check_measurements),
        ("measurements.fields", check_measurements_fields),
    ]
