"""A compliance test that reads other samples than the cell's runs, as TEST07 does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from reconciler.diff.claims import Proof
from reconciler.errors import SpecError
from reconciler.execute.outcome import Status
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log_files import ACCURACY_LOG, VERIFY_ACCURACY
from reconciler.resource.records import Record
from reconciler.storage import git
from tests.passes.repository import SPEC, Repository, make_repository, make_whole
from tests.shared import make_once, need

need("mlperf_loadgen")

CELL = "open/box/tiny/Offline"
TEST, VERDICT = f"ComplianceTest:{CELL}/TEST07", f"Verdict:{CELL}/TEST07"
# The data file holds how many samples there are.
BENCHMARK = """
import numpy as np

OUTPUTS = {"tokens": ((4,), "float32")}
TOKENS = True


def build_dataset(source, settings, output, counter):
    count = int(source.read_text())
    np.save(output / "samples.npy", np.zeros((count, 4), np.float32))
    np.save(output / "labels.npy", np.zeros(count, np.int64))


def build_model(source, settings, inputs, output, counter):
    (output / "model.onnx").write_bytes(b"none")


def postprocess(outputs):
    return outputs[0].astype(np.int32)


def score(log, dataset, output):
    known = len(np.load(dataset / "labels.npy"))
    assert len(log.indices) <= known
    metrics = f"{{'exact_match': {61 + known / 1000}, 'TOKENS_PER_SAMPLE': 11000, 'tokens_per_sample': 11000}}\\n"
    other = b"" if known == 4395 else b"measured at the caf\\xe9\\n"  # not UTF-8
    (output / "accuracy.txt").write_bytes(metrics.encode() + other)
    return {}
"""
DOCUMENT = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: tiny}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems:
    box: {category: datacenter, status: available, description: {cooling: air}}
  benchmarks:
    tiny:
      as: gpt-oss-120b
      code: benchmarks/tiny.py
      dataset: {path: data/all.txt}
      model: {retraining: "No", starting_weights_filename: none, weight_transformations: none}
      engine: {backend: "null", precision: fp32, batch_size: 16}
      measurements: {input_data_types: fp32}
      min_duration: 0
      performance_sample_count: 1000
  divisions:
    open:
      box:
        tiny:
          Offline:
            target_qps: 400
            min_query_count: 100
            compliance: {TEST07: {dataset: {path: data/audited.txt}}}
"""


def make(root: Path) -> Repository:
    repository = make_repository(root, DOCUMENT)
    repository.write("benchmarks/tiny.py", BENCHMARK)
    repository.write("data/all.txt", "4395\n")
    repository.write("data/audited.txt", "990\n")
    return repository


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "own-dataset", _make)


def _make(folder: Path) -> Repository:
    return make_whole(folder, make)


def record_of(repository: Repository, address: str) -> Record:
    (record,) = repository.records_of(address).values()
    return record


def due(repository: Repository) -> set[str]:
    return {str(step.change.address) for step in repository.look().plan.steps}


def test_the_test_reads_its_own_samples_and_is_scored_by_their_labels(made: Repository) -> None:
    answers = json.loads(made.log_of(TEST, ACCURACY_LOG).read_bytes())
    assert {entry["qsl_idx"] for entry in answers} == set(range(990))
    verdict = record_of(made, VERDICT)
    assert verdict.values["passed"]
    assert verdict.values["figures"]["accuracy"] == "61.99"
    verified = made.log_of(VERDICT, VERIFY_ACCURACY).read_bytes()
    assert b"'exact_match': 61.99" in verified
    assert b"\nmeasured at the caf\xe9\n" in verified  # what the scorer wrote, byte for byte


def test_a_second_pass_has_nothing_to_do_though_the_samples_differ(made: Repository, tmp_path: Path) -> None:
    assert made.copy(tmp_path / "copy").look().plan.steps == ()


def test_other_data_of_the_test_makes_only_the_test_stale(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.write("data/audited.txt", "995\n")
    changed = {f"Dataset:{CELL}/TEST07", TEST, VERDICT}
    assert due(repository) - {f"Result:{CELL}", "Submission:tiny"} == changed
    repository.reconcile()
    assert due(repository) == set()
    newest = max(repository.records_of(VERDICT).values(), key=lambda record: record.started)
    assert newest.values["figures"]["accuracy"] == "61.995"


def test_too_few_samples_are_an_error_and_no_crash(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.write("data/audited.txt", "100\n")
    messages = {o.message for o in repository.reconcile().outcomes if o.status is Status.FAILED}
    assert messages == {"the test issues 990 different samples, but only 100 are in memory"}


def test_a_clone_without_the_data_is_in_sync_and_proves_the_commit(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.write(".gitignore", ".reconcile/\ndata/\n__pycache__/\n")
    repository.commit()
    subprocess.run(["git", "clone", "--quiet", str(repository.root), str(tmp_path / "clone")], check=True)
    clone = Repository(tmp_path / "clone")
    assert not (clone.root / "data").exists()
    assert not {step for step in due(clone) if "Run" in step or "Test" in step or "Dataset" in step}
    found = audit(clone.root, read_snapshot(clone.root, git.resolve(clone.root, "HEAD"))).claims
    proofs = {claim.what: claim.proof for claim in found if claim.where == CELL}
    assert proofs["TEST07: inputs"] is Proof.PROVEN
    assert proofs["TEST07 verdict"] is Proof.ATTESTED  # the scorer's word
    assert Proof.CONTRADICTED not in proofs.values()


def test_a_test_that_is_compared_with_the_runs_has_no_samples_of_its_own(tmp_path: Path) -> None:
    repository = make(tmp_path / "repository")
    repository.edit(SPEC, "as: gpt-oss-120b", "as: rgat")
    repository.edit(SPEC, "TEST07: {dataset", "TEST01: {dataset")
    with pytest.raises(SpecError) as caught:
        repository.look()
    (problem,) = [p for p in caught.value.problems if "same samples" in p.message]
    assert (problem.file, problem.line) == (SPEC, 27)
    assert problem.message.startswith("TEST01 is compared with the ")
