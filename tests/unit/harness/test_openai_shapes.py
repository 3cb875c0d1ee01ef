"""Streams as servers write them, after their published sources: what is not read must not disturb."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("aiohttp")
from harness.backends.openai.answers import Answer, read_events
from harness.errors import HarnessError

USAGE = {"prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3}


def sglang(text: str, tokens: list[int], reason: str | None = None, **more: Any) -> dict[str, Any]:
    """CompletionStreamResponse of python/sglang/srt/entrypoints/openai/protocol.py."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "matched_stop": None}
    head = {"id": "5f", "object": "text_completion", "created": 1, "model": "tiny", "usage": None}
    return {**head, "choices": [{**choice, "token_ids": tokens, **more}]}


def trtllm(tokens: list[int], reason: str | None = None) -> dict[str, Any]:
    """CompletionStreamResponse of tensorrt_llm/serve/openai_protocol.py, for ``detokenize: false``."""
    choice = {"index": 0, "text": "", "token_ids": tokens, "logprobs": None, "finish_reason": reason}
    more = {"stop_reason": None, "avg_decoded_tokens_per_iter": 1.0}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "tiny", "usage": None}
    return {**head, "choices": [{**choice, **more}]}


def llama_cpp(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Of tools/server: the last event has the times of the answer beside its usage."""
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return {"choices": [choice], "created": 1, "model": "tiny", "object": "text_completion", "id": "c", **more}


def read(*events: dict[str, Any]) -> Answer:
    lines = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    found, closed = read_events(lines + b"data: [DONE]\n\n")
    assert closed
    return Answer().add_all(found)


def closing(**usage: Any) -> dict[str, Any]:
    return {"id": "1", "object": "text_completion", "created": 1, "model": "tiny", "choices": [], "usage": usage}


STREAMS = {
    "sglang": (
        sglang(" a", [5], prompt_token_ids=[1, 2, 3]),
        sglang("", []),
        sglang(" b c", [6, 7]),
        sglang("", [], "stop", matched_stop=2),
        closing(**USAGE, prompt_tokens_details=None, reasoning_tokens=0),
    ),
    "trtllm-serve": (
        trtllm([5]),
        trtllm([6, 7]),
        trtllm([], "length"),
        closing(**USAGE, prompt_tokens_details={"cached_tokens": 0}),
    ),
    "llama.cpp": (
        llama_cpp(" a"),
        llama_cpp(" b c"),
        llama_cpp("", "length", usage=USAGE, timings={"predicted_n": 3, "predicted_ms": 0.5}),
    ),
}


@pytest.mark.parametrize("server", STREAMS)
def test_stream_of_a_server_is_read_whole(server: str) -> None:
    answer = read(*STREAMS[server])
    assert answer.ended
    assert answer.reason in ("stop", "length")
    assert answer.counted == 3
    assert answer.tokens == ([] if server == "llama.cpp" else [5, 6, 7])
    assert answer.text == ("" if server == "trtllm-serve" else " a b c")


def test_usage_may_say_nothing_of_the_answer() -> None:
    """Both declare it optional."""
    assert read(sglang(" a", [5], "stop"), closing(prompt_tokens=3, completion_tokens=None)).counted == 0


def test_error_within_a_stream_is_told() -> None:
    """How SGLang ends a stream whose request it aborts with a status."""
    error = {"error": {"object": "error", "message": "KV cache is full", "type": "SERVICE_UNAVAILABLE", "code": 503}}
    with pytest.raises(HarnessError, match="KV cache is full"):
        read(sglang(" a", [5]), error)


def test_reason_of_an_aborted_answer_is_kept() -> None:
    assert read(sglang(" a", [5]), sglang("", [], "abort")).reason == "abort"
