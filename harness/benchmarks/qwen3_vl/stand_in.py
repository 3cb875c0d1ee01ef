"""A server with the chat protocol for rehearsals: ``python -m harness.benchmarks.qwen3_vl.stand_in MODEL PORT``.

It answers with the small network that a rehearsal wrote to the folder MODEL, one prompt at a time.
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

import numpy as np
from aiohttp import web
from numpy.typing import NDArray
from PIL import Image

_MOST = 64 << 20  # bytes of a prompt
_PIECE = 4  # letters of a token


class StubServer:
    """Serves descriptions of itself and of products."""

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


# A small network that replaces the model in rehearsals. It reads a picture by its patches and texts by their letters,
# and chooses the best of the listed categories, words of the title and conditions.
#
# Its answers depend on every part of the prompt: another picture or another product's text changes them.

WEIGHTS, CONFIG = "weights.npz", "config.json"
SIZES = {"small": 32, "full": 1024}  # values of its input features
_SIDE, _PATCH = 32, 8  # pixels of a picture, and of a patch
_LETTERS = 4096  # number of letter trigrams
_SEEN = 4.0  # weight of a picture relative to a text
_TEXTS = re.compile(r"```(?:text|json)\n(.*?)\n```", re.DOTALL)

Values = NDArray[np.float64]


def write_network(folder: Path, name: str, width: int, rng: np.random.Generator) -> None:
    patches = (_SIDE // _PATCH) ** 2
    shapes = {
        "patches": (patches, 3 * _PATCH**2, width),
        "letters": (_LETTERS, width),
        "mixed": (3 * width, width),
        "brand": (width, width),
        "condition": (width,),
    }
    drawn: dict[str, Any] = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    np.savez(folder / WEIGHTS, **drawn)
    (folder / CONFIG).write_text(json.dumps({"name": name, "hidden_size": width}), encoding="utf-8")


class CatalogueNetwork:
    """The stand-in network in a folder. Raises OSError if there is none."""

    def __init__(self, folder: Path) -> None:
        self.name = str(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["name"])
        with np.load(folder / WEIGHTS) as found:
            self._weights: Mapping[str, Values] = {name: found[name].astype(np.float64) for name in found.files}

    def answer(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Answer about the product in the messages."""
        text, picture = messages[-1]["content"]
        title, description, listed = _TEXTS.findall(text["text"])
        categories = ast.literal_eval(listed)
        seen = np.concatenate([self._see(picture["image_url"]["url"]), self._read(title), self._read(description)])
        state = np.tanh(seen @ self._weights["mixed"] / np.sqrt(len(seen)))
        brands = [self._read(word) @ self._weights["brand"] @ state for word in title.split()]
        return {
            "category": categories[int(np.argmax([self._read(category) @ state for category in categories]))],
            "brand": title.split()[int(np.argmax(brands))],
            "is_secondhand": bool(self._weights["condition"] @ state > 0),
        }

    def _see(self, address: str) -> Values:
        data = base64.b64decode(address.partition("base64,")[2], validate=True)
        image = Image.open(BytesIO(data)).convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BOX)
        count = _SIDE // _PATCH
        cut = np.asarray(image, np.float64).reshape(count, _PATCH, count, _PATCH, 3).swapaxes(1, 2)
        flat = cut.reshape(count**2, -1) / 127.5 - 1
        found: Values = _SEEN * np.einsum("pi,piw->w", flat, self._weights["patches"]) / np.sqrt(flat.size)
        return found

    def _read(self, text: str) -> Values:
        data = f"  {text}  ".encode()
        kinds = [zlib.crc32(data[place : place + 3]) % _LETTERS for place in range(len(data) - 2)]
        found: Values = self._weights["letters"][kinds].sum(0) / np.sqrt(len(kinds))
        return found


def main(model: str, port: str) -> None:
    network = CatalogueNetwork(Path(model))
    web.run_app(StubServer(network).make_application(), host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
