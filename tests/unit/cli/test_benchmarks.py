"""`reconcile benchmarks`."""

from __future__ import annotations

import json

from click.testing import CliRunner

from reconciler.cli.benchmarks import command
from reconciler.errors import ReconcilerError


def test_the_list_names_each_with_its_rounds() -> None:
    told = CliRunner().invoke(command, [], standalone_mode=False)
    (row,) = [line for line in told.output.splitlines() if line.startswith("resnet50")]
    assert "v4.1 to v6.1" in row
    document = json.loads(CliRunner().invoke(command, ["--json"], standalone_mode=False).output)
    assert document["benchmarks"][0]["rounds"]["v4.1"]["datacenter"] == ["Server", "Offline"]


def test_a_page_says_what_must_be_on_disk_and_where_to_get_it() -> None:
    told = CliRunner().invoke(command, ["show", "resnet"], standalone_mode=False).output
    for part in ("val_map.txt", "image-net.org", "resnet50_v1.onnx", "input_tensor:0 float32 [3, 224, 224]"):
        assert part in told


def test_an_unknown_name_gets_the_nearest() -> None:
    told = CliRunner().invoke(command, ["show", "resnet51"], standalone_mode=False)
    assert isinstance(told.exception, ReconcilerError)
    assert "did you mean resnet50?" in told.exception.fix
