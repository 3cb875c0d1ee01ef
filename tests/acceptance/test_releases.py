"""Each round with the release of LoadGen that `doctor --fix` installs for it, or with one built of the sources at the
tag of the round: a rehearsal, and that round's checkers.

Packages are installed. ``INFERENCE_REPOSITORY`` names a clone of mlcommons/inference, bare or not, with its tags;
without it the official checkers and the rounds before v4.1 are left out.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.catalog import CONF
from reconciler.loadgen.settings import RELEASES
from reconciler.observed.loadgen_library import CONFS
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.readiness import install_loadgen
from reconciler.record.index import load_record
from reconciler.resource.kinds import Kind
from reconciler.resource.records import Ended
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import RepositoryPaths
from tests.acceptance.test_official import check_officially
from tests.shared import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

REHEARSED = {
    "v2.0": ("bert-99",),
    "v2.1": ("resnet50", "bert-99"),
    "v3.0": ("resnet50", "bert-99", "dlrm-99"),
    "v3.1": ("resnet50", "bert-99"),
    "v4.0": ("resnet50", "llama2-70b-99"),
    "v4.1": ("resnet50", "llama2-70b-99"),
    "v5.0": ("resnet50", "llama2-70b-99"),
    "v5.1": ("resnet50", "llama3.1-8b"),
    "v6.0": ("resnet50", "llama3.1-8b"),
    "v6.1": ("resnet50", "llama3.1-8b"),
}
# The last state of each round's checkers, where it is not the tag of that name; the newest rounds have none.
TAGS = {"v5.0": "v5.0.1", "v5.1": "v5.1.1", "v6.0": "HEAD", "v6.1": "HEAD"}
# The verdict of a test compares two speeds of a machine that may do other things; those runs are made all the same.
DRIVEN = (Kind.RUN, Kind.COMPLIANCE_TEST)


def extract(round_name: str, folder: Path, *paths: str) -> Path:
    """Of the official repository as it was for a round."""
    if not (named := os.environ.get("INFERENCE_REPOSITORY")):
        pytest.skip("INFERENCE_REPOSITORY names no clone of mlcommons/inference")
    command = ["git", "-C", named, "archive", TAGS.get(round_name, round_name), *paths]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_built_version(checkout: Path) -> str:
    """Of a LoadGen built from it, which need not be the round's: that of v2.0 has the version of v1.1."""
    found = re.search(r'version="([0-9.]+)"', (checkout / "loadgen/setup.py").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


CASES = [(name, benchmark) for name, benchmarks in REHEARSED.items() for benchmark in benchmarks]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def rehearsed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PlanResult:
    """After a pass by the interpreter of the round's environment."""
    need("mlperf_loadgen", "onnxruntime", "onnx", "cv2", "openvino_genai", "tokenizers")
    round_name, benchmark = request.param
    root = tmp_path_factory.mktemp("released")
    brought = extract(round_name, root / "inference", "loadgen", CONF) if round_name in CONFS else None
    python = install_loadgen(RepositoryPaths(root / "environment"), round_name, brought)
    words = ["rehearse", benchmark, "--round", round_name, "--output", str(root / "rehearsal"), "--busy"]
    if benchmark.startswith("llama"):
        words += ["--category", "datacenter"]
    command = [str(python), "-m", "reconciler.cli.main", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return compute_plan(RepositoryPaths(root / "rehearsal"), Options())


def needs_tests(rehearsed: PlanResult) -> bool:
    """The checker of v2.0 accepts closed results without compliance tests, although it logs an error for each."""
    return load_ruleset(rehearsed.desired.submission.round).binds("closed", "compliance_tests")


def test_every_run_and_every_compliance_test_was_made(rehearsed: PlanResult) -> None:
    due = [resource.address for resource in rehearsed.desired.resources if resource.kind in DRIVEN]
    ended = {address: rehearsed.recorded.by_address.get(address, ()) for address in due}
    assert {address.kind for address in due} == set(DRIVEN if needs_tests(rehearsed) else (Kind.RUN,))
    for address, summaries in ended.items():
        assert any(summary.ended is Ended.DONE for summary in summaries), address


def test_the_release_of_the_round_drove_them(rehearsed: PlanResult, tmp_path: Path) -> None:
    name = rehearsed.desired.submission.round
    release = RELEASES.get(name) or read_built_version(extract(name, tmp_path, "loadgen/setup.py"))
    runs = [
        load_record(rehearsed.paths, summary.id)
        for address, summaries in rehearsed.recorded.by_address.items()
        for summary in summaries
        if address.kind in DRIVEN and summary.ended is Ended.DONE
    ]
    assert {record.facts["loadgen.version"].value for record in runs} == {release}
    found = {fact.value if (fact := record.facts.get("loadgen.conf")) else None for record in runs}
    assert found == {CONFS.get(name)}


def test_the_checkers_of_the_round_find_only_what_is_short(rehearsed: PlanResult, tmp_path: Path) -> None:
    need("yaml")
    round_name = rehearsed.desired.submission.round
    samples = ":!tools/submission/directory_structure_samples"
    checkout = extract(round_name, tmp_path / "checkout", "tools/submission", samples)
    said = check_officially(rehearsed.tree, round_name, checkout, tmp_path)[1]
    assert [text for text in said if needs_tests(rehearsed) or not text.startswith("no compliance dir for ")] == []
