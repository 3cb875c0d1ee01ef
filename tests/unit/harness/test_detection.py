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
from harness.benchmarks.detection.answers import make_response, make_responses  # noqa: E402
from harness.benchmarks.made_network import NetworkSession  # noqa: E402
from harness.benchmarks.retinanet import heads, openimages  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from harness.benchmarks.ssd_resnet34 import coco2017  # noqa: E402
from harness.verbs.rehearse import execute  # noqa: E402

COUNT = 4
BOTH = pytest.mark.parametrize(("module", "layout"), [(retinanet, openimages.LAYOUT), (ssd_resnet34, coco2017.LAYOUT)])


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


def build(module: ModuleType, data: Path, **settings: object) -> Path:
    output = data.parent / "output"
    output.mkdir()
    module.build_dataset(data, settings, output, Counter(data.parent / "counter"))
    return output


def edit(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@BOTH
def test_the_networks_own_answers_are_the_annotations_and_have_the_samples_number(
    rehearsals: Path, module: ModuleType, layout: Any, tmp_path: Path
) -> None:
    output = build(module, copy_data(rehearsals, module, tmp_path))
    (source,) = (rehearsals / module.__name__.rpartition(".")[2] / "models").iterdir()
    module.build_model(source, {}, {}, tmp_path, Counter(tmp_path / "counter"))
    session = NetworkSession(tmp_path / "model.onnx")
    name = {"retinanet": "images", "ssd_resnet34": "image"}[source.parent.parent.name]
    answers = []
    for index, sample in enumerate(np.load(output / "samples.npy")):
        (found,) = session.compute({name: sample[None]})
        (answer,) = module.postprocess([found], [index])
        assert (answer[:, 0] == index).all()
        assert answer.shape[1] == 7
        answers.append(answer.tobytes())
    log = AnswerLog(np.arange(COUNT), tuple(answers), 0, 0)
    assert module.score(log, output, tmp_path)["mAP"] == 100.0
    assert (tmp_path / "accuracy.txt").read_text() == "mAP=100.000%\n"
    halved = AnswerLog(np.arange(COUNT), (*answers[:2], b"", b""), 0, 0)
    assert 0 < module.score(halved, output, tmp_path)["mAP"] < 100
    nothing = AnswerLog(np.arange(COUNT), (b"",) * COUNT, 0, 0)
    assert module.score(nothing, output, tmp_path) == {"mAP": 0.0, "objects": 0}


@BOTH
def test_samples_are_in_the_order_of_the_annotations_and_of_the_declared_type(
    rehearsals: Path, module: ModuleType, layout: Any, tmp_path: Path
) -> None:
    data = copy_data(rehearsals, module, tmp_path)
    edit(data / layout.annotations, lambda document: document["images"].reverse())
    output = build(module, data, dtype="float16", count=2, threads=2)
    images = json.loads((output / "annotations.json").read_text())["images"]
    assert [image["id"] for image in images] == [COUNT, COUNT - 1]
    samples = np.load(output / "samples.npy", mmap_mode="r")
    side = {retinanet: 800, ssd_resnet34: 1200}[module]
    assert (samples.shape, samples.dtype) == ((2, 3, side, side), np.float16)
    prepared = {retinanet: openimages, ssd_resnet34: coco2017}[module].preprocess
    assert np.array_equal(samples[0], prepared(data / layout.images / images[0]["file_name"]).astype(np.float16))


def first(document: Any) -> Any:
    return document["annotations"][0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["images"][1].pop("width"), "image 1 has no width"),
        (lambda d: d["images"][1].update(width=0), "image 2 has the width 0, which is none"),
        (lambda d: d["images"][1].update(height="480"), "image 2 has the height '480', which is none"),
        (lambda d: d["images"][1].update(id=d["images"][0]["id"]), "names 1 images twice, by their id"),
        (lambda d: d["images"][1].update(id=[2]), "image 1 has an id that is neither a number nor a text"),
        (lambda d: d["images"][1].update(id=True), "image 1 has an id that is neither a number nor a text"),
        (lambda d: d["images"][1].update(id=float("nan")), "image 1 has an id that is neither a number nor a text"),
        (lambda d: d["images"][1].update(id=1.0), "names 1 images twice, by their id, such as 1"),
        (lambda d: d["images"][1].update(id="1"), "names 1 images twice, by their id, such as 1"),
        (lambda d: d["images"][1].update(file_name="../../x.jpg"), "is not a path below the images' folder"),
        (lambda d: d.pop("annotations"), "does not list images, annotations and categories"),
        (lambda d: d["images"].clear(), "does not list images, annotations and categories"),
        (lambda d: d["images"][2].update(file_name="gone.jpg"), "1 is missing: val2017/gone.jpg"),
        (lambda d: first(d).update(bbox=[1, 2, 3]), "annotation 1 has the box [1, 2, 3], which is not four numbers"),
        (lambda d: first(d).update(bbox=[1, 2, 3, "4"]), "which is not four numbers"),
        (lambda d: first(d).update(bbox=[float("nan"), 2, 3, 4]), "which is not four numbers"),
        (lambda d: first(d).update(bbox=[1, 2, 10**400, 4]), "which is not four numbers"),
        (lambda d: first(d).update(bbox=[1, 2, -3, 4]), "box [1, 2, -3, 4], whose width or height is below 0"),
        (lambda d: first(d).update(bbox=[9000, 2, 3, 4]), "lies outside its image of 500 x 375 pixels"),
        (lambda d: first(d).update(bbox=[1, -9, 3, 4]), "lies outside its image of 500 x 375 pixels"),
        (lambda d: first(d).update(image_id=77), "annotation 1 is of image 77, which the file does not declare"),
        (lambda d: first(d).update(image_id={}), "annotation 1 is of image {}, which the file does not declare"),
        (lambda d: first(d).update(category_id=12), "annotation 1 is of category 12, which the file does not declare"),
        (lambda d: first(d).pop("bbox"), "annotation 0 has no bbox (its id is 1)"),
        (lambda d: first(d).update(id=2), "names 1 annotations twice, by their id, such as 2"),
        (lambda d: first(d).update(id=2.0), "names 1 annotations twice, by their id, such as 2"),
        (lambda d: first(d).update(id="2.0"), "names 1 annotations twice, by their id, such as 2"),
        (lambda d: d["categories"][1].update(id=1.0), "names 1 categories twice, by their id, such as 1"),
        (lambda d: first(d).update(image_id=True), "annotation 1 is of image True, which the file does not declare"),
        (lambda d: first(d).update(category_id=True), "annotation 1 is of category True, which the file does not"),
        (lambda d: first(d).update(area=None), "annotation 1 has the area None, which is none"),
        (lambda d: first(d).pop("iscrowd"), "annotation 0 has no iscrowd"),
        (lambda d: first(d).update(iscrowd=0.5), "annotation 1 has iscrowd 0.5, not 0 or 1"),
        (lambda d: first(d).update(iscrowd="0"), "annotation 1 has iscrowd '0', not 0 or 1"),
        (lambda d: d["categories"].append("cat"), "category 80 has no id"),
    ],
)
def test_annotations_that_cannot_be_used_are_refused_before_anything_is_prepared(
    rehearsals: Path, change: Any, problem: str, tmp_path: Path
) -> None:
    data = copy_data(rehearsals, ssd_resnet34, tmp_path)
    edit(data / coco2017.LAYOUT.annotations, change)
    with pytest.raises(HarnessError) as caught:
        build(ssd_resnet34, data)
    assert problem in str(caught.value)
    assert str(data) in str(caught.value)
    assert caught.value.fix
    assert not list((tmp_path / "output").iterdir())


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
    edit(data / coco2017.LAYOUT.annotations, add)
    output = build(ssd_resnet34, data)
    assert json.loads((output / "annotations.json").read_text())["annotations"][-1]["bbox"] == [17.5, 3, 0.0, 12]
    found = [[0, 0.1, 0.1, 0.5, 0.5, 0.9, 1]]
    log = AnswerLog(np.arange(1), (np.array(found, np.float32).tobytes(),), 0, 0)
    assert ssd_resnet34.score(log, output, tmp_path)["objects"] == 1


