"""A language model behind llama.cpp's server, which gives text and no token ids: the tokens are those of the network.

``pip install xllamacpp`` brings the server; where it is not installed there is nothing to try.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from reconciler.resource.records import SERVICE_LOG
from tests.passes.gguf_file import write_gguf, write_tokenizer
from tests.passes.llama import WORDS, continue_greedily, draw_weights
from tests.passes.repository import Repository
from tests.passes.tiny_llama import describe_served, make_asking, unhappy
from tests.shared import need

need("mlperf_loadgen", "aiohttp", "tokenizers")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None, reason="llama.cpp's server is not there: pip install xllamacpp"
    ),
]
PROMPTS, END, LEAST, MOST = 16, 7, 3, 12
SERVER = ["{python}", "-P", "-m", "harness.run.llama_server", "{model}", "{port}"]
SPEC = f"""{describe_served("served", "openai", PROMPTS)}\
      run:
        options: {{min_new_tokens: 1, max_new_tokens: {MOST}}}
      harness:
        service:
          command: {json.dumps(SERVER)}
          env: {{PYTHONPATH: "{Path(__file__).parents[2]}"}}
          ready: {{url: "{{service_url}}/health", timeout: 2 min}}
"""
CELLS = f"""\
        served:
          Offline: {{target_qps: 10, min_query_count: {PROMPTS}}}
          Server: {{target_qps: 10, min_query_count: 40}}
"""


def test_answers_are_those_of_the_network(tmp_path: Path) -> None:
    """Some end by themselves, some are cut off. The token that ends one is counted, and has no text to be logged as."""
    weights, rng = draw_weights(), np.random.default_rng(3)
    asked: list[list[int]] = []
    said: list[list[int]] = []
    while len(asked) < PROMPTS or not 0 < sum(answer[-1] == END for answer in said) < PROMPTS:
        prompt = rng.integers(8, WORDS, int(rng.integers(4, 40))).tolist()
        answer = continue_greedily(weights, prompt, MOST, end=END)
        if len(answer) >= LEAST:  # this server knows no min_tokens
            asked, said = [*asked, prompt][-PROMPTS:], [*said, answer][-PROMPTS:]
    logged = [answer[:-1] if answer[-1] == END else answer for answer in said]
    repository = make_asking(tmp_path / "repository", asked, logged, SPEC, CELLS)
    write_gguf(_make_folder(repository) / "tiny.gguf", weights, end=END)
    write_tokenizer(repository.root / "checkpoint/tokenizer.json")
    assert unhappy(repository.reconcile().outcomes) == []
    by_address = {str(record.address): record for record in repository.records().values()}
    for scenario in ("Offline", "Server"):
        cell = f"open/box/served/{scenario}"
        assert by_address[f"Score:{cell}"].values["metrics"]["right"] == PROMPTS
        accuracy, timed = by_address[f"Run:{cell}/accuracy"], by_address[f"Run:{cell}/performance"]
        assert accuracy.values["tokens"]["tokens"] == sum(map(len, said))
        assert timed.values["tokens"]["longest"] == MOST
        assert repository.objects_of(f"Run:{cell}/performance", SERVICE_LOG)
        assert timed.facts["server.version"].value
    assert not repository.look().plan.steps


def _make_folder(repository: Repository) -> Path:
    folder = repository.root / "checkpoint"
    folder.mkdir()
    return folder
