"""Compare scores of language models with the reference scripts'.

    python -m tests.benchmarks.reference_language CHECKOUT PYTHON ROUGE [BENCHMARK...]

CHECKOUT is one of mlcommons/inference with the folder language. PYTHON has the scripts' packages (transformers, torch,
evaluate, nltk, pandas); ROUGE is a folder with rouge/rouge.py of huggingface/evaluate, where the scripts look before
they download it. Each benchmark uses a rehearsal's dataset; half of the answers are the network's own, the others
random. Prints both figures of each metric. Exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.language.published import BENCHMARKS
from harness.benchmarks.language.rehearsing import GENERATED
from harness.run.tokens import PROMPTS
from tests.benchmarks.comparing import rehearse, run_script, write_log

COUNT = 40
TOLERANCE = 1e-6  # of sums in another order


@dataclass(frozen=True, slots=True)
class Script:
    """``tokenizer``: the path of the tokenizer below the script's folder. ``rows``: the file with the rows, if the
    rehearsal writes another one than the first published name."""

    path: str
    tokenizer: str
    options: tuple[str, ...]
    rows: str = ""


_LOG = ("--mlperf-accuracy-file", "{log}", "--dataset-file", "{rows}", "--dtype", "int32")
_WITH_CHECKPOINT = ("--checkpoint-path", "checkpoint", *_LOG)
SCRIPTS = {
    "llama3_1_8b": Script("llama3.1-8b/evaluation.py", "meta-llama/Meta-Llama-3.1-8B-Instruct", _LOG),
    "llama2_70b": Script("llama2-70b/evaluate-accuracy.py", "checkpoint", _WITH_CHECKPOINT),
    "gptj": Script("gpt-j/evaluation.py", "EleutherAI/gpt-j-6B", _LOG),
    "mixtral_8x7b": Script("mixtral-8x7b/evaluate-accuracy.py", "checkpoint", _WITH_CHECKPOINT),
    "llama3_1_405b": Script("llama3.1-405b/evaluate-accuracy.py", "checkpoint", _WITH_CHECKPOINT),
    "deepseek_r1": Script(
        "deepseek-r1/eval_accuracy.py",
        "deepseek-ai/DeepSeek-R1",
        ("--input-file", "{log}", "--dataset-file", "{rows}", "--output-file", "evaluated.pkl"),
    ),
    "gpt_oss_120b": Script(
        "gpt-oss-120b/eval_mlperf_accuracy.py",
        "checkpoint",
        ("--mlperf-log", "{log}", "--reference-data", "{rows}", "--tokenizer", "checkpoint"),
        "acc/acc_eval_ref.pkl",
    ),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("rouge", type=Path)
    parser.add_argument("benchmarks", nargs="*", default=list(SCRIPTS))
    asked = parser.parse_args(arguments)
    wrong = 0
    for name in asked.benchmarks:
        with tempfile.TemporaryDirectory() as folder:
            wrong += compare(name, asked, Path(folder))
    return 1 if wrong else 0


def compare(name: str, asked: argparse.Namespace, folder: Path) -> int:
    """Return the number of figures that differ."""
    code = BENCHMARKS[name]
    if name == "gpt_oss_120b":  # it repeats its questions
        code.published = replace(code.published, samples=COUNT)
    rehearse(folder, name, count=COUNT)
    data, models, dataset = (folder / part for part in ("data", "models", "dataset"))
    prompts = [prompt.tolist() for prompt in code.load_samples(dataset)[PROMPTS]]
    decoder = GENERATED[name].open_network(next(models.iterdir()))
    right = [decoder.answer(prompt) for prompt in prompts]
    rng = np.random.default_rng(5)
    drawn = [rng.integers(1, 900, int(rng.integers(2, 40))).tolist() for _ in prompts]
    wrong = 0
    for kind, answers in (("right", right), ("half", [*right[: COUNT // 2], *drawn[COUNT // 2 :]]), ("random", drawn)):
        log = write_log(folder, (np.array(answer, np.int32) for answer in answers))
        ours = code.score(read_accuracy_log(log), dataset, folder)
        script = SCRIPTS[name]
        theirs = ask_script(script, asked, folder, data, data / (script.rows or code.published.files[0]), log)
        for metric, figure in theirs.items():
            same = metric in ours and abs(float(figure) - float(ours[metric])) <= TOLERANCE
            wrong += not same
            print(f"{name} {kind} {metric}: {figure} official, {ours.get(metric)} here{'' if same else '  DIFFERS'}")
    return wrong


def ask_script(
    script: Script, asked: argparse.Namespace, folder: Path, data: Path, rows: Path, log: Path
) -> dict[str, Any]:
    """Return the dict that the script prints, with NumPy scalars as numbers."""
    source, work = asked.checkout / "language" / script.path, folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source.parent, work)
    shutil.copytree(asked.rouge / "rouge", work / "rouge")
    (work / script.tokenizer).mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(data / name, work / script.tokenizer / name)
    # It is imported by Mixtral's script for programs alone, and its package is not on any index.
    (work / "evaluate_mbxp.py").write_text("def evaluate_mbxp(results, workers):\n    raise NotImplementedError\n")
    options = [option.format(log=log, rows=rows) for option in script.options]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    environment = {**os.environ, **offline, "NLTK_DATA": str(data / "nltk_data"), "CUDA_VISIBLE_DEVICES": ""}
    ended = run_script([asked.python, source.name, *options], cwd=work, env=environment)
    printed = ended.stdout.rpartition("Results")[2].splitlines()
    text = next((line for line in printed if line.startswith("{")), "")
    if not text:  # a figure by itself
        text = next(f"{{{line}}}" for line in printed if line.startswith("'"))
    found: dict[str, Any] = ast.literal_eval(re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
