"""The runs that the cases begin with, each made once by the real LoadGen, and how their logs are changed."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHILD = Path(__file__).parent / "child.py"
SEED = 720381539243781796
TOTAL = 64
EOS = 2
SUMMARY, DETAIL, ANSWERS = "mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_accuracy.json"


def classes() -> list[str]:
    """An int32 class for each sample, whose low byte is the same for every fourth."""
    return [struct.pack("<i", 256 * index + index % 4).hex() for index in range(TOTAL)]


def tokens(code: str = "i") -> list[str]:
    """2 to 9 tokens, the last one the end of the sequence."""
    return [struct.pack(f"<{n}{code}", *range(10, 9 + n), EOS).hex() for n in (2 + i % 8 for i in range(TOTAL))]


def predictions(*, labelled: bool) -> list[str]:
    """Timestamp, query, three predictions; in accuracy mode their labels, weights and number too."""
    found = []
    for index in range(TOTAL):
        values = [index // 8, index, 0.1 + index / 100, 0.5, 0.9 - index / 100]
        found.append(values + ([1, 0, 1, 1, 2, 1, 3] if labelled else []))
    return [struct.pack(f"<{len(values)}f", *values).hex() for values in found]


@dataclass(frozen=True)
class Run:
    """One LoadGen run. ``audit``: lines of its audit.config."""

    scenario: str
    answers: list[str]
    mode: str = "PerformanceOnly"
    model: str = "resnet50"
    audit: str = ""
    tokens: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


SHORT = {"min_duration_ms": 0, "min_query_count": 700, "performance_sample_count_override": 0}
SAMPLED = f"*.*.mode = 2\n*.*.accuracy_log_rng_seed = {SEED}\n*.*.accuracy_log_sampling_target = 4096\n"
SAME = "".join(
    f"*.{s}.mode = 2\n*.{s}.performance_issue_unique = 0\n*.{s}.performance_issue_same = 1\n"
    f"*.{s}.performance_issue_same_index = 3\n"
    for s in ("SingleStream", "MultiStream", "Server", "Offline")
)
LLM = SAMPLED.replace("4096", "100") + (
    "*.*.min_query_count = 100\n*.*.min_duration = 0\n*.*.sample_concatenate_permutation = 0\n"
)
_RATES = {
    "Offline": {"offline_expected_qps": 1000.0},
    "Server": {"server_target_qps": 2000.0, "server_target_latency_ns": 5_000_000_000},
    "SingleStream": {"single_stream_expected_latency_ns": 100_000},
    "MultiStream": {"multi_stream_expected_latency_ns": 200_000},
}
_SLOW_TOKENS = {"ttft_latency": 5_000_000_000, "tpot_latency": 5_000_000_000}


def _runs() -> dict[str, Run]:
    found = {"accuracy": Run("Offline", classes(), "AccuracyOnly", settings={"accuracy_sample_count_override": 0})}
    for scenario, rates in _RATES.items():
        settings = SHORT | rates
        found[f"performance/{scenario}"] = Run(scenario, classes(), settings=settings)
        found[f"TEST01/{scenario}"] = Run(scenario, classes(), audit=SAMPLED, settings=settings)
        found[f"TEST04/{scenario}"] = Run(scenario, classes(), audit=SAME, settings=settings)
    ragged = classes()
    ragged[0] = ragged[0][:6]
    found["TEST01/ragged"] = Run("Offline", ragged, audit=SAMPLED, settings=SHORT | _RATES["Offline"])
    other = classes()
    other[5] = struct.pack("<i", 99).hex()
    found["TEST01/other"] = Run("Offline", other, audit=SAMPLED, settings=SHORT | _RATES["Offline"])
    high = classes()
    high[5] = struct.pack("<i", 256 * 77 + 1).hex()
    found["TEST01/high-bytes"] = Run("Offline", high, audit=SAMPLED, settings=SHORT | _RATES["Offline"])
    for name, scenario, code in (
        ("TEST06/Offline", "Offline", "i"),
        ("TEST06/Server", "Server", "i"),
        ("TEST06/SingleStream", "SingleStream", "i"),
        ("TEST06/int64", "Server", "q"),
    ):
        settings = SHORT | _RATES[scenario] | _SLOW_TOKENS
        width = struct.calcsize(code)
        found[name] = Run(scenario, tokens(code), "PerformanceOnly", "llama2-70b", LLM, width, settings)
    quick = {"performance_sample_count_override": 0, "min_duration_ms": 0}
    found["TEST08/accuracy"] = Run("Offline", predictions(labelled=True), "AccuracyOnly", settings=quick)
    found["TEST08/audit"] = Run("Offline", predictions(labelled=False), audit=SAMPLED, settings=SHORT | quick)
    return found


RUNS = _runs()


def make_all(folder: Path) -> Path:
    """Run every one of RUNS in a child process; its logs lie under its name."""
    requests = []
    for name, item in RUNS.items():
        logs = folder / name
        logs.mkdir(parents=True)
        conf = logs.parent / f"{logs.name}.audit"
        conf.write_text(item.audit)
        requests.append(
            {
                "folder": str(logs),
                "model": item.model,
                "scenario": item.scenario,
                "mode": item.mode,
                "settings": item.settings,
                "audit": str(conf) if item.audit else "",
                "total": TOTAL,
                "answers": item.answers,
                "tokens": item.tokens,
            }
        )
    request = folder / "request.json"
    request.write_text(json.dumps(requests))
    done = subprocess.run(
        [sys.executable, str(CHILD), str(request)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


Change = Callable[[Path], None]


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    after = change(before)
    assert after != before, f"nothing to change in {path.name}"
    path.write_text(after)


def edit_answers(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the entries of an accuracy log in place; it is written as LoadGen writes it."""
    path = folder / ANSWERS
    entries = json.loads(path.read_text())
    change(entries)
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text(f"[\n{lines}\n]\n")


def set_logged(folder: Path, key: str, value: Any) -> None:
    """Set the value of a key in a detail log."""
    path = folder / DETAIL
    lines, found = [], False
    for line in path.read_text().splitlines():
        entry = json.loads(line.removeprefix(":::MLLOG "))
        if entry["key"] == key:
            entry["value"], found = value, True
        lines.append(f":::MLLOG {json.dumps(entry)}\n")
    assert found, key
    path.write_text("".join(lines))


def set_summary(folder: Path, key: str, value: str) -> None:
    """Set the text behind a key in a summary log."""
    path, lines, found = folder / SUMMARY, [], False
    for line in path.read_text().splitlines():
        name, colon, _ = line.partition(":")
        if colon and name.strip() == key:
            line, found = f"{name}: {value}", True
        lines.append(f"{line}\n")
    assert found, key
    path.write_text("".join(lines))


def write_detail(**values: object) -> bytes:
    """A detail log of a VALID run in the Offline scenario, with these values too or in place of its own."""
    logged = {"loadgen_version": "6.0", "effective_scenario": "Offline", "result_validity": "VALID", **values}
    lines = ({"key": key, "value": value, "metadata": {"is_error": False}} for key, value in logged.items())
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines).encode()


def write_answers(*answers: str) -> list[bytes]:
    """The lines of an accuracy log."""
    entries = (json.dumps({"seq_id": n, "qsl_idx": n, "data": data}) for n, data in enumerate(answers))
    return "\n".join(["[", ",\n".join(entries), "]"]).encode().splitlines()
