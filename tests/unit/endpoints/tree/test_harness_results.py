"""Trees of MLPerf Inference with results of the endpoints harness: checked, and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.engine import check_tree
from reconciler.tree.rule_engine import INTERNAL
from tests.unit.check.made import write
from tests.unit.check.test_other_trees import rules
from tests.unit.check.written import RESULT, SCORES, endpoints_tree
from tests.unit.verify.test_other_layouts import contradictions


def test_endpoints_results_are_read(tmp_path: Path) -> None:
    endpoints_tree(tmp_path)
    assert not rules(tmp_path)
    assert not contradictions(tmp_path)
    report = check_tree(tmp_path, round_name="v6.1")
    assert [facts.harness for facts in report.facts] == ["endpoints", "endpoints"]
    assert [facts.unit for facts in report.facts] == ["tokens/s", "tokens/s"]
    assert [facts.metric for facts in report.facts] == [967.74, 967.74]


def test_endpoints_results_of_no_benchmark_of_the_round_are_verified_as_far_as_they_go(tmp_path: Path) -> None:
    folder = endpoints_tree(tmp_path).parent
    folder.rename(folder.with_name("llama9-8b"))
    found = check_tree(tmp_path, round_name="v6.1").findings
    assert {(finding.rule.id, finding.complaint.fix) for finding in found} == {("benchmark.known", "")}
    assert "endpoints.scored" not in contradictions(tmp_path)


SUMMARY, ACCURACY = "performance/result_summary.json", "accuracy/accuracy_results.json"


def changed(document: dict[str, Any], **fields: Any) -> str:
    return json.dumps({**document, **fields}, indent=2)


@pytest.mark.parametrize(
    ("file", "text", "rule"),
    [
        pytest.param("config.yaml", None, "endpoints.files", id="no config"),
        pytest.param("config.yaml", "type: [", "files.readable", id="broken YAML"),
        pytest.param("config.yaml", "type: offline\n", "endpoints.scenario", id="another scenario"),
        pytest.param("config.yaml", "type: online\n", "endpoints.seeds", id="no seeds"),
        pytest.param("config.yaml", "type: online\n", "endpoints.duration", id="no duration"),
        pytest.param(SUMMARY, changed(RESULT, n_samples_failed=3), "endpoints.failures", id="failed"),
        pytest.param(SUMMARY, changed(RESULT, ttft={}), "endpoints.latencies", id="no TTFT"),
        pytest.param(
            SUMMARY, changed(RESULT, tps=None, output_sequence_lengths={}), "endpoints.metric", id="no metric"
        ),
        pytest.param(SUMMARY, "[]", "files.readable", id="a list"),
        pytest.param(ACCURACY, "{}", "endpoints.accuracy", id="no score"),
        pytest.param(
            "audit/audit_consistency_output_test.json", '{"passed": false}', "endpoints.audits", id="not passed"
        ),
    ],
)
def test_a_broken_endpoints_result(file: str, text: str | None, rule: str, tmp_path: Path) -> None:
    path = endpoints_tree(tmp_path) / file
    path.unlink() if text is None else write(path, text)
    assert rule in rules(tmp_path)
    assert INTERNAL.id not in rules(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "rule"),
    [
        pytest.param(SUMMARY, changed(RESULT, n_samples_completed=9), "endpoints.samples", id="samples"),
        pytest.param(SUMMARY, changed(RESULT, qps=5), "endpoints.rate", id="rate"),
        pytest.param(SUMMARY, changed(RESULT, duration_ns=10**9), "endpoints.duration", id="duration"),
        pytest.param(SUMMARY, changed(RESULT, qps=500), "endpoints.target", id="target"),
        pytest.param(
            ACCURACY,
            json.dumps({"accuracy_scores": [{**SCORES["accuracy_scores"][0], "total_samples": 10}]}),
            "endpoints.scored",
            id="scored",
        ),
        pytest.param("config.yaml", "type: offline\n", "placement.endpoints", id="placement"),
    ],
)
def test_a_contradiction_of_the_endpoints_harness(file: str, text: str, rule: str, tmp_path: Path) -> None:
    write(endpoints_tree(tmp_path) / file, text)
    assert rule in contradictions(tmp_path)


PACED = "load_pattern: {type: poisson, target_qps: 100}"
NUMBER = "    n_samples_to_issue: 60000\n"


@pytest.mark.parametrize(
    ("seconds", "changes", "contradicted"),
    [
        pytest.param(620, {}, False, id="a number of samples ends the run"),
        pytest.param(599, {}, True, id="shorter than the round demands"),
        pytest.param(620, {NUMBER: ""}, True, id="at the target rate"),
        pytest.param(
            620, {NUMBER: "", PACED: "load_pattern: {type: max_throughput}"}, False, id="faster than expected"
        ),
        pytest.param(620, {NUMBER: "", f"  {PACED}\n": ""}, True, id="no load pattern"),
    ],
)
def test_a_run_may_end_before_its_minimum_duration(
    seconds: int, changes: dict[str, str], contradicted: bool, tmp_path: Path
) -> None:
    """The client stops at a number of samples, which it computes from the duration only if it is not configured."""
    folder = endpoints_tree(tmp_path).parent / "Offline"
    text = (folder / "config.yaml").read_text().replace("min_duration_ms: 600000", "min_duration_ms: 900000")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    write(folder / "config.yaml", text)
    rates = {name: RESULT["n_samples_completed"] * tokens / seconds for name, tokens in (("qps", 1), ("tps", 10))}
    result = changed(RESULT, duration_ns=seconds * 10**9, **rates)
    write(folder / SUMMARY, result)
    assert contradictions(tmp_path) == ({"endpoints.duration"} if contradicted else set())
    assert not rules(tmp_path)


def test_a_conversation_at_a_time_is_a_run_of_singlestream(tmp_path: Path) -> None:
    folder = endpoints_tree(tmp_path)
    cell = folder.rename(folder.parent / "SingleStream")
    text = (cell / "config.yaml").read_text()
    for users, expected in ((1, False), (2, True)):
        pattern = f"load_pattern: {{type: agentic_inference, target_concurrency: {users}}}"
        write(cell / "config.yaml", text.replace(PACED, pattern))
        assert ("endpoints.scenario" in rules(tmp_path)) is expected
        assert ("placement.endpoints" in contradictions(tmp_path)) is expected
