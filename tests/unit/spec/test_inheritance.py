"""Systems that inherit: settings of a system, of a benchmark on it, of systems that it extends; rates, merge keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.resource.kinds import Cell
from reconciler.spec.declared import Declared, DeclaredCell
from reconciler.spec.loading import load
from tests.unit.spec.writing import VALID, declare, give_head, load_texts, problems_in, replaced

ROOT = Path(__file__).parents[3]
BOX = "    box: {category: edge, status: available}\n"
assert BOX in VALID

LAYERS = """\
  systems:
    base: {attempts: 3, run: {streams: 3}, benchmarks: {digits: {run: {threads: 3}, Offline: {min_query_count: 3}}}}
    box:
      extends: base
      category: edge
      status: available
      attempts: 4
      target_qps: 4
      run: {threads: 4}
      benchmarks:
        digits:
          target_qps: 5
          Offline: {target_qps: 6}
  benchmarks:
    digits:
      engine: {backend: onnxruntime, batch_size: 1}
      attempts: 1
      target_qps: 1
      run: {streams: 1, threads: 1}
  divisions:
    open: {box: {digits: {SingleStream: , Offline: {target_qps: 7}, Server: {}}}}
"""


def find(declared: Declared, scenario: str, system: str = "box") -> DeclaredCell:
    return next(cell for cell in declared.cells if (cell.cell.scenario, cell.cell.system) == (scenario, system))


def chain(cell: DeclaredCell, name: str) -> list[tuple[object, int]]:
    """The value of a setting and those that it overrides, each with its line."""
    layers = [cell.settings[name], *cell.overridden.get(name, ())]
    return [(value.value, value.origin.line) for value in layers]


def test_each_layer_wins_over_those_that_say_less(tmp_path: Path) -> None:
    declared = load_texts(tmp_path, main=give_head(LAYERS))
    offline, server = find(declared, "Offline"), find(declared, "Server")
    assert chain(offline, "target_qps") == [("7", 27), ("6", 19), ("5", 18), ("4", 14), ("1", 24)]
    assert chain(server, "target_qps") == [("5", 18), ("4", 14), ("1", 24)]
    assert chain(server, "attempts") == [(4, 13), (3, 8), (1, 23)]
    assert chain(server, "run.streams") == [(3, 8), (1, 25)]
    # What is said of a benchmark wins over what is said of a system, whichever of the two systems says it.
    assert chain(server, "run.threads") == [(3, 8), (4, 15), (1, 25)]
    assert offline.settings["min_query_count"].value == 3
    assert "min_query_count" not in server.settings
    assert set(declared.systems) == {"box"}
    assert not any(name.startswith(("run.", "attempts")) for name in declared.systems["box"].settings)


def test_a_system_takes_what_it_does_not_set(tmp_path: Path) -> None:
    systems = """\
    host: {description: {cooling: air, operating_system: Linux, host_networking: N/A}}
    card: {category: edge, status: preview, hardware: {accelerator: A30, count: 1}, description: {cooling: liquid}}
    box: {extends: [host, card], status: available, hardware: {count: 2}, description: {operating_system: BSD}}
