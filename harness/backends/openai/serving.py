"""Which servers are asked, for which model, with which key and time limits; what they can, and what a failure of one is
called."""

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

from harness.backends.openai.answers import Event, decode_event, read_events
from harness.catalog import OpenaiRunOptions
from harness.contract import LOG_PARTS
from harness.errors import HarnessError, ProblemClass
from harness.run.tokens import MESSAGES, GenerationPlan, read_extra

_LINES, _END = 8, 4096  # of a server's output that a failure shows; bytes that are read for it
_LAST_WORDS = 2.0  # seconds at most, once, until a dying server's last lines have passed its keeper
_STILL = 0.3  # seconds without a further line after which there are no more
_SAID = 300  # characters of a server's own message
_HIDDEN = "[key]"
_IDS_WANTED = "return_token_ids"
_TEXT = frozenset({"str", "string", "text"})  # of what a server wants as prompt, where it got numbers
# Fields of a request that are outside the protocol, and that a server may not know.
_FIELDS = (
    *("min_tokens", "stop_token_ids", "ignore_eos", "top_k", "min_p", "stream_options", "include_stop_str_in_output"),
    *("repetition_penalty", "seed", "stop", "detokenize"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """``urls``: one for each replica, without a closing slash. ``model``: "" for the only one that is served.
    ``token_ids``: answers have them; ``prompt_ids``: prompts are sent as such although answers are texts; ``probed``:
    neither is declared, so that the server shows it. ``fields``: of each request, as this server wants them.
    ``timeout``: seconds that an answer may take in all, ``idle``: between two pieces of one. ``shares``: what was
    computed of a prompt may serve others that begin alike."""

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
        """Without the key: servers like to repeat it."""
        return text.replace(self.key, _HIDDEN) if self.key else text

    def explain(self, url: str, problem: str, fix: str, kind: ProblemClass = "backend") -> HarnessError:
        """A failure of one replica, with what the server printed last where this pass started it."""
        said = self._last_lines()
        text = f"{url}: {problem}" + (f"; the server's last lines:\n{said}" if said else "")
        return HarnessError(self.hide(text), kind, fix)

    def refuse_status(self, url: str, status: int, said: str) -> HarnessError:
        """Raise the error that an HTTP status other than 200 means."""
        if status in (401, 403):  # its words may repeat the key
            fix = "renew the key in the variable that run.options.api_key_env names"
            return self.explain(url, f"the server refuses the API key (HTTP {status})", fix, "input")
        quoted = f": {' '.join(said.split())[:_SAID]}" if said.strip() else ""
        text_only = "see what it refuses; run.options.token_ids: false for a server that takes text only"
        fixes = {
            400: text_only,
            422: text_only,
            404: "check run.options.url and model: the server has no such address or model",
            429: "lower run.options.concurrency: the server admits fewer requests",
        }
        fix = self._find_setting(said) or fixes.get(status, "see the server's log")
        return self.explain(url, f"HTTP {status}{quoted}", fix, "resources" if status in (429, 503) else "backend")

    def _find_setting(self, said: str) -> str:
        """The option behind a field of the request that the server names; "" when it names none."""
        words = set(re.findall(r"[A-Za-z_]+", said))
        if own := next((name for name in self.extra if name in words), ""):
            return f"correct {own} in run.options.extra, or take it out"
        if _IDS_WANTED in words:
            return (
                f"set run.options.extra: '{{\"{_IDS_WANTED}\": null}}' for a server that gives token ids without it, "
                "and run.options.token_ids: false for one that gives text only"
            )
        if "prompt" in words and not _TEXT.isdisjoint(words) and (self.token_ids or self.prompt_ids):
            return "set run.options.token_ids: false, and leave prompt_ids out: the server takes text only"
        if named := next((name for name in _FIELDS if name in words), ""):
            return f"set run.options.extra: '{{\"{named}\": null}}', which leaves {named} out of the request"
        return ""

    def _last_lines(self) -> str:
        _await_last_words(self.log)
        for name in reversed(LOG_PARTS):
            path = Path(self.log) / name
            if self.log and path.is_file() and path.stat().st_size:
                data = path.read_bytes()[-_END:]
                return "\n".join(data.decode(errors="replace").splitlines()[-_LINES:])
        return ""


@cache
def _await_last_words(log: str) -> None:
    """A connection ends before what its server printed last has come through the process that keeps its log. Once for
    all requests that fail with it."""
    end = time.monotonic() + _LAST_WORDS
    last, since = [-1], time.monotonic()
    while log and time.monotonic() < min(end, since + _STILL):
        with suppress(FileNotFoundError):  # its parts take turns
            sizes = [entry.stat().st_size for entry in Path(log).iterdir()]
            if sizes != last:
                last, since = sizes, time.monotonic()
        time.sleep(_STILL / 10)


def find_server(plan: GenerationPlan) -> Server:
    """From the options of a run. Raises HarnessError for what cannot be meant. Messages are those of a chat, whatever
    the protocol that is declared."""
    options = OpenaiRunOptions(plan.options)
    chat = options.protocol == "chat" or plan.samples == MESSAGES
    urls = options.url or plan.service_url
    if not urls:
        fix = "name it as run.options.url, or let harness.service start one"
        raise HarnessError("no server is declared", "input", fix)
    addresses = tuple(url.strip().rstrip("/").removesuffix("/v1") for url in urls.split(",") if url.strip())
    if wrong := [url for url in addresses if not url.startswith(("http://", "https://"))]:
        raise HarnessError(f"{wrong[0]} is not the address of a server", "input", "write http://HOST:PORT")
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
        problem = f"the environment variable {variable}, which holds the API key, is not set"
        raise HarnessError(problem, "missing", f"export {variable}, then run again")
    return key


# What a server can, which it shows with requests of two tokens before the run: prompts and answers as token ids, the
# count of an answer's tokens, min_tokens.

_PROMPT = (1, 2, 3)  # token ids that every vocabulary has
_SHORT = 2  # tokens of an answer
_TRIES = 4
_REFUSED = (400, 422)
# Fields without which an answer is the same: one that a server refuses is left out. The run checks the least length.
_OPTIONAL = (_IDS_WANTED, "detokenize", "stream_options", "min_tokens")

Post = Callable[[Mapping[str, Any]], Awaitable[tuple[int, bytes]]]


async def probe(server: Server, usual: Mapping[str, Any], post: Post) -> tuple[Server, dict[str, Any]]:
    """The server as it can be asked, and what it showed. ``usual``: fields of each request but what is asked.

    A server that fails, or refuses more than form, is left as it is: the run meets the same, and says so."""
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
            if _IDS_WANTED in named:  # trtllm-serve gives them for this one
                fields["detokenize"] = False
        elif status in _REFUSED and ids:
            ids, fields["detokenize"] = False, None
        else:
            return server, {}
    else:
        return server, {}
    events = _read(data)
    answers_ids = any(choice.token_ids is not None for event in events for choice in event.choices)
    if not answers_ids and "detokenize" in fields:
        fields["detokenize"] = None
    counted = any(event.usage is not None and event.usage.completion_tokens for event in events)
    found: dict[str, Any] = {"token_ids": answers_ids, "prompt_ids": ids, "usage": counted}
    if least:
        found["min_tokens"] = "refused"
    if least and "min_tokens" not in fields:  # who reads it refuses a least length above the most
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


def _read(data: bytes) -> list[Event]:
    """A stream, or one document."""
    return [decode_event(data)] if data.lstrip().startswith(b"{") else read_events(data)[0]
