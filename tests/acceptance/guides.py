"""The rows of guides.yaml carried out: what a step of a guide is here, typed into a shell at a place that was prepared.

``python -m tests.acceptance.guides --table FILE`` writes them with exit code and output line; ``--only PLACE`` takes
the rows of one place.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

HERE = Path(__file__).parent
TOP = HERE.parents[1]
STATES = ("works", "partly", "absent", "hardware")
_LONGEST_S = 1800


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    guides: tuple[str, ...]
    says: str
    run: str
    shows: str
    place: str
    code: int
    state: str
    because: str
    when: str  # shell words that succeed where the row can be tried


@dataclass(frozen=True, slots=True)
class Tried:
    row: Row
    code: int | None  # None where it could not be tried here
    line: str
    said: str

    @property
    def fault(self) -> str:
        """Why it is not as the table says; empty if it is."""
        if self.code is None or (self.code == self.row.code and self.line):
            return ""
        return (
            f"{self.row.name}: exit code {self.code} for {self.row.code}, {self.row.shows!r} in:\n{self.said[-3000:]}"
        )


@dataclass(frozen=True, slots=True)
class Guides:
    prelude: str
    places: dict[str, dict[str, str]]
    rows: tuple[Row, ...]

    def at(self, place: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.place == place)


def read_guides() -> Guides:
    found: dict[str, Any] = YAML(typ="safe").load(HERE / "guides.yaml")
    rows = []
    for place, given in found["rows"].items():
        for name, values in given.items():
            given_guides = tuple(values.pop("guide"))
            defaults = {"code": 0, "state": "works", "because": "", "when": "", **values}
            rows.append(Row(name=name, place=place, guides=given_guides, **defaults))
    return Guides(found["prelude"], found["places"], tuple(rows))


def try_rows(guides: Guides, place: str, folder: Path) -> Iterator[Tried]:
    """Those of one place, in their order: what one row makes, later ones use."""
    needed = guides.places[place]
    if (when := needed.get("when", "")) and _type(guides, when, folder)[0] != 0:
        yield from (Tried(row, None, "", when) for row in guides.at(place))
        return
    work = folder / place
    work.mkdir()
    code, said = _type(guides, needed.get("made", ""), work)
    assert code == 0, f"{place}: {said}"
    for row in guides.at(place):
        if row.when and _type(guides, row.when, work)[0] != 0:
            yield Tried(row, None, "", row.when)
            continue
        code, said = _type(guides, row.run, work)
        matched = re.search(row.shows, said, re.M)
        yield Tried(row, code, _whole_line(said, matched) if matched else "", said)


def _whole_line(said: str, found: re.Match[str]) -> str:
    begin, end = said.rfind("\n", 0, found.start()) + 1, said.find("\n", found.end())
    return " ".join(said[begin : end if end >= 0 else None].split()) or found[0]


def _type(guides: Guides, script: str, folder: Path) -> tuple[int, str]:
    """What a shell answers, and all that it printed."""
    own = {"PYTHON": sys.executable, "PYTHONPATH": str(TOP), "TOP": str(TOP), "RECONCILE_BUSY": "1"}
    person = {"NAME": "A Tester", "EMAIL": "tester@example.com"}
    for part, value in person.items():
        own |= {f"GIT_AUTHOR_{part}": value, f"GIT_COMMITTER_{part}": value}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLPERF_", "GIT_"))}
    done = subprocess.run(
        ["bash", "-uc", guides.prelude + script],
        cwd=folder,
        env={**kept, **own, "GIT_CONFIG_GLOBAL": os.devnull, "PLACES": str(folder.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_LONGEST_S,
        check=False,
    )
    return done.returncode, done.stdout


def render_table(tried: list[Tried]) -> str:
    lines = [
        "| Row | Guides | What it says | Here | Exit | Output | State | Because |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in tried:
        code = "not tried here" if one.code is None else str(one.code)
        cells = (
            *(one.row.name, " ".join(one.row.guides), one.row.says, f"`{' '.join(one.row.run.split())}`"),
            *(code, f"`{one.line[:160]}`" if one.line else "", one.row.state, one.row.because),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    counts = ", ".join(f"{sum(one.row.state == state for one in tried)} {state}" for state in STATES)
    return "\n".join([f"{len(tried)} rows: {counts}.", "", *lines, ""])


def main(words: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.acceptance.guides", description=__doc__)
    options.add_argument("--table", type=Path, required=True)
    options.add_argument("--only", action="append")
    given = options.parse_args(words)
    guides, tried = read_guides(), []
    with tempfile.TemporaryDirectory() as folder:
        for place in given.only or guides.places:
            for one in try_rows(guides, place, Path(folder)):
                tried.append(one)
                print(one.fault or f"{one.row.name}: {one.line or 'not tried here'}", flush=True)
    given.table.write_text(render_table(tried), encoding="utf-8")
    return int(any(one.fault for one in tried))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
