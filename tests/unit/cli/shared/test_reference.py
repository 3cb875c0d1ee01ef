"""The reference of commands and of the spec is what the code gives."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from reconciler.cli.shared.reference import (
    BEGIN,
    DOCUMENTS,
    END,
    GENERATED,
    find_field_effects,
    note_reads,
    render_command_reference,
    render_spec_reference,
    write_into,
)
from reconciler.desired.cells import SHARED
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.loading import load


@pytest.mark.parametrize("name", GENERATED)
def test_a_document_holds_the_reference_that_the_code_gives(name: str) -> None:
    text = (DOCUMENTS / name).read_text(encoding="utf-8")
    assert write_into(text, GENERATED[name]()) == text, "run: python -m reconciler.cli.shared.reference"


def test_write_into_keeps_what_surrounds_the_marks() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert write_into(text, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


def test_the_reference_of_commands_has_each_option_of_each_command() -> None:
    @click.group()
    def program() -> None:
        """A program."""

    @program.command("pass")
    @click.option("--deep", is_flag=True, help="Hash a|b.")
    def _pass(deep: bool) -> None:
        """Make one\n        pass."""

    @program.command("go")
    @click.argument("where")
    def _go(where: str) -> None:
        """Go."""

    text = render_command_reference(program)
    assert "Make one pass." in text
    assert "| `--deep` | Hash a\\|b. |" in text
    assert "reconcile go [OPTIONS] WHERE" in text


def test_effects_when_a_target_changes_name_the_performance_run_and_its_audits() -> None:
    assert find_field_effects()["target_qps"] == ("Run performance", "Compliance test")
    assert find_field_effects()["compliance.target_qps"] == ("Compliance test",)


def test_effects_when_a_batch_size_changes_name_the_engine_and_what_runs_without_one() -> None:
    runs = ("Run accuracy", "Run performance", "Compliance test")
    assert find_field_effects()["engine.batch_size"] == ("Engine", *runs)
    assert find_field_effects()["engine.options.*"] == ("Engine", *runs)


def test_effects_hold_for_other_specs_than_the_one_they_are_derived_from() -> None:
    folder = Path(__file__).parents[3] / "passes" / "made_by_0_1" / "repository" / "specs"
    declared = load([folder], folder.parent, {})
    effects = find_field_effects()
    reads = note_reads(declared, load_ruleset(str(declared.round.value)))
    lost = {(kind, name) for kind, names in reads.items() for name in names if kind not in effects[name]}
    assert "target_qps" in reads["Run performance"]
    assert not lost


def test_reference_when_a_stall_timeout_changes_says_nothing_is_stale() -> None:
    row = next(line for line in render_spec_reference().splitlines() if line.startswith("| `stall_timeout`"))
    assert row.endswith("| nothing |")


def test_datasets_and_models_are_made_from_what_keys_are_shared_by() -> None:
    """Cells that have these settings in common have one dataset and one model, whatever else they declare."""
    built = {name for name, kinds in find_field_effects().items() if {"Dataset", "Model"} & set(kinds)}
    assert built
    assert [name for name in built if not name.startswith(SHARED)] == []
