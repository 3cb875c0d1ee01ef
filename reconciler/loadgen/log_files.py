"""File names of LoadGen's logs, of the endpoints harness's results, of their companions, and of compliance test texts.
A run's folder, a record's artifacts and the submission tree use the same names.

An accuracy log is submitted truncated, with its hash (submission rules: truncation and hash).
"""

from __future__ import annotations

import hashlib
import re

from reconciler.resource.ruled_values import AccuracyLogRule

BUILT_IN_CONF = "mlperf.conf"  # a copy of LoadGen's own configuration, which rounds up to v4.1 require
SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
ACCURACY_LOG, ACCURACY_TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
TRACE = "mlperf_log_trace.json"  # empty unless LoadGen was asked to trace
TRUNCATED = "mlperf_log_accuracy.truncated.json"  # in a record: the accuracy log as shown in the tree
VERIFY_ACCURACY, VERIFY_PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
# Reports of the benchmark's scorer: one on the accuracy run's answers to the samples that a test logged, one on the
# test's own answers.
BASELINE, COMPLIANCE = "baseline_accuracy.txt", "compliance_accuracy.txt"
# The endpoints harness's files. In its own folder, the last two are below performance/ and accuracy/.
CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS = "config.yaml", "result_summary.json", "accuracy_results.json"
SEPARATOR = b"\n\n...\n\n"  # between the two ends of a truncated log
# The script writes in text mode, so on Windows each of its lines ends in CRLF.
_SEPARATOR, _BEFORE = re.compile(rb"\r?\n\r?\n\.\.\.\r?\n\r?\n"), 3  # bytes of it before the last line end and its dots
# LoadGen writes a comma before each entry but the first, and none after the last. A log cut by hand ends in a comma.
_CUT, _END = re.compile(rb",\s*+\]\s*+\Z"), 16  # bytes at the end of a log to search
_MARK_SIZE = 64  # bytes that distinguish one position in a log from others


def hash_log(log: bytes) -> str:
    """Return the hash required in accuracy.txt: SHA-256 of the untruncated log, in hexadecimal."""
    return hashlib.sha256(log).hexdigest()


def is_truncated(log: bytes) -> bool:
    return _find_separator(log) is not None or _is_cut_by_hand(log)


def _is_cut_by_hand(log: bytes) -> bool:
    return _CUT.search(log, max(0, len(log) - _END)) is not None


def _find_separator(log: bytes) -> re.Match[bytes] | None:
    # Searching for plain bytes first takes a hundredth of the time, and for a dot, which answers do not contain, a
    # tenth of that.
    at = log.find(b"\n...") if b"." in log else -1
    return _SEPARATOR.search(log, max(0, at - _BEFORE)) if at >= 0 else None


def split_answers(log: bytes) -> tuple[list[bytes], bool]:
    """Split an accuracy log into lines, and return whether it is complete. For a truncated log, return the lines at
    both ends without the entry that was cut. If the ends of a short log overlap, count shared entries once."""
    found = _find_separator(log)
    if found is None:
        return log.splitlines(), not _is_cut_by_hand(log)
    head, tail = log[: found.start()], log[found.end() :]
    at = head.find(tail[:_MARK_SIZE]) if tail else -1
    if at >= 0 and tail.startswith(head[at:]):
        return (head[:at] + tail).splitlines(), False
    return [*head.splitlines()[:-1], *tail.splitlines()], False


def truncate_text(head: bytes, tail: bytes, size: int, rule: AccuracyLogRule) -> bytes:
    """Return mlperf_log_accuracy.json as submitted: complete if small, else its first and last bytes around a
    separator.

    Only the two ends are passed, since a log may exceed memory: ``rule.keep`` bytes each, of ``size`` in total. For a
    log below ``rule.whole_below`` bytes, ``head`` must be the complete log.
    """
    if size < rule.whole_below:
        return head
    return head + SEPARATOR + tail
