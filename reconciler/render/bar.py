"""One bar for work that is counted."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class ProgressBar:
    """A context manager; on standard error, so that a report on standard output stays clean."""

    def __init__(self, *, colour: bool = True) -> None:
        console = Console(stderr=True, no_color=not colour, highlight=False)
        columns = (MofNCompleteColumn(), BarColumn(32), TextColumn("{task.description}", markup=False))
        self._bars = Progress(*columns, console=console, transient=True, refresh_per_second=8)
        self._task = self._bars.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._bars.stop()

    def report(self, done: int, total: int, name: str) -> None:
        self._bars.update(self._task, completed=done, total=total, description=name)
