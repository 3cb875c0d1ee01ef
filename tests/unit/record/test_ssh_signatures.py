"""What is asked of ssh-keygen of a signature, and what its answers are worth; something that is in answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.errors import RecordError, RepositoryError
from reconciler.record import signing
from reconciler.record.index import record_path
from reconciler.record.signing import (
    Checked,
    SignatureStatus,
    Signer,
    check,
    list_signature_paths,
    read_allowed_signers,
    read_revoked_keys,
    sign_record,
)
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.process import ChildEnd
from tests.unit.cli.conftest import git

SSH = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
DATA, WHEN, NAMESPACE = b"a record", "2026-01-02T03:04:05Z", "mlperf-reconciler-record"
GOOD, UNKNOWN, BAD = SignatureStatus.GOOD, SignatureStatus.UNKNOWN, SignatureStatus.BAD
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
        monkeypatch.setattr(signing, "describe_end", found)
        return found

    return stand_in


SIGNERS, REVOKED = Path("/r/signers"), Path("/r/revoked")
FOUND: dict[str, tuple[int, str]] = {"find-principals": (0, "ann\nbob\n")}
VALID: dict[str, tuple[int, str]] = {"check-novalidate": (0, 'Good "x" signature with ED25519 key SHA256:abc\n')}
KEY = "ED25519 key SHA256:abc"


@pytest.mark.parametrize(
    ("answers", "revoked", "expected"),
    [
        ({**FOUND, "ann": (0, "")}, None, Checked(GOOD, "ann")),
        ({**FOUND, "bob": (0, "")}, None, Checked(GOOD, "bob")),
        ({**FOUND, "ann": (0, ""), "ann -r": (0, "")}, REVOKED, Checked(GOOD, "ann")),
        ({**FOUND, "ann": (0, "")}, REVOKED, Checked(UNKNOWN, "ann", "revoked revokes that key")),
        ({**FOUND, **VALID}, None, Checked(UNKNOWN, KEY, f"signers does not let that key sign {NAMESPACE}")),
        (VALID, None, Checked(UNKNOWN, KEY, "signers does not name that key, or not for that time")),
        (
            {"find-principals": (1, "ann\n"), "ann": (0, ""), **VALID},
            None,
            Checked(UNKNOWN, KEY, "signers does not name that key, or not for that time"),
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
def test_a_signature_is_worth_what_ssh_keygen_says(
    ask: Ask, answers: Answers, revoked: Path | None, expected: Checked
) -> None:
    ask(answers)
    assert check(DATA, SSH, SIGNERS, WHEN, revoked) == expected


def test_files_of_signers_and_of_revoked_keys_are_those_that_git_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    git(tmp_path, "init", "--quiet")
    assert (read_allowed_signers(tmp_path), read_revoked_keys(tmp_path)) == (None, None)
    git(tmp_path, "config", "gpg.ssh.allowedSignersFile", "signers")
    git(tmp_path, "config", "gpg.ssh.revocationFile", "~/revoked")
    assert read_allowed_signers(tmp_path) == tmp_path / "signers"
    with pytest.raises(RepositoryError) as caught:
        read_revoked_keys(tmp_path)
    revoked = tmp_path / "home/revoked"
    assert caught.value.message == f"git names revoked keys in {revoked}, which is not there"
    assert caught.value.fix == "provide it, or: git config --unset gpg.ssh.revocationFile"
    revoked.parent.mkdir()
    revoked.touch()
    assert read_revoked_keys(tmp_path) == revoked


def test_a_record_is_signed_next_to_itself_and_only_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, signer = RepositoryPaths(tmp_path), Signer("openpgp", "gpg", "")
    identity = f"Run/open-box-{hash_bytes(DATA)[:20]}"
    path = record_path(paths, identity)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert list_signature_paths(paths, identity) == []
    made = []
    for number in range(5):
        signature = b"-----BEGIN PGP SIGNATURE-----\n%d" % number
        monkeypatch.setattr(signing, "describe_end", lambda *_, text=signature: ChildEnd(0, text, ""))
        made.append(sign_record(paths, identity, signer))
        assert made[-1].name == f"{path.stem}.{hash_bytes(signature)[:12]}.sig"
        assert made[-1].read_bytes() == signature
    path.with_name(f"{path.stem}s.0.sig").touch()
    assert list_signature_paths(paths, identity) == sorted(made)
    path.write_bytes(b"another record")
    with pytest.raises(RecordError) as caught:
        sign_record(paths, identity, signer)
    assert caught.value.message == f"{path}: it was changed after it was written"
    assert caught.value.fix == "restore it from git"
