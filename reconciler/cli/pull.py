"""`reconcile pull`: fetch objects from a store elsewhere."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import takes
from reconciler.cli.shared.repository import find_repository
from reconciler.cli.shared.transfers import add_transfer_options, carry_out, choose_store, list_objects, take_turns
from reconciler.record.objects import TransferResult
from reconciler.record.transfer import Transfer, foresee_transfer, list_pull_due, pull
from reconciler.storage.files import ignore_work

_FROM = click.Option(["--from", "source"], default="", metavar="NAME|URL", help="Default: the only store declared.")

_DEEP = click.Option(["--deep"], is_flag=True, help="Hash what is already here, and fetch again what is damaged.")


@click.command("pull")
@takes([_FROM, _DEEP, *add_transfer_options()])
def command(
    source: str,
    deep: bool,
    selectors: tuple[str, ...],
    parallel: int,
    dry_run: bool,
    wait: float,
    as_json: bool,
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
        due, rest = list_pull_due(paths, list_objects(paths, selectors), deep=deep)

        def move() -> list[TransferResult]:
            return (foresee_transfer if dry_run else pull)(transfer, due, parallel=parallel)

        return carry_out("pull", store, transfer, due, rest, move, as_json=as_json, dry_run=dry_run)
