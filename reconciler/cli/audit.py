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
from reconciler.history.rescore import rescored
from reconciler.history.snapshot import snapshot
from reconciler.render import audit as views

_RESCORE = click.Option(
    ["--rescore"], is_flag=True, help="Score the kept accuracy logs again: accuracy is proven. Needs `pull`."
)
_AT = click.Option(["--at"], default="HEAD", metavar="COMMIT", help="The commit to audit. Default: HEAD.")


@click.command("audit")
@takes([_AT, _RESCORE, *reporting_options()])
def command(at: str, rescore: bool, as_json: bool, show_all: bool) -> int:
    """Check every record, log, metric, verdict and rendered file of a commit, from its own bytes alone.

    Each claim ends proven (derived again here), attested (the digest fits, and the scorer says so), accepted (somebody
    decided that it counts, which proves nothing), contradicted or missing. Needs no machine, no artifact and no
    network, unless it is to measure or score again. Ends with 0 when all is proven or attested, else with 2.
    """
    places = places_for(())
    seen = snapshot(places.root, git.resolve(places.root, at))
    found = audit(places.root, seen)
    if rescore:
        found = rescored(places, seen, found)
    if as_json:
        say_json(views.document(found))
    else:
        say(views.text(found, paint=paint(), everything=show_all))
    return IN_SYNC if found.proof in (Proof.PROVEN, Proof.ATTESTED) else NOT_IN_SYNC
