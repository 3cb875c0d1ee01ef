"""Detection on Open Images and COCO: what is on disk is checked, boxes become the official bytes, and score as mAP."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.contract import Benchmark, Counter, RehearseRequest
from harness.errors import HarnessError

for library in ("cv2", "onnx", "onnxruntime", "pycocotools"):
    pytest.importorskip(library)

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from harness.benchmarks import load_benchmark, retinanet, ssd_resnet34  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.detection import make_response, make_responses  # noqa: E402
from harness.benchmarks.network_builder import NetworkSession  # noqa: E402
from harness.verbs.rehearse import execute  # noqa: E402
from tests.unit.harness.generated import build_dataset  # noqa: E402

COUNT = 4
BOTH = pytest.mark.parametrize(
    ("module", "layout"), [(retinanet, retinanet.LAYOUT), (ssd_resnet34, ssd_resnet34.LAYOUT)]
)


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both, by the name of their code."""
    folder = tmp_path_factory.mktemp("detection")
    for name in ("retinanet", "ssd_resnet34"):
        asked = RehearseRequest(
            benchmark=Benchmark(name=name),
            output=str(folder / name),
            counter=str(folder / "counter"),
            count=COUNT,
            seed=1,
        )
        assert execute(asked, lambda _: None).done
    return folder


def copy_data(rehearsals: Path, module: ModuleType, folder: Path) -> Path:
    name = module.__name__.rpartition(".")[2]
    return Path(shutil.copytree(rehearsals / name / "data", folder / "data"))


