"""A release: the workflow's own steps build the sdist, the wheel from it, install it, and use it without a checkout.

Nothing is fetched: the environment sees the suite's packages, and pip takes the wheel alone.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import reconciler
from tests.architecture.source import ROOT
from tests.shared import make_once, need
from tests.workflows import make_environment, make_python, read_steps, run_step, select_steps

need("hatchling", "mlperf_loadgen", "onnxruntime", "openvino", "sklearn", "tokenizers", "vl_convert")
STEPS = read_steps("workflows/release.yml", "jobs", "build")
TAG, BUILD, INSTALL, USE = select_steps(
    STEPS,
    "the tag names the version",
    "build the sdist, and the wheel from it",
    "install the wheel, away from the checkout",
    "use it",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the sdist and the wheel in ``dist``, built once for all processes. The folder that built them is gone."""
    return make_once(tmp_path_factory, "release", _build)


def _build(folder: Path) -> Path:
    """Only the files of an sdist are there, so that nothing else can help to build one."""
    checkout = folder / "built"
    checkout.mkdir()
    for name in (*PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml"):
        source = ROOT / name.strip("/")
        if source.is_dir():
            shutil.copytree(source, checkout / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, checkout)
    ended = run_step(BUILD, checkout, _make_variables(folder))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return checkout.rename(folder / "checkout")


def _make_variables(folder: Path) -> dict[str, str]:
    """Of the steps, whose runner has this folder."""
    return {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PATH": f"{make_python(folder / 'bin')}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_COMPILE": "1",  # most of what is installed is not imported here
        "RECONCILE_LOCKS": str(folder / "locks"),
        "RUNNER_TEMP": str(folder / "runner"),
        **{f"GIT_{who}_{part}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
    }


@pytest.mark.parametrize(("tag", "code"), [(f"v{reconciler.__version__}", 0), ("v0.9.9", 1)])
def test_only_a_tag_of_this_version_is_released(tag: str, code: int, checkout: Path, tmp_path: Path) -> None:
    variables = {**_make_variables(tmp_path), "GITHUB_REF_NAME": tag}
    assert run_step(TAG, checkout, variables).returncode == code


def test_the_sdist_is_whole_and_has_the_version_of_the_code(checkout: Path) -> None:
    (sdist,) = checkout.glob("dist/*.tar.gz")
    assert sdist.name == f"mlperf_reconciler-{reconciler.__version__}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {".ci/run", "specs/llm.yaml", "tests/conftest.py", "LICENSE", "reconciler/docs/tutorial.md"} <= names


def test_the_wheel_has_every_file_that_the_packages_have(checkout: Path) -> None:
    """Code, rounds, templates, documents: all that git knows of both packages, and no cache."""
    (wheel,) = checkout.glob("dist/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    ignored = (".pyc", ".pyo")
    data = [*(f"schemas/{path.name}" for path in (ROOT / "schemas").glob("*.json")), "specs/quickstart.yaml"]
    wanted = {f"reconciler/spec/data/{name}" for name in data} | {
        path.relative_to(ROOT).as_posix()
        for package in ("reconciler", "harness")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not path.name.endswith(ignored)
    }
    assert wanted <= names
    assert not [name for name in names if name.endswith(ignored)]


@pytest.mark.timeout(900)
def test_the_installed_wheel_is_all_that_a_submission_needs(checkout: Path, tmp_path: Path) -> None:
    """`init`, a pass, `check`, `page --export`, `rehearse`, where no checkout is: the steps fail with any of them."""
    make_environment(tmp_path / "runner/venv")
    variables = _make_variables(tmp_path)
    ended = run_step(INSTALL, checkout, variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    at = tmp_path / "runner"
    (installed,) = at.glob("venv/lib/python3*/site-packages/harness")
    compileall.compile_dir(installed, quiet=2)  # children write no byte code
    ended = run_step(USE, at, variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    python = at / "venv/bin/python"
    asked = "import reconciler, harness; print(reconciler.__file__); print(harness.__file__)"
    found = subprocess.run([python, "-P", "-c", asked], cwd=at, capture_output=True, text=True, check=True)
    assert all(Path(path).is_relative_to(at / "venv") for path in found.stdout.split())
    said = subprocess.run([at / "venv/bin/reconcile", "-V"], capture_output=True, text=True, check=True)
    assert said.stdout.split()[-1] == reconciler.__version__
    records = [json.loads(path.read_bytes()) for path in (at / "lab/state/records/Run").glob("*.json")]
    assert {record["tool"] for record in records} == {f"mlperf-reconciler {reconciler.__version__}"}
    assert (at / "rehearsal/.reconcile/tree").is_dir()
