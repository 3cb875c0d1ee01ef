"""Validates the signatures of a commit's records. A commit without any, whose spec requires none, makes no claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.errors import RepositoryError
from reconciler.history.snapshot import Snapshot
from reconciler.record.signing import SUFFIX, Checked, SignatureStatus, check, read_allowed_signers, read_revoked_keys
from reconciler.resource.records import Record
from reconciler.storage import git
from reconciler.storage.files import RECORDS
from reconciler.storage.leftovers import open_temporary

_PARALLEL = 4


def add_signatures(root: Path, at: Snapshot, audited: AuditReport, signers: Path | None) -> AuditReport:
    """Return the audit with a claim for each existing or required signature. ``signers``: a file used instead of the
    one in the commit's spec or git's configuration; passing it makes signatures required. Raises RepositoryError if it
    is missing."""
    settings = at.desired.submission
    demanded = bool(settings.get("signing.sign")) or signers is not None
    chosen = {cell: list(dict.fromkeys(filter(None, used.all))) for cell, used in at.difference.chosen.items()}
    files = git.list_files_at(root, at.commit, [RECORDS])
    blobs = {path.removeprefix(f"{RECORDS}/"): blob for path, (blob, _) in sorted(files.items())}
    signed = _list_signatures(blobs, {identity for ids in chosen.values() for identity in ids})
    if not demanded and not signed:
        return audited
    with open_temporary("signers") as folder:
        file = _find_signers(root, at, signers, settings.signers, folder)
        checked = _check_signatures(root, at, signed, blobs, file, read_revoked_keys(root))
    claims = list(audited.claims)
    for cell, identities in chosen.items():
        for identity in identities:
            record = at.records[identity]
            if signed.get(identity) or demanded:
                claims.append(_make_claim(str(cell), record, checked.get(identity, ()), known=file is not None))
    return audited.with_claims(claims)


def _list_signatures(blobs: Mapping[str, str], wanted: set[str]) -> dict[str, list[str]]:
    """Return record id → blobs of its signatures. ``blobs``: git's blobs of the record and signature files."""
    found: dict[str, list[str]] = {}
    for path, blob in blobs.items():
        identity = path.partition(".")[0]
        if path.endswith(SUFFIX) and identity in wanted:
            found.setdefault(identity, []).append(blob)
    return found


def _find_signers(root: Path, at: Snapshot, given: Path | None, declared: str, folder: Path) -> Path | None:
    """Return the file of allowed signers; the version in the commit if the spec's file is in the repository."""
    if given is None and declared:
        files = git.list_files_at(root, at.commit, [declared])
        for blob, _ in files.values():
            path = folder / Path(declared).name
            path.write_bytes(git.read_blobs(root, [blob]).get(blob, b""))
            return path
    found = given or ((root / declared) if declared else read_allowed_signers(root))
    if found is not None and not found.is_file():
        raise RepositoryError(f"no file of allowed signers: {found}", fix="pass it with --signers, or commit it")
    return found


def _check_signatures(
    root: Path,
    at: Snapshot,
    signed: Mapping[str, Sequence[str]],
    blobs: Mapping[str, str],
    signers: Path | None,
    revoked: Path | None,
) -> dict[str, list[Checked]]:
    records = {identity: blobs[f"{identity}.json"] for identity in signed}
    contents = git.read_blobs(root, [*records.values(), *(blob for own in signed.values() for blob in own)])

    def check_one(pair: tuple[str, str]) -> Checked:
        identity, blob = pair
        return check(contents[records[identity]], contents[blob], signers, at.records[identity].started, revoked)

    pairs = [(identity, blob) for identity, own in signed.items() for blob in own]
    found: dict[str, list[Checked]] = {}
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for (identity, _), result in zip(pairs, pool.map(check_one, pairs), strict=True):
            found.setdefault(identity, []).append(result)
    return found


def _make_claim(where: str, record: Record, found: Sequence[Checked], *, known: bool) -> Claim:
    """Make the claim. One bad signature outweighs the good ones, because it was added."""
    what = f"{record.address.label}: signature"
    by = {status: [c for c in found if c.signature_status is status] for status in SignatureStatus}
    if by[SignatureStatus.BAD]:
        return Claim(where, what, Proof.CONTRADICTED, f"invalid: {by[SignatureStatus.BAD][0].why}")
    if by[SignatureStatus.GOOD]:
        return Claim(where, what, Proof.PROVEN, f"by {', '.join(c.who for c in by[SignatureStatus.GOOD])}")
    if not found:
        return Claim(where, what, Proof.MISSING, "unsigned; `reconcile sign` signs")
    first = by[SignatureStatus.UNKNOWN][0]
    # Without named signers, no names are required: it is still attested that the bytes are signed.
    proof = Proof.MISSING if known else Proof.ATTESTED
    return Claim(where, what, proof, f"unknown signer {first.who}: {first.why}")
