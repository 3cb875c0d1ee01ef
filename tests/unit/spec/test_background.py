"""Cells in the background of another: their settings go with its own, and what cannot be driven is refused."""

from __future__ import annotations

import pytest

from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Cell
from reconciler.spec.background import expand_backgrounds
from reconciler.spec.declared import DeclaredCell

HERE = Origin("specs/a.yaml", 7, 3)
OWN = {"engine.backend": "tensorrt", "run.streams": 2, "target_qps": "5", "measurements.input_data_types": "int8"}
SLICED = {**OWN, "hardware.mig": "7x 1g.10gb"}


def declare(benchmark: str, **settings: object) -> DeclaredCell:
    cell = Cell("closed", "box", benchmark, "Offline")
    values = {name.replace("__", "."): Value(value, HERE) for name, value in {**SLICED, **settings}.items()}
    return DeclaredCell(cell, values, Value(str(cell), HERE))


def test_what_a_cell_is_driven_by_goes_with_the_one_that_it_accompanies() -> None:
    names = ("bert/Offline", "rnnt/Offline")
    (resnet, *others), problems = expand_backgrounds(
        [declare("resnet", background=names), declare("bert"), declare("rnnt", run__streams=9)]
    )
    assert problems == []
    found = {name: value.value for name, value in resnet.settings.items() if name.startswith("background.")}
    assert found == {
        "background.0.engine.backend": "tensorrt",
        "background.0.run.streams": 2,
        "background.1.engine.backend": "tensorrt",
        "background.1.run.streams": 9,
    }
    assert not any(name.startswith("background") for other in others for name in other.settings)


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ({}, {"engine__backend": "vllm"}, "its backend makes no batches"),
        ({}, {"harness__command": ["run"]}, "a command runs it"),
        ({}, {"infer_from": "Server"}, "it has no runs of its own"),
        ({"harness__command": ["run"]}, {}, "a command is run without a background"),
        ({"background": ("bert/Server",)}, {}, "bert/Server is not a cell of closed/box"),
    ],
)
def test_what_cannot_be_in_the_background_is_named_and_left_out(
    own: dict[str, object], other: dict[str, object], said: str
) -> None:
    cells = [declare("resnet", **{"background": ("bert/Offline",), **own}), declare("bert", **other)]
    (resnet, _), problems = expand_backgrounds(cells)
    assert [said in problem.message for problem in problems] == [True]
    assert (problems[0].file, problems[0].line) == ("specs/a.yaml", 7)
    assert problems[0].path == "closed.box.resnet.Offline.background"
    assert "background" not in resnet.settings
