"""``LLM.generate`` of all prompts at once, without LoadGen and without the harness: ``python -m
tests.gpu.language_bare SETTINGS`` prints samples/s of two passes.

settings: model, dataset, tokens, arguments (of ``LLM``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def measure(settings: dict[str, Any]) -> dict[str, list[float]]:
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
    from vllm import LLM, SamplingParams

    engine = LLM(settings["model"], skip_tokenizer_init=True, enable_prefix_caching=False, **settings["arguments"])
    count = settings["tokens"]
    chosen = SamplingParams(temperature=0, min_tokens=count, max_tokens=count, ignore_eos=True, detokenize=False)
    tokens, ends = (np.load(Path(settings["dataset"]) / name) for name in ("prompts.npy", "prompt_ends.npy"))
    prompts: Any = [{"prompt_token_ids": prompt.tolist()} for prompt in np.split(tokens, ends[:-1])]
    engine.generate(prompts[:4], chosen, use_tqdm=False)
    rates = []
    for _ in range(2):
        began = time.perf_counter()
        engine.generate(prompts, chosen, use_tqdm=False)
        rates.append(len(prompts) / (time.perf_counter() - began))
    return {"rates": rates}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
