"""The extras that a cell needs whose engine a server of Triton runs."""

from __future__ import annotations

import pytest

from reconciler.resource.settings import CellSettings
from reconciler.tree.assemble import list_extras


@pytest.mark.parametrize(
    ("settings", "extras"),
    [
        ({"benchmark.code": "digits"}, {"triton", "cpu"}),
        ({"benchmark.code": "resnet50", "engine.options.made_by": "tensorrt"}, {"triton", "tensorrt", "resnet50"}),
    ],
    ids=["by default", "another backend's engine"],
)
def test_the_backend_that_makes_an_engine_for_a_server_is_an_extra(
    settings: dict[str, object], extras: set[str]
) -> None:
    assert set(list_extras(CellSettings({"engine.backend": "triton", **settings}))) == extras
