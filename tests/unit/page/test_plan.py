"""The view of a plan: steps of one cause are one line."""

from __future__ import annotations

from typing import Any

from reconciler.page.site import arrange_plan


def step(address: str, **changes: Any) -> dict[str, Any]:
    usual = {"action": "Create", "how": "make", "reason": "NotRecorded", "inputs": [], "shared": [], "seconds": 2.0}
    return {"address": address, "blocked": "", "fix": "", **usual, **changes}


def fold(*steps: dict[str, Any]) -> list[tuple[Any, ...]]:
    empty: dict[str, Any] = {"looked": "", "in_sync": False, "unchanged": 3, "drifts": [], "findings": []}
    arranged = arrange_plan({**empty, "undeclared": [], "steps": list(steps)}, None)
    assert sum(len(group["steps"]) for group in arranged["groups"]) == len(steps)
    return [(group["action"], group["kinds"], group["blocked"]) for group in arranged["groups"]]


def test_steps_that_wait_for_what_is_blocked_have_its_cause() -> None:
    blocked = step("Run:open/a/x/Offline/performance", blocked="no GPU", fix="add one")
    waiting = step("Result:open/a/x/Offline", blocked="waits for Run perf (no GPU)")
    due = step("Run:open/b/x/Offline/performance")
    assert fold(blocked, waiting, due) == [("create", ["1 Run"], ""), ("create", ["1 Run", "1 Result"], "no GPU")]


def test_another_change_is_another_line() -> None:
    change = {"name": "engine.batch_size", "before": 8, "after": 16}
    changed = [step(f"Engine:open/{name}/x/Offline", inputs=[change], reason="InputChanged") for name in "ab"]
    assert fold(step("Engine:open/c/x/Offline"), *changed) == [
        ("create", ["1 Engine"], ""),
        ("create", ["2 Engine"], ""),
    ]


def test_what_is_not_made_is_counted_as_what_it_is() -> None:
    assert fold(step("Result:open/a/x/Offline", how="render")) == [("render", ["1 Result"], "")]