def test_annotations_whose_numbers_are_all_floats_are_taken(rehearsals: Path, tmp_path: Path) -> None:
    """As tables of programs that know no others are written."""

    def make_floats(document: Any) -> None:
        for item in document["annotations"]:
            item.update({name: float(item[name]) for name in ("id", "image_id", "category_id", "area", "iscrowd")})

    data = copy_data(rehearsals, ssd_resnet34, tmp_path)
    edit(data / coco2017.LAYOUT.annotations, make_floats)
    output = build(ssd_resnet34, data)
    log = AnswerLog(np.arange(1), (np.array([[0, 0.1, 0.1, 0.5, 0.5, 0.9, 1]], np.float32).tobytes(),), 0, 0)
    assert ssd_resnet34.score(log, output, tmp_path)["objects"] == 1


@BOTH
def test_a_damaged_image_one_too_many_and_a_cut_off_file_are_named_with_the_fix(
    rehearsals: Path, module: ModuleType, layout: Any, tmp_path: Path
) -> None:
    data = copy_data(rehearsals, module, tmp_path)
    first = sorted((data / layout.images).iterdir())[0]
    whole = first.read_bytes()
    first.write_bytes(whole[:-5000])
    with pytest.raises(HarnessError, match=f"1 is cut off: {layout.images}/{first.name}") as caught:
        build(module, data)
    assert "reconcile fetch" in caught.value.fix
    first.write_bytes(whole)
    (tmp_path / "output").rmdir()
    extra = first.with_name("again.jpg")
    extra.write_bytes(whole)
    with pytest.raises(HarnessError, match=f"1 belongs to nothing: {layout.images}/again.jpg"):
        build(module, data)
    extra.unlink()
    annotations = data / layout.annotations
    annotations.write_bytes(annotations.read_bytes()[:-10])
    (tmp_path / "output").rmdir()
    with pytest.raises(HarnessError, match=f"{annotations.name} is cut off or not JSON"):
        build(module, data)


