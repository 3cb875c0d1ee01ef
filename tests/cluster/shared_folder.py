"""A folder that a process of its own serves, as a file server serves one to all nodes: bindfs, where it is there."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.processes import wait_for


def find_missing() -> str:
    """Why no folder can be served here; "" where one can."""
    if shutil.which("bindfs") is None:
        return "bindfs is not installed: apt-get install bindfs"
    return "" if os.access("/dev/fuse", os.W_OK) else "/dev/fuse cannot be opened"


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """``kept``: where its files are; ``seen``: where everybody sees them."""

    kept: Path
    seen: Path

    def serve(self) -> None:
        subprocess.run(["bindfs", self.kept, self.seen], check=True)
        wait_for(self.seen.is_mount)

    def kill(self) -> None:
        """The server alone: anyone who uses the folder meets errors, until it is served again."""
        for process in psutil.process_iter(["cmdline"]):
            if (process.info["cmdline"] or [])[-2:] == [str(self.kept), str(self.seen)]:
                process.kill()
                process.wait(10)

    def revive(self) -> None:
        self.leave()
        self.serve()

    def leave(self) -> None:
        """Those that use it still keep what they have of it."""
        subprocess.run(["umount", "--lazy", self.seen], check=False, capture_output=True)


@contextlib.contextmanager
def served(place: Path) -> Iterator[SharedFolder]:
    found = SharedFolder(place / "kept", place / "seen")
    found.kept.mkdir(parents=True)
    found.seen.mkdir()
    try:
        found.serve()
        yield found
    finally:
        found.kill()
        found.leave()
