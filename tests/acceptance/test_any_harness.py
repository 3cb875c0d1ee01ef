"""The starter's own cells, once with our harness and once with a user's command around LoadGen, with an engine."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from reconciler.resource.records import REDUNDANT_LOGS, REQUIREMENTS
from tests.acceptance.conftest import console
from tests.passes.repository import Repository
from tests.shared import make_once, need

SPEC = "specs/any.yaml"
CELLS = "open/this-machine/digits/"
SCENARIOS = ("SingleStream", "Offline")
# A user's own program: it knows LoadGen and ONNX Runtime, and nothing of this project.
SCRIPT = """\
import argparse
from pathlib import Path

import mlperf_loadgen as lg
import numpy as np
import onnxruntime

options = argparse.ArgumentParser()
for name in ("scenario", "mode", "user-conf", "log-dir", "audit-conf", "engine", "dataset"):
    options.add_argument("--" + name, required=True)
given = options.parse_args()
images = np.load(Path(given.dataset) / "samples.npy")
quiet = onnxruntime.SessionOptions()
quiet.intra_op_num_threads = 1
(engine,) = Path(given.engine).rglob("*.onnx")
session = onnxruntime.InferenceSession(engine, quiet, providers=["CPUExecutionProvider"])


def issue(queries):
    for start in range(0, len(queries), 32):
        batch = queries[start : start + 32]
        (scores,) = session.run(None, {"image": images[[query.index for query in batch]]})
        answers = np.argmax(scores, axis=1).astype(np.int32)
        responses = [
            lg.QuerySampleResponse(query.id, answers[place : place + 1].ctypes.data, 4)
            for place, query in enumerate(batch)
        ]
        lg.QuerySamplesComplete(responses)


settings = lg.TestSettings()
settings.FromConfig(given.user_conf, "resnet50", given.scenario)
settings.scenario = getattr(lg.TestScenario, given.scenario)
settings.mode = getattr(lg.TestMode, given.mode)
logs = lg.LogSettings()
logs.enable_trace = False
where = lg.LogOutputSettings()
where.outdir = given.log_dir
logs.log_output = where
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(len(images), len(images), lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, logs, given.audit_conf)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
print("measured", given.scenario)
"""
HARNESS = f"""
      harness:
        command:
          [{json.dumps(sys.executable)}, run.py, --scenario, "{{scenario}}", --mode, "{{loadgen_mode}}",
           --user-conf, "{{user_conf}}", --log-dir, "{{run_dir}}", --audit-conf, "{{audit_config}}",
           --engine, "{{engine}}", --dataset, "{{dataset}}"]
        code: ours
"""
# What our harness counts of itself, in addition to what LoadGen logs.
OURS_COUNTS = {"batch_size", "batches", "loadgen", "response", "samples_completed"}
OURS_FILES = {REQUIREMENTS}  # no one knows where a command finds its packages
# What people write or read of the code, and what a machine measured.
TEXTS = {"README.md", "measurements.json"}
MEASURED = {"mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json", "accuracy.txt"}


def made(root: Path, harness: str = "") -> Repository:
    """What `reconcile init` makes, less two scenarios, after one pass."""
    need("mlperf_loadgen", "onnxruntime", "onnx", "sklearn")
    said = console(root.parent, "init", str(root), "--name", "any")
    assert said.code == 0, said.err
    repository = Repository(root)
    lines = (root / SPEC).read_text(encoding="utf-8").splitlines(keepends=True)
    left = [line for line in lines if not line.lstrip().startswith(("MultiStream: {", "Server: {"))]
    assert len(lines) - len(left) == 2
    repository.write(SPEC, "".join(left))
    repository.edit(
        SPEC, "      model:\n", "      model:\n        settings: {epochs: 2}  # both are to agree, not to be good\n"
    )
    if harness:
        repository.write("ours/run.py", SCRIPT)
        repository.edit(
            SPEC,
            "      as: resnet             # the official benchmark it is entered as\n",
            harness.lstrip("\n") + "      as: resnet\n",
        )
    repository.commit()
    first = console(root, "--json")
    assert first.code == 0, first.err + first.out
    return repository


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "own", lambda folder: made(folder / "repository"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "theirs", lambda folder: made(folder / "repository", HARNESS))


def records(repository: Repository) -> Counter[str]:
    return Counter(str(record.address) for record in repository.records().values())


def test_records_are_of_the_same_kinds(own: Repository, theirs: Repository) -> None:
    assert records(own) == records(theirs)
    one, other = ({str(r.address): r for r in repository.records().values()} for repository in (own, theirs))
    for name, record in other.items():
        ours = set(one[name].values) - (OURS_COUNTS if name.startswith("Run:") else set())
        assert set(record.values) - {"exit_status", "logs"} == ours, name
    for name, record in other.items():
        files = {artifact.name for artifact in record.artifacts} - REDUNDANT_LOGS
        ours = OURS_FILES if name.endswith("/performance") else set()
        assert files | ours == {artifact.name for artifact in one[name].artifacts} - REDUNDANT_LOGS, name
    engine = {name: one[name].artifacts for name in one if name.startswith("Engine:")}
    assert {name: other[name].artifacts for name in engine} == engine


def test_the_tree_is_the_same_but_for_code_and_measurements(own: Repository, theirs: Repository) -> None:
    one, other = own.tree(), theirs.tree()
    code = {path for path in other if "/src/" in path}
    assert one.keys() - {path for path in one if "/src/" in path} == other.keys() - code
    differing = {Path(path).name for path in one.keys() - code if one[path] != other.get(path) and "/src/" not in path}
    assert differing <= TEXTS | MEASURED
    assert {"user.conf", "this-machine.json"} <= {
        Path(path).name for path in one.keys() & other.keys() if one[path] == other[path]
    }


def test_its_answers_are_those_of_our_harness(own: Repository, theirs: Repository) -> None:
    """The same engine over the same data: not one answer may differ."""
    for scenario in SCENARIOS:
        scores = [
            next(iter(repository.records_of(f"Score:{CELLS}{scenario}").values())).values["metric"]
            for repository in (own, theirs)
        ]
        assert scores[0] == scores[1]


def test_a_second_pass_does_nothing(theirs: Repository, tmp_path: Path) -> None:
    repository = theirs.copy(tmp_path / "copy")
    before = set(repository.records())
    again = console(repository.root)
    assert (again.code, "In sync" in again.out) == (0, True)
    assert set(repository.records()) == before


def test_one_line_of_its_code_makes_exactly_its_runs_stale(theirs: Repository, tmp_path: Path) -> None:
    repository = theirs.copy(tmp_path / "copy")
    repository.reconcile()
    repository.edit("ours/run.py", 'print("measured"', 'print("has measured"')
    said = console(repository.root, "plan", "--json")
    assert said.code == 2
    due = {step["address"] for step in said.report["steps"]}
    runs = {f"Run:{CELLS}{scenario}/{mode}" for scenario in SCENARIOS for mode in ("accuracy", "performance")}
    assert {address for address in due if address.startswith("Run:")} == runs
    assert {address.partition(":")[0] for address in due} == {"Run", "Score", "Result"}
    assert {step["reason"] for step in said.report["steps"] if step["address"] in runs} == {"InputChanged"}
