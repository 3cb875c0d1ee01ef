"""What plots show of a cell: numbers, their table, and the words above them."""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from reconciler.page.charts import describe_spread, draw_charts, overlay
from reconciler.page.plots import FORMATS, THEMES, describe_plot, draw_plot
from reconciler.render.charts import Chart, Curve, Stroke
from tests.shared import need

SVG = "{http://www.w3.org/2000/svg}"


def run(value: str, **more: Any) -> dict[str, Any]:
    return {
        "performance": True,
        "metric": {"value": value, "unit": "samples/s"},
        "efficiency": None,
        "started": "2026-11-22T11:00:29.281670Z",
        "validity": "VALID",
        "same": True,
        "changes": [],
        "record": f"Run/{value}",
        **more,
    }


def cell(*runs: dict[str, Any], **performance: Any) -> dict[str, Any]:
    return {"runs": list(runs), "performance": performance or None}


def chart(document: dict[str, Any], name: str) -> Chart:
    return next(chart for chart in draw_charts(document) if chart.name == name)


def ranks(what: str, *measured: tuple[str, float]) -> list[tuple[str, str, float]]:
    return [(what, rank, value) for rank, value in measured]


def test_a_cell_without_a_run_has_no_plot() -> None:
    assert draw_charts(cell()) == ()
    assert draw_charts(cell(run("1", performance=False))) == ()


def test_invalid_runs_are_distinguished_from_valid_ones() -> None:
    found = chart(cell(run("100"), run("90", validity="INVALID"), run("110")), "runs")
    by_stroke = {curve.stroke: curve.points for curve in found.curves}
    assert by_stroke[Stroke.POINTS] == ((0.0, 100.0), (2.0, 110.0))
    assert by_stroke[Stroke.CROSSES] == ((1.0, 90.0),)
    assert [row[1] for row in found.rows] == ["100", "90", "110"]


def test_efficiency_is_drawn_of_the_runs_whose_power_was_measured() -> None:
    measured = [run("100", efficiency={"value": "0.5", "unit": "samples/J"}), run("104"), run("90", efficiency=None)]
    found = chart(cell(*measured, run("110", efficiency={"value": "0.6", "unit": "samples/J"})), "efficiency")
    assert [row[1:3] for row in found.rows] == [("0.5", "100 samples/s"), ("0.6", "110 samples/s")]
    assert (found.up, found.summary) == ("samples/J", "From 0.5 to 0.6 samples/J.")
    assert not [each for each in draw_charts(cell(run("104"))) if each.name == "efficiency"]


def test_noise_is_of_valid_runs_with_the_inputs_of_today() -> None:
    runs = [run("100"), run("110"), run("500", same=False), run("1", validity="INVALID"), run("9", performance=False)]
    said = describe_spread(runs)
    assert said.startswith("2 valid runs with these inputs: 100 to 110 samples/s, median 105; spread 9.5%")
    assert "noise 6.7%" in said


def test_latency_is_checked_against_its_bound_in_ms() -> None:
    percentiles = ranks("latency", ("0", 1.0), ("50.00", 2.0), ("99.90", 8.5), ("100", 9.0))
    found = chart(cell(percentiles=percentiles, bounds={"latency": {"limit": "0.015", "unit": "s"}}), "latency")
    bound = next(curve for curve in found.curves if curve.stroke is Stroke.BOUND)
    assert {y for _, y in bound.points} == {15.0}
    assert found.ticks == ("lowest", "50", "99.9", "highest")
    assert found.summary == "From 1 ms to 9 ms against a bound of 15 ms."


def test_a_language_model_has_latencies_of_tokens_in_place_of_whole_answers() -> None:
    measured = [*ranks("latency", ("0", 9.0)), *ranks("TTFT", ("0", 1.0), ("100", 3.0)), *ranks("TPOT", ("0", 0.5))]
    document = cell(percentiles=measured, bounds={"TTFT": {"limit": "450", "unit": "ms"}})
    assert [found.name for found in draw_charts(document)] == ["first-token", "per-token"]
    assert [curve.stroke for curve in chart(document, "first-token").curves].count(Stroke.BOUND) == 1
    assert [curve.stroke for curve in chart(document, "per-token").curves].count(Stroke.BOUND) == 0


def test_throughput_is_what_was_done_between_two_readings() -> None:
    series = [{"seconds": 1.0, "done": 10.0}, {"seconds": 3.0, "done": 50.0}, {"seconds": 4.0, "done": 90.0}]
    found = chart(cell(series=series), "throughput")
    assert found.curves[0].points == ((1.0, 10.0), (3.0, 20.0), (4.0, 40.0))


def test_readings_of_one_unit_share_a_plot() -> None:
    series = [
        {"seconds": float(i), "gpu.power_watts": 300.0, "load_percent": 5.0, "gpu.load_percent": 90.0} for i in range(3)
    ]
    document = cell(series=series)
    assert [curve.label for curve in chart(document, "load").curves] == ["processor load", "GPU load"]
    assert chart(document, "power").columns == ("Second", "GPU power in W")
    assert not [found for found in draw_charts(document) if found.name in ("clocks", "temperature")]


HOSTILE = Chart(
    "runs",
    "<script>alert(1)</script>",
    "$\\frac{x",
    "</text><script>alert(2)</script>\u202e\x1b[2J",
    (Curve("<b>$x", ((0.0, 1.0), (1.0, 2.0))), Curve("other", ((0.0, 2.0), (1.0, 1.0)), Stroke.BOUND)),
    (),
    (),
    ticks=("$a_b^", "</svg><img src=x>"),
)


