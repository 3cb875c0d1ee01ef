"""What is refused before any program is asked about a signature, and what programs are asked to sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.errors import RecordError, RepositoryError
from reconciler.record import signing
from reconciler.record.index import locate_record
from reconciler.record.signing import (
    NAMESPACE,
    Checked,
    SignatureStatus,
    Signer,
    check,
    find_signer,
    list_signature_paths,
    read_allowed_signers,
    read_revoked_keys,
    sign_record,
)
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.process import ChildEnd
from tests.unit.cli.conftest import git

SSH = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"


@pytest.mark.parametrize(
    ("signature", "when", "why"),
    [
        (b"signed by me", "2026-01-02T03:04:05Z", "it is not an SSH or OpenPGP signature"),
        (b"", "2026-01-02T03:04:05Z", "it is not an SSH or OpenPGP signature"),
        (SSH, "yesterday", "its record has no valid time: yesterday"),
    ],
)
def test_what_cannot_be_a_signature_is_a_bad_one(signature: bytes, when: str, why: str) -> None:
    checked = check(b"{}", signature, None, when)
    assert (checked.signature_status, checked.why) == (SignatureStatus.BAD, why)


def stand_in(folder: Path, signature: str = "", status: int = 0) -> str:
    """A signing program that notes its words and what it is to sign, and prints this."""
    path = folder / "program"
    path.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{folder}/words"\ncat > "{folder}/data"\n'
        f'case "$*" in *key.pub*) cat "$6" > "{folder}/key";; esac\n'
        f"echo '{signature}'\necho 'no agent' >&2\nexit {status}\n"
    )
    path.chmod(0o755)
    return str(path)


def read_words(folder: Path) -> list[str]:
    return (folder / "words").read_text().splitlines()


PGP_MARK, SSH_MARK = "-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----"


@pytest.mark.parametrize(("key", "chosen"), [("ann@lab", ["--local-user", "ann@lab"]), ("", [])])
def test_openpgp_signs_with_the_key_that_git_names_or_its_own(tmp_path: Path, key: str, chosen: list[str]) -> None:
    made = Signer("openpgp", f"{stand_in(tmp_path, PGP_MARK)} --quiet", key).sign(b"a record")
    assert made == f"{PGP_MARK}\n".encode()
    assert read_words(tmp_path) == ["--quiet", "--batch", "--detach-sign", "--armor", *chosen]
    assert (tmp_path / "data").read_bytes() == b"a record"


def test_ssh_signs_with_a_file_or_a_key_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program, words = stand_in(tmp_path, SSH_MARK), ["-Y", "sign", "-n", NAMESPACE, "-f"]
    assert Signer("ssh", program, "~/.ssh/ann.pub").sign(b"a record") == f"{SSH_MARK}\n".encode()
    assert read_words(tmp_path) == [*words, f"{tmp_path}/.ssh/ann.pub"]
    for named in ("key::ssh-ed25519 AAAA ann", "ssh-ed25519 AAAA ann"):
        Signer("ssh", program, named).sign(b"a record")
        *first, file, agent = read_words(tmp_path)
        assert (first, agent, Path(file).exists()) == (words, "-U", False)
        assert (tmp_path / "key").read_text() == "ssh-ed25519 AAAA ann\n"
    assert (tmp_path / "data").read_bytes() == b"a record"


@pytest.mark.parametrize("mark", ["PGP", "SSH"])
def test_an_unchecked_signature_is_unknown(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    signature = f"-----BEGIN {mark} SIGNATURE-----\nAAAA\n-----END {mark} SIGNATURE-----\n".encode()
    checked = check(b"{}", signature, None, "2026-01-02T03:04:05Z")
    program = {"PGP": "gpg", "SSH": "ssh-keygen"}[mark]
    assert checked.signature_status is SignatureStatus.UNKNOWN
    assert program in checked.why


PGP = "-----BEGIN PGP SIGNATURE-----"
SSH_SIGNERS = "-----BEGIN SSH SIGNATURE-----"
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
        ({"gpg.ssh.program": "own", "gpg.format": "ssh", "user.signingkey": "~/k.pub"}, "ssh", SSH_SIGNERS, "~/k.pub"),
        ({"gpg.program": "own", "gpg.ssh.program": "none"}, "openpgp", PGP, ""),
    ],
)
def test_the_signer_is_what_git_has(root: Path, settings: dict[str, str], kind: str, mark: str, key: str) -> None:
    own = program(root, "own", mark)
    for name, value in settings.items():
        git(root, "config", name, str(own) if value == "own" else value)
    assert find_signer(root) == Signer(kind, str(own), key)


@pytest.mark.parametrize(
    ("settings", "said", "fix"),
    [
        ({"gpg.format": "x509"}, "records cannot be signed in git's format x509", "git config gpg.format ssh"),
        (
            {"gpg.format": "ssh"},
            "records cannot be signed: user.signingkey is not set in git",
            "user.signingkey ~/.ssh",
        ),
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
UNTRUSTED = "the keyring does not trust that key (gpg --edit-key … trust)"
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
            Checked(SignatureStatus.UNKNOWN, "0123", "the keyring does not contain that key"),
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


DATA, WHEN_SSH_SIGNATURES, NAMESPACE_SSH_SIGNATURES = b"a record", "2026-01-02T03:04:05Z", "mlperf-reconciler-record"
GOOD_SSH_SIGNATURES, UNKNOWN, BAD = SignatureStatus.GOOD, SignatureStatus.UNKNOWN, SignatureStatus.BAD
Answers = Mapping[str, tuple[int, str]]


class Keygen:
    """``answers``: by the subcommand, and for ``verify`` by the name and whether revoked keys are looked at."""

    def __init__(self, answers: Answers, signature: bytes = SSH) -> None:
        self.answers, self.signature, self.asked = answers, signature, list[str]()

    def __call__(self, words: Sequence[str], data: bytes, limit: float) -> ChildEnd:
        assert words[:2] == ["ssh-keygen", "-Y"]
        assert limit == 60.0
        file = Path(words[words.index("-s") + 1])
        assert file.read_bytes() == self.signature
        self.asked.append(" ".join(words[2:]).replace(str(file), "SIGNATURE"))
        name = words[2]
        assert data == (b"" if name == "find-principals" else DATA)
        if name == "verify":
            name = f"{words[words.index('-I') + 1]}{' -r' if '-r' in words else ''}"
        status, text = self.answers.get(name, (1, ""))
        return ChildEnd(status, text.encode(), text)


Ask = Callable[[Answers], Keygen]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    def stand_in(answers: Answers) -> Keygen:
        found = Keygen(answers)
        monkeypatch.setattr(signing, "run_signing_program", found)
        return found

    return stand_in


SIGNERS, REVOKED = Path("/r/signers"), Path("/r/revoked")
FOUND: dict[str, tuple[int, str]] = {"find-principals": (0, "ann\nbob\n")}
VALID: dict[str, tuple[int, str]] = {"check-novalidate": (0, 'Good "x" signature with ED25519 key SHA256:abc\n')}
KEY = "ED25519 key SHA256:abc"


@pytest.mark.parametrize(
    ("answers", "revoked", "expected"),
    [
        ({**FOUND, "ann": (0, "")}, None, Checked(GOOD_SSH_SIGNATURES, "ann")),
        ({**FOUND, "bob": (0, "")}, None, Checked(GOOD_SSH_SIGNATURES, "bob")),
        ({**FOUND, "ann": (0, ""), "ann -r": (0, "")}, REVOKED, Checked(GOOD_SSH_SIGNATURES, "ann")),
        ({**FOUND, "ann": (0, "")}, REVOKED, Checked(UNKNOWN, "ann", "revoked revokes that key")),
        (
            {**FOUND, **VALID},
            None,
            Checked(UNKNOWN, KEY, f"signers does not allow that key to sign {NAMESPACE_SSH_SIGNATURES}"),
        ),
        (VALID, None, Checked(UNKNOWN, KEY, "signers does not list that key, or not for that time")),
        (
            {"find-principals": (1, "ann\n"), "ann": (0, ""), **VALID},
            None,
            Checked(UNKNOWN, KEY, "signers does not list that key, or not for that time"),
        ),
        (FOUND, None, Checked(BAD, why="it does not match the record")),
        ({**FOUND, "check-novalidate": (1, "odd\nno match\n")}, None, Checked(BAD, why="no match")),
        ({**FOUND, "check-novalidate": (1, "x" * 300)}, None, Checked(BAD, why="x" * 200)),
        ({**FOUND, "check-novalidate": (127, "no ssh-keygen")}, None, Checked(UNKNOWN, why="no ssh-keygen")),
    ],
    ids=[
        *(
            "the first",
            "the second",
            "not revoked",
            "revoked",
            "no right",
            "not named",
            "failed",
            "unlike",
            "unlike said",
        ),
        *("unlike at length", "no program"),
    ],
)
def test_a_signature_is_as_ssh_says(ask: Ask, answers: Answers, revoked: Path | None, expected: Checked) -> None:
    ask(answers)
    assert check(DATA, SSH, SIGNERS, WHEN_SSH_SIGNATURES, revoked) == expected


def test_files_of_signers_and_of_revoked_are_gits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    git(tmp_path, "init", "--quiet")
    assert (read_allowed_signers(tmp_path), read_revoked_keys(tmp_path)) == (None, None)
    git(tmp_path, "config", "gpg.ssh.allowedSignersFile", "signers")
    git(tmp_path, "config", "gpg.ssh.revocationFile", "~/revoked")
    assert read_allowed_signers(tmp_path) == tmp_path / "signers"
    with pytest.raises(RepositoryError) as caught:
        read_revoked_keys(tmp_path)
    revoked = tmp_path / "home/revoked"
    assert caught.value.message == f"revoked keys file {revoked} does not exist"
    assert caught.value.fix == "provide it, or: git config --unset gpg.ssh.revocationFile"
    revoked.parent.mkdir()
    revoked.touch()
    assert read_revoked_keys(tmp_path) == revoked


def test_a_record_is_signed_only_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, signer = RepositoryPaths(tmp_path), Signer("openpgp", "gpg", "")
    identity = f"Run/open-box-{hash_bytes(DATA)[:20]}"
    path = locate_record(paths, identity)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert list_signature_paths(paths, identity) == []
    made = []
    for number in range(5):
        signature = b"-----BEGIN PGP SIGNATURE-----\n%d" % number
        monkeypatch.setattr(signing, "run_signing_program", lambda *_, text=signature: ChildEnd(0, text, ""))
        made.append(sign_record(paths, identity, signer))
        assert made[-1].name == f"{path.stem}.{hash_bytes(signature)[:12]}.sig"
        assert made[-1].read_bytes() == signature
    path.with_name(f"{path.stem}s.0.sig").touch()
    assert list_signature_paths(paths, identity) == sorted(made)
    path.write_bytes(b"another record")
    with pytest.raises(RecordError) as caught:
        sign_record(paths, identity, signer)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.fix == "restore it from git"
