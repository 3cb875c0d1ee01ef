"""What a test's log says of its audit.config, against the round's."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.verify.audit_settings import verify_test_settings
from tests.unit.tree.small_cells import DETAIL, RUN, log, say, small_cell

MARKER = "Found Audit Config file (audit.config). Overriding TestSettings from audit.config file."
SEED = 720381539243781796  # as the audit.config of TEST01 has it


def find(root: Path, test: str, division: str = "closed", marked: bool = True, **logged: object) -> list[str]:
    lines = [("warning_generic_message", MARKER)] if marked else [("a", 1)]
    text = log(*lines, *((f"effective_{name}", value) for name, value in logged.items()))
    view = small_cell(root, {f"TEST01/{RUN}/{DETAIL}".replace("TEST01", test): text}, division=division)
    return say(verify_test_settings(view))


def test_a_test_logs_as_many_answers_as_the_round_asks_for(tmp_path: Path) -> None:
    right = {"accuracy_log_sampling_target": 4096, "accuracy_log_rng_seed": SEED}
    assert find(tmp_path / "a", "TEST01", **right) == []
    fewer = {**right, "accuracy_log_sampling_target": 1}
    reported = [f"./TEST01/{RUN}/{DETAIL}:2"]
    assert find(tmp_path / "b", "TEST01", **fewer) == reported
    both = {**fewer, "accuracy_log_rng_seed": 0}
    assert find(tmp_path / "c", "TEST01", **both) == reported  # once for a test
    seed = {**right, "accuracy_log_rng_seed": 0}
    assert find(tmp_path / "d", "TEST01", **seed) == [f"./TEST01/{RUN}/{DETAIL}:3"]


def test_flags_are_those_of_the_test(tmp_path: Path) -> None:
    right = {"performance_issue_same": True, "performance_issue_unique": False, "performance_issue_same_index": 3}
    assert find(tmp_path / "a", "TEST04", **right) == []
    other = {**right, "performance_issue_same_index": 0}
    assert find(tmp_path / "b", "TEST04", **other) == [f"./TEST04/{RUN}/{DETAIL}:4"]


@pytest.mark.parametrize(
    ("test", "division", "marked", "logged"),
    [
        ("TEST01", "open", True, {"accuracy_log_sampling_target": 1}),
        ("TEST01", "closed", False, {"accuracy_log_sampling_target": 1}),
        (
            "TEST01",
            "closed",
            True,
            {"accuracy_log_sampling_target": 0},
        ),  # no run of the test, which is reported elsewhere
        ("TEST01", "closed", True, {"accuracy_log_sampling_target": "1"}),
        ("TEST01", "closed", True, {"accuracy_log_rng_seed": 0}),
        ("TEST01", "closed", True, {"accuracy_log_sampling_target": 4096, "min_query_count": 1}),
        ("TEST99", "closed", True, {"accuracy_log_sampling_target": 1}),
    ],
)
def test_nothing_is_said_of_other_runs_and_settings(
    tmp_path: Path, test: str, division: str, marked: bool, logged: dict[str, object]
) -> None:
    assert find(tmp_path, test, division, marked, **logged) == []
