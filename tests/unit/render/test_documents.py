"""Values in JSON reports, long lines of text, changes of inputs as they are printed, and the page of findings."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.timeline import ChangeCause
from reconciler.render.documents import convert_decimal_text, convert_setting
from reconciler.render.findings_page import render_findings_page
from reconciler.render.table import fold_line
from reconciler.render.timeline import render_changes_text
from reconciler.resource.rules import Rule
from reconciler.tree.findings import Complaint, Place, TreeFinding, TreeReport


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("target_qps", "6.75", 6.75),
        ("compliance.target_qps", "1000", 1000),
        ("target_latency_percentile", "99.9", 99.9),
        ("engine.gpu_memory_utilization", "0.9", 0.9),
        ("engine.tensor_parallel", "2", "2"),
        ("benchmark.official", "0.9", "0.9"),
        ("version", "1.31", "1.31"),
        ("rehearsal", True, True),
        ("min_query_count", 5, 5),
    ],
)
def test_decimals_of_settings_become_numbers_and_texts_stay(name: str, value: Any, shown: Any) -> None:
    found = convert_setting(name, value)
    assert (found, type(found)) == (shown, type(shown))


@pytest.mark.parametrize("text", ["1.10", "0.1234567890123456789", "1e3", "nan", "inf", "12345678901234567890", "v6.1"])
def test_a_number_that_would_change_stays_text(text: str) -> None:
    assert convert_decimal_text(text) == text


def test_a_path_wider_than_a_line_is_folded_after_a_slash() -> None:
    path = "/".join(f"folder-{number}" for number in range(20))
    lines = fold_line(f"error: {path}: not found", 80)
    assert max(map(len, lines)) <= 80
    assert all(line.endswith("/") for line in lines[:-1])
    assert "".join(line.strip() for line in lines) == f"error: {path}: not found"


@pytest.mark.parametrize(
    ("name", "before", "after", "shown"),
    [
        ("target_latency", 500_000_000, 15_000_000, "500 ms → 15 ms"),
        ("min_duration", 600_000, None, "10 min → none"),
        ("batch_size", 8, 16, "8 → 16"),
        ("dataset", "a" * 64, "b" * 64, f"{'a' * 12} → {'b' * 12}"),
    ],
)
def test_a_changed_input_is_shown_with_its_unit(name: str, before: Any, after: Any, shown: str) -> None:
    cause = ChangeCause("Run performance", name, before, after)
    change: Any = SimpleNamespace(
        cell="open/box/toy/Server", same=False, declared=(True, True), causes=(cause,), before=None, after=None, due=()
    )
    assert shown in render_changes_text(("a", "b"), [change])


RULE = Rule("log.consistency", "a log that contradicts itself", ("ours",))
NAMES = ("delta", "alpha", "echo", "bravo", "charlie")


def test_submitters_with_equally_many_findings_stand_by_name() -> None:
    found = [
        TreeFinding(RULE, name, f"closed/{name}", Complaint(Place("a.txt"), "1", "2")) for name in (*NAMES, "echo")
    ]
    report = TreeReport(root="tree", rounds=("v5.1",), layouts=("v6",), facts=(), findings=tuple(found))
    plot = render_findings_page(report, "Findings").partition("findings by submitter")[2].partition("</svg>")[0]
    assert re.findall(r">(\w+)</text><rect", plot) == ["echo", "alpha", "bravo", "charlie", "delta"]
