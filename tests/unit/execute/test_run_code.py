"""What a run keeps of the code that it is made with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import harness.contract
from harness.contract import BENCHMARKS
from harness.verbs.run import pack_own_code
from reconciler.execute.run_code import pack_run_code, take_launched_code
from reconciler.resource.settings import CellSettings
from reconciler.storage.code_archive import pack_code, unpack_code


def code_of(root: Path, locations: dict[str, str] | None = None, **settings: object) -> dict[str, bytes]:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return unpack_code(pack_run_code(CellSettings(named), locations or {}, root))


def test_our_harness_without_what_the_run_does_not_load(tmp_path: Path) -> None:
    found = code_of(tmp_path, {"benchmark.code": "digits"}, engine__backend="onnxruntime")
    assert {
        "harness/verbs/run.py",
        "harness/run/loadgen.py",
        "harness/benchmarks/digits.py",
        "harness/LICENSE",
    } <= found.keys()
    assert "harness/backends/onnxruntime.py" in found
    others = ("harness/backends/tensorrt/", "harness/backends/vllm/", "harness/benchmarks/bert/")
    assert not [name for name in found if name.startswith(others)]


@pytest.mark.parametrize("named", ["LICENSE", "mlperf_reconciler-1.0.dist-info/licenses/LICENSE"])
def test_the_terms_are_kept_from_a_checkout_and_from_where_it_is_installed(tmp_path: Path, named: str) -> None:
    """In a process that finds our packages there first."""
    place = tmp_path / "packages"
    (place / named).parent.mkdir(parents=True)
    (place / named).write_text("terms of this place\n")
    (place / "mlperf_reconciler-1.0.dist-info").mkdir(exist_ok=True)
    (place / "mlperf_reconciler-1.0.dist-info/METADATA").write_text("Name: mlperf-reconciler\nVersion: 1.0\n")
    for package in ("harness", "reconciler"):
        (place / package).symlink_to(Path(harness.contract.__file__).parents[1] / package)
    script = (
        "from pathlib import Path\n"
        "from reconciler.storage.code_archive import unpack_code\n"
        "from reconciler.execute.run_code import pack_run_code\n"
        "from reconciler.resource.settings import CellSettings\n"
        "code = pack_run_code(CellSettings({'engine.backend': 'null'}), {'benchmark.code': 'digits'}, Path.cwd())\n"
        "print(unpack_code(code)['harness/LICENSE'].decode(), end='')\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("terms of this place\n", "")


@pytest.mark.parametrize("code", ["digits", "llama3_1_8b", "unet3d_brats"])
def test_the_kept_harness_has_all_that_it_imports(tmp_path: Path, code: str) -> None:
    """Python looks at every import statement of it without carrying one out."""
    found = code_of(tmp_path, {"benchmark.code": code}, engine__backend="null")
    for name, content in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    script = (
        "import ast, importlib.util, pathlib\n"
        "for path in pathlib.Path('harness').rglob('*.py'):\n"
        "    for node in ast.walk(ast.parse(path.read_text())):\n"
        "        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('harness'):\n"
        "            at = pathlib.Path(*node.module.split('.'))\n"
        "            assert at.with_suffix('.py').is_file() or at.is_dir(), (path, node.module)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    module = BENCHMARKS[code].module.replace(".", "/")
    assert f"harness/benchmarks/{module}" in {name.rpartition("/")[0] for name in found} | {
        name.removesuffix(".py") for name in found
    }


def test_a_scorer_of_the_users_next_to_our_harness_is_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/score.py").write_text("print('accuracy')\n")
    settings = {"harness__score__command": ["python", "score.py"], "harness__code": "ours"}
    found = code_of(tmp_path, {"benchmark.code": "digits"}, engine__backend="null", **settings)
    assert found["score/score.py"] == b"print('accuracy')\n"
    assert "harness/verbs/run.py" in found


def test_the_harness_of_a_container_is_kept_in_the_place_of_ours(tmp_path: Path) -> None:
    code, launched = tmp_path / "code.tar.gz", tmp_path / "launched.tar.gz"
    ours = {"harness/verbs/run.py": b"new\n", "harness/LICENSE": b"terms\n", "mine.py": b"own\n"}
    code.write_bytes(pack_code(ours))
    launched.write_bytes(pack_code({"harness/verbs/run.py": b"old\n", "harness/verbs/score.py": b"old, too\n"}))
    take_launched_code(code, launched)
    kept = unpack_code(code.read_bytes())
    assert kept == {**ours, "harness/verbs/run.py": b"old\n", "harness/verbs/score.py": b"old, too\n"}


def test_the_same_harness_in_a_container_changes_nothing(tmp_path: Path) -> None:
    code, launched = tmp_path / "code.tar.gz", tmp_path / "launched.tar.gz"
    before = pack_run_code(CellSettings({"engine.backend": "null"}), {"benchmark.code": "digits"}, tmp_path)
    code.write_bytes(before)
    pack_own_code(launched)
    take_launched_code(code, launched)
    assert code.read_bytes() == before


def test_code_is_kept_by_no_one_where_what_ran_cannot_be_read(tmp_path: Path) -> None:
    code, launched = tmp_path / "code.tar.gz", tmp_path / "launched.tar.gz"
    code.write_bytes(pack_code({"harness/verbs/run.py": b"new\n"}))
    launched.write_bytes(b"cut off")
    take_launched_code(code, launched)
    assert not code.exists()


def test_each_part_of_a_command_has_a_place_of_its_own(tmp_path: Path) -> None:
    for name in ("ours/run.py", "serving/serve.py", "building/build.py", "conf/run.json", "conf/serve.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    parts = {"harness__code": "ours", "harness__service__code": "serving", "harness__build__code": "building"}
    configs = {"harness__configs": ["conf/run.json", "gone.json"], "harness__service__configs": ["conf/serve.json"]}
    run, service, build = (
        {name: ["go"]} for name in ("harness__command", "harness__service__command", "harness__build__command")
    )
    gone = {"benchmark.path": "gone.py"}
    whole = code_of(tmp_path, gone, **parts, **configs, **run, **service, **build)
    assert whole == {
        "run.py": b"ours/run.py",
        "configs/run.json": b"conf/run.json",
        "service/serve.py": b"serving/serve.py",
        "configs/serve.json": b"conf/serve.json",
        "build/build.py": b"building/build.py",
    }
    assert set(code_of(tmp_path, gone, **parts, **configs, **run)) == {"run.py", "configs/run.json"}
    served = code_of(tmp_path, gone, engine__backend="openai", **parts, **configs, **service)
    own = {name for name in served if not name.startswith("harness/")}
    assert own == {"service/serve.py", "configs/serve.json"}


def test_what_a_benchmark_of_the_users_imports_of_ours_is_kept(tmp_path: Path) -> None:
    """In whichever way, and without carrying it out."""
    (tmp_path / "mine.py").write_text(
        "from harness.benchmarks import bert  # smollm2\n"
        "def late():\n    from harness.backends import (\n        openai,\n        vllm as other,\n    )\n"
        "import harness.cuda\n"
        "from harness.benchmarks.digits import Digits\n"
        "# from harness.backends import triton\n"
    )
    found = code_of(tmp_path, {"benchmark.path": "mine.py"}, engine__backend="null")
    units = {"/".join(name.removesuffix(".py").split("/")[1:3]) for name in found if name.startswith("harness/")}
    assert {"benchmarks/bert", "backends/openai", "backends/vllm", "benchmarks/digits", "backends/null"} <= units
    assert {"__init__", "verbs/run", "backends/__init__", "benchmarks/__init__"} <= units
    assert {"backends/triton", "benchmarks/smollm2", "backends/tensorrt"}.isdisjoint(units)
    bare = code_of(tmp_path, {"benchmark.code": "digits"}, engine__backend="null")
    assert {"harness/backends/openai", "harness/benchmarks/bert"}.isdisjoint(
        {"/".join(name.split("/")[:3]) for name in bare}
    )