@pytest.mark.parametrize("theme", THEMES)
def test_hostile_words_are_text_in_a_plot(theme: str) -> None:
    need("vl_convert")
    root = ET.fromstring(draw_plot(HOSTILE, theme=theme, title="$\\notacommand <i>"))
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert not names & {"script", "img", "b", "i", "foreignObject", "a"}
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert "$\\frac{x" in texts
    assert any("<script>alert(2)</script>\\u202e\\x1b[2J" in text for text in texts)
    assert "$\\notacommand <i>" in texts


def test_the_same_numbers_give_the_same_picture() -> None:
    need("vl_convert")
    found = chart(cell(run("100"), run("110")), "runs")
    digests = {hashlib.sha256(draw_plot(found)).hexdigest() for _ in range(2)}
    assert len(digests) == 1
    assert draw_plot(found) != draw_plot(found, theme="dark")


def test_a_plot_for_a_dark_page_has_other_colours_and_the_same_shapes() -> None:
    need("vl_convert")
    found = chart(cell(run("100"), run("90", validity="INVALID"), run("110")), "runs")
    drawn = {theme: draw_plot(found, theme=theme) for theme in THEMES}
    colours = {theme: set(re.findall(rb"#[0-9a-f]{6}", data)) for theme, data in drawn.items()}
    assert not colours["light"] - {b"#d55e00"} & colours["dark"]
    shapes = [re.sub(rb"#[0-9a-f]{6}|white", b"", data) for data in drawn.values()]
    assert shapes[0] == shapes[1]


def test_both_formats_are_what_they_are_called() -> None:
    need("vl_convert")
    found = chart(cell(run("100"), run("110")), "runs")
    begins = {"svg": b"<svg", "png": b"\x89PNG"}
    assert set(begins) == set(FORMATS)
    for form, head in begins.items():
        assert draw_plot(found, form=form).startswith(head)


def test_a_plot_on_the_page_has_no_address_and_text_of_strangers_is_data_in_it() -> None:
    described = describe_plot(HOSTILE)
    assert "url" not in json.dumps({**described, "$schema": ""})
    assert (
        described["encoding"]["x"]["axis"]["labelExpr"]
        == f"{json.dumps([text.split() for text in HOSTILE.ticks])}[datum.value]"
    )
    assert [len(layer["data"]["values"]) for layer in described["layer"]] == [2, 2]


def test_one_point_is_no_plot() -> None:
    assert not chart(cell(run("100")), "runs").has_course
    assert chart(cell(run("100"), run("110")), "runs").has_course


def test_a_bound_far_from_what_was_measured_is_drawn_on_a_scale_that_shows_both() -> None:
    measured = ranks("latency", ("0", 1.0), ("99.00", 2.0))
    bounds = ({"limit": limit, "unit": "s"} for limit in ("0.003", "1.5"))
    near, far = (
        describe_plot(chart(cell(percentiles=measured, bounds={"latency": bound}), "latency")) for bound in bounds
    )
    assert near["encoding"]["y"]["scale"] == {"zero": False}
    assert far["encoding"]["y"]["scale"] == {"type": "log"}


def change(name: str, before: object, after: object, commit: str = "") -> dict[str, Any]:
    return {"name": name, "before": before, "after": after, "by": {"commit": commit} if commit else None}


def test_runs_over_time_say_what_changed_from_one_to_the_next() -> None:
    changes = [change("engine.batch_size", 8, 16, "3f2c1ab9"), change("driver", "550", "560")]
    changes.append(change("code.digest", 1, 2))
    found = chart(cell(run("100"), run("110", changes=changes), run("120")), "runs")
    said = "engine.batch_size 8 → 16 (3f2c1ab); driver 550 → 560; code changed"
    assert found.marks == ((1.0, said),)
    assert [row[4] for row in found.rows] == ["", said, ""]
    rule, words = describe_plot(found)["layer"][-2:]
    assert [layer["mark"]["type"] for layer in (rule, words)] == ["rule", "text"]
    assert [row["note"] for row in rule["data"]["values"]] == [said]
    assert len(describe_plot(chart(cell(run("100"), run("120")), "runs"))["layer"]) == 2


def test_another_run_is_drawn_over_the_first_with_one_bound() -> None:
    bounds = {"latency": {"limit": "15", "unit": "ms"}}
    series = [{"seconds": 1.0, "done": 10.0}, {"seconds": 3.0, "done": 50.0}]
    first = cell(run("1"), percentiles=ranks("latency", ("0", 1.0), ("100", 9.0)), bounds=bounds, series=series)
    second = cell(percentiles=ranks("latency", ("0", 2.0), ("100", 9.0)), bounds=bounds)
    alone = draw_charts(first)
    runs, latency, throughput = overlay(alone, draw_charts(second), ("new", "old"))
    assert (runs, throughput) == (alone[0], alone[2]), "what only one of them has stays as it is"
    lines = [(curve.label, curve.points[0][1]) for curve in latency.curves if curve.stroke is Stroke.LINE]
    assert lines == [("new", 1.0), ("old", 2.0)]
    assert [curve.stroke for curve in latency.curves].count(Stroke.BOUND) == 1
    tones = {curve.label: describe_plot(latency)["usermeta"]["tones"][n] for n, curve in enumerate(latency.curves)}
    assert tones["new"] != tones["old"]