@BOTH
def test_a_digest_of_the_annotations_must_be_theirs(
    rehearsals: Path, module: ModuleType, layout: Any, tmp_path: Path
) -> None:
    data = copy_data(rehearsals, module, tmp_path)
    (data / "SHA256SUMS").write_text(f"{'0' * 64}  {layout.annotations}\n")
    with pytest.raises(HarnessError, match=f"1 has another digest than it should: {layout.annotations}") as caught:
        build(module, data)
    assert "reconcile fetch" in caught.value.fix
    assert not list((tmp_path / "output").iterdir())


def test_fewer_images_than_the_benchmark_has_are_refused_unless_asked_for(rehearsals: Path, tmp_path: Path) -> None:
    data = copy_data(rehearsals, retinanet, tmp_path)
    (data / REHEARSAL).unlink()
    with pytest.raises(HarnessError, match=f"names {COUNT} images, the benchmark has 24781"):
        build(retinanet, data)


def test_a_network_converted_from_tensorflow_is_refused(tmp_path: Path) -> None:
    image = helper.make_tensor_value_info("image:0", TensorProto.FLOAT, ["batch", 1200, 1200, 3])
    boxes = helper.make_tensor_value_info("detection_bboxes:0", TensorProto.FLOAT, None)
    node = helper.make_node("Identity", ["image:0"], ["detection_bboxes:0"])
    network = tmp_path / "ssd_resnet34_mAP_20.2.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "tf", [image], [boxes])), network)
    with pytest.raises(HarnessError, match=r"20\.2\.onnx takes channels last, image:0 \[1200, 1200, 3\]") as caught:
        ssd_resnet34.build_model(network, {}, {}, tmp_path, Counter(tmp_path / "counter"))
    assert "converted from PyTorch" in caught.value.fix


