"""Arrays out of foreign pickles: what honest ones hold is read as NumPy reads it, and no more than that."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.plain_pickles import PlainUnpickler, refuse_repeated

HONEST = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(3, dtype=">i4"),
    np.array([True, False]),
    np.array(["a", "bc"]),
    np.array([b"a", b"bc"]),
    np.array([[1, 2], "b", None], object),
    np.zeros((0, 3), np.float64),
    np.array(7, np.int64),
    np.float32(1.5),
    np.int64(3),
    np.bool_(True),
    np.str_("Car"),
]
ADDRESS = struct.pack("<Q", 0x4141414141414141)


def load(data: bytes) -> Any:
    return PlainUnpickler(io.BytesIO(data), "a list").load()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_honest_arrays_are_read_as_numpy_reads_them(protocol: int) -> None:
    data = pickle.dumps(HONEST, protocol)
    for found, wanted in zip(load(data), pickle.loads(data), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def dump(value: Any) -> bytes:
    """Part of a pickle: without the protocol before it and the stop behind it."""
    return pickle.dumps(value, 2)[2:-1]


def name(module: str, called: str) -> bytes:
    return f"c{module}\n{called}\n".encode()


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def make_type(kind: str, state: bytes) -> bytes:
    return call(name("numpy", "dtype"), *map(dump, (kind, False, True))) + state + b"b"


def make_array(kind: bytes, shape: tuple[int, ...], data: bytes) -> bytes:
    empty = call(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), dump((0,)), dump(b"b"))
    return empty + b"(" + dump(1) + dump(shape) + kind + dump(False) + data + b"tb"


def make_state(fields: bytes, flags: int) -> bytes:
    return b"(" + dump(3) + dump("|") + dump(None) + fields + dump(8) + dump(1) + dump(flags) + b"t"


OBJECT = make_type("O8", make_state(dump(None) * 2, 63))
NUMBER = make_type("f8", make_state(dump(None) * 2, 0))
# Says of itself that it holds no objects: what NumPy believes, which then follows any address.
RECORD = make_type("V8", make_state(dump(("a",)) + b"}" + dump("a") + b"(" + OBJECT + dump(0) + b"ts", 0))
RENAMED = make_type("f8", make_state(dump(("a",)) + b"}" + dump("a") + b"(" + OBJECT + dump(0) + b"ts", 0))
LIES = {
    "a record of objects": make_array(RECORD, (), dump(ADDRESS)),
    "objects under the name of numbers": make_array(RENAMED, (), dump(ADDRESS)),
    "addresses in place of objects": make_array(OBJECT, (1,), dump(ADDRESS)),
    "an object of its bytes": call(name("numpy.core.multiarray", "scalar"), OBJECT, dump(ADDRESS)),
    "objects in a buffer": call(
        name("numpy.core.numeric", "_frombuffer"), dump(ADDRESS), OBJECT, dump((1,)), dump("C")
    ),
    "a terabyte that is not there": make_array(NUMBER, (1 << 37,), dump(ADDRESS)),
    "a terabyte of objects": make_array(OBJECT, (1 << 37,), dump([1])),
    "a shape below zero": make_array(NUMBER, (-1, -1), dump(ADDRESS)),
    "more numbers than any": make_array(NUMBER, (1 << 62, 1 << 62, 0), dump(b"")),
    "a terabyte by its name": call(name("numpy", "ndarray"), dump((1 << 40,)), dump("u1")),
    "a type of a type": make_type("f8", make_state(dump(None) * 2, 0).replace(b"N", OBJECT, 1)),
    "bytes packed otherwise": call(name("_codecs", "encode"), dump("a"), dump("zlib")),
    "a terabyte of nothing": call(name("__builtin__", "bytes"), dump(1 << 40)),
    "a function": call(name("builtins", "print"), dump("a")),
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_no_honest_pickle_holds_are_refused(lie: str) -> None:
    with pytest.raises((pickle.UnpicklingError, TypeError, MemoryError)):
        load(b"\x80\x02" + LIES[lie] + b".")


def test_lists_that_hold_each_other_are_refused() -> None:
    kept: Any = [0]
    for _ in range(40):
        kept = [kept] * 10
    endless: list[Any] = []
    endless.append(endless)
    tables = np.empty(10, object)
    tables[:] = kept
    for values in (kept, endless, tables, {"a": (kept,)}):
        with pytest.raises(ValueError, match=r"more values than it has bytes|contains itself"):
            refuse_repeated([values], len(pickle.dumps(values)))


@pytest.mark.parametrize(
    "remember",
    [lambda number: b"r" + number.to_bytes(4, "little"), lambda number: b"p%d\n" % number],
    ids=["binary", "text"],
)
def test_number_that_would_fill_the_memory_is_refused(remember: Callable[[int], bytes]) -> None:
    assert load(b"\x80\x02]" + remember(1) + b".") == []
    with pytest.raises(pickle.UnpicklingError, match="stores a value as number 536870912"):
        load(b"\x80\x02]" + remember(2**29) + b".")
