"""Names and words that others chose (folders, commits, authors, specs), at every exit: each output stays what it is."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.check.conftest import logs
from tests.unit.check.made import make_tree

from .conftest import CELL, Reconcile, commit, edit

__all__ = ["logs"]

# A workflow's command on a line of its own, a terminal's sequence, markup of both kinds, a formula, bytes of no
# encoding, a mention, and text that runs the other way.
NASTY = "=cmd\n::error file=x::y\r##[stop-commands]z\x1b[2J\x9b`|<img src=x onerror=1>|@all\u202e\u2028\udcff"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


def is_quiet(text: str) -> bool:
    """Nothing for a terminal or a workflow to obey. Our own annotations begin with notice or error and one file of
    ours."""
    lines = [line.strip() for line in text.split("\n")]
    return not (_CONTROL.search(text) or "##[" in text or any(line.startswith("::error file=x") for line in lines))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def elements(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    parser = Elements()
    parser.feed(text)
    return parser.found


@pytest.fixture(scope="session")
def named_tree(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submitter whose folders have such names, and who contradicts itself."""
    root = make_tree(tmp_path_factory.mktemp("named") / "tree", logs, lengthened=False)
    acme = root / "closed/Acme"
    name = os.fsencode(NASTY.replace("/", "")).decode(errors="surrogateescape")
    shutil.copytree(acme, root / "closed" / name)
    mallory = root / "closed" / name
    (mallory / "results/sys1").rename(mallory / "results" / name)
    (mallory / "systems" / f"{name}.json").write_text(
        json.dumps({"submitter": NASTY.encode(errors="replace").decode()})
    )
    for conf in mallory.rglob("user.conf"):
        conf.write_text(conf.read_text() + f"*.Offline.target_qps = 500\n*.*.min_duration = {NASTY!a}\n")
    (mallory / "results" / name / "resnet/Offline" / name).write_bytes(b"")
    return root


def outputs_of_a_tree(reconcile: Reconcile, root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    for command in ("verify-tree", "check"):
        for style in ((), ("--json",), ("--all",)):
            code, out, err = reconcile(command, str(root), *style)
            assert code == 2, err
            yield f"{command} {style}", out + err
            if style == ("--json",):
                assert json.loads(out)
    written = [f"--html={folder}/a.html", f"--csv={folder}/a.csv", f"--objections={folder}/objections"]
    assert reconcile("verify-tree", str(root), *written)[0] == 2
    for path in (folder / "a.html", folder / "a.csv", *(folder / "objections").iterdir()):
        assert path.name.isprintable()
        yield path.name, path.read_bytes().decode()


def test_names_of_folders_are_only_shown(named_tree: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    shown = dict(outputs_of_a_tree(reconcile, named_tree, tmp_path))
    files = {name for name in shown if name.endswith((".html", ".csv", ".md"))}
    assert {name for name, text in shown.items() if name not in files and not is_quiet(text)} == set()
    assert {name for name in files if _CONTROL.search(shown[name])} == set()
    assert "stop-commands" in shown["a.html"], "the name is not in it: this proves nothing"
    assert not [tag for tag, attrs in elements(shown["a.html"]) if tag == "img" or "onerror" in dict(attrs)]
    rows = list(csv.reader(io.StringIO(shown["a.csv"])))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+-@\t\r")]
    prose = [
        re.sub(r"(?s)(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", shown[name]) for name in files if name.endswith(".md")
    ]
    assert prose
    assert not [text for text in prose if re.search(r"(?<!\\)<img|@all", text)]


def commit_as(root: Path, text: str) -> None:
    """By somebody who names himself so."""
    author = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(
        ["git", "commit", "--quiet", "--all", "--message", text], cwd=root, check=True, env={**os.environ, **author}
    )


def test_words_of_commits_are_only_shown(recorded: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    commit_as(recorded, NASTY)
    page = tmp_path / "page.md"
    commands = (
        ("plan",), ("plan", "--json"), ("why", CELL), ("why", CELL, "--json"), ("blame", CELL), ("history", CELL),
        ("history", CELL, "--json"), ("pr", "--base", "HEAD~1", "--annotate", f"--markdown={page}"), ("status",),
        ("pr", "--base", "HEAD~1", "--json"), ("diff", "HEAD~1", "HEAD"), ("audit",), ("audit", "--json"),
    )  # fmt: skip
    seen = ""
    for command in commands:
        _, out, err = reconcile(*command)
        assert is_quiet(out + err), (command, out, err)
        seen += out
    assert is_quiet(page.read_text())
    assert "stop-commands" in seen, "the subject is not in it: this proves nothing"


SPEC_NAMES = ("box", "Tester", "one", "digits")


@pytest.mark.parametrize("name", SPEC_NAMES)
def test_names_in_a_spec_are_only_shown(recorded: Path, reconcile: Reconcile, name: str) -> None:
    """Names that become folders are refused; the refusal shows them."""
    path = recorded / "specs/one.yaml"
    text = path.read_text()
    quoted = json.dumps(NASTY[:-1])
    path.write_text(re.sub(rf"(?m)(^|[ {{]){name}\b(?=:|$)", r"\g<1>{}", text).replace("{}", quoted))
    for command in (("plan",), ("validate",), ("validate", "--json"), ("status",)):
        _, out, err = reconcile(*command)
        assert is_quiet(out + err), (command, out, err)
        assert "stop-commands" in out + err


def test_names_of_specs_and_records_are_only_shown(recorded: Path, reconcile: Reconcile) -> None:
    name = NASTY.replace("/", "")
    (recorded / "specs" / f"{name}.yaml").write_text("spec: {round: [}\n")
    (recorded / "state/records/Run" / f"{name}.json").write_text("{}")
    for command in (("plan",), ("validate",), ("status",), ("plan", "--json")):
        code, out, err = reconcile(*command)
        assert (code, is_quiet(out + err)) == (1, True), (command, out, err)
        assert "name is not UTF-8" in out + err
    commit(recorded, "Add them")
    code, out, err = reconcile("pr", "--base", "HEAD~1")
    assert (code, is_quiet(out + err)) == (1, True), out + err
    (recorded / "specs" / f"{name}.yaml").unlink()
    code, out, err = reconcile("plan")
    assert (code, is_quiet(out + err)) == (2, True), out + err
    assert "stop-commands" in out + err
