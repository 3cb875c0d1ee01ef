"""Data sets of every benchmark whose files are damaged, incomplete or another edition's: each is refused before anything
is prepared, with the file and how to bring it again. What of it makes them unfit is data."""  # noqa: E501

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks import load_benchmark
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark, Counter
from harness.errors import HarnessError
from tests.unit.harness.generated import generate

NEEDS = {
    "bert": ("tokenizers", "onnxruntime"),
    "resnet50": ("cv2", "onnxruntime"),
    "retinanet": ("cv2", "pycocotools", "onnxruntime"),
    "ssd_resnet34": ("cv2", "pycocotools", "onnxruntime"),
    "yolo": ("cv2", "pycocotools", "onnxruntime"),
    "dlrm_v2": ("onnxruntime",),
    "rnnt": ("soundfile", "onnxruntime"),
    "whisper": ("soundfile", "openvino_genai"),
    "pointpainting": ("cv2", "onnxruntime"),
    "unet3d": ("scipy", "onnxruntime"),
    "unet3d_brats": ("scipy", "onnx", "onnxruntime"),
    "llama3_1_8b": ("tokenizers", "openvino", "rouge_score"),
}
COUNT = 4
# As many as the tests of the same benchmark have.
COUNTS = {"unet3d": 1, "unet3d_brats": 1, "dlrm_v2": 3, "rnnt": 3, "yolo": 8, "llama3_1_8b": 8, "pointpainting": 16}
INFOS, FRAMES = "waymo_infos_val.pkl", "ImageSets/val.txt"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A rehearsal's data set of a benchmark, made when it is first asked for. Not to be changed."""
    found: dict[str, Path] = {}

    def find(name: str) -> Path:
        for library in NEEDS[name]:
            pytest.importorskip(library)
        if name not in found:
            found[name] = generate(tmp_path_factory, name, COUNTS.get(name, COUNT)) / "data"
        return found[name]

    yield find  # noqa: PT022


def refuse(name: str, data: Path, **settings: Any) -> str:
    """What is wrong with it. Nothing was prepared."""
    output = data.with_name("output")
    output.mkdir()
    with pytest.raises(HarnessError) as caught:
        load_benchmark(Benchmark(name=name)).build_dataset(data, settings, output, Counter(data.with_name("counter")))
    assert not list(output.iterdir())
    assert caught.value.fix
    return caught.value.problem


def first(data: Path, pattern: str) -> Path:
    return sorted(data.rglob(pattern))[0]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def replace_by_page(path: Path) -> None:
    path.write_bytes(b"<html>not found</html>")


def copy_twice(path: Path) -> None:
    shutil.copyfile(path, path.with_name(f"{path.stem} (1){path.suffix}"))


def write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def edit(change: Callable[[Any], object]) -> Callable[[Path], object]:
    """A document of JSON."""

    def apply(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return apply


def pickled(change: Callable[[Any], object]) -> Callable[[Path], object]:
    def apply(path: Path) -> None:
        found = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps(change(found) or found))

    return apply


def slow_down(path: Path) -> None:
    pytest.importorskip("soundfile").write(path, np.zeros(800), 8000)


def drop_row(path: Path) -> None:
    np.save(path, np.load(path)[:-1])


def lose_member(path: Path) -> None:
    with np.load(path) as archive:
        np.savez(path, **{name: archive[name] for name in archive.files if name != "7"})


def compress(path: Path) -> None:
    with np.load(path) as archive:
        np.savez_compressed(path, **archive)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("run",))


