"""The files that a benchmark is made from, as its files.yaml says."""

from __future__ import annotations

import pytest

from reconciler.rules.benchmark_files import (
    SCRATCH_DEFAULTS,
    SCRATCH_VARIABLE,
    BenchmarkFiles,
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


def test_a_file_belongs_to_its_places() -> None:
    known = make(known_as=("models/z.onnx", "data/z"))
    assert known.places == ("models/x/y.onnx", "models/z.onnx", "data/z")
    assert (known.is_pattern, make(path="data/*.JPEG").is_pattern) == (False, True)
    assert (known.count, known.packed, known.optional, known.digest, known.unpack) == (1, 0, False, None, None)


def test_all_that_is_written_of_a_file_is_read() -> None:
    assert find_benchmark_files("resnet50") == BenchmarkFiles(
        folder="resnet50",
        names=("resnet50", "resnet"),
        datasets=("data/imagenet",),
        models=("models/ResNet50/resnet50_v1.onnx", "models/resnet50/resnet50_v1.onnx"),
        files=(
            make(
                path="models/ResNet50/resnet50_v1.onnx",
                about="ResNet-50 v1.5 of the reference, opset 11",
                licence="Apache-2.0",
                size=98 << 20,
                sources=("https://zenodo.org/record/4735647/files/resnet50_v1.onnx",),
                digest=FileDigest(
                    "md5",
                    "f6a4da60cd5f084d97efc2c1ddb10beb",
                    "mlcommons/mlperf-automations",
                    ("a638cf028b5870da29e09ccc2f7182e7",),
                ),
                known_as=("models/resnet50/resnet50_v1.onnx",),
            ),
            make(
                path="data/imagenet/val_map.txt",
                about="the class of each image, a line for each, in the order of the samples",
                licence="published with Caffe for research",
                size=2 << 20,
                packed=18 << 20,
                sources=("http://dl.caffe.berkeleyvision.org/caffe_ilsvrc12.tar.gz",),
                digest=FileDigest("md5", "f963098ea0e785a968ca1eb634003a90", "mlcommons/mlperf-automations"),
                member="val.txt",
            ),
            make(
                path="data/imagenet/ILSVRC2012_val_*.JPEG",
                about="ImageNet 2012, validation images",
                licence="for non-commercial research, after registration with image-net.org",
                size=int(6.3 * (1 << 30)),
                count=50_000,
                by_hand="register at https://image-net.org/challenges/LSVRC/2012/, download ILSVRC2012_img_val.tar "
                "(md5 29b22e2961454d5413ddabcf34fc5622), and unpack it there",
            ),
        ),
    )


def test_a_digest_of_each_kind_is_read() -> None:
    digests = [file.digest for found in load_benchmark_files().values() for file in found.files if file.digest]
    lengths = {"sha256": 64, "md5": 32, "git": 40}
    assert {digest.algorithm for digest in digests} == set(lengths)
    assert all(len(digest.value) == lengths[digest.algorithm] and digest.origin for digest in digests)


def test_a_benchmark_is_found_by_any_name_the_first_that_is_known() -> None:
    found = load_benchmark_files()
    assert list(found) == sorted(found)
    assert all(item.name == name == item.names[0] for name, item in found.items())
    for item in found.values():
        assert all(find_benchmark_files(name) == item for name in (*item.names, item.folder))
    assert find_benchmark_files("nobody", "resnet", "bert-99") is found["resnet50"]
    assert find_benchmark_files("nobody") is None
    assert find_benchmark_files() is None


def test_the_scratch_space_is_where_the_guides_have_it() -> None:
    assert SCRATCH_VARIABLE == "MLPERF_SCRATCH_PATH"
    assert SCRATCH_DEFAULTS == ("/home/mlperf_inference_storage", "/home/mlperf_inference_data")
