"""What viewers of a live view are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from reconciler.page.server import LiveFeed, encode_event


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    return await asyncio.wait_for(anext(stream), 10)


def test_all_viewers_share_one_reader_and_see_each_change() -> None:
    shown = ["first", "second", "second", "third"]
    reads = 0

    def read() -> tuple[str, float]:
        nonlocal reads
        reads += 1
        return shown[min(reads, len(shown)) - 1], 0.02

    async def watch() -> list[list[bytes]]:
        feed = LiveFeed(read)
        streams = [feed.follow() for _ in range(5)]
        seen: list[list[bytes]] = []
        for stream in streams:
            assert (await _next(stream)).startswith(b"retry: ")
        for stream in streams:
            got = [await _next(stream)]
            while got[-1] != encode_event("third"):
                got.append(await _next(stream))
            seen.append(got)
        assert feed.viewers == 5
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        assert feed.viewers == 0
        return seen

    for got in asyncio.run(watch()):
        assert len(got) == len(set(got)), "what did not change is not sent again"
    assert reads < 5 * len(shown), "one reader for all"


def test_nothing_is_read_without_a_viewer() -> None:
    reads = 0

    def read() -> tuple[str, float]:
        nonlocal reads
        reads += 1
        return f"read {reads}", 0.01

    async def watch() -> None:
        feed = LiveFeed(read)
        stream = feed.follow()
        await _next(stream)
        await _next(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        before = reads
        await asyncio.sleep(0.2)
        assert reads == before
        again = feed.follow()
        await _next(again)
        assert (await _next(again)) != encode_event("read 1"), "nothing old is shown"
        await again.aclose()  # type: ignore[attr-defined]

    asyncio.run(watch())


def test_an_event_holds_every_line_of_a_text() -> None:
    assert encode_event("a\nb\rc") == b"data: a\ndata: b\ndata: c\n\n"
