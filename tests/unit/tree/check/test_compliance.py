"""The compliance tests of a result: which there are, which files they have, what their verdicts say."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.compliance import (
    COMPLIANCE_RULES,
    check_audit_present,
    check_extra,
    check_files,
    check_missing,
    check_verdicts,
    list_compliance_runs,
)
from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.resource.ruled_values import Bar, Expected, TestRules
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, rules, say, small_cell

ACCURACY, PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
CHANGE = {"most_accuracy_change": SimpleNamespace(value="1"), "most_accuracy_change_ROUGE1": SimpleNamespace(value="5")}
PASSED, FAILED = "num_ne = 0\nTEST PASS\n", "one\ntest fail\n"
LISTED = "wanted the listed files only; to mend: remove it"
DETERMINED = TestRules(
    "TEST04", (), (PERFORMANCE, f"{RUN}/{DETAIL}"), (Expected(PERFORMANCE, ("TEST PASS",), True),), True, {}, {}
)
FALLBACK: Any = TestRules(
    "TEST01",
    (),
    (ACCURACY,),
    (Expected(ACCURACY, ("TEST PASS", "TEST PASSED"), True),),
    False,
    {},
    CHANGE,  # type: ignore[arg-type]
)
TESTS = {"TEST01": FALLBACK, "TEST04": DETERMINED}
BARS = (Bar("acc", Decimal(70)), Bar("ROUGE1", Decimal(40)))


def cell(root: Path, files: Mapping[str, str], **options: Any) -> Any:
    return small_cell(root, files, benchmark=rules(tests=TESTS, asked=BARS), **options)


def test_every_test_that_the_benchmark_needs_is_there(tmp_path: Path) -> None:
    assert say(check_missing(cell(tmp_path / "a", {"TEST01/x": "", "TEST09/x": ""}))) == [
        "./TEST04: missing; wanted TEST04, which resnet needs; to mend: run TEST04"
    ]
    assert not list(check_missing(cell(tmp_path / "a", {}, exempt=("compliance_tests",))))
    assert not list(check_missing(cell(tmp_path / "b", {"TEST01/x": "", "TEST04/x": ""})))


GOOD = {
    f"TEST01/{ACCURACY}": PASSED,
    "TEST01/accuracy/mlperf_log_accuracy.json": "x",
    "TEST01/accuracy/accuracy.txt": "x",
    f"TEST04/{PERFORMANCE}": PASSED,
    f"TEST04/{RUN}/{DETAIL}": "x",
}
REPORTS = {f"TEST01/accuracy/{name}_accuracy.txt": "x" for name in ("baseline", "compliance")}


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({}, []),
        *(({path: None}, [path]) for path in GOOD if not path.startswith("TEST01/verify")),
        ({f"TEST01/{ACCURACY}": None}, [f"TEST01/{ACCURACY}"]),
        ({f"TEST01/{ACCURACY}": "TEST PASSED\n"}, []),
        ({f"TEST01/{ACCURACY}": FAILED}, [*REPORTS]),
        ({f"TEST01/{ACCURACY}": FAILED, **REPORTS}, []),
    ],
)
def test_a_test_has_its_files(tmp_path: Path, changed: Mapping[str, str | None], missing: list[str]) -> None:
    files = {path: text for path, text in {**GOOD, "TEST04/x": "", **changed}.items() if text is not None}
    found = say(check_files(cell(tmp_path, files)))
    assert [line for line in found if "a folder with" not in line] == [
        f"./{path}: missing; wanted {path.rpartition('/')[2]}" for path in missing if path != f"TEST04/{RUN}/{DETAIL}"
    ]
    folders = [f"./TEST04/{RUN}: missing; wanted a folder with {DETAIL}"]
    assert [line for line in found if "a folder with" in line] == (
        folders if f"TEST04/{RUN}/{DETAIL}" in missing else []
    )


def test_nothing_but_the_listed_files_is_beside_a_tests_logs(tmp_path: Path) -> None:
    logs = (SUMMARY, "mlperf_log_trace.json", "mlperf_log_accuracy.json", "y.txt")
    others = f"TEST01/{RUN}/y.txt", "TEST04/accuracy/y.txt", "TEST01/accuracy/y.txt"
    more = dict.fromkeys((*(f"TEST04/{RUN}/{name}" for name in logs), *others), "x")
    strange = ["TEST01/accuracy/baseline_accuracy.txt", "TEST01/accuracy/compliance_accuracy.txt"]
    said = [f"./TEST01/accuracy/y.txt: a file y.txt; {LISTED}", f"./TEST04/{RUN}/y.txt: a file y.txt; {LISTED}"]
    passed = say(check_extra(cell(tmp_path / "a", GOOD | more | REPORTS)))
    assert passed == [*(f"./{path}: a file {path.rpartition('/')[2]}; {LISTED}" for path in strange), *said]
    failed = GOOD | more | REPORTS | {f"TEST01/{ACCURACY}": FAILED}
    assert say(check_extra(cell(tmp_path / "b", failed))) == said
    assert not list(check_extra(small_cell(tmp_path / "c", GOOD | more, benchmark=None)))


def test_a_verdict_says_that_the_test_is_passed(tmp_path: Path) -> None:
    said = "no line TEST PASS; wanted TEST PASS; to mend: repeat TEST04, or the run it is compared with"
    for number, (text, line) in enumerate(((PASSED, None), (FAILED, ":2"), ("one\n", ""), (" TEST PASS \n", None))):
        found = say(check_verdicts(cell(tmp_path / str(number), GOOD | {f"TEST04/{PERFORMANCE}": text})))
        assert found == ([f"./TEST04/{PERFORMANCE}{line}: {said}"] if line is not None else []), text
    without = {path: text for path, text in GOOD.items() if "verify" not in path}
    assert not list(check_verdicts(cell(tmp_path / "none", without)))


def test_each_text_of_a_verdict_is_looked_for_in_its_own_file(tmp_path: Path) -> None:
    """A test that may fail its accuracy verdict may not fail another."""
    both = TestRules(
        "TEST01",
        (),
        (ACCURACY,),
        (
            Expected(ACCURACY, ("same", "alike"), False),
            Expected(PERFORMANCE, ("TEST PASS",), True),
            Expected(ACCURACY, ("TEST PASS",), True),
        ),
        False,
        {},
        CHANGE,  # type: ignore[arg-type]
    )
    plain = TestRules("TEST04", (), (), (Expected(ACCURACY, ("TEST PASS",), True),), False, {}, {})
    asked = rules(tests={"TEST01": both, "TEST04": plain}, asked=BARS)
    texts = {f"TEST01/{ACCURACY}": "TEST PASS\n", f"TEST01/{PERFORMANCE}": "none\n", f"TEST04/{ACCURACY}": "test x\n"}
    view = small_cell(tmp_path / "a", texts | {"TEST01/accuracy/x": ""}, benchmark=asked)
    assert say(check_verdicts(view)) == [
        f"./TEST01/{PERFORMANCE}: no line TEST PASS; wanted TEST PASS; to mend: repeat TEST01, or the run it is "
        "compared with",
        f"./TEST04/{ACCURACY}:1: no line TEST PASS; wanted TEST PASS; to mend: repeat TEST04, or the run it is "
        "compared with",
    ]
    names = ("accuracy.txt", "baseline_accuracy.txt", "compliance_accuracy.txt", "mlperf_log_accuracy.json")
    assert say(check_files(view)) == [f"./TEST01/accuracy/{name}: missing; wanted {name}" for name in names]
    passed = texts | {f"TEST01/{ACCURACY}": "alike\nTEST PASS\n", "TEST01/accuracy/x": ""}
    two = ("accuracy.txt", "mlperf_log_accuracy.json")
    found = say(check_files(small_cell(tmp_path / "b", passed, benchmark=asked)))
    assert found == [f"./TEST01/accuracy/{name}: missing; wanted {name}" for name in two]
    alone = small_cell(tmp_path / "c", {f"TEST04/{ACCURACY}": "TEST PASS\n"}, benchmark=asked)
    assert [*check_verdicts(alone), *check_files(alone), *check_extra(alone), *check_audit_present(alone)] == []


BESIDE = "beside ./TEST01/accuracy/baseline_accuracy.txt"
AFTER = "./TEST01/accuracy/compliance_accuracy.txt"
MEND = "to mend: repeat TEST01"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (("50", "50"), ("50", "50"), []),
        (("99", "50"), ("100", "50"), []),
        (("101", "50"), ("100", "50"), []),
        (("98.9", "50"), ("100", "50"), [f"acc 100, 1.10 % from 98.9; wanted within 1 %; {BESIDE}; {MEND}"]),
        (("101.1", "50"), ("100", "50"), [f"acc 100, 1.10 % from 101.1; wanted within 1 %; {BESIDE}; {MEND}"]),
        (("50", "95"), ("50", "100"), []),
        (("50", "94"), ("50", "100"), [f"ROUGE1 100, 6.00 % from 94; wanted within 5 %; {BESIDE}; {MEND}"]),
        (("0", "50"), ("50", "50"), [f"acc is not stated in both files; wanted a value above 0 in each; {BESIDE}"]),
        (("50", "50"), ("0", "1"), [f"acc is not stated in both files; wanted a value above 0 in each; {BESIDE}"]),
        (("50", "x"), ("50", "9"), [f"ROUGE1 is not stated in both files; wanted a value above 0 in each; {BESIDE}"]),
        (("50", "90"), ("40", "1"), [f"acc 40, 25.00 % from 50; wanted within 1 %; {BESIDE}; {MEND}"]),
    ],
)
def test_a_test_that_failed_may_have_the_score_of_the_accuracy_run(
    tmp_path: Path, before: tuple[str, str], after: tuple[str, str], said: list[str]
) -> None:
    reports = {
        path: f"accuracy={values[0]}%\n{{'rouge1': {values[1]}}}\n"
        for path, values in zip(REPORTS, (before, after), strict=True)
    }
    files = GOOD | reports | {f"TEST01/{ACCURACY}": FAILED}
    assert say(check_verdicts(cell(tmp_path / "a", files))) == [f"{AFTER}: {line}" for line in said]
    assert not list(check_verdicts(cell(tmp_path / "b", files | {f"TEST01/{ACCURACY}": PASSED})))
    for number, path in enumerate(REPORTS):
        fewer = {name: text for name, text in files.items() if name != path}
        assert not list(check_verdicts(cell(tmp_path / f"fewer{number}", fewer)))


def test_the_settings_of_an_audit_took_part_in_its_run(tmp_path: Path) -> None:
    audited = log(("effective_scenario", "Offline"), ("warning_generic", AUDIT_TEXT))
    files = GOOD | {f"TEST04/{RUN}/{DETAIL}": log(("a", 1)), f"TEST01/{RUN}/{DETAIL}": log(("a", 1))}
    plain = cell(tmp_path / "a", files)
    assert say(check_audit_present(plain)) == [
        f"./TEST04/{RUN}/{DETAIL}: LoadGen found no audit.config; wanted a run with the audit.config of TEST04; "
        "because: the log of another run, or an audit.config in another folder; "
        "to mend: repeat TEST04"
    ]
    assert [run.name for run in list_compliance_runs(plain)] == ["TEST04"]
    assert not list(check_audit_present(cell(tmp_path / "b", files | {f"TEST04/{RUN}/{DETAIL}": audited})))
    unread = cell(tmp_path / "c", files | {f"TEST04/{RUN}/{DETAIL}": "no log"})
    assert not list(list_compliance_runs(unread))


def test_rules_of_compliance_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in COMPLIANCE_RULES] == [
        ("compliance.missing", check_missing),
        ("compliance.files", check_files),
        ("compliance.extra", check_extra),
        ("compliance.verdict", check_verdicts),
        ("compliance.audit", check_audit_present),
    ]
