"""Figures that somebody wrote anew together with all that accompanies them, and what still denies them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding
from reconciler.verify.engine import verify_tree
from tests.unit.check.made import write

CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"


def find(root: Path, rule: str) -> list[TreeFinding]:
    return [f for f in verify_tree(root).findings if f.rule.id == rule]


def change(root: Path, key: str, old: str, new: str, below: str = CELL) -> None:
    """In every detail log below a folder."""
    for path in (root / below).rglob(DETAIL):
        text, count = re.subn(rf'("key": "{key}", "value": "){old}', rf"\g<1>{new}", path.read_text())
        assert count == 1
        path.write_text(text)


def test_another_version_of_one_commit_is_asked_about_wherever_it_is_stated(tree: Path) -> None:
    assert not find(tree, "runs.revision")
    change(tree, "loadgen_version", r"[\d.]+ @", "9.9.9 @")
    found = find(tree, "runs.revision")
    assert {(f.cell, f.severity) for f in found} == {("closed/sys1/resnet/Offline", Severity.WARNING)}
    assert len(found) == len(list((tree / CELL).rglob(DETAIL)))
    assert all(re.match(r"version 9\.9\.9 of LoadGen's commit [0-9a-f]{10}$", f.complaint.found) for f in found)
    assert all(re.search(r"^\d\S+, as \d+ other logs of this commit$", f.complaint.wanted) for f in found)


def test_a_date_that_other_logs_of_the_commit_deny_is_an_error(tree: Path) -> None:
    change(tree, "loadgen_git_commit_date", r"\d{4}", "2001")
    found = find(tree, "runs.revision")
    assert {(f.cell, f.severity) for f in found} == {("closed/sys1/resnet/Offline", Severity.ERROR)}
    assert all(f.complaint.found.startswith("date 2001-") for f in found)
    assert all(f.complaint.other is not None and f.complaint.other.line for f in found)


@pytest.mark.parametrize(("name", "said"), [("H200-80GBx16_TRT", 1), ("gx3-48x240x2l40s", 0), ("H200x1", 0)])
def test_a_count_behind_the_accelerator_in_a_name_is_checked_against_the_description(
    tree: Path, name: str, said: int
) -> None:
    for folder in tree.glob("closed/Acme/*/sys1"):
        folder.rename(folder.with_name(name))
    description = tree / "closed/Acme/systems/sys1.json"
    text = re.sub(r'("accelerators_per_node": )"\w+"', r'\1"1"', description.read_text())
    write(description.with_name(f"{name}.json"), text)
    assert len(find(tree, "system.accelerators")) == said


@pytest.mark.parametrize("file", ["closed/Acme/systems/sys1.json", f"{CELL}/measurements.json"])
@pytest.mark.parametrize(("value", "said"), [("8", 1), ("1", 0)])
def test_a_name_with_two_values_is_asked_about(tree: Path, file: str, value: str, said: int) -> None:
    lines = (tree / file).read_text().splitlines()
    lines[1:1] = [f'"retraining": "{value}",', '"other": "2",', '"retraining": "1",']
    write(tree / file, "\n".join(line for line in lines if '"No"' not in line))
    found = [item.complaint for item in find(tree, "files.repeated")]
    assert [(it.place.file, it.found) for it in found] == [(file, f"retraining {value}")] * said
    assert all(it.wanted == "1, which the same file states behind it" for it in found)
    assert all('"retraining"' in (tree / file).read_text().splitlines()[it.place.line - 1] for it in found)
