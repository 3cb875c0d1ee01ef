"""Which benchmarks and scenarios a system's folder may and must hold, and which files a scenario folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.cell_files import check_extra_files, check_power_files
from reconciler.check.demands import Complaints
from reconciler.check.presence import BENCHMARK_RULES, BenchmarkView, check_category
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.documents import parse_json_object
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.places import LEGACY, SubmitterPlace
from reconciler.tree.reading.system import SystemFile
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, say, small_cell

SHOWN = "closed/Acme/results/box"


def find(
    root: Path,
    benchmark: str,
    names: str,
    category: str = "edge",
    division: str = "closed",
    official: str | None = None,
) -> list[tuple[str, str]]:
    """Of a benchmark's folder with these scenarios, and files where a name has a dot: rule and place."""
    folder = root / "results/box" / benchmark
    folder.mkdir(parents=True)
    for name in names.split():
        (folder / name).write_text("") if "." in name else (folder / name).mkdir()
    place = SubmitterPlace(division, "Acme", root, f"{division}/Acme", LEGACY)
    described = parse_json_object(json.dumps({"system_type": category} if category else {}).encode())
    system = SystemFile("box", Read("systems/box.json", described))
    view = BenchmarkView(place, system, benchmark, benchmark if official is None else official, load_ruleset("v6.1"))
    return [
        (rule.id, str(reported.place).removeprefix(f"{SHOWN}/"))
        for rule, check in BENCHMARK_RULES
        for reported in check(view)
    ]


def judge(
    check: Callable[[BenchmarkView], Complaints], root: Path, division: str = "closed", **options: Any
) -> list[str]:
    place = SubmitterPlace(division, "Acme", root, f"{division}/Acme", LEGACY)
    described = parse_json_object(json.dumps({"system_type": options.pop("category", "edge")}).encode())
    system = SystemFile("box", Read("systems/box.json", described))
    ruleset = options.pop("ruleset", load_ruleset("v6.1"))
    return say(check(BenchmarkView(place, system, "ours", options.pop("official", "resnet"), ruleset)))


def test_a_benchmark_of_which_a_category_needs_nothing_may_be_entered(tmp_path: Path) -> None:
    optional = SimpleNamespace(required=(), optional=("Offline",))
    needed = SimpleNamespace(required=("Offline",), optional=())
    neither = SimpleNamespace(required=(), optional=())
    for table, said in ((optional, 0), (needed, 0), (neither, 1)):
        benchmark = SimpleNamespace(tables={"edge": table})
        ruleset = SimpleNamespace(find_benchmark=lambda _, known=benchmark: known, binds=lambda *_: True, round="v6.1")
        assert len(judge(check_category, tmp_path, ruleset=ruleset)) == said


ANSWERS, TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
LOGS = (f"{RUN}/{SUMMARY}", f"{RUN}/{DETAIL}", *(f"accuracy/{name}" for name in (SUMMARY, DETAIL, ANSWERS, TEXT)))


def some(*paths: str, data: str = "x") -> dict[str, str]:
    return dict.fromkeys(paths, data)


TOLERATED = (ANSWERS, "mlperf_log_trace.json", "results.json", ".gitkeep")


def test_nothing_but_logs_is_next_to_them(tmp_path: Path) -> None:
    others = [f"{folder}/{name}" for folder in (RUN, "accuracy") for name in TOLERATED]
    strange = (f"{RUN}/{TEXT}", f"{RUN}/spl.txt", "accuracy/spl.txt", "accuracy/z.txt")
    files = some(*LOGS, *others, *strange)
    said = [f"./{path}" for path in strange]
    assert say(check_extra_files(small_cell(tmp_path / "a", files))) == said
    powered = small_cell(tmp_path / "b", files | some("performance/power/client.json"))
    assert say(check_extra_files(powered)) == [line for line in said if f"{RUN}/spl.txt" not in line]
    mild = small_cell(tmp_path / "a", files, exempt=("listed_files",))
    assert say(check_extra_files(mild)) == [f"warning {line}" for line in said]


POWER = (
    f"{RUN}/spl.txt",
    *(f"performance/ranging/{name}" for name in (SUMMARY, DETAIL, "spl.txt")),
    *(
        f"performance/power/{name}"
        for name in ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
    ),
)


@pytest.mark.parametrize("left_out", [None, *POWER[:4]])
def test_a_power_submission_has_all_of_its_files(tmp_path: Path, left_out: str | None) -> None:
    files = some(f"{RUN}/{DETAIL}", *(path for path in POWER if path != left_out))
    said = [f"./{left_out}"] if left_out else []
    assert say(check_power_files(small_cell(tmp_path, files))) == said
