"""What the shell learns of cells, selectors, rounds and commits, by the same door that it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.cli.main import main
from tests.unit.cli.conftest import CELL, git


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_RECONCILE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("reconcile", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main([])
        rows = (line.split(",", 1) for line in capsys.readouterr().out.split())
        return [value for kind, value in rows if kind == "plain"]

    return ask


@pytest.mark.parametrize("command", ["show", "why", "logs", "try", "tune", "history", "blame", "move", "freeze"])
@pytest.mark.parametrize("beginning", ["open/", "Offl", "dig"])
def test_a_cell_is_completed_from_its_beginning_or_that_of_a_part(
    command: str, beginning: str, declared: Path, complete: Callable[..., list[str]]
) -> None:
    assert declared.is_dir()
    assert complete(command, beginning) == [CELL]


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("plan", "sc"), ["scenario=Offline"]),
        (("status", "benchmark=d"), ["benchmark=digits"]),
        (("plan", "benchmark", "=", "d"), ["digits"]),
        (("plan", "scenario", "="), ["Offline"]),
        (("plan", "open/"), [CELL]),
        (("plan", "--exclude", "system=b"), ["system=box"]),
    ],
    ids=lambda given: " ".join(given),
)
def test_selectors_are_completed_however_the_shell_breaks_words(
    words: tuple[str, ...], found: list[str], complete: Callable[..., list[str]]
) -> None:
    assert complete(*words) == found


def test_paths_of_explain_are_completed(complete: Callable[..., list[str]]) -> None:
    assert complete("explain", "target_q") == ["target_qps"]
    assert complete("explain", "spec.benchmarks.llama3.1-8b.engine.ba") == [
        "spec.benchmarks.llama3.1-8b.engine.backend",
        "spec.benchmarks.llama3.1-8b.engine.batch_size",
    ]


def test_rounds_and_commits_are_completed(declared: Path, complete: Callable[..., list[str]]) -> None:
    git(declared, "init", "--quiet", "--initial-branch=main")
    git(declared, "add", ".")
    git(declared, "commit", "--quiet", "--message", "Declare")
    git(declared, "tag", "v1-submitted")
    assert complete("rounds", "show", "v6") == ["v6.1", "v6.0"]
    assert complete("init", "--round", "v4") == ["v4.1", "v4.0"]
    assert complete("audit", "--at", "v1") == ["v1-submitted"]
    assert complete("pr", "--base", "ma") == ["main"]
    assert complete("diff", "HEAD..ma") == ["HEAD..main"]
    assert complete("compare", "H") == ["HEAD"]


def test_nothing_is_completed_where_the_spec_is_broken_or_there_is_none(
    declared: Path, complete: Callable[..., list[str]]
) -> None:
    (declared / "specs/one.yaml").write_text("spec: [")
    assert complete("show", "o") == []
    assert complete("-C", "/", "show", "o") == []


def test_completion_looks_where_the_command_would(
    declared: Path, complete: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(declared.parent)
    assert complete("-C", declared.name, "show", "o") == [CELL]
