"""Compare our samples, painted points, pillars, answers and score with the reference's: ``python -m
tests.benchmarks.reference_pointpainting CHECKOUT [--full N]``.

CHECKOUT is one of mlcommons/inference with automotive/3d-object-detection. Scenes and networks are a rehearsal's; the
reference runs them with its ONNX backend, from the same files. ``--full``: compare its networks of full size with
random weights, saved like its checkpoints, with our programs for torch.export on N scenes. Needs PyTorch, numba, tqdm,
Pillow and shapely. The reference calls two transforms of torchvision, one function of open3d and none of pandas: these
are replaced here, and shapely's polygons suppress boxes.

Prints the largest differences. Exits with 1 if they exceed float32 rounding.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import pointpainting
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.pointpainting import DETECTION_ONNX, SEGMENTATION_ONNX, loop
from harness.benchmarks.pointpainting.infos import DETECTION
from harness.benchmarks.pointpainting.points import group_points, paint_points
from harness.benchmarks.pointpainting.rehearsal import FOLDER, _open_parts, answer, write_rehearsal
from harness.contract import Counter
from tests.benchmarks.comparing import write_data, write_log

_FOLDER = "automotive/3d-object-detection"
_SCENES = 24
_TOLERANCE = 1e-4  # of scores, and of metres
_PIXELS = 0.05  # of rectangles, which a small turn of a near box moves far


def stand_in(torch: Any) -> None:
    """Replace modules that the reference imports but hardly uses."""
    for name in ("pandas", "torchvision", "open3d", "open3d.ml", "open3d.ml.torch"):
        sys.modules[name] = types.ModuleType(name)

    def to_tensor(image: Any) -> Any:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)

    def normalize(mean: Sequence[float], std: Sequence[float]) -> Any:
        columns = [torch.tensor(values)[:, None, None] for values in (mean, std)]
        return lambda picture: picture.sub(columns[0]).div(columns[1])

    def compose(steps: Sequence[Any]) -> Any:
        def run(value: Any) -> Any:
            for step in steps:
                value = step(value)
            return value

        return run

    transforms: Any = types.SimpleNamespace(ToTensor=lambda: to_tensor, Normalize=normalize, Compose=compose)
    sys.modules["torchvision"].transforms = transforms  # type: ignore[attr-defined]
    sys.modules["open3d.ml.torch"].ops = types.SimpleNamespace(nms=suppress)  # type: ignore[attr-defined]
    sys.modules["open3d.ml"].torch = sys.modules["open3d.ml.torch"]  # type: ignore[attr-defined]
    sys.modules["open3d"].ml = sys.modules["open3d.ml"]  # type: ignore[attr-defined]


def suppress(boxes: Any, scores: Any, overlap: float) -> Any:
    """Suppress boxes as documented for open3d.ml.torch.ops.nms: boxes [n, 5] by corners and angle, best first."""
    torch, affinity = importlib.import_module("torch"), importlib.import_module("shapely.affinity")
    box = importlib.import_module("shapely.geometry").box
    polygons = [affinity.rotate(box(*row[:4]), -row[4], use_radians=True) for row in boxes.double().tolist()]
    kept: list[int] = []
    for place in torch.argsort(scores, descending=True, stable=True).tolist():
        mine = polygons[place]
        if all(mine.intersection(polygons[k]).area <= overlap * mine.union(polygons[k]).area for k in kept):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.long)


class Differences:
    """The largest difference of each kind and its limit."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, float]] = {}

    def compare(self, name: str, ours: Any, theirs: Any, allowed: float = 0.0) -> None:
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        largest = float(np.abs(ours - theirs).max(initial=0)) if ours.shape == theirs.shape else float("inf")
        self._found[name] = (max(largest, self._found.get(name, (0.0, 0.0))[0]), allowed)

    def report(self) -> int:
        for name, (largest, allowed) in self._found.items():
            print(f"{name}: differ by {largest:.3g}" + (f", {allowed:g} allowed" if allowed else ""))
        return int(any(largest > allowed for largest, allowed in self._found.values()))


