"""The servers of a run, with their model, key and time limits; their capabilities, and the explanations of their
failures."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.backends.openai.wire import decode_event, read_events
from harness.catalog import OpenaiRunOptions
from harness.contract import LOG_PARTS
from harness.errors import HarnessError, ProblemClass
from harness.run.tokens import MESSAGES, GenerationPlan, read_extra

_LINES, _END = 8, 4096  # lines of a server's output shown with a failure; bytes read for them
_LAST_WORDS = 2.0  # maximum seconds, once, for a dying server's last lines to reach its log
_STILL = 0.3  # seconds without a new line after which the output counts as complete
_SAID = 300  # characters of a server's own message
_HIDDEN = "[key]"
_IDS_WANTED = "return_token_ids"
_TEXT = frozenset({"str", "string", "text"})  # prompt types that a server reports as required if it received numbers
# Request fields outside the protocol, which a server may not know.
_FIELDS = (
    *("min_tokens", "stop_token_ids", "ignore_eos", "top_k", "min_p", "stream_options", "include_stop_str_in_output"),
    *("repetition_penalty", "seed", "stop", "detokenize"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """``urls``: one per replica, without a trailing slash. ``model``: "" for the only one served. ``token_ids``:
    answers contain token ids; ``prompt_ids``: prompts are sent as token ids although answers are texts; ``probed``:
    neither is declared, so a probe decides. ``fields``: those of each request, in the form that this server requires.
    ``timeout``: maximum seconds for an answer, ``idle``: between two pieces of one. ``shares``: computation for a
    prompt may be reused for others with the same prefix."""

    urls: tuple[str, ...]
    model: str
    key: str
    chat: bool
    token_ids: bool
    prompt_ids: bool
    probed: bool
    concurrency: int
    timeout: float
    idle: float
    shares: bool
    extra: Mapping[str, Any]
    log: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    @property
    def headers(self) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json", **own}

    def hide(self, text: str) -> str:
        """Remove the key, which servers may repeat."""
        return text.replace(self.key, _HIDDEN) if self.key else text

    def explain(self, url: str, problem: str, fix: str, kind: ProblemClass = "backend") -> HarnessError:
        """Describe a failure of one replica, with the server's last output if this pass started it."""
        said = self._read_last_lines()
        text = f"{url}: {problem}" + (f"; the server's last output:\n{said}" if said else "")
        return HarnessError(self.hide(text), kind, fix)

    def refuse_status(self, url: str, status: int, said: str) -> HarnessError:
        """Describe an HTTP status other than 200."""
        if status in (401, 403):  # the server's text may repeat the key
            fix = "renew the key in the variable set as run.options.api_key_env"
            return self.explain(url, f"the server rejected the API key (HTTP {status})", fix, "input")
        quoted = f": {' '.join(said.split())[:_SAID]}" if said.strip() else ""
        text_only = "see the reason; set run.options.token_ids: false for a server that accepts only text"
        fixes = {
            **dict.fromkeys(_REFUSED, text_only),
            404: "check run.options.url and model: no such address or model on the server",
            429: "lower run.options.concurrency: the server accepts fewer requests",
        }
        fix = self._find_setting(said) or fixes.get(status, "see the server's log")
        return self.explain(url, f"HTTP {status}{quoted}", fix, "resources" if status in (429, 503) else "backend")

    def _find_setting(self, said: str) -> str:
        """Find the option for the request field mentioned by the server; "" if it mentions none."""
        words = set(re.findall(r"[A-Za-z_]+", said))
        if own := next((name for name in self.extra if name in words), ""):
            return f"fix or remove {own} in run.options.extra"
        if _IDS_WANTED in words:
            return (
                f"set run.options.extra: '{{\"{_IDS_WANTED}\": null}}' for a server that returns token ids without "
                "it, or run.options.token_ids: false for a text-only server"
            )
        if "prompt" in words and not _TEXT.isdisjoint(words) and (self.token_ids or self.prompt_ids):
            return "set run.options.token_ids: false, and remove prompt_ids: the server accepts only text"
        if named := next((name for name in _FIELDS if name in words), ""):
            return f"set run.options.extra: '{{\"{named}\": null}}', to omit {named} from the request"
        return ""

    def _read_last_lines(self) -> str:
        _wait_for_last_output(self.log)
        for name in reversed(LOG_PARTS):
            path = Path(self.log) / name
            if self.log and path.is_file() and path.stat().st_size:
                data = path.read_bytes()[-_END:]
                return "\n".join(data.decode(errors="replace").splitlines()[-_LINES:])
        return ""


