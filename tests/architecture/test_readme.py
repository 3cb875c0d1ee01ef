"""The README's two commands are what a newcomer and ``.ci/run`` type; its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.desired.checks import check, ruleset_of
from reconciler.diff.change import Action, Reason
from reconciler.mlperf.rounds import load_ruleset
from reconciler.spec.loading import load
from tests.architecture.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def _section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no section ## {heading}"
    return found[1].strip()


@pytest.mark.parametrize("heading", ["Quick start", "Tests"])
def test_a_section_begins_with_one_block_of_one_command(heading: str) -> None:
    text = _section(heading)
    assert text.startswith("```")
    blocks = _FENCE.findall(text)
    assert len(blocks) == 1
    (command,) = blocks[0].splitlines()
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert not re.search(r"[;#]|\\$", command)


def test_the_commands_install_pinned_versions_and_end_as_they_should() -> None:
    (quick,), (tests,) = _FENCE.findall(_section("Quick start")), _FENCE.findall(_section("Tests"))
    assert "--constraint .ci/constraints.txt" in quick
    assert "--constraint .ci/constraints.txt" in tests
    assert quick.endswith("&& .venv/bin/reconcile\n")
    assert tests.endswith("&& .venv/bin/pytest\n")


def test_specs_are_valid(tmp_path: Path) -> None:
    """Every block that is a whole spec, by the rules of its round too."""
    blocks = [block for block in _FENCE.findall(README) if block.startswith("apiVersion:")]
    assert blocks
    for block in blocks:
        (tmp_path / "spec.yaml").write_text(block, encoding="utf-8")
        declared = load([tmp_path / "spec.yaml"], tmp_path, {})
        check(declared, ruleset_of(declared, load_ruleset))


def test_links_within_the_project_resolve() -> None:
    anchors = {_anchor(heading) for heading in re.findall(r"^#+ (.+)$", README, re.MULTILINE)}
    for target in _LINK.findall(_FENCE.sub("", README)):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif "://" not in target:
            assert (ROOT / target.partition("#")[0]).exists(), target


def _anchor(heading: str) -> str:
    """As GitHub makes them: lower case, punctuation dropped, blanks as hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_table_of_actions_names_every_action_and_reason() -> None:
    section = _section("When each action is proposed")
    assert not [name for name in (*Action, *Reason) if f"`{name}`" not in section]