def compare_scenes(folder: Path, torch: Any, found: Differences) -> list[np.ndarray]:
    """Return the reference's answers to all scenes."""
    data, networks, dataset = folder / "data", folder / "models" / FOLDER, folder / "dataset"
    samples = pointpainting.BENCHMARK.load_samples(dataset)
    sessions = _open_parts(networks, folder / "parts", Counter(folder / "counter"))
    waymo, backend_onnx = importlib.import_module("waymo"), importlib.import_module("backend_onnx")
    theirs = waymo.Waymo(data_root=str(data), split="val", painted=True, cam_sync=False)
    backend = backend_onnx.BackendOnnx(
        segmentor_path=str(networks / SEGMENTATION_ONNX),
        lidar_detector_path=str(networks / DETECTION_ONNX),
        data_path=str(data),
    ).load()
    given = keep_calls(backend.painter, "augment_lidar_class_scores_both"), keep_calls(backend, "model_pre")
    after, answers = waymo.PostProcessWaymo(), []
    for row in range(_SCENES):
        scene = {name: array[row] for name, array in samples.items()}
        items, _ = theirs.get_samples([row])
        pictures = [((p / np.float32(255) - MEAN) / DEVIATION).transpose(2, 0, 1) for p in list_pictures(scene)]
        for picture, wanted in zip(pictures, items[0]["images"], strict=True):
            found.compare("pictures", picture, wanted[0].numpy())
        found.compare("points", scene["points"], items[0]["pts"].numpy())
        wanted_rows = np.array(after(backend.predict(items), [row], items, {})[0], np.float32)
        ours, asked = answer(sessions, scene)
        painted, (points, cells, counts) = given[0].pop().numpy(), (part.numpy() for part in given[1].pop())
        found.compare("painted points", paint(sessions, scene), painted, _TOLERANCE)
        pillars = group_points(painted)
        found.compare("pillars of the same points", pillars.points, points)
        found.compare("cells", pillars.cells, cells[:, 1:3])
        found.compare("counts", pillars.counts, counts)
        found.compare("what the second network is given", asked["pillars"][0, : len(points)], points, _TOLERANCE)
        found.compare("answers", np.delete(ours, np.s_[7:11], 1), np.delete(wanted_rows, np.s_[7:11], 1), _TOLERANCE)
        found.compare("rectangles", ours[:, 7:11], wanted_rows[:, 7:11], _PIXELS * np.abs(wanted_rows[:, 7:11]).max())
        answers.append(wanted_rows)
    return answers


def keep_calls(owner: Any, name: str) -> list[Any]:
    """Keep the results of a function of the reference."""
    inner, kept = getattr(owner, name), []

    def call(*arguments: Any, **named: Any) -> Any:
        kept.append(inner(*arguments, **named))
        return kept[-1]

    object.__setattr__(owner, name, call)
    return kept


def list_pictures(scene: Mapping[str, Any]) -> list[np.ndarray]:
    return [*scene["front"], *scene["side"]]


def paint(sessions: Mapping[str, Any], scene: Mapping[str, Any]) -> np.ndarray:
    seen = [picture for part in ("front", "side") for picture in sessions[part].compute({"images": scene[part]})[0]]
    return paint_points(scene["points"], scene["matrices"], seen)


def compare_scores(checkout: Path, folder: Path, answers: Sequence[np.ndarray]) -> int:
    """Compare the official script's line with ours for right, half-right and random answers."""
    rng, failed = np.random.default_rng(5), 0
    numbers = np.concatenate([answers[0][:0], *answers])[:, -1]
    for name, changed in {
        "right": list(answers),
        "half-right": [move(rng, rows, 0.5, 0.3) for rows in answers],
        "random": [move(rng, rows, 1.0, 0.5) for rows in answers],
    }.items():
        assert np.array_equal(np.concatenate(changed)[:, -1], numbers)
        log = write_log(folder, (rows.astype(np.float32) for rows in changed))
        arguments = ["--mlperf-accuracy-file", str(log), "--waymo-dir", str(folder / "data")]
        reported = run_script(checkout, [*arguments, "--output-file", str(folder / "results.json")])
        (folder / name).mkdir()
        pointpainting.BENCHMARK.score(read_accuracy_log(log), folder / "dataset", folder / name)
        ours = (folder / name / "accuracy.txt").read_text().strip()
        print(f"{name}:\n  theirs {reported}\n  ours   {ours}")
        failed |= reported != ours
    return failed


def move(rng: np.random.Generator, rows: np.ndarray, share: float, reach: float) -> np.ndarray:
    """Move some rows elsewhere, with other angles, sizes and scores."""
    chosen = rng.random(len(rows)) < share
    moved = rows.copy()
    moved[chosen, 3:7] += rng.normal(0, reach, (int(chosen.sum()), 4)).astype(np.float32)
    moved[chosen, :3] *= rng.uniform(0.9, 1.1, (int(chosen.sum()), 3)).astype(np.float32)
    moved[:, 12] = rng.uniform(0.1, 1, len(rows))
    moved[rows[:, 0] < 0] = rows[rows[:, 0] < 0]
    return moved


