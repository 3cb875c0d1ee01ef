"""`reconcile rehearse` without a name: what has its packages here; the rest is reported of."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contract import BENCHMARKS
from reconciler.cli.main import main
from reconciler.errors import ReconcilerError
from reconciler.rehearse import rehearsal
from reconciler.rehearse.rehearsal_spec import Rehearsed

_CPU = {"mlperf-reconciler": "0.1.0", "onnxruntime": "1.0", "opencv-python": "4.0", "tokenizers": "0.20"}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Codes of the benchmarks that would be rehearsed."""
    found: list[str] = []

    def stop(benchmarks: list[Rehearsed]) -> str:
        found.extend(item.facts.code for item in benchmarks)
        raise ReconcilerError("far enough")

    monkeypatch.setattr(rehearsal, "choose_round", stop)
    return found


def test_what_lacks_packages_is_left_out_and_named(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: _CPU)
    assert main(["rehearse", "--output", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert {"resnet50", "bert"} <= set(chosen)
    assert {"rgat", "unet3d", "llama3_1_8b"}.isdisjoint(chosen)
    assert all(BENCHMARKS[code].rehearsed for code in chosen)
    assert "3d-unet (nibabel and scipy)" in said.out
    assert "pip install 'mlperf-reconciler[" in said.out


def test_what_is_named_is_not_left_out(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: _CPU)
    assert main(["rehearse", "resnet50", "--output", str(tmp_path)]) == 1
    assert chosen == ["resnet50"]
    capsys.readouterr()
    assert main(["rehearse", "resnet50,rgat", "--output", str(tmp_path)]) == 1
    assert "packages are missing for the rehearsal: rgat (torch)" in capsys.readouterr().err
    assert chosen == ["resnet50"]  # nothing is generated of either


def test_a_machine_with_none_of_them_learns_what_to_install(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: {"mlperf-reconciler": "0.1.0"})
    assert main(["rehearse", "--output", str(tmp_path)]) == 1
    assert not chosen
    assert "no benchmark can be rehearsed here" in capsys.readouterr().err
