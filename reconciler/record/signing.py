"""Sign records with the user's own key, and check signatures, with the programs that git is configured with.

A signature is a file next to its record, ``<record>.<digest>.sig``, over the record's bytes: two people who sign one
record write two files, so their branches merge without conflict. An SSH signature has a separate namespace, so it never
passes for a commit's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from reconciler.errors import RecordError, RepositoryError
from reconciler.record.index import locate_record
from reconciler.storage.files import RepositoryPaths, hash_bytes, replace
from reconciler.storage.git_process import ask
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import ChildEnd, run_signing_program

NAMESPACE = "mlperf-reconciler-record"
SUFFIX = ".sig"
_SSH, _PGP = "ssh", "openpgp"
_LIMIT = 60.0  # seconds; a hardware key may require a touch
_NO_PROGRAM = 127
_TRUSTED = {"TRUST_FULLY", "TRUST_ULTIMATE"}
_KEYGEN = ("ssh-keygen", "-Y")
_TRIAL = b"may this key sign records?\n"
_HEAD = {b"-----BEGIN SSH SIGNATURE-----": _SSH, b"-----BEGIN PGP SIGNATURE-----": _PGP}


class Signer(Struct, frozen=True):
    """The signing program configured in git: ``kind`` ssh or openpgp, the program, and the key in git's notation."""

    kind: str
    program: str
    key: str

    def sign(self, data: bytes) -> bytes:
        """Return an armored signature. Raises RepositoryError with the program's message."""
        program = shlex.split(self.program)
        if self.kind == _PGP:
            user = ("--local-user", self.key) if self.key else ()
            words = [*program, "--batch", "--detach-sign", "--armor", *user]
            return _require_signature(run_signing_program(words, data, _LIMIT))
        with open_temporary("sign") as folder:
            key, agent = self.key, list[str]()
            if _is_literal(key):
                path = folder / "key.pub"
                path.write_text(key.removeprefix("key::") + "\n", encoding="utf-8")
                key, agent = str(path), ["-U"]
            words = [*program, "-Y", "sign", "-n", NAMESPACE, "-f", str(Path(key).expanduser()), *agent]
            return _require_signature(run_signing_program(words, data, _LIMIT))


def _is_literal(key: str) -> bool:
    return key.startswith(("key::", "ssh-", "ecdsa-", "sk-"))


def _require_signature(made: ChildEnd) -> bytes:
    if made.status or identify_signature(made.out) is None:
        fix = "check that `git commit -S` works: git config gpg.format, user.signingkey, and the key's agent"
        raise RepositoryError(f"a record cannot be signed: {made.error[-300:] or 'no signature came out'}", fix=fix)
    return made.out


def identify_signature(signature: bytes) -> str | None:
    return next((kind for head, kind in _HEAD.items() if signature.lstrip().startswith(head)), None)


def find_signer(root: Path) -> Signer:
    """Return git's configured signer after a trial signature. Raises RepositoryError if it cannot sign."""
    kind, key = _read_config(root, "gpg.format") or _PGP, _read_config(root, "user.signingkey")
    programs = {_SSH: ("gpg.ssh.program", "ssh-keygen"), _PGP: ("gpg.program", "gpg")}
    if kind not in programs:
        fix = "git config gpg.format ssh (or openpgp)"
        raise RepositoryError(f"records cannot be signed in git's format {kind}", fix=fix)
    if kind == _SSH and not key:
        fix = "git config user.signingkey ~/.ssh/id_ed25519.pub"
        raise RepositoryError("records cannot be signed: user.signingkey is not set in git", fix=fix)
    name, usual = programs[kind]
    signer = Signer(kind, _read_config(root, name) or _read_config(root, f"gpg.{kind}.program") or usual, key)
    signer.sign(_TRIAL)
    return signer


def _read_config(root: Path, name: str) -> str:
    answer = ask(root, "config", "--get", name)
    return answer.out.decode(errors="surrogateescape").strip() if answer.status == 0 else ""


def read_allowed_signers(root: Path) -> Path | None:
    """Return git's configured file of allowed signers; None without one."""
    named = _read_config(root, "gpg.ssh.allowedSignersFile")
    return (root / Path(named).expanduser()) if named else None


def read_revoked_keys(root: Path) -> Path | None:
    """Return git's configured file of revoked keys. Raises RepositoryError if it is missing, since a revoked key would
    otherwise count."""
    named = _read_config(root, "gpg.ssh.revocationFile")
    found = (root / Path(named).expanduser()) if named else None
    if found is not None and not found.is_file():
        fix = "provide it, or: git config --unset gpg.ssh.revocationFile"
        raise RepositoryError(f"revoked keys file {found} does not exist", fix=fix)
    return found


def list_signature_paths(paths: RepositoryPaths, identity: str) -> list[Path]:
    record = locate_record(paths, identity)
    return sorted(record.parent.glob(f"{record.stem}.*{SUFFIX}"))


