"""An attempt on disk: a folder with everything that its record will say, written before its child starts.

So a pass that is killed leaves either a folder without a result (that attempt is lost, nothing else) or a complete
one, which the next pass turns into the very record that this one would have written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from reconciler.codec import encode_canonical, make_document, read_document
from reconciler.files import replace
from reconciler.resource.kinds import Address
from reconciler.resource.records import SERVICE_LOG

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Intent:
    """What an attempt is for, as known before it starts. ``upstream``: input name → record id; ``made_from``:
    "engine.model.onnx" → sha256 of each upstream file that was really used. ``started``: UTC, after all that is
    recorded of the cell; ``clock``: what the clock of this machine showed then."""

    id: str
    address: Address
    key: str
    revision: int
    started: str
    inputs: Mapping[str, tuple[Any, str]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    upstream: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, str] = field(default_factory=dict)
    dirty: bool = False
    marks: tuple[str, ...] = ()
    supersedes: str = ""
    shared: tuple[Address, ...] = ()
    tool: str = ""
    clock: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The folder of an attempt, and its files."""

    folder: Path
    intent: Intent

    @property
    def request(self) -> Path:
        return self.folder / "request.json"

    @property
    def launch(self) -> Path:
        """The request of the child that starts a launcher; what it starts reads ``request``."""
        return self.folder / "launch.json"

    @property
    def answer(self) -> Path:
        """The result that was written behind a launcher; ``result`` is taken from it."""
        return self.folder / "answer.json"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def log(self) -> Path:
        return self.folder / "child.log"

    @property
    def counter(self) -> Path:
        return self.folder / "counter"

    @property
    def last_line(self) -> Path:
        """The last line that a harness command printed, for people."""
        return self.folder / "last-line"

    @property
    def inputs(self) -> Path:
        return self.folder / "inputs"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def run_dir(self) -> Path:
        """Where a harness command works; what it leaves there is looked through before it counts."""
        return self.folder / "run"

    @property
    def audit_settings(self) -> Path:
        """Never called audit.config: a file of that name could turn another run into a test."""
        return self.folder / "audit-settings.conf"

    @property
    def user_conf(self) -> Path:
        return self.folder / "user.conf"

    @property
    def service_log(self) -> Path:
        """What the server had printed when the command that asked it ended."""
        return self.folder / SERVICE_LOG

    def settle(self) -> None:
        """Its record is written, though its folder is still in use: nobody shall harvest it."""
        (self.folder / "attempt.json").unlink(missing_ok=True)


def make_attempt_id(now: datetime) -> str:
    """Sorts by time; the process number keeps two passes apart, the microseconds two attempts of one."""
    return f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}"


def create(folder: Path, intent: Intent) -> Attempt:
    attempt = Attempt(folder / intent.id, intent)
    attempt.output.mkdir(parents=True)
    document = {"format": FORMAT, **make_document(intent)}
    replace(attempt.folder / "attempt.json", encode_canonical(document))
    return attempt


def read(folder: Path) -> Attempt | None:
    """None when the folder was never begun, or is of a version that is unknown here."""
    try:
        document = json.loads((folder / "attempt.json").read_bytes())
        if document.pop("format") != FORMAT:
            return None
        return Attempt(folder, read_document(document, Intent))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
