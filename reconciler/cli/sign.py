"""`reconcile sign`: sign records that have no signature yet."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.plan.select import parse
from reconciler.record.index import load
from reconciler.record.signing import find_signer, list_signature_paths, sign_record
from reconciler.render.documents import render_document
from reconciler.resource.quantities import show_count
from reconciler.storage.files import Lock
from reconciler.storage.leftovers import sweep_repository

_SELECTORS = click.Argument(["selectors"], nargs=-1, metavar="[SELECTOR]...")


@click.command("sign")
@takes([_SELECTORS, json_option()])
def command(selectors: tuple[str, ...], as_json: bool) -> int:
    """Sign records that have no signature yet: those made before `signing: {sign: true}`, imported, or adopted.

    Uses the key and program of git's configuration (gpg.format, user.signingkey). The signer vouches for the record;
    `audit` names the signer.
    """
    paths, chosen = find_repository(), parse(selectors)
    with Lock(paths.pass_lock, purpose="signing of records").acquire():
        sweep_repository(paths)
        summaries = {s.id: s for group in load(paths).recorded.by_key.values() for s in group}
        due = [
            i for i, s in sorted(summaries.items()) if chosen.matches(s.address) and not list_signature_paths(paths, i)
        ]
        signer = find_signer(paths.root) if due else None
        signatures = [sign_record(paths, identity, signer).relative_to(paths.root) for identity in due if signer]
    if as_json:
        say_json(render_document("sign", signed=len(signatures), paths=[str(path) for path in signatures]))
    else:
        say(
            f"Signed {show_count(len(signatures), 'record')}."
            if signatures
            else "Nothing to sign: every record has a signature."
        )
    return IN_SYNC
