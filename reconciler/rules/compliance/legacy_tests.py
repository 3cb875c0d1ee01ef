"""Tests of earlier rounds: TEST05 (other seeds), TEST04-A and TEST04-B (other samples, one sample). They are only
verified in existing trees, never run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from reconciler.loadgen import keys
from reconciler.loadgen.log_files import VERIFY_PERFORMANCE
from reconciler.loadgen.summary import SummaryLog
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import (
    AuditVerdict,
    ComplianceTest,
    MissingLogError,
    Part,
    VerdictInputs,
    make_verdict,
)
from reconciler.rules.compliance.scores import (
    EARLY_SUMMARY_KEYS,
    Slack,
    describe_distance,
    find_summary_keys,
    find_unfit,
    measure_distance,
    read_from_summary,
    show_score,
)

UNIQUE, SAME = "TEST04-A", "TEST04-B"  # TEST04 as two runs, as it was before the single test
_SPEED = "speed against the run it is compared with"
_BETTER = "most_score_gain"  # the round's limit, if a better score also fails
# Summaries of those rounds. For MultiStream, TEST04's script also compared a percentile.
_EARLY: Mapping[str, re.Pattern[str]] = {
    **EARLY_SUMMARY_KEYS,
    "MultiStream": re.compile(r"Samples per query|99(\.0)?th percentile latency"),
}


def verify_test05(
    reference: SummaryLog,
    audit: SummaryLog,
    *,
    both_ways: bool = False,
    keys: Mapping[str, re.Pattern[str]] | None = None,
) -> AuditVerdict:
    """TEST05: other seeds are as fast. A rate may fall by less than 5 %, a latency rise by less than 5 % (20 % if it is
    very short). A better score passes, except in rounds whose script limited the difference ``both_ways``. ``keys``:
    see ``find_summary_keys``."""
    before, after = read_from_summary(reference, keys), read_from_summary(audit, keys)
    reasons = find_unfit(before, after)
    figures = {"performance run": show_score(before.score), "audit run": show_score(after.score)}
    if before.score is not None and after.score is not None:
        allowed = Slack(usual=5).find_allowed(before.scenario, before.score)
        allowing = f"+-{allowed:.0%}" if both_ways else f"{allowed:.0%} worse"
        figures |= {"difference": measure_distance(before.score, after.score), "allowed": allowing}
        below, above = after.score < before.score * (1 + allowed), after.score > before.score * (1 - allowed)
        good = (below and above) if both_ways else below if before.lower_is_better else above
        if not reasons and not good:
            reasons.append(f"the score {show_score(after.score)} is {describe_distance(before.score, after.score)}")
    return make_verdict(Part(tuple(reasons), figures), f"TEST05: {_SPEED}", VERIFY_PERFORMANCE)


def verify_test04_ab(unique: SummaryLog, same: SummaryLog) -> AuditVerdict:
    """Compare TEST04-A with TEST04-B: repeating one sample (B) must not be 10 % faster than different samples (A), or
    20 % for a very short SingleStream latency; slower is fine."""
    before, after = read_from_summary(unique, _EARLY), read_from_summary(same, _EARLY)
    reasons = []
    if unique.get(keys.ISSUE_UNIQUE) == "0":
        reasons.append("TEST04-A did not issue different samples (performance_issue_unique is off)")
    if same.get(keys.ISSUE_SAME) == "0":
        reasons.append("TEST04-B did not issue the same sample (performance_issue_same is off)")
    if before.scenario != after.scenario:
        reasons.append(f"TEST04-A is {before.scenario or 'unknown'}, TEST04-B {after.scenario or 'unknown'}")
    reasons += [f"{n} holds no score" for n, r in (("TEST04-A", before), ("TEST04-B", after)) if r.score is None]
    figures = {"TEST04-A score": show_score(before.score), "TEST04-B score": show_score(after.score)}
    if not reasons and before.score is not None and after.score is not None:
        short = before.scenario == "SingleStream" and before.score <= 200_000
        allowed = 0.20 if short else 0.10
        # The script of that time treated the greater score as better in all scenarios but SingleStream, so it read
        # MultiStream's latency as a rate.
        faster = after.score <= before.score if before.scenario == "SingleStream" else after.score >= before.score
        if faster and not before.score * (1 - allowed) < after.score < before.score * (1 + allowed):
            reasons.append(f"TEST04-B is faster: {describe_distance(before.score, after.score)} of TEST04-A")
    return make_verdict(Part(tuple(reasons), figures), f"TEST04-A: {_SPEED}", VERIFY_PERFORMANCE)


def _judge_ab(inputs: VerdictInputs) -> AuditVerdict:
    """Treat the run with different samples as the performance run, and the run with one sample as the test's run."""
    return verify_test04_ab(inputs.performance.read_summary_log(UNIQUE), inputs.audit.read_summary_log(SAME))


def _judge_test05(inputs: VerdictInputs) -> AuditVerdict:
    performance, audit = inputs.performance.read_summary_log("performance"), inputs.audit.read_summary_log(AUDIT)
    keys = None
    with suppress(MissingLogError):  # the summary is sufficient except for one release
        keys = find_summary_keys(inputs.performance.read_detail_log("performance"))
    return verify_test05(performance, audit, both_ways=_BETTER in inputs.limits, keys=keys)


TEST04_AB = ComplianceTest(judge=_judge_ab, shows_run=False, shows_answers=False, own_files=(VERIFY_PERFORMANCE,))
TEST05 = ComplianceTest(judge=_judge_test05, shows_answers=False)
