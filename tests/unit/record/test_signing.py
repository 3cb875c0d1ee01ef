"""What is refused before any program is asked about a signature, and what programs are asked to sign."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.record.signing import NAMESPACE, SignatureStatus, Signer, check

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
    assert (checked.standing, checked.why) == (SignatureStatus.BAD, why)


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


def test_ssh_signs_with_a_file_or_asks_the_agent_for_a_key_that_git_names_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_signature_that_nothing_here_can_check_is_neither_good_nor_bad(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    signature = f"-----BEGIN {mark} SIGNATURE-----\nAAAA\n-----END {mark} SIGNATURE-----\n".encode()
    checked = check(b"{}", signature, None, "2026-01-02T03:04:05Z")
    program = {"PGP": "gpg", "SSH": "ssh-keygen"}[mark]
    assert checked.standing is SignatureStatus.UNKNOWN
    assert program in checked.why