"""
    declared = load_texts(tmp_path, main=replaced(BOX, systems))
    box = declared.systems["box"]
    assert {name: value.value for name, value in box.settings.items()} == {
        "hardware.accelerator": "A30",
        "hardware.count": 2,
        "system.category": "edge",
        "system.status": "available",
    }
    described = {name: (value.value, value.origin.line) for name, value in box.description.items()}
    assert described == {"cooling": ("liquid", 12), "operating_system": ("BSD", 13), "host_networking": ("N/A", 11)}
    assert set(declared.systems) == {"card", "box"}
    (cell,) = declared.cells
    assert chain(cell, "hardware.count") == [(2, 13), (1, 12)]
    assert chain(cell, "system.status") == [("available", 13), ("preview", 12)]


def test_systems_that_inherit_are_those_written_out(tmp_path: Path) -> None:
    hardware = "hardware: {accelerator: A30, count: 4}"
    long = f"    box: {{category: edge, status: available, {hardware}, description: {{cooling: air}}}}\n"
    short = f"    base: {{category: edge, {hardware}, description: {{cooling: air}}}}\n"
    short += "    box: {extends: base, status: available}\n"
    written, inherited = (load_texts(tmp_path, main=replaced(BOX, each)) for each in (long, short))

    def plain(declared: Declared) -> list[dict[str, object]]:
        mappings = [declared.cells[0].settings, declared.systems["box"].settings, declared.systems["box"].description]
        return [{name: value.value for name, value in each.items()} for each in mappings]

    assert plain(written) == plain(inherited)


RATES = VALID.replace("target_qps: 54", "target_qps: 1_700.5 per accelerator")


def add_hardware(text: str, hardware: str) -> str:
    return text.replace("status: available", f"status: available, hardware: {{{hardware}}}")


@pytest.mark.parametrize(
    ("hardware", "total"), [("count: 8", "13604"), ("count: 4, nodes: 3", "20406"), ("count: 1", "1700.5")]
)
def test_a_rate_per_accelerator_is_that_of_the_system(tmp_path: Path, hardware: str, total: str) -> None:
    (cell,) = load_texts(tmp_path, main=add_hardware(RATES, f"accelerator: A30, {hardware}")).cells
    assert cell.settings["target_qps"].value == total
    (written,) = cell.overridden["target_qps"]
    assert written.origin == cell.settings["target_qps"].origin
    assert written.value == "1700.5 per accelerator"


def test_a_rate_per_accelerator_of_a_test(tmp_path: Path) -> None:
    text = replaced("target_qps: 54", "target_qps: 54, compliance: {TEST01: {target_qps: 5 per accelerator}}")
    (cell,) = load_texts(tmp_path, main=add_hardware(text, "accelerator: A30, count: 4")).cells
    assert cell.settings["compliance.TEST01.target_qps"].value == "20"
    assert cell.settings["target_qps"].value == "54"


@pytest.mark.parametrize("hardware", ["", ", hardware: {accelerator: A30}"])
def test_a_rate_of_undeclared_accelerators(tmp_path: Path, hardware: str) -> None:
    (problem,) = problems_in(tmp_path, main=RATES.replace("status: available", f"status: available{hardware}"))
    assert (problem.line, problem.path) == (20, "spec.divisions.open.box.digits.Offline.target_qps")
    assert "spec.systems.box" in problem.fix


@pytest.mark.parametrize("hardware", ["count: 0", "accelerator: none", "accelerator: N/A, count: 0"])
def test_a_rate_of_accelerators_that_there_are_none_of(tmp_path: Path, hardware: str) -> None:
    """Their number is declared, so the fix is another."""
    (problem,) = problems_in(tmp_path, main=add_hardware(RATES, hardware))
    assert (problem.line, problem.path) == (20, "spec.divisions.open.box.digits.Offline.target_qps")
    assert "not declared" not in problem.message
    assert "count" not in problem.fix


def test_a_count_of_0_is_reported_without_the_rates_that_need_it(tmp_path: Path) -> None:
    found = problems_in(tmp_path, main=add_hardware(RATES, "accelerator: A30, count: 0"))
    assert [problem.line for problem in found] == [11]


@pytest.mark.parametrize("written", ["5 per GPU", "5 /s per device", "5 per accelerators"])
def test_other_words_for_an_accelerator(tmp_path: Path, written: str) -> None:
    text = add_hardware(replaced("target_qps: 54", f"target_qps: {written}"), "accelerator: A30, count: 4")
    if written.endswith("accelerators"):
        assert load_texts(tmp_path, main=text).cells[0].settings["target_qps"].value == "20"
    else:
        (problem,) = problems_in(tmp_path, main=text)
        assert "per accelerator" in problem.fix


@pytest.mark.parametrize("more", [" per accelerator", "  per  accelerators per accelerator", " per GPU"])
def test_a_rate_is_per_accelerator_only_once(tmp_path: Path, more: str) -> None:
    text = add_hardware(RATES.replace("per accelerator", f"per accelerator{more}"), "accelerator: A30, count: 4")
    (problem,) = problems_in(tmp_path, main=text)
    assert (problem.line, problem.path) == (20, "spec.divisions.open.box.digits.Offline.target_qps")
    assert "'1700.5 per accelerator'" in problem.fix


BROKEN = {
    "nothing of that name": ("    box: {extends: bx, category: edge, status: available}\n", [(11, "box.extends")]),
    "nothing of that name, for two": ("    a: {extends: bx}\n    box: {extends: a}\n", [(11, "a.extends")]),
    "no name": ("    box: {extends: null}\n", [(11, "box.extends")]),
    "a mapping": ("    box: {extends: {a: b}}\n", [(11, "box.extends")]),
    "itself": ("    box: {extends: box, category: edge, status: available}\n", [(11, "box.extends")]),
    "a circle": (
        "    a: {extends: box}\n    box: {extends: a, category: edge, status: available}\n",
        [(11, "a.extends")],
    ),
    "no status anywhere": ("    a: {category: edge}\n    box: {extends: a}\n", [(12, "box.status")]),
    "extended, with cells": (
        "    a: {extends: box}\n    box: {category: edge}\n",
        [(11, "a.status"), (12, "box.status")],
    ),
    "an undeclared benchmark": (
        "    box: {category: edge, status: available, benchmarks: {digit: {attempts: 2}}}\n",
        [(11, "box.benchmarks.digit")],
    ),
    "an undeclared block": ("    box: {category: edge, status: available, use: nothing}\n", [(11, "box.use")]),
    "an adapter": (
        "    box: {category: edge, status: available, harness: {adapter: nvidia-v5.1}}\n",
        [(11, "box.harness.adapter")],
    ),
    "an unknown setting": (
        "    box: {category: edge, status: available, benchmarks: {digits: {Offline: {target_qsp: 2}}}}\n",
        [(11, "box.benchmarks.digits.Offline.target_qsp")],
    ),
    "an option that its backend has not": (
        "    box: {category: edge, status: available, engine: {options: {sparse_weights: true}}}\n",
        [(11, "box.engine.options.sparse_weights")],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_slip_is_named_once_where_it_is(tmp_path: Path, name: str) -> None:
    written, expected = BROKEN[name]
    found = problems_in(tmp_path, main=replaced(BOX, written))
    assert sorted((problem.line, problem.path) for problem in found) == [
        (line, f"spec.systems.{path}") for line, path in expected
    ]


def test_a_field_that_no_checker_reads_is_named_once(tmp_path: Path) -> None:
    systems = "    a: {description: {coolling: air}}\n    b: {extends: a, category: edge, status: available}\n"
    systems += "    box: {extends: b}\n"
    declared = load_texts(tmp_path, main=replaced(BOX, systems))
    places = {declared.systems[name].unknown["coolling"][0].line for name in ("b", "box")}
    assert places == {11}


MERGED = """\
  systems:
    box: {category: edge, status: available, description: &host {cooling: air, operating_system: Linux}}
    other: {category: edge, status: available, description: {<<: *host, cooling: liquid}}
    third: {category: edge, status: available, description: {<<: [{cooling: none}, *host]}}
