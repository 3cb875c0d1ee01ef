"""`reconcile push`: copy objects to a store elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from reconciler.cli.shared.options import takes
from reconciler.cli.shared.repository import find_repository
from reconciler.cli.shared.transfers import add_transfer_options, carry_out, choose_store, list_objects, take_turns
from reconciler.errors import StoreError
from reconciler.record.objects import TransferResult, TransferStatus
from reconciler.record.transfer import Transfer, list_push_due, push
from reconciler.resource.embargo import explain_refusal, make_embargo

_TO = click.Option(["--to"], default="", metavar="NAME|URL", help="The store. Default: the only one declared.")
_DEEP = click.Option(
    ["--deep"], is_flag=True, help="Read back what the store already has, and replace what is damaged."
)


@click.command("push")
@takes([_TO, _DEEP, *add_transfer_options()])
def command(
    to: str,
    deep: bool,
    selectors: tuple[str, ...],
    parallel: int,
    dry_run: bool,
    wait: float,
    as_json: bool,
) -> int:
    """Copy the objects that records name and git does not contain (engines, raw logs, data) to a store elsewhere.

    Copies only what is missing there. Exits with 0 when the store has them all, with 2 when one is neither here nor
    there or is damaged, with 1 when the store fails: the same command then continues.
    """
    paths = find_repository()
    store = choose_store(paths, to, "--to")
    why = explain_refusal(make_embargo(store.submission), store.url, datetime.now(UTC).date())
    if why:
        raise StoreError(f"nothing is pushed: {why}", fix="add it to embargo.allow if it is private, or wait")
    with take_turns(paths, 0.0 if dry_run else wait) as turn:
        transfer = Transfer(paths, store.open(), turn=turn)
        due, rest, there = list_push_due(transfer, list_objects(paths, selectors), deep=deep, parallel=parallel)

        def move() -> list[TransferResult]:
            if dry_run:
                return [TransferResult(item, TransferStatus.MOVED) for item in due]
            return push(transfer, due, there, parallel=parallel)

        return carry_out("push", store, transfer, due, rest, move, as_json=as_json, dry_run=dry_run)
