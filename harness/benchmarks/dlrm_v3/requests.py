"""Question and answer of a request, and the order of requests.

Items and users are looked up here, in the checkpoint's tables as they are on disk: the reference keeps them in the
host's memory too. A history is padded to the longest one of the dataset, so that requests share batches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks.dlrm_v3.checkpoint import Table, open_table, read_shapes
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, USERS
from harness.errors import HarnessError
from harness.run.qsl import Arrays

OUTPUT = "probability"
OUTPUTS = {OUTPUT: ((2048,), "float32")}
RESPONSE_DTYPE = "float32"
STEP_THREADS = 8  # rows of a terabyte are looked up: mostly waiting for memory
_SEED = 123  # of the order in which the reference asks

Steps = Generator[Arrays, Outputs, NDArray[np.float32]]


def open_loop(source: Path | None) -> Callable[[Arrays], Steps]:
    """``source``: the checkpoint."""
    if source is None:
        raise HarnessError("no model is declared", "input", "name the checkpoint of DLRMv3 as model.path")
    shapes = read_shapes(source)
    items, users = (open_table(source, name, shapes[name]) for name in (ITEMS, USERS))
    in_category = max(1, items.rows // shapes[CATEGORIES].size[0])
    return lambda sample: answer_request(sample, items, users, in_category)


def answer_request(sample: Arrays, items: Table, users: Table, in_category: int) -> Steps:
    """ "request" [4], "history", "actions" and "candidates", and in accuracy runs "likes" -> float32: timestamp, number
    there, the predictions; then, where they are known, what was liked, as many weights of one, and how many."""
    timestamp, number, user, longest = sample["request"].tolist()
    seen, candidates = sample["history"], sample["candidates"]
    (found,) = yield {
        "history": _pad(items.take(seen), longest),
        "history_categories": _pad(seen // in_category, longest),
        "actions": _pad(sample["actions"].astype(np.int32), longest),
        "length": np.array([len(seen)], np.int32),
        "user": users.take(np.array([user])),
        "candidates": items.take(candidates)[None],
        "candidate_categories": (candidates // in_category)[None],
    }
    answer = [np.array([timestamp, number], np.float32), found.reshape(-1).astype(np.float32, copy=False)]
    if "likes" in sample:
        count = len(candidates)
        answer += [sample["likes"].astype(np.float32), np.ones(count, np.float32), np.array([count], np.float32)]
    return np.concatenate(answer)


def _pad(rows: np.ndarray, longest: int) -> np.ndarray:
    padded = np.zeros((1, longest, *rows.shape[1:]), rows.dtype)
    padded[0, : len(rows)] = rows
    return padded


def list_in_order(samples: Arrays, expected: int) -> Iterator[int]:
    """Samples as they are asked for, whichever LoadGen names: the rules want the order of time. Of a timestamp they are
    shuffled as the reference does it, and where ``expected`` queries are more than there are samples, each timestamp is
    gone through several times before the next. Without an end: the last timestamp goes on."""
    timestamps = samples["request"][:, 0]
    counts = np.bincount(timestamps).tolist()
    shuffled = random.Random(_SEED)  # noqa: S311 - the reference's order, no secret
    begin, orders = 0, []
    for count in counts:
        order = list(range(count))
        shuffled.shuffle(order)
        orders.append([begin + place for place in order])
        begin += count
    for order in orders[:-1]:
        for _ in range(max(1, expected // begin)):
            yield from order
    while True:
        yield from orders[-1]
