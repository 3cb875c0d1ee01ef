"""File names of LoadGen's logs, of the endpoints harness's results, of their companions, and of compliance test texts.
A run's folder, a record's artifacts and the submission tree use the same names.

An accuracy log is submitted truncated, with its hash (submission rules: truncation and hash).
"""

from __future__ import annotations

import hashlib
import re

from reconciler.resource.ruled_values import AccuracyLogRule

BUILT_IN_CONF = "mlperf.conf"  # a copy of LoadGen's own configuration, which rounds up to v4.1 want
SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
ACCURACY_LOG, ACCURACY_TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
TRACE = "mlperf_log_trace.json"  # empty but where LoadGen was asked to trace
TRUNCATED = "mlperf_log_accuracy.truncated.json"  # of a record: the accuracy log as the tree shows it
VERIFY_ACCURACY, VERIFY_PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
# Reports of the benchmark's scorer: over the accuracy run's answers to the samples that a test logged, and over the
# test's own answers.
BASELINE, COMPLIANCE = "baseline_accuracy.txt", "compliance_accuracy.txt"
# The endpoints harness's files; its own folder has the latter two below performance/ and accuracy/.
CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS = "config.yaml", "result_summary.json", "accuracy_results.json"
SEPARATOR = b"\n\n...\n\n"  # between the two ends of a truncated log
# The script writes it in text mode: on Windows each line of it ends in CRLF.
_SEPARATOR, _BEFORE = re.compile(rb"\r?\n\r?\n\.\.\.\r?\n\r?\n"), 3  # bytes of it before the last line end and its dots
# LoadGen writes a comma before each entry but the first, and none behind the last: who cut a log by hand left it there.
_CUT, _END = re.compile(rb",\s*+\]\s*+\Z"), 16  # bytes
_TOLD = 64  # bytes that distinguish one place of a log from others


def log_hash(log: bytes) -> str:
    """Return the hash required in accuracy.txt: SHA-256 of the untruncated log, in hexadecimal."""
    return hashlib.sha256(log).hexdigest()


def is_truncated(log: bytes) -> bool:
    return _find_separator(log) is not None or _is_cut_by_hand(log)


def _is_cut_by_hand(log: bytes) -> bool:
    return _CUT.search(log, max(0, len(log) - _END)) is not None


def _find_separator(log: bytes) -> re.Match[bytes] | None:
    # Looking for plain bytes first takes a hundredth of the time; for one that answers do not have, a tenth of that.
    at = log.find(b"\n...") if b"." in log else -1
    return _SEPARATOR.search(log, max(0, at - _BEFORE)) if at >= 0 else None


def split_answers(log: bytes) -> tuple[list[bytes], bool]:
    """Split an accuracy log into lines, and return whether it is complete. For a truncated log, return the lines at
    both ends without the entry that was cut. If the ends of a short log overlap, shared entries count once."""
    found = _find_separator(log)
    if found is None:
        return log.splitlines(), not _is_cut_by_hand(log)
    head, tail = log[: found.start()], log[found.end() :]
    at = head.find(tail[:_TOLD]) if tail else -1
    if at >= 0 and tail.startswith(head[at:]):
        return (head[:at] + tail).splitlines(), False
    return [*head.splitlines()[:-1], *tail.splitlines()], False


def truncate_text(head: bytes, tail: bytes, size: int, rule: AccuracyLogRule) -> bytes:
    """mlperf_log_accuracy.json as submitted: whole when small, else its first and last bytes around a separator.

    From the two ends alone, as a log may be too large to hold: ``rule.keep`` bytes each, of ``size`` in all. Of a log
    below ``rule.whole_below`` bytes ``head`` must be all.
    """
    if size < rule.whole_below:
        return head
    return head + SEPARATOR + tail
