"""A scenario folder of a few small files, read as those of a tree are, and what a rule says of it in one line each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.resource.kinds import Cell
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.cell import CellFiles
from reconciler.tree.reading.places import V6, CellPlace, SubmitterPlace
from reconciler.tree.reading.system import SubmitterFiles
from reconciler.tree.reading.view import CellView, FindOriginal

DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
RUN = "performance/run_1"
VALID = "result_validity", "VALID"
Line = tuple[str, object]


def log(*lines: Line) -> str:
    """A detail log; a key that begins with error is an ERROR line, one with warning a warning."""
    reported = (
        {
            "key": key,
            "value": value,
            "time_ms": 1.0,
            "metadata": {"is_error": key.startswith("error"), "is_warning": key.startswith("warning")},
        }
        for key, value in lines
    )
    return "".join(f":::MLLOG {json.dumps(each)}\n" for each in reported)


def parse_log(values: Mapping[str, object], file: str = "log.txt") -> DetailLog:
    return parse_detail(log(*values.items()).encode(), file)


def rules(**reported: Any) -> Any:
    """Of a benchmark that demands nothing but what is reported: ``values`` by name, or another of its attributes."""
    values = reported.pop("values", {})
    tests = reported.pop("tests", {})
    named: dict[str, Any] = {
        "name": "resnet",
        "compliance_tests": tuple(tests),
        "get_value": lambda name, _: values.get(name),
        "find_ruled_value": lambda name, _: values.get(name),
        "get_built_in": lambda name, _: values.get(name),
        "list_bars": lambda _: reported.get("asked", ()),
        "find_extra_files": lambda _: reported.get("extra"),
        "find_test": lambda name, _: tests[name],
    }
    return SimpleNamespace(**named | reported)


class _Round:
    """A real round, but for a benchmark's rules and the demands that do not bind."""

    def __init__(self, name: str, benchmark: Any, exempt: Iterable[str], more: Mapping[str, Any]) -> None:
        self._real, self._benchmark, self._exempt = load_ruleset(name), benchmark, frozenset(exempt)
        vars(self).update(more)

    def find_benchmark(self, official: str) -> Any:
        return self._real.find_benchmark(official) if self._benchmark == "" else self._benchmark

    def binds(self, _: str, demand: str) -> bool:
        return demand not in self._exempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def small_cell(
    root: Path,
    files: Mapping[str, str | bytes],
    *,
    scenario: str = "Offline",
    folder: str = "",
    division: str = "closed",
    official: str = "resnet",
    benchmark: Any = "",
    exempt: Iterable[str] = (),
    original: FindOriginal | None = None,
    layout: str = V6,
    round_name: str = "v6.1",
    more: Mapping[str, Any] | None = None,
) -> CellView:
    """``files`` by their path in the scenario folder, or below the submitter's where it begins with a slash.
    ``benchmark``: its rules, "" for those of the round, None for none."""
    place = CellPlace(Cell(division, "sys1", "resnet", scenario), folder or scenario)
    top = root / division / "Acme"
    submitter = SubmitterPlace(division, "Acme", top, f"{division}/Acme", layout)
    for path, data in files.items():
        target = top / path[1:] if path.startswith("/") else top / "results/sys1/resnet" / place.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    asked: Any = _Round(round_name, benchmark, exempt, more or {})
    system = SubmitterFiles(submitter).read_system("sys1")
    return CellView(CellFiles(submitter, place), system, asked, official, original)


def say(complaints: Iterable[Complaint]) -> list[str]:
    """Severity, places and mechanism of each, in no words of its own; the path of a scenario folder is left out."""
    return [_say(each) for each in complaints]


def _say(said: Complaint) -> str:
    text = f"{Severity.NOTE if said.doubt else said.severity} {said.place}"
    text += f"; see {said.other}" if said.other is not None else ""
    text += f"; mechanism: {said.mechanism}" if said.mechanism else ""
    return text.replace("closed/Acme/results/sys1/resnet/Offline", ".").removeprefix("None ")
