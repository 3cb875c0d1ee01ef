"""`reconcile audit`: prove a commit from git alone."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from pathlib import Path

import click

from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import busy_option, complete_refs, reporting_options, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.claims import AuditReport, Proof
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.history.audit import audit
from reconciler.history.signatures import add_signatures
from reconciler.history.snapshot import read_snapshot
from reconciler.render import audit as views
from reconciler.render.lines import Lines
from reconciler.storage import git
from reconciler.storage.event_log import add_context, facts, open_log

log = logging.getLogger(__name__)
_LOGGED = 200  # claims
_RESCORE = click.Option(
    ["--rescore"], is_flag=True, help="Score the stored accuracy logs again, which proves the accuracy. Needs `pull`."
)
_RERUN = click.Option(
    ["--rerun"],
    multiple=True,
    metavar="SELECTOR",
    help="Measure matching published cells again on a machine like theirs. The repeat never becomes a result.",
)
_SIGNERS = click.Option(
    ["--signers"],
    type=ExistingPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The allowed signers of records, instead of those that the spec or git names.",
)
_AT = click.Option(
    ["--at"], default="HEAD", metavar="COMMIT", shell_complete=complete_refs, help="The commit to audit. Default: HEAD."
)


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

    Each claim ends proven (derived again), attested (the digest fits, and an output states it), accepted (by a
    decision), contradicted or missing. Needs no machine, artifact or network, except to measure or score again. Exits
    with 0 when all is proven or attested, else with 2.
    """
    paths = find_repository(())
    with open_log(paths.log, "audit"):
        seen = read_snapshot(paths.root, git.resolve(paths.root, at))
        add_context(submission=seen.desired.name)
        found = add_signatures(paths.root, seen, audit(paths.root, seen), signers)
        if rescore:
            from reconciler.history.rescore import rescore_runs

            found = rescore_runs(paths, seen, found)
        if rerun:
            from reconciler.cli.shared.run_pass import stop_cleanly
            from reconciler.history.rerun import repeat_runs

            with stop_cleanly():
                view = Lines(lambda line: say(line, err=True))
                repeats = repeat_runs(paths, seen, found, rerun, view.report, busy=busy)
            found = repeats.audit
            for claim, path in repeats.kept:
                say(f"{claim.where}: {claim.detail}\nkept as {path.relative_to(paths.root)}", err=True)
        _log_claims(found)
    if as_json:
        say_json(views.render_document(found))
    else:
        say(views.render_text(found, paint=choose_paint(), everything=show_all))
    return IN_SYNC if found.proof in (Proof.PROVEN, Proof.ATTESTED) else NOT_IN_SYNC


def _log_claims(found: AuditReport) -> None:
    """The log: claims that nothing proves, which the report has all of, and how many there are of each kind."""
    unproven = (claim for claim in found.claims if claim.proof in (Proof.MISSING, Proof.CONTRADICTED))
    for claim in islice(unproven, _LOGGED):
        claim_facts = facts(where=claim.where, what=claim.what, proof=claim.proof.value, detail=claim.detail)
        log.warning("claim not proven", extra=claim_facts)
    counts = Counter(claim.proof.value for claim in found.claims)
    log.info("audit ended", extra=facts(commit=found.commit, proof=found.proof.value, **counts))
