"""`reconcile watch`: run a pass whenever something changes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import click

from reconciler.cli.history import count_uncommitted, describe_uncommitted
from reconciler.cli.shared.options import busy_option, selection_options, split_words, takes
from reconciler.cli.shared.output import choose_paint, is_quiet, say_at_once
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import stop_cleanly
from reconciler.errors import IN_SYNC
from reconciler.plan.select import parse
from reconciler.watch.report import WatchReport, render_systemd_unit
from reconciler.watch.settings import WatchSettings
from reconciler.watch.settings import parse as parse_window
from reconciler.watch.watch import watch

_TIME = click.FloatRange(min=0.01)
_DEFAULTS = WatchSettings()
_OPTIONS: list[click.Parameter] = [
    click.Option(["--observe"], multiple=True, metavar="SELECTOR", help="Only report these cells. May be repeated."),
    click.Option(
        ["--freeze"],
        multiple=True,
        metavar="HH:MM-HH:MM",
        help="Build and run nothing in these hours, local time. May be repeated.",
    ),
    click.Option(
        ["--in-flight"],
        type=click.Choice(["finish", "stop"]),
        default="finish",
        show_default=True,
        help="Let a running step finish, or stop it, when the spec changes.",
    ),
    click.Option(["--commit"], is_flag=True, help="Commit new records, and nothing else, after each pass."),
    click.Option(["--push"], default="", metavar="REMOTE", help="Push after each commit; never by force."),
    click.Option(["--remote"], default="", metavar="REMOTE", help="Follow this remote's branch; only by fast-forward."),
    click.Option(
        ["--poll"],
        type=_TIME,
        default=_DEFAULTS.poll,
        show_default=True,
        metavar="SECONDS",
        help="Poll the remote so often.",
    ),
    click.Option(
        ["--debounce"],
        type=_TIME,
        default=_DEFAULTS.debounce,
        show_default=True,
        metavar="SECONDS",
        help="Wait for this long without changes before a pass.",
    ),
    click.Option(
        ["--resync"],
        type=_TIME,
        default=_DEFAULTS.resync,
        show_default=True,
        metavar="SECONDS",
        help="Check for changes at least this often.",
    ),
    click.Option(["--events"], default="", metavar="FILE|-", help="Append events as JSON lines; - is standard output."),
    click.Option(["--exec", "hook"], default="", metavar="COMMAND", help="Run it after plans, passes and problems."),
    click.Option(
        ["--health"], type=click.IntRange(1, 65535), default=None, metavar="PORT", help="Serve the state on 127.0.0.1."
    ),
    click.Option(["--systemd"], is_flag=True, help="Print a systemd unit for this command line, and exit."),
]


@click.command("watch")
@takes([split_words(), *selection_options(), busy_option(), *_OPTIONS])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    busy: bool,
    observe: tuple[str, ...],
    freeze: tuple[str, ...],
    in_flight: str,
    commit: bool,
    push: str,
    remote: str,
    poll: float,
    debounce: float,
    resync: float,
    events: str,
    hook: str,
    health: int | None,
    systemd: bool,
) -> int:
    """Make a pass whenever the specs, the files that they name, the records, the rendered tree or the branch change,
    until Ctrl-C or SIGTERM.

    A change to the spec that alters a resolved value supersedes what is queued; no other change does. The hook
    gets one JSON object on its standard input, and ten seconds.
    """
    paths, options = find_asked_cells(words, exclude=exclude, only=only, deep=deep, busy=busy)
    settings = WatchSettings(
        options=options,
        debounce=debounce,
        resync=resync,
        stop=in_flight == "stop",
        observed=tuple(parse([word]) for word in observe),
        windows=tuple(map(parse_window, freeze)),
        commit=commit,
        remote=remote,
        poll=poll,
        push=push,
        health=health or 0,
    )
    if systemd:
        program, *typed = sys.argv
        say_at_once(render_systemd_unit(paths.root, [str(Path(program).resolve()), *_list_unit_words(typed)]))
        return IN_SYNC
    with ExitStack() as stack:
        stream: TextIO | None = sys.stdout if events == "-" else None
        if events and stream is None:
            stream = stack.enter_context(Path(events).open("a", encoding="utf-8"))
        to_stderr = stream is sys.stdout
        report = WatchReport(
            lambda text: say_at_once(text, err=to_stderr),
            settings,
            stream=stream,
            hook=shlex.split(hook),
            folder=paths.root,
            paint=choose_paint(),
            quiet=is_quiet(),
        )
        try:
            with stop_cleanly():
                watch(paths, settings, report)
        except KeyboardInterrupt:
            count = count_uncommitted(paths) if commit else 0
            more = f"; {describe_uncommitted(count)}" if count else ""
            report.say("stopped", f"stopped; recorded results are kept{more}", uncommitted=count)
    return IN_SYNC


def _list_unit_words(arguments: Iterable[str]) -> Iterator[str]:
    """Yield a command line as typed, without --systemd and -C: the unit starts in the repository."""
    words = iter(arguments)
    for word in words:
        if word == "-C":
            next(words, None)
        elif word != "--systemd":
            yield word
