"""`reconcile logs CELL --follow`: what runs of a cell print while they are under way."""

from __future__ import annotations

import time
from collections.abc import Callable

from reconciler.cli.shared.output import say, say_at_once
from reconciler.execute.log_follower import LogFollower, Printed
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.reconcile.remote_attempts.sender import watch_jobs
from reconciler.render.causes import label
from reconciler.render.lines import EVERY
from reconciler.render.progress import render_progress_of
from reconciler.resource.kinds import Address, Cell
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.trial_paths import TrialPaths

_PAUSE = 0.5  # seconds between two looks


def follow(paths: RepositoryPaths, cell: Cell, *, trials: bool) -> None:
    """Until no pass is under way, and no job of the cell is in a queue. Ctrl-C ends it at any time."""
    trial_paths = TrialPaths(paths.root, paths.apart)
    folders = (trial_paths.attempts,) if trials else (paths.attempts, trial_paths.attempts)
    list_jobs = watch_jobs(paths)

    def describe_state() -> str:
        running = find_pass_in_progress(paths)
        if running is not None:
            return str(running)
        return "In a queue." if any(item.address.cell == cell for item in list_jobs()) else ""

    print_progress(
        LogFollower(folders, lambda address: address.cell == cell), describe_state, lambda: time.sleep(_PAUSE)
    )


def print_progress(
    follower: LogFollower,
    describe_state: Callable[[], str],
    pause: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Output goes to standard output, remarks to standard error. ``describe_state``: how far the pass is;
    "" ends it."""
    shown_at: dict[Address, float] = {}
    seen, before = False, ""
    while True:
        state = describe_state()  # before the look, so that what was printed until then is seen
        for printed in follower.look():
            seen = True
            _show(printed, shown_at, clock())
        if not state:
            break
        if not seen and state != before:
            say(state, err=True)
            before = state
        pause()
    follower.close()
    say("No pass is under way any more." if seen else "No pass is under way, and nothing of this cell is.", err=True)


def _show(printed: Printed, shown_at: dict[Address, float], now: float) -> None:
    name = label(printed.address)
    if printed.began:
        say(f"{name}: {printed.log}", err=True)
        shown_at[printed.address] = now
    if printed.data:
        say_at_once(printed.data.decode("utf-8", "surrogateescape").removesuffix("\n"))
        shown_at[printed.address] = now
    elif printed.progress is not None and now - shown_at.get(printed.address, now) >= EVERY:
        say(f"{name}: {render_progress_of(printed.progress)}", err=True)
        shown_at[printed.address] = now
