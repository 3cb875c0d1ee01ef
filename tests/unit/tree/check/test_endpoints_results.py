"""Where, and in which words, a result of the endpoints harness is refused, value by value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.engine import check_tree
from reconciler.verify.engine import verify_tree
from tests.unit.tree.check.made import write
from tests.unit.tree.check.written import RESULT, SCORES, SEEDS, endpoints_tree

CONFIG, SUMMARY, ACCURACY = "config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json"
AUDIT = "audit/audit_consistency_output_test.json"
SAMPLES, SCHEDULE = SEEDS["sample_index_rng_seed"], SEEDS["schedule_rng_seed"]
SCORE = SCORES["accuracy_scores"][0]
NO_SCORE = "no score, not a score for every dataset"


def complain(root: Path, scenario: str = "Server") -> list[str]:
    """Rule, place, what was found and what not, of the cell: first of ``check``, then of ``verify-tree``."""
    reports = (check(root, round_name="v6.1") for check in (check_tree, verify_tree))
    found = [finding for report in reports for finding in report.findings if finding.cell.endswith(f"/{scenario}")]
    places = [str(finding.complaint.place).rpartition(f"/{scenario}/")[2] for finding in found]
    return [
        f"{finding.rule.id} {place}: {finding.complaint.found}, not {finding.complaint.wanted}"
        for finding, place in zip(found, places, strict=True)
    ]


@pytest.mark.parametrize("file", ["config.yaml", SUMMARY, ACCURACY])
def test_a_file_that_is_not_there_is_named(file: str, tmp_path: Path) -> None:
    (endpoints_tree(tmp_path) / file).unlink()
    assert complain(tmp_path) == [f"endpoints.files {file}: missing, not what the endpoints harness writes"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "type: online",
            "type: offline",
            [
                f"{rule} config.yaml:1: type offline, not a run of Server"
                for rule in ("endpoints.scenario", "placement.endpoints")
            ],
        ),
        ("600000", "599999", ["endpoints.duration config.yaml:5: min_duration_ms 599999, not at least 600000"]),
        ("600000", "620000", []),
        ("600000", "620001", ["endpoints.duration config.yaml:5: min_duration_ms 620001, not a run of 620 s"]),
        (
            f"dataloader_random_seed: {SAMPLES}",
            "dataloader_random_seed: 5",
            [f"endpoints.seeds config.yaml:6: dataloader_random_seed 5, not {SAMPLES}, the seed of v6.1"],
        ),
        (
            f"scheduler_random_seed: {SCHEDULE}",
            "x: 5",
            [f"endpoints.seeds config.yaml: scheduler_random_seed nothing, not {SCHEDULE}, the seed of v6.1"],
        ),
        (
            "issue: 60000",
            "issue: 60001",
            ["endpoints.samples config.yaml:8: n_samples_to_issue 60001, not 60000 samples issued"],
        ),
        ("issue: 60000", "issue: 59999", []),
        ("qps: 100", "qps: 94.9", []),  # within 2 %
        (
            "qps: 100",
            "qps: 94.8",
            ["endpoints.target config.yaml:3: target_qps 94.8, not 96.774 queries per second completed"],
        ),
    ],
)
def test_a_configuration_is_that_of_the_round_and_of_the_run(
    old: str, new: str, said: list[str], tmp_path: Path
) -> None:
    path = endpoints_tree(tmp_path) / CONFIG
    write(path, path.read_text().replace(old, new))
    assert complain(tmp_path) == said


@pytest.mark.parametrize(("scenario", "holds"), [("Offline", False), ("Interactive", True)])
def test_no_server_completes_more_than_it_is_asked_for(scenario: str, holds: bool, tmp_path: Path) -> None:
    cell = endpoints_tree(tmp_path)
    if scenario == "Interactive":
        cell.rename(cell.with_name(scenario))
    path = cell.with_name(scenario) / CONFIG
    write(path, path.read_text().replace("target_qps: 100", "target_qps: 50"))
    assert any(text.startswith("endpoints.target") for text in complain(tmp_path, scenario)) is holds


def p99(**values: int) -> dict[str, Any]:
    return {name: {"early_stopping_percentiles": {"99": value}} for name, value in values.items()}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"n_samples_failed": 1},
            [
                f"endpoints.failures {SUMMARY}:4: 1 sample failed, not none",
                f"endpoints.samples {SUMMARY}:2: 60000 samples issued, not 60000 completed and 1 failed",
            ],
        ),
        (
            {"n_samples_failed": 1, "n_samples_completed": 59999},
            [f"endpoints.failures {SUMMARY}:4: 1 sample failed, not none"],
        ),
        (
            {"n_samples_completed": 59999},
            [f"endpoints.samples {SUMMARY}:2: 60000 samples issued, not 59999 completed and 0 failed"],
        ),
        (
            {"qps": None, "tps": None, "output_sequence_lengths": {}},
            [
                f"endpoints.metric {SUMMARY}: nothing to take tokens/s from, "
                "not what the checker calls result_completed_tokens_per_second"
            ],
        ),
        ({"qps": 98.7}, []),
        ({"qps": 98.8}, [f"endpoints.rate {SUMMARY}:6: qps 98.8, not 96.7742, of what it counted in 620 s"]),
        ({"qps": 94.8}, [f"endpoints.rate {SUMMARY}:6: qps 94.8, not 96.7742, of what it counted in 620 s"]),
        ({"tps": 987}, []),
        ({"tps": 988}, [f"endpoints.rate {SUMMARY}:7: tps 988, not 967.742, of what it counted in 620 s"]),
        (
            {"qps": 5, "tps": 1000, "legacy_loadgen_window_duration_ns": 600 * 10**9},
            [f"endpoints.rate {SUMMARY}:6: qps 5, not 99.9983, of what it counted in 600 s"],
        ),
        (p99(ttft=2 * 10**9 - 1, tpot=10**8 - 1), []),
        (p99(ttft=2 * 10**9), [f"endpoints.latencies {SUMMARY}:13: p99 ttft 2000.0 ms, not below 2000.0 ms"]),
        (p99(tpot=10**8), [f"endpoints.latencies {SUMMARY}:18: p99 tpot 100.0 ms, not below 100.0 ms"]),
        ({"ttft": None}, [f"endpoints.latencies {SUMMARY}: p99 ttft nothing, not below 2000.0 ms"]),
    ],
)
def test_a_summary_is_held_to_the_rules_and_to_its_own_counts(
    values: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    """None: the field is left out."""
    kept = {name: value for name, value in {**RESULT, **values}.items() if value is not None}
    write(endpoints_tree(tmp_path) / SUMMARY, json.dumps(kept, indent=2))
    assert complain(tmp_path) == said


@pytest.mark.parametrize(
    ("scores", "line", "said"),
    [
        (None, "", [NO_SCORE, "nothing samples, not exactly 13368"]),
        ([], ":2", [NO_SCORE, "nothing samples, not exactly 13368"]),
        ([{**SCORE, "score": None}], ":2", [NO_SCORE]),
        ([SCORE, {"score": None, "total_samples": 0}], ":2", [NO_SCORE]),
        ([{**SCORE, "total_samples": 13368}, {"score": 1, "total_samples": 0}], ":2", []),
        ([{"score": 1}], ":2", ["nothing samples, not exactly 13368"]),
        (
            [{**SCORE, "total_samples": 13367}],
            ":2",
            ["13367 samples, not exactly 13368", "13367 scored samples, not 13368 in the dataset"],
        ),
    ],
)
def test_every_sample_of_every_dataset_has_its_score(
    scores: list[Any] | None, line: str, said: list[str], tmp_path: Path
) -> None:
    document = {} if scores is None else {"accuracy_scores": scores}
    write(endpoints_tree(tmp_path) / ACCURACY, json.dumps(document, indent=2))
    found = complain(tmp_path)
    assert [text.partition(": ")[2] for text in found] == said
    assert {text.partition(": ")[0].split()[1] for text in found} == ({f"{ACCURACY}{line}"} if said else set())


@pytest.mark.parametrize(
    ("benchmark", "said"),
    [
        ("wan-2.2-t2v-a14b", ["audit/audit_output_caching_test.json: missing, not the result of TEST04"]),
        ("llama3.1-8b", []),  # its tests may be left out
    ],
)
def test_a_test_that_the_checker_refuses_a_result_without_is_missed(
    benchmark: str, said: list[str], tmp_path: Path
) -> None:
    folder = endpoints_tree(tmp_path).parent
    folder.rename(folder.with_name(benchmark))
    found = complain(tmp_path)
    assert [text for text in found if text.startswith("endpoints.audits")] == [f"endpoints.audits {x}" for x in said]


def test_an_audit_that_cannot_be_read_is_refused_at_its_line(tmp_path: Path) -> None:
    write(endpoints_tree(tmp_path) / AUDIT, '{\n"test": ')
    (text,) = complain(tmp_path)
    assert text.startswith(f"endpoints.audits {AUDIT}:2: ")
    assert text.endswith(", not a JSON object")


TEST = "consistency_output_test"


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"test": TEST, "passed": True}, ""),
        ({"test": TEST, "passed": False}, f":3: test {TEST}, passed false"),
        ({"test": TEST, "passed": "true"}, f":3: test {TEST}, passed true"),
        ({"test": TEST}, f": test {TEST}, passed nothing"),
        ({"test": "other", "passed": True}, ":3: test other, passed true"),
    ],
    ids=["passed", "failed", "in words", "nothing", "of another test"],
)
def test_an_audit_says_that_its_own_test_is_passed(stated: dict[str, object], said: str, tmp_path: Path) -> None:
    write(endpoints_tree(tmp_path) / AUDIT, json.dumps(stated, indent=1))
    wanted = [f"endpoints.audits {AUDIT}{said}, not test {TEST}, passed true"] if said else []
    assert [text for text in complain(tmp_path) if text.startswith("endpoints.audits")] == wanted


@pytest.mark.parametrize("left", [False, True], ids=["missing", "there"])
def test_an_audit_that_the_round_asks_for_is_there(left: bool, tmp_path: Path) -> None:
    """Of video; the tests of other benchmarks may be left out."""
    cell = endpoints_tree(tmp_path)
    assert complain(tmp_path) == []
    video = cell.parent.rename(cell.parent.with_name("wan-2.2-t2v-a14b")) / cell.name
    if left:
        write(video / "audit/audit_output_caching_test.json", '{"test": "output_caching_test", "passed": true}')
    found = [text for text in complain(tmp_path) if text.startswith("endpoints.audits")]
    missing = "endpoints.audits audit/audit_output_caching_test.json: missing, not the result of TEST04"
    assert found == ([] if left else [missing])
