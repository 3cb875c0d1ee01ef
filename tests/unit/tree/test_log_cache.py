"""Logs of answers that were read lately: distinguished by every byte, forgotten again, hashed with all line ends."""

from __future__ import annotations

import hashlib

import pytest

from reconciler.tree.reading import log_cache
from reconciler.tree.reading.log_cache import AnswerCache, CachedAnswers, digest_log

LONG = b"[\n" + b'{ "qsl_idx" : 1, "data" : "00" },\n' * 99 + b"]\n"


def test_a_log_that_was_read_lately_is_the_same_one() -> None:
    logs = AnswerCache()
    assert logs.find(LONG) is logs.find(bytes(bytearray(LONG)))
    assert len(logs.find(LONG).entries) == LONG.count(b"qsl_idx")


@pytest.mark.parametrize("at", [0, len(LONG) // 2, len(LONG) - 1])
def test_logs_that_differ_in_a_byte_are_two(at: int) -> None:
    logs, other = AnswerCache(), LONG[:at] + b"x" + LONG[at + 1 :]
    for data in (LONG, other, LONG):
        assert logs.find(data).data == data
    assert logs.cached_bytes == sum(len(found.data) for found in logs._logs.values())


def test_logs_are_forgotten_once_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cache, "_CACHE_LIMIT", 3 * len(LONG))
    logs = AnswerCache()
    for at in range(9):
        logs.find(b"%d" % at + LONG)
        assert logs.cached_bytes == sum(len(found.data) for found in logs._logs.values()) <= 3 * len(LONG)


@pytest.mark.parametrize("published", [b"[\na\n]\n", b"[\r\na\r\n]\r\n", b"[\r\na\n]\n", b"[\ra\n]"])
def test_a_hash_may_be_of_other_line_ends(published: bytes) -> None:
    plain = published.replace(b"\r\n", b"\n")
    wanted = {hashlib.sha256(data).hexdigest() for data in (published, plain, plain.replace(b"\n", b"\r\n"))}
    assert set(CachedAnswers(published).list_hashes()) == wanted
    assert set(CachedAnswers(published).own_hashes()) == {
        hashlib.sha256(data).hexdigest() for data in (published, plain)
    }


@pytest.mark.parametrize("length", [1, 1 << 13, (1 << 13) + 1, 1 << 14, 99_999])
def test_a_detail_log_is_distinguished_from_others_by_its_length_and_both_ends(length: int) -> None:
    data = bytes(at % 251 for at in range(length))
    assert digest_log(data) == digest_log(bytes(bytearray(data)))
    places = {0, length - 1, min(length - 1, (1 << 13) - 1), max(0, length - (1 << 13))}
    others = [data[:at] + b"\xff" + data[at + 1 :] for at in sorted(places)]
    others += [data[1:], data + data[-1:], data[-1:] + data]
    assert len({digest_log(other) for other in (data, *others)}) == 1 + len(set(others))
