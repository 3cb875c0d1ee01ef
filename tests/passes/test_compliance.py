"""Whole passes over a closed cell with its compliance tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.cli.main import main
from reconciler.desired import cells
from reconciler.diff.change import Reason
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.reconcile.run import PassReport
from reconciler.record.store import write_record
from reconciler.resource.kinds import Address
from reconciler.resource.records import Ended, Record
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.results import loadgen_logs
from reconciler.storage.files import hash_bytes, remove
from tests.passes.conftest import allow_any_speed
from tests.passes.repository import SPEC, Repository, make_repository, make_whole, unfinished
from tests.processes import wait_for
from tests.shared import make_once, need
from tests.warm.commands import start_command

need("mlperf_loadgen")

CELL = "closed/box/tiny/Offline"
TESTS = ("TEST01", "TEST04")
BENCHMARK = """
import os
import time

import numpy as np

OUTPUTS = {{"scores": ((4,), "float32")}}


def build_dataset(source, settings, output, counter):
    np.save(output / "samples.npy", np.zeros((16, 4), np.float32))
    np.save(output / "labels.npy", np.zeros(16, np.int64))


def build_model(source, settings, inputs, output, counter):
    (output / "model.onnx").write_bytes(os.urandom(16))


def postprocess(outputs):
    time.sleep(0.01)
    {answer}
"""
SAME = "return np.argmax(outputs[0], axis=1).astype(np.int32)"
# Weights of a new model are others each time, so that an engine made again has other bytes.
WEIGHTS = """
    from onnx import TensorProto, helper, numpy_helper, save

    weights = numpy_helper.from_array(np.random.default_rng().standard_normal((4, 4)).astype(np.float32), "weights")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 4])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("MatMul", ["image", "weights"], ["scores"])
    graph = helper.make_graph([node], "tiny", [image], [scores], [weights])
    opset = helper.make_opsetid("", 13)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=8), str(output / "model.onnx"))
"""
# Every answer is another one, and the accuracy the same.
VARYING = """return np.random.default_rng().integers(0, 1 << 30, len(outputs[0]), dtype=np.int32)


def score(log, dataset, output):
    (output / "accuracy.txt").write_text("accuracy=76.100%\\n")
    return {{}}
"""
# Each run has an answer of its own, and an accuracy with it.
DRIFTING = """return np.full(len(outputs[0]), 1 << PROCESS, np.int32)


def process():
    path = os.path.join(os.path.dirname(__file__), "processes")
    with open(path, "a") as stream:
        stream.write(".")
    return os.path.getsize(path)


PROCESS = process()


def score(log, dataset, output):
    (output / "accuracy.txt").write_text(f"accuracy={{log.array('int32')[0, 0]}}%\\n")
    return {{}}
"""
# The first two runs, accuracy and performance, take five times as long as those that come after them.
SLOW_AT_FIRST = """time.sleep(0.15 if RUNS() <= 2 else 0.02)
    return np.argmax(outputs[0], axis=1).astype(np.int32)


class Runs:
    def __init__(self):
        self.number = 0

    def __call__(self):
        if not self.number:
            path = os.path.join(os.path.dirname(__file__), "runs")
            with open(path, "a") as stream:
                stream.write(".")
            self.number = os.path.getsize(path)
        return self.number


RUNS = Runs()
"""
DOCUMENT = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: tiny}}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems:
    box: {{category: edge, status: available, description: {{cooling: air}}}}
  benchmarks:
    tiny:
      as: resnet
      code: benchmarks/tiny.py
      model: {{retraining: "No", starting_weights_filename: none, weight_transformations: none}}
      engine: {{backend: "null", precision: fp32, batch_size: 16}}
      measurements: {{input_data_types: fp32}}
      min_duration: 0
      performance_sample_count: 16
  divisions:
    closed:
      box:
        tiny:
          Offline: {{target_qps: 400, min_query_count: 320{more}}}
"""


