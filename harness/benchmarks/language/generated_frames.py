"""A frame of pandas as pandas pickles it, written without pandas: what a rehearsal of such a dataset has on disk."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_PROTOCOL = 2


def write_frame(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """All columns are of objects, as those of texts and of lists are."""
    count = len(next(iter(columns.values())))
    values = np.empty((len(columns), count), object)
    for row, column in enumerate(columns.values()):
        for place, value in enumerate(column):
            values[row, place] = value
    names = np.array(list(columns), object)
    whole = _dump(slice(0, len(columns), 1))
    block = _call("pandas._libs.internals", "_unpickle_block", _dump(values), whole, _dump(2))
    top = _index("pandas.core.indexes.base", "Index", {"data": names, "name": None})
    rows = {"name": None, "start": 0, "stop": count, "step": 1}
    axes = _list(top, _index("pandas.core.indexes.range", "RangeIndex", rows))
    manager = _call("pandas.core.internals.managers", "BlockManager", _tuple(block), axes)
    facts = {"_typ": "dataframe", "_metadata": [], "attrs": {}, "_flags": {"allows_duplicate_labels": True}}
    state = b"}(" + _dump("_mgr") + manager + b"".join(_dump(key) + _dump(value) for key, value in facts.items()) + b"u"
    path.write_bytes(b"\x80\x02" + _name("pandas.core.frame", "DataFrame") + b")\x81" + state + b"b.")


def _dump(value: Any) -> bytes:
    """A value as part of a larger pickle: without the protocol before it and the stop behind it."""
    return pickle.dumps(value, protocol=_PROTOCOL)[2:-1]


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode("ascii")


def _tuple(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def _list(*parts: bytes) -> bytes:
    return b"](" + b"".join(parts) + b"e"


def _call(module: str, name: str, *arguments: bytes) -> bytes:
    return _name(module, name) + _tuple(*arguments) + b"R"


def _index(module: str, name: str, facts: Mapping[str, Any]) -> bytes:
    return _call("pandas.core.indexes.base", "_new_Index", _name(module, name), _dump(dict(facts)))
