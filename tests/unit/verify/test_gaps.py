"""What could not be compared in a cell, file by file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.tree.findings import Gap
from reconciler.verify.cell_rules import find_log_gaps
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, rules, small_cell

HERE = "closed/Acme/results/sys1/resnet/Offline"
LOG = log(("effective_scenario", "Offline"))
FILES = {
    **{f"{folder}/{name}": text for folder in (RUN, "accuracy") for name, text in ((DETAIL, LOG), (SUMMARY, "x"))},
    "user.conf": "*.*.min_duration = 5\n",
    "accuracy/accuracy.txt": "x",
    f"TEST01/{RUN}/{DETAIL}": LOG,
    "TEST01/verify_performance.txt": "x",
}


def find_wrong(root: Path, files: Mapping[str, str], find: Any = find_log_gaps, **options: Any) -> list[str]:
    """The place of each; blind ones say so."""
    found: list[Gap] = list(find(small_cell(root, files, **{"benchmark": rules(values={"model_key": "x"}), **options})))
    assert {(gap.submitter, gap.cell) for gap in found} <= {("Acme", "closed/sys1/resnet/Offline")}
    return [f"{'blind ' * gap.blind}{str(gap.place).replace(HERE, '.')}" for gap in found]


@pytest.mark.parametrize(
    ("changed", "gaps"),
    [
        ({}, []),
        ({f"{RUN}/{DETAIL}": None}, [f"blind ./{RUN}/{DETAIL}"]),
        ({f"{RUN}/{DETAIL}": "no log"}, [f"blind ./{RUN}/{DETAIL}:1"]),
        ({f"accuracy/{DETAIL}": None}, [f"blind ./accuracy/{DETAIL}"]),
        ({f"{RUN}/{SUMMARY}": None}, [f"./{RUN}/{SUMMARY}"]),
        ({f"accuracy/{SUMMARY}": None}, [f"./accuracy/{SUMMARY}"]),
        ({"user.conf": None}, ["./user.conf"]),
        ({"user.conf": ""}, []),
        ({"user.conf": "*.Server.target_qps = 5\n"}, ["./user.conf"]),
        ({"accuracy/accuracy.txt": None}, ["./accuracy/accuracy.txt"]),
        ({f"TEST01/{RUN}/{DETAIL}": None}, [f"./TEST01/{RUN}/{DETAIL}"]),
        ({f"TEST01/{RUN}/{DETAIL}": "no log"}, [f"./TEST01/{RUN}/{DETAIL}"]),
        ({f"TEST01/{RUN}/{DETAIL}": None, "TEST01/verify_performance.txt": None, "TEST01/x": ""}, []),
    ],
)
def test_each_file_of_no_use_is_a_gap(tmp_path: Path, changed: Mapping[str, str | None], gaps: list[str]) -> None:
    assert find_wrong(tmp_path, {path: text for path, text in {**FILES, **changed}.items() if text is not None}) == gaps
