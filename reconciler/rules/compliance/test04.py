"""TEST04: answers are not cached, so repeating one sample is not faster than using different ones."""

from __future__ import annotations

from reconciler.loadgen import keys
from reconciler.loadgen.log_files import VERIFY_PERFORMANCE
from reconciler.loadgen.summary import SummaryLog
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import AuditVerdict, ComplianceTest, Part, VerdictInputs, make_verdict
from reconciler.rules.compliance.scores import (
    Scored,
    Slack,
    describe_distance,
    find_unfit,
    measure_distance,
    read_from_summary,
    show_score,
)


def judge_test04(reference: SummaryLog, audit: SummaryLog, slack: Slack) -> AuditVerdict:
    part = compare_speed(read_from_summary(reference), read_from_summary(audit), slack)
    return make_verdict(part, "TEST04: the audit run's speed against the performance run's", VERIFY_PERFORMANCE)


def compare_speed(before: Scored, after: Scored, slack: Slack) -> Part:
    """Compare speeds: faster by the slack or more fails, slower never does. Latencies are compared as queries per
    second; the wider slack applies below 200,000 in SingleStream and 1,600,000 in MultiStream, which is nearly
    always."""
    reasons = find_unfit(before, after)
    reference, test = _convert_to_rate(before), _convert_to_rate(after)
    figures, by_speed = {"performance run": show_score(reference), "audit run": show_score(test)}, False
    if reference is not None and test is not None:
        allowed = slack.find_allowed(before.scenario, reference)
        figures |= {"difference": measure_distance(reference, test), "allowed": f"less than +{allowed:.0%}"}
        if not reasons and not test < reference * (1 + allowed):
            off, by_speed = describe_distance(reference, test), True
            reasons.append(f"the score {show_score(test)} is {off}; less than {allowed * 100:g} % above is allowed")
    return Part(tuple(reasons), figures, by_speed)


def _convert_to_rate(run: Scored) -> float | None:
    if run.score is None or run.scenario not in ("SingleStream", "MultiStream"):
        return run.score
    return 1e9 / run.score if run.score else None


def _judge(inputs: VerdictInputs) -> AuditVerdict:
    reference, audit = inputs.performance.read_summary_log("performance"), inputs.audit.read_summary_log(AUDIT)
    return judge_test04(reference, audit, inputs.find_slack("most_score_gain"))


TEST04 = ComplianceTest(judge=_judge, shows_answers=False, marks=(keys.ISSUE_SAME,))
