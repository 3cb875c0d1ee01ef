"""`audit` proves a commit from git alone; `sign` signs its records."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from pathlib import Path

import click

from reconciler.cli.shared.options import (
    ExistingPath,
    busy_option,
    complete_refs,
    json_option,
    reporting_options,
    takes,
)
from reconciler.cli.shared.output import choose_paint, say, say_json, say_report
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.history.audit import audit
from reconciler.history.signatures import add_signatures
from reconciler.history.snapshot import read_snapshot
from reconciler.plan.select import parse
from reconciler.record.index import load
from reconciler.record.signing import find_signer, list_signature_paths, sign_record
from reconciler.render.colour import Paint, Tone
from reconciler.render.documents import render_document
from reconciler.render.progress import Lines
from reconciler.resource.quantities import show_count
from reconciler.storage import git
from reconciler.storage.event_log import add_context, facts, open_log
from reconciler.storage.files import RepositoryLock
from reconciler.storage.leftovers import sweep_repository

_SELECTORS = click.Argument(["selectors"], nargs=-1, metavar="[SELECTOR]...")


@click.command("sign")
@takes([_SELECTORS, json_option()])
def sign_command(selectors: tuple[str, ...], as_json: bool) -> int:
    """Sign records that have no signature yet: those made before `signing: {sign: true}`, imported, or adopted.

    Uses the key and program of git's configuration (gpg.format, user.signingkey). The signer vouches for the record;
    `audit` names the signer.
    """
    paths, chosen = find_repository(), parse(selectors)
    with RepositoryLock(paths, purpose="signing of records").acquire():
        sweep_repository(paths)
        summaries = {s.id: s for group in load(paths).recorded.by_key.values() for s in group}
        due = [
            i for i, s in sorted(summaries.items()) if chosen.matches(s.address) and not list_signature_paths(paths, i)
        ]
        signer = find_signer(paths.root) if due else None
        signatures = [sign_record(paths, identity, signer).relative_to(paths.root) for identity in due if signer]
    document = render_document("sign", signed=len(signatures), paths=signatures)
    signed = f"Signed {show_count(len(signatures), 'record')}."
    say_report(document, signed if signatures else "Nothing to sign: every record has a signature.", as_json=as_json)
    return IN_SYNC


# Render an audit as text and JSON.

_ALWAYS = frozenset(Proof) - {Proof.ACCEPTED}  # counted even if there are none
_TONES = {
    Proof.PROVEN: Tone.GOOD,
    Proof.ATTESTED: Tone.GOOD,
    Proof.ACCEPTED: Tone.DOUBT,
    Proof.MISSING: Tone.DOUBT,
    Proof.CONTRADICTED: Tone.BAD,
}


def render_audit_text(audit: AuditReport, paint: Paint, *, everything: bool) -> str:
    """List the unproven claims first, in full; count the proven ones by cell, or list them with ``everything``."""
    lines = [f"audit of {audit.commit[:12]}: {show_count(audit.records, 'record')}, {show_count(audit.logs, 'log')}"]
    cells: dict[str, list[Claim]] = {}
    for claim in audit.claims:
        cells.setdefault(claim.where, []).append(claim)
    for where, claims in cells.items():
        proofs = Counter(claim.proof for claim in claims)
        counts = ", ".join(paint(f"{proofs[p]} {p}", _TONES[p]) for p in Proof if proofs[p])
        marks = ", ".join(audit.marks.get(where, ()))
        lines.append(f"{where}: {counts}" + (f"  {paint(marks, Tone.DOUBT)}" if marks else ""))
        for claim in claims:
            if everything or claim.proof in (Proof.CONTRADICTED, Proof.MISSING, Proof.ACCEPTED):
                lines.append(f"  {paint(f'{claim.proof:<12}', _TONES[claim.proof])} {claim.what}: {claim.detail}")
    total = Counter(claim.proof for claim in audit.claims)
    lines.append(", ".join(f"{total[proof]} {proof}" for proof in Proof if total[proof] or proof in _ALWAYS) + ".")
    return "\n".join(lines)


log = logging.getLogger(__name__)
_LOGGED = 200  # maximum number of logged claims
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
def audit_command(
    at: str, signers: Path | None, rescore: bool, rerun: tuple[str, ...], busy: bool, as_json: bool, show_all: bool
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
            from reconciler.history.rerun import rescore_runs

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
        head = {"commit": found.commit, "proof": found.proof, "records": found.records, "logs": found.logs}
        say_json(render_document("audit", **head, marks=found.marks, claims=found.claims))
    else:
        say(render_audit_text(found, choose_paint(), everything=show_all))
    return IN_SYNC if found.proof in (Proof.PROVEN, Proof.ATTESTED) else NOT_IN_SYNC


def _log_claims(found: AuditReport) -> None:
    """Log the unproven claims, which the report lists in full, and the number of claims of each kind."""
    unproven = (claim for claim in found.claims if claim.proof in (Proof.MISSING, Proof.CONTRADICTED))
    for claim in islice(unproven, _LOGGED):
        claim_facts = facts(where=claim.where, what=claim.what, proof=claim.proof.value, detail=claim.detail)
        log.warning("claim not proven", extra=claim_facts)
    counts = Counter(claim.proof.value for claim in found.claims)
    log.info("audit ended", extra=facts(commit=found.commit, proof=found.proof.value, **counts))
