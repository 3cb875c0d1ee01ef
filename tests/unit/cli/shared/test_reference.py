import click
import pytest

from reconciler.cli.shared.reference import BEGIN, DOCUMENTS, END, GENERATED, render_command_reference, write_into


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
