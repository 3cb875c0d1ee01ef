"""Records signed with a real key made here, by a pass and by `reconcile sign`, and what an audit says of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reconciler.record.signing import NAMESPACE

from .conftest import CELL, Reconcile, commit, edit, git

SIGNED = {f"{label}: signature" for label in ("Run performance", "Run accuracy", "Score")}


def keygen(folder: Path, name: str) -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    folder.mkdir(exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True)
    return folder / f"{name}.pub"


def use(root: Path, key: Path) -> None:
    git(root, "config", "gpg.format", "ssh")
    git(root, "config", "user.signingkey", str(key))


def allow(root: Path, name: str, key: Path, options: str = "") -> None:
    with (root / "signers").open("a") as stream:
        stream.write(f"{name} {options} {key.read_text()}")
    commit(root, f"Allow {name}")


def want_signed(root: Path, key: Path, options: str = "") -> None:
    edit(root, "  rehearsal: true\n", "  rehearsal: true\n  signing: {sign: true, signers: signers}\n")
    allow(root, "ann@lab", key, options)
    use(root, key)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return keygen(tmp_path / "keys", "ann")


@pytest.fixture
def signing(recorded: Path, key: Path) -> Path:
    """A repository that wants records signed, with a key that can; its records are older and unsigned."""
    want_signed(recorded, key)
    return recorded


def sign(root: Path, reconcile: Reconcile) -> None:
    reconcile.succeed("sign")
    commit(root, "Sign")


def signatures(reconcile: Reconcile, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code, out, _ = reconcile("audit", "--json", *arguments)
    claims = json.loads(out)["claims"]
    return code, {c["what"]: (c["proof"], c["detail"]) for c in claims if c["what"].endswith("signature")}


def test_a_pass_signs_what_it_records_and_an_audit_names_the_signer(signing: Path, reconcile: Reconcile) -> None:
    edit(signing, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    assert reconcile("--commit")[0] == 0
    files = list((signing / "state/records").rglob("*.sig"))
    assert len(files) == 1  # of the performance run alone: nothing else was made
    assert git(signing, "status", "--porcelain") == ""
    code, found = signatures(reconcile)
    assert code == 2
    assert found.pop("Run performance: signature") == ("proven", "by ann@lab")
    assert {proof for proof, _ in found.values()} == {"missing"}
    assert all("unsigned" in detail for _, detail in found.values())
    assert reconcile("plan")[0] == 0


def test_sign_signs_what_has_none_and_a_clone_proves_it(
    signing: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(list((signing / "state/records").rglob("*.json")))
    assert reconcile("sign")[1] == f"Signed {count} records.\n"
    assert "Nothing to sign" in reconcile("sign")[1]
    commit(signing, "Sign")
    git(tmp_path, "clone", "--quiet", str(signing), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    assert signatures(reconcile) == (0, dict.fromkeys(SIGNED, ("proven", "by ann@lab")))


def test_a_signature_of_other_bytes_is_invalid(signing: Path, reconcile: Reconcile) -> None:
    reconcile("sign")
    runs = sorted((signing / "state/records/Run").glob("*.sig"))
    assert len(runs) == 2
    runs[0].write_bytes(runs[1].read_bytes())
    commit(signing, "Put a signature under another record")
    code, found = signatures(reconcile)
    assert code == 2
    assert sorted(proof for proof, _ in found.values()) == ["contradicted", "proven", "proven"]
    detail = next(detail for proof, detail in found.values() if proof == "contradicted")
    assert detail.startswith("invalid: ")


def test_a_key_that_no_one_allowed_is_named(signing: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    stranger = keygen(tmp_path / "keys", "eve")
    use(signing, stranger)
    sign(signing, reconcile)
    code, found = signatures(reconcile)
    assert code == 2
    fingerprint = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(stranger)], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    for proof, detail in found.values():
        assert proof == "missing"
        assert "unknown signer" in detail
        assert fingerprint in detail
    # an auditor may go by a file of their own
    own = tmp_path / "mine"
    own.write_text(f"eve@lab {stranger.read_text()}")
    code, found = signatures(reconcile, "--signers", str(own))
    assert (code, found["Score: signature"]) == (0, ("proven", "by eve@lab"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('namespaces="git"', f"does not allow that key to sign {NAMESPACE}"),
        ('valid-before="20200101"', "does not list that key, or not for that time"),
    ],
)
def test_a_key_that_is_allowed_for_something_else_is_none(
    recorded: Path, key: Path, reconcile: Reconcile, options: str, why: str
) -> None:
    want_signed(recorded, key, options)
    sign(recorded, reconcile)
    code, found = signatures(reconcile)
    assert code == 2
    whys = {detail.partition("unknown signer ")[2].partition(": ")[2] for _, detail in found.values()}
    assert whys == {f"signers {why}"}


def test_signatures_without_any_allowed_signers_are_attested(recorded: Path, key: Path, reconcile: Reconcile) -> None:
    assert signatures(reconcile) == (0, {})
    use(recorded, key)
    sign(recorded, reconcile)
    code, found = signatures(reconcile)
    assert code == 0
    assert {proof for proof, _ in found.values()} == {"attested"}
    git(recorded, "config", "gpg.ssh.allowedSignersFile", "allowed")
    assert "no file of allowed signers" in reconcile("audit")[2]
    (recorded / "allowed").write_text(f"ann@home {key.read_text()}")
    assert signatures(reconcile)[1]["Score: signature"] == ("proven", "by ann@home")


def test_a_key_that_git_knows_as_revoked_proves_nothing(signing: Path, key: Path, reconcile: Reconcile) -> None:
    sign(signing, reconcile)
    assert signatures(reconcile)[1]["Score: signature"] == ("proven", "by ann@lab")
    git(signing, "config", "gpg.ssh.revocationFile", "revoked")
    assert "revoked does not exist" in reconcile.refuse("audit")
    (signing / "revoked").write_text(key.read_text())
    code, found = signatures(reconcile)
    assert code == 2
    assert set(found.values()) == {("missing", "unknown signer ann@lab: revoked revokes that key")}


def test_a_key_is_checked_against_the_time_of_the_record_whatever_the_zone_here(
    signing: Path, key: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = min(json.loads(path.read_text())["started"] for path in (signing / "state/records").rglob("*.json"))
    begins = (datetime.fromisoformat(started) - timedelta(hours=1)).strftime("%Y%m%d%H%M%SZ")
    (signing / "signers").unlink()
    allow(signing, "ann@lab", key, f'valid-after="{begins}"')
    sign(signing, reconcile)
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert set(signatures(reconcile)[1].values()) == {("proven", "by ann@lab")}
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "No secret key|user.signingkey|cannot be signed"),
        ({"gpg.format": "ssh"}, "user.signingkey"),
        ({"gpg.format": "ssh", "user.signingkey": "/nowhere/key"}, "/nowhere/key"),
        ({"gpg.format": "x509"}, "format x509"),
    ],
)
def test_a_key_that_cannot_sign_is_named_before_anything_runs(
    recorded: Path,
    gpg_home: Callable[[str], Path],
    reconcile: Reconcile,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    said: str,
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(gpg_home("empty")))
    edit(recorded, "  rehearsal: true\n", "  rehearsal: true\n  signing: {sign: true}\n")
    for name, value in settings.items():
        git(recorded, "config", name, value)
    assert reconcile()[0] == 0  # nothing is due, so that nothing is to be signed
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    before = sorted((recorded / "state/records").rglob("*.json"))
    error = reconcile.refuse()
    assert any(part in error for part in said.split("|"))
    assert "git config" in error
    assert sorted((recorded / "state/records").rglob("*.json")) == before


def test_two_labs_that_sign_the_same_and_other_records_merge_without_conflict(
    signing: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "--quiet", str(signing), "other")
    other = tmp_path / "other"
    second = keygen(tmp_path / "keys", "bob")
    use(other, second)
    for root, target in ((signing, "1100"), (other, "1200")):
        monkeypatch.chdir(root)
        assert reconcile("sign")[0] == 0
        edit(root, "target_qps: 1000", f"target_qps: {target}")
        assert reconcile()[0] == 0
        edit(root, f"target_qps: {target}", "target_qps: 1000")
        commit(root, f"Measure and sign in {root.name}")
    monkeypatch.chdir(signing)
    git(signing, "pull", "--quiet", "--no-rebase", "--no-edit", str(other), "main")
    allow(signing, "bob@lab", second)
    code, found = signatures(reconcile)
    assert code == 0
    assert {proof for proof, _ in found.values()} == {"proven"}
    assert {detail for _, detail in found.values()} <= {"by ann@lab, bob@lab", "by bob@lab, ann@lab"}


def test_a_harvested_record_is_signed_too(signing: Path, reconcile: Reconcile) -> None:
    """What a pass that was killed left is recorded by the next one, under the same rule."""
    edit(signing, "target_qps: 1000", "target_qps: 1100")
    program = (
        "import os; from reconciler.reconcile import worker; from reconciler.cli.main import main;"
        "worker.write_record = lambda *_: os._exit(9); main([])"
    )
    subprocess.run([sys.executable, "-c", program], cwd=signing, check=False, capture_output=True)
    assert list((signing / ".reconcile/attempts").iterdir())
    assert not list((signing / "state/records").rglob("*.sig"))
    _, out, _ = reconcile()
    assert "recorded the result" in out
    assert len(list((signing / "state/records").rglob("*.sig"))) == 1


@pytest.fixture
def gpg_home() -> Iterator[Callable[[str], Path]]:
    """Makes homes for GnuPG; the agents that it starts there end with the test. The paths are short: its agent's socket
    is in the home, and a socket's path has about 100 characters."""
    homes: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="gpg-", ignore_cleanup_errors=True) as folder:

        def make(name: str) -> Path:
            homes.append(Path(folder, name))
            homes[-1].mkdir(mode=0o700)
            return homes[-1]

        yield make
        for home in homes if shutil.which("gpgconf") else ():
            subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)


