"""A small submission: two divisions, one system, logs by digest and by bytes."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from reconciler.resource.kinds import Cell
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import AccuracyLog, CellContent, LogRef, SubmissionContent, SystemContent
from tests.unit.loadgen.truncation import truncate_log

ACCURACY_LOG = b'[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00" },\n' + b"x" * 20_000 + b"]\n"
MEASUREMENTS = {
    "retraining": "No",
    "input_data_types": "fp32",
    "weight_data_types": "int8",
    "weight_transformations": "quantization",
    "starting_weights_filename": "resnet50_v1.onnx",
}


def reference(data: bytes) -> LogRef:
    return LogRef(hashlib.sha256(data).hexdigest(), len(data))


def make_cell(ruleset: Ruleset, division: str, benchmark: str, scenario: str) -> CellContent:
    cell = Cell(division, "box", benchmark, scenario)
    return CellContent(
        cell=cell,
        official="resnet",
        measurements=MEASUREMENTS,
        user_conf=f"resnet50.{scenario}.min_duration = 600000\n".encode(),
        performance={
            "mlperf_log_summary.txt": reference(f"summary {cell}".encode()),
            "mlperf_log_detail.txt": reference(f"detail {cell}".encode()),
        },
        accuracy={
            "mlperf_log_summary.txt": reference(f"accuracy summary {cell}".encode()),
            "mlperf_log_detail.txt": reference(f"accuracy detail {cell}".encode()),
            "mlperf_log_accuracy.json": reference(ACCURACY_LOG),
        },
        accuracy_log=AccuracyLog(reference(ACCURACY_LOG), truncate_log(ACCURACY_LOG, ruleset.accuracy_log)),
        accuracy_text="accuracy=76.1%, good=1, total=2\n",
        settings={"target_qps": "100", "min_duration": "600000", "odd|name": "a|b\nc"},
        code="`harness.benchmarks.digits`" if division == "open" else "",
    )


@pytest.fixture(scope="session")
def ruleset() -> Ruleset:
    return load_ruleset("v6.1")


@pytest.fixture
def submission(ruleset: Ruleset) -> SubmissionContent:
    description = {field.name: "stated" for field in ruleset.system_fields if field.filled}
    counts = {"number_of_nodes": 1, "host_processors_per_node": "1", "accelerators_per_node": 0}
    system = SystemContent("box", "open", "edge", "available", {**description, **counts, "zeta": "1", "alpha": "2"})
    cells = [make_cell(ruleset, "open", "digits", name) for name in ("SingleStream", "Offline")]
    closed = make_cell(ruleset, "closed", "resnet", "Offline")
    tests = {"TEST04": {"verify_performance.txt": b"TEST PASS\n", "performance/run_1/mlperf_log_detail.txt": b"log\n"}}
    return SubmissionContent(
        submitter="ACME",
        systems=(system, replace(system, division="closed")),
        cells=(*cells, replace(closed, compliance=tests)),
        code={"resnet": {"main.py": b"pass\n", "lib/README.md": b"lib\n"}},
        documents={"documentation/calibration.md": b"None.\n"},
    )
