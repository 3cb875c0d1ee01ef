"""NVIDIA's published v5.1 and v6.0 code itself: its Makefile, argument parser, confs, audit and log code, with answers
that cost nothing in place of its engines.

Nothing of it is kept here. It runs where ``PUBLISHED`` names a folder with these checkouts:

    git clone https://github.com/mlcommons/inference_results_v5.1
    git clone https://github.com/mlcommons/inference_results_v6.0
    git clone https://github.com/NVIDIA/mitten
    git clone https://github.com/mlcommons/inference && git -C inference checkout 47b91b97
    git clone https://github.com/mlcommons/inference inference-v6.0 && git -C inference-v6.0 checkout 175ea7ba
    pip install --no-deps --target loadgen-v5.1 mlcommons-loadgen==5.1.2

and ``INFERENCE_CHECKOUT`` names a checkout with the checkers of v6.1. The v5.1 code pins 47b91b97, whose checker judges
its tree.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.conftest import console
from tests.acceptance.published import NEEDS_PUBLISHED, PUBLISHED, append_cheat, assert_cheat_is_found, submit
from tests.acceptance.test_official import check_officially
from tests.shared import need

need("mlperf_loadgen")
pytestmark = NEEDS_PUBLISHED
SYSTEM = "B200-SXM-180GBx8"
CELL = f"closed/{SYSTEM}_TRT/llama3.1-8b/Offline"
# Libraries of GPUs: replaced by stand-ins.
LIBRARIES = """\
import importlib.abc, importlib.machinery, sys, types
from unittest.mock import MagicMock

ABSENT = set("nvtx onnx_graphsurgeon onnx tensorrt tensorrt_llm cuda torch modelopt cupy pycuda cv2 matplotlib "
             "transformers datasets numba polygraphy pynvml scipy requests tqdm".split())


class Library(types.ModuleType):
    __path__, __version__ = [], "10.11.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Library(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())
"""
ENGINE = """\
import array, time

import mlperf_loadgen as lg
from code.common.mlcommons.runner import ScopedQSL
from code.fields.harness import CoreType
from code.ops.harness import PyHarnessOp

SHORTER = 0  # tokens that answers of performance runs lack


class Answers(PyHarnessOp):
    def __init__(self, *args, **kwargs):
        super().__init__(ScopedQSL, *args, **kwargs)

    def issue_queries(self, samples):
        if offline := self.wl.scenario.valstr == "Offline":
            time.sleep(1.3)
        for sample in samples:
            tokens = array.array("i", [sample.index + 3, 5, 7, 9, 2])
            size = len(tokens) - (SHORTER if self.test_mode == "PerformanceOnly" else 0)
            if not offline:
                lg.FirstTokenComplete([lg.QuerySampleResponse(sample.id, tokens.buffer_info()[0], 4, 1)])
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, tokens.buffer_info()[0], 4 * size, 5)])

    def flush_queries(self):
        pass


DEFAULT_CORE_TYPE = CoreType.TRTLLM_EXECUTOR
EngineBuilderOp = CalibrateEngineOp = None
TrtllmExecutorBenchmarkHarnessOp = BenchmarkHarnessOp = Answers
"""
SCORER = """\
import array, json, pathlib, sys

answers = json.load(open(sys.argv[1]))
images = pathlib.Path(sys.argv[2])
images.mkdir()
for number in (2747, 2235, 2165, 1515, 1538, 1367, 2419, 4629, 3657, 4532):  # those that a round publishes
    (images / f"{number}.png").write_text(str(number))
