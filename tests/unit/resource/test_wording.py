from __future__ import annotations

from typing import Any

import pytest

from reconciler.resource.kinds import Kind
from reconciler.resource.wording import name_setting, shorten_value, show_value


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("target_latency", 15_000_000, "15 ms"),
        ("target_latency", "1500", "1.5 µs"),
        ("target_latency", 1_234_567, "1234.567 µs"),
        ("min_duration", 600_000, "10 min"),
        ("min_duration", 0, "0"),
        ("run.queue_delay", 250, "250 µs"),
        ("hardware.power_limit", 450_000, "450 W"),
        ("target_qps", "54", "54"),
        ("rehearsal", True, "true"),
        ("x", None, "not set"),
        ("x", "", '""'),
        ("source", "ab" * 32, "abababababab"),
        ("x", ["a", 1], '["a", 1]'),
        ("min_duration", "odd", "odd"),
    ],
)
def test_value_text(name: str, value: Any, text: str) -> None:
    assert show_value(name, value) == text


def test_names_lose_the_prefix_of_their_own_kind_only() -> None:
    assert name_setting("engine.batch_size", Kind.ENGINE) == "batch_size"
    assert name_setting("engine.batch_size", Kind.RUN) == "engine.batch_size"


def test_short_keeps_both_ends() -> None:
    assert shorten_value("/a/very/long/path/to/some/model.onnx", 16) == "/a/very/…el.onnx"
    assert shorten_value("two\nlines") == "two lines"
