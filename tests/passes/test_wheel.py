"""A release: the workflow's own steps build the sdist, the wheel from it, install it, and use it without a checkout.

Nothing is fetched: the environment sees the suite's packages, and pip takes the wheel alone.
"""

from __future__ import annotations

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
from tests.shared import need
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
    """Only the files of an sdist, so that nothing else can help to build one."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    folder.mkdir()
    for name in (*PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml"):
        source = ROOT / name.strip("/")
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def environment(checkout: Path) -> dict[str, str]:
    runner = checkout.parent / "runner"
    make_environment(runner / "venv")
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org"}
    return {
        **git,
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "PATH": f"{make_python(checkout.parent / 'bin')}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "RECONCILE_LOCKS": str(checkout.parent / "locks"),
        "RUNNER_TEMP": str(runner),
    }


@pytest.fixture(scope="module")
def built(checkout: Path, environment: dict[str, str]) -> Path:
    ended = run_step(BUILD, checkout, environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return checkout / "dist"


@pytest.mark.parametrize(("tag", "code"), [(f"v{reconciler.__version__}", 0), ("v0.9.9", 1)])
def test_only_a_tag_of_this_version_is_released(
    tag: str, code: int, checkout: Path, environment: dict[str, str]
) -> None:
    assert run_step(TAG, checkout, {**environment, "GITHUB_REF_NAME": tag}).returncode == code


def test_the_sdist_is_whole_and_has_the_version_of_the_code(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    assert sdist.name == f"mlperf_reconciler-{reconciler.__version__}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {".ci/run", "specs/llm.yaml", "tests/conftest.py", "LICENSE", "reconciler/docs/tutorial.md"} <= names


def test_the_wheel_has_every_file_that_the_packages_have(built: Path) -> None:
    """Code, rounds, templates, documents: all that git knows of both packages, and no cache."""
    (wheel,) = built.glob("*.whl")
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
def test_the_installed_wheel_is_all_that_a_submission_needs(
    built: Path, checkout: Path, environment: dict[str, str]
) -> None:
    """`init`, a pass, `check`, `page --export`, `rehearse`, where no checkout is: the steps fail with any of them."""
    ended = run_step(INSTALL, checkout, environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    moved = checkout.rename(checkout.with_name("gone"))  # also for what would find it by its path
    try:
        at = Path(environment["RUNNER_TEMP"])
        ended = run_step(USE, at, environment)
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
    finally:
        moved.rename(checkout)
