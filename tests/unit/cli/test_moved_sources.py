"""A path that was changed to one that is not here, while records answer for what it named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from reconciler.reconcile.moved_sources import list_moved_sources
from reconciler.storage.packaged_files import read_shipped
from tests.passes.repository import HERE, SPEC, Repository, make_repository, make_whole
from tests.shared import make_once
from tests.unit.cli.conftest import Reconcile

WRITTEN = "${MODELS}/net.onnx"
SPEC_TEXT = (HERE / "source-model" / "spec.yaml").read_text(encoding="utf-8")


def make(root: Path) -> Repository:
    repository = make_repository(root, SPEC_TEXT.replace(WRITTEN, "models/net.onnx"))
    repository.write("models/net.onnx", "first")
    return repository


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Repository:
    """With a recorded model, made of models/net.onnx."""
    made = make_once(tmp_path_factory, "moved-sources", lambda folder: make_whole(folder, make))
    return made.copy(tmp_path / "repository")


def test_a_path_that_names_nothing_here_is_reported_while_the_record_counts(
    repository: Repository, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.edit(SPEC, "models/net.onnx", "models/nett.onnx")
    for _ in range(2):  # also of a compiled spec
        seen = repository.look()
        assert seen.plan.in_sync
        (note,) = list_moved_sources(seen)
        assert str(note).startswith("tiny: model.path models/nett.onnx is not on this machine;")
        assert "made from models/net.onnx" in str(note)
    monkeypatch.chdir(repository.root)
    for command in (["plan"], ["plan", "--by", "2999-01-01"], ["status"], ["why", "Offline"]):
        assert str(note) in reconcile.succeed(*command).splitlines(), command
        document = reconcile.report(*command, ends=0)
        reported = {"field": "model.path", "path": "models/nett.onnx", "before": "models/net.onnx"}
        assert document["moved_sources"] == [{"address": "Model:tiny", **reported}], command
        if command[0] == "plan":
            jsonschema.validate(document, json.loads(read_shipped("schemas/plan.schema.json")))


def test_a_saved_plan_has_nothing_of_it_and_a_printed_one_is_carried_out(
    repository: Repository, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.edit(SPEC, "models/net.onnx", "models/nett.onnx")
    monkeypatch.chdir(repository.root)
    assert reconcile("plan", "-o", "saved.json")[0] == 0
    assert "moved_sources" not in json.loads((repository.root / "saved.json").read_text(encoding="utf-8"))
    (repository.root / "printed.json").write_text(reconcile.succeed("plan", "-o", "-"), encoding="utf-8")
    assert reconcile("apply", "printed.json")[0] == 0


def test_a_clone_without_the_file_is_not_reported(repository: Repository) -> None:
    shutil.rmtree(repository.root / "models")
    shutil.rmtree(repository.paths.index)
    seen = repository.look()
    assert seen.plan.in_sync
    assert seen.recorded_sources
    assert list_moved_sources(seen) == ()


@pytest.mark.parametrize(
    "written", ["./models/net.onnx", "specs/../models/net.onnx", "{root}/models/net.onnx", WRITTEN]
)
def test_another_spelling_is_no_report(written: str, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clone without the file, which cannot recognise it by its bytes."""
    monkeypatch.setenv("MODELS", str(repository.root / "models"))
    repository.edit(SPEC, "models/net.onnx", written.replace("{root}", str(repository.root)))
    shutil.rmtree(repository.root / "models")
    seen = repository.look()
    assert seen.plan.in_sync
    assert seen.recorded_sources
    assert list_moved_sources(seen) == ()


def test_a_file_that_moved_is_not_reported(repository: Repository) -> None:
    repository.edit(SPEC, "models/net.onnx", "elsewhere/net.onnx")
    assert list_moved_sources(repository.look())
    (repository.root / "models").rename(repository.root / "elsewhere")
    seen = repository.look()
    assert seen.plan.in_sync
    assert list_moved_sources(seen) == ()


def test_a_variable_is_no_other_path(tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each machine has its own."""
    monkeypatch.setenv("MODELS", str(repository.root / "models"))
    repository.edit(SPEC, "models/net.onnx", WRITTEN)
    repository.reconcile(rerun=("kind=Model",))
    shutil.rmtree(repository.root / "models")
    monkeypatch.setenv("MODELS", str(tmp_path / "nowhere"))
    seen = repository.look()
    assert seen.plan.in_sync
    assert list_moved_sources(seen) == ()
    monkeypatch.delenv("MODELS")
    assert list_moved_sources(repository.look()) == ()
    repository.edit(SPEC, WRITTEN, "${MODELS}/nett.onnx")
    (note,) = list_moved_sources(repository.look())
    assert "model.path ${MODELS}/nett.onnx" in str(note)
    assert str(tmp_path) not in str(note)
