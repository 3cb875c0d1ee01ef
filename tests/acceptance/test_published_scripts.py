"""AMD's published v6.0 and Intel's published v5.1 code itself: its argument parsers, configurations and launch scripts,
with answers that cost nothing in place of their engines, and scorers of our own.

Nothing of it is kept here. It runs where ``PUBLISHED`` names a folder with these:

    git clone https://github.com/mlcommons/inference_results_v5.1
    git clone https://github.com/mlcommons/inference_results_v6.0
    pip install --target libraries omegaconf

and ``INFERENCE_CHECKOUT`` names a checkout with the checkers of v6.1.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import console
from tests.acceptance.published import NEEDS_PUBLISHED, PUBLISHED, submit
from tests.acceptance.test_official import check_officially
from tests.shared import need

need("mlperf_loadgen")
pytestmark = NEEDS_PUBLISHED
SYSTEM = "node"
ANSWERS = """\
import array, time

import mlperf_loadgen as lg

TYPE = "TYPE OF ONE TOKEN"


class Answers:
    streams = False

    def __init__(self, count):
        self.qsl = lg.ConstructQSL(count, count, lambda _: None, lambda _: None)

    def start(self):
        pass

    stop = flush_queries = start

    def issue_queries(self, samples):
        if not self.streams:
            time.sleep(1.3)
        for sample in samples:
            tokens = array.array(TYPE, [sample.index + 3, 5, 7, 9, 2])
            place, size = tokens.buffer_info()[0], tokens.itemsize
            if self.streams:
                lg.FirstTokenComplete([lg.QuerySampleResponse(sample.id, place, size, 1)])
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, place, 5 * size, 5)])


class Streams(Answers):
    streams = True
"""
INTEL = """

class SUT(Answers):
    def __init__(self, total_sample_count, **_):
        super().__init__(total_sample_count)


class SUTServer(SUT):
    streams = True
"""
WHISPER = """
from types import SimpleNamespace


class vllmSUT(Answers):
    def __init__(self, manifest_filepath, model_path, num_workers, **_):
        super().__init__(1633)
        self.qsl = SimpleNamespace(qsl=self.qsl)
        self.sut = lg.ConstructSUT(self.issue_queries, self.flush_queries)
"""
AMD = """

class SUT(Answers):
    def __init__(self, config, llm_config, sampling_config, *_):
        super().__init__(config["harness_config"]["total_sample_count"])
"""
DEVICES = "class xpu:\n    device_count = staticmethod(lambda: 8)\n    is_available = staticmethod(lambda: True)\n"
TOKENS = """\
import array, json, sys

answers = json.load(open(sys.argv[1]))
kind = {"int64": "q", "int32": "i"}[sys.argv[sys.argv.index("--dtype") + 1]]
right = sum(array.array(kind, bytes.fromhex(a["data"]))[0] == a["qsl_idx"] + 3 for a in answers)
rouge = {"rouge1": 45, "rouge2": 23, "rougeL": 29, "rougeLsum": 36}
print({**{name: most * right / len(answers) for name, most in rouge.items()}, "gen_len": 10**7, "gen_num": len(answers),
       "tokens_per_sample": 294.45})
print("Word Error Rate: 2.0%, accuracy=98.0%")
"""


def take(root: Path, published: str) -> Path:
    """A copy of published code."""
    code = root / "theirs"
    shutil.copytree(Path(PUBLISHED) / published, code)
    (code / "score.py").write_text(TOKENS)
    (root / "libraries/torch").mkdir(parents=True)
    (root / "libraries/torch/__init__.py").write_text(DEVICES)
    return code


def take_cards(root: Path) -> Path:
    """Intel's code for graphics cards."""
    code = take(root, "inference_results_v5.1/closed/Intel/code/llama3_1-8b/pytorch-xpu")
    (code / "SUT.py").write_text(ANSWERS.replace("TYPE OF ONE TOKEN", "q") + INTEL)
    return code


def take_whisper(root: Path) -> Path:
    code = take(root, "inference_results_v5.1/closed/Intel/code/whisper/pytorch-cpu")
    (code / "SUT.py").write_text(ANSWERS.replace("TYPE OF ONE TOKEN", "q") + WHISPER)
    (code / "accuracy_eval.py").write_text("")  # the run asks it too
    return code


def take_amd(root: Path) -> Path:
    code = take(root, "inference_results_v6.0/closed/AMD/src")
    for name, sut in (("sut_offline", "OfflineVLLMSUT(SUT)"), ("server_sut", "ServerVLLMSUT(Streams, SUT)")):
        text = f"{ANSWERS.replace('TYPE OF ONE TOKEN', 'i')}{AMD}\n\nclass {sut}:\n    pass\n"
        (code / f"harness_llm/backends/vllm/{name}.py").write_text(text)
    (code / "harness_llm/backends/vllm/async_server.py").write_text("AsyncServer = None\n")
    (code / "harness_llm/loadgen/sut.py").write_text("SUT = object\n")
    shutil.copytree(Path(PUBLISHED) / "libraries", root / "libraries", dirs_exist_ok=True)
    return code


CASES = {
    "Intel, graphics cards": ("intel-v5.1", "llama3.1-8b", take_cards, ["Offline", "Server"], "int64"),
    "Intel, processors": ("intel-v5.1", "whisper", take_whisper, ["Offline"], "int64"),
    "AMD": ("amd-v6.0", "llama2-70b-99.9", take_amd, ["Offline", "Server"], "int32"),
}


def make_submission(root: Path, code: Path, adapter: str, benchmark: str, dtype: str) -> Path:
    named = ("--round", "v6.1", "--system", SYSTEM, "--benchmark", benchmark)
    paths = f"PATH: '{Path(sys.executable).parent}:/usr/bin:/bin', PYTHONPATH: '{root}/libraries', GPU: mi355x"
    score = json.dumps([sys.executable, "score.py", "{accuracy_log}", "--dtype", dtype])
    below = f"env: {{{paths}}}, score: {{command: {score}}}, code: {code}}}\n      min_duration: 1 s"

    def change(text: str) -> str:
        text = re.sub(r"/path/to/(model|dataset)", str(code), text)
        text = re.sub(r"Offline: \{[^}]*\}", "Offline: {target_qps: 20000}", text)
        text = re.sub(r"(Server|Interactive): \{[^}]*\}", r"\1: {target_qps: 2000}", text)
        return re.sub(r"^ +Interactive: .*\n", "", text, flags=re.MULTILINE)

    return submit(root, code, adapter, *named, below=below, change=change)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_published_scripts_run_through_their_adapter(tmp_path: Path, checkout: Path, case: str) -> None:
    adapter, benchmark, make, scenarios, dtype = CASES[case]
    submission = make_submission(tmp_path, make(tmp_path), adapter, benchmark, dtype)
    said = console(submission).out
    assert all(f"closed/{SYSTEM}/{benchmark}/{scenario}  " in said for scenario in scenarios)
    ready = f"\n{len(scenarios)} cell{'s' if len(scenarios) > 1 else ''} ready."
    assert ready in said, said
    assert console(submission, "plan").code == 0
    assert check_officially(submission / ".reconcile/tree", "v6.1", checkout, tmp_path / "official")[1] == []
