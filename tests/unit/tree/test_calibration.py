"""The calibration document as records tell it."""

from __future__ import annotations

from reconciler.tree.calibration import Calibration, render_calibration

MADE = {
    "precision": "int8",
    "samples": 500,
    "document": "# Calibration\n\nPost-training quantization to int8.\n",
    "comparison": {"x": 1.0, "cosine": 0.999},  # floats, as a child measures them
}


def test_models_that_were_made_alike_share_a_section() -> None:
    one = Calibration(("closed/box/resnet/Offline",), "resnet", "int8", {"precision": "int8"}, MADE, "ab" * 32)
    other = Calibration(("closed/box/resnet/Server",), "resnet", "int8", {"precision": "int8"}, MADE, "ab" * 32)
    third = Calibration(
        ("closed/small/resnet/Offline",), "resnet", "int8", {"precision": "int8"}, {**MADE, "samples": 9}
    )
    text = render_calibration([third, other, one]).decode()
    assert text.count("## resnet") == 2
    assert "Of closed/box/resnet/Offline and closed/box/resnet/Server." in text
    assert "- samples: 500" in text
    assert text.count("Post-training quantization to int8.") == 2
    assert text.count("# Calibration\n") == 1
    assert "comparison" not in text
    assert render_calibration([one, other, third]) == render_calibration([third, other, one])
