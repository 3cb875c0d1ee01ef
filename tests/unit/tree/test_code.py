"""What stands in src/<benchmark> when its cells were run with one code, with two, and where the spec names some."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.resource.kinds import Cell
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import CellCode, SubmissionContent
from reconciler.tree.render import render

SRC = "open/ACME/src/digits/"
ONE, OTHER = {"run.py": b"one\n", "lib/a.py": b"a\n"}, {"run.py": b"other\n"}


def src(submission: SubmissionContent, ruleset: Ruleset, *codes: CellCode) -> dict[str, Any]:
    tree = dict(render(replace(submission, kept_code=codes), ruleset))
    return {path.removeprefix(SRC): content for path, content in tree.items() if path.startswith(SRC)}


def kept(scenario: str, files: dict[str, bytes], **more: Any) -> CellCode:
    return CellCode(Cell("open", "box", "digits", scenario), "resnet", files, tool="mlperf-reconciler 0.1.0", **more)


def test_cells_with_one_code_share_the_folder(submission: SubmissionContent, ruleset: Ruleset) -> None:
    more = {**ONE, "lib/b.py": b"b\n"}
    found = src(submission, ruleset, kept("Offline", ONE), kept("SingleStream", more))
    assert {name: found[name] for name in more} == more
    assert set(found) == {*more, "README.md", "REPRODUCE.md"}


def test_two_versions_of_the_code_stand_apart_and_each_names_its_cells(
    submission: SubmissionContent, ruleset: Ruleset
) -> None:
    found = src(submission, ruleset, kept("Offline", ONE), kept("SingleStream", OTHER))
    folders = sorted({name.partition("/")[0] for name in found if "/" in name})
    assert sorted(found[f"{folder}/run.py"] for folder in folders) == [b"one\n", b"other\n"]
    assert found["REPRODUCE.md"].count(b"\n## open/box/digits/") == 2
    again = src(submission, ruleset, kept("SingleStream", OTHER), kept("Offline", ONE))
    assert {name for name in again if name != "REPRODUCE.md"} == {name for name in found if name != "REPRODUCE.md"}


def test_what_the_code_brings_of_its_own_is_not_written_over(submission: SubmissionContent, ruleset: Ruleset) -> None:
    found = src(submission, ruleset, kept("Offline", {"README.md": b"theirs\n", "run.py": b""}))
    assert found["README.md"] == b"theirs\n"


@pytest.mark.parametrize("image", ["", "acme/runs@sha256:00"])
def test_how_a_command_was_started_is_told_with_its_placeholders(
    submission: SubmissionContent, ruleset: Ruleset, image: str
) -> None:
    commands = {"run": ("python", "run.py", "--conf", "{user_conf}", "--out", "a b")}
    text = src(submission, ruleset, kept("Offline", ONE, commands=commands, image=image))["REPRODUCE.md"].decode()
    assert "python run.py --conf '{user_conf}' --out 'a b'" in text
    assert "- `{user_conf}`: " in text
    assert ("In the image `acme/runs@sha256:00`." in text) is bool(image)
    assert "reconcile apply" not in text


def test_what_is_left_out_is_counted(submission: SubmissionContent, ruleset: Ruleset) -> None:
    text = src(submission, ruleset, kept("Offline", ONE, excluded=2))["REPRODUCE.md"].decode()
    assert "2 files of it are not published." in text
