"""A server with the chat protocol for rehearsals: ``python -m harness.benchmarks.qwen3_vl.stand_in MODEL PORT``.

It answers as described by the folder MODEL of a rehearsal, one prompt at a time.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import sys
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image

_MOST = 64 << 20  # maximum bytes of a prompt
_PIECE = 4  # letters per token


def make_application(model: StandIn) -> web.Application:
    """Make a server that describes itself and products."""

    async def answer_health(_request: web.Request) -> web.Response:
        return web.json_response({})

    async def list_models(_request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": model.name}]})

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        if asked.get("model") != model.name:
            return web.json_response({"error": f"no model {asked.get('model')}"}, status=404)
        text = json.dumps(model.answer(asked["messages"]))
        pieces = [text[place : place + _PIECE] for place in range(0, len(text), _PIECE)]
        if asked.get("stream"):
            return await stream(request, pieces)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return web.json_response(describe([choice], len(pieces)))

    async def stream(request: web.Request, pieces: list[str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, piece in enumerate(pieces, 1):
            reason = "stop" if number == len(pieces) else None
            await _write(response, describe([{"index": 0, "delta": {"content": piece}, "finish_reason": reason}]))
        await _write(response, describe([], len(pieces)))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def describe(choices: list[dict[str, Any]], tokens: int = 0) -> dict[str, Any]:
        usage = {"usage": {"completion_tokens": tokens}} if tokens else {}
        return {"object": "chat.completion", "model": model.name, "choices": choices, **usage}

    application = web.Application(client_max_size=_MOST)
    application.router.add_get("/health", answer_health)
    application.router.add_get("/v1/models", list_models)
    application.router.add_post("/v1/chat/completions", answer)
    return application


async def _write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


# The model of a rehearsal. Its answers depend on every part of the prompt: another picture or another product's text
# changes them.

CONFIG = "config.json"
_TEXTS = re.compile(r"```(?:text|json)\n(.*?)\n```", re.DOTALL)


class StandIn:
    """Chooses by a checksum of the texts, and by the brightest quarter of the picture. Raises OSError if ``folder``
    does not describe the model."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        self.name, self._seed = str(facts["name"]), facts["seed"]

    def answer(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Answer about the product in the messages."""
        text, picture = messages[-1]["content"]
        title, description, listed = _TEXTS.findall(text["text"])
        categories, words = ast.literal_eval(listed), title.split()
        number = zlib.crc32(f"{self._seed}\n{title}\n{description}".encode())
        number += _find_brightest_quarter(picture["image_url"]["url"])
        return {
            "category": categories[number % len(categories)],
            "brand": words[number % len(words)],
            "is_secondhand": number % 2 == 1,
        }


def _find_brightest_quarter(address: str) -> int:
    data = base64.b64decode(address.partition("base64,")[2], validate=True)
    quarters = Image.open(BytesIO(data)).convert("L").resize((2, 2), Image.Resampling.BOX).tobytes()
    return quarters.index(max(quarters))


def main(model: str, port: str) -> None:
    application = make_application(StandIn(Path(model)))
    web.run_app(application, host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
