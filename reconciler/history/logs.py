"""The logs of a commit, each checked against the digest in its name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from reconciler.diff.claims import Proof
from reconciler.resource.records import Artifact, Record
from reconciler.storage import git
from reconciler.storage.files import LOGS, hash_bytes

_CACHE_LIMIT = 64 << 20  # bytes of logs in memory
_AT_ONCE = 64  # logs read at a time
_WORTH_READING = (None, Proof.PROVEN)  # logs found missing or changed stay so
Good = Mapping[str, bytes]  # SHA-256 → bytes, of the logs that are in the commit as they were recorded


class Logs(Struct):
    """Reads and checks a commit's logs. ``blobs``: digest → git's blob. ``checked``: the result for each requested log.
    ``cached``: bytes of recently read logs, least recent first, since one log is requested several times."""

    blobs: Mapping[str, str]
    reader: git.BlobReader
    checked: dict[str, Proof] = field(default_factory=dict)
    cached: dict[str, bytes] = field(default_factory=dict)
    size: int = 0

    def read(self, artifacts: Iterable[Artifact]) -> dict[str, bytes]:
        """Return contents by digest, for logs that exist and match their names."""
        digests = {a.sha256 for a in artifacts}
        good = {sha256: self.cached[sha256] for sha256 in digests if sha256 in self.cached}
        due = [sha256 for sha256 in digests if sha256 not in good and self.checked.get(sha256) in _WORTH_READING]
        if not due:
            return good
        wanted = {sha256: self.blobs[sha256] for sha256 in due if sha256 in self.blobs}
        contents = self.reader.read(wanted.values())
        for sha256 in due:
            data = contents.get(wanted.get(sha256, ""))
            fits = data is not None and hash_bytes(data) == sha256
            self.checked[sha256] = Proof.MISSING if data is None else Proof.PROVEN if fits else Proof.CONTRADICTED
            if data is not None and fits:
                good[sha256] = data
                self._cache(sha256, data)
        return good

    def _cache(self, sha256: str, data: bytes) -> None:
        self.cached[sha256] = data
        self.size += len(data)
        while self.size > _CACHE_LIMIT:
            self.size -= len(self.cached.pop(next(iter(self.cached))))

    def check(self, digests: Iterable[str]) -> None:
        """Check each of these logs; a few at a time, since they need not fit into memory."""
        due = [sha256 for sha256 in dict.fromkeys(digests) if sha256 not in self.checked]
        for at in range(0, len(due), _AT_ONCE):
            self.read(Artifact("", sha256, 0) for sha256 in due[at : at + _AT_ONCE])

    def read_proven(self, sha256: str) -> bytes:
        """Read a log whose digest is its name."""
        return self.read([Artifact("", sha256, 0)])[sha256]


@contextlib.contextmanager
def open_logs(root: Path, commit: str) -> Iterator[Logs]:
    files = git.list_files_at(root, commit, [LOGS])
    with git.open_blobs(root) as reader:
        yield Logs({path.rpartition("/")[2]: blob for path, (blob, _) in files.items()}, reader)


def read_record_files(record: Record, logs: Good) -> dict[str, bytes]:
    """Return a record's own logs by name."""
    return {a.name: logs[a.sha256] for a in record.artifacts if a.sha256 in logs}
