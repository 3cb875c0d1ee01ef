"""The files that a benchmark is made from, as its files.yaml says."""

from __future__ import annotations

import pytest

from reconciler.rules.benchmark_files import (
    FileDigest,
    SourceFile,
    find_benchmark_files,
    load_benchmark_files,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("7 B", 7),
        ("1 KiB", 1024),
        ("98 MiB", 102_760_448),
        ("6.3 GiB", 6_764_573_491),
        ("1.5 TiB", 1_649_267_441_664),
    ],
)
def test_a_size_is_a_number_of_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["98", "98MiB", "98 MB", "many MiB", "1 2 MiB", ""])
def test_a_size_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse_size(text)


def test_a_digest_accepts_the_versions_that_are_as_good() -> None:
    digest = FileDigest("md5", "a1", "somebody", ("b2", "c3"))
    assert [digest.accepts(value) for value in ("a1", "b2", "c3", "d4", "")] == [True, True, True, False, False]
    assert not FileDigest("md5", "a1").accepts("b2")


def make(**changes: object) -> SourceFile:
    given: dict[str, object] = {"path": "models/x/y.onnx", "about": "y", "licence": "MIT", "size": 1, **changes}
    return SourceFile(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "packed", "archive"),
    [
        ({}, False, ""),
        ({"sources": ("https://host/a/b.tar.gz?x=1",)}, False, ""),
        ({"sources": ("https://host/a/b.tar.gz?x=1", "https://other/c.zip"), "member": "y"}, True, "b.tar.gz"),
        ({"sources": ("https://host/a/b.tar.gz#y",), "unpack": ""}, True, "b.tar.gz"),
    ],
    ids=["nowhere", "as it is", "a member", "the whole"],
)
def test_a_file_may_come_out_of_an_archive(changes: dict[str, object], packed: bool, archive: str) -> None:
    assert (make(**changes).is_archive, make(**changes).archive) == (packed, archive)


def test_a_benchmark_is_found_by_any_name_the_first_that_is_known() -> None:
    found = load_benchmark_files()
    assert list(found) == sorted(found)
    assert all(item.name == name == item.names[0] for name, item in found.items())
    for item in found.values():
        assert all(find_benchmark_files(name) == item for name in (*item.names, item.folder))
    assert find_benchmark_files("nobody", "resnet", "bert-99") is found["resnet50"]
    assert find_benchmark_files("nobody") is None
    assert find_benchmark_files() is None
