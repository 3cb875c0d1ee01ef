"""Servers that speak the OpenAI protocol: vLLM, SGLang, trtllm-serve, llama.cpp's server, OpenVINO Model Server, …

The server batches; this side sends prompts and reads streams. The client is aiohttp: its parser is compiled and one
thread of it holds thousands of streams.
"""

from __future__ import annotations

import aiohttp

from harness.backends.openai.client import Client
from harness.backends.openai.serving import find_server
from harness.contract import Fact
from harness.tokens import GenerationPlan


def facts() -> dict[str, Fact]:
    """Of the client. What the server is follows from the service's own inputs, or from nothing that can be seen."""
    return {
        "backend.version": Fact(value=aiohttp.__version__, role="evidence"),
        "backend.digest": Fact(value="", role="evidence"),
    }


def load(plan: GenerationPlan) -> Client:
    """Raises HarnessError where no server answers, the key is refused, or another model is served."""
    return Client(plan, find_server(plan))
