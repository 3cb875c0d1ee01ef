"""The client of OpenAI-compatible servers, against a real one on this machine that misbehaves as instructed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.errors import HarnessError
from harness.run.tokens import MESSAGES, Sampling, Spoken, StopSequence
from tests.processes import wait_for
from tests.shared import need
from tests.unit.harness.openai_server import KEY, MODEL, Server
from tests.unit.harness.recorder import Recorder

need("aiohttp")

TOKENS = 4
PROMPTS = [np.array([10 * (row + 1), 3, 5], np.int32) for row in range(8)]


Ask, Serve = Callable[..., Any], Callable[..., Server]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(20)


@pytest.fixture
def load(recorder: Recorder) -> Iterator[Ask]:
    """Loads a client and closes it at the end."""
    from harness.backends import openai

    with ExitStack() as stack:

        def load(*servers: Server, options: dict[str, Any] | None = None, **changed: Any) -> Any:
            url = ",".join(server.url for server in servers)
            known = {"url": url, "timeout_s": 20, "idle_timeout_s": 20, "token_ids": True}
            sampling = Sampling(max_new_tokens=TOKENS)
            served: dict[str, Any] = {"scenario": "Server", "sampling": sampling, "streaming": True}
            client = openai.load(recorder.make_plan(options={**known, **(options or {})}, **served | changed))
            stack.callback(client.close)
            client.place(PROMPTS)
            return client

        yield load


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:
        yield lambda mischief="": stack.enter_context(Server(mischief=mischief))


def expected(row: int) -> list[int]:
    return [10 * (row + 1) + place for place in range(TOKENS)]


@pytest.mark.parametrize(("streaming", "processes"), [(True, 1), (False, 1), (True, 2)])
def test_answers_are_the_tokens_that_the_server_gave(
    streaming: bool, processes: int, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    server = serve()
    client = load(server, streaming=streaming, options={"client_processes": processes})
    for row in range(len(PROMPTS)):
        client.submit(100 + row, row)
    results = recorder.wait(len(PROMPTS))
    assert results == {100 + row: expected(row) for row in range(len(PROMPTS))}
    firsts = {100 + row: expected(row)[:1] for row in range(len(PROMPTS))}
    assert recorder.firsts == (firsts if streaming else {})
    asked = server.asked[0]
    assert asked["model"] == MODEL
    assert asked["max_tokens"] == TOKENS
    assert asked["temperature"] == 0
    assert asked.get("stream", False) is streaming
    assert sorted(document["prompt"] for document in server.asked) == [prompt.tolist() for prompt in PROMPTS]


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        (Sampling(temperature=1.0, top_k=-1, seed=-1), {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0}),
        (Sampling(temperature=0.7, top_k=20, seed=-1), {"temperature": 0.7, "top_p": 1.0, "top_k": 20, "min_p": 0}),
        (Sampling(), {"temperature": 0}),
    ],
)
def test_no_default_of_a_server_narrows_what_is_drawn_from(
    sampling: Sampling, said: dict[str, float], load: Ask, serve: Serve, recorder: Recorder
) -> None:
    """llama.cpp's server draws from the 40 likeliest tokens, and from none that is 20 times less likely than the first,
    unless it is asked otherwise. The likeliest one needs no words."""
    server = serve()
    load(server, sampling=sampling).submit(1, 0)
    recorder.wait(1)
    (asked,) = server.asked
    assert {name: asked[name] for name in ("temperature", "top_p", "top_k", "min_p", "seed") if name in asked} == said


STOPS = (StopSequence("31 32", (31, 32)), StopSequence("52", (52,)))
OF_PROMPTS = [0, 0, 1, 1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("mischief", "streaming", "processes"),
    [("", True, 1), ("", False, 1), ("goes on", True, 1), ("goes on", False, 1), ("goes on", True, 2)],
)
def test_an_answer_ends_with_the_stop_sequence_of_its_prompt(
    streaming: bool, processes: int, mischief: str, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    """Of a server that does not stop there, what comes behind it is neither logged nor counted."""
    server = serve(mischief)
    sampling = Sampling(max_new_tokens=TOKENS, stop_sequences=STOPS)
    client = load(server, sampling=sampling, streaming=streaming, options={"client_processes": processes})
    client.place(PROMPTS, OF_PROMPTS)
    for row in range(len(PROMPTS)):
        client.submit(row, row)
    ended = {2: [30, 31, 32], 4: [50, 51, 52]}
    assert recorder.wait(len(PROMPTS)) == {row: ended.get(row, expected(row)) for row in range(len(PROMPTS))}
    said = {document["prompt"][0]: document.get("stop") for document in server.asked}
    stops = [[STOPS[number - 1].text] if number else None for number in OF_PROMPTS]
    assert said == {10 * (row + 1): stop for row, stop in enumerate(stops)}


def test_prompts_go_to_the_replica_with_the_fewest(load: Ask, serve: Serve, recorder: Recorder) -> None:
    """The first replica never ends an answer: it gets what it may hold, the others get everything else."""
    stuck, well = serve("keeps alive"), serve()
    client = load(stuck, well, options={"concurrency": 2})
    for row in range(8):
        client.submit(row, row)
    results = recorder.wait(6)
    wait_for(lambda: len(stuck.asked) >= 2)
    assert len(stuck.asked) == 2
    assert len(well.asked) == 6
    assert all(results[row] == expected(row) for row in results)


MISCHIEF = {
    "error": 'HTTP 500: {"error": "device lost"}',
    "twice": "the server sent two answers",
    "endless": "the stream exceeds 4 tokens",
    "breaks": "the answer is incomplete",
    "swapped model": f"the answer is of model swapped-model, not {MODEL}",
    "text": "the server returns text, not token ids",
    "aborts": "the server aborted an answer (abort)",
    "runs out of time": "the server aborted an answer (timeout)",
    "strict": "HTTP 400: ",
}


@pytest.mark.parametrize("mischief", MISCHIEF)
def test_misbehaviour_is_named(mischief: str, load: Ask, serve: Serve, recorder: Recorder) -> None:
    server = serve(mischief)
    load(server).submit(1, 0)
    error = recorder.failure()
    assert error.problem.startswith(f"{server.url}: {MISCHIEF[mischief]}")
    assert error.fix


def test_silence_within_a_stream_ends_it(load: Ask, serve: Serve, recorder: Recorder) -> None:
    load(serve("stalls"), options={"idle_timeout_s": 1}).submit(1, 0)
    assert "no new token for 1 s" in recorder.failure().problem
    assert recorder.firsts == {1: [10]}


@pytest.mark.parametrize("processes", [1, 2])
def test_first_failure_cancels_what_is_under_way_and_sends_nothing_more(
    processes: int, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    stuck, broken = serve("keeps alive"), serve("error")
    client = load(stuck, broken, options={"client_processes": processes})
    for row in range(8):
        client.submit(row, row)
    assert "device lost" in recorder.failure(8).problem


def test_processes_have_as_much_as_declared(load: Ask, serve: Serve, recorder: Recorder) -> None:
    """And when one of them ends, the run does."""
    server = serve("keeps alive")
    client = load(server, options={"client_processes": 2, "concurrency": 3})
    for row in range(8):
        client.submit(row, row)
    wait_for(lambda: len(server.asked) >= 3)
    started = [child for child in psutil.Process().children() if "harness.backends.openai.process" in child.cmdline()]
    assert len(started) == 2
    started[0].kill()
    error = recorder.failure(8)
    assert (error.problem, error.problem_class) == ("a client process ended", "resources")
    assert len(server.asked) == 3


def test_another_model_behind_the_address_is_refused_before_the_run(load: Ask, serve: Serve) -> None:
    with pytest.raises(HarnessError, match=f"the server serves another-model, not {MODEL}"):
        load(serve("wrong model"), options={"model": MODEL})
    with pytest.raises(HarnessError, match="serves another-model, not"):
        load(serve(), serve("wrong model"))


def test_address_of_something_else_is_refused(load: Ask, serve: Serve) -> None:
    with pytest.raises(HarnessError, match="/v1/models does not follow the OpenAI protocol"):
        load(serve("no protocol"))
    with pytest.raises(HarnessError, match="is not a server address"):
        load(options={"url": "localhost:8000"})
    with pytest.raises(HarnessError, match="no server is declared"):
        load(options={"url": ""})


def test_a_gone_server_is_named(tmp_path: Path, load: Ask, serve: Serve, recorder: Recorder) -> None:
    (tmp_path / "log.start").write_text("loading weights\nCUDA out of memory\n")
    with Server() as server:
        client = load(server, service_log=str(tmp_path))
    client.submit(1, 0)
    error = recorder.failure()
    assert "the server does not answer" in error.problem
    assert error.problem.endswith("the server's last output:\nloading weights\nCUDA out of memory")
    assert error.problem_class == "resources"


def test_key_is_sent_and_never_reported(
    load: Ask, serve: Serve, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    client = load(serve(), options={"api_key_env": "SERVER_KEY"})
    client.submit(1, 0)
    assert recorder.wait(1) == {1: expected(0)}
    assert KEY not in str(client.notes)
    (tmp_path / "log.start").write_text(f"refused {KEY}\n")
    with pytest.raises(HarnessError, match="the server rejected the API key") as caught:
        load(serve("expired"), options={"api_key_env": "SERVER_KEY"}, service_log=str(tmp_path))
    assert caught.value.problem.endswith("refused [key]")
    assert "SERVER_KEY" not in caught.value.problem
    monkeypatch.delenv("SERVER_KEY")
    with pytest.raises(HarnessError, match="SERVER_KEY for the API key is not set"):
        load(serve(), options={"api_key_env": "SERVER_KEY"})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder with a tokenizer that knows the numbers which the server says."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"?": 0, **{str(number): number for number in range(1, 100)}}, unk_token="?")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize("protocol", ["completions", "chat"])
@pytest.mark.parametrize("streaming", [True, False])
def test_text_is_made_of_tokens_and_tokens_of_text(
    protocol: str, streaming: bool, checkpoint: Path, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    server = serve()
    options = {"token_ids": False, "protocol": protocol}
    client = load(server, source=checkpoint, streaming=streaming, options=options)
    client.submit(1, 2)
    assert recorder.wait(1) == {1: expected(2)}
    (asked,) = server.asked
    prompt = asked["messages"][0]["content"] if protocol == "chat" else asked["prompt"]
    assert prompt == "30 3 5"
    assert client.notes["tokenizer_seconds"] > 0


@pytest.mark.parametrize(("mischief", "processes"), [("shares", 2), ("shares in a tree", 1)])
def test_a_server_that_shares_what_it_computed_is_refused_unless_declared(
    mischief: str, processes: int, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    """As vLLM and SGLang do unless they are asked not to, and say of themselves."""
    server, options = serve(mischief), {"client_processes": processes}
    with pytest.raises(HarnessError, match="caches prompt prefixes") as caught:
        load(server, options=options)
    assert caught.value.problem_class == "input"
    assert server.asked == []
    load(server, options={**options, "prefix_caching": True}).submit(1, 0)
    assert recorder.wait(1) == {1: expected(0)}


@pytest.mark.parametrize("streaming", [True, False])
def test_an_answer_that_took_from_another_prompt_fails_the_run(
    streaming: bool, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    load(serve("takes from others"), streaming=streaming).submit(1, 0)
    assert "the server reused 2 cached prompt tokens" in recorder.failure().problem


def test_where_no_one_reads_tokens_the_server_counts_them(
    checkpoint: Path, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    client = load(serve(), source=checkpoint, logged=False, options={"token_ids": False})
    client.submit(1, 2)
    assert recorder.wait(1) == {1: TOKENS}
    assert client.notes["tokenizer_seconds"] == 0


@pytest.mark.parametrize("streaming", [True, False])
def test_messages_are_sent_as_they_are_and_answered_with_a_text(
    streaming: bool, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    server = serve()
    client = load(server, streaming=streaming, samples=MESSAGES)  # whatever the protocol, and without a tokenizer
    messages = [{"role": "user", "content": "30 é"}]
    client.place([np.frombuffer(json.dumps(messages).encode(), np.uint8)])
    client.submit(1, 0)
    assert recorder.wait(1) == {1: Spoken(" 30 31 32 33", TOKENS)}
    assert recorder.firsts == ({1: [0]} if streaming else {})
    (asked,) = server.asked
    assert asked["messages"] == messages
    assert (asked["model"], asked["max_tokens"]) == (MODEL, TOKENS)
    assert "prompt" not in asked


def test_a_text_without_a_count_is_refused(load: Ask, serve: Serve, recorder: Recorder) -> None:
    client = load(serve("uncounted"), streaming=False, samples=MESSAGES)
    client.place([np.frombuffer(b'[{"role": "user", "content": "30"}]', np.uint8)])
    client.submit(1, 0)
    assert "does not report the number of tokens of an answer" in recorder.failure().problem


ABILITIES = {
    # its words, where it has any → token_ids, prompt_ids, min_tokens; fields that each request then has or lacks
    "": (True, True, "read", {"return_token_ids": True, "min_tokens": 2}),
    "strict": (True, True, "read", {"detokenize": False, "return_token_ids": None}),
    "text": (False, True, "read", {"min_tokens": 2}),
    "text only": (False, False, "ignored", {"return_token_ids": None}),
    "ignores": (True, True, "ignored", {"return_token_ids": True}),
    "closes": (True, True, "read", {"return_token_ids": True}),
    "picky": (False, False, "refused", {"return_token_ids": None, "detokenize": None, "min_tokens": None}),
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("mischief", ABILITIES)
def test_a_server_shows_what_it_can(
    mischief: str, streaming: bool, checkpoint: Path, load: Ask, serve: Serve, recorder: Recorder
) -> None:
    server = serve(mischief)
    sampling = Sampling(max_new_tokens=TOKENS, min_new_tokens=2)
    client = load(server, source=checkpoint, streaming=streaming, sampling=sampling, options={"token_ids": None})
    tried = len(server.asked)
    client.submit(1, 2)
    assert recorder.wait(1) == {1: expected(2)}
    token_ids, prompt_ids, least, fields = ABILITIES[mischief]
    found = {"token_ids": token_ids, "prompt_ids": prompt_ids, "usage": True, "min_tokens": least}
    assert {name: client.notes[name] for name in found} == found
    (asked,) = server.asked[tried:]
    assert asked["prompt"] == ([30, 3, 5] if prompt_ids else "30 3 5")
    assert {name: asked.get(name) for name in fields} == fields


@pytest.mark.parametrize("mischief", ["error", "breaks", "no usage of it"])
def test_a_server_that_shows_nothing_is_asked_as_before(mischief: str, load: Ask, serve: Serve) -> None:
    """What is wrong with it, the run says."""
    client = load(serve(mischief), options={"token_ids": None})
    assert client.notes["token_ids"] is True


def test_a_server_may_add_the_revision(load: Ask, serve: Serve, recorder: Recorder) -> None:
    """As `transformers serve` does."""
    load(serve("revision")).submit(1, 0)
    assert recorder.wait(1) == {1: expected(0)}
