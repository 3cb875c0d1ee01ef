"""`push` and `pull`: copy objects that git does not store to and from a remote store."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from msgspec import Struct

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import is_quiet, say, say_json, use_colour
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC, LockedError, ReconcilerError, StoreError
from reconciler.plan.select import parse
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.record.index import load
from reconciler.resource.embargo import explain_refusal, make_embargo, show_embargo
from reconciler.resource.quantities import show_count, show_size
from reconciler.resource.settings import SubmissionSettings
from reconciler.spec.locations import LISTED, may_be_sent
from reconciler.storage.files import Lock, RepositoryPaths, ignore_work
from reconciler.storage.leftovers import sweep_folders
from reconciler.storage.machine_locks import make_machine_lock
from reconciler.stores.remote import Remote, list_option_variables, open_remote
from reconciler.stores.transfer import (
    ObjectRef,
    Transfer,
    TransferResult,
    TransferStatus,
    foresee_transfer,
    list_pull_due,
    list_push_due,
    list_wanted,
    pull,
    push,
)

# Render a push or pull as text and JSON.

VERSION = 1
_DONE = {"push": "pushed", "pull": "pulled"}


class TransferReport(Struct, frozen=True):
    command: str
    store: str
    url: str
    ended: tuple[TransferResult, ...]
    dry_run: bool = False


def render_text(report: TransferReport) -> str:
    """List the problems first, each by name; then the counts."""
    lines = []
    for item in report.ended:
        if item.fate in (TransferStatus.ABSENT, TransferStatus.WRONG):
            what = item.what
            lines.append(
                f"{item.fate:<7} {what.address}: {what.name} ({show_size(what.size)}), {what.sha256[:12]}: {item.why}"
            )
    moved = [item.what.size for item in report.ended if item.fate is TransferStatus.MOVED]
    done = f"to be {_DONE[report.command]}" if report.dry_run else _DONE[report.command]
    parts = [f"{show_count(len(moved), 'object')} ({show_size(sum(moved))}) {done}"]
    counts = Counter(item.fate for item in report.ended)
    where = "there" if report.command == "push" else "here"
    parts += [f"{counts[TransferStatus.PRESENT]} already {where}"] if counts[TransferStatus.PRESENT] else []
    parts += [f"{counts[fate]} {fate}" for fate in (TransferStatus.ABSENT, TransferStatus.WRONG) if counts[fate]]
    lines.append(f"{report.store}: {', '.join(parts)}.")
    return "\n".join(lines)


def render_document(report: TransferReport) -> dict[str, Any]:
    counts = Counter(item.fate for item in report.ended)
    return {
        "version": VERSION,
        "report": report.command,
        "command": report.command,
        "store": report.store,
        "url": report.url,
        "dry_run": report.dry_run,
        "counts": {str(fate): counts[fate] for fate in TransferStatus},
        "bytes": sum(item.what.size for item in report.ended if item.fate is TransferStatus.MOVED),
        "objects": [
            {
                "sha256": item.what.sha256,
                "size": item.what.size,
                "name": item.what.name,
                "address": str(item.what.address),
                "fate": str(item.fate),
                "why": item.why,
            }
            for item in report.ended
        ],
    }


_ASKED_EVERY = 0.5  # seconds


class ChosenStore(Struct, frozen=True):
    """A declared store, or one given by its URL. ``submission``: the settings of the submission that uses it."""

    name: str
    url: str
    options: Mapping[str, object]
    submission: SubmissionSettings

    def open(self) -> Remote:
        """Open the store, after checking that the owner of the machine allows each environment variable that it would
        receive: the author of the spec, possibly of a pull request, chose the store and its variables. Raises
        StoreError."""
        for variable in list_option_variables(self.options):
            if not may_be_sent(variable, os.environ):
                fix = f"if the store may know its value: export {LISTED}={variable}"
                raise StoreError(f"the environment variable {variable} would be sent to the store", fix=fix)
        return open_remote(self.url, self.options)


def add_transfer_options() -> list[click.Parameter]:
    return [
        click.Argument(["selectors"], nargs=-1, metavar="[SELECTOR]..."),
        click.Option(
            ["--parallel"],
            type=click.IntRange(1, 64),
            default=4,
            show_default=True,
            metavar="N",
            help="Concurrent transfers.",
        ),
        click.Option(["--dry-run"], is_flag=True, help="Only show what would be copied."),
        click.Option(
            ["--wait"],
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            help="Wait this long for a timed run, or another transfer, to end.",
        ),
        json_option(),
    ]


def choose_store(paths: RepositoryPaths, word: str, option: str) -> ChosenStore:
    """Choose a store by name, by URL, or the only one declared."""
    memory = PlanCache.of(paths)
    submission = memory.load_desired(Options()).submission
    memory.save()
    declared = submission.stores
    if "://" in word:
        return ChosenStore(word, word, {}, submission)
    if not declared:
        fix = "declare one, such as `stores: {lab: {url: s3://bucket/folder}}` under spec:, or pass its url"
        raise ReconcilerError("the spec declares no store", fix=fix)
    if not word and len(declared) > 1:
        raise ReconcilerError(f"{len(declared)} stores are declared", fix=f"{option} {' | '.join(declared)}")
    name = word or next(iter(declared))
    if name not in declared:
        raise ReconcilerError(f"no store {name!r} is declared", fix=f"declared: {', '.join(declared)}")
    return ChosenStore(name, declared[name].url, declared[name].options, submission)


@contextlib.contextmanager
def take_turns(paths: RepositoryPaths, wait: float) -> Iterator[Callable[[], None]]:
    """Wait until no run is timed on the machine, and yield a function to call between pieces, which pauses while one
    is. The lock excludes only other transfers of this repository, which would use the same partial files. A store may
    take arbitrarily long, and other users' runs must not wait for it."""
    transfer = Lock(paths.transfer_lock, purpose="transfer of objects")
    try:
        with transfer.acquire(wait=wait):
            make_machine_lock("quiet").acquire(wait=wait).release()
            sweep_folders((paths.work,))
            yield PauseWhileTimed()
    except LockedError as error:
        what = "a timed run or another transfer is in progress on this machine"
        raise LockedError(f"{what}: {error.message}", fix="wait for it: --wait SECONDS") from error


