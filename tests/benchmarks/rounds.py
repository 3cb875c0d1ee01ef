"""Interleaved rounds, medians of their ratios, and the report of a benchmark."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure and its limit. ``at_least``: False if the figure must be at most the limit."""

    name: str
    value: float
    limit: float
    at_least: bool = True
    unit: str = ""
    detail: str = ""

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def interleave(measures: Mapping[str, Callable[[], float]], rounds: int) -> list[dict[str, float]]:
    """Run every measure once per round, in alternating order."""
    names = list(measures)
    results = []
    for number in range(rounds):
        turned = names[number % len(names) :] + names[: number % len(names)]
        results.append({name: measures[name]() for name in turned})
    return results


def median(rounds: list[dict[str, float]], figure: Callable[[dict[str, float]], float]) -> float:
    return statistics.median(figure(item) for item in rounds)


def spread(rounds: list[dict[str, float]], figure: Callable[[dict[str, float]], float]) -> str:
    figures = sorted(figure(item) for item in rounds)
    return f"from {figures[0]:.3f} to {figures[-1]:.3f} in {len(figures)} rounds"


def medians(rounds: list[dict[str, float]]) -> str:
    names = rounds[0]
    return ", ".join(f"{name} {statistics.median(item[name] for item in rounds):,.1f}" for name in names)


def ratio(item: dict[str, float]) -> float:
    return item["harness"] / item["bare"]


def compare(
    name: str,
    pair: Mapping[str, Callable[[], float]],
    rounds: int,
    limit: float,
    figure: Callable[[dict[str, float]], float] = ratio,
    *,
    shown: str = "samples/s",
    **more: Any,
) -> Measure:
    """``figure``: computed from each round; ``shown``: the unit of the measures; ``more``: further arguments of the
    Measure."""
    measured = interleave(pair, rounds)
    detail = f"{medians(measured)} {shown}, {spread(measured, figure)}"
    return Measure(name, median(measured, figure), limit, detail=detail, **more)


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved rounds (default %(default)s)")
    parser.add_argument("--only", default="", help="run the parts whose name contains this")
    return parser.parse_args()


def run_parts(name: str, description: str, parts: Mapping[str, Callable[[Path, int], list[Measure]]]) -> int:
    """Run a benchmark's parts in a temporary folder and print the report. Return 0 if every limit is met, else 1."""
    options = arguments(description)
    with tempfile.TemporaryDirectory() as folder:
        chosen = [part for part_name, part in parts.items() if options.only in part_name]
        measures = [measure for part in chosen for measure in part(Path(folder), options.rounds)]
    return report(name, measures, as_json=options.json)


def report(name: str, measures: list[Measure], *, as_json: bool) -> int:
    """Print the report. Return 0 if every limit is met, else 1."""
    if as_json:
        rows: list[dict[str, Any]] = [{**asdict(measure), "holds": measure.holds} for measure in measures]
        print(json.dumps({"benchmark": name, "measures": rows}, indent=1))
    else:
        for measure in measures:
            sign = ">=" if measure.at_least else "<="
            mark = "ok  " if measure.holds else "MISS"
            print(
                f"{mark} {measure.name}: {measure.value:.3f}{measure.unit} ({sign} {measure.limit}); {measure.detail}"
            )
    return 0 if all(measure.holds for measure in measures) else 1