def make(root: Path, answer: str = SAME, more: str = "") -> Repository:
    repository = make_repository(root, DOCUMENT.format(more=more))
    repository.write("benchmarks/tiny.py", BENCHMARK.format(answer=answer.format()))
    return repository


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository after its first whole pass; tests work on copies."""
    return make_once(tmp_path_factory, "audited", _audit)


def _audit(folder: Path) -> Repository:
    return make_whole(folder, make)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """As ``audited``, with whole accuracy logs that count as too large for git."""
    return make_once(tmp_path_factory, "large", _audit_large)


def _audit_large(folder: Path) -> Repository:
    with pytest.MonkeyPatch.context() as patch:
        for module in (cells, loadgen_logs):
            patch.setattr(module, "find_test", lambda name: replace(find_test(name), reads_answers=()))
        return make_whole(folder, make)


def records_of(repository: Repository, kind: str) -> list[Record]:
    return [record for record in repository.records().values() if str(record.address.kind) == kind]


def made(report: PassReport) -> Counter[str]:
    return Counter(str(outcome.step.change.address) for outcome in report.outcomes if outcome.record is not None)


def audits(repository: Repository) -> Counter[str]:
    """How often each test was run and each verdict made."""
    return Counter(str(r.address) for kind in ("ComplianceTest", "Verdict") for r in records_of(repository, kind))


def left_behind(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name == "audit.config"]


def test_each_test_runs_once_and_passes(audited: Repository) -> None:
    names = [f"{kind}:{CELL}/{test}" for test in TESTS for kind in ("ComplianceTest", "Verdict")]
    assert audits(audited) == dict.fromkeys(names, 1)
    assert all(record.values["passed"] for record in records_of(audited, "Verdict"))
    assert left_behind(audited.root) == []


def test_answers_are_compared_as_what_the_run_answered_with(audited: Repository) -> None:
    (verdict,) = [r for r in records_of(audited, "Verdict") if r.address.label == "TEST01 verdict"]
    assert verdict.values["answers"]["figures"]["compared as"] == "int32, first element"


def test_only_the_tests_bear_the_marker_of_audit_settings(audited: Repository) -> None:
    for record in [*records_of(audited, "Run"), *records_of(audited, "ComplianceTest")]:
        log = audited.log_of(str(record.address), "mlperf_log_detail.txt")
        assert (parse_detail(log.read_bytes()).audit is not None) is (str(record.address.kind) == "ComplianceTest")


def test_second_pass_has_nothing_to_do(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    repository.reconcile()
    assert made(repository.reconcile()) == {}


def test_tree_holds_what_the_scripts_leave_and_what_they_forget(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    repository.reconcile()
    top = "closed/ACME/results/box/resnet/Offline/{}"
    run = ["performance/run_1/mlperf_log_detail.txt", "performance/run_1/mlperf_log_summary.txt"]
    answers = ["accuracy/accuracy.txt", "accuracy/mlperf_log_accuracy.json"]
    expected = [f"TEST01/{name}" for name in [*answers, *run, "verify_accuracy.txt", "verify_performance.txt"]]
    expected += [f"TEST04/{name}" for name in [*run, "verify_performance.txt"]]
    paths = {path for path in repository.tree() if "/TEST" in path}
    assert paths == {top.format(name) for name in expected}
    hash_line = (repository.paths.tree / top.format("TEST01/accuracy/accuracy.txt")).read_text()
    whole = next(a for r in records_of(repository, "ComplianceTest") for a in r.artifacts if a.name.endswith("y.json"))
    assert hash_line == f"hash={whole.sha256}\n"


def test_new_performance_run_takes_new_verdicts_and_no_new_tests(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    repository.reconcile(rerun=("mode=performance",))
    found = audits(repository)
    assert [found[f"ComplianceTest:{CELL}/{test}"] for test in TESTS] == [1, 1]
    assert [found[f"Verdict:{CELL}/{test}"] for test in TESTS] == [2, 2]


def test_a_named_test_is_repeated_alone(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    report = repository.reconcile(rerun=("kind=TEST04",))
    assert made(report) == {f"ComplianceTest:{CELL}/TEST04": 1, f"Verdict:{CELL}/TEST04": 1}


def test_a_verdict_that_is_named_is_taken_again(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    report = repository.reconcile(rerun=("kind=TEST01 verdict",))
    assert made(report) == {f"Verdict:{CELL}/TEST01": 1}
    assert report.after.plan.steps == ()


def test_new_model_bytes_repeat_accuracy_and_tests(audited: Repository, tmp_path: Path) -> None:
    """The model's key is the same, its bytes are not: nothing may stand next to the new performance run."""
    repository = audited.copy(tmp_path / "copy")
    for path in repository.objects_of("Model:tiny"):
        path.unlink()
    own = "compliance: {TEST01: {target_qps: 400}, TEST04: {target_qps: 400}}"
    repository.edit(SPEC, "target_qps: 400, min_query_count: 320", f"target_qps: 390, min_query_count: 320, {own}")
    report = repository.reconcile()
    unlike = {str(o.step.change.address) for o in report.outcomes if o.step.change.reason is Reason.EVIDENCE_DIFFERS}
    assert unlike == {f"Run:{CELL}/accuracy", *(f"ComplianceTest:{CELL}/{test}" for test in TESTS)}
    assert made(repository.reconcile()) == {}


