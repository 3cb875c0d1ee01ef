"""What an audit claims of signatures next to the records of a commit; git and what checks a signature stand in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.change import Chosen
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.errors import RepositoryError
from reconciler.history import signatures as module
from reconciler.history.signatures import add_signatures
from reconciler.record.signing import Checked, SignatureStatus
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.settings import SubmissionSettings

CELL, OTHER = Cell("open", "box", "net", "Offline"), Cell("open", "box", "net", "Server")
RUN, TEST = "Run/a-1", "ComplianceTest/t-1"
LABELS = {
    RUN: Address(Kind.RUN, f"{CELL}/performance"),
    "Run/a-2": Address(Kind.RUN, f"{CELL}/accuracy"),
    "Score/s-1": Address(Kind.SCORE, str(CELL)),
    TEST: Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST01"),
    "Verdict/v-1": Address(Kind.VERDICT, f"{CELL}/TEST01"),
}
GOOD, UNKNOWN, BAD = SignatureStatus.GOOD, SignatureStatus.UNKNOWN, SignatureStatus.BAD
UNSIGNED = "unsigned; `reconcile sign` signs"


class Repository:
    """``signed``: record → what each of its signatures is worth; ``files``: further files of the commit."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.files, self.checks = root, dict[str, bytes](), list[tuple[Any, ...]]()
        self.settings: dict[str, object] = {}
        self.answers: dict[str, Checked] = {}
        self.configured: Path | None = None
        for identity in (*LABELS, "Run/unused-1"):
            self.files[f"state/records/{identity}.json"] = identity.encode()
        monkeypatch.setattr(module.git, "list_files_at", self.list_files)
        monkeypatch.setattr(module.git, "read_blobs", lambda _, blobs: {b: self.files[b[5:]] for b in blobs})
        monkeypatch.setattr(module, "check", self.check)
        monkeypatch.setattr(module, "read_allowed_signers", lambda _: self.configured)
        monkeypatch.setattr(module, "read_revoked_keys", lambda _: Path("revoked"))

    def list_files(self, _: Path, commit: str, folders: Iterable[str]) -> dict[str, tuple[str, int]]:
        assert commit == "c0ffee"
        names = tuple(folders)
        return {
            p: (f"blob {p}", 1)
            for p in reversed(self.files)
            if p in names or p.startswith(tuple(f"{n}/" for n in names))
        }

    def check(self, data: bytes, signature: bytes, signers: Path | None, when: str, revoked: Path) -> Checked:
        text = signers.read_text() if signers else None
        self.checks.append((data.decode(), signature.decode(), text, when, str(revoked)))
        return self.answers[signature.decode()]

    def sign(self, identity: str, *worth: Checked) -> None:
        for number, checked in enumerate(worth):
            name = f"{identity} {number}"
            self.files[f"state/records/{identity}.{number}.sig"] = name.encode()
            self.answers[name] = checked

    def add(self, signers: Path | None = None, audited: tuple[Claim, ...] = ()) -> list[tuple[str, str, Proof, str]]:
        chosen = {
            CELL: Chosen("Run/a-2", RUN, "Score/s-1", (("TEST01", TEST),), (("TEST01", "Verdict/v-1"),)),
            OTHER: Chosen(performance=RUN),
        }
        records = {i: SimpleNamespace(address=address, started=f"of {i}") for i, address in LABELS.items()}
        at: Any = SimpleNamespace(
            commit="c0ffee",
            desired=SimpleNamespace(submission=SubmissionSettings(self.settings)),
            difference=SimpleNamespace(chosen=chosen),
            records=records,
        )
        found = add_signatures(self.root, at, AuditReport("c0ffee", audited), signers)
        return [(claim.where, claim.what, claim.proof, claim.detail) for claim in found.claims]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


def of(found: list[tuple[str, str, Proof, str]], what: str = "Run performance") -> tuple[Proof, str]:
    ((proof, detail),) = {(p, d) for where, w, p, d in found if w == f"{what}: signature" and where == str(CELL)}
    return proof, detail


