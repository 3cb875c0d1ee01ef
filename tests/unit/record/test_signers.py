"""With what git is configured to sign, and what gpg says of a signature; programs that stand in answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.record.signing import Checked, SignatureStatus, Signer, check, find_signer
from tests.unit.cli.conftest import git

PGP = "-----BEGIN PGP SIGNATURE-----"
SSH = "-----BEGIN SSH SIGNATURE-----"
WHEN = "2026-01-02T03:04:05Z"


def program(folder: Path, name: str, *rows: str, status: int = 0, error: str = "") -> Path:
    """It reads all it is given and prints these rows."""
    path = folder / name
    said = "".join(f"echo '{row}'\n" for row in rows)
    path.write_text(f"#!/bin/sh\ncat > /dev/null\n{said}echo '{error}' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of somebody who has configured nothing else."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    found = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", str(found))
    return found


@pytest.mark.parametrize(
    ("settings", "kind", "mark", "key"),
    [
        ({"gpg.program": "own"}, "openpgp", PGP, ""),
        ({"gpg.program": "own", "user.signingkey": "ann"}, "openpgp", PGP, "ann"),
        ({"gpg.openpgp.program": "own", "gpg.format": "openpgp"}, "openpgp", PGP, ""),
        ({"gpg.ssh.program": "own", "gpg.format": "ssh", "user.signingkey": "~/k.pub"}, "ssh", SSH, "~/k.pub"),
        ({"gpg.program": "own", "gpg.ssh.program": "none"}, "openpgp", PGP, ""),
    ],
)
def test_signer_is_what_git_is_configured_with(
    root: Path, settings: dict[str, str], kind: str, mark: str, key: str
) -> None:
    own = program(root, "own", mark)
    for name, value in settings.items():
        git(root, "config", name, str(own) if value == "own" else value)
    assert find_signer(root) == Signer(kind, str(own), key)


@pytest.mark.parametrize(
    ("settings", "said", "fix"),
    [
        ({"gpg.format": "x509"}, "records cannot be signed in git's format x509", "git config gpg.format ssh"),
        ({"gpg.format": "ssh"}, "records cannot be signed: git names no user.signingkey", "user.signingkey ~/.ssh"),
        ({"gpg.program": "/nowhere/gpg"}, "a record cannot be signed: ", "git commit -S"),
    ],
)
def test_configuration_that_cannot_sign_is_reported(root: Path, settings: dict[str, str], said: str, fix: str) -> None:
    for name, value in settings.items():
        git(root, "config", name, value)
    with pytest.raises(RepositoryError) as caught:
        find_signer(root)
    assert caught.value.message.startswith(said)
    assert fix in caught.value.fix


GOOD = "[GNUPG:] GOODSIG 0123 Ann <ann@lab>"
UNTRUSTED = "the keyring here does not trust that key (gpg --edit-key … trust)"
EXPIRED = "the key has expired or was revoked"


@pytest.mark.parametrize(
    ("rows", "status", "expected"),
    [
        ([GOOD, "[GNUPG:] TRUST_FULLY 0 pgp"], 0, Checked(SignatureStatus.GOOD, "Ann <ann@lab>")),
        (["[GNUPG:] TRUST_ULTIMATE", GOOD], 0, Checked(SignatureStatus.GOOD, "Ann <ann@lab>")),
        ([GOOD, "[GNUPG:] TRUST_MARGINAL 0"], 0, Checked(SignatureStatus.UNKNOWN, "Ann <ann@lab>", UNTRUSTED)),
        ([GOOD], 0, Checked(SignatureStatus.UNKNOWN, "Ann <ann@lab>", UNTRUSTED)),
        (
            ["[GNUPG:] ERRSIG 0123", "[GNUPG:] NO_PUBKEY 0123"],
            2,
            Checked(SignatureStatus.UNKNOWN, "0123", "the keyring here does not hold that key"),
        ),
        (["[GNUPG:] EXPKEYSIG 0123 Ann"], 2, Checked(SignatureStatus.UNKNOWN, "0123 Ann", EXPIRED)),
        (["[GNUPG:] REVKEYSIG 0123 Ann"], 2, Checked(SignatureStatus.UNKNOWN, "0123 Ann", EXPIRED)),
        (["[GNUPG:] EXPSIG 0123 Ann"], 2, Checked(SignatureStatus.UNKNOWN, "0123 Ann", EXPIRED)),
        (["[GNUPG:] BADSIG 0123 Ann"], 1, Checked(SignatureStatus.BAD, why="gpg: no good")),
        ([GOOD, "[GNUPG:] TRUST_FULLY 0 pgp"], 1, Checked(SignatureStatus.BAD, why="gpg: no good")),
        (["GOODSIG 0123 Ann", "TRUST_FULLY"], 0, Checked(SignatureStatus.BAD, why="gpg: no good")),
    ],
    ids=["trusted", "ours", "marginal", "unknown", "no key", "expired", "revoked", "old", "bad", "failed", "no status"],
)
def test_signature_of_openpgp_is_worth_what_gpg_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], status: int, expected: Checked
) -> None:
    program(tmp_path, "gpg", *rows, status=status, error="gpg: no good")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert check(b"a record", f"{PGP}\n".encode(), None, WHEN) == expected


def test_gpg_that_says_nothing_found_no_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "gpg", status=1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert check(b"a record", PGP.encode(), None, WHEN).why == "it does not match the record"
