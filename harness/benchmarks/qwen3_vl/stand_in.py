"""A server of the chat protocol for rehearsals: ``python -m harness.benchmarks.qwen3_vl.stand_in MODEL PORT``.

It answers with the small network that a rehearsal wrote into the folder MODEL, one question at a time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from aiohttp import web

from harness.benchmarks.qwen3_vl.network import CatalogueNetwork

_MOST = 64 << 20  # bytes of a question
_PIECE = 4  # letters of a token


class StubServer:
    """Descriptions of itself and of products."""

    def __init__(self, network: CatalogueNetwork) -> None:
        self._network = network

    def make_application(self) -> web.Application:
        application = web.Application(client_max_size=_MOST)
        application.router.add_get("/health", self.answer_health)
        application.router.add_get("/v1/models", self.list_models)
        application.router.add_post("/v1/chat/completions", self.answer)
        return application

    async def answer_health(self, _request: web.Request) -> web.Response:
        return web.json_response({})

    async def list_models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": self._network.name}]})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        if asked.get("model") != self._network.name:
            return web.json_response({"error": f"no model {asked.get('model')}"}, status=404)
        text = json.dumps(self._network.answer(asked["messages"]))
        pieces = [text[place : place + _PIECE] for place in range(0, len(text), _PIECE)]
        if asked.get("stream"):
            return await self._stream(request, pieces)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return web.json_response(self._describe([choice], len(pieces)))

    async def _stream(self, request: web.Request, pieces: list[str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, piece in enumerate(pieces, 1):
            reason = "stop" if number == len(pieces) else None
            await _write(response, self._describe([{"index": 0, "delta": {"content": piece}, "finish_reason": reason}]))
        await _write(response, self._describe([], len(pieces)))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _describe(self, choices: list[dict[str, Any]], tokens: int = 0) -> dict[str, Any]:
        usage = {"usage": {"completion_tokens": tokens}} if tokens else {}
        return {"object": "chat.completion", "model": self._network.name, "choices": choices, **usage}


async def _write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def main(model: str, port: str) -> None:
    network = CatalogueNetwork(Path(model))
    web.run_app(StubServer(network).make_application(), host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
