from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Action, Drift, Finding, Reason, Work
from reconciler.render.colour import show_coloured
from reconciler.render.plan import collect_shown_origins, render_plan_text, show_least_time
from reconciler.resource.kinds import PERFORMANCE as TIMED
from reconciler.resource.kinds import Address, Cell, Kind, RunAddress
from reconciler.storage.escaping import escape_output
from tests.unit.render.builders import (
    ACCURACY,
    CELL,
    ENGINE,
    LINE,
    PERFORMANCE,
    RESULT,
    engine_replaced,
    input_change,
    plan,
    step,
)


def test_everything_that_can_stand_in_a_plan() -> None:
    steps = (
        step(
            Address(Kind.DATASET, "3d-unet-99"),
            action=Action.CREATE,
            reason=Reason.NOT_RECORDED,
            shared=(Address(Kind.DATASET, "3d-unet-99.9"),),
        ),
        step(ENGINE, reason=Reason.ARTIFACT_CORRUPT, note="engine.plan is damaged", seconds=60.0, shared=(RESULT,)),
        step(
            ACCURACY, reason=Reason.PREVIOUS_ATTEMPT_FAILED, note="out of memory", blocked="no GPU", fix="run it there"
        ),
        step(PERFORMANCE, how=Work.RESTORE, reason=Reason.ARTIFACT_MISSING, note="user.conf is missing", seconds=0.0),
        step(RESULT, how=Work.RENDER, because=(PERFORMANCE,)),
    )
    whole = plan(
        *steps,
        excluded=2,
        drifts=(Drift(ENGINE, "engine.plan", "missing", "rebuilt when a run needs it"),),
        findings=(Finding("Invalid", str(CELL), "p99 is 12 ms, 20 % above the limit", "set target_qps 48"),),
        undeclared=(Address(Kind.RUN, "open/x/y/Server/accuracy"),),
    )
    shown = render_plan_text(whole)
    marks = [tuple(line.split()[:2]) for line in shown.splitlines() if line[:2] == "  " and line[2] != " "]
    assert marks == [("+", "Dataset"), ("~", "Engine"), ("!", "Run"), ("~", "Run"), ("~", "Result")]
    said = ["engine.plan is damaged (also for 1 more cell)", "out of memory", "no GPU", "run it there", "12 ms, 20 %"]
    said += [
        "not recorded yet (also for 1 more benchmark)",
        "user.conf is missing",
        "engine.plan missing",
        "set target_qps 48",
        "Run:open/x/y/Server/accuracy",
    ]
    said += ["1 to create, 2 to replace, 1 to restore, 1 to render, 61 unchanged", "1 min on h200x8"]
    assert [text for text in said if text not in shown] == []


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, False), (0.4, False), (1.0, True), (90.0, True)])
def test_a_predicted_time_below_a_second_is_left_out_among_steps_without_one(seconds: float, shown: bool) -> None:
    text = show_least_time(seconds, 17, " on box")
    assert "17 steps" in text
    assert ("on box" in text) is shown


@pytest.mark.parametrize(
    ("made", "last"),
    [
        (plan(), "In sync: 61 resources, nothing to do."),
        (plan(excluded=3), "In sync: 61 resources, nothing to do. 3 steps left out by the selection."),
        (
            plan(findings=(Finding("Invalid", str(CELL), "late"),)),
            "Nothing to do for 61 resources, but 1 finding that no step can fix.",
        ),
        (
            plan(findings=(Finding("Invalid", str(CELL), "late"), *[Finding("DamagedRecord", "x.json", "cut")] * 2)),
            "Nothing to do for 61 resources, but 1 finding that no step can fix and 2 damaged records that the next "
            "pass repairs.",
        ),
    ],
    ids=["clean", "selected", "finding", "damaged"],
)
def test_the_last_line_when_there_is_no_step(made: object, last: str) -> None:
    assert render_plan_text(made).splitlines()[-1] == last  # type: ignore[arg-type]


def test_a_cause_with_a_long_path_keeps_the_name_of_the_file() -> None:
    damaged = step(PERFORMANCE, reason=Reason.ARTIFACT_CORRUPT)
    note = f"{'results/box/' * 10}mlperf_log_summary.txt is a link"
    damaged = replace(damaged, change=replace(damaged.change, note=note))
    assert "mlperf_log_summary.txt is a link" in render_plan_text(plan(damaged))