# Benchmark, file, damage, and what is said of it where that is more than the file's name.
DAMAGE: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("bert", "dev-v1.1.json", Path.unlink, ""),
    ("bert", "dev-v1.1.json", cut, ""),
    ("bert", "dev-v1.1.json", copy_twice, ""),
    ("bert", "dev-v1.1.json", edit(lambda d: d.update(version="v2.0")), "v2.0"),
    ("bert", "dev-v1.1.json", edit(lambda d: d["data"][0]["paragraphs"][0].pop("context")), "data[0]"),
    ("bert", "vocab.txt", write("[PAD]\nword\n"), "[UNK]"),
    ("resnet50", "*.JPEG", Path.unlink, ""),
    ("resnet50", "*.JPEG", cut, ""),
    ("resnet50", "*.JPEG", replace_by_page, ""),
    ("resnet50", "val_map.txt", Path.unlink, "val_map.txt"),
    ("resnet50", "val_map.txt", lambda path: path.write_text(2 * path.read_text()), "twice"),
    ("resnet50", "val_map.txt", write("a.JPEG 1000\n"), ":1"),
    ("resnet50", "val_map.txt", write("a.JPEG -1\n"), ":1"),
    ("resnet50", "val_map.txt", write("../a.JPEG 3\n"), ":1"),
    ("retinanet", "*.jpg", cut, ""),
    ("ssd_resnet34", "val2017/*.jpg", copy_twice, ""),
    ("ssd_resnet34", "instances_val2017.json", cut, ""),
    ("yolo", "000000000001.jpg", Path.unlink, ""),
    ("dlrm_v2", "day_23_dense.npy", Path.unlink, ""),
    ("dlrm_v2", "day_23_dense.npy", cut, ""),
    ("dlrm_v2", "day_23_dense.npy", lengthen, ""),
    ("dlrm_v2", "day_23_dense.npy", drop_row, ""),
    ("dlrm_v2", "day_23_labels.npy", replace_by_page, ""),
    ("dlrm_v2", "day_23_sparse_multi_hot.npz", cut, ""),
    ("dlrm_v2", "day_23_sparse_multi_hot.npz", compress, ""),
    ("dlrm_v2", "day_23_sparse_multi_hot.npz", lose_member, "7.npy"),
    ("rnnt", "*.flac", cut, ""),
    ("rnnt", "*.flac", copy_twice, ""),
    ("rnnt", "*.flac", slow_down, ""),
    ("rnnt", "*.trans.txt", Path.unlink, ""),
    ("rnnt", "*.trans.txt", write("2277-149896-0000 AT 8:00\n"), "trans.txt:1"),
    ("whisper", "*.wav", cut, "0-0_0.wav"),
    ("whisper", "*.wav", slow_down, ""),
    ("whisper", "dev-all-repack.json", edit(lambda entries: entries[0].pop("files")), "manifest"),
    ("pointpainting", "velodyne/*.bin", Path.unlink, ""),
    ("pointpainting", "velodyne/*.bin", lambda path: path.write_bytes(path.read_bytes()[:-3]), ""),
    ("pointpainting", "image_3/*.jpg", cut, ""),
    ("pointpainting", INFOS, cut, ""),
    ("pointpainting", INFOS, pickled(lambda found: [*found, Evil()]), "builtins.print"),
    ("pointpainting", INFOS, pickled(lambda found: found[0].pop("calib") and None), "entry 0"),
    ("pointpainting", INFOS, pickled(lambda found: found[1:]), "no frame 1000000"),
    (
        "pointpainting",
        INFOS,
        pickled(lambda f: f[0]["point_cloud"].update(velodyne_path="../../x")),
        "outside the folder",
    ),
    ("pointpainting", FRAMES, write("1000000\n"), "1000001"),
    ("unet3d", "imaging.nii.gz", Path.unlink, ""),
    ("unet3d", "imaging.nii.gz", lambda path: path.write_bytes(b""), ""),
    ("unet3d", "imaging.nii.gz", replace_by_page, ""),
    ("unet3d", "imaging.nii.gz", cut, ""),
    ("unet3d", "imaging.nii.gz", copy_twice, ""),
    ("unet3d_brats", "*_flair.nii.gz", Path.unlink, ""),
    ("unet3d_brats", "*_t1.nii.gz", lambda path: path.write_bytes(b""), ""),
    ("unet3d_brats", "*_t1ce.nii.gz", replace_by_page, ""),
    ("unet3d_brats", "*_seg.nii.gz", lambda path: path.write_bytes(path.read_bytes()[:-60]), ""),
    ("unet3d_brats", "*_seg.nii.gz", copy_twice, ""),
    ("llama3_1_8b", "cnn_eval.json", cut, ""),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: [row.pop("tok_input") for row in rows]), "tok_input"),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: rows[2].pop("output")), "row 2"),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: rows[3].update(tok_input=[5, 128_256])), "row 3"),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: rows[3].update(tok_input=[])), "row 3"),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: rows[3].update(tok_input=[1.5])), "row 3"),
    ("llama3_1_8b", "cnn_eval.json", edit(lambda rows: rows[1].update(output=None)), "row 1"),
    ("llama3_1_8b", "tokenizer.json", write("{"), ""),
    ("llama3_1_8b", "collocations.tab", Path.unlink, "collocations.tab"),
]


def name_part(value: object) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("name", "pattern", "damage", "said"), DAMAGE, ids=name_part)
def test_damage_is_named_and_nothing_is_prepared(
    name: str, pattern: str, damage: Callable[[Path], object], said: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    data = Path(shutil.copytree(made(name), tmp_path / "data"))
    damaged = first(data, pattern)
    damage(damaged)
    assert (said or damaged.stem) in refuse(name, data)


@pytest.mark.parametrize("name", NEEDS)
def test_a_published_set_must_be_whole(name: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    data = Path(shutil.copytree(made(name), tmp_path / "data"))
    (data / REHEARSAL).unlink()
    assert refuse(name, data)


@pytest.mark.parametrize("name", ["resnet50", "retinanet", "ssd_resnet34", "dlrm_v2", "llama3_1_8b"])
def test_no_more_samples_can_be_asked_for(name: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    data = Path(shutil.copytree(made(name), tmp_path / "data"))
    assert "100000" in refuse(name, data, count=100_000).replace(",", "")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bert", "vocab.txt"),
        ("resnet50", "val_map.txt"),
        ("retinanet", "openimages-mlperf.json"),
        ("ssd_resnet34", "instances_val2017.json"),
    ],
)
def test_digests_must_be_of_their_files(name: str, file: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    data = Path(shutil.copytree(made(name), tmp_path / "data"))
    (data / "SHA256SUMS").write_text(f"{'0' * 64}  {first(data, file).relative_to(data)}\n")
    assert file in refuse(name, data)
