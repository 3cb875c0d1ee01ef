"""A command's output, bounded: its start, its end, and how much is missing between."""

from __future__ import annotations

import os
from pathlib import Path

from harness.contract import copy_log
from harness.output import BoundedOutput, StandingOutput


def written(tmp_path: Path, chunks: list[bytes]) -> tuple[str, BoundedOutput]:
    log = tmp_path / "log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    output = BoundedOutput(descriptor, tmp_path / "last", head=10, tail=10)
    for chunk in chunks:
        output.take(chunk)
    output.close()
    os.close(descriptor)
    return log.read_text(encoding="utf-8"), output


def test_a_short_output_is_kept_whole(tmp_path: Path) -> None:
    text, output = written(tmp_path, [b"one\n", b"two\nthree\n"])
    assert text == "one\ntwo\nthree\n"
    assert output.last_lines(2) == "two\nthree"
    assert (tmp_path / "last").read_text(encoding="utf-8") == "one"  # the next one only half a second later


def test_of_a_long_one_start_and_end_are_kept(tmp_path: Path) -> None:
    chunks = [f"line {number:04}\n".encode() for number in range(1000)]
    text, output = written(tmp_path, chunks)
    assert text == "line 0000\n\n[9980 bytes left out]\nline 0999\n"
    assert output.captured == b"".join(chunks)


def test_a_servers_output_can_be_read_while_it_goes_on_and_is_bounded(tmp_path: Path) -> None:
    log, copied = tmp_path / "log", tmp_path / "copied"
    output = StandingOutput(log, tmp_path / "last", head=20, tail=40)
    copy_log(log, copied)
    assert not copied.exists()
    for number in range(1000):
        output.take(f"line {number:04}\n".encode())
        copy_log(log, copied)
        text = copied.read_text(encoding="utf-8")
        assert text.endswith(f"line {number:04}\n")
        assert text.startswith("line 0000\n")
        assert len(text) <= 20 + 40
    output.close()
    assert output.last_lines(1) == "line 0999"
