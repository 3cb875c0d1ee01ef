"""The events of a pass on a terminal: finished steps scroll by; below them are the pass's progress, and a bar for each
running step."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import click
from rich.console import Console, Group
from rich.live import Live as Region
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from reconciler.execute.outcome import Event, Message, Outcome, StepProgress, StepStarted
from reconciler.render.colour import Paint, show_coloured, show_plain
from reconciler.render.progress import (
    EVERY,
    PassProgress,
    fit_name,
    fit_progress,
    measure_pace,
    name_step,
    render_outcome_text,
    render_started_text,
)
from reconciler.render.table import fold, fold_line
from reconciler.resource.kinds import Address
from reconciler.resource.quantities import show_duration, show_size
from reconciler.storage.escaping import escape_line, escape_output


@contextlib.contextmanager
def open_bar(*, colour: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function to call with the number done so far, the total, and the name of the current item."""
    with _make_bars(
        colour, MofNCompleteColumn(), BarColumn(32), TextColumn("{task.description}", markup=False)
    ) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total, name: bars.update(task, completed=done, total=total, description=name)


def _make_bars(colour: bool, *columns: ProgressColumn) -> Progress:
    """Make bars on standard error, so that a report on standard output stays clean."""
    console = Console(stderr=True, no_color=not colour, highlight=False)
    return Progress(*columns, console=console, transient=True, refresh_per_second=8)


@contextlib.contextmanager
def open_view(total: int, *, colour: bool, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show the progress of a transfer: a bar on a terminal, else an occasional line. Yield a function to call with the
    number of bytes so far, of ``total``. ``quiet``: show nothing."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _report_lines(total)
        return
    columns = (BarColumn(32), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with _make_bars(colour, *columns) as bars:
        task = bars.add_task("", total=total)
        yield lambda passed: bars.update(task, completed=passed)


def _report_lines(total: int) -> Callable[[int], None]:
    began = last = time.monotonic()

    def report(passed: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY:
            last = now
            speed = passed / (now - began)
            left = f", about {show_duration((total - passed) / speed)} left" if 0 < passed < total else ""
            click.echo(f"{show_size(passed)} of {show_size(total)}, {show_size(int(speed))}/s{left}", err=True)

    return report


_WIDE, _WIDE_BAR, _NARROW_BAR = 100, 24, 10  # columns


class Live:
    """A context manager with the only method that a pass calls. It restores the terminal if an exception occurs."""

    def __init__(self, *, colour: bool = True) -> None:
        self._pass, self._lock = PassProgress(time.monotonic()), threading.Lock()  # a thread draws the region
        self._paint: Paint = show_coloured if colour else show_plain
        self._console = Console(no_color=not colour, highlight=False, soft_wrap=True)
        bar = _WIDE_BAR if self._console.width >= _WIDE else _NARROW_BAR
        name, now = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[now]}", markup=False)
        self._taken = bar + 2  # including a blank on both sides
        self._bars = Progress(name, BarColumn(bar), now, console=self._console, auto_refresh=False)
        self._region = Region(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=4)
        self._tasks: dict[Address, TaskID] = {}

    def __enter__(self) -> Self:
        self._region.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._region.stop()

    def report(self, event: Event) -> None:
        now = time.monotonic()
        with self._lock:
            self._pass.take(event, now)
        match event:
            case StepStarted(step=step, attempt=attempt):
                began = escape_line(render_started_text(step, attempt))
                name = escape_line(fit_name(name_step(step), self._room - len(began)))
                self._drop(step.change.address)
                self._tasks[step.change.address] = self._bars.add_task(name, total=None, now=began)
            case StepProgress(step=step, progress=progress, minimum=minimum):
                task_id = self._tasks.get(step.change.address)
                if task_id is not None:
                    left = self._pass.predict(step, now)
                    fraction = measure_pace(progress, minimum, left).fraction
                    total = None if fraction is None else 1.0
                    name, said = map(escape_line, fit_progress(name_step(step), event, self._room, left))
                    self._bars.update(task_id, description=name, total=total, completed=fraction or 0.0, now=said)
            case Outcome(step=step):
                self._drop(step.change.address)
                self._print(f"{name_step(step)}  {render_outcome_text(event, self._paint)}")
            case Message(text=text, waits=None):
                self._print(text)

    def _render(self) -> Group:
        if not self._pass.due:
            return Group(self._bars)
        with self._lock:
            now, width = time.monotonic(), self._console.width
            lines, following = [self._pass.render(now)], self._pass.find_next()
            lines += [part for text in self._pass.list_waiting(now) for part in fold_line(text, width, 2)]
        lines += [f"next: {fit_name(name_step(following), width - len('next: '))}"] if following else []
        text = "\n".join(map(escape_line, lines))
        return Group(Text(text, no_wrap=True, overflow="ellipsis"), self._bars)

    @property
    def _room(self) -> int:
        return self._console.width - self._taken

    def _drop(self, address: Address) -> None:
        task = self._tasks.pop(address, None)
        if task is not None:
            self._bars.remove_task(task)

    def _print(self, text: str) -> None:
        self._console.print(Text.from_ansi(fold(escape_output(text), self._console.width)))