@pytest.fixture(scope="module")
def one_image(rehearsals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared dataset of one image. Not to be changed."""
    data = copy_data(rehearsals, ssd_resnet34, tmp_path_factory.mktemp("one"))
    return build_dataset(ssd_resnet34.BENCHMARK, data, count=1)


def edit(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@BOTH
def test_the_networks_own_answers_are_the_annotations_and_have_the_samples_number(
    rehearsals: Path, module: ModuleType, layout: Any, tmp_path: Path
) -> None:
    output = build_dataset(module.BENCHMARK, copy_data(rehearsals, module, tmp_path))
    (source,) = (rehearsals / module.__name__.rpartition(".")[2] / "models").iterdir()
    module.BENCHMARK.build_model(source, {}, {}, tmp_path, Counter(tmp_path / "counter"))
    session = NetworkSession(tmp_path / "model.onnx")
    name = {"retinanet": "images", "ssd_resnet34": "image"}[source.parent.parent.name]
    answers = []
    for index, sample in enumerate(np.load(output / "samples.npy")):
        (found,) = session.compute({name: sample[None]})
        (answer,) = module.BENCHMARK.respond([found], [index])
        assert (answer[:, 0] == index).all()
        assert answer.shape[1] == 7
        answers.append(answer.tobytes())
    log = AnswerLog(np.arange(COUNT), tuple(answers), 0, 0)
    assert module.BENCHMARK.score(log, output, tmp_path)["mAP"] == 100.0
    assert (tmp_path / "accuracy.txt").read_text() == "mAP=100.000%\n"
    halved = AnswerLog(np.arange(COUNT), (*answers[:2], b"", b""), 0, 0)
    assert 0 < module.BENCHMARK.score(halved, output, tmp_path)["mAP"] < 100
    nothing = AnswerLog(np.arange(COUNT), (b"",) * COUNT, 0, 0)
    assert module.BENCHMARK.score(nothing, output, tmp_path) == {"mAP": 0.0, "objects": 0}


def first(document: Any) -> Any:
    return document["annotations"][0]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    *(("images", {"width": wrong}, "image 2") for wrong in (0, "480")),
    *(("images", {"id": wrong}, "image 1 ") for wrong in ([2], True, float("nan"))),
    *(("images", {"id": wrong}, "such as 1") for wrong in (1, 1.0, "1")),
    ("images", {"file_name": "../../x.jpg"}, "../../x.jpg"),
    ("images", {"file_name": "gone.jpg"}, "val2017/gone.jpg"),
    *(("annotations", {"bbox": [1, 2, wrong, 4]}, "annotation 1 ") for wrong in ("4", float("nan"), 10**400, -3)),
    *(("annotations", {"bbox": wrong}, "annotation 1 ") for wrong in ([1, 2, 3], [9000, 2, 3, 4], [1, -9, 3, 4])),
    *(("annotations", {"image_id": wrong}, f"image {wrong}") for wrong in (77, {}, True)),
    *(("annotations", {"category_id": wrong}, f"category {wrong}") for wrong in (12, True)),
    *(("annotations", {"id": wrong}, "such as 2") for wrong in (2, 2.0, "2.0")),
    *(("annotations", {"iscrowd": wrong}, "iscrowd") for wrong in (0.5, "0")),
    ("annotations", {"area": None}, "area"),
    ("categories", {"id": 1.0}, "such as 1"),
]


@pytest.mark.parametrize(("part", "changed", "said"), WRONG)
def test_annotations_that_cannot_be_used_are_refused_before_anything_is_prepared(
    rehearsals: Path, part: str, changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    data = copy_data(rehearsals, ssd_resnet34, tmp_path)
    edit(data / ssd_resnet34.LAYOUT.annotations, lambda d: d[part][part != "annotations"].update(changed))
    assert said in refuse(data, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["images"][1].pop("width"), "no width"),
        (lambda d: first(d).pop("bbox"), "no bbox"),
        (lambda d: first(d).pop("iscrowd"), "no iscrowd"),
        (lambda d: d.pop("annotations"), "annotations"),
        (lambda d: d["images"].clear(), "images"),
        (lambda d: d["categories"].append("cat"), "category 80"),
    ],
)
def test_annotations_without_required_are_refused(rehearsals: Path, change: Any, said: str, tmp_path: Path) -> None:
    data = copy_data(rehearsals, ssd_resnet34, tmp_path)
    edit(data / ssd_resnet34.LAYOUT.annotations, change)
    assert said in refuse(data, tmp_path)


def refuse(data: Path, tmp_path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        build_dataset(ssd_resnet34.BENCHMARK, data)
    assert str(data) in caught.value.problem
    assert caught.value.fix
    assert not list((tmp_path / "dataset").iterdir())
    return caught.value.problem


def test_annotations_such_as_are_published_are_taken(rehearsals: Path, tmp_path: Path) -> None:
    """A crowd, what a rounding moved over the border, and boxes of no width, of which COCO has some."""

    def add(document: Any) -> None:
        item, size = first(document), document["images"][0]
        number = len(document["annotations"])
        for box in (
            [0, 0, size["width"], size["height"]],
            [-0.4, -0.3, size["width"] + 0.8, 7],
            [size["width"], size["height"], 0, 0],
            [17.5, 3, 0.0, 12],
        ):
            number += 1
            document["annotations"].append({**item, "id": number, "bbox": box, "area": 0, "iscrowd": 1})

    data = copy_data(rehearsals, ssd_resnet34, tmp_path)
    edit(data / ssd_resnet34.LAYOUT.annotations, add)
    output = build_dataset(ssd_resnet34.BENCHMARK, data)
    assert json.loads((output / "annotations.json").read_text())["annotations"][-1]["bbox"] == [17.5, 3, 0.0, 12]
    found = [[0, 0.1, 0.1, 0.5, 0.5, 0.9, 1]]
    log = AnswerLog(np.arange(1), (np.array(found, np.float32).tobytes(),), 0, 0)
    assert ssd_resnet34.BENCHMARK.score(log, output, tmp_path)["objects"] == 1


def test_calibration_images_are_those_of_the_official_list_that_are_there(rehearsals: Path, tmp_path: Path) -> None:
    data = copy_data(rehearsals, retinanet, tmp_path)
    folder = data / retinanet.LAYOUT.calibration
    load = load_benchmark(Benchmark(name="retinanet")).load_calibration
    (generated,) = load(build_dataset(retinanet.BENCHMARK, data, count=1)).values()
    assert len(generated) == len(list(folder.iterdir())) > 0
    for path in (folder, data.parent / "dataset"):
        shutil.rmtree(path)
    folder.mkdir()
    image = sorted((data / retinanet.LAYOUT.images).iterdir())[0]
    for name in ("dd51a1780bcb3d28.jpg", "not-of-the-list.jpg"):
        shutil.copyfile(image, folder / name)
    (calibration,) = load(build_dataset(retinanet.BENCHMARK, data, count=1)).values()
    assert calibration.shape == (1, 3, 800, 800)
    assert np.array_equal(calibration[0], retinanet.preprocess(image))


def test_rows_are_index_ymin_xmin_ymax_xmax_score_label_and_weak_ones_are_left_out() -> None:
    found = np.array([[80, 160, 400, 800, 0.9, 3], [0, 0, 8, 8, 0.049, 1], [0] * 6], np.float32)
    assert make_response(5, found, 800).tolist() == [[5, *np.float32([0.2, 0.1, 1.0, 0.5, 0.9]).tolist(), 3]]
    first, second = make_responses(np.stack([found, np.zeros_like(found)]), [7, 2], 800)
    assert (first[0, 0], second.size) == (7, 0)
    several = np.stack([found, np.zeros_like(found), found[::-1], found * np.float32(0.9)])
    assert [rows.tolist() for rows in make_responses(several, [3, 9, 0, 4], 800)] == [
        make_response(index, rows, 800).tolist() for index, rows in zip([3, 9, 0, 4], several, strict=True)
    ]
    with pytest.raises(HarnessError, match=r"the model returns \[3, 5\] per image"):
        make_responses(np.zeros((1, 3, 5), np.float32), [0], 1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (np.zeros(6, np.float32), "has 24 bytes"),
        (np.array([3, 0, 0, 1, 1, 0.5, 1], np.float32), "refers to sample 3"),
        (np.array([0, 0, 0, 1, 1, 0.5, 81], np.float32), "has label 81 of 80"),
        (np.array([0, 0, 0, 1, 1, 0.5, 0], np.float32), "has label 0 of 80"),
    ],
)
def test_unfit_answers_are_refused(one_image: Path, tmp_path: Path, answer: np.ndarray, problem: str) -> None:
    with pytest.raises(HarnessError, match=problem):
        ssd_resnet34.BENCHMARK.score(AnswerLog(np.array([0]), (answer.tobytes(),), 0, 0), one_image, tmp_path)


def write_heads(*objects: tuple[int, int, float]) -> tuple[np.ndarray, np.ndarray]:
    """Scores and offsets of heads that see the anchor, class and score of each object, and nothing else."""
    count = len(retinanet.make_anchors())
    scores, offsets = np.full((count, retinanet.CLASSES), -20, np.float32), np.zeros((count, 4), np.float32)
    for anchor, label, score in objects:
        scores[anchor, label] = np.log(score / (1 - score))
    return scores, offsets


def test_heads_give_objects_the_best_first_without_those_that_overlap_in_their_class() -> None:
    middle = (50 * 100 + 50) * 9
    scores, offsets = write_heads(
        (middle + 3, 7, 0.6), (middle + 9 + 3, 7, 0.9), (middle + 3, 8, 0.5), (middle + 90 + 3, 7, 0.04)
    )
    found = retinanet.find_objects(scores, offsets)
    assert found[:, 5].tolist() == [7, 8]
    assert found[:, 4].tolist() == pytest.approx([0.9, 0.5])
    assert found[0, :4].tolist() == [51 * 8 - 16, 50 * 8 - 16, 51 * 8 + 16, 50 * 8 + 16]
    offsets[middle + 9 + 3] = [0.5, 0, np.log(2), 100]
    wide = retinanet.find_objects(scores, offsets)[0]
    assert wide[[0, 2]].tolist() == pytest.approx([51 * 8 + 16 - 32, 51 * 8 + 16 + 32])
    assert wide[[1, 3]].tolist() == [0, 800], "growth is bounded, and so are boxes"


def write_heads_model(path: Path, opset: int) -> None:
    """Whose input is what its heads give."""
    count = len(retinanet.make_anchors())
    shapes = {"logits": ["n", count, retinanet.CLASSES], "offsets": ["n", count, 4]}
    given = [helper.make_tensor_value_info(f"in_{name}", TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    taken = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Identity", [f"in_{name}"], [name]) for name in shapes]
    opsets = [helper.make_opsetid("", opset)]
    graph = helper.make_graph(nodes, "heads", given, taken)
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize(("opset", "images"), [(13, 1), (18, 2)])
def test_a_network_that_ends_at_its_heads_ranks_them_and_gives_the_same_objects(
    tmp_path: Path, opset: int, images: int
) -> None:
    write_heads_model(tmp_path / "heads.onnx", opset)
    retinanet.BENCHMARK.build_model(tmp_path / "heads.onnx", {}, {}, tmp_path, Counter(tmp_path / "counter"))
    rng = np.random.default_rng(opset)
    count = len(retinanet.make_anchors())
    scores = np.full((count, retinanet.CLASSES), -20, np.float32)
    above = rng.integers(0, scores.size, 40_000)  # the threshold: more than are ranked
    scores.flat[above] = rng.uniform(-2.9, 3, len(above))
    moved = rng.standard_normal((count, 4), np.float32) / 2
    logits, offsets = (np.stack([drawn, drawn[::-1]][:images]) for drawn in (scores, moved))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    ranked = session.run(None, {"in_logits": logits, "in_offsets": offsets})
    assert sorted(output.shape for output in ranked) == [(images, 5000), (images, 5000), (images, 5000, 4)]
    found = retinanet.BENCHMARK.respond(ranked[::-1], [3, 4][:images])
    wanted = retinanet.BENCHMARK.respond([logits, offsets], [3, 4][:images])
    for mine, theirs in zip(found, wanted, strict=True):
        assert len(theirs) == retinanet.MOST
        np.testing.assert_array_equal(mine, theirs)