class PauseWhileTimed(Struct):
    """Pause a transfer while a run is timed on this machine; called between two pieces."""

    asked: float = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self.asked + _ASKED_EVERY:
            return
        while True:
            with contextlib.suppress(LockedError):
                make_machine_lock("quiet").acquire().release()
                self.asked = time.monotonic()
                return
            time.sleep(_ASKED_EVERY)


def carry_out(
    command: str,
    store: ChosenStore,
    transfer: Transfer,
    due: Sequence[ObjectRef],
    rest: Sequence[TransferResult],
    move: Callable[[], list[TransferResult]],
    *,
    as_json: bool,
    dry_run: bool = False,
) -> int:
    """Copy with a progress view, print the report, and return the exit code."""
    total = sum(item.size for item in due)
    ended: list[TransferResult] = []
    if due:
        try:
            from reconciler.render.live import open_view

            with open_view(total, colour=use_colour(sys.stderr), quiet=is_quiet()) as report:
                transfer.report = report
                ended = move()
        except KeyboardInterrupt:
            say("Interrupted. Run the same command again to continue.", err=True)
            return INTERRUPTED
    transfer_report = TransferReport(
        command, show_embargo(store.name), show_embargo(store.url), (*ended, *rest), dry_run
    )
    if as_json:
        say_json(render_document(transfer_report))
    else:
        say(render_text(transfer_report))
    bad = any(item.fate in (TransferStatus.ABSENT, TransferStatus.WRONG) for item in transfer_report.ended)
    return NOT_IN_SYNC if bad or (dry_run and due) else IN_SYNC


_TO = click.Option(["--to"], default="", metavar="NAME|URL", help="The store. Default: the only one declared.")
_PUSH_DEEP = click.Option(["--deep"], is_flag=True, help="Verify objects in the store, and replace damaged ones.")


@click.command("push")
@takes([_TO, _PUSH_DEEP, *add_transfer_options()])
def push_command(
    to: str, deep: bool, selectors: tuple[str, ...], parallel: int, dry_run: bool, wait: float, as_json: bool
) -> int:
    """Copy the objects that records name and git does not contain (engines, raw logs, data) to a remote store.

    Copies only what is missing there. Exits with 0 when the store has them all, with 2 when one is missing in both
    places or damaged, with 1 when the store fails: the same command then continues.
    """
    paths = find_repository()
    store = choose_store(paths, to, "--to")
    why = explain_refusal(make_embargo(store.submission), store.url, datetime.now(UTC).date())
    if why:
        raise StoreError(f"nothing is pushed: {why}", fix="add it to embargo.allow if it is private, or wait")
    with take_turns(paths, 0.0 if dry_run else wait) as turn:
        transfer = Transfer(paths, store.open(), turn=turn)
        wanted = list_wanted(load(paths).recorded, parse(selectors).matches)
        due, rest, there = list_push_due(transfer, wanted, deep=deep, parallel=parallel)

        def move() -> list[TransferResult]:
            if dry_run:
                return [TransferResult(item, TransferStatus.MOVED) for item in due]
            return push(transfer, due, there, parallel=parallel)

        return carry_out("push", store, transfer, due, rest, move, as_json=as_json, dry_run=dry_run)


_FROM = click.Option(["--from", "source"], default="", metavar="NAME|URL", help="Default: the only store declared.")

_PULL_DEEP = click.Option(["--deep"], is_flag=True, help="Verify local objects, and fetch damaged ones again.")


@click.command("pull")
@takes([_FROM, _PULL_DEEP, *add_transfer_options()])
def pull_command(
    source: str, deep: bool, selectors: tuple[str, ...], parallel: int, dry_run: bool, wait: float, as_json: bool
) -> int:
    """Fetch the objects that records name and that are missing here. Selectors choose: kind=Engine, system=h200x8.

    An object is accepted only if its bytes have the digest that the record names. Exits with 0 when all are here, with
    2 when the store has no copy of one or has other bytes, with 1 when the store fails: the same command then
    continues.
    """
    paths = find_repository()
    store = choose_store(paths, source, "--from")
    ignore_work(paths)
    with take_turns(paths, 0.0 if dry_run else wait) as turn:
        transfer = Transfer(paths, store.open(), turn=turn)
        wanted = list_wanted(load(paths).recorded, parse(selectors).matches)
        due, rest = list_pull_due(paths, wanted, deep=deep)

        def move() -> list[TransferResult]:
            return (foresee_transfer if dry_run else pull)(transfer, due, parallel=parallel)

        return carry_out("pull", store, transfer, due, rest, move, as_json=as_json, dry_run=dry_run)
