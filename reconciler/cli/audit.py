"""`reconcile audit`: prove a commit from git alone."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler import git
from reconciler.cli.options import busy_option, reporting_options, takes
from reconciler.cli.output import paint, say, say_json
from reconciler.cli.passing import stopping_cleanly
from reconciler.cli.places import places_for
from reconciler.diff.claims import Proof
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.history.audit import audit
from reconciler.history.rerun import repeated
from reconciler.history.rescore import rescored
from reconciler.history.signatures import with_signatures
from reconciler.history.snapshot import snapshot
from reconciler.render import audit as views
from reconciler.render.lines import Lines

_RESCORE = click.Option(
    ["--rescore"], is_flag=True, help="Score the kept accuracy logs again: accuracy is proven. Needs `pull`."
)
_RERUN = click.Option(
    ["--rerun"],
    multiple=True,
    metavar="SELECTOR",
    help="Measure matching published cells again on a machine like theirs. The repeat never becomes a result.",
)
_SIGNERS = click.Option(
    ["--signers"],
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Allowed signers of records, instead of those that the spec or git names.",
)
_AT = click.Option(["--at"], default="HEAD", metavar="COMMIT", help="The commit to audit. Default: HEAD.")


@click.command("audit")
@takes([_AT, _SIGNERS, _RESCORE, _RERUN, busy_option(), *reporting_options()])
def command(
    at: str,
    signers: Path | None,
    rescore: bool,
    rerun: tuple[str, ...],
    busy: bool,
    as_json: bool,
    show_all: bool,
) -> int:
    """Check every record, log, metric, verdict and rendered file of a commit, from its own bytes alone.

    Each claim ends proven (derived again here), attested (the digest fits, and the scorer says so), accepted (somebody
    decided that it counts, which proves nothing), contradicted or missing. Needs no machine, no artifact and no
    network, unless it is to measure or score again. Ends with 0 when all is proven or attested, else with 2.
    """
    places = places_for(())
    seen = snapshot(places.root, git.resolve(places.root, at))
    found = with_signatures(places.root, seen, audit(places.root, seen), signers)
    if rescore:
        found = rescored(places, seen, found)
    if rerun:
        with stopping_cleanly():
            view = Lines(lambda line: click.echo(line, err=True))
            repeats = repeated(places, seen, found, rerun, view.tell, busy=busy)
        found = repeats.audit
        for claim, path in repeats.kept:
            click.echo(f"{claim.where}: {claim.detail}\nkept as {path.relative_to(places.root)}", err=True)
    if as_json:
        say_json(views.document(found))
    else:
        say(views.text(found, paint=paint(), everything=show_all))
    return IN_SYNC if found.proof in (Proof.PROVEN, Proof.ATTESTED) else NOT_IN_SYNC
