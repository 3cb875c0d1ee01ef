"""TEST07: accuracy in performance mode, for performance runs with a separate dataset."""

from __future__ import annotations

import re
from decimal import Decimal

from reconciler.loadgen.log_files import COMPLIANCE, VERIFY_ACCURACY
from reconciler.resource.kinds import AUDIT
from reconciler.resource.quantities import parse_decimal
from reconciler.rules.compliance.definition import FAIL, PASS, AuditVerdict, ComplianceTest, VerdictInputs

_SCORE = r"'exact_match':\s*([\d.]+)"


def judge_test07(report: str, threshold: Decimal) -> AuditVerdict:
    """Judge the test. ``report``: the scorer's output for the audit run's answers; its first score counts."""
    match = re.search(_SCORE, report)
    score = parse_decimal(match[1]) if match else None
    reasons: tuple[str, ...] = ()
    if score is None:
        reasons = (f"the scorer's report holds no score of the form {_SCORE}",)
    elif score < threshold:
        reasons = (f"the accuracy {score} is below the threshold {threshold}",)
    found = "none" if score is None else str(score)
    lines = ["TEST07: accuracy of the audit run", f"accuracy: {found}", f"threshold: {threshold}"]
    lines += [f"{FAIL}: {reason}" for reason in reasons] or [PASS]
    # The report may contain any text, including the marker of a pass.
    text = report.replace(PASS, "TEST-PASS").rstrip("\n")
    summary = "".join(f"{line}\n" for line in lines)
    figures = {"accuracy": found, "threshold": str(threshold)}
    return AuditVerdict(reasons, figures, files={VERIFY_ACCURACY: f"{text}\n\n{summary}" if text else summary})


def _judge(inputs: VerdictInputs) -> AuditVerdict:
    return judge_test07(inputs.reports.get(COMPLIANCE, ""), Decimal(inputs.limits["least_accuracy"]))


TEST07 = ComplianceTest(judge=_judge, reads_answers=(AUDIT,), scored=True)
