"""ResNet-50 on ImageNet: what is on disk is checked before anything is made of it, and how images become arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.contract import Benchmark, Counter, RehearseRequest
from harness.errors import HarnessError

cv2 = pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")

from harness.benchmarks import resnet50  # noqa: E402
from harness.benchmarks.resnet50.rehearsal import MODEL, encode_image  # noqa: E402
from harness.verbs.rehearse import execute  # noqa: E402

COUNT = 12


def rehearse(folder: Path) -> Path:
    counter = folder.with_name("rehearsal.counter")
    asked = RehearseRequest(
        benchmark=Benchmark(name="resnet50"), output=str(folder), counter=str(counter), count=COUNT, seed=1
    )
    assert execute(asked, lambda _: None).done
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resnet50")
    return rehearse(folder / "rehearsal")


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path / "counter")


def build(data: Path, counter: Counter, **settings: object) -> Path:
    output = data.parent / "output"
    output.mkdir()
    resnet50.build_dataset(data, settings, output, counter)
    return output


def first_image(data: Path) -> Path:
    return data / resnet50.read_map(data / resnet50.MAP)[0].name


def test_the_arrays_are_in_the_order_of_the_map_and_of_the_declared_type(data: Path, counter: Counter) -> None:
    listed = resnet50.read_map(data / resnet50.MAP)
    (data / resnet50.MAP).write_text("".join(f"{item.name} {item.label}\n" for item in reversed(listed)))
    output = build(data, counter, dtype="float16", threads=2)
    samples = np.load(output / "samples.npy")
    assert (samples.shape, samples.dtype) == ((COUNT, 3, 224, 224), np.float16)
    assert np.load(output / "labels.npy").tolist() == [item.label for item in reversed(listed)]
    last = resnet50.preprocess(data / listed[-1].name).astype(np.float16)
    assert np.array_equal(samples[0], last)


def test_an_image_is_cropped_in_the_middle_and_its_channels_are_red_first(tmp_path: Path) -> None:
    image = np.zeros((256, 356, 3), np.uint8)
    image[:, :66] = 255  # cut away: the crop begins at column (356 - 224) / 2
    image[..., 2] = 200  # OpenCV writes blue, green, red
    image[:, :66, 2] = 255
    cv2.imwrite(str(tmp_path / "image.png"), image)
    prepared = resnet50.preprocess(tmp_path / "image.png")
    assert prepared.shape == (3, 224, 224)
    assert [float(channel.mean()) for channel in prepared] == pytest.approx([200 - 123.68, -116.78, -103.94], abs=1e-3)
    assert float(np.ptp(prepared[1])) == 0.0


def test_calibration_images_are_those_of_the_official_list_that_are_there(data: Path, counter: Counter) -> None:
    listed = "ILSVRC2012_val_00027145.JPEG"
    (data / listed).write_bytes(encode_image(np.full((300, 400, 3), 90, np.uint8)))
    other = "ILSVRC2012_val_00049999.JPEG"
    (data / other).write_bytes(encode_image(np.full((300, 400, 3), 10, np.uint8)))
    calibration = resnet50.BENCHMARK.load_calibration(build(data, counter))["samples"]
    assert any(np.array_equal(sample, resnet50.preprocess(data / listed)) for sample in calibration)
    assert not any(np.array_equal(sample, resnet50.preprocess(data / other)) for sample in calibration)


def test_answers_leave_out_the_background_class_of_the_reference() -> None:
    scores = np.zeros((2, 1001), np.float32)
    scores[0, 1], scores[1, 1000] = 1, 1
    assert resnet50.postprocess([scores]).tolist() == [0, 999]
    assert resnet50.postprocess([np.array([1, 1000])]).tolist() == [0, 999]
    assert resnet50.postprocess([scores[:, 1:]]).tolist() == [0, 999]
    with pytest.raises(HarnessError, match="returns 10 scores"):
        resnet50.postprocess([np.zeros((2, 10), np.float32)])


def test_a_rehearsal_is_the_same_for_the_same_seed_and_answers_are_not_all_alike(made: Path, tmp_path: Path) -> None:
    rehearse(tmp_path / "again")
    for name in ("data/val_map.txt", f"models/{MODEL}", f"data/{first_image(made / 'data').name}"):
        assert (tmp_path / "again" / name).read_bytes() == (made / name).read_bytes()
    assert len({item.label for item in resnet50.read_map(made / "data" / resnet50.MAP)}) > COUNT / 4
