"""The stream as samples: each request with the user's history up to then, the candidates, and which of them the user
would like.

A user's requests share one history on disk and use longer and longer parts of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v3.stream_files import TIMESTAMPS, TRAINED, StreamFiles, StreamStep
from harness.benchmarks.sources import is_rehearsal, require_source
from harness.contract import Counter
from harness.run.qsl import Ragged

CANDIDATES = 2048  # maximum per request
LONGEST = 16_384 - CANDIDATES - 1  # items of a history: a request has at most 16,384 items in all, including its user
LIKED = 3.5  # the lowest rating of a liked item
_INFERRED = range(TRAINED + 2, TIMESTAMPS + 2)  # steps in a line; the one between them is for evaluation
LONGEST_COLUMN = 3  # of requests.npy
HISTORY, ACTIONS = "history.int32", "actions.uint8"
WEIGHTS = np.array([0, 1, 2, 4, 8, 16], np.uint8)  # by whole stars of a rating, as in the reference


class Parts(Sequence[np.ndarray]):
    """Possibly overlapping parts of an array, which may be a memory map. ``bounds`` [samples, 2]: begin and end."""

    def __init__(self, whole: np.ndarray, bounds: NDArray[np.int64]) -> None:
        self._whole, self._bounds = whole.view(np.ndarray), bounds.tolist()

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, number: Any) -> Any:
        begin, end = self._bounds[number]
        return self._whole[begin:end]


def build_dataset(source: Path | None, _settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write history.int32 and actions.uint8, item by item; bounds.npy [requests, 2], the range of each request's
    history; requests.npy int32 [requests, 4]: inference timestamp, number in it, user, and the longest history of all;
    candidates.npy int32 and likes.npy uint8 [requests, candidates]. One line is in memory at a time."""
    source = require_source(source, "the sampled stream of DLRMv3")
    files = StreamFiles(source)
    counter.stage("building", files.users)
    requests, numbers = number_requests(files)
    bounds = np.zeros((len(requests), 2), np.int64)
    candidates = _Candidates(files, output, len(requests), 0 if is_rehearsal(source) else CANDIDATES)
    begin = end = 0
    with (output / HISTORY).open("wb") as history, (output / ACTIONS).open("wb") as actions:
        for user, fields in enumerate(files.read_users()):
            begin = end
            for step in (*range(TRAINED + 1), *_INFERRED):
                found = files.read_step(user, fields, step)
                asked = int(numbers[step - _INFERRED.start, user]) if step in _INFERRED else -1
                if asked >= 0:
                    candidates.write(user, asked, found)
                    bounds[asked] = begin, min(end, begin + LONGEST)
                if found is not None:
                    history.write(found.seen.astype(np.int32).tobytes())
                    actions.write(WEIGHTS[found.ratings.astype(np.int64)].tobytes())
                    end += len(found.seen)
            counter.bump(1)
    requests[:, LONGEST_COLUMN] = max(1, int((bounds[:, 1] - bounds[:, 0]).max()))
    np.save(output / "requests.npy", requests)
    np.save(output / "bounds.npy", bounds)


def load_samples(dataset: Path) -> Mapping[str, Any]:
    """Load the samples with their likes, which are copied into the answers of accuracy runs."""
    likes = np.load(dataset / "likes.npy", mmap_mode="r")
    return {**load_performance_samples(dataset), "likes": likes}


def load_performance_samples(dataset: Path) -> Mapping[str, Any]:
    bounds = np.load(dataset / "bounds.npy")
    history = np.memmap(dataset / HISTORY, np.int32, "r")
    actions = np.memmap(dataset / ACTIONS, np.uint8, "r")
    return {
        "request": np.load(dataset / "requests.npy"),
        "history": Ragged(Parts(history, bounds)),
        "actions": Ragged(Parts(actions, bounds)),
        "candidates": np.load(dataset / "candidates.npy", mmap_mode="r"),
    }


def number_requests(files: StreamFiles) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number requests in time order, [requests, 4]; also return each user's request at each inference timestamp,
    [timestamps, users], -1 for none."""
    numbers = np.full((len(files.requests), files.users), -1, np.int32)
    found: list[NDArray[np.int32]] = []
    total = 0
    for timestamp, users in enumerate(files.requests):
        numbers[timestamp, users] = np.arange(total, total + len(users))
        columns = np.zeros((len(users), 4), np.int32)
        columns[:, 0], columns[:, 1], columns[:, 2] = timestamp, np.arange(len(users)), users
        found.append(columns)
        total += len(users)
    return np.concatenate(found), numbers


class _Candidates:
    """Candidates of each request, the same number for all. ``wanted``: the required number, 0 for that of the first
    request."""

    def __init__(self, files: StreamFiles, output: Path, requests: int, wanted: int) -> None:
        self._files, self._output, self._requests, self._wanted = files, output, requests, wanted
        self._items: np.ndarray | None = None
        self._likes: np.ndarray | None = None

    def write(self, user: int, request: int, step: StreamStep | None) -> None:
        count = len(step.shown[:CANDIDATES]) if step else 0
        self._wanted = self._wanted or count
        if step is None or count != self._wanted:
            wanted = self._wanted or "any"
            raise self._files.refuse_line(user, f"has {count} candidates in a request, not {wanted}")
        if self._items is None or self._likes is None:
            shape = (self._requests, count)
            self._items = npy.open_memmap(self._output / "candidates.npy", "w+", np.dtype("int32"), shape)
            self._likes = npy.open_memmap(self._output / "likes.npy", "w+", np.dtype("uint8"), shape)
        self._items[request] = step.shown[:count]
        self._likes[request] = step.likes[:count] >= LIKED
