"""The ends of an accuracy log that was truncated for submission."""

from __future__ import annotations

import pytest

from reconciler.mlperf.log_files import is_truncated, split_answers


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lines of the script", "lines of Windows"])
def test_a_truncated_log_has_the_whole_lines_of_both_ends(end: bytes) -> None:
    log = end.join([b"[", b"first,", b"second,", b"cut he", b"", b"...", b"", b"last but one,", b"last]"])
    assert is_truncated(log)
    assert split_answers(log) == ([b"[", b"first,", b"second,", b"last but one,", b"last]"], False)


def test_a_whole_log_has_all_of_its_lines() -> None:
    log = b"[\nfirst,\nlast ... ]"
    assert not is_truncated(log)
    assert split_answers(log) == ([b"[", b"first,", b"last ... ]"], True)


@pytest.mark.parametrize("dots", [b"...", b"\n...", b"\n...\n", b"\n...\n\n"])
def test_dots_before_the_cut_are_no_cut(dots: bytes) -> None:
    log = b"[\nfirst," + dots + b"second,\ncut he\n\n...\n\nlast]"
    assert is_truncated(log)
    assert split_answers(log) == ([*(b"[\nfirst," + dots + b"second,").splitlines(), b"last]"], False)
    assert not is_truncated(b"[\nfirst," + dots + b"second]")
