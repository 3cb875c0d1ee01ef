"""`reconcile show` of a cell that takes a preset: what it set, and where that was published."""

from __future__ import annotations

from pathlib import Path

from .conftest import Reconcile, edit

CELL = "open/box/digits/Offline"


def test_show_names_the_preset_and_its_source(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, '      engine: {backend: "null", batch_size: 8}\n', "      use: [h200/vllm]\n")
    edit(recorded, "as: resnet", "as: llama3.1-8b")
    out = reconcile.succeed("show", CELL)
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["run.options.sequences"].split()[1:] == ["630", "preset", "h200/vllm"]
    assert "open/Krai/measurements" in lines["preset.h200/vllm"]
    settings = reconcile.report("show", CELL)["settings"]
    found = settings["engine.backend"]
    assert (found["value"], found["origin"]) == ("vllm", "preset h200/vllm")
