"""Results whose files are written here: other layouts, token benchmarks, the endpoints harness, without LoadGen."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from reconciler.rules.rounds import load_ruleset
from tests.unit.check.made import AUDITS, MEASUREMENTS, ROUND, SUBMITTER, SYSTEM, system, write
from tests.unit.tree.small_cells import log

SEEDS = load_ruleset(ROUND).seeds()
TOKENS = {
    "loadgen_version": "3.1 @ 0123456789",  # of later releases every line is asked for
    "effective_scenario": "Server",
    "effective_test_mode": "PerformanceOnly",
    "effective_samples_per_query": 1,
    "effective_target_qps": 50,
    "effective_target_latency_ns": 0,
    "effective_min_duration_ms": 600_000,
    "effective_performance_sample_count": 13_368,
    "effective_sample_concatenate_permutation": True,
    "requested_use_token_latencies": True,
    "requested_server_ttft_latency": 500_000_000,
    "requested_server_tpot_latency": 30_000_000,
    **{f"effective_{name}": seed for name, seed in SEEDS.items()},
    "power_end": "08-01-2026 10:20:00.000",
    "result_validity": "VALID",
    "early_stopping_met": True,
    "result_first_token_99.00_percentile_latency_ns": 400_000_000,
    "result_time_per_output_token_99.00_percentile_ns": 20_000_000,
    "result_completed_tokens_per_second": 900.5,
}


def open_cell(root: Path, benchmark: str, scenario: str, logged: dict[str, Any]) -> Path:
    """An open-division result of a datacenter system, with a handwritten performance log."""
    top = root / "open" / SUBMITTER
    write(top / "systems" / f"{SYSTEM}.json", json.dumps(system("open", system_type="datacenter")))
    write(top / "src" / benchmark / "README.md", "code\n")
    write(top / "src" / benchmark / "run.py", "pass\n")
    cell = top / "results" / SYSTEM / benchmark / scenario
    for name in ("measurements.json", "README.md", "user.conf"):
        write(cell / name, json.dumps(MEASUREMENTS) if name.endswith("json") else "# none\n")
    write(cell / "performance/run_1/mlperf_log_detail.txt", log(*logged.items()))
    write(cell / "performance/run_1/mlperf_log_summary.txt", "Result is : VALID\n")
    accuracy = {**logged, "effective_test_mode": "AccuracyOnly", "effective_accuracy_sample_count": 13_368}
    write(cell / "accuracy/mlperf_log_detail.txt", log(*accuracy.items()))
    write(cell / "accuracy/mlperf_log_summary.txt", "Scenario : Server\n")
    write(cell / "accuracy/mlperf_log_accuracy.json", "[]")
    write(cell / "accuracy/accuracy.txt", f"{{'rouge1': 38.7}}\nhash={hashlib.sha256(b'[]').hexdigest()}\n")
    return cell


def as_legacy(root: Path) -> Path:
    """Take a tree apart as rounds before v6.0 had it: results, measurements, compliance and code."""
    for top in root.glob("*/*"):
        if (top / "src").exists():
            shutil.move(top / "src", top / "code")
        for cell in [path for path in (top / "results").glob("*/*/*") if path.is_dir()]:
            place = cell.relative_to(top / "results")
            for name in ("measurements.json", "user.conf", "README.md"):
                if (cell / name).exists():
                    target = top / "measurements" / place / (f"{SYSTEM}.json" if name.endswith("json") else name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(cell / name, target)
            for test in filter(Path.exists, (cell / test for test in AUDITS)):
                (top / "compliance" / place).mkdir(parents=True, exist_ok=True)
                shutil.move(test, top / "compliance" / place / test.name)
    return root


CONFIG = """\
type: offline
settings:
  load_pattern: {{type: poisson, target_qps: 100}}
  runtime:
    min_duration_ms: 600000
    dataloader_random_seed: {sample_index_rng_seed}
    scheduler_random_seed: {schedule_rng_seed}
    n_samples_to_issue: 60000
"""
RESULT = {
    "n_samples_issued": 60_000,
    "n_samples_completed": 60_000,
    "n_samples_failed": 0,
    "duration_ns": 620_000_000_000,
    "qps": 96.774,
    "tps": 967.74,
    "output_sequence_lengths": {"avg": 10.0, "min": 1, "max": 20},
    "ttft": {"early_stopping_percentiles": {"99": 1_000_000_000}},
    "tpot": {"early_stopping_percentiles": {"99.0": 50_000_000}},
}
SCORES = {"accuracy_scores": [{"score": 0.39, "dataset_type": "accuracy", "total_samples": 13_368}]}


def endpoints_tree(root: Path) -> Path:
    """A closed result of llama3.1-8b by the endpoints harness; gives its folder. No other scenario is required."""
    top = root / "closed" / SUBMITTER
    write(top / "systems" / f"{SYSTEM}.json", json.dumps(system(system_type="datacenter")))
    write(top / "src/llama3.1-8b/README.md", "code\n")
    write(top / "src/llama3.1-8b/run.py", "pass\n")
    write(top / "documentation/calibration.md", "none\n")
    cell = top / "results" / SYSTEM / "llama3.1-8b"
    for scenario in ("Offline", "Server"):
        folder = cell / scenario
        kind = CONFIG if scenario == "Offline" else CONFIG.replace("offline", "online")
        write(folder / "config.yaml", kind.format(**SEEDS))
        write(folder / "performance/result_summary.json", json.dumps(RESULT, indent=2))
        write(folder / "accuracy/accuracy_results.json", json.dumps(SCORES, indent=2))
        write(folder / "measurements.json", json.dumps(MEASUREMENTS))
        write(folder / "README.md", "how to run\n")
    return cell / "Server"
