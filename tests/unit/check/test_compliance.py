"""The compliance tests of a result: which files are next to their logs, and scores in place of a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.compliance import check_audit_present, check_verdicts, list_compliance_runs
from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.resource.ruled_values import Bar, Expected, TestRules
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, say, small_cell

ACCURACY, PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
CHANGE = {"most_accuracy_change": SimpleNamespace(value="1"), "most_accuracy_change_ROUGE1": SimpleNamespace(value="5")}
PASSED, FAILED = "num_ne = 0\nTEST PASS\n", "one\ntest fail\n"
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


GOOD = {
    f"TEST01/{ACCURACY}": PASSED,
    "TEST01/accuracy/mlperf_log_accuracy.json": "x",
    "TEST01/accuracy/accuracy.txt": "x",
    f"TEST04/{PERFORMANCE}": PASSED,
    f"TEST04/{RUN}/{DETAIL}": "x",
}
REPORTS = {f"TEST01/accuracy/{name}_accuracy.txt": "x" for name in ("baseline", "compliance")}


def test_a_verdict_says_that_the_test_is_passed(tmp_path: Path) -> None:
    for number, (text, line) in enumerate(((PASSED, None), (FAILED, ":2"), ("one\n", ""), (" TEST PASS \n", None))):
        found = say(check_verdicts(cell(tmp_path / str(number), GOOD | {f"TEST04/{PERFORMANCE}": text})))
        assert found == ([f"./TEST04/{PERFORMANCE}{line}"] if line is not None else []), text
    without = {path: text for path, text in GOOD.items() if "verify" not in path}
    assert not list(check_verdicts(cell(tmp_path / "none", without)))


OTHER = "see ./TEST01/accuracy/baseline_accuracy.txt"
AFTER = "./TEST01/accuracy/compliance_accuracy.txt"


@pytest.mark.parametrize(
    ("before", "after", "denied"),
    [
        (("50", "50"), ("50", "50"), False),
        (("99", "50"), ("100", "50"), False),
        (("101", "50"), ("100", "50"), False),
        (("98.9", "50"), ("100", "50"), True),
        (("101.1", "50"), ("100", "50"), True),
        (("50", "95"), ("50", "100"), False),
        (("50", "94"), ("50", "100"), True),
        (("0", "50"), ("50", "50"), True),
        (("50", "50"), ("0", "1"), True),
        (("50", "x"), ("50", "9"), True),
        (("50", "90"), ("40", "1"), True),
    ],
)
def test_a_test_that_failed_may_have_the_score_of_the_accuracy_run(
    tmp_path: Path, before: tuple[str, str], after: tuple[str, str], denied: bool
) -> None:
    reports = {
        path: f"accuracy={values[0]}%\n{{'rouge1': {values[1]}}}\n"
        for path, values in zip(REPORTS, (before, after), strict=True)
    }
    files = GOOD | reports | {f"TEST01/{ACCURACY}": FAILED}
    assert say(check_verdicts(cell(tmp_path / "a", files))) == [f"{AFTER}; {OTHER}"] * denied
    assert not list(check_verdicts(cell(tmp_path / "b", files | {f"TEST01/{ACCURACY}": PASSED})))
    for number, path in enumerate(REPORTS):
        fewer = {name: text for name, text in files.items() if name != path}
        assert not list(check_verdicts(cell(tmp_path / f"fewer{number}", fewer)))


def test_the_settings_of_an_audit_took_part_in_its_run(tmp_path: Path) -> None:
    audited = log(("effective_scenario", "Offline"), ("warning_generic", AUDIT_TEXT))
    files = GOOD | {f"TEST04/{RUN}/{DETAIL}": log(("a", 1)), f"TEST01/{RUN}/{DETAIL}": log(("a", 1))}
    plain = cell(tmp_path / "a", files)
    assert say(check_audit_present(plain)) == [f"./TEST04/{RUN}/{DETAIL}"]
    assert [run.name for run in list_compliance_runs(plain)] == ["TEST04"]
    assert not list(check_audit_present(cell(tmp_path / "b", files | {f"TEST04/{RUN}/{DETAIL}": audited})))
    unread = cell(tmp_path / "c", files | {f"TEST04/{RUN}/{DETAIL}": "no log"})
    assert not list(list_compliance_runs(unread))
