"""An auditor with Python and a packed archive alone: what REPRODUCE.md says is typed, and three cells run again.

Submitter and auditor have environments of their own, into which a wheel of this checkout and packages of PyPI are
installed; neither sees the checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_any_harness import SCRIPT
from tests.passes.test_reproduce import read_effective
from tests.shared import make_once

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        sys.platform != "linux" or os.uname().machine != "x86_64", reason="Triton's server is for x86-64"
    ),
]

TOP = Path(__file__).parents[2]
SETUP = "from harness.benchmarks.digits import BENCHMARK\n\n__all__ = ['BENCHMARK']\n"
MODEL = '{settings: {epochs: 2}, retraining: "Yes", starting_weights_filename: none, weight_transformations: none}'
SPEC = f"""\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: three}}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  defaults: {{short: {{min_duration: 0, target_qps: 200, min_query_count: 2000}}}}
  systems: {{box: {{category: edge, status: available, hardware: {{count: 0}}}}}}
  benchmarks:
    mine:
      as: resnet
      use: [short]
      code: benchmarks/mine.py
      model: {MODEL}
      engine: {{backend: onnxruntime, batch_size: 8}}
      measurements: {{input_data_types: fp32, weight_data_types: fp32}}
    served:
      as: resnet
      use: [short]
      code: digits
      model: {MODEL}
      engine: {{backend: triton, batch_size: 8, options: {{made_by: onnxruntime}}}}
      measurements: {{input_data_types: fp32, weight_data_types: fp32}}
    theirs:
      as: resnet
      use: [short]
      code: digits
      model: {MODEL}
      engine: {{backend: onnxruntime, batch_size: 32}}
      harness:
        command: [python, run.py, --scenario, "{{scenario}}", --mode, "{{loadgen_mode}}", --user-conf, "{{user_conf}}",
          --log-dir, "{{run_dir}}", --audit-conf, "{{audit_config}}", --engine, "{{engine}}", --dataset, "{{dataset}}"]
        code: theirs
      measurements: {{input_data_types: fp32, weight_data_types: fp32}}
  divisions: {{open: {{box: {{mine: {{Offline: {{}}}}, served: {{Offline: {{}}}}, theirs: {{Offline: {{}}}}}}}}}}
"""
PACK = """
import sys
from pathlib import Path
from reconciler.publish.archive import pack
tree, packed = map(Path, sys.argv[1:])
files = sorted(path for path in tree.rglob("*") if path.is_file())
pack(packed, [(str(path.relative_to(tree)), path.read_bytes()) for path in files], lambda _: packed)
"""


def do(script: str, folder: Path, environment: Path, **variables: str) -> str:
    """In a shell with that virtual environment active, which knows nothing of this checkout."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MLPERF_"))
    }
    person = {f"GIT_{role}_{part}": "a@example.com" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["bash", "-euc", f'. "{environment}/bin/activate"\n{script}'],
        cwd=folder,
        env={**kept, **person, **variables, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def make_environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive, the wheels and the logs of the submitter, whose repository is gone."""
    return make_once(tmp_path_factory, "packed", _submit)


def _submit(folder: Path) -> Path:
    environment, repository = make_environment(folder / "submitter"), folder / "repository"
    wheels = folder / "wheels"
    do(f'python -m pip wheel --quiet --no-deps --wheel-dir "{wheels}" "{TOP}"', folder, environment)
    do("python -m pip install --quiet 'mlperf-reconciler[cpu]'", folder, environment, PIP_FIND_LINKS=str(wheels))
    do("python -m pip install --quiet --no-deps nvidia-pytriton", folder, environment)
    for name, text in {"specs/three.yaml": SPEC, "benchmarks/mine.py": SETUP, "theirs/run.py": SCRIPT}.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    do("git init --quiet && reconcile", repository, environment)
    tree, archive = repository / ".reconcile/tree", folder / "archive.tar.gz"
    (folder / "pack.py").write_text(PACK)
    do(f'python pack.py "{tree}" "{archive}"', folder, environment)
    shutil.copytree(tree, folder / "published")
    shutil.rmtree(repository)
    shutil.rmtree(environment)
    return folder


@pytest.fixture(scope="module")
def auditor(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but Python."""
    return make_environment(tmp_path_factory.mktemp("auditor") / "environment")


@pytest.mark.parametrize("benchmark", ["mine", "served", "theirs"])
def test_what_is_typed_from_an_archive_repeats_a_cell(
    benchmark: str, packed: Path, auditor: Path, tmp_path: Path
) -> None:
    tree, empty = tmp_path / "tree", tmp_path / "empty"
    shutil.unpack_archive(packed / "archive.tar.gz", tree, filter="data")
    empty.mkdir()
    (guide,) = tree.rglob(f"src/{benchmark}/REPRODUCE.md")
    given = {
        "SRC": str(guide.parent),
        "PIP_FIND_LINKS": str(packed / "wheels"),
        "PIP_QUIET": "1",
        "RECONCILE_BUSY": "1",
    }
    saved = re.search(r"Save as `(\S+)`", guide.read_text())
    assert saved is not None
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", guide.read_text(), re.S):
        if kind == "yaml":
            (empty / saved[1]).parent.mkdir(parents=True, exist_ok=True)
            (empty / saved[1]).write_text(block)
        else:
            do(block, empty, auditor, **given)
    assert "In sync" in do("reconcile", empty, auditor, **given)
    (again,) = (empty / ".reconcile/tree").rglob("run_1/mlperf_log_detail.txt")
    (before,) = (packed / "published").rglob(f"{benchmark}/Offline/performance/run_1/mlperf_log_detail.txt")
    assert read_effective(again) == read_effective(before)
    assert "Result is : VALID" in again.with_name("mlperf_log_summary.txt").read_text()
    shutil.rmtree(empty / ".reconcile/tree")
