"""The table ``TESTS`` of all compliance tests by name, and functions to collect a verdict's inputs and judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import AuditVerdict, ComplianceTest, Part, RunLogs, VerdictInputs
from reconciler.rules.compliance.legacy_tests import SAME, TEST04_AB, TEST05, UNIQUE
from reconciler.rules.compliance.test01 import TEST01
from reconciler.rules.compliance.test04 import TEST04
from reconciler.rules.compliance.test06 import TEST06
from reconciler.rules.compliance.test07 import TEST07
from reconciler.rules.compliance.test08 import TEST08
from reconciler.rules.compliance.test09 import TEST09

__all__ = ["SAME", "TESTS", "UNIQUE", "choose_dtype", "collect_verdict_inputs", "find_test", "judge"]

TESTS: Mapping[str, ComplianceTest] = {
    "TEST01": TEST01,
    "TEST04": TEST04,
    UNIQUE: TEST04_AB,
    "TEST05": TEST05,
    "TEST06": TEST06,
    "TEST07": TEST07,
    "TEST08": TEST08,
    "TEST09": TEST09,
}


def _refuse_unknown(_: VerdictInputs) -> AuditVerdict:
    raise KeyError("a test that is not known here has no verdict")


_UNKNOWN = ComplianceTest(judge=_refuse_unknown, shows_run=False, shows_answers=False)


def find_test(name: str) -> ComplianceTest:
    """Find a test by name; for an unknown name, return a test that reads, shows and judges nothing."""
    return TESTS.get(name, _UNKNOWN)


def judge(test: str, inputs: VerdictInputs) -> AuditVerdict:
    """Return a test's verdict. Raises MissingLogError if a required log is not available, LogError if one is
    damaged."""
    return find_test(test).judge(inputs)


def choose_dtype(test: str, declared: str, response: str) -> str:
    """Choose the type for reading a test's answers: the declared one, else the run's own answer type if the test's
    script supports it, else "" for the script's default."""
    return declared or (response if response in find_test(test).dtypes else "")


def collect_verdict_inputs(
    inputs: Mapping[str, Any],
    runs: Mapping[str, RunLogs],
    scenario: str,
    metrics: Iterable[str],
    response: str = "",
    known: Mapping[str, Any] | None = None,
) -> VerdictInputs:
    """Collect a verdict's inputs and its runs by name. ``response``: the answer type of the audit run; ``known``:
    reasons and figures of an earlier comparison of answers."""
    nothing = RunLogs()
    return VerdictInputs(
        audit=runs.get(AUDIT, nothing),
        performance=runs.get("performance", nothing),
        accuracy=runs.get("accuracy", nothing),
        scenario=scenario,
        dtype=choose_dtype(str(inputs["test"]), str(inputs.get("dtype", "")), response),
        eos_token_id=int(inputs.get("eos_token_id", 2)),
        limits={name.removeprefix("limit."): str(v) for name, v in inputs.items() if name.startswith("limit.")},
        metrics=tuple(metrics),
        known_answers=Part(tuple(known["reasons"]), known["figures"]) if known else None,
    )
