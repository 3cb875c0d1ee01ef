"""`reconcile push`: copy objects to a store elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from reconciler.cli.options import takes
from reconciler.cli.places import places_for
from reconciler.cli.transferring import carry_out, chosen_store, objects, taking_turns, transfer_options
from reconciler.errors import StoreError
from reconciler.record.objects import Fate, Moved
from reconciler.record.transfer import Transfer, push, push_due
from reconciler.resource.embargo import embargo_of, refusal

_TO = click.Option(["--to"], default="", metavar="NAME|URL", help="The store. Default: the only one declared.")
_DEEP = click.Option(["--deep"], is_flag=True, help="Read back what is there already, and replace what is damaged.")


@click.command("push")
@takes([_TO, _DEEP, *transfer_options()])
def command(
    to: str,
    deep: bool,
    selectors: tuple[str, ...],
    parallel: int,
    dry_run: bool,
    wait: float,
    as_json: bool,
) -> int:
    """Copy the objects that records name and git does not hold (engines, raw logs, data) to a store elsewhere.

    Only what is missing there. Ends with 0 when the store has them all, with 2 when one is neither here nor there or is
    damaged, with 1 when the store fails: the same command then goes on.
    """
    places = places_for()
    store = chosen_store(places, to, "--to")
    why = refusal(embargo_of(store.settings), store.url, datetime.now(UTC).date())
    if why:
        raise StoreError(f"nothing is pushed: {why}", fix="add it to embargo.allow if it is private, or wait")
    with taking_turns(places, 0.0 if dry_run else wait):
        transfer = Transfer(places, store.open())
        due, rest, there = push_due(transfer, objects(places, selectors), deep=deep, parallel=parallel)

        def move() -> list[Moved]:
            if dry_run:
                return [Moved(item, Fate.MOVED) for item in due]
            return push(transfer, due, there, parallel=parallel)

        return carry_out("push", store, transfer, due, rest, move, as_json=as_json, dry_run=dry_run)
