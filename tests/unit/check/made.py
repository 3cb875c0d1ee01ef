"""Submission trees for tests: logs of short runs of the real LoadGen, the files around them written here."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reconciler.rules.accuracy import add_hash
from reconciler.rules.rounds import load_ruleset
from tests.unit.loadgen.truncation import truncate_log

CHILD = Path(__file__).parents[1] / "loadgen" / "loadgen_child.py"
ROUND = "v6.1"
SUBMITTER, SYSTEM, BENCHMARK = "Acme", "sys1", "resnet"
SCENARIOS = ("SingleStream", "MultiStream", "Offline")
TOTAL, LOADED = 50_000, 1_024
SETTINGS = {
    "SingleStream": "*.SingleStream.target_latency = 0.001\n*.*.min_query_count = 700\n",
    "MultiStream": "*.MultiStream.target_latency = 0.2\n*.*.min_query_count = 700\n",
    "Offline": "*.Offline.target_qps = 1000\n*.*.min_query_count = 24576\n",
    "Server": "*.Server.target_qps = 2000\n*.Server.target_latency = 15\n*.*.min_query_count = 700\n",
}
SHORT = "*.*.min_duration = 0\n"
AUDITS = {
    "TEST01": "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n*.*.accuracy_log_sampling_target = 4096\n",
    "TEST04": "*.*.mode = 2\n*.*.performance_issue_unique = 0\n*.*.performance_issue_same = 1\n"
    "*.*.performance_issue_same_index = 3\n",
}
_SCORES = ("early_stopping_latency_ss", "early_stopping_latency_ms", "result_samples_per_second")
_RESULTS = ("generated_", "power_", "result_", "early_stopping_", "test_datetime")
_FASTEST = r'("key": "result_min_(?:query_)?latency_ns", "value": )(\d+)'
_PARAMETERS = "Test Parameters Used"
MEASUREMENTS = {
    "input_data_types": "fp32",
    "retraining": "No",
    "starting_weights_filename": "resnet50_v1.onnx",
    "weight_data_types": "int8",
    "weight_transformations": "quantization",
}


def make_logs(folder: Path, scenarios: tuple[str, ...] = SCENARIOS) -> Path:
    """<folder>/<scenario>/<performance|accuracy|TEST01|TEST04>/ with the logs of one run each."""
    if importlib.util.find_spec("mlperf_loadgen") is None:
        pytest.skip("mlcommons-loadgen is not installed")
    wanted = [(folder / s / run, s, run) for s in scenarios for run in ("performance", "accuracy", *AUDITS)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda item: _run(*item), wanted))
    return folder


def _run(folder: Path, scenario: str, run: str) -> None:
    folder.mkdir(parents=True)
    work = folder.parent / f"{run}.work"
    work.mkdir()
    (work / "user.conf").write_text(SETTINGS[scenario] + SHORT)
    (work / "audit.config").write_text(AUDITS.get(run, ""))
    request = {
        "user_conf": str(work / "user.conf"),
        "model": "resnet50",
        "scenario": scenario,
        "mode": "AccuracyOnly" if run == "accuracy" else "PerformanceOnly",
        "log_dir": str(folder),
        "total": TOTAL,
        "loaded": LOADED,
        "delay": 0.0,
        "audit": str(work / "audit.config") if run in AUDITS else "",
    }
    (work / "request.json").write_text(json.dumps(request))
    command = [sys.executable, str(CHILD), "run", str(work / "request.json")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def make_tree(root: Path, logs: Path, *, division: str = "closed", lengthened: bool = True) -> Path:
    """The smallest tree that the official checkers accept: one edge system, three scenarios, two compliance tests.

    ``lengthened``: the short runs' configured duration reads 600000 ms, as that of a real run would. The untruncated
    accuracy logs lie next to the tree, in ``<root>.originals``.
    """
    top = root / division / SUBMITTER
    write(top / "systems" / f"{SYSTEM}.json", json.dumps(system(division), indent=2))
    write(top / "src" / BENCHMARK / "README.md", "code\n")
    write(top / "src" / BENCHMARK / "run.py", "pass\n")
    write(top / "documentation/calibration.md", "none\n")
    for scenario in SCENARIOS:
        make_cell(top / "results" / SYSTEM / BENCHMARK / scenario, logs / scenario, scenario, lengthened=lengthened)
    return root


def system(division: str = "closed", **fields: Any) -> dict[str, Any]:
    stated = {field.name: "stated" for field in load_ruleset(ROUND).system_fields}
    counts = {"number_of_nodes": "1", "host_processors_per_node": "1", "accelerators_per_node": "0"}
    names = {"division": division, "submitter": SUBMITTER, "status": "available", "system_type": "edge"}
    return {**stated, **counts, **names, "system_name": SYSTEM, **fields}


def make_cell(cell: Path, logs: Path, scenario: str, *, lengthened: bool) -> None:
    write(cell / "measurements.json", json.dumps(MEASUREMENTS, indent=2))
    duration = SHORT.replace("= 0", "= 600000") if lengthened else SHORT
    write(cell / "user.conf", SETTINGS[scenario] + duration)
    write(cell / "README.md", "how to run\n")
    _place(logs / "performance", cell / "performance/run_1", lengthened)
    _place(logs / "accuracy", cell / "accuracy", lengthened)
    make_accuracy(cell / "accuracy", (logs / "accuracy/mlperf_log_accuracy.json").read_bytes())
    for test in AUDITS:
        _place(logs / test, cell / test / "performance/run_1", lengthened)
        score = _same_score(cell / "performance/run_1", cell / test / "performance/run_1")
        write(cell / test / "verify_performance.txt", f"Reference score = {score}\nTest score = {score}\nTEST PASS\n")
    write(cell / "TEST01/verify_accuracy.txt", f"num_acc_log_entries = {TOTAL}\nTEST PASS\n")
    log = (logs / "TEST01/mlperf_log_accuracy.json").read_bytes()
    write(cell / "TEST01/accuracy/mlperf_log_accuracy.json", truncate_log(log, load_ruleset(ROUND).accuracy_log))
    write(cell / "TEST01/accuracy/accuracy.txt", f"\nhash={hashlib.sha256(log).hexdigest()}\n")


def make_accuracy(folder: Path, log: bytes, text: str = "accuracy=76.456%, good=38228, total=50000\n") -> None:
    """accuracy.txt and the truncated log; the original is kept next to the tree."""
    digest = hashlib.sha256(log).hexdigest()
    write(folder / "accuracy.txt", add_hash(text, digest))
    write(folder / "mlperf_log_accuracy.json", truncate_log(log, load_ruleset(ROUND).accuracy_log))
    root = next(parent for parent in folder.parents if parent.name in ("closed", "open", "network")).parent
    write(root.with_suffix(".originals") / digest, log)


def _place(logs: Path, folder: Path, lengthened: bool) -> None:
    folder.mkdir(parents=True)
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        shutil.copyfile(logs / name, folder / name)
    if lengthened:
        set_log(folder, "effective_min_duration_ms", 600_000)
        summary = folder / "mlperf_log_summary.txt"
        summary.write_text(summary.read_text().replace("min_duration (ms): 0", "min_duration (ms): 600000"))


def _same_score(reference: Path, audited: Path) -> str:
    """Runs this short differ by more than a verdict allows: the audited one is given the reference's results, all of
    them, so that its log does not contradict itself. Its fastest query and its clock stay those of another run."""
    own = re.search(r'"pid": \d+', detail(audited))
    assert own is not None
    results = re.sub(r'"pid": \d+', own[0], detail(reference))
    known = {_key(line): line for line in results.splitlines() if _key(line).startswith(_RESULTS)}
    kept = [known.pop(_key(line), line) for line in detail(audited).splitlines()]
    text = "\n".join([*kept, *known.values()]) + "\n"
    by = max((int(number) for number in re.findall(r"TEST(\d+)", str(audited))), default=9)
    text = re.sub(r'("key": "power_begin".*"time_ms": \d+\.)\d', rf"\g<1>98{by}", text)
    write(audited / "mlperf_log_detail.txt", re.sub(_FASTEST, lambda found: f"{found[1]}{int(found[2]) - by}", text))
    summary = audited / "mlperf_log_summary.txt"
    stated_results, parameters = (
        (folder / summary.name).read_text().partition(_PARAMETERS) for folder in (reference, audited)
    )
    reported = "".join((stated_results[0], *parameters[1:]))
    summary.write_text(
        re.sub(r"(Min latency \(ns\) +: )(\d+)", lambda found: f"{found[1]}{int(found[2]) - by}", reported)
    )
    found = (re.search(rf'"key": "{key}", "value": ([0-9.e+]+)', detail(reference)) for key in _SCORES)
    return next((score[1] for score in found if score), "0")


def _key(line: str) -> str:
    found = re.search(r'"key": "([^"]*)"', line)
    return found[1] if found else ""


def detail(folder: Path) -> str:
    return (folder / "mlperf_log_detail.txt").read_text()


def set_log(folder: Path, key: str, value: object) -> None:
    """Give a key of a detail log another value: a JSON literal, or a number."""
    path = folder / "mlperf_log_detail.txt"
    text, count = re.subn(rf'("key": "{re.escape(key)}", "value": )[^,]*,', rf"\g<1>{value},", path.read_text())
    assert count, f"{path} has no {key}"
    path.write_text(text)


def add_error(folder: Path, text: str = "Ran out of generated queries", *, warning: bool = False) -> None:
    path = folder / "mlperf_log_detail.txt"
    lines = path.read_text().splitlines()
    entry = {
        "key": "warning" if warning else "error_runtime",
        "value": text,
        "time_ms": 1.0,
        "namespace": "mlperf::logging",
    }
    metadata = {"is_error": not warning, "is_warning": warning, "file": "x.cc", "line_no": 1, "pid": 1, "tid": 1}
    lines.insert(
        len(lines) - 1, f":::MLLOG {json.dumps({**entry, 'event_type': 'POINT_IN_TIME', 'metadata': metadata})}"
    )
    path.write_text("\n".join(lines) + "\n")


def change_system(root: Path, folder: str = "closed", /, **fields: Any) -> None:
    """Set fields of the system description; None removes one."""
    path = root / folder / SUBMITTER / "systems" / f"{SYSTEM}.json"
    document = {**json.loads(path.read_text()), **fields}
    write(path, json.dumps({name: value for name, value in document.items() if value is not None}, indent=2))


def write(path: Path, data: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def copy_tree(source: Path, root: Path) -> Path:
    shutil.copytree(source, root, symlinks=True)
    originals = source.with_suffix(".originals")
    if originals.is_dir():
        root.with_suffix(".originals").symlink_to(originals)
    return root
