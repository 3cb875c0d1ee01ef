"""A dataset's folder is looked at as a whole: each problem with its files and the fix, before anything is prepared."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from harness.benchmarks.sources import FileRule, check_files
from harness.benchmarks.speech import find_pattern
from harness.errors import HarnessError

DATA = {"a.bin": b"HEAD" + b"a" * 100 + b"TAIL", "deep/b.bin": b"HEAD" + b"b" * 100 + b"TAIL"}


def write_folder(folder: Path) -> list[FileRule]:
    for name, data in DATA.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(data)
    return [FileRule(name, "sample", b"HEAD", b"TAIL", len(data)) for name, data in DATA.items()]


def find_problem(folder: Path, rules: list[FileRule], only: str = "") -> str:
    with pytest.raises(HarnessError) as caught:
        check_files(folder, rules, fix="unpack it again", only=only)
    assert caught.value.fix.startswith("unpack it again")
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "1 is missing: deep/b.bin"),
        (b"", "1 is empty: deep/b.bin"),
        (b"HEAD", "1 is truncated: deep/b.bin"),
        (b"HEADbbbTAIL", "1 is truncated: deep/b.bin"),
        (b"<html>", "1 is no sample: deep/b.bin"),
        (DATA["deep/b.bin"] + b"TAIL", "1 is too long: deep/b.bin"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes | None, problem: str) -> None:
    rules = write_folder(tmp_path)
    path = tmp_path / "deep/b.bin"
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    assert f"of 2 files {problem}" in find_problem(tmp_path, rules)


@pytest.mark.parametrize(
    "name",
    [
        "deep/b (1).bin",
        "deep/b(2).bin",
        "deep/b (copy).bin",
        "deep/b - Copy.bin",
        "deep/b.bin.1",
        "a.bin.aria2",
        "a.bin.crdownload",
        "a.bin.part",
    ],
)
def test_second_copies_and_unfinished_downloads_are_named_without_a_pattern(tmp_path: Path, name: str) -> None:
    rules = write_folder(tmp_path)
    (tmp_path / name).write_bytes(b"again")
    with pytest.raises(HarnessError, match=rf"of 2 files 1 belongs to nothing: {re.escape(name)}") as caught:
        check_files(tmp_path, rules, fix="fetch it again")
    assert caught.value.fix == "fetch it again; remove unneeded files"


def test_files_of_other_uses_are_left_alone_without_a_pattern(tmp_path: Path) -> None:
    rules = write_folder(tmp_path)
    for name in ("c.bin", "c (1).bin", "a.bin.md5", "a.bin.1.gz", "deep/a.bin.part", "b (1).bin", "a_1.bin"):
        (tmp_path / name).write_bytes(b"other")
    check_files(tmp_path, rules, fix="")


@pytest.mark.parametrize(
    ("files", "pattern"),
    [
        (["all/1.wav", "all/2.wav"], "all/*.wav"),
        (["all[1]/1.wav"], "all[[]1]/*.wav"),
        (["1.wav", "2.wav"], "./*.wav"),
        (["1/2/3.flac", "1/4/5.flac"], "*/*/*.flac"),
        (["1/2/3.flac", "1/5.flac"], ""),
        (["1/2.flac", "1/5.wav"], ""),
    ],
)
def test_the_pattern_of_a_set_takes_all_of_its_files(files: list[str], pattern: str) -> None:
    assert find_pattern(files) == pattern


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_listed_digest_must_be_that_of_the_file(tmp_path: Path, algorithm: str) -> None:
    write_folder(tmp_path)
    right = hashlib.new(algorithm, DATA["a.bin"]).hexdigest()
    check_files(tmp_path, [FileRule("a.bin", digest=f"{algorithm}:{right}")], fix="")
    wrong = [FileRule("a.bin", digest=f"{algorithm}:{'0' * len(right)}")]
    assert "1 has the wrong digest: a.bin" in find_problem(tmp_path, wrong)


def test_digests_next_to_the_data_are_read(tmp_path: Path) -> None:
    rules = write_folder(tmp_path)
    lines = [f"{hashlib.sha256(data).hexdigest()}  ./{name}\n" for name, data in DATA.items()]
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    check_files(tmp_path, rules, fix="")
    data = DATA["a.bin"]
    (tmp_path / "a.bin").write_bytes(data.replace(b"aa", b"ax", 1))
    assert "1 has the wrong digest: a.bin" in find_problem(tmp_path, rules)


def test_a_list_of_digests_that_is_none_is_reported_with_its_line(tmp_path: Path) -> None:
    rules = write_folder(tmp_path)
    (tmp_path / "md5sums.txt").write_text("\n<html>\n")
    with pytest.raises(HarnessError, match=r"md5sums\.txt:2 is not a digest"):
        check_files(tmp_path, rules, fix="")
