"""What published trees carry and their round accepted: read as the round's checker reads it, and no error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.check.limits import check_equal_issue
from reconciler.loadgen.compare import Asked, find_contradictions
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.tree.findings import Severity
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.view import RunView
from tests.unit.tree.check.conftest import checked
from tests.unit.tree.check.made import change_system, write

CELLS = "closed/Acme/results/sys1/resnet"
KEY = "sample_concatenate_permutation"


def log(version: str, **values: object) -> bytes:
    entries = {"loadgen_version": version, "effective_scenario": "Offline", **values}
    lines = [{"key": key, "value": value, "metadata": {}} for key, value in entries.items()]
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines).encode()


def run_with(
    data: bytes, conf: str = "", mlperf_conf: str = "", sources: tuple[str, ...] = ("old checker", "mlperf.conf")
) -> RunView:
    """As much of a run as the rule reads. ``sources``: who asks for equal issue."""
    confs = {name: Read(name, parse_user_conf(text.encode())) for name, text in (("u", conf), ("m", mlperf_conf))}
    ruled = SimpleNamespace(sources=sources)
    rules = SimpleNamespace(value=lambda name, _: {"model_key": "acme"}.get(name, True), ruled=lambda *_: ruled)
    files = SimpleNamespace(user_conf=confs["u"], mlperf_conf=confs["m"])
    cell = SimpleNamespace(files=files, rules=rules, official="acme")
    parsed = parse_detail(data, "log")
    return cast("RunView", SimpleNamespace(cell=cell, log=parsed, scenario="Offline"))


@pytest.mark.parametrize(
    ("data", "confs", "accepted"),
    [
        (log("4.1 @ abc"), {"mlperf_conf": f"acme.*.{KEY} = 1\n"}, True),
        (log("4.1 @ abc"), {"conf": f"*.Offline.{KEY} = 1\n"}, True),
        (log("4.1 @ abc"), {"conf": f"other.*.{KEY} = 1\n"}, False),
        (log("4.1 @ abc"), {}, False),
        (log("4.1 @ abc", **{f"effective_{KEY}": False}), {"conf": f"*.*.{KEY} = 1\n"}, False),
        (log("4.1 @ abc", **{f"effective_{KEY}": True}), {}, True),
        (log("6.0.17 @ abc"), {"conf": f"*.*.{KEY} = 1\n"}, False),
    ],
)
def test_equal_issue_is_read_from_the_confs_where_loadgen_did_not_log_it(
    data: bytes, confs: dict[str, Any], accepted: bool
) -> None:
    assert (not list(check_equal_issue(run_with(data, **confs)))) is accepted


@pytest.mark.parametrize(
    ("sources", "severity"),
    [(("old checker",), None), (("checker", "mlperf.conf"), None), (("mlperf.conf",), Severity.WARNING)],
)
def test_equal_issue_that_no_checker_asks_for_is_a_warning(sources: tuple[str, ...], severity: Severity | None) -> None:
    """An earlier LoadGen of the round may not have set it yet."""
    (found,) = check_equal_issue(run_with(log("6.0.5 @ abc", **{f"effective_{KEY}": False}), sources=sources))
    assert found.severity is severity


@pytest.mark.parametrize(("version", "known"), [("4.0 @ abc", False), ("5.0.25 @ abc", True), ("", True)])
def test_a_setting_that_a_release_did_not_log_is_unknown(version: str, known: bool) -> None:
    parsed = parse_detail(log(version, effective_test_mode="PerformanceOnly", result_validity="VALID"), "log")
    found = find_contradictions(parsed, Asked("Offline", "performance", {KEY: True}))
    assert [item.field for item in found] == ([KEY] if known else [])


def test_files_among_the_results_are_a_note(tree: Path) -> None:
    for folder in ("closed/Acme/results", "closed/Acme/results/sys1", CELLS):
        write(tree / folder / "summary.html", "<p>results</p>")
    found = {finding.rule.id: finding.severity for finding in checked(tree).findings}
    assert found == {"submitter.loose": Severity.NOTE, "benchmark.stray": Severity.NOTE}


def test_an_inferred_multistream_is_eight_times_the_estimate(tree_of: Callable[[str], Path]) -> None:
    tree = tree_of("closed")
    change_system(tree, system_type="edge")
    shutil.rmtree(tree / CELLS / "MultiStream")
    shutil.copytree(tree / CELLS / "SingleStream", tree / CELLS / "MultiStream")
    facts = {item.cell.rpartition("/")[2]: item for item in checked(tree).facts}
    text = (tree / CELLS / "SingleStream/performance/run_1/mlperf_log_detail.txt").read_text()
    estimate = next(json.loads(line[8:]) for line in text.splitlines() if '"early_stopping_latency_ms"' in line)[
        "value"
    ]
    assert facts["MultiStream"].metric == pytest.approx(8 * estimate / 1e6)
    assert facts["MultiStream"].metric != facts["SingleStream"].metric
