"""What a prepared LoadGen test will do, told from LoadGen's own settings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

lg = pytest.importorskip("mlperf_loadgen")

from harness import loadgen  # noqa: E402
from harness.contract import Mode, Scenario  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.loadgen import Prepared, Responder, prepare  # noqa: E402

BRIEF = {"min_duration_ms": 2000, "min_query_count": 10}


def ready(scenario: Scenario = "Offline", mode: Mode = "performance", audit: str = "", **values: Any) -> Prepared:
    settings = lg.TestSettings()
    settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
    for name, value in values.items():
        setattr(settings, name, value)
    test = loadgen.Test(
        scenario=scenario, mode=mode, model_key="*", user_conf=Path(), log_dir=Path(), audit_config=audit
    )
    return Prepared(test=test, settings=settings)


@pytest.mark.parametrize(
    ("scenario", "values", "samples"),
    [
        ("SingleStream", {**BRIEF, "single_stream_expected_latency_ns": 10_000_000}, 200),
        ("SingleStream", {**BRIEF, "single_stream_expected_latency_ns": 10**9}, 10),
        (
            "MultiStream",
            {**BRIEF, "multi_stream_expected_latency_ns": 10_000_000, "multi_stream_samples_per_query": 8},
            1600,
        ),
        ("MultiStream", {**BRIEF, "multi_stream_expected_latency_ns": 10**9, "multi_stream_samples_per_query": 8}, 80),
        ("Server", {**BRIEF, "server_target_qps": 50.0}, 100),
        ("Server", {**BRIEF, "server_target_qps": 1.0}, 10),
        ("Offline", {**BRIEF, "offline_expected_qps": 50.0}, 110),
        ("Offline", {**BRIEF, "offline_expected_qps": 1.0}, 10),
    ],
)
def test_samples_are_expected_by_the_rate_and_the_least_count(
    scenario: Scenario, values: dict[str, Any], samples: int
) -> None:
    assert ready(scenario, **values).expected_samples(7) == samples
    assert ready(scenario, "accuracy", **values).expected_samples(7) == 7
    assert ready(scenario, "accuracy", accuracy_sample_count_override=5, **values).expected_samples(7) == 5


@pytest.mark.parametrize(
    ("prepared", "logged"),
    [
        (ready(), False),
        (ready(mode="accuracy"), True),
        (ready(accuracy_log_sampling_target=1), True),
        (ready(accuracy_log_probability=0.5), True),
        (ready(audit="audit.config"), True),
    ],
    ids=["performance", "accuracy", "sampled", "by-chance", "audited"],
)
def test_responses_are_given_bytes_where_stand_inmay_log_them(prepared: Prepared, logged: bool) -> None:
    assert prepared.logs_responses is logged


def test_a_snapshot_names_what_it_can_and_counts_the_rest() -> None:
    found = ready(min_query_count=17).snapshot()
    assert (found["mode"], found["min_query_count"]) == ("PerformanceOnly", 17)
    assert not [name for name in found if name.startswith("_") or name == "FromConfig"]


def test_a_folder_that_is_not_there_is_said_before_stand_inruns(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    test = loadgen.Test(
        scenario="Offline", mode="performance", model_key="*", user_conf=gone / "user.conf", log_dir=gone
    )
    with pytest.raises(HarnessError, match="the log folder is not there") as caught:
        prepare(test)
    assert caught.value.problem_class == "input"


class Completed:
    """Stands in for LoadGen, and reads what it would: (id, bytes, tokens) of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[int, bytes, int]] = []
        monkeypatch.setattr(loadgen.lg, "QuerySamplesComplete", self._read)

    def _read(self, responses: Sequence[Any]) -> None:
        self.found = [(r.id, ctypes.string_at(r.data, r.size) if r.data else b"", r.n_tokens) for r in responses]


ROWS = np.arange(6, dtype=np.int8).reshape(2, 3)
RAGGED = [np.array([1, 2], np.int8), np.array([3], np.int8)]


@pytest.mark.parametrize(
    ("responses", "counts", "tokens", "completed"),
    [
        (ROWS, None, True, [(5, b"\0\1\2", 3), (9, b"\3\4\5", 3)]),
        (ROWS, [2, 1], True, [(5, b"\0\1\2", 2), (9, b"\3\4\5", 1)]),
        (RAGGED, None, True, [(5, b"\1\2", 2), (9, b"\3", 1)]),
        (RAGGED, [7, 8], True, [(5, b"\1\2", 7), (9, b"\3", 8)]),
        (ROWS, [2, 1], False, [(5, b"\0\1\2", 0), (9, b"\3\4\5", 0)]),
        (None, None, True, [(5, b"", 0), (9, b"", 0)]),
    ],
    ids=["rows", "counted-rows", "ragged", "counted-ragged", "no-tokens", "no-bytes"],
)
def test_each_sample_is_completed_with_its_own_bytes_and_tokens(
    responses: Any, counts: list[int] | None, tokens: bool, completed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = Completed(monkeypatch)
    responder = Responder(with_data=True, tokens=tokens)
    responder.complete([5, 9], responses, counts)
    assert stand_in.found == completed
    responder.complete([6], None if responses is None else responses[1:], counts and counts[1:])  # of kept objects
    assert stand_in.found == [(6, *completed[1][1:])]


def test_without_data_only_samples_and_tokens_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = Completed(monkeypatch)
    Responder(with_data=False, tokens=True).complete([5, 9], ROWS)
    assert stand_in.found == [(5, b"", 3), (9, b"", 3)]
