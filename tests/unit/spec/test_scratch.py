"""Datasets and models of a spec without paths: in the scratch space of the guides, visibly, on no key."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from reconciler.reconcile import planning
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Address, Kind
from reconciler.spec.loading import load
from reconciler.storage.files import RepositoryPaths
from tests.unit.cli.conftest import git
from tests.unit.spec.writing import catch_problems, give_head

SPEC = give_head("""\
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    resnet50: {engine: {backend: onnxruntime, batch_size: 4}, MORE}
  divisions:
    closed: {box: {resnet50: {Offline: {target_qps: 100}, Server: {target_qps: 90}}}}
""").replace("v6.1", "v4.1")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the guides have it, with an image and a model that no one will open."""
    root = tmp_path / "scratch"
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(root))
    for path in ("data/imagenet/val_map.txt", "models/resnet50/resnet50_v1.onnx"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("there")
    return root


def write_repository(folder: Path, more: str = "") -> Path:
    (folder / "specs").mkdir(parents=True, exist_ok=True)
    (folder / "specs/one.yaml").write_text(SPEC.replace(", MORE", f", {more}" if more else ""))
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    return folder


def read_settings(folder: Path) -> dict[str, Value]:
    declared = load([folder / "specs"], folder, os.environ)
    return dict(declared.cells[0].settings)


def plan(folder: Path) -> PlanResult:
    return compute_plan(RepositoryPaths(folder), Options())


def find_blocked(seen: PlanResult, kind: Kind) -> str:
    return next(step.blocked for step in seen.plan.steps if step.change.address.kind is kind)


def test_paths_that_no_one_wrote_are_of_the_scratch_space_with_origin(tmp_path: Path, scratch: Path) -> None:
    settings = read_settings(write_repository(tmp_path / "repo"))
    assert settings["dataset.path"].value == f"{scratch}/data/imagenet"
    assert settings["model.path"].value == f"{scratch}/models/resnet50/resnet50_v1.onnx"  # the second place is there
    assert {str(settings[f"{kind}.path"].origin) for kind in ("dataset", "model")} == {"MLPERF_SCRATCH_PATH"}


def test_a_written_path_wins(tmp_path: Path, scratch: Path) -> None:
    settings = read_settings(write_repository(tmp_path / "repo", "model: {path: own.onnx}"))
    assert settings["model.path"].value == "own.onnx"
    assert "model.looked_for" not in settings
    assert settings["dataset.path"].value == f"{scratch}/data/imagenet"


def test_other_benchmarks_of_the_guides_need_nothing_else_and_are_fetched_by_their_names(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_repository(tmp_path / "repo")
    spec = root / "specs/one.yaml"
    more = "".join(f"    {name}: {{engine: {{backend: onnxruntime}}}}\n" for name in ("bert-99", "dlrm-v2-99"))
    cells = "".join(f"{name}: {{Offline: {{target_qps: 9}}}}, " for name in ("bert-99", "dlrm-v2-99"))
    text = (
        spec.read_text()
        .replace("  divisions:", f"{more}  divisions:")
        .replace("box: {resnet50", f"box: {{{cells}resnet50")
    )
    spec.write_text(text)
    monkeypatch.setattr(planning, "read_conf_here", lambda: None)  # whichever round's LoadGen is here
    fixes = {step.fix for step in plan(root).plan.steps if step.change.address.kind is Kind.DATASET and step.blocked}
    assert {fix.split("`")[1] for fix in fixes} == {"reconcile fetch bert", "reconcile fetch dlrm-v2"}
    for path in ("data/squad/dev-v1.1.json", "data/criteo/day23/day_23_dense.npy", "models/bert/bert_large_v1_1.onnx"):
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / path).write_text("there")
    (scratch / "models/dlrm/model_weights").mkdir(parents=True)
    assert {step.blocked for step in plan(root).plan.steps} == {""}


def test_what_is_in_none_of_its_places_is_reported_with_all_of_them(tmp_path: Path, scratch: Path) -> None:
    (scratch / "models/resnet50/resnet50_v1.onnx").unlink()
    seen = plan(write_repository(tmp_path / "repo"))
    for place in ("models/ResNet50/resnet50_v1.onnx", "models/resnet50/resnet50_v1.onnx"):
        assert f"{scratch}/{place}" in find_blocked(seen, Kind.MODEL)
    fix = next(step.fix for step in seen.plan.steps if step.change.address.kind is Kind.MODEL)
    assert "reconcile fetch resnet50" in fix
    assert "MLPERF_SCRATCH_PATH" in fix


def test_another_model_than_the_spec_declares_is_reported_before_all_else(tmp_path: Path, scratch: Path) -> None:
    right = hashlib.sha256(b"there").hexdigest()
    assert find_blocked(plan(write_repository(tmp_path / "repo", f"model: {{sha256: {right}}}")), Kind.MODEL) == ""
    seen = plan(write_repository(tmp_path / "repo", f"model: {{sha256: {'0' * 64}}}"))
    assert f"resnet50_v1.onnx has the sha256 {right}, but the spec declares {'0' * 64}" in find_blocked(
        seen, Kind.MODEL
    )


def test_a_place_that_appears_is_seen_though_the_spec_is_as_it_was(tmp_path: Path, scratch: Path) -> None:
    root = write_repository(tmp_path / "repo")
    moved = scratch / "models/ResNet50"
    address = Address(Kind.MODEL, "resnet50")
    assert "/resnet50/" in plan(root).desired.detail(address).locations["model.path"]
    (scratch / "models/resnet50").rename(moved)
    assert plan(root).desired.detail(address).locations["model.path"] == str(moved / "resnet50_v1.onnx")


def test_where_it_lies_makes_nothing_stale(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_repository(tmp_path / "repo")
    before = {resource.address: resource.key for resource in plan(root).desired.resources}
    moved = scratch.rename(tmp_path / "moved")
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(moved))
    assert {resource.address: resource.key for resource in plan(root).desired.resources} == before


@pytest.mark.parametrize("named", ["~/scratch", "scratch"])
def test_a_variable_without_a_place_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", named)
    (problem,) = catch_problems(read_settings, write_repository(tmp_path / "repo"))
    assert (problem.file, problem.path) == ("specs/one.yaml", "spec.benchmarks.resnet50")
    assert named in problem.message


def test_a_commit_is_read_without_any_scratch_space(tmp_path: Path) -> None:
    root = write_repository(tmp_path / "repo")
    declared = load([root / "specs"], root, {"MLPERF_SCRATCH_PATH": "${MLPERF_SCRATCH_PATH}"})
    assert declared.cells[0].settings["dataset.path"].value == "${MLPERF_SCRATCH_PATH}/data/imagenet"
