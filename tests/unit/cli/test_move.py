"""`reconcile move`: the spec is edited, nothing is run again, and what the round forbids is refused."""

from __future__ import annotations

from pathlib import Path

from .conftest import CELL, Reconcile, edit

SPEC = "specs/one.yaml"


def official(root: Path) -> None:
    """The same cell under the official name, so that any division may take it."""
    text = (root / SPEC).read_text()
    text = text.replace("    digits:\n      as: resnet\n", "    resnet:\n", 1)
    (root / SPEC).write_text(text.replace("        digits:\n", "        resnet:  # the one\n"))


def test_nothing_is_measured_again(recorded: Path, reconcile: Reconcile) -> None:
    official(recorded)
    assert reconcile()[0] == 0
    before = (recorded / SPEC).read_text()
    out = reconcile.succeed("move", "offline", "--to", "closed", "--dry-run")
    assert "Would move open/box/resnet/Offline to closed" in out
    assert "- one.yaml: open:" in out
    assert "+ one.yaml: closed:" in out
    assert (recorded / SPEC).read_text() == before
    report = reconcile.report("move", "offline", "--to", "closed")
    assert not [step for step in report["steps"] if step.startswith(("Run:", "Dataset:", "Model:", "Score:"))]
    assert {row["where"] for row in report["findings"]} >= {"closed/box/resnet/SingleStream"}
    assert (
        "          Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}" in (recorded / SPEC).read_text()
    )
    reconcile.succeed("move", "closed/box/resnet/Offline", "--to", "open")
    assert reconcile("plan")[0] == 0


def test_what_the_round_forbids(recorded: Path, reconcile: Reconcile) -> None:
    before = (recorded / SPEC).read_text()
    assert "rename digits in the spec to resnet" in reconcile.refuse("move", CELL, "--to", "closed")
    assert (recorded / SPEC).read_text() == before
    official(recorded)
    edit(recorded, "Offline: {", "Server: {")
    edit(recorded, "category: edge", "category: datacenter")
    before = (recorded / SPEC).read_text()
    assert "does not allow Server for resnet" in reconcile.refuse("move", "server", "--to", "closed")
    assert (recorded / SPEC).read_text() == before


def test_what_is_there_already(recorded: Path, reconcile: Reconcile) -> None:
    assert "is in the open division already" in reconcile.refuse("move", CELL, "--to", "open")
    official(recorded)
    text = (recorded / SPEC).read_text()
    (recorded / SPEC).write_text(text + "    network: {box: {resnet: {Offline: {}}}}\n")
    assert "is declared already" in reconcile.refuse("move", "open/box/resnet/Offline", "--to", "network")


def test_a_source_of_inferred_cells_stays(recorded: Path, reconcile: Reconcile) -> None:
    official(recorded)
    text = (recorded / SPEC).read_text().replace("Offline: {", "SingleStream: {").replace("target_qps: 1000, ", "")
    (recorded / SPEC).write_text(text + "          Offline: {infer_from: SingleStream}\n")
    code, _, err = reconcile("move", "singlestream", "--to", "closed")
    assert (code, "is not declared, so nothing can be inferred from it" in err) == (1, True)
