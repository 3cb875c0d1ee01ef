"""Attempts that an older version began are read as it meant them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.execute.attempt import (
    Intent,
    MachineFacts,
    Placement,
    ServerAccess,
    create,
    make_attempt_id,
    read,
    read_placement,
)
from reconciler.resource.kinds import Address
from reconciler.resource.ruled_values import AccuracyLogRule, Bar, LatencyLimits, Metric
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import EndpointsContext, RuleContext

RUN = "Run:open/box/digits/Offline/performance"
FIRST: dict[str, Any] = {
    "format": 1,
    "id": "2026-1",
    "address": RUN,
    "key": "k" * 64,
    "revision": 1,
    "started": "2026",
    "inputs": {"batch": [4, "specs/a.yaml:3"]},
    "settings": {"target_qps": "10"},
}
RULED = {
    "ruled.metric": ["result_samples_per_second", "samples/s", 2, True],
    "ruled.accuracy_log": [1, 2, 3],
    "ruled.bars": [["acc", "75.5", None], ["tokens", "1", "9"]],
    "ruled.bars_bind": True,
}
ENDPOINTS = {
    "ruled.endpoints_limits": ["1", None, "3"],
    "ruled.endpoints_audits": {"TEST04": "output_caching_test"},
    "ruled.endpoints_tokens": ["7", "8"],
    "ruled.endpoints_single": True,
    "ruled.min_duration": 600,
}
RULES = RuleContext(
    metric=Metric("result_samples_per_second", "samples/s", 2, lower_is_better=True),
    accuracy_log=AccuracyLogRule(1, 2, 3),
    bars=(Bar("acc", Decimal("75.5"), None), Bar("tokens", Decimal(1), Decimal(9))),
    bars_bind=True,
)


def upgraded(folder: Path, **settings: object) -> Intent:
    written = {**FIRST, "settings": {**FIRST["settings"], **settings}}
    (folder / "attempt.json").write_text(json.dumps(written))
    attempt = read(folder)
    assert attempt is not None
    assert attempt.folder == folder
    return attempt.intent


def intend(**more: Any) -> Intent:
    inputs = {"batch": (4, "specs/a.yaml:3")}
    settings = CellSettings({"target_qps": "10"})
    return Intent("2026-1", Address.parse(RUN), "k" * 64, 1, "2026", inputs, settings, **more)


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, {}),
        (RULED, {"rules": RULES}),
        ({"running.port": 80}, {"server": ServerAccess(80)}),
        ({"running.port": 80, "running.log": "server.log"}, {"server": ServerAccess(80, "server.log")}),
        ({"running.log": "server.log"}, {}),
        ({"noted.machine.nodes": [{"name": "n1"}]}, {"machine": MachineFacts(({"name": "n1"},))}),
        ({"evident.nodes.drivers": ["550"]}, {"machine": MachineFacts(drivers=("550",))}),
        ({"noted.machine.shared_with": "bob"}, {"machine": MachineFacts(shared_with="bob")}),
        (
            {"known_answers": {"reasons": []}, "response_dtype": "int32"},
            {"known_answers": {"reasons": []}, "response_dtype": "int32"},
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_was_a_setting_has_its_place(tmp_path: Path, settings: dict[str, object], more: dict[str, Any]) -> None:
    assert upgraded(tmp_path, **settings) == intend(**more)


def test_rules_of_the_first_format_are_those_of_their_positions(tmp_path: Path) -> None:
    rules = upgraded(tmp_path, **RULED, **ENDPOINTS).ruling
    assert rules.endpoints == EndpointsContext(
        limits=LatencyLimits(Decimal(1), None, Decimal(3)),
        audits={"TEST04": "output_caching_test"},
        mean_tokens=(Decimal(7), Decimal(8)),
        single_score=True,
        min_duration=600,
    )
    assert (rules.answers_compared, rules.performance_checked) == (False, True)
    reported = {"ruled.answers_compared": True, "ruled.judged": False}
    rules = upgraded(tmp_path, **{**RULED, **ENDPOINTS, **reported, "ruled.endpoints_tokens": []}).ruling
    assert (rules.answers_compared, rules.performance_checked) == (True, False)
    assert rules.endpoints is not None
    assert rules.endpoints.mean_tokens is None


def test_an_attempt_of_today_is_read_as_it_was_begun(tmp_path: Path) -> None:
    intent = intend(rules=RULES, server=ServerAccess(80, "log"), machine=MachineFacts(drivers=("550",)))
    attempt = create(tmp_path, intent)
    assert read(attempt.folder) == attempt
    document = json.loads((attempt.folder / "attempt.json").read_text())
    for wrong in ({**document, "format": 3}, {**document, "key": 7}, {"format": 2}, {}, []):
        (attempt.folder / "attempt.json").write_text(json.dumps(wrong))
        assert read(attempt.folder) is None
    (attempt.folder / "attempt.json").unlink()
    assert read(attempt.folder) is None


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        (None, Placement()),
        ("", Placement()),
        ("slurm 7", Placement("slurm 7")),
        ("slurm 7\nn1\nn2\n", Placement("slurm 7", ("n1", "n2"))),
    ],
    ids=["not begun", "begun, and nothing written", "no nodes", "nodes"],
)
def test_where_a_job_ran_is_what_it_wrote_as_it_began(text: str | None, placement: Placement, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "placed").write_text(text)
    assert read_placement(tmp_path / "placed") == placement


def test_attempts_are_named_by_their_time_so_that_names_sort_as_they_began() -> None:
    moments = [datetime(2026, 1, 2, 3, 4, 5, micro, tzinfo=UTC) for micro in (6, 7, 700_000)]
    names = [make_attempt_id(moment) for moment in moments]
    assert names == [f"20260102T030405.{micro}-{os.getpid()}" for micro in ("000006", "000007", "700000")]
