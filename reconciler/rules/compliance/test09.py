"""TEST09: in performance mode, outputs are as long on average as the reference model's."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from reconciler.errors import LogError
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import AuditVerdict, ComplianceTest, Part, VerdictInputs, make_verdict
from reconciler.rules.compliance.entries import Entry

OUTPUT_LENGTH = "verify_output_len.txt"
_TOKEN = 4  # bytes; an incomplete token at the end is not counted


def judge_test09(audit: Iterable[Entry], least: Decimal, most: Decimal) -> AuditVerdict:
    """Check that the mean number of tokens of all logged answers, including empty ones, is within both bounds."""
    try:
        lengths = [len(entry.data) // _TOKEN for entry in audit]
    except LogError as error:
        part = Part((f"the answers cannot be read: {error}",))
    else:
        part = _check_mean_length(lengths, least, most)
    return make_verdict(part, "TEST09: mean output length of the audit run", OUTPUT_LENGTH)


def _check_mean_length(lengths: list[int], least: Decimal, most: Decimal) -> Part:
    if not lengths:
        return Part(("the audit run logged no answers",))
    mean = sum(lengths) / len(lengths)
    figures = {
        "answers": str(len(lengths)),
        "mean tokens": f"{mean:.2f}",
        "shortest and longest": f"{min(lengths)} and {max(lengths)}",
        "bounds": f"{least} to {most}",
    }
    inside = float(least) <= mean <= float(most)
    return Part(() if inside else (f"the mean output of {mean:.2f} tokens is not within {least} to {most}",), figures)


def _judge(inputs: VerdictInputs) -> AuditVerdict:
    least, most = Decimal(inputs.limits["least_mean_tokens"]), Decimal(inputs.limits["most_mean_tokens"])
    return judge_test09(inputs.audit.read_entries(AUDIT), least, most)


TEST09 = ComplianceTest(judge=_judge, reads_answers=(AUDIT,))
