"""The reference's stream on disk: a CSV line for each user, and the requesting users of each of its 100 timestamps.

The files are those of streaming_synthetic_data.py of recommendation/dlrm_v3 in mlcommons/inference. A line has four
fields for each step: items that could be shown, the user's rating of each, items that the user saw, and the ratings of
those. The first step precedes all timestamps; then follow 90 for training, one for evaluation, and 10 for inference.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.benchmarks.sources import FileRule, check_files, is_rehearsal
from harness.errors import HarnessError

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
        """Read a step; ``number``: 0 for the one before all timestamps. None if the user did nothing then."""
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
        """Read, for the inference timestamps, the users whose lines are in the sample's only file, the first."""
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
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's warning for text that it cannot read completely
        try:
            found = np.fromstring(text, dtype, sep=",")
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error
    if len(found) != (text.count(",") + 1 if text else 0):
        raise ValueError(f"{len(found)} numbers between {text.count(',')} commas")
    return found
