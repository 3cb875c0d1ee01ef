"""Where the kit of a power meter is."""

from __future__ import annotations

from pathlib import Path

from tests.unit.spec.writing import load_texts, replaced


def test_the_location_of_the_kit_may_name_a_variable(tmp_path: Path) -> None:
    meter = "power: {director: 'there:4950', kit: '${MLPERF_KIT}/power-dev'}"
    text = replaced("status: available}", f"status: available, {meter}}}")
    declared = load_texts(tmp_path, {"MLPERF_KIT": "/mnt/share"}, main=text)
    assert declared.systems["box"].settings["power.kit"].value == "/mnt/share/power-dev"
