"""Names of cells: the same words choose the same cells in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import CELL, Reconcile, edit

OTHER = "open/box/digits-2/Offline"


@pytest.fixture
def two(declared: Path) -> Path:
    """A second cell whose benchmark begins with the name of the first."""
    edit(declared, "  divisions:", "    digits-2: {as: resnet, code: digits, engine: {backend: 'null'}}\n  divisions:")
    with (declared / "specs/one.yaml").open("a") as spec:
        spec.write("        digits-2:\n          Offline: {target_qps: 1000}\n")
    return declared


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("word", "found"),
    [
        (CELL, [CELL]),
        ("open / box / digits / Offline", [CELL]),
        ("digits", [CELL]),
        ("igits-", [OTHER]),
        ("digits,digits-2", [CELL, OTHER]),
        ("scenario=Offline", [CELL, OTHER]),
    ],
)
def test_words_choose_the_same_cells_in_every_command(word: str, found: list[str], reconcile: Reconcile) -> None:
    listed = reconcile.report("status", word)["cells"]
    assert [cell["cell"] for cell in listed] == found
    assert reconcile("plan", word)[0] == 2
    excluded = reconcile.report("status", "--exclude", word)["cells"]
    assert [cell["cell"] for cell in excluded] == [cell for cell in (CELL, OTHER) if cell not in found]
    if "," not in word:
        code, out, err = reconcile("why", "--json", word)
        assert (code, json.loads(out)["cell"]) == (2, found[0]) if len(found) == 1 else all(c in err for c in found)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("word", ["Offlien", "scenario=Offlien"])
@pytest.mark.parametrize("command", ["plan", "status", "why", "show", "logs", "apply", "freeze"])
def test_a_wrong_word_gets_the_nearest_right_one(command: str, word: str, reconcile: Reconcile) -> None:
    more = ["--reason", "x"] if command == "freeze" else []
    code, out, err = reconcile(command, word, *more)
    assert (code, out) == (1, "")
    assert any(right in err for right in (CELL, OTHER, "scenario=Offline"))


@pytest.mark.usefixtures("two")
def test_a_word_like_no_cell_gets_no_name(reconcile: Reconcile) -> None:
    code, _, err = reconcile("show", "nope")
    assert (code, "did you mean" in err, "reconcile status" in err) == (1, False, True)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("command", ["plan", "status", "apply"])
def test_a_wrong_value_among_right_ones_is_named(command: str, reconcile: Reconcile) -> None:
    code, out, err = reconcile(command, "benchmark=digits,digit-2", "scenario=Offline")
    assert (code, out, "benchmark=digits-2" in err) == (1, "", True)
