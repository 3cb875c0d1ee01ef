"""What `push` and `pull` share: which store, which objects, progress, and the report at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from reconciler.cli.door import door
from reconciler.cli.options import json_option
from reconciler.cli.output import colour, say, say_json
from reconciler.desired.state import submission_settings
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC, LockedError, ReconcilerError
from reconciler.files import Lock, Places, machine_lock
from reconciler.look import Memory, Options
from reconciler.plan.select import parse
from reconciler.record.index import load
from reconciler.record.objects import Fate, Moved, Wanted
from reconciler.record.remote import Remote, open_remote
from reconciler.record.transfer import Transfer, wanted
from reconciler.render import transfer as views
from reconciler.resource.embargo import shown


@dataclass(frozen=True, slots=True)
class Store:
    """A declared store, or one named by its url alone. ``settings``: the submission's, by flat name."""

    name: str
    url: str
    options: dict[str, Any]
    settings: dict[str, Any]

    def open(self) -> Remote:
        return open_remote(self.url, {name: _option(name, value) for name, value in self.options.items()})


def transfer_options() -> list[click.Parameter]:
    return [
        click.Argument(["selectors"], nargs=-1, metavar="[SELECTOR]..."),
        click.Option(
            ["--parallel"], type=click.IntRange(1, 64), default=4, show_default=True, help="Objects under way at once."
        ),
        click.Option(["--dry-run"], is_flag=True, help="Only say what would be copied."),
        click.Option(
            ["--wait"],
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            help="Wait this long for a timed run, or another transfer, to end.",
        ),
        json_option(),
    ]


def chosen_store(places: Places, word: str, option: str) -> Store:
    """By name, by url, or the only one declared."""
    memory = Memory.of(places)
    settings = submission_settings(memory.desired(Options()))
    memory.save()
    declared: dict[str, Any] = settings.get("stores") or {}
    if "://" in word:
        return Store(word, word, {}, dict(settings))
    if not declared:
        fix = "declare one, such as `stores: {lab: {url: s3://bucket/folder}}` under spec:, or name its url"
        raise ReconcilerError("the spec declares no store", fix=fix)
    if not word and len(declared) > 1:
        raise ReconcilerError(f"{len(declared)} stores are declared", fix=f"{option} {' | '.join(declared)}")
    name = word or next(iter(declared))
    if name not in declared:
        raise ReconcilerError(f"no store {name!r} is declared", fix=f"declared: {', '.join(declared)}")
    return Store(name, declared[name]["url"], declared[name]["options"], dict(settings))


def _option(name: str, value: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return value
    variable = value[1]
    if not os.environ.get(variable):
        raise ReconcilerError(f"option {name} of the store: {variable} is not set", fix=f"export {variable}=…")
    return os.environ[variable]


def objects(places: Places, selectors: Sequence[str]) -> tuple[Wanted, ...]:
    """What records name, as far as it is selected."""
    return wanted(load(places).recorded, parse(selectors).matches)


@contextlib.contextmanager
def taking_turns(places: Places, wait: float) -> Iterator[None]:
    """Copying loads the machine, so it takes turns with timed runs; and with another transfer here, whose parts it
    would share."""
    transfer, quiet = Lock(places.transfer_lock, purpose="transfer of objects"), machine_lock("quiet")
    try:
        held = transfer.acquire(wait=wait), quiet.acquire(wait=wait)
    except LockedError as error:
        transfer.release()
        what = "a timed run, or another transfer, is under way on this machine"
        raise LockedError(f"{what}: {error.message}", fix="--wait SECONDS waits for it") from error
    with held[0], held[1]:
        yield


def carry_out(
    command: str,
    store: Store,
    transfer: Transfer,
    due: Sequence[Wanted],
    rest: Sequence[Moved],
    move: Callable[[], list[Moved]],
    *,
    as_json: bool,
    dry_run: bool = False,
) -> int:
    """Copy with a view of it, then report. Gives the exit code."""
    total = sum(item.size for item in due)
    ended: list[Moved] = []
    if due:
        try:
            with door("reconciler.render.transferring").view(total, colour=colour(sys.stderr)) as tell:
                transfer.tell = tell
                ended = move()
        except KeyboardInterrupt:
            click.echo("Interrupted. What was copied stays; the same command goes on from there.", err=True)
            return INTERRUPTED
    report = views.Report(command, shown(store.name), shown(store.url), (*ended, *rest), dry_run)
    if as_json:
        say_json(views.document(report))
    else:
        say(views.text(report))
    bad = any(item.fate in (Fate.ABSENT, Fate.WRONG) for item in report.ended)
    return NOT_IN_SYNC if bad or (dry_run and due) else IN_SYNC
