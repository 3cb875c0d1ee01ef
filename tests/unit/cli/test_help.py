import click
import pytest

from reconciler.cli import help as help_command
from reconciler.cli.help import read_topics
from tests.unit.cli.conftest import Reconcile


def test_help_without_a_topic_lists_every_document(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("help")
    assert code == 0
    assert [topic for topic in read_topics() if f"[{topic}]" not in out] == []


def test_help_of_a_topic_elsewhere_than_on_a_terminal_is_its_text(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("help", "planning")
    assert (code, out.splitlines()[0]) == (0, "# Planning")
    assert "\x1b" not in out


def test_help_of_a_topic_on_a_terminal_is_laid_out_and_paged(
    reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[str] = []
    monkeypatch.setattr(click, "echo_via_pager", lambda text, color: paged.append(text))
    monkeypatch.setattr(help_command, "_on_terminal", lambda: True)
    assert reconcile("help", "stores")[0] == 0
    assert "# Object stores" not in paged[0]
    assert "(help pull-requests)" in " ".join(paged[0].split())


def test_help_of_a_command_is_what_the_command_says(reconcile: Reconcile) -> None:
    assert reconcile("help", "plan") == reconcile("plan", "--help")


def test_help_of_something_unknown_names_what_is_near(reconcile: Reconcile) -> None:
    code, _, err = reconcile("help", "tutoral")
    assert (code, "did you mean `reconcile help tutorial`?" in err) == (1, True)
    assert "lists the topics" in reconcile("help", "qqq")[2]
