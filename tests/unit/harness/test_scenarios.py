"""Every scenario on every backend in both modes, each in a child of its own."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.unit.harness import tiny
from tests.unit.harness.children import Children
from tests.unit.harness.conftest import ENGINES, Artifacts

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
SETTINGS: dict[str, Any] = {"batch_size": 8, "streams": 2, "threads": 1}


@pytest.mark.parametrize(
    ("backend", "scenario"), [*product(("null", "onnxruntime"), SCENARIOS), ("openvino", "Server")]
)
def test_performance_completes_samples(backend: str, scenario: str, children: Children, artifacts: Artifacts) -> None:
    ended = children.run(scenario, backend=backend, inputs=artifacts.inputs(backend), settings=SETTINGS)
    result, detail = ended.result, ended.detail
    assert result.done, ended.output
    assert detail["errors"] == []
    assert detail["num_errors"] == 0
    queries = detail["result_query_count"]
    per_query = {"MultiStream": 8, "Offline": detail["generated_samples_per_query"]}.get(scenario, 1)
    assert queries * per_query == result.values["samples_completed"] >= 70
    assert result.values["marks"] == ["synthetic"]
    assert detail["effective_test_mode"] == "PerformanceOnly"
    assert detail["effective_scenario"].replace(" ", "") == scenario
    assert detail["effective_qsl_rng_seed"] != 0
    assert ended.answers == []


@pytest.mark.parametrize(("backend", "scenario"), [*product(ENGINES, SCENARIOS), ("null", "MultiStream")])
def test_accuracy_run_answers_every_sample_with_its_own_class(
    backend: str, scenario: str, children: Children, artifacts: Artifacts
) -> None:
    ended = children.run(scenario, "accuracy", backend=backend, inputs=artifacts.inputs(backend), settings=SETTINGS)
    assert ended.result.done, ended.output
    assert ended.detail["errors"] == []
    answers = ended.answers
    assert {index for index, _ in answers} == set(range(tiny.COUNT))
    assert len(answers) == (104 if scenario == "MultiStream" else tiny.COUNT)  # LoadGen pads the last query
    expected = tiny.labels() if backend in ENGINES else np.zeros(tiny.COUNT, np.int64)
    assert all(data == np.int32(expected[index]).tobytes() for index, data in answers)
    assert ended.result.values["samples_completed"] == len(answers)


@pytest.mark.parametrize("backend", ENGINES)
def test_many_samples_are_loaded_in_parts(backend: str, children: Children, artifacts: Artifacts) -> None:
    """Four parts of 30, 30, 30 and 10 samples, so every part is flushed with a partial batch."""
    ended = children.run(
        "Server",
        "accuracy",
        backend=backend,
        inputs=artifacts.inputs(backend),
        settings={**SETTINGS, "queue_delay_us": 2000},
        performance_sample_count=30,
    )
    assert ended.result.done, ended.output
    assert sorted(ended.answers) == [(i, np.int32(label).tobytes()) for i, label in enumerate(tiny.labels())]


@pytest.mark.parametrize("backend", ENGINES)
def test_multistream_query_larger_than_a_batch_is_cut(backend: str, children: Children, artifacts: Artifacts) -> None:
    inputs, settings = artifacts.inputs(backend), {"batch_size": 3, "streams": 2}
    ended = children.run("MultiStream", "accuracy", backend=backend, inputs=inputs, settings=settings)
    assert ended.result.done, ended.output
    assert dict(ended.answers) == {i: np.int32(label).tobytes() for i, label in enumerate(tiny.labels())}


def test_performance_answers_that_an_audit_samples_are_real(children: Children, artifacts: Artifacts) -> None:
    """Like TEST01: the audit config samples answers of a performance run, here all of them."""
    audit = (
        "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n*.*.accuracy_log_sampling_target = 1000000\n"
        "resnet50.*.min_query_count = 90\n"
    )
    inputs = artifacts.inputs("onnxruntime")
    ended = children.run("Offline", backend="onnxruntime", audit=audit, inputs=inputs, settings=SETTINGS)
    assert ended.result.done, ended.output
    assert ended.result.values["loadgen"]["settings"]["min_query_count"] == 90  # a line that names the model
    assert len(ended.answers) == ended.result.values["samples_completed"] >= 90
    labels = tiny.labels()
    assert all(data == np.int32(labels[index]).tobytes() for index, data in ended.answers)


def test_audit_config_in_the_working_folder_is_ignored(children: Children, artifacts: Artifacts) -> None:
    folder = children.place()
    (folder / "audit.config").write_text("*.*.mode = 1\n", encoding="ascii")
    ended = children.run("Offline", backend="null", folder=folder, inputs=artifacts.inputs("null"), settings=SETTINGS)
    assert ended.detail["effective_test_mode"] == "PerformanceOnly"
