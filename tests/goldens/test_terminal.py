"""Everything that commands print fits a terminal of 80 and of 120 columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from reconciler.cli.command_table import COMMANDS
from reconciler.rules.benchmark_facts import load_benchmark_facts
from tests.goldens import CELL, GOLDENS, SERVER, SETTINGS, make
from tests.goldens.terminal import print_on_terminal
from tests.shared import make_once

OTHERS = (
    ("recorded", f"show --code {CELL}"),
    ("recorded", f"history --trials {CELL}"),
    ("recorded", f"blame {CELL}"),
    ("recorded", "compare edge rack"),
    ("recorded", "plan --by 2099-01-01"),
    ("recorded", "benchmarks"),
    ("recorded", "benchmarks show dlrm-v2-99"),
    ("recorded", "rounds"),
    ("recorded", "rounds show v6.1"),
    ("recorded", "rounds show v6.1 resnet"),
    ("recorded", "rounds conflicts"),
    ("recorded", "rounds diff v6.0 v6.1"),
    ("recorded", "explain"),
    ("recorded", "explain target_qps"),
    ("recorded", "doctor"),
    ("recorded", "detect"),
    ("recorded", "accept --list"),
    ("recorded", "freeze --list"),
    ("recorded", "embargo"),
    ("recorded", "prune"),
    ("recorded", "fetch resnet --dry-run"),
    ("recorded", "plan Serv"),
    ("recorded", "plan --only Runs"),
    ("recorded", "--quick --commit"),
    ("recorded", "why"),
    ("recorded", "why --jsn"),
    ("changed", f"why {SERVER}"),
    ("changed", "plan --all"),
    ("rendered", "check --all"),
    ("rendered", "verify-tree --all .reconcile/tree"),
    ("misspelt", "plan"),
    ("misspelt", "doctor"),
)
HELP = tuple(("recorded", f"{name} --help") for name in COMMANDS)
CASES = tuple((golden.state, " ".join(golden.words)) for golden in GOLDENS.values()) + OTHERS + HELP


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.parametrize(("state", "words"), CASES)
def test_no_line_is_wider_than_the_terminal(state: str, words: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A word that is longer, such as a path, has a line of its own."""
    repository = make_once(tmp_path_factory, f"golden-{state}", partial(make, state))
    for columns in (80, 120):
        printed = print_on_terminal(repository.root, words.split(), columns)
        assert printed
        assert [line for line in printed if len(line) > columns and " " in line.strip()] == []


def test_the_list_of_benchmarks_has_one_name_and_its_columns_on_each_line(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    repository = make_once(tmp_path_factory, "golden-recorded", partial(make, "recorded"))
    names = {name for facts in load_benchmark_facts().values() for name in facts.names}
    printed = print_on_terminal(repository.root, ["benchmarks"], 80)[1:]
    rows = [line.split("  ") for line in printed if not line.startswith(" ")]
    assert len(rows) == len(load_benchmark_facts())
    assert [row for row in rows if row[0] not in names or len(list(filter(None, row))) != 4] == []


def test_a_cell_of_the_status_is_on_one_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = make_once(tmp_path_factory, "golden-changed", partial(make, "changed"))
    printed = print_on_terminal(repository.root, ["status"], 80)
    assert len([line for line in printed if line.startswith(("open/", "closed/"))]) == 4
    assert "Each result above: rehearsal." in printed


def test_wide_shows_whole_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = make_once(tmp_path_factory, "golden-recorded", partial(make, "recorded"))
    for words in (["--wide", "status"], ["status", "--wide"]):
        assert max(map(len, print_on_terminal(repository.root, words, 80))) > 120


def test_a_table_of_an_empty_folder_fits(tmp_path: Path) -> None:
    for columns in (80, 120):
        printed = print_on_terminal(tmp_path, ["status"], columns)
        assert [line for line in printed if len(line) > columns and " " in line.strip()] == []
