"""`help`: the list of documents, one of them elsewhere and on a terminal, and the help of a command."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys

import pytest

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


def show_on_terminal(*arguments: str, **environment: str) -> str:
    """All that `help` and its pager write to a terminal of their own; the pager is quit after its first page."""
    ours, theirs = pty.openpty()
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "reconciler.cli.main", "help", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**known, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal of which the other end is closed
        while part := os.read(ours, 65536):
            if not shown:
                os.write(ours, b"q")
            shown += part
    os.close(ours)
    assert child.wait(timeout=60) == 0
    return shown.decode()


@pytest.mark.parametrize("environment", [{"PAGER": "cat"}, {"PAGER": "cat", "LESS": "-FX"}, {"PAGER": "/no/pager"}])
def test_help_of_a_topic_on_a_terminal_is_laid_out_without_codes_for_a_pager_without_colours(
    environment: dict[str, str],
) -> None:
    shown = show_on_terminal("stores", **environment)
    assert "# Object stores" not in shown
    assert "(help pull-requests)" in " ".join(shown.split())
    assert "[1;4m" not in shown, "neither a code nor its visible form"


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
@pytest.mark.parametrize(("less", "coloured"), [(None, True), ("-R", True), ("-S", False)])
def test_less_shows_help_with_colours_only_where_it_shows_codes_as_such(less: str | None, coloured: bool) -> None:
    environment = {} if less is None else {"LESS": less}
    shown = show_on_terminal("stores", PAGER="less", LESSHISTFILE="-", **environment)
    assert "Object stores" in shown
    assert "ESC" not in shown
    assert ("\x1b[1;4m" in shown) is coloured


def test_help_of_a_command_is_what_the_command_says(reconcile: Reconcile) -> None:
    assert reconcile("help", "plan") == reconcile("plan", "--help")


def test_help_of_something_unknown_names_what_is_near(reconcile: Reconcile) -> None:
    code, _, err = reconcile("help", "tutoral")
    assert (code, "did you mean `reconcile help tutorial`?" in err) == (1, True)
    assert "lists the topics" in reconcile("help", "qqq")[2]
