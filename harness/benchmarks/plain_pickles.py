"""Pickles from untrusted sources, read as plain values and arrays.

A pickle is a program, and restricting its names is not enough: through NumPy's own functions it can describe an array
of numbers that are treated as addresses, and reading one runs the sender's code. So types and arrays are constructed
here, only from numbers, texts and plain objects, and no NumPy function is exposed.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from math import prod
from os import SEEK_END
from types import MappingProxyType
from typing import IO, Any

import numpy as np

_PLAIN_TYPE = re.compile(r"[biufcSUO]\d{1,9}")
_ORDERS = ("<", ">", "=", "|")
MOST_VALUES = 50_000_000  # 400 MB of addresses
_REMEMBERING = ("PUT", "BINPUT", "LONG_BINPUT")
_HOLDING = (list, tuple, dict, set, frozenset, np.ndarray)


class _PlainType:
    """Placeholder for numpy.dtype. Fields, other types and disguised objects are rejected."""

    def __init__(self, name: str, *_: Any) -> None:
        if not isinstance(name, str) or not _PLAIN_TYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it has an array of {str(name)[:20]!r}")
        self._name, self._order = name, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, *fields = state[:5]
        if order not in _ORDERS or fields != [None, None, None]:
            raise pickle.UnpicklingError("it has an array of records")
        self._order = order

    def read(self) -> np.dtype[Any]:
        return np.dtype(self._order + self._name)


class _ArrayName:
    """Placeholder for numpy.ndarray as an argument in a pickle."""


class _PlainArray(np.ndarray):
    """An array that accepts only as many values as it has room for."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, columns_first, data = state
        found = _fill(kind, shape, data)
        super().__setstate__((1, shape, found, bool(columns_first), data))  # type: ignore[arg-type]  # a stub that is too narrow


def _fill(kind: Any, shape: Any, data: Any) -> np.dtype[Any]:
    """Set the array's type. Raises UnpicklingError if the number of values does not match its shape."""
    if not isinstance(kind, _PlainType) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("it has an array without a type or shape")
    whole = all(type(size) is int and size >= 0 for size in shape)
    found = kind.read()
    has = len(data) if isinstance(data, list if found.hasobject else (bytes, bytearray)) else -1
    if not whole or has != prod(shape) * (1 if found.hasobject else found.itemsize):
        raise pickle.UnpicklingError("the number of values of an array does not match its shape")
    return found


def _reconstruct(*_: Any) -> _PlainArray:
    """Create an empty array; its content comes with its state."""
    return np.ndarray.__new__(_PlainArray, (0,), "b")


def _read_buffer(data: Any, kind: Any, shape: Any, order: str) -> np.ndarray:
    return np.frombuffer(data, _refuse_objects(_fill(kind, shape, data))).reshape(
        shape, order="F" if order == "F" else "C"
    )


def _read_scalar(kind: Any, data: Any) -> Any:
    return np.frombuffer(data, _refuse_objects(_fill(kind, (1,), data)))[0]


def _refuse_objects(found: np.dtype[Any]) -> np.dtype[Any]:
    if found.hasobject:
        raise pickle.UnpicklingError("an array contains objects instead of numbers")
    return found


def _encode(text: str, encoding: str) -> bytes:
    """Placeholder for the function by which old protocols encode bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has bytes in {str(encoding)[:20]}")
    return text.encode(encoding)


def _write_nothing() -> bytes:
    """Placeholder for the function by which old protocols encode empty bytes."""
    return b""


# Modules were renamed in NumPy 2.
_KNOWN: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ArrayName,
    ("numpy", "dtype"): _PlainType,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _write_nothing,
    **{
        (f"numpy.{core}.{module}", name): made
        for core in ("core", "_core")
        for module, name, made in (
            ("multiarray", "_reconstruct", _reconstruct),
            ("multiarray", "scalar", _read_scalar),
            ("numeric", "_frombuffer", _read_buffer),
        )
    },
}


class PlainUnpickler(pickle.Unpickler):
    """``also``: other names that a pickle may contain, by module and name; ``what``: its description, for messages.
    ``stream`` must be seekable to its beginning."""

    def __init__(
        self, stream: IO[bytes], what: str, also: Mapping[tuple[str, str], Any] = MappingProxyType({})
    ) -> None:
        super().__init__(stream)
        self._stream, self._what, self._known = stream, what, {**_KNOWN, **also}

    def load(self) -> Any:
        _refuse_large_memo(self._stream)
        return super().load()

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._known[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and {self._what} does not") from None


def _refuse_large_memo(stream: IO[bytes]) -> None:
    """Raise UnpicklingError if memo numbers are higher than this many bytes can justify. The memo table is as long as
    its highest number, at 16 bytes each, so a number of four bytes would allocate 64 GB."""
    size = stream.seek(0, SEEK_END)
    stream.seek(0)
    try:
        for code, number, _ in pickletools.genops(stream):
            if code.name in _REMEMBERING and number is not None and number > size:
                raise pickle.UnpicklingError(f"it stores a value as number {number}, and has {size} bytes")
    except ValueError as error:
        if stream.read(1):
            raise pickle.UnpicklingError(str(error)) from error
        raise EOFError(str(error)) from error
    stream.seek(0)


def refuse_repeated(value: Any, size: int) -> None:
    """Raise ValueError if a value contains itself, or, fully expanded, more than a pickle of this size may. A list may
    contain another one a thousand times, and no memory suffices to copy or print the result. Rows that legitimately
    share content, such as repeated questions, are far below ``MOST_VALUES``."""
    most, counts = max(size, MOST_VALUES), dict[int, int]()  # a part that was already counted
    opened: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting[-1]
        here = id(current)
        if here in counts:
            waiting.pop()
            continue
        collected, count = [], 0
        for item in _list_inside(current):
            count += 1
            if isinstance(item, _HOLDING):
                collected.append(item)
        left = [item for item in collected if id(item) not in counts]
        if any(id(item) in opened for item in left):
            raise ValueError("it contains itself")
        if left:
            opened.add(here)
            waiting += left
            continue
        opened.discard(here)
        counts[here] = count + sum(counts[id(item)] for item in collected)
        if counts[here] > most:
            raise ValueError("it claims more values than it has bytes")
        waiting.pop()


def _list_inside(value: Any) -> Iterable[Any]:
    if isinstance(value, np.ndarray):
        return value.flat if value.dtype.hasobject else ()
    return chain(value, value.values()) if isinstance(value, dict) else value