@pytest.fixture(scope="module")
def with_engine(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    need("onnx", "onnxruntime")
    return make_once(tmp_path_factory, "engine", _build_engine)


def _build_engine(folder: Path) -> Repository:
    return make_whole(folder, _with_weights)


def _with_weights(root: Path) -> Repository:
    repository = make(root)
    own_bytes = '\n    (output / "model.onnx").write_bytes(os.urandom(16))\n'
    repository.edit("benchmarks/tiny.py", own_bytes, WEIGHTS)
    repository.edit(SPEC, 'backend: "null"', "backend: onnxruntime")
    return repository


def test_an_engine_made_again_with_other_bytes_makes_no_run_stale(with_engine: Repository, tmp_path: Path) -> None:
    repository = with_engine.copy(tmp_path / "copy")
    (before,) = repository.objects_of(f"Engine:{CELL}", "model.onnx")
    tree = repository.tree()
    report = repository.reconcile(rerun=("kind=Model,Engine",))
    assert made(report) == {"Model:tiny": 1, f"Engine:{CELL}": 1}
    assert len(set(repository.objects_of(f"Engine:{CELL}", "model.onnx")) - {before}) == 1
    assert not repository.look().plan.steps
    assert repository.tree() == tree
    # A new run uses the new bytes; until the accuracy run does, too, neither is published without the other.
    published = _published(repository)
    repository.edit(SPEC, "target_qps: 400, min_query_count: 320", "target_qps: 390, min_query_count: 320")
    repository.reconcile(select=("kind=run", "mode=performance"))
    assert _published(repository) == published
    repository.reconcile()
    assert len(_published(repository)) == len(published) == 4
    assert not _published(repository) & published


def _published(repository: Repository) -> set[str]:
    """Digests of the detail logs in the tree: performance, accuracy and two tests."""
    return {
        digest
        for path, digest in repository.tree().items()
        if path.endswith("mlperf_log_detail.txt") and "/results/" in path
    }


def test_new_engine_bytes_and_the_plan_names_accuracy_and_tests(with_engine: Repository, tmp_path: Path) -> None:
    repository = with_engine.copy(tmp_path / "copy")
    before = repository.objects_of(f"Engine:{CELL}", "model.onnx")
    for path in [*before, *repository.objects_of("Model:tiny")]:
        path.unlink()
    assert not repository.look().plan.steps, "no run is due, so that no engine is needed"
    own = "compliance: {TEST01: {target_qps: 400}, TEST04: {target_qps: 400}}"
    repository.edit(SPEC, "target_qps: 400, min_query_count: 320", f"target_qps: 390, min_query_count: 320, {own}")
    report = repository.reconcile(select=("kind=run", "mode=performance"))
    assert made(report) == {"Model:tiny": 1, f"Engine:{CELL}": 1, f"Run:{CELL}/performance": 1}
    assert repository.objects_of(f"Engine:{CELL}", "model.onnx") != before
    steps = {str(step.change.address): step.change for step in repository.look().plan.steps}
    unlike = {name for name, change in steps.items() if change.reason is Reason.EVIDENCE_DIFFERS}
    assert unlike == {f"Run:{CELL}/accuracy", *(f"ComplianceTest:{CELL}/{test}" for test in TESTS)}
    assert all("engine.model.onnx" in steps[name].note for name in unlike)
    assert f"Run:{CELL}/performance" not in steps
    repository.reconcile()
    assert not repository.look().plan.steps


def test_a_target_of_the_tests_own_makes_only_that_test_stale(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    repository.edit(SPEC, "min_query_count: 320", "min_query_count: 320, compliance: {TEST01: {target_qps: 300}}")
    due = {str(step.change.address) for step in repository.look().plan.steps if step.change.address.cell}
    assert due == {f"ComplianceTest:{CELL}/TEST01", f"Verdict:{CELL}/TEST01", f"Result:{CELL}"}
    repository.reconcile()
    tree = repository.paths.tree / "closed/ACME/results/box/resnet/Offline"
    assert "target_qps = 400" in (tree / "user.conf").read_text()
    test = parse_detail((tree / "TEST01/performance/run_1/mlperf_log_detail.txt").read_bytes())
    assert test.get_effective("target_qps") == 300
    assert "| `compliance.TEST01.target_qps` | 300 |" in (tree / "README.md").read_text()
    asked = {(r.address.label, r.inputs["target_qps"].value) for r in records_of(repository, "ComplianceTest")}
    assert asked == {("TEST01", "400"), ("TEST01", "300"), ("TEST04", "400")}
    assert {r.inputs["target_qps"].value for r in records_of(repository, "Run") if "target_qps" in r.inputs} == {"400"}


@pytest.mark.parametrize("kinds", [("ComplianceTest", "Run"), ("ComplianceTest",)], ids="-".join)
def test_comparison_of_answers_is_kept_where_a_whole_log_is_not(
    kinds: tuple[str, ...], large: Repository, tmp_path: Path
) -> None:
    repository = large.copy(tmp_path / "copy")
    for kind in kinds:
        for record in records_of(repository, kind):
            for path in repository.objects_of(str(record.address), "mlperf_log_accuracy.json"):
                path.unlink()
    repository.reconcile(rerun=("mode=performance",))
    newest = max((r for r in records_of(repository, "Verdict") if r.address.label == "TEST01 verdict"), key=_started)
    assert newest.values["answers_taken_over"]
    assert audits(repository)[f"ComplianceTest:{CELL}/TEST01"] == 1


def _started(record: Record) -> str:
    return record.started


def test_verdict_waits_for_logs_that_are_elsewhere(large: Repository, tmp_path: Path) -> None:
    repository = large.copy(tmp_path / "copy")
    for record in records_of(repository, "ComplianceTest"):
        for path in repository.objects_of(str(record.address), "mlperf_log_accuracy.json"):
            path.unlink()
    for path in repository.record_paths(f"Verdict:{CELL}/TEST01"):
        path.unlink()
    report = repository.reconcile()
    step = next(s for s in report.after.plan.steps if s.change.address == Address.parse(f"Verdict:{CELL}/TEST01"))
    assert "accuracy log of the audit run" in step.blocked
    assert made(report) == {}


def test_a_run_that_is_invalid_is_not_tested(tmp_path: Path) -> None:
    """Too few queries to prove a percentile, on any machine."""
    repository = make(tmp_path / "repository")
    repository.edit(
        SPEC,
        "Offline: {target_qps: 400, min_query_count: 320}",
        "SingleStream: {target_latency: 1 ms, min_query_count: 8}",
    )
    repository.reconcile()
    (run,) = [r for r in records_of(repository, "Run") if r.address.mode == "performance"]
    assert run.values["validity"] == "INVALID"
    assert audits(repository) == {}


def test_varying_answers_are_compared_by_their_accuracy(tmp_path: Path) -> None:
    repository = make_whole(tmp_path, lambda root: make(root, VARYING))
    (verdict,) = [r for r in records_of(repository, "Verdict") if r.address.label == "TEST01 verdict"]
    assert verdict.values["passed"]
    assert verdict.values["notes"][0].startswith("compared by accuracy, because ")
    names = {p.rpartition("/")[2] for p in repository.tree() if "/TEST01/accuracy/" in p}
    reports = {"baseline_accuracy.txt", "compliance_accuracy.txt"}
    assert names == {"accuracy.txt", "mlperf_log_accuracy.json", *reports}


def test_failing_verdict_repeats_its_test_while_attempts_last(tmp_path: Path) -> None:
    repository = make(tmp_path / "repository", DRIFTING, ", compliance: {TEST01: {attempts: 2}}")
    report = repository.reconcile()
    found = audits(repository)
    assert (found[f"ComplianceTest:{CELL}/TEST01"], found[f"Verdict:{CELL}/TEST01"]) == (2, 2)
    (finding,) = [f for f in report.after.plan.findings if f.kind == "AuditFails"]
    assert finding.message.startswith("TEST01: ")
    last = [o for o in report.outcomes if o.step.change.address.label == "TEST01 verdict"][-1]
    assert finding.message.removeprefix("TEST01: ").startswith(last.message.removeprefix("TEST FAIL: "))
    assert not any("/results/" in path for path in repository.tree())
    assert made(repository.reconcile()) == {}


def test_failure_of_older_code_repeats_what_newer_tests_cannot_be_published_with(tmp_path: Path) -> None:
    """Each further test would be made by the newer code as well, and be as unlike the performance run."""
    repository = make(tmp_path / "repository", DRIFTING, ", compliance: {TEST01: {attempts: 2}}")
    repository.reconcile()
    newest = max((r for r in records_of(repository, "ComplianceTest") if r.address.label == "TEST01"), key=_started)
    code = replace(newest.facts["harness.code"], value="0" * 64)
    newer = replace(newest, facts={**newest.facts, "harness.code": code}, started="2999-01-01T00:00:00.000000Z")
    (log,) = (item for item in newest.artifacts if item.name == DETAIL)
    data = (repository.paths.logs / log.sha256).read_bytes() + b"\n"  # of another run, whose log is its own
    own = log._replace(sha256=hash_bytes(data), size=len(data))
    (repository.paths.logs / own.sha256).write_bytes(data)
    newer = replace(newer, artifacts=tuple(own if item is log else item for item in newest.artifacts))
    write_record(repository.paths, newer)
    repository.edit(SPEC, "attempts: 2", "attempts: 3")
    due = {str(step.change.address): step.change.note for step in repository.look().plan.steps}
    assert due[f"Run:{CELL}/performance"] == "harness.code differs from TEST01"
    assert f"ComplianceTest:{CELL}/TEST01" not in due


def test_a_run_is_repeated_where_tests_fail_by_speed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as fast is too fast, and the first run takes five times as long as the tests that follow it."""
    allow_any_speed(monkeypatch, 200)
    repository = make(tmp_path / "repository", SLOW_AT_FIRST, ", attempts: 4")
    report = repository.reconcile()
    assert [found for found in report.after.plan.findings if found.kind == "AuditFails"] == []
    first = min((r for r in records_of(repository, "Verdict") if r.address.label == "TEST01 verdict"), key=_started)
    assert first.values["by_speed"]
    assert not first.values["passed"]
    runs = Counter(str(record.address) for record in records_of(repository, "Run"))
    assert runs[f"Run:{CELL}/performance"] >= 2
    assert runs[f"Run:{CELL}/accuracy"] == 1
    assert audits(repository)[f"ComplianceTest:{CELL}/TEST01"] < 4
    assert any("TEST01 was slower" in o.step.change.note for o in report.outcomes)
    assert made(repository.reconcile()) == {}


def test_test_that_fails_by_its_answers_repeats_no_performance_run(tmp_path: Path) -> None:
    repository = make(tmp_path / "repository", DRIFTING, ", attempts: 2, compliance: {TEST01: {attempts: 2}}")
    repository.reconcile()
    runs = Counter(str(record.address) for record in records_of(repository, "Run"))
    assert runs[f"Run:{CELL}/performance"] == 1


def test_killed_in_a_test_leaves_no_audit_settings_for_others(audited: Repository, tmp_path: Path) -> None:
    repository = audited.copy(tmp_path / "copy")
    remove(repository.paths.records / "ComplianceTest")
    child = start_command(["apply"], repository.root, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(repository.paths.attempts.glob("*/audit-settings.conf")))
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert left_behind(repository.root) == []
    assert unfinished(repository.reconcile()) == []
    assert left_behind(repository.root) == []
    assert repository.leftovers() == []
    assert all(record.ended is Ended.DONE for record in repository.records().values())


def test_accepted_results_bring_verdicts(audited: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a cell is accepted or nothing of it, and the tree stays as it was."""
    repository = audited.copy(tmp_path / "copy")
    repository.commit()
    before = repository.tree()
    repository.edit(SPEC, "batch_size: 16", "batch_size: 8")
    assert {step.change.address.label for step in repository.look().plan.steps} >= {"Run accuracy", *TESTS}
    monkeypatch.chdir(repository.root)
    assert main(["accept", CELL, "--reason", "nothing reads it", "--for", "1w"]) == 0
    (path,) = repository.matching("state/accepted/*.json")
    assert {f"{test} verdict" for test in TESTS} <= {
        Address.parse(entry["address"]).label for entry in json.loads(path.read_text())["accepted"]
    }
    assert not [outcome for outcome in repository.reconcile().outcomes if outcome.record is not None]
    assert not repository.look().plan.steps
    assert repository.tree() == before
