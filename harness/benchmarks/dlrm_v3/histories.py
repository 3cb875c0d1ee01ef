"""The stream as samples: each request with the user's history up to then, the candidates, and which of them the user
would like.

A user's requests share one history on disk and use longer and longer parts of it.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from harness.benchmarks.sources import FileRule, check_files, is_rehearsal, require_source
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Parts, Ragged

# The reference's stream on disk: a CSV line for each user, and the requesting users of each of its 100 timestamps.
#
# The files are those of streaming_synthetic_data.py of recommendation/dlrm_v3 in mlcommons/inference. A line has four
# fields for each step: items that could be shown, the user's rating of each, items that the user saw, and the ratings
# of those. The first step precedes all timestamps; then follow 90 for training, one for evaluation, and 10 for
# inference.

FOLDER = "sampled_data"
LINES, OFFSETS, USER_COUNTS = "0.csv", "offset.csv", "users_cumsum_per_ts.csv"
REQUESTS, REQUEST_OFFSETS = "requests_per_ts.csv", "requests_per_ts_offset.csv"
TIMESTAMPS, TRAINED = 100, 90
FIELDS = 4 * (TIMESTAMPS + 2)
PUBLISHED_USERS, PUBLISHED_REQUESTS = 50_000, 349_823
_MOST_ITEMS = 2**31  # limit of item numbers
_FIX = "download it again, as described by `reconcile fetch dlrm-v3`; nothing was prepared"


@dataclass(frozen=True, slots=True)
class StreamStep:
    """``seen`` and ``ratings``: what the user saw then; ``shown`` and ``likes``: what could be shown, and how the user
    would rate it."""

    seen: NDArray[np.int64]
    ratings: NDArray[np.float64]
    shown: NDArray[np.int64]
    likes: NDArray[np.float64]


class StreamFiles:
    """``users``: number of users with a line; ``requests``: for each inference timestamp, the users in request order.
    Raises HarnessError naming the file that is missing, truncated, or invalid."""

    def __init__(self, source: Path) -> None:
        self.folder = source / FOLDER if (source / FOLDER).is_dir() else source
        names = (LINES, OFFSETS, USER_COUNTS, REQUESTS, REQUEST_OFFSETS)
        check_files(self.folder, [FileRule(name) for name in names], fix=_FIX, only="*.csv")
        self._offsets = self._read_row(OFFSETS).tolist()
        self.users = len(self._offsets)
        self._check_offsets()
        self.requests = list(self._read_requests())
        total = sum(len(users) for users in self.requests)
        if not is_rehearsal(source) and (self.users, total) != (PUBLISHED_USERS, PUBLISHED_REQUESTS):
            has = f"{self.folder} has {self.users:,} users and {total:,} requests"
            problem = f"{has}, the published sample has {PUBLISHED_USERS:,} and {PUBLISHED_REQUESTS:,}"
            raise HarnessError(problem, "input", _FIX)

    def read_users(self) -> Iterator[Sequence[str]]:
        """Yield the fields of each user's line."""
        csv.field_size_limit(2**31 - 1)
        with (self.folder / LINES).open("rb") as stream:
            for user, offset in enumerate(self._offsets):
                stream.seek(offset)
                try:
                    (fields,) = csv.reader([stream.readline().decode("ascii", "replace")])
                except csv.Error as error:
                    raise self.refuse_line(user, f"is not a table row: {error}") from error
                if len(fields) != FIELDS:
                    raise self.refuse_line(user, f"has {len(fields)} fields, not {FIELDS}")
                yield fields

    def read_step(self, user: int, fields: Sequence[str], number: int) -> StreamStep | None:
        """Read a step; ``number``: 0 for the one before all timestamps. Return None if the user did nothing then."""
        shown, likes, seen, ratings = fields[4 * number : 4 * number + 4]
        if not shown:
            return None
        try:
            items = [parse_numbers(text, np.int64) for text in (seen, shown)]
            rated = [parse_numbers(text, np.float64) for text in (ratings, likes)]
        except ValueError as error:
            raise self.refuse_line(user, f"has an invalid number in step {number}: {error}") from error
        for found, stars in zip(items, rated, strict=True):
            if len(found) != len(stars):
                raise self.refuse_line(user, f"has {len(found)} items in step {number}, but {len(stars)} ratings")
            if len(found) and not (found.min() >= 0 and found.max() < _MOST_ITEMS):
                raise self.refuse_line(user, f"has an unknown item in step {number}")
            if len(found) and not (stars.min() >= 1 and stars.max() <= 5):
                raise self.refuse_line(user, f"has a rating in step {number} that is not between 1 and 5")
        return StreamStep(items[0], rated[0], items[1], rated[1])

    def refuse_line(self, user: int, what: str) -> HarnessError:
        return HarnessError(f"{self.folder / LINES}: line {user + 1} {what}", "input", _FIX)

    def _check_offsets(self) -> None:
        """Check that each offset is the start of a line, and that the last line ends at the end of the file."""
        path = self.folder / LINES
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            if stream.read() != b"\n":
                self._refuse(path, "is truncated")
            for user, offset in enumerate(self._offsets):
                stream.seek(max(min(offset, size + 1) - 1, 0))  # no file system supports every number
                if (offset and stream.read(1) != b"\n") or (user == 0 and offset):
                    self._refuse(path, f"has no line at byte {offset:,}, the {OFFSETS} entry of user {user}")
            stream.seek(self._offsets[-1])
            stream.readline()
            if stream.tell() != size:
                self._refuse(path, f"is longer than the {self.users:,} lines of {OFFSETS}")

    def _read_requests(self) -> Iterator[NDArray[np.int64]]:
        """Read the requesting users of each inference timestamp. Their lines must be in the first file, the sample's
        only one."""
        places = self._read_row(REQUEST_OFFSETS)
        with (self.folder / USER_COUNTS).open("rb") as stream:
            counts = [self._parse(USER_COUNTS, line) for line in stream]
        for name, found in ((REQUEST_OFFSETS, places), (USER_COUNTS, counts)):
            if len(found) != TIMESTAMPS:
                self._refuse(self.folder / name, f"has {len(found)} timestamps, not {TIMESTAMPS}")
        for timestamp in range(TRAINED, TIMESTAMPS):
            asking = self._read_row(REQUESTS, int(places[timestamp]))
            users = asking[: int(counts[timestamp][0])]
            if len(users) < counts[timestamp][0]:
                self._refuse(
                    self.folder / REQUESTS, f"has {len(users)} requests of timestamp {timestamp}, {USER_COUNTS} more"
                )
            if len(np.unique(users)) != len(users) or not (users < self.users).all():
                self._refuse(
                    self.folder / REQUESTS, f"lists a user twice, or an unknown user, at timestamp {timestamp}"
                )
            yield users

    def _read_row(self, name: str, offset: int = 0) -> NDArray[np.int64]:
        path = self.folder / name
        with path.open("rb") as stream:
            stream.seek(min(offset, path.stat().st_size))  # no file system supports every number
            return self._parse(name, stream.readline())

    def _parse(self, name: str, line: bytes) -> NDArray[np.int64]:
        try:
            if not line.endswith(b"\n"):
                raise ValueError("an unterminated line")
            found = parse_numbers(line.strip().strip(b'"').decode("ascii"), np.int64)
            if not len(found) or found.min() < 0:
                raise ValueError("no numbers")
        except ValueError as error:
            raise HarnessError(f"{self.folder / name} is invalid: {error}", "input", _FIX) from error
        return found

    def _refuse(self, path: Path, what: str) -> None:
        raise HarnessError(f"{path} {what}", "input", _FIX)