"""


def test_merge_keys_take_what_is_not_written(tmp_path: Path) -> None:
    declared = load_texts(tmp_path, main=replaced("  systems:\n" + BOX, MERGED))
    described = {
        name: {field: (value.value, value.origin.line) for field, value in system.description.items()}
        for name, system in declared.systems.items()
    }
    assert described["other"] == {"cooling": ("liquid", 12), "operating_system": ("Linux", 11)}
    assert described["third"] == {"cooling": ("none", 13), "operating_system": ("Linux", 11)}


@pytest.mark.parametrize("merged", ["words", "[1, 2]", "[*host, 5]"])
def test_a_merge_key_of_anything_else(tmp_path: Path, merged: str) -> None:
    found = problems_in(tmp_path, main=replaced("  systems:\n" + BOX, MERGED.replace("*host, cool", f"{merged}, cool")))
    assert [(problem.line, problem.column) for problem in found] == [(12, 62)]


def test_the_shipped_example_is_short_and_whole() -> None:
    path = ROOT / "specs" / "systems.yaml"
    declared = load([path], ROOT, {})
    assert len(path.read_text().splitlines()) <= 80
    assert len(declared.cells) == 36
    assert set(declared.systems) == {"h200x8", "h200x4", "l40sx4", "server"}
    rates = {cell.cell: cell.settings["target_qps"].value for cell in declared.cells}
    whole, half = (Cell("closed", system, "bert-99", "Offline") for system in ("h200x8", "h200x4"))
    assert int(rates[whole]) == 2 * int(rates[half])
    assert {cell.settings["engine.backend"].value for cell in declared.cells} == {"tensorrt", "vllm"}


def test_a_text_may_be_declared_without_any_of_it() -> None:
    assert declare(VALID).cells[0].overridden == {}
