"""The view of a plan: steps of one cause are one line, and steps of one kind a box of the graph."""

from __future__ import annotations

import re
from typing import Any

from reconciler.page.plan_view import arrange_plan

CHANGE = {"name": "engine.batch_size", "before": 8, "after": 16, "origin": ["specs/a.yaml", 3, 1]}


def step(address: str, *because: str, **changes: Any) -> dict[str, Any]:
    usual = {"action": "Create", "how": "make", "reason": "NotRecorded", "inputs": [], "shared": [], "seconds": 2.0}
    return {"address": address, "because": because, "blocked": "", "fix": "", "note": "", **usual, **changes}


def arrange(*steps: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"looked": "", "summary": "", "drifts": [], "findings": []}
    arranged = arrange_plan({**empty, "steps": list(steps)}, None)
    assert sum(group["count"] for group in arranged["groups"]) == len(steps)
    return arranged


def fold(*steps: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(group["causes"], group["actions"], group["blocked"]) for group in arrange(*steps)["groups"]]


def test_steps_that_wait_for_what_is_blocked_have_its_obstacle_and_come_last() -> None:
    blocked = step("Run:open/a/x/Offline/performance", blocked="no GPU", fix="add one")
    waiting = step("Result:open/a/x/Offline", how="render", blocked="waits for Run performance (no GPU)")
    due = step("Run:open/b/x/Offline/performance")
    assert fold(blocked, waiting, due) == [
        (("not recorded yet",), ["create 1 Run performance"], ""),
        (("not recorded yet",), ["create 1 Run performance", "render 1 Result"], "no GPU"),
    ]


def test_what_follows_from_a_change_is_on_its_line() -> None:
    engine = step("Engine:open/a/x/Offline", action="Replace", reason="InputChanged", inputs=[CHANGE])
    up = {"name": "engine", "before": "1", "after": "2", "origin": [engine["address"], 0, 0]}
    run = step("Run:open/a/x/Offline/performance", engine["address"], action="Replace", inputs=[up])
    result = step("Result:open/a/x/Offline", run["address"], how="render")
    assert fold(step("Engine:open/c/x/Offline"), engine, run, result) == [
        (("not recorded yet",), ["create 1 Engine"], ""),
        (("engine.batch_size 8 → 16",), ["replace 1 Engine, 1 Run performance", "render 1 Result"], ""),
    ]


def test_the_graph_has_a_box_for_each_kind_and_no_line_that_others_imply() -> None:
    engine = step("Engine:open/a/x/Offline", shared=["Engine:open/b/x/Offline"])
    runs = [step(f"Run:open/{system}/x/Offline/accuracy", f"Engine:open/{system}/x/Offline") for system in "ab"]
    scores = [step(f"Score:open/{system}/x/Offline", run["address"]) for system, run in zip("ab", runs, strict=True)]
    result = step("Result:open/a/x/Offline", runs[0]["address"], scores[0]["address"], blocked="no GPU")
    graph = arrange(engine, *runs, *scores, result)["graph"]
    boxes = [(box["kind"], box["count"], box["blocked"]) for box in graph["boxes"]]
    assert boxes == [("Engine", 1, 0), ("Run accuracy", 2, 0), ("Score", 2, 0), ("Result", 1, 1)]
    assert [box["x"] for box in graph["boxes"]] == sorted({box["x"] for box in graph["boxes"]})
    said = sorted(line["said"] for line in graph["lines"])
    assert said == ["1 Result after Score", "2 Run accuracy after Engine", "2 Score after Run accuracy"]


def test_the_graph_has_every_dependency_whatever_step_comes_first() -> None:
    """Server's run and result are due first; Offline alone has an engine, an accuracy run and a score."""
    server = step("Run:open/a/x/Server/performance")
    first = step("Result:open/a/x/Server", server["address"], how="render")
    engine = step("Engine:open/a/x/Offline")
    scored = step("Run:open/a/x/Offline/accuracy", engine["address"])
    timed = step("Run:open/a/x/Offline/performance", engine["address"])
    score = step("Score:open/a/x/Offline", scored["address"])
    last = step("Result:open/a/x/Offline", scored["address"], timed["address"], score["address"], how="render")
    graph = arrange(server, first, engine, scored, timed, score, last)["graph"]
    assert sorted(line["said"] for line in graph["lines"]) == [
        "1 Result after Score",
        "1 Run accuracy after Engine",
        "1 Run performance after Engine",
        "1 Score after Run accuracy",
        "2 Result after Run performance",
    ]
    assert not [line["said"] for line in graph["lines"] if crosses_box(line["path"], graph)]


def crosses_box(path: str, graph: dict[str, Any]) -> bool:
    """True if a level part of the line lies in a box."""
    wide, tall = graph["box"]
    x = y = 0.0
    for letter, text in re.findall(r"([MHC])([^MHC]+)", path):
        numbers = [float(number) for number in text.split()]
        if letter == "H":
            for box in graph["boxes"]:
                if box["y"] <= y <= box["y"] + tall and x < box["x"] + wide and numbers[0] > box["x"]:
                    return True
            x = numbers[0]
        else:
            x, y = numbers[-2:]
    return False