share = sum(array.array("i", bytes.fromhex(a["data"]))[0] == a["qsl_idx"] + 3 for a in answers) / len(answers)
rouge = {"rouge1": 39 * share, "rouge2": 16.2 * share, "rougeL": 24.5 * share, "rougeLsum": 36 * share}
print({**rouge, "gen_len": 8200000, "gen_num": len(answers), "CLIP_SCORE": 31.7 * share, "FID_SCORE": 23.5 / share})
"""


@dataclass(frozen=True, slots=True)
class Version:
    """``checkout`` of the official repository that the code expects at ``place``. ``engines``: benchmark → its folder
    of the code. ``checkers``: a checkout with those of the round, unless ``INFERENCE_CHECKOUT`` has them."""

    checkout: str
    place: str
    round: str
    engines: Mapping[str, str]
    checkers: str = ""

    @property
    def cells(self) -> list[str]:
        return [f"closed/{SYSTEM}_TRT/{name}/{scenario}" for name in self.engines for scenario in SCENARIOS]


SCENARIOS = ("Offline", "Server")
LLAMA = {"llama3.1-8b": "llama3_1-8b"}
VERSIONS = {
    "v5.1": Version(
        "inference", "build/inference", "v5.1", {**LLAMA, "stable-diffusion-xl": "stable-diffusion-xl"}, "inference"
    ),
    "v6.0": Version("inference-v6.0", "3rdparty/mlc-inference", "v6.1", LLAMA),
}


def make_code(root: Path, version: str = "v5.1") -> Path:
    """The published code with another engine, and on a machine without a GPU."""
    theirs = Path(PUBLISHED) / f"inference_results_{version}/closed/NVIDIA"
    code = root / "theirs"
    code.mkdir()
    for file in [*theirs.glob("Makefile*"), theirs / "VERSION"]:
        shutil.copy(file, code)
    for name in ("code", "configs", "scripts"):
        shutil.copytree(theirs / name, code / name)
    shutil.copytree(Path(PUBLISHED) / "mitten/src", root / "libraries")
    known = VERSIONS[version]
    (code / "3rdparty/trtllm").mkdir(parents=True)
    for part in ("compliance", "loadgen", "tools/submission"):
        shutil.copytree(Path(PUBLISHED) / known.checkout / part, code / known.place / part)
    (root / "libraries/sitecustomize.py").write_text(LIBRARIES)
    devices = root / "libraries/nvmitten/nvidia/accelerator.py"
    devices.write_text(devices.read_text().replace("cuda.cuInit(0)", "return []"))
    power = code / "code/common/power_limit.py"
    power.write_text(re.sub(r"return nullcontext$", "return nullcontext()", power.read_text(), flags=re.MULTILINE))
    power.write_text(power.read_text().replace("DETECTED_SYSTEM.accelerators[GPU]", "[]"))
    for folder in known.engines.values():
        (code / f"code/{folder}/tensorrt/__init__.py").write_text(ENGINE)
    for config in (code / f"configs/{SYSTEM}/Server").iterdir():  # the rate of accuracy runs
        config.write_text(re.sub(r"(server_target_qps: )[\d.]+", r"\g<1>2000", config.read_text()))
    (code / "score.py").write_text(SCORER)
    if (loadgen := Path(PUBLISHED) / f"loadgen-{version}").is_dir():  # with the seeds of its round
        shutil.copytree(loadgen, root / "libraries", dirs_exist_ok=True)
    (root / "scratch").mkdir()
    return code


def make_submission(root: Path, code: Path, version: str = "v5.1") -> Path:
    known = VERSIONS[version]
    words = [word for name in known.engines for word in ("--benchmark", name)]
    named = ("--round", known.round, "--system", f"{SYSTEM}_TRT", *words)
    programs = f'PATH: "{Path(sys.executable).parent}:/usr/bin:/bin", PYTHONPATH: "{root}/libraries"'
    env = f"env: {{{programs}, SYSTEM_NAME: {SYSTEM}, MLPERF_SCRATCH_PATH: {root}/scratch}}"
    score = (
        f'score: {{command: [{sys.executable}, score.py, "{{accuracy_log}}", "{{run_dir}}/images", --dtype, int32]}}'
    )
    below = f"{env}, {score}, code: {code}}}\n      min_duration: 1 s"

    def change(text: str) -> str:
        text = re.sub(r"^ +(accelerator: NVIDIA B200|count: 8)\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"/path/to/(model|dataset)", str(code / "VERSION"), text)
        text = re.sub(r"Offline: \{[^}]*\}", "Offline: {target_qps: 4000}", text)
        return re.sub(r"\bServer: \{[^}]*\}", "Server: {target_qps: 2000}", text)

    return submit(root, code, f"nvidia-{version}", *named, below=below, change=change)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_published_code_runs_through_its_adapter(tmp_path: Path, checkout: Path, version: str) -> None:
    known, submission = VERSIONS[version], make_submission(tmp_path, make_code(tmp_path, version), version)
    said = console(submission).out
    assert all(f"{cell}  " in said for cell in known.cells)
    assert f"\n{len(known.cells)} cells ready." in said, said
    assert "\nfinding " not in said, said
    assert console(submission, "plan").code == 0
    checkers = Path(PUBLISHED) / known.checkers if known.checkers else checkout
    assert check_officially(submission / ".reconcile/tree", known.round, checkers, tmp_path / "official")[1] == []


CHEATS = {  # name: (what the engine does in addition, what names file and line)
    "answers shorter than stated": ("SHORTER = 1\n", r"TEST06: .*\(mlperf_log_accuracy\.json:2\)"),
    "logs swapped": (
        """
import atexit, os, pathlib

def swap():
    best = pathlib.Path("build/best.txt")
    for log in pathlib.Path(os.environ["LOG_DIR"]).rglob("mlperf_log_detail.txt"):
        if "AccuracyOnly" in log.read_text():
            best.write_text(log.read_text())
        else:
            log.write_text(best.read_text())

atexit.register(swap)
""",
        r"mlperf_log_detail\.txt shows: mode: .*\(line \d+\)",
    ),
    "target in the conf edited": (
        """
import atexit, pathlib, re

def edit():
    for conf in pathlib.Path("build/loadgen-configs").rglob("user.conf"):
        conf.write_text(re.sub(r"target_qps = .*", "target_qps = 7", conf.read_text()))

atexit.register(edit)
""",
        r"user\.conf:\d+: target_qps: expected 7, LoadGen logged \d+ \(line \d+\)",
    ),
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheating_copy_is_a_finding_with_file_and_line(tmp_path: Path, cheat: str) -> None:
    code, (added, shown) = make_code(tmp_path), CHEATS[cheat]
    append_cheat(code / "code/llama3_1-8b/tensorrt/__init__.py", added)
    assert_cheat_is_found(make_submission(tmp_path, code), CELL, shown)
