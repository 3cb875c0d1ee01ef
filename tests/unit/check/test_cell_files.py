"""Which files a scenario folder holds, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.check.cell_files import check_extra_files, check_power_files, check_readable_logs
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, say, small_cell

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


def test_files_that_cannot_be_read_are_reported_at_their_lines(tmp_path: Path) -> None:
    broken = some(
        f"{RUN}/{DETAIL}",
        f"accuracy/{DETAIL}",
        f"TEST01/{RUN}/{DETAIL}",
        *(f"{name}/x" for name in ("user.conf", f"accuracy/{TEXT}", f"TEST01/{RUN}/{SUMMARY}")),
        data="no line of a log\n",
    )
    found = say(check_readable_logs(small_cell(tmp_path, broken | {"measurements.json": '{\n"a": '})))
    places = [line.partition(": ")[0] for line in found]
    assert places == [
        *(f"./{RUN}/{DETAIL}:1", f"./accuracy/{DETAIL}:1", f"./TEST01/{RUN}/{DETAIL}:1", f"./TEST01/{RUN}/{SUMMARY}"),
        *("./user.conf", "./measurements.json:2", f"./accuracy/{TEXT}"),
    ]
    whole = {f"{RUN}/{DETAIL}": log(("a", 1)), "measurements.json": "{}"}
    assert not list(check_readable_logs(small_cell(tmp_path / "whole", whole)))


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
