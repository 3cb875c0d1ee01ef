"""The logs of a commit, each checked against the digest that is its name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler import git
from reconciler.diff.claims import Proof
from reconciler.files import hash_bytes
from reconciler.resource.records import Artifact, Record

FOLDER = "state/logs"
Good = Mapping[str, bytes]  # SHA-256 → bytes, of the logs that are in the commit as they were recorded


@dataclass(slots=True)
class Logs:
    """``blobs``: digest → git's blob. ``checked``: what became of each log that was asked for."""

    blobs: Mapping[str, str]
    reader: git.BlobReader
    checked: dict[str, Proof] = field(default_factory=dict)

    def read(self, artifacts: Iterable[Artifact]) -> dict[str, bytes]:
        """Contents by digest, of those that are there and are what their name says."""
        digests = {a.sha256 for a in artifacts}
        wanted = {sha256: self.blobs[sha256] for sha256 in digests if sha256 in self.blobs}
        contents = self.reader.read(wanted.values())
        good = {}
        for sha256 in digests:
            data = contents.get(wanted.get(sha256, ""))
            fits = data is not None and hash_bytes(data) == sha256
            self.checked[sha256] = Proof.MISSING if data is None else Proof.PROVEN if fits else Proof.CONTRADICTED
            if data is not None and fits:
                good[sha256] = data
        return good


@contextlib.contextmanager
def open_logs(root: Path, commit: str) -> Iterator[Logs]:
    files = git.list_files_at(root, commit, [FOLDER])
    with git.open_blobs(root) as reader:
        yield Logs({path.rpartition("/")[2]: blob for path, (blob, _) in files.items()}, reader)


def read_record_files(record: Record, logs: Good) -> dict[str, bytes]:
    """A record's own logs by their names."""
    return {a.name: logs[a.sha256] for a in record.artifacts if a.sha256 in logs}
