"""Stand-in for ``subprocess`` where a pass starts its children, and starts everything else as that does."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.storage import process
from tests.warm.forks import ForkedProcess, Forks
from tests.warm.server import CHILD, LOADED

_CHILD = [sys.executable, "-P", "-m", "harness"]


class Warm(Forks):
    """Children of passes are forks while it is ``on``."""

    def __init__(self) -> None:
        super().__init__(CHILD, *LOADED)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before

    def stand_in(self) -> SimpleNamespace:
        """What ``reconciler.storage.process`` is to find as ``subprocess``."""

        def start(command: Sequence[str], **named: Any) -> Any:
            if self.on and command[: len(_CHILD)] == _CHILD:
                return ForkedProcess(self, command[len(_CHILD) :], **named)
            return subprocess.Popen(command, **named)

        return SimpleNamespace(**{**vars(subprocess), "Popen": start})


@contextlib.contextmanager
def warm_children() -> Iterator[Warm]:
    """Every child that a pass of this process starts is a fork, unless ``on`` is False."""
    warm = Warm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", warm.stand_in())
        try:
            yield warm
        finally:
            warm.end()