def test_more_images_than_there_are_cannot_be_asked_for(rehearsals: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=f"count asks for {COUNT + 1} samples, and there are {COUNT}"):
        build(ssd_resnet34, copy_data(rehearsals, ssd_resnet34, tmp_path), count=COUNT + 1)


def test_calibration_images_are_those_of_the_official_list_that_are_there(rehearsals: Path, tmp_path: Path) -> None:
    data = copy_data(rehearsals, retinanet, tmp_path)
    folder = data / openimages.LAYOUT.calibration
    load = load_benchmark(Benchmark(name="retinanet")).load_calibration
    (generated,) = load(build(retinanet, data, count=1)).values()
    assert len(generated) == len(list(folder.iterdir())) > 0
    for path in (folder, data.parent / "output"):
        shutil.rmtree(path)
    folder.mkdir()
    image = sorted((data / openimages.LAYOUT.images).iterdir())[0]
    for name in ("dd51a1780bcb3d28.jpg", "not-of-the-list.jpg"):
        shutil.copyfile(image, folder / name)
    (calibration,) = load(build(retinanet, data, count=1)).values()
    assert calibration.shape == (1, 3, 800, 800)
    assert np.array_equal(calibration[0], openimages.preprocess(image))


def test_rows_are_index_ymin_xmin_ymax_xmax_score_label_and_weak_ones_are_left_out() -> None:
    found = np.array([[80, 160, 400, 800, 0.9, 3], [0, 0, 8, 8, 0.049, 1], [0] * 6], np.float32)
    assert make_response(5, found, 800).tolist() == [[5, *np.float32([0.2, 0.1, 1.0, 0.5, 0.9]).tolist(), 3]]
    first, second = make_responses(np.stack([found, np.zeros_like(found)]), [7, 2], 800)
    assert (first[0, 0], second.size) == (7, 0)
    several = np.stack([found, np.zeros_like(found), found[::-1], found * np.float32(0.9)])
    assert [rows.tolist() for rows in make_responses(several, [3, 9, 0, 4], 800)] == [
        make_response(index, rows, 800).tolist() for index, rows in zip([3, 9, 0, 4], several, strict=True)
    ]
    with pytest.raises(HarnessError, match=r"the model gives \[3, 5\] for an image"):
        make_responses(np.zeros((1, 3, 5), np.float32), [0], 1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (np.zeros(6, np.float32), "has 24 bytes"),
        (np.array([3, 0, 0, 1, 1, 0.5, 1], np.float32), "names sample 3"),
        (np.array([0, 0, 0, 1, 1, 0.5, 81], np.float32), "has label 81 of 80"),
        (np.array([0, 0, 0, 1, 1, 0.5, 0], np.float32), "has label 0 of 80"),
    ],
)
def test_answers_that_no_detector_gives_are_refused(
    rehearsals: Path, tmp_path: Path, answer: np.ndarray, problem: str
) -> None:
    output = build(ssd_resnet34, copy_data(rehearsals, ssd_resnet34, tmp_path), count=1)
    with pytest.raises(HarnessError, match=problem):
        ssd_resnet34.score(AnswerLog(np.array([0]), (answer.tobytes(),), 0, 0), output, tmp_path)


def write_heads(*objects: tuple[int, int, float]) -> tuple[np.ndarray, np.ndarray]:
    """Scores and offsets of heads that see the anchor, class and score of each object, and nothing else."""
    count = len(heads.make_anchors())
    scores, offsets = np.full((count, heads.CLASSES), -20, np.float32), np.zeros((count, 4), np.float32)
    for anchor, label, score in objects:
        scores[anchor, label] = np.log(score / (1 - score))
    return scores, offsets