def test_records_are_signed_with_openpgp_where_git_is_configured_so(
    recorded: Path, gpg_home: Callable[[str], Path], reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    monkeypatch.setenv("GNUPGHOME", str(gpg_home("ann")))
    made = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", "Ann <ann@lab>", "ed25519", "sign"]
    subprocess.run(made, check=True, capture_output=True)
    git(recorded, "config", "user.signingkey", "ann@lab")
    sign(recorded, reconcile)
    assert signatures(reconcile) == (0, dict.fromkeys(SIGNED, ("proven", "by Ann <ann@lab>")))
    trust = subprocess.run(["gpg", "--export-ownertrust"], capture_output=True, check=True, text=True).stdout
    unknown = re.sub(r":6:", ":2:", trust)
    subprocess.run(["gpg", "--import-ownertrust"], input=unknown, capture_output=True, check=True, text=True)
    code, found = signatures(reconcile)
    assert (code, found["Score: signature"][0]) == (0, "attested")
    assert "does not trust that key" in found["Score: signature"][1]
    monkeypatch.setenv("GNUPGHOME", str(gpg_home("other")))
    code, found = signatures(reconcile)
    assert (code, found["Score: signature"][0]) == (0, "attested")
    assert "keyring" in found["Score: signature"][1]


def test_rerun_signs_nothing(signing: Path, reconcile: Reconcile) -> None:
    git(signing, "config", "--unset", "user.signingkey")
    claim = next(
        c for c in reconcile.report("audit", "--rerun", CELL)["claims"] if c["what"] == "performance: repeated"
    )
    assert "not repeated" not in claim["detail"]


def test_prune_takes_the_signatures_of_what_it_removes(signing: Path, reconcile: Reconcile) -> None:
    reconcile("sign")
    edit(signing, "Offline: {", "SingleStream: {")
    edit(signing, "target_qps: 1000, ", "", "Measure something else")
    reconcile.succeed("prune", "--yes", "--measured", "--max-share", "1")
    left = {path.name.partition(".")[0] for path in (signing / "state/records").rglob("*.json")}
    assert {path.name.partition(".")[0] for path in (signing / "state/records").rglob("*.sig")} == left
    assert not list((signing / "state/records/Run").glob("*"))


def test_signatures_make_a_pull_request_neither_stale_nor_suspicious(signing: Path, reconcile: Reconcile) -> None:
    git(signing, "checkout", "--quiet", "-b", "signed")
    sign(signing, reconcile)
    assert reconcile.report("pr", "--base", "main")["remarks"] == []