def run_script(checkout: Path, arguments: Sequence[str]) -> str:
    """Run the script in this process with the replaced modules. NumPy 1 printed numbers without their types."""
    script = importlib.import_module("accuracy_waymo")
    printed, before = io.StringIO(), sys.argv
    sys.argv = [str(checkout / _FOLDER / "accuracy_waymo.py"), *arguments]
    try:
        with contextlib.redirect_stdout(printed), np.errstate(all="ignore"), np.printoptions(legacy="1.25"):
            script.main()
    finally:
        sys.argv = before
    return printed.getvalue().strip().splitlines()[-1]


def compare_networks(folder: Path, torch: Any, count: int, found: Differences) -> None:
    """Compare weights that the reference saved and our reader read."""
    program = importlib.import_module("harness.benchmarks.pointpainting.program")
    torch.manual_seed(1)
    core = importlib.import_module("model.pointpillars_core").PointPillarsCore(painted=True).eval()
    segmentation = importlib.import_module("model.segmentation").modeling.deeplabv3plus_resnet50(
        num_classes=19, output_stride=16, pretrained_backbone=False
    ).eval()  # fmt: skip
    for network, name, file in ((core, "model_state_dict", "pp.pth"), (segmentation, "model_state", "deeplab.pth")):
        for module in network.modules():
            if hasattr(module, "running_var"):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.data.uniform_(0.5, 1.5)
        torch.save({name: network.state_dict()}, folder / file)
    core.head.conv_cls.weight.data.normal_(0, 0.2)  # scores that differ
    torch.save({"model_state_dict": core.state_dict()}, folder / "pp.pth")
    ours = program.DeepLab(program._read_weights(folder / "deeplab.pth", "model_state")).eval()
    pillars = program.PointPillars(program._read_weights(folder / "pp.pth", "model_state_dict")).eval()
    samples = pointpainting.BENCHMARK.load_samples(folder / "dataset")
    for row in range(count):
        scene = {name: array[row] for name, array in samples.items()}
        with torch.no_grad():
            images = torch.from_numpy(np.array(scene["front"]))
            given = ((images.float() / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).permute(0, 3, 1, 2)
            wanted = segmentation(given)
            made = ours(images)["scores"]
            found.compare("DeepLabV3+", made / wanted.abs().max(), wanted / wanted.abs().max(), _TOLERANCE)
            asked = run_until_detection(scene)
            wanted = core(*(torch.from_numpy(values[0]) for values in asked.values()))[0]
            made = pillars(*(torch.from_numpy(values) for values in asked.values()))["boxes"][0]
            likely = made[:, 7:10].amax(dim=1)
            found.compare("PointPillars' scores", likely, wanted[:, 7:10].amax(dim=1), _TOLERANCE)
            # Scores that are alike within what float32 rounds may stand in another order, and the last be left out.
            made = made[likely > likely[-1] + _TOLERANCE]
            nearest = torch.cdist(made, wanted).argmin(dim=1)
            found.compare("PointPillars", made, wanted[nearest], _TOLERANCE * float(wanted.abs().max()))
            print(f"PointPillars: {len(made)} of {len(wanted)} boxes compared")


def run_until_detection(scene: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input of the second network if the first one finds nothing in particular."""
    steps = loop(scene)
    asked = next(steps)
    while isinstance(asked, tuple) and asked[0] != DETECTION:
        images = asked[1]["images"]
        asked = steps.send([np.zeros((len(images), 19, *images.shape[1:3]), np.float32)])
    assert isinstance(asked, tuple)
    return asked[1]


MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--full", type=int, default=0)
    asked = parser.parse_args(arguments)
    torch = importlib.import_module("torch")
    stand_in(torch)
    sys.path.insert(0, str(asked.checkout.resolve() / _FOLDER))
    found = Differences()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "parts").mkdir()
        data, _, dataset, counter = write_data(write_rehearsal, folder, count=_SCENES, seed=2)
        pointpainting.BENCHMARK.build_dataset(data, {}, dataset, counter)
        answers = compare_scenes(folder, torch, found)
        print(f"{_SCENES} scenes, {sum(len(rows) for rows in answers)} objects")
        if asked.full:
            compare_networks(folder, torch, asked.full, found)
        failed = compare_scores(asked.checkout.resolve(), folder, answers)
    return found.report() | failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
