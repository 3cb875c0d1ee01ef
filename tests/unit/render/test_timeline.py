"""Changes of inputs as `blame` and `diff` print them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.timeline import ChangeCause
from reconciler.render.timeline import render_changes_text


@pytest.mark.parametrize(
    ("name", "before", "after", "shown"),
    [
        ("target_latency", 500_000_000, 15_000_000, "500 ms → 15 ms"),
        ("min_duration", 600_000, None, "10 min → none"),
        ("batch_size", 8, 16, "8 → 16"),
        ("dataset", "a" * 64, "b" * 64, f"{'a' * 12} → {'b' * 12}"),
    ],
)
def test_a_changed_input_is_shown_with_its_unit(name: str, before: Any, after: Any, shown: str) -> None:
    cause = ChangeCause("Run performance", name, before, after)
    change: Any = SimpleNamespace(
        cell="open/box/toy/Server", same=False, declared=(True, True), causes=(cause,), before=None, after=None, due=()
    )
    assert shown in render_changes_text(("a", "b"), [change])
