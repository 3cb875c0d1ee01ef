"""A spec that comes with a pull request does not choose what of the environment is shown, kept or sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler import escaping

from .conftest import CELL, Reconcile, edit

ENGINE = 'engine: {backend: "null", batch_size: 8}'
VALUE = "hunter2hunter2"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escaping, "_HIDDEN_VALUES", {})


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "DB_PASSWORD", "NGC_API_KEY", "SIGNING_KEY", "MY_PAT"]
)
def test_secret_is_no_location(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, VALUE)
    edit(declared, ENGINE, f'{ENGINE}\n      model: {{path: "${{{name}}}/x"}}')
    for command in (("plan",), ("validate",), ("show", CELL), ("why", CELL)):
        code, out, err = reconcile(*command)
        assert (code, f"{name} is a secret by its name" in err, VALUE in out + err) == (1, True, False)


def test_value_of_another_variable_is_neither_shown_nor_kept(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETS", VALUE)
    edit(declared, ENGINE, f'{ENGINE}\n      model: {{path: "${{NETS}}/net.onnx"}}')
    for turn in ("cold", "warm"):
        monkeypatch.setattr(escaping, "_HIDDEN_VALUES", {})
        for command in (("plan",), ("plan", "--json"), ("show", CELL), ("why", CELL)):
            code, out, err = reconcile(*command)
            assert (code in (0, 2), VALUE in out + err) == (True, False), (turn, out, err)
    assert "${NETS}/net.onnx" in reconcile("plan")[1]
    kept = [path for path in (declared / ".reconcile").rglob("*") if path.is_file()]
    assert any(path.name.startswith("desired-") for path in kept)
    assert not [path for path in kept if VALUE.encode() in path.read_bytes()]


def test_variable_that_changes_is_noticed(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(declared, ENGINE, f'{ENGINE}\n      model: {{path: "${{NETS}}/net.onnx"}}')
    for place in ("/first/place", "/second/place", "/first/place"):
        monkeypatch.setenv("NETS", place)
        assert f"{place}/net.onnx" in reconcile("plan")[1]
    monkeypatch.delenv("NETS")
    assert "NETS is not set" in reconcile("plan")[2]


def test_store_learns_only_what_its_owner_lists(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTED_AT", VALUE)
    edit(
        declared, "  rehearsal: true", '  rehearsal: true\n  stores: {lab: {url: "https://${HOSTED_AT}.example.com/x"}}'
    )
    code, out, err = reconcile("push", "--dry-run")
    assert (code, "HOSTED_AT would be sent to the store" in err, VALUE in out + err) == (1, True, False)
    monkeypatch.setenv("RECONCILE_STORE_VARIABLES", "OTHER,HOSTED_AT")
    code, out, err = reconcile("validate")
    assert (code, VALUE in out + err) == (0, False), err
