"""An accuracy log as submitted, from all of it; the project itself reads the two ends alone."""

from __future__ import annotations

from reconciler.loadgen.log_files import truncate_text
from reconciler.resource.ruled_values import AccuracyLogRule


def truncate_log(log: bytes, rule: AccuracyLogRule) -> bytes:
    head = log if len(log) < rule.whole_below else log[: rule.keep]
    return truncate_text(head, log[max(0, len(log) - rule.keep) :], len(log), rule)