def test_every_record_that_a_cell_depends_on_is_to_be_signed_where_the_spec_asks(repository: Repository) -> None:
    repository.settings = {"signing.sign": True}
    reported = (
        Claim(str(OTHER), "x", Proof.PROVEN),
        Claim("else", "y", Proof.PROVEN),
        Claim(str(CELL), "z", Proof.PROVEN),
    )
    labels = ("Run performance", "Run accuracy", "Score", "TEST01", "TEST01 verdict")
    assert repository.add(audited=reported) == [
        (str(OTHER), "x", Proof.PROVEN, ""),
        (str(OTHER), "Run performance: signature", Proof.MISSING, UNSIGNED),
        ("else", "y", Proof.PROVEN, ""),
        (str(CELL), "z", Proof.PROVEN, ""),
        *((str(CELL), f"{label}: signature", Proof.MISSING, UNSIGNED) for label in labels),
    ]


@pytest.mark.parametrize(
    ("worth", "known", "proof", "detail"),
    [
        ([Checked(GOOD, "ann")], True, Proof.PROVEN, "by ann"),
        ([Checked(GOOD, "ann"), Checked(GOOD, "bob")], True, Proof.PROVEN, "by ann, bob"),
        ([Checked(UNKNOWN, "key", "w"), Checked(GOOD, "bob")], True, Proof.PROVEN, "by bob"),
        ([Checked(GOOD, "ann"), Checked(BAD, why="no match")], True, Proof.CONTRADICTED, "invalid: no match"),
        ([Checked(UNKNOWN, "key", "w"), Checked(BAD, why="odd")], False, Proof.CONTRADICTED, "invalid: odd"),
        ([Checked(UNKNOWN, "key", "w"), Checked(UNKNOWN, "k2", "x")], True, Proof.MISSING, "unknown signer key: w"),
        ([Checked(UNKNOWN, "key", "w")], False, Proof.ATTESTED, "unknown signer key: w"),
    ],
    ids=["good", "two", "one unknown", "one bad", "unknown and bad", "unknown", "none named"],
)
def test_signatures_of_a_record_are_worth_together(
    repository: Repository, worth: list[Checked], known: bool, proof: Proof, detail: str
) -> None:
    repository.sign(RUN, *worth)
    if known:
        repository.configured = repository.root / "mine"
        repository.configured.write_text("mine")
    assert of(repository.add()) == (proof, detail)
    signers = "mine" if known else None
    assert sorted(repository.checks) == [
        (RUN, f"{RUN} {number}", signers, f"of {RUN}", "revoked") for number in range(len(worth))
    ]


@pytest.mark.parametrize(
    ("declared", "committed", "here", "given", "configured", "used"),
    [
        ("keys/signers", True, True, True, True, "given"),
        ("keys/signers", True, True, False, True, "committed"),
        ("keys/signers", False, True, False, True, "here"),
        ("", False, False, False, True, "configured"),
    ],
    ids=["given", "of the commit", "of the folder", "of git"],
)
def test_the_signers_are_those_that_are_given_that_the_spec_names_or_that_git_names(
    repository: Repository, declared: str, committed: bool, here: bool, given: bool, configured: bool, used: str
) -> None:
    repository.settings = {"signing.signers": declared} if declared else {}
    if committed:
        repository.files[declared] = b"committed"
    texts: Mapping[str, bool] = {"given": given, "configured": configured, "here": here}
    paths = {name: repository.root / (declared if name == "here" else name) for name in texts}
    for name, there in texts.items():
        if there:
            paths[name].parent.mkdir(exist_ok=True)
            paths[name].write_text(name)
    repository.configured = paths["configured"]
    repository.sign(RUN, Checked(GOOD, "ann"))
    repository.add(paths["given"] if given else None)
    assert {check[2] for check in repository.checks} == {used}


def test_signers_that_are_not_there_are_refused(repository: Repository) -> None:
    path = repository.root / "none"
    with pytest.raises(RepositoryError) as caught:
        repository.add(path)  # anyone who names signers asks for signatures
    assert caught.value.message == f"no file of allowed signers: {path}"
    assert caught.value.fix == "pass it with --signers, or commit it"
