"""A proxy in front of a server that speaks OpenAI's protocol and bends its answers, as the file next to it says:
``python -m tests.passes.bending_proxy UPSTREAM PORT FILE``.

The file is read anew for each request. Without it, or empty: everything is handed on as it comes.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, web

_KEPT = ("authorization", "content-type")
_END = b"\n\n"  # of an event


class Proxy:
    def __init__(self, upstream: str, file: Path) -> None:
        self._upstream, self._file = upstream, file

    async def relay(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
        mischief = self._file.read_text(encoding="ascii").strip() if self._file.exists() else ""
        async with (
            ClientSession(timeout=ClientTimeout(total=None)) as session,
            session.request(
                request.method, self._upstream + request.path_qs, data=await request.read(), headers=headers
            ) as answer,
        ):
            kind, body = answer.headers.get("Content-Type", "text/plain"), await answer.read()
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
            if mischief == "another model" and request.path == "/v1/models":
                body = body.replace(b'"tiny"', b'"another-model"')
            await response.prepare(request)
            if answer.status == 200 and "event-stream" in kind:
                await self._bend(response, [event for event in body.split(_END) if event.strip()], mischief)
            else:
                await response.write(body)
            await response.write_eof()
            return response

    async def _bend(self, response: web.StreamResponse, events: list[bytes], mischief: str) -> None:
        tokens = [event for event in events if b'"choices":[{' in event]
        others = events[events.index(tokens[-1]) + 1 :]
        if mischief == "few":
            tokens = tokens[-1:]
        if mischief == "twice":
            others = [*tokens, *others]
        if mischief == "stalls":
            await response.write(tokens[0] + _END)
            await asyncio.sleep(3600)
        while mischief == "endless":
            await response.write(tokens[0] + _END)
            await asyncio.sleep(0.01)
        await response.write(_END.join([*tokens, *others]) + _END)


def main(upstream: str, port: str, file: str) -> None:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", Proxy(upstream, Path(file)).relay)
    web.run_app(application, host="127.0.0.1", port=int(port), print=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
