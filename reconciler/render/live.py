"""The events of a pass on a terminal: finished steps scroll by, those under way stay below with a bar."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from reconciler.execute.outcome import Event, Message, Outcome, StepProgress, StepStarted
from reconciler.render.colour import Paint, show_coloured, show_plain
from reconciler.render.progress import (
    fit_name,
    fit_progress,
    measure_pace,
    name_step,
    render_outcome_text,
    render_started_text,
)
from reconciler.resource.kinds import Address
from reconciler.storage.escaping import escape_line, escape_output

_WIDE, _WIDE_BAR, _NARROW_BAR = 100, 24, 10  # columns


class Live:
    """A context manager with the one method that a pass calls. Leaving it by an exception leaves the terminal whole."""

    def __init__(self, *, colour: bool = True) -> None:
        self._paint: Paint = show_coloured if colour else show_plain
        console = Console(no_color=not colour, highlight=False, soft_wrap=True)
        bar = _WIDE_BAR if console.width >= _WIDE else _NARROW_BAR
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar),
            TextColumn("{task.fields[now]}", markup=False),
        )
        self._is_side_by_side = bar + 2  # and a blank on both sides
        self._bars = Bars(*columns, console=console, transient=True, refresh_per_second=8)
        self._tasks: dict[Address, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._bars.stop()

    def report(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, attempt=attempt):
                began = escape_line(render_started_text(step, attempt))
                name = escape_line(fit_name(name_step(step), self._room - len(began)))
                task = self._bars.add_task(name, total=None, now=began)
                self._drop(step.change.address)
                self._tasks[step.change.address] = task
            case StepProgress(step=step, progress=progress, minimum=minimum):
                task_id = self._tasks.get(step.change.address)
                if task_id is not None:
                    fraction = measure_pace(progress, minimum).fraction
                    total = None if fraction is None else 1.0
                    name, now = map(escape_line, fit_progress(name_step(step), event, self._room))
                    self._bars.update(task_id, description=name, total=total, completed=fraction or 0.0, now=now)
            case Outcome(step=step):
                self._drop(step.change.address)
                self._print(f"{name_step(step)}  {render_outcome_text(event, self._paint)}")
            case Message(text=text):
                self._print(text)

    @property
    def _room(self) -> int:
        return self._bars.console.width - self._is_side_by_side

    def _drop(self, address: Address) -> None:
        task = self._tasks.pop(address, None)
        if task is not None:
            self._bars.remove_task(task)

    def _print(self, text: str) -> None:
        self._bars.console.print(Text.from_ansi(escape_output(text)))
