"""Values in JSON reports: numbers are numbers if they stay exactly the same; and long lines of text."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.render.documents import convert_decimal_text, convert_setting
from reconciler.render.table import fold_line


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("target_qps", "6.75", 6.75),
        ("compliance.target_qps", "1000", 1000),
        ("target_latency_percentile", "99.9", 99.9),
        ("engine.gpu_memory_utilization", "0.9", 0.9),
        ("engine.tensor_parallel", "2", "2"),
        ("benchmark.official", "0.9", "0.9"),
        ("version", "1.31", "1.31"),
        ("rehearsal", True, True),
        ("min_query_count", 5, 5),
    ],
)
def test_decimals_of_settings_become_numbers_and_texts_stay(name: str, value: Any, shown: Any) -> None:
    found = convert_setting(name, value)
    assert (found, type(found)) == (shown, type(shown))


@pytest.mark.parametrize("text", ["1.10", "0.1234567890123456789", "1e3", "nan", "inf", "12345678901234567890", "v6.1"])
def test_a_number_that_would_change_stays_text(text: str) -> None:
    assert convert_decimal_text(text) == text


def test_a_path_wider_than_a_line_is_folded_after_a_slash() -> None:
    path = "/".join(f"folder-{number}" for number in range(20))
    lines = fold_line(f"error: {path}: not found", 80)
    assert max(map(len, lines)) <= 80
    assert all(line.endswith("/") for line in lines[:-1])
    assert "".join(line.strip() for line in lines) == f"error: {path}: not found"
