"""`reconcile audit`: prove a commit from git alone."""

from __future__ import annotations

import click

from reconciler import git
from reconciler.cli.options import reporting_options, takes
from reconciler.cli.output import paint, say, say_json
from reconciler.cli.places import places_for
from reconciler.diff.claims import Proof
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.history.audit import audit
from reconciler.history.snapshot import snapshot
from reconciler.render import audit as views

_AT = click.Option(["--at"], default="HEAD", metavar="COMMIT", help="The commit to audit. Default: HEAD.")


@click.command("audit")
@takes([_AT, *reporting_options()])
def command(at: str, as_json: bool, show_all: bool) -> int:
    """Check every record, log, metric, verdict and rendered file of a commit, from its own bytes alone.

    Each claim ends proven (derived again here), attested (the digest fits, and the scorer says so), contradicted or
    missing. Needs no machine, no artifact and no network. Ends with 0 when all is proven or attested, else with 2.
    """
    places = places_for(())
    found = audit(places.root, snapshot(places.root, git.resolve(places.root, at)))
    if as_json:
        say_json(views.document(found))
    else:
        say(views.text(found, paint=paint(), everything=show_all))
    return IN_SYNC if found.proof in (Proof.PROVEN, Proof.ATTESTED) else NOT_IN_SYNC
