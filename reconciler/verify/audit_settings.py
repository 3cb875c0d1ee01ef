"""Audit settings in a compliance test's log, against the audit.config that the round publishes."""

from __future__ import annotations

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.resource.quantities import is_whole
from reconciler.resource.rules import Severity, rule
from reconciler.rules.compliance.judging import find_test
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.values import find_at, read_value, show_value
from reconciler.tree.reading.view import CellView
from reconciler.verify.premises import ROUND_IS_KNOWN

# Settings that decide which answers a test logs, and what it issues. Its duration is its rules' business.
_JUDGED = (
    *(keys.SAMPLING_TARGET, "accuracy_log_rng_seed"),
    *(keys.ISSUE_UNIQUE, keys.ISSUE_SAME, keys.ISSUE_SAME_INDEX),
    *(keys.QSL_RNG_SEED, keys.SAMPLE_INDEX_RNG_SEED, keys.SCHEDULE_RNG_SEED),
)


def shows_marks(log: DetailLog, test: str) -> bool | None:
    """True where the log has a setting that only runs of this test have; None where there is no such setting."""
    marks = find_test(test).marks
    return any(read_value(log, f"effective_{mark}") for mark in marks) if marks else None


@rule(
    "compliance.settings",
    "another audit.config than the round's",
    sources=("compliance scripts", OURS),
    cause="not-a-test",
    severity=Severity.WARNING,
    premises=(ROUND_IS_KNOWN,),
)
def verify_test_settings(view: CellView) -> Complaints:
    """A test's log states which answers it logged and what it issued, and the round publishes the ``audit.config`` that
    decides it. Compared with it are the closed division's logs that have a mark of their test: all 1,490 of v4.1 and
    v5.1 have the round's numbers. One of another round may be left behind, so that it is a warning.
    """
    for test, run in view.test_views.items() if view.division == "closed" else ():
        own = run.log.audit is not None and shows_marks(run.log, test) is not False
        settings = view.audit_settings(test) if own else {}
        for name in _JUDGED:
            key = f"effective_{name}"
            logged, wanted = read_value(run.log, key), settings.get(name)
            if wanted is None or not (is_whole(logged) or isinstance(logged, bool)) or logged == wanted:
                continue
            yield Complaint(
                find_at(run.log, key),
                f"{name} {show_value(logged)}",
                f"{show_value(wanted)}, as the audit.config of {test} in {view.ruleset.round}",
                cause="an audit.config that was changed, or that of another round or benchmark",
                fix=f"repeat {test} with the audit.config of the round",
            )
            break


TEST_SETTINGS_RULES = (verify_test_settings,)
