"""Which benchmarks and scenarios a system's folder may and must hold, and which files a scenario folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.check.cell_files import check_extra_files, check_power_files
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, say, small_cell

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
