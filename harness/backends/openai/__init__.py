"""Servers that speak the OpenAI protocol: vLLM, SGLang, trtllm-serve, llama.cpp's server, OpenVINO Model Server, …

The server batches; this side sends prompts and reads streams. The client is aiohttp: its parser is compiled and one
thread of it holds a thousand streams; for more there are several processes.
"""

from __future__ import annotations

import aiohttp

from harness.backends.openai.client import Client
from harness.backends.openai.processes import Clients, choose_count
from harness.backends.openai.serving import find_server
from harness.contract import Fact
from harness.machine.facts import count_usable_cores
from harness.run.tokens import GenerationPlan, Generator


def facts() -> dict[str, Fact]:
    """Facts about the client. The server follows from the service's own inputs, or from nothing that can be seen."""
    return {
        "backend.version": Fact(value=aiohttp.__version__, role="evidence"),
        "backend.digest": Fact(value="", role="evidence"),
    }


def load(plan: GenerationPlan) -> Generator:
    """Raises HarnessError where no server answers, the key is refused, or another model is served."""
    server = find_server(plan)
    count = choose_count(plan, server, count_usable_cores())
    return Clients(plan, server.concurrency, count) if count > 1 else Client(plan, server)
