"""A spec that comes with a pull request does not choose what of the environment is shown, kept or sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.storage import escaping

from .conftest import CELL, Reconcile, edit

MODEL = "model: {settings: {epochs: 1}}"
VALUE = "hunter2hunter2"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process."""
    monkeypatch.setattr(escaping, "_HIDDEN_VALUES", {})
    monkeypatch.setattr(escaping, "_HIDDEN_LOCATIONS", {})
    escaping._find_locations.cache_clear()


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "DB_PASSWORD", "NGC_API_KEY", "SIGNING_KEY", "MY_PAT"]
)
def test_secret_is_no_place(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, VALUE)
    edit(declared, MODEL, f'model: {{path: "${{{name}}}/x"}}')
    for command in (("plan",), ("validate",), ("show", CELL), ("why", CELL)):
        code, out, err = reconcile(*command)
        assert (code, name in err, VALUE in out + err) == (1, True, False)


@pytest.mark.parametrize("value", [VALUE, "/mnt/kept/apart", "/p", "pin7", "two words/and more"])
def test_value_of_another_variable_is_neither_shown_nor_kept(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("NETS", value)
    edit(declared, MODEL, 'model: {path: "${NETS}/nets/net.onnx"}')
    for turn in ("cold", "warm"):
        forget(monkeypatch)
        for command in (("plan",), ("plan", "--json"), ("show", CELL), ("why", CELL)):
            code, out, err = reconcile(*command)
            assert (code in (0, 2), f"{value}/nets" in out + err) == (True, False), (turn, out, err)
    assert "${NETS}/nets/net.onnx" in reconcile("plan")[1]
    kept = [path for path in (declared / ".reconcile").rglob("*") if path.is_file()]
    assert any(path.name.startswith("desired-") for path in kept)
    assert not [path for path in kept if f"{value}/nets".encode() in path.read_bytes()]


def test_unclear_location_is_refused(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIN", "1234")
    edit(declared, MODEL, 'model: {path: "${PIN}"}')
    code, out, err = reconcile("plan")
    assert (code, "too short" in err, "1234" in out + err) == (1, True, False)


def test_variable_that_changes_is_noticed(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edit(declared, MODEL, 'model: {path: "${NETS}/net.onnx"}')
    (tmp_path / "full").mkdir()
    (tmp_path / "full/net.onnx").write_bytes(b"a net")
    for place in ("empty", "full", "empty"):
        monkeypatch.setenv("NETS", str(tmp_path / place))
        assert ("${NETS}/net.onnx" in reconcile("plan")[1]) is (place == "empty")
    monkeypatch.delenv("NETS")
    code, out, _ = reconcile("plan")
    assert (code, "specs/one.yaml:18:" in out, "the environment variable NETS is not set" in out) == (2, True, True)


def test_store_learns_what_is_listed(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_AT", VALUE)
    edit(
        declared, "  rehearsal: true", '  rehearsal: true\n  stores: {lab: {url: "https://${HOSTED_AT}.example.com/x"}}'
    )
    code, out, err = reconcile("push", "--dry-run")
    assert (code, "HOSTED_AT would be sent to the store" in err, VALUE in out + err) == (1, True, False)
    monkeypatch.setenv("RECONCILE_STORE_VARIABLES", "OTHER,HOSTED_AT")
    code, out, err = reconcile("validate")
    assert (code, VALUE in out + err) == (0, False), err
