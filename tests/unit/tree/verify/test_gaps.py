"""What could not be compared in a cell, file by file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.tree.findings import Gap
from reconciler.verify.gaps import find_log_gaps, find_result_gaps
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, rules, small_cell

HERE = "closed/Acme/results/sys1/resnet/Offline"
UNMEANT = "no line of user.conf is for the model and scenario that ran"
LOG = log(("effective_scenario", "Offline"))
FILES = {
    **{f"{folder}/{name}": text for folder in (RUN, "accuracy") for name, text in ((DETAIL, LOG), (SUMMARY, "x"))},
    "user.conf": "*.*.min_duration = 5\n",
    "accuracy/accuracy.txt": "x",
    f"TEST01/{RUN}/{DETAIL}": LOG,
    "TEST01/verify_performance.txt": "x",
}


def tell(root: Path, files: Mapping[str, str], find: Any = find_log_gaps, **options: Any) -> list[str]:
    """Place and reason; blind ones say so."""
    found: list[Gap] = list(find(small_cell(root, files, **{"benchmark": rules(values={"model_key": "x"}), **options})))
    assert {(gap.submitter, gap.cell) for gap in found} <= {("Acme", "closed/sys1/resnet/Offline")}
    return [f"{'blind ' * gap.blind}{str(gap.place).replace(HERE, '.')}: {gap.reason}" for gap in found]


@pytest.mark.parametrize(
    ("changed", "gaps"),
    [
        ({}, []),
        ({f"{RUN}/{DETAIL}": None}, [f"blind ./{RUN}/{DETAIL}: the performance run's detail log is not there"]),
        (
            {f"{RUN}/{DETAIL}": "no log"},
            [f"blind ./{RUN}/{DETAIL}:1: the performance run's detail log cannot be read"],
        ),
        ({f"accuracy/{DETAIL}": None}, [f"blind ./accuracy/{DETAIL}: the accuracy run's detail log is not there"]),
        ({f"{RUN}/{SUMMARY}": None}, [f"./{RUN}/{SUMMARY}: the performance run's summary is not there"]),
        ({f"accuracy/{SUMMARY}": None}, [f"./accuracy/{SUMMARY}: the accuracy run's summary is not there"]),
        ({"user.conf": None}, ["./user.conf: user.conf is not there"]),
        ({"user.conf": ""}, []),
        (
            {"user.conf": "*.Server.target_qps = 5\n"},
            ["./user.conf: no line of user.conf is for the model and scenario that ran"],
        ),
        ({"accuracy/accuracy.txt": None}, ["./accuracy/accuracy.txt: accuracy.txt is not there"]),
        (
            {f"TEST01/{RUN}/{DETAIL}": None},
            [f"./TEST01/{RUN}/{DETAIL}: the detail log of a compliance test is not there"],
        ),
        (
            {f"TEST01/{RUN}/{DETAIL}": "no log"},
            [f"./TEST01/{RUN}/{DETAIL}: the detail log of a compliance test cannot be read"],
        ),
        ({f"TEST01/{RUN}/{DETAIL}": None, "TEST01/verify_performance.txt": None, "TEST01/x": ""}, []),
    ],
)
def test_each_file_that_is_of_no_use_is_a_gap(
    tmp_path: Path, changed: Mapping[str, str | None], gaps: list[str]
) -> None:
    assert tell(tmp_path, {path: text for path, text in {**FILES, **changed}.items() if text is not None}) == gaps


def test_gaps_are_told_in_their_order(tmp_path: Path) -> None:
    assert tell(tmp_path, {"TEST04/verify_performance.txt": "", "TEST01/verify_performance.txt": ""}, official="") == [
        ".: v6.1 has no such benchmark, whose rules could be applied",
        f"blind ./{RUN}/{DETAIL}: the performance run's detail log is not there",
        f"./{RUN}/{SUMMARY}: the performance run's summary is not there",
        f"blind ./accuracy/{DETAIL}: the accuracy run's detail log is not there",
        f"./accuracy/{SUMMARY}: the accuracy run's summary is not there",
        "./user.conf: user.conf is not there",
        "./accuracy/accuracy.txt: accuracy.txt is not there",
        f"./TEST01/{RUN}/{DETAIL}: the detail log of a compliance test is not there",
        f"./TEST04/{RUN}/{DETAIL}: the detail log of a compliance test is not there",
    ]


def test_results_of_the_endpoints_harness_that_are_not_there_blind(tmp_path: Path) -> None:
    names = "config.yaml", "performance/result_summary.json"
    assert tell(tmp_path / "a", {}, find_result_gaps) == [
        "blind ./config.yaml: config.yaml is not there",
        "blind ./performance/result_summary.json: result_summary.json is not there",
    ]
    broken = tell(tmp_path / "b", dict.fromkeys(names, "["), find_result_gaps)
    assert [line.partition(": ")[2] for line in broken] == [
        "config.yaml cannot be read",
        "result_summary.json cannot be read",
    ]
    assert not tell(tmp_path / "c", dict.fromkeys(names, "{}"), find_result_gaps)