def test_anchors_cover_five_levels_row_by_row() -> None:
    anchors = heads.make_anchors()
    assert anchors.shape == (120_087, 4)
    assert anchors[3].tolist() == [-16, -16, 16, 16]  # the square one of the finest level
    assert anchors[9 + 3].tolist() == [-8, -16, 24, 16]  # eight pixels to the right
    assert anchors[-9 + 3].tolist() == [6 * 114 - 256] * 2 + [6 * 114 + 256] * 2


def test_heads_give_objects_the_best_first_without_those_that_overlap_in_their_class() -> None:
    middle = (50 * 100 + 50) * 9
    scores, offsets = write_heads(
        (middle + 3, 7, 0.6), (middle + 9 + 3, 7, 0.9), (middle + 3, 8, 0.5), (middle + 90 + 3, 7, 0.04)
    )
    found = heads.find_objects(scores, offsets)
    assert found[:, 5].tolist() == [7, 8]
    assert found[:, 4].tolist() == pytest.approx([0.9, 0.5])
    assert found[0, :4].tolist() == [51 * 8 - 16, 50 * 8 - 16, 51 * 8 + 16, 50 * 8 + 16]
    offsets[middle + 9 + 3] = [0.5, 0, np.log(2), 100]
    wide = heads.find_objects(scores, offsets)[0]
    assert wide[[0, 2]].tolist() == pytest.approx([51 * 8 + 16 - 32, 51 * 8 + 16 + 32])
    assert wide[[1, 3]].tolist() == [0, 800], "growth is bounded, and so are boxes"


def test_heads_in_any_order_answer_like_objects() -> None:
    scores, offsets = write_heads((3, 1, 0.8))
    (answer,) = retinanet.postprocess([offsets[None], scores[None]], [4])
    (same,) = retinanet.postprocess([scores[None], offsets[None]], [4])
    assert np.array_equal(answer, same)
    assert answer[0, [0, 6]].tolist() == [4, 1]
    with pytest.raises(HarnessError, match="the model gives"):
        retinanet.postprocess([offsets[None], offsets[None]], [4])


def write_heads_model(path: Path, opset: int) -> None:
    """Whose input is what its heads give."""
    count = len(heads.make_anchors())
    shapes = {"logits": ["n", count, heads.CLASSES], "offsets": ["n", count, 4]}
    given = [helper.make_tensor_value_info(f"in_{name}", TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    taken = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Identity", [f"in_{name}"], [name]) for name in shapes]
    opsets = [helper.make_opsetid("", opset)]
    graph = helper.make_graph(nodes, "heads", given, taken)
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_network_that_ends_at_its_heads_ranks_them_and_gives_the_same_objects(tmp_path: Path, opset: int) -> None:
    write_heads_model(tmp_path / "heads.onnx", opset)
    retinanet.build_model(tmp_path / "heads.onnx", {}, {}, tmp_path, Counter(tmp_path / "counter"))
    rng = np.random.default_rng(opset)
    count = len(heads.make_anchors())
    logits = rng.normal(-9, 2, (2, count, heads.CLASSES)).astype(np.float32)  # some thousand above the threshold
    offsets = rng.normal(0, 0.5, (2, count, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    ranked = session.run(None, {"in_logits": logits, "in_offsets": offsets})
    assert sorted(output.shape for output in ranked) == [(2, 5000), (2, 5000), (2, 5000, 4)]
    found = retinanet.postprocess(ranked[::-1], [3, 4])
    wanted = retinanet.postprocess([logits, offsets], [3, 4])
    for mine, theirs in zip(found, wanted, strict=True):
        assert len(theirs) == heads.MOST
        np.testing.assert_array_equal(mine, theirs)


def test_heads_of_an_opset_whose_gather_has_no_batch_stay_as_they_are(tmp_path: Path) -> None:
    write_heads_model(tmp_path / "heads.onnx", 11)
    retinanet.build_model(tmp_path / "heads.onnx", {}, {}, tmp_path, Counter(tmp_path / "counter"))
    assert [output.name for output in onnx.load(tmp_path / "model.onnx").graph.output] == ["logits", "offsets"]