def parse_numbers(text: str, dtype: DTypeLike) -> NDArray[Any]:
    """Parse numbers between commas. Raises ValueError for an invalid one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy warns about text that it cannot read completely
        try:
            found = np.fromstring(text, dtype, sep=",")
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error
    if len(found) != (text.count(",") + 1 if text else 0):
        raise ValueError(f"{len(found)} numbers between {text.count(',')} commas")
    return found


CANDIDATES = 2048  # maximum per request
LONGEST = 16_384 - CANDIDATES - 1  # items of a history: a request has at most 16,384 items in all, including its user
LIKED = 3.5  # the lowest rating of a liked item
_INFERRED = range(TRAINED + 2, TIMESTAMPS + 2)  # steps in a line; the step between them is for evaluation
LONGEST_COLUMN = 3  # column of requests.npy
HISTORY, ACTIONS = "history.int32", "actions.uint8"
WEIGHTS = np.array([0, 1, 2, 4, 8, 16], np.uint8)  # indexed by a rating's whole stars, as in the reference


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
    """Number requests in time order, [requests, 4]; also return the number of each user's request at each inference
    timestamp, [timestamps, users], -1 for none."""
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
    """Candidates of each request, the same number for all. ``wanted``: the required number of candidates, 0 for that of
    the first request."""

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
