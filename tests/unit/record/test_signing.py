"""What a program is asked to sign with, and what is refused before any is asked about a signature."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.record.signing import SignatureStatus, Signer, check, identify_signature

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


PGP = b"-----BEGIN PGP SIGNATURE-----\nAAAA\n-----END PGP SIGNATURE-----\n"


_NOTING = """#!/bin/sh
cd {folder}
printf '%s\\n' "$@" > words
cat > data
for word; do case "$word" in /*) cat "$word" > key 2> /dev/null;; esac; done
echo no luck >&2
cat signature
exit {status}
"""


def stand_in(folder: Path, signature: bytes, status: int = 0) -> str:
    """A program that notes how it is called and what it is to sign, and the key where that is a file. Its words."""
    (folder / "signature").write_bytes(signature)
    script = folder / "sign here"
    script.write_text(_NOTING.format(folder=shlex.quote(str(folder)), status=status))
    script.chmod(0o755)
    return f"{shlex.quote(str(script))} --with 'two words'"


WITH = ["--with", "two words"]


@pytest.mark.parametrize(
    ("key", "words"), [("", []), ("ann@lab", ["--local-user", "ann@lab"])], ids=["any key", "one key"]
)
def test_openpgp_signs_with_the_key_that_git_names(key: str, words: list[str], tmp_path: Path) -> None:
    program = stand_in(tmp_path, PGP)
    assert Signer("openpgp", program, key).sign(b"a record") == PGP
    told = (tmp_path / "words").read_text().splitlines()
    assert told == [*WITH, "--batch", "--detach-sign", "--armor", *words]
    assert (tmp_path / "data").read_bytes() == b"a record"


@pytest.mark.parametrize(
    "key", ["ssh-ed25519 AAAA ann", "ecdsa-sha2-nistp256 AAAA", "sk-ssh AAAA", "key::ssh-rsa AAAA"]
)
def test_ssh_signs_by_its_agent_with_a_key_that_git_states_itself(key: str, tmp_path: Path) -> None:
    assert Signer("ssh", stand_in(tmp_path, SSH), key).sign(b"a record") == SSH
    *words, file, agent = (tmp_path / "words").read_text().splitlines()
    assert words == [*WITH, "-Y", "sign", "-n", "mlperf-reconciler-record", "-f"]
    assert agent == "-U"
    assert (tmp_path / "key").read_text() == f"{key.removeprefix('key::')}\n"
    assert not Path(file).exists()
    assert (tmp_path / "data").read_bytes() == b"a record"


def test_ssh_signs_with_the_file_that_git_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA")
    assert Signer("ssh", stand_in(tmp_path, SSH), "~/id.pub").sign(b"a record") == SSH
    words = (tmp_path / "words").read_text().splitlines()
    assert words == [*WITH, "-Y", "sign", "-n", "mlperf-reconciler-record", "-f", str(tmp_path / "id.pub")]


@pytest.mark.parametrize("kind", ["ssh", "openpgp"])
@pytest.mark.parametrize(
    ("signature", "status", "why"),
    [(b"", 0, "no luck"), (b"a word", 0, "no luck"), (SSH, 1, "no luck"), (PGP, 1, "no luck")],
)
def test_what_is_no_signature_is_refused_with_the_words_of_the_program(
    kind: str, signature: bytes, status: int, why: str, tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match=f"a record cannot be signed: {why}"):
        Signer(kind, stand_in(tmp_path, signature, status), "~/id").sign(b"a record")


@pytest.mark.parametrize(
    ("text", "kind"), [(SSH, "ssh"), (PGP, "openpgp"), (b"\n " + SSH, "ssh"), (b"x" + SSH, None), (b"", None)]
)
def test_a_signature_is_known_by_its_head(text: bytes, kind: str | None) -> None:
    assert identify_signature(text) == kind