def test_the_cause_names_the_rest_and_skips_keys_of_what_is_replaced_too() -> None:
    explained = (
        input_change("min_duration", 600_000, 0),
        input_change("target_latency", 15_000_000, None),
        input_change("engine", "1" * 64, "2" * 64, ENGINE),
    )
    run = step(PERFORMANCE, reason=Reason.INPUT_CHANGED, explained=explained, because=(ENGINE,))
    assert "min_duration 10 min → 0 and 1 more  specs/acme.yaml:16" in render_plan_text(plan(run))
    alone = replace(run, explained=explained[2:])
    assert "engine replaced\n" in render_plan_text(plan(alone))
    back = replace(alone, because=())
    assert "engine 111111111111 → 222222222222\n" in render_plan_text(plan(back))


def test_what_is_new_is_not_called_replaced() -> None:
    new = step(ENGINE, action=Action.CREATE, reason=Reason.NOT_RECORDED)
    assert "engine created" in render_plan_text(plan(new, step(PERFORMANCE, because=(ENGINE,))))


def test_a_huge_plan_is_cut_unless_all_is_asked() -> None:
    names = [f"closed/h200x8/b{number}/Offline" for number in range(380)]
    changes = [(input_change("engine.batch_size", 8, 16 + number),) for number in range(380)]
    engines = [Address(Kind.ENGINE, name) for name in names]
    steps = (step(e, reason=Reason.INPUT_CHANGED, explained=c) for e, c in zip(engines, changes, strict=True))
    huge = plan(*steps)
    lines = render_plan_text(huge, limit=40).splitlines()
    assert len(lines) == 82
    assert lines[-2] == "… and 340 more cells; --all shows them"
    assert "380 to replace" in lines[-1]
    assert len(render_plan_text(huge, limit=None).splitlines()) == 761
    assert collect_shown_origins(huge, 40) == (LINE,)


def test_cells_of_a_long_plan_with_the_same_steps_are_shown_once() -> None:
    cells = [f"closed/h200x8/b{number:02}/Offline" for number in range(13)]
    alike = [
        s
        for cell in cells
        for s in (step(Address(Kind.ENGINE, cell)), step(RunAddress(Cell.parse(cell), TIMED).address))
    ]
    other = step(Address(Kind.ENGINE, "open/h200x8/b/Offline"), reason=Reason.FORCED)
    lines = render_plan_text(plan(*alike, other)).splitlines()
    assert lines[0] == "closed/h200x8/b00/Offline"
    assert lines[1].startswith("  and 12 more alike: closed/h200x8/b01/Offline, ")
    assert lines[1].endswith(" and 6 more")
    assert sum("b00" in line for line in lines) == 1
    assert "open/h200x8/b/Offline" in lines
    assert "27 to replace" in lines[-1]
    every = render_plan_text(plan(*alike, other), limit=None)
    assert all(cell in every for cell in cells)
    assert "alike" not in every


def test_what_many_are_blocked_on_is_reported_once_with_its_fix() -> None:
    engines = [Address(Kind.ENGINE, f"closed/h200x8/b{number}/Offline") for number in range(9)]
    absent = [step(e, blocked="no NVIDIA H200 here", fix="run it on h200x8") for e in engines[:5]]
    text = render_plan_text(plan(*absent, *(step(e, blocked="disk is full", fix="free 2 GB") for e in engines[5:7])))
    assert text.count("no NVIDIA H200 here") == 1
    assert "5 blocked: no NVIDIA H200 here\n      fix: run it on h200x8" in text
    assert sum(line.endswith("; blocked") for line in text.splitlines()) == 5
    assert text.count("      blocked: disk is full\n      fix: free 2 GB") == 2


def test_what_waits_for_something_blocked_is_reported_with_it() -> None:
    engines = [Address(Kind.ENGINE, f"closed/h200x8/b{number}/Offline") for number in range(6)]
    absent = [step(e, blocked="8 x H200 (SXM) are declared", fix="run it there") for e in engines[:3]]
    waiting = [step(e, blocked="waits for Run performance (8 x H200 (SXM) are declared)") for e in engines[3:5]]
    needed = step(engines[5], blocked="needed only by what is blocked (8 x H200 (SXM) are declared)")
    text = render_plan_text(plan(*absent, *waiting, needed))
    assert "6 blocked: 8 x H200 (SXM) are declared\n      fix: run it there" in text
    assert text.count("H200 (SXM)") == 1


def test_colour_adds_only_colour() -> None:
    text = escape_output(render_plan_text(plan(*engine_replaced()), paint=show_coloured))
    assert "\x1b[33m~\x1b[0m Engine" in text
    assert "\x1b" not in render_plan_text(plan(*engine_replaced()))
