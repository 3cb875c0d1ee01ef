"""A command's output, bounded: its start, its end, and how much is missing between."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from harness.child.output import BoundedOutput, RotatedOutput
from harness.contract import copy_log


def written(tmp_path: Path, chunks: list[bytes], secrets: Collection[str] = ()) -> tuple[str, BoundedOutput]:
    log = tmp_path / "log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    output = BoundedOutput(descriptor, tmp_path / "last", head=10, tail=10, secrets=secrets)
    for chunk in chunks:
        output.take(chunk)
    output.close()
    os.close(descriptor)
    return log.read_text(encoding="utf-8"), output


def test_of_a_long_one_start_and_end_are_kept(tmp_path: Path) -> None:
    chunks = [f"line {number:04}\n".encode() for number in range(1000)]
    text, output = written(tmp_path, chunks)
    assert text == "line 0000\n\n[9980 bytes left out]\nline 0999\n"
    assert output.captured == b"".join(chunks)


def test_a_servers_output_can_be_read_while_it_goes_on_and_is_bounded(tmp_path: Path) -> None:
    log, copied = tmp_path / "log", tmp_path / "copied"
    output = RotatedOutput(log, tmp_path / "last", head=20, tail=40)
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
    assert output.read_last_lines(1) == "line 0999"


SECRET = "sk-0123456789"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_secrets_are_hidden_however_they_come(size: int, tmp_path: Path) -> None:
    data = f"key {SECRET}, again sk-012 and {SECRET}{SECRET} end sk-01".encode()
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    text, output = written(tmp_path, chunks, secrets=[SECRET])
    hidden = "key [secret], again sk-012 and [secret][secret] end sk-01"
    assert hidden.startswith(text[:10])
    assert SECRET not in text + output.read_last_lines() + output.captured.decode()
    assert output.read_last_lines() == output.captured.decode() == hidden


def test_servers_output_hides_its_secrets_in_both_its_parts(tmp_path: Path) -> None:
    output = RotatedOutput(tmp_path / "log", tmp_path / "last", head=30, tail=400, secrets=[SECRET])
    for _ in range(10):
        output.take(f"Authorization: {SECRET}\n".encode())
    output.close()
    copy_log(tmp_path / "log", tmp_path / "copied")
    assert (tmp_path / "copied").read_text(encoding="utf-8") == "Authorization: [secret]\n" * 10
