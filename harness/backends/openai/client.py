"""Send prompts and read answers, on one thread; each prompt goes to the replica with the fewest in flight."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from harness.backends.loop_thread import LoopThread
from harness.backends.openai.serving import Server, probe
from harness.backends.openai.wire import Answer, Limits, SilentError, StatusError, UnreachableError, Wires, decode_event
from harness.errors import HarnessError
from harness.run.tokens import MESSAGES, GenerationPlan, Sampling, Spoken, StopSequence, Tokenized

_CONNECT = 30.0  # seconds
_LOOKING = 30.0  # seconds that a server has to list its models
_MOST = 1 << 20  # tokens after which an answer of unlimited length counts as endless
_LLAMA, _SGLANG = "/props", "/get_server_info"
_VERSIONS = {  # paths of servers' versions: vLLM and trtllm-serve
    "/version": "version",
    _LLAMA: "build_info",
    _SGLANG: "version",
}
_MOST_EVENTS = 256  # limit for the answer to a probe, which requests a few tokens
_SHARED = re.compile(r'^vllm:cache_config_info\{.*enable_prefix_caching="True"', re.MULTILINE)
_ALL = -1  # value of top_k that allows all tokens
_ENDED = ("stop", "length")  # with any other reason the server gave up
_UNSHARE = (
    "start it with --no-enable-prefix-caching (vLLM), --disable-radix-cache (SGLang) or enable_block_reuse: false "
    "(trtllm-serve); in the open division run.options.prefix_caching: true allows it"
)
_FIX = "see the server's log; the next pass starts or queries it again"


@dataclass(slots=True)
class _Prompts:
    """Prompts in memory, as request bodies ready to be sent. ``head`` and ``tail`` enclose each of them."""

    bodies: Sequence[bytes | memoryview] = ()
    head: bytes = b""
    tail: bytes = b""
    stops: Sequence[int] = ()

    def make_body(self, row: int) -> bytes:
        return b"".join((self.head, self.bodies[row], self.tail))


class Client:
    """A generator. Methods run on its own thread, unless noted."""

    def __init__(self, plan: GenerationPlan, server: Server) -> None:
        self._plan, self._server = plan, server
        self._whole = plan.samples == MESSAGES  # messages and text answers, without tokens
        self._texts: Texts | None = None
        limits = Limits(plan.sampling.max_new_tokens or _MOST, server.timeout, server.idle, _CONNECT)
        self._replicas = [Wires(url, server.path, server.headers, limits) for url in server.urls]
        self._prompts = _Prompts()
        self._waiting: deque[tuple[int, int]] = deque()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failure: HarnessError | None = None
        self._loop = LoopThread("openai")
        self._session: aiohttp.ClientSession = self._loop.call(self._open())
        try:
            self._model, versions = self._loop.call(self._find_model())
            shown = self._loop.call(self._probe()) if server.probed else {}
            if not (self._server.token_ids or self._whole):
                self._texts = load_texts(plan)
        except BaseException:
            self.close()
            raise
        # The tokenizer's share grows during the run; its final value is recorded.
        said = {"replicas": len(self._replicas), "model": self._model, "token_ids": self._server.token_ids, **shown}
        self.notes: dict[str, Any] = {**said, "tokenizer_seconds": 0.0} if self._texts else said
        self.evidence: Mapping[str, Any] = {"server.version": ", ".join(sorted({*versions} - {""}))}

    # Methods called on the caller's thread.

    def place(self, prompts: Sequence[np.ndarray], stops: Sequence[int] = ()) -> None:
        if self._whole:  # images make them large, so they are stored only once
            bodies = [prompt.data for prompt in prompts]
            self._prompts = _Prompts(bodies, self._write({})[:-1] + b', "messages": ', b"}")
        else:
            find = self._plan.sampling.find_stop_sequence
            known = [find(number) for number in stops] or [None] * len(prompts)
            asked = [self._make_body(prompt, stop) for prompt, stop in zip(prompts, known, strict=True)]
            self._prompts = _Prompts(asked, stops=stops)

    def submit(self, identity: int, row: int) -> None:
        self._loop.post(self._admit, identity, row)

    def stop(self, error: HarnessError) -> None:
        """End requests in flight, and those still to be submitted, with an error that occurred elsewhere."""
        self._loop.post(self._stop, error)

    def close(self) -> None:
        self._loop.call(self._shut())
        self._loop.stop()

    def _describe_parameters(self) -> dict[str, Any]:
        said: dict[str, Any] = {"model": self._model, **describe_sampling(self._plan.sampling)}
        if self._plan.streaming:
            said |= {"stream": True, "stream_options": {"include_usage": True}}
        return said

    def _make_body(self, prompt: np.ndarray, stop: StopSequence | None) -> bytes:
        tokens = [int(token) for token in prompt]
        ends: dict[str, Any] = {"stop": [stop.text]} if stop else {}
        if self._texts is None:
            return self._write({"prompt": tokens, "return_token_ids": True, **ends})
        if stop:  # the stop sequence is part of the answer
            ends["include_stop_str_in_output"] = True
        if self._server.chat:
            return self._write({"messages": [{"role": "user", "content": self._texts.decode(tokens)}], **ends})
        return self._write({"prompt": tokens if self._server.prompt_ids else self._texts.decode(tokens), **ends})

    def _write(self, asked: Mapping[str, Any]) -> bytes:
        """Serialise with the fields of ``extra``, which take precedence; fields that are null there are omitted, since
        trtllm-serve refuses requests with unknown fields."""
        said = {**self._describe_parameters(), **asked, **self._server.fields, **self._server.extra}
        return json.dumps({name: value for name, value in said.items() if value is not None}).encode()

    # Methods on the event loop.

    async def _open(self) -> aiohttp.ClientSession:
        self._watching = asyncio.create_task(self._watch())
        timeout = aiohttp.ClientTimeout(total=self._server.timeout, sock_connect=_CONNECT)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=timeout, headers=self._server.headers
        )

    async def _watch(self) -> None:
        """Find streams that stall or never end."""
        loop, every = asyncio.get_running_loop(), min(1.0, self._server.idle / 4, self._server.timeout / 4)
        while True:
            await asyncio.sleep(every)
            for replica in self._replicas:
                replica.check(loop.time())

    async def _shut(self) -> None:
        self._watching.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for replica in self._replicas:
            replica.close()
        await self._session.close()

    async def _find_model(self) -> tuple[str, list[str]]:
        """Return the name of the model, which every replica must serve, and the versions that the servers report."""
        served, versions = self._server.model, []
        for url in self._server.urls:
            listed = await self._list_models(url)
            if not served and len(listed) == 1:
                served = listed[0]
            if not served:
                problem = f"the server has {len(listed)} models, but run.options.model is not set"
                fix = f"set run.options.model to one of: {', '.join(listed) or 'it serves none'}"
                raise self._server.explain(url, problem, fix, "input")
            if served not in listed:
                problem = f"the server serves {', '.join(listed) or 'nothing'}, not {served}"
                fix = "start it with that model, or fix run.options.model or url"
                raise self._server.explain(url, problem, fix, "input")
            versions.append(await self._read_version(url))
            if not self._server.shares and await self._find_sharing(url):
                problem = "the server caches prompt prefixes, which the rules forbid"
                raise self._server.explain(url, problem, _UNSHARE, "input")
        return served, versions

    async def _probe(self) -> Mapping[str, Any]:
        """Probe the capabilities of the first replica, since all replicas are the same server. Each request has its own
        connection, because llama.cpp closes one after a stream although it announced keep-alive."""
        url, timeout = self._server.urls[0], aiohttp.ClientTimeout(total=self._server.idle)

        async def post(asked: Mapping[str, Any]) -> tuple[int, bytes]:
            body = json.dumps({name: value for name, value in asked.items() if value is not None})
            data = b""
            async with session.post(url + self._server.path, data=body, timeout=timeout) as response:
                async for piece in response.content.iter_any():
                    data += piece
                    if data.count(b"data:") > _MOST_EVENTS:
                        raise self._server.explain(url, "the stream continues", "see the server's log")
                return response.status, data

        once = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=once, headers=self._server.headers) as session:
            try:
                self._server, found = await probe(self._server, self._describe_parameters(), post)
            except (aiohttp.ClientError, TimeoutError, OSError, HarnessError):
                return {}  # the run meets the same error and reports it
        return found

    async def _find_sharing(self, url: str) -> bool:
        """Find out if the server shares computation: vLLM reports it in its metrics, SGLang in its arguments."""
        if _SHARED.search(await self._read_page(url, "/metrics")):
            return True
        with suppress(ValueError, AttributeError):
            return json.loads(await self._read_page(url, _SGLANG)).get("disable_radix_cache") is False
        return False

    async def _list_models(self, url: str) -> list[str]:
        try:
            status, text = await self._get(url, "/v1/models")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._describe(url, error, _LOOKING) from error
        if status != 200:
            raise self._server.refuse_status(url, status, text)
        try:
            return [str(model["id"]) for model in json.loads(text)["data"]]
        except (ValueError, KeyError, TypeError) as error:
            problem = f"/v1/models does not follow the OpenAI protocol: {text[:80]!r}"
            raise self._server.explain(url, problem, "check run.options.url") from error

    async def _read_version(self, url: str) -> str:
        """Read the version from servers known to report it; "" if this one does not."""
        for path, name in _VERSIONS.items():
            try:
                found = str(json.loads(await self._read_page(url, path))[name])
            except (ValueError, KeyError, TypeError):
                continue
            if path == _LLAMA:  # llama.cpp's setting is sent with each request
                self._server = replace(self._server, fields={"cache_prompt": self._server.shares})
            return found
        return ""

    async def _read_page(self, url: str, path: str) -> str:
        """Read a page that only some servers have; "" if it is missing, which is no failure."""
        try:
            status, text = await self._get(url, path)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return ""
        return text if status == 200 else ""

    async def _get(self, url: str, path: str) -> tuple[int, str]:
        async with self._session.get(url + path, timeout=aiohttp.ClientTimeout(total=_LOOKING)) as response:
            return response.status, await response.text(errors="replace")

    def _admit(self, identity: int, row: int) -> None:
        self._waiting.append((identity, row))
        self._dispatch()

    def _dispatch(self) -> None:
        """Send as many prompts as there is room for; none after a failure."""
        while self._waiting:
            if self._failure is not None:
                identity, _ = self._waiting.popleft()
                self._plan.failed(identity, self._failure)
                continue
            replica = min(self._replicas, key=lambda replica: replica.outstanding)
            if replica.outstanding >= self._server.concurrency:
                return
            identity, row = self._waiting.popleft()
            replica.outstanding += 1
            self._tasks[identity] = asyncio.create_task(self._ask(replica, identity, row))

    async def _ask(self, replica: Wires, identity: int, row: int) -> None:
        try:
            answer = await self._exchange(replica, identity, self._prompts.make_body(row))
            stops = self._prompts.stops
            stop = self._plan.sampling.find_stop_sequence(stops[row]) if stops else None
            result = await self._count(replica.url, answer, stop)
        except asyncio.CancelledError:
            self._plan.failed(identity, self._failure or HarnessError("the run ends", "backend"))
        except StatusError as error:
            self._give_up(identity, self._server.refuse_status(replica.url, error.status, error.said))
        except (aiohttp.ClientError, TimeoutError, OSError, SilentError, UnreachableError) as error:
            self._give_up(identity, self._describe(replica.url, error, self._server.timeout))
        except HarnessError as error:
            if not error.problem.startswith(replica.url):
                error = self._server.explain(replica.url, error.problem, error.fix or _FIX)
            self._give_up(identity, error)
        except Exception as error:  # after any error, the prompt must be answered
            self._give_up(identity, self._server.explain(replica.url, f"{type(error).__name__}: {error}", _FIX))
        else:
            self._plan.completed(identity, result)
        finally:
            replica.outstanding -= 1
            self._tasks.pop(identity, None)
            self._dispatch()

    def _give_up(self, identity: int, error: HarnessError) -> None:
        self._stop(error)
        self._plan.failed(identity, error)

    def _stop(self, error: HarnessError) -> None:
        """Stop after a failure: cancel requests in flight, so that no server computes in vain. This is scheduled, since
        a task that has not started would end silently, and the failing one has finished by then."""
        if self._failure is None:
            self._failure = error
            for task in self._tasks.values():
                asyncio.get_running_loop().call_soon(task.cancel)

    async def _exchange(self, replica: Wires, identity: int, body: bytes) -> Answer:
        if self._plan.streaming:
            answer = await replica.ask(body, partial(self._report_first, identity))
        else:
            answer = Answer().add_all([decode_event(await self._post(replica.url, body))])
        if answer.model not in ("", self._model) and not answer.model.startswith(f"{self._model}@"):  # a revision
            problem = f"the answer is of model {answer.model}, not {self._model}"
            raise self._server.explain(replica.url, problem, "find out why the server's model changed, then run again")
        if answer.cached and not self._server.shares:
            problem = f"the server reused {answer.cached} cached prompt tokens, which the rules forbid"
            raise self._server.explain(replica.url, problem, _UNSHARE, "input")
        if not answer.ended:
            raise self._server.explain(replica.url, "the answer is incomplete", _FIX, "resources")
        if answer.reason not in _ENDED:
            raise self._server.explain(replica.url, f"the server aborted an answer ({answer.reason})", _FIX)
        return answer

    async def _post(self, url: str, body: bytes) -> bytes:
        async with self._session.post(url + self._server.path, data=body) as response:
            if response.status != 200:
                raise StatusError(response.status, await response.text())
            return await response.read()

    def _report_first(self, identity: int, answer: Answer) -> None:
        self._plan.first(identity, answer.tokens[:1] or self._encode_first(answer))

    def _encode_first(self, answer: Answer) -> list[int]:
        """Encode the first token; only an accuracy run reads its id."""
        return self._texts.encode(answer.text)[:1] if self._texts and self._plan.logged else [0]

    async def _count(
        self, url: str, answer: Answer, stop: StopSequence | None
    ) -> Sequence[int] | int | Spoken | Tokenized:
        """Return the tokens of an answer, or only their number if they are not read and the server reports it. For
        messages, return the text with that number."""
        if self._whole:
            if not answer.counted:
                problem = "the server does not report the number of tokens of an answer"
                raise self._server.explain(url, problem, "use a server that reports `usage` with an answer", "input")
            return Spoken(answer.text, answer.counted)
        if self._texts is None:
            if answer.text and not answer.tokens:
                fix = "set run.options.token_ids: false, to send text and count with the model's tokenizer"
                raise self._server.explain(url, "the server returns text, not token ids", fix, "input")
            return stop.cut(answer.tokens) if stop else answer.tokens
        if answer.counted and not self._plan.logged:
            return answer.counted
        tokens = await asyncio.get_running_loop().run_in_executor(None, self._texts.encode, answer.text)
        self.notes["tokenizer_seconds"] = round(self._texts.seconds, 6)
        return tokens if answer.counted in (0, len(tokens)) else Tokenized(tokens, answer.counted)

    def _describe(self, url: str, error: BaseException, limit: float) -> HarnessError:
        """Describe a broken or stalled connection."""
        fix = _FIX
        if isinstance(error, SilentError) and error.between:
            problem = f"no new token for {self._server.idle:g} s"
            fix = "check why the server stalls; raise run.options.idle_timeout_s for a slow server"
        elif isinstance(error, UnreachableError | aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            problem = f"the server does not answer ({error})"
        elif isinstance(error, TimeoutError | SilentError):
            problem = f"an answer took longer than {limit:g} s"
            fix = "check that its stream ends; raise run.options.timeout_s for long answers"
        else:
            problem = f"the connection was lost ({type(error).__name__}: {error})"
        return self._server.explain(url, problem, fix, "resources")


def describe_sampling(sampling: Sampling) -> dict[str, Any]:
    """Describe sampling by the protocol's fields, and those added by vLLM, SGLang and trtllm-serve if they are needed.
    Raises HarnessError for settings without a field. If tokens are drawn, every setting that limits the choice is sent,
    since servers have their own defaults: llama.cpp's are the 40 likeliest and ``min_p`` 0.05."""
    if sampling.beams > 1:
        problem = f"beam search ({sampling.beams} beams) is not part of the OpenAI protocol"
        raise HarnessError(problem, "input", "use the backend openvino-genai, or declare a harness command")
    said: dict[str, Any] = {**sampling.describe_choice()}
    if sampling.temperature:
        said |= {"top_k": max(sampling.top_k, 0) or _ALL, "min_p": 0.0}
    if sampling.max_new_tokens:
        said["max_tokens"] = sampling.max_new_tokens
    if sampling.min_new_tokens > 1:
        said["min_tokens"] = sampling.min_new_tokens
    if sampling.stop:
        said["stop_token_ids"] = list(sampling.stop)
    return said


_FILE = "tokenizer.json"


@dataclass(slots=True)
class Texts:
    """The model's tokenizer. ``seconds``: its time for answers, which is not spent on the timed thread."""

    tokenizer: Any
    seconds: float = 0.0

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode with special tokens, since the server is requested to add none."""
        found: str = self.tokenizer.decode(list(tokens), skip_special_tokens=False)
        return found

    def encode(self, text: str) -> list[int]:
        began = time.perf_counter()
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        self.seconds += time.perf_counter() - began
        return found


def load_texts(plan: GenerationPlan) -> Texts:
    """Load the tokenizer of the spec's model. Raises HarnessError if it has none."""
    from tokenizers import Tokenizer  # not needed for servers that accept token ids

    for folder in (plan.source, plan.model):
        path = folder / _FILE if folder is not None else Path(_FILE)
        if folder is not None and path.is_file():
            return Texts(Tokenizer.from_file(str(path)))
    fix = "set model.path to the checkpoint's folder, or set run.options.token_ids: true if the server accepts ids"
    raise HarnessError(f"no {_FILE} found to convert token ids to text", "missing", fix)