def sign_record(paths: RepositoryPaths, identity: str, signer: Signer) -> Path:
    """Sign a record and return the signature's path. Raises RepositoryError, and RecordError for a record that does not
    match its name, which must not be signed."""
    path = locate_record(paths, identity)
    data = path.read_bytes()
    if hash_bytes(data)[:20] != identity.rpartition("-")[2]:
        raise RecordError(f"{path}: it was changed after it was written", fix="restore it from git")
    signature = signer.sign(data)
    target = path.with_name(f"{path.stem}.{hash_bytes(signature)[:12]}{SUFFIX}")
    replace(target, signature)
    return target


class SignatureStatus(StrEnum):
    """The validity of a signature. UNKNOWN: it matches the bytes, but the key's owner is unknown here."""

    GOOD = "good"
    UNKNOWN = "unknown"
    BAD = "bad"


class Checked(Struct, frozen=True):
    """The result of checking a signature. ``who``: the signer's name in the allowed signers or the keyring; otherwise
    the key."""

    signature_status: SignatureStatus
    who: str = ""
    why: str = ""


def check(data: bytes, signature: bytes, signers: Path | None, when: str, revoked: Path | None = None) -> Checked:
    """Check a signature. ``signers``: a file of allowed signers in the format of ssh-keygen(1), for SSH; ``revoked``: a
    file of keys that no longer count, whenever they signed. ``when``: UTC, ISO 8601, the time at which a key must have
    been valid."""
    kind = identify_signature(signature)
    if kind is None:
        return Checked(SignatureStatus.BAD, why="it is not an SSH or OpenPGP signature")
    try:
        at = _format_local(when)
    except (ValueError, OverflowError):
        return Checked(SignatureStatus.BAD, why=f"its record has no valid time: {when}")
    with open_temporary("signature") as folder:
        path = folder / "signature"
        path.write_bytes(signature)
        return _check_ssh(data, path, signers, at, revoked) if kind == _SSH else _check_pgp(data, path)


def _check_ssh(data: bytes, signature: Path, signers: Path | None, at: str, revoked: Path | None) -> Checked:
    named, why = False, "no file of allowed signers is set"
    if signers is not None:
        who = ["-f", str(signers), "-s", str(signature), f"-Overify-time={at}"]
        found = run_signing_program([*_KEYGEN, "find-principals", *who], b"", _LIMIT)
        for name in found.out.decode(errors="replace").splitlines() if found.status == 0 else ():
            named = True
            words = [*_KEYGEN, "verify", "-n", NAMESPACE, "-I", name, *who]
            if run_signing_program(words, data, _LIMIT).status == 0:
                if revoked is None or run_signing_program([*words, "-r", str(revoked)], data, _LIMIT).status == 0:
                    return Checked(SignatureStatus.GOOD, name)
                return Checked(SignatureStatus.UNKNOWN, name, f"{revoked.name} revokes that key")
        but = (
            f"does not allow that key to sign {NAMESPACE}" if named else "does not list that key, or not for that time"
        )
        why = f"{signers.name} {but}"
    fits = run_signing_program([*_KEYGEN, "check-novalidate", "-n", NAMESPACE, "-s", str(signature)], data, _LIMIT)
    if fits.status == _NO_PROGRAM:
        return Checked(SignatureStatus.UNKNOWN, why=fits.error)
    if fits.status:
        return Checked(SignatureStatus.BAD, why=_find_last_line(fits) or "it does not match the record")
    return Checked(SignatureStatus.UNKNOWN, fits.out.decode(errors="replace").strip().rpartition(" with ")[2], why)


def _format_local(when: str) -> str:
    """Return a time in ssh-keygen's format: in this machine's zone, since older versions do not accept a final Z."""
    return datetime.fromisoformat(when).astimezone().strftime("%Y%m%d%H%M%S")


def _check_pgp(data: bytes, signature: Path) -> Checked:
    # A signature may name a key server, which is not contacted.
    words = ["gpg", "--batch", "--no-auto-key-retrieve", "--status-fd", "1", "--verify", str(signature), "-"]
    checked = run_signing_program(words, data, _LIMIT)
    if checked.status == _NO_PROGRAM:
        return Checked(SignatureStatus.UNKNOWN, why=checked.error)
    rows = dict(_read_status(checked.out.decode(errors="replace").splitlines()))
    if "GOODSIG" in rows and checked.status == 0:
        who = rows["GOODSIG"].partition(" ")[2]
        if _TRUSTED & rows.keys():
            return Checked(SignatureStatus.GOOD, who)
        # Anybody can make a key with any name, and keyrings fill up automatically.
        return Checked(SignatureStatus.UNKNOWN, who, "the keyring does not trust that key (gpg --edit-key … trust)")
    if "NO_PUBKEY" in rows:
        return Checked(SignatureStatus.UNKNOWN, rows["NO_PUBKEY"], "the keyring does not contain that key")
    for name in ("EXPKEYSIG", "REVKEYSIG", "EXPSIG"):
        if name in rows:
            return Checked(SignatureStatus.UNKNOWN, rows[name], "the key has expired or was revoked")
    return Checked(SignatureStatus.BAD, why=_find_last_line(checked) or "it does not match the record")


def _read_status(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.startswith("[GNUPG:] "):
            name, _, rest = row.removeprefix("[GNUPG:] ").partition(" ")
            yield name, rest


def _find_last_line(checked: ChildEnd) -> str:
    rows = checked.error.splitlines()
    return rows[-1][-200:] if rows else ""
