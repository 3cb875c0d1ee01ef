"""Round v6.1 drafted from the official sources over v6.0, next to the file that people wrote: what differs is what the
draft leaves to people. ``INFERENCE_CHECKOUT`` names a checkout of mlcommons/inference of that round."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.rules.checker_tables import read_checkers
from reconciler.rules.comparison import diff_rounds
from reconciler.rules.drafting import draft_round, load_draft, render_draft
from reconciler.rules.rounds import load_ruleset

pytestmark = pytest.mark.slow

# Place → why the draft has another value.
LEFT_TO_PEOPLE = {
    "divisions": "code",
    "endpoints": "code: single, required, units and metrics of benchmarks",
    "power_fields": "code: the power of the supplies, which is in a file of its own",
    "tests.TEST07.settings.performance_issue_unique": "audit.config",
    "gpt-oss-120b / tests.TEST09.settings.performance_issue_unique": "audit.config",
    "e2e-rag-qna / tests.TEST09.settings.min_query_count": "audit.config",
    "e2e-rag-qna / tests.TEST09.limits.least_mean_tokens": "audit.config",
    "e2e-rag-qna / tests.TEST09.limits.most_mean_tokens": "audit.config",
    "e2e-rag-qna / min_duration": "code: it exempts the benchmark",
    "e2e-rag-qna / least_min_duration": "code",
    "e2e-rag-db / min_duration": "code",
    "e2e-rag-db / least_min_duration": "code",
    "qwen3-vl-235b-a22b / Interactive / target_latency": "a run has to state the limit: LoadGen has no key for it",
    "qwen3-vl-235b-a22b / Interactive / accuracy.F1_HIERARCHICAL.least": "policy: decided against it",
    "qwen3.6-27b / accuracy.mAP.least": "policy: decided for it",
    "wan-2.2-t2v-a14b / least_performance_sample_count": "policy: decided against it",
}


def test_the_draft_of_a_known_round_differs_only_where_people_decide() -> None:
    if not (named := os.environ.get("INFERENCE_CHECKOUT")):
        pytest.skip("INFERENCE_CHECKOUT names no checkout of mlcommons/inference")
    conf = parse_user_conf((Path(named) / "loadgen/mlperf.conf").read_bytes(), "mlperf.conf")
    draft = draft_round("v6.1", load_ruleset("v6.0"), read_checkers(Path(named)), conf)
    diff = diff_rounds(load_ruleset("v6.1"), load_draft("v6.1", render_draft(draft)))
    assert (diff.added, diff.removed) == ((), ())
    assert {str(change.place) for change in diff.changes} == set(LEFT_TO_PEOPLE)
