"""Plans of a load, of which a test says what matters to it."""

from __future__ import annotations

from typing import Any

from harness.backends import LoadPlan


def make_load_plan(**changed: Any) -> LoadPlan:
    plan: dict[str, Any] = {"engine": None, "scenario": "Offline", "batch_size": 1, "streams": 1, "threads": 0}
    plan |= {"outputs": (), "options": {}, "completed": lambda *_: None, "failed": lambda *_: None}
    return LoadPlan(**plan | changed)