@cache
def _wait_for_last_output(log: str) -> None:
    """Wait for a dying server's last output, which reaches its log after the connection ends; once for all failed
    requests."""
    end = time.monotonic() + _LAST_WORDS
    last, since = [-1], time.monotonic()
    while log and time.monotonic() < min(end, since + _STILL):
        with suppress(FileNotFoundError):  # the log's parts alternate
            sizes = [entry.stat().st_size for entry in Path(log).iterdir()]
            if sizes != last:
                last, since = sizes, time.monotonic()
        time.sleep(_STILL / 10)


def find_server(plan: GenerationPlan) -> Server:
    """Determine the server from a run's options. Raises HarnessError for invalid ones. Messages always use the chat
    protocol, whatever is declared."""
    options = OpenaiRunOptions(plan.options)
    chat = options.protocol == "chat" or plan.samples == MESSAGES
    urls = options.url or plan.service_url
    if not urls:
        fix = "set run.options.url, or start one with harness.service"
        raise HarnessError("no server is declared", "input", fix)
    addresses = tuple(url.strip().rstrip("/").removesuffix("/v1") for url in urls.split(",") if url.strip())
    if wrong := [url for url in addresses if not url.startswith(("http://", "https://"))]:
        raise HarnessError(f"{wrong[0]} is not a server address", "input", "write http://HOST:PORT")
    return Server(
        urls=addresses,
        model=options.model,
        key=_read_key(options.api_key_env),
        chat=chat,
        token_ids=options.token_ids and not chat,
        prompt_ids=options.prompt_ids,
        probed=options.given.get("token_ids") is None and not options.prompt_ids and plan.samples != MESSAGES,
        concurrency=options.concurrency,
        timeout=options.timeout_s,
        idle=options.idle_timeout_s,
        shares=options.prefix_caching,
        extra=read_extra(options.extra),
        log=plan.service_log,
    )


def _read_key(variable: str) -> str:
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        problem = f"the environment variable {variable} for the API key is not set"
        raise HarnessError(problem, "missing", f"export {variable}, then run again")
    return key


# Capabilities of a server, probed with requests of two tokens before the run: prompts and answers as token ids, the
# count of an answer's tokens, min_tokens.

_PROMPT = (1, 2, 3)  # token ids that every vocabulary has
_SHORT = 2  # tokens of an answer
_TRIES = 4
_REFUSED = (400, 422)
# These fields do not change answers, so those that a server refuses are omitted. The run checks the minimum length.
_OPTIONAL = (_IDS_WANTED, "detokenize", "stream_options", "min_tokens")

Post = Callable[[Mapping[str, Any]], Awaitable[tuple[int, bytes]]]


async def probe(server: Server, usual: Mapping[str, Any], post: Post) -> tuple[Server, dict[str, Any]]:
    """Return the server with its probed capabilities, and the observations. ``usual``: the fields of each request
    except the prompt.

    A server that fails, or refuses more than fields, is returned unchanged, since the run will meet the same error and
    report it.
    """
    fields: dict[str, Any] = {}
    ids, least = not server.chat, "min_tokens" in usual
    for _ in range(_TRIES):
        asked = {**usual, **_ask(ids=ids, chat=server.chat), **({"min_tokens": 1} if least else {}), **fields}
        status, data = await post({**asked, **server.extra})
        if status == 200:
            break
        words = set(re.findall(r"[A-Za-z_]+", data.decode(errors="replace")))
        named = [name for name in _OPTIONAL if name in words and asked.get(name) is not None]
        if status in _REFUSED and named:
            fields |= dict.fromkeys(named)
            if _IDS_WANTED in named:  # trtllm-serve returns them for this field
                fields["detokenize"] = False
        elif status in _REFUSED and ids:
            ids, fields["detokenize"] = False, None
        else:
            return server, {}
    else:
        return server, {}
    is_document = data.lstrip().startswith(b"{")  # otherwise a stream of events
    events = [decode_event(data)] if is_document else read_events(data)[0]
    answers_ids = any(choice.token_ids is not None for event in events for choice in event.choices)
    if not answers_ids and "detokenize" in fields:
        fields["detokenize"] = None
    counted = any(event.usage is not None and event.usage.completion_tokens for event in events)
    found: dict[str, Any] = {"token_ids": answers_ids, "prompt_ids": ids, "usage": counted}
    if least:
        found["min_tokens"] = "refused"
    if least and "min_tokens" not in fields:  # servers that support it refuse a minimum above the maximum
        status, _ = await post({**asked, "min_tokens": _SHORT + 1, **fields, **server.extra})
        found["min_tokens"] = "ignored" if status == 200 else "read"
    own = {**server.fields, **fields}
    return replace(server, token_ids=answers_ids, prompt_ids=ids, fields=own), found


def _ask(*, ids: bool, chat: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"max_tokens": _SHORT}
    if ids:
        return {**said, "prompt": list(_PROMPT), _IDS_WANTED: True}
    text = " ".join(map(str, _PROMPT))
    return {**said, "messages": [{"role": "user", "content": text}]} if chat else {**said, "prompt": text}
