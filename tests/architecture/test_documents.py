"""The documents lead somewhere and show commands that exist; the README's two commands are what ``.ci/run`` types."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import click
import pytest

from reconciler.cli.main import reconcile
from reconciler.cli.shared.options import complete_quick
from reconciler.desired.checks import check, load_ruleset_of
from reconciler.diff.change import Action, Reason
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.loading import load
from tests.architecture.documents import (
    DOCS,
    DOCUMENTS,
    README,
    anchors,
    blocks,
    read,
    section,
    transcript,
    without_blocks,
)
from tests.architecture.source import ROOT

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CHECKED_TYPES = (click.Choice, click.IntRange, click.FloatRange)
_each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)


@pytest.mark.parametrize("heading", ["Quick start", "Tests"])
def test_a_section_begins_with_one_block_of_one_command(heading: str) -> None:
    text = section(README, heading)
    assert text.startswith("```")
    (block,) = blocks(text)
    (command,) = block.splitlines()
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert not re.search(r"[;#]|\\$", command)


def test_the_commands_install_pinned_versions_and_end_as_they_should() -> None:
    (quick,), (tests,) = blocks(section(README, "Quick start")), blocks(section(README, "Tests"))
    assert "--constraint .ci/constraints.txt" in quick
    assert "--constraint .ci/constraints.txt" in tests
    assert quick.endswith("&& .venv/bin/reconcile\n")
    assert tests.endswith("&& .venv/bin/pytest\n")


def test_the_readme_is_an_introduction() -> None:
    assert len(read(README).splitlines()) <= 200


def test_pictures_are_small_and_need_no_network() -> None:
    """Those of ``python -m tests.pictures``; all that the README shows ship with the package."""
    shown = {ROOT / name for name in re.findall(r"reconciler/docs/[\w/-]+\.(?:png|svg)", read(README))}
    assert shown == set((DOCS / "pictures").iterdir())
    assert all(path.stat().st_size < 200_000 for path in shown)
    drawn = [path.read_text(encoding="utf-8") for path in shown if path.suffix == ".svg"]
    assert not [text for text in drawn if re.search(r"url\([^#]|href|@import", text)]


def test_specs_are_valid(tmp_path: Path) -> None:
    """Every block that is a whole spec, by the rules of its round too."""
    specs = [block for path in DOCUMENTS for block in blocks(read(path), "yaml") if block.startswith("apiVersion:")]
    assert specs
    for block in specs:
        (tmp_path / "spec.yaml").write_text(block, encoding="utf-8")
        declared = load([tmp_path / "spec.yaml"], tmp_path, {})
        check(declared, load_ruleset_of(declared, load_ruleset))


@_each_document
def test_links_resolve(path: Path) -> None:
    for target in _LINK.findall(without_blocks(read(path))):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if path.parent == DOCS:
            assert linked.is_relative_to(DOCS), f"{target} does not ship with the package"
        if anchor:
            assert anchor in anchors(linked), target


def test_every_document_is_linked_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in _LINK.findall(read(index))}
    assert not set(DOCS.glob("*.md")) - linked - {index}


@_each_document
def test_commands_that_are_shown_exist(path: Path) -> None:
    for block in blocks(read(path), "console"):
        for command, _ in transcript(block):
            for words in _simple_commands(command):
                if words[0] == "reconcile":
                    _parse(words[1:])


@_each_document
def test_commands_stand_in_console_blocks(path: Path) -> None:
    """Elsewhere no test would see them."""
    text = read(path)
    shown = [line for block in blocks(text) for line in block.splitlines() if line.startswith("$ ")]
    assert len(shown) == sum(len(list(transcript(block))) for block in blocks(text, "console"))


@_each_document
def test_commands_in_the_text_exist(path: Path) -> None:
    """`reconcile …` between backticks; arguments may be left out there."""
    for code in re.findall(r"`reconcile ([^`…]+)`", without_blocks(read(path)).replace("\n", " ")):
        with contextlib.suppress(click.BadOptionUsage):  # an option whose value is left out there
            _parse(shlex.split(code), complete=False)


@pytest.mark.parametrize("path", [DOCS / "architecture.md", DOCS / "contributing.md"], ids=lambda path: path.stem)
def test_files_that_are_named_exist(path: Path) -> None:
    """`a/b.py` between backticks; NAME and vX.Y stand for files that are yet to be written."""
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:toml|py))`", without_blocks(read(path))))
    assert named
    for name in sorted(named):
        places = (ROOT, ROOT / "reconciler", ROOT / "harness")
        known = name if "NAME" not in name else str(Path(name).parent)
        found = any((place / known).exists() for place in places) or any(ROOT.glob(f"reconciler/*/{known}"))
        assert found or any(ROOT.glob(f"harness/*/{known}")), name


def _simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a shell line, without comments, pipes and conditions."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("&|;"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _parse(words: list[str], *, complete: bool = True) -> None:
    """Options, choices, and required arguments, down the tree of commands; nothing is invoked."""
    command: click.Command = reconcile
    context = click.Context(command, info_name="reconcile", **command.context_settings)
    while True:
        values, rest, _ = command.make_parser(context).parse_args(complete_quick(words))
        for parameter in command.get_params(context):
            value = values.get(parameter.name or "")
            if value is None or not value:
                assert not (complete and parameter.required), f"{words}: no {parameter.human_readable_name}"
            elif isinstance(parameter.type, _CHECKED_TYPES):
                parameter.type_cast_value(context, value)
        if not isinstance(command, click.Group) or not rest:
            assert not rest, f"{command.name} does not take {rest}"
            return
        _, found, words = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=found.name, **found.context_settings)


def test_the_table_of_actions_names_every_action_and_reason() -> None:
    table = section(DOCS / "planning.md", "When each action is proposed")
    assert not [name for name in (*Action, *Reason) if f"`{name}`" not in table]


def test_the_parser_of_these_tests_refuses_what_does_not_exist() -> None:
    for line in ("reconcile plan --no-such-option", "reconcile no-such-command", "reconcile plan --sort"):
        (words,) = _simple_commands(line)
        with pytest.raises(click.UsageError):
            _parse(words[1:])


def test_documents_are_found() -> None:
    assert ROOT / "reconciler/docs/tutorial.md" in DOCUMENTS
