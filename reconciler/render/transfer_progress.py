"""How far a transfer is: a bar on a terminal, else a line now and then; on standard error, so that a report on standard
output stays clean."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from reconciler.render.lines import EVERY
from reconciler.resource.quantities import show_duration, show_size


@contextlib.contextmanager
def open_view(total: int, *, colour: bool, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the bytes that passed, of ``total``. ``quiet``: nothing is shown."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    columns = (BarColumn(32), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True, no_color=not colour, highlight=False)
    with Progress(*columns, console=console, transient=True, refresh_per_second=8) as bars:
        task = bars.add_task("", total=total)
        yield lambda passed: bars.update(task, completed=passed)


def _lines(total: int) -> Callable[[int], None]:
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
