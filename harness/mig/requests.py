"""The request of a load on a slice, which a run writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.contract import BackgroundLoad, FileMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest(FileMessage):
    """Load a slice until this process is ended; the counter holds the number of computed samples."""

    verb: ClassVar[str] = "load"
    module: ClassVar[str] = "harness.mig.load"
    load: BackgroundLoad
    counter: str


REQUESTS = (LoadRequest,)
