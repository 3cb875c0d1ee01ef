"""Verify files of TEST07, TEST08 and TEST09: a pass that the figures above it deny."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.resource.rules import Severity
from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.test07 import judge_test07
from reconciler.rules.compliance.test08 import judge_test08
from reconciler.rules.compliance.test09 import judge_test09
from reconciler.verify.cell_rules import verify_stated
from reconciler.verify.engine import verify_tree
from tests.unit.tree.small_cells import rules, say, small_cell

ACCURACY, LENGTHS = "verify_accuracy.txt", "verify_output_len.txt"
# As the official scripts lay them out.
TEST07 = (
    "{{'exact_match': 65.1}}\n\n====\nTEST07 Verification Summary\n====\n"
    "Accuracy score: {score}\nAccuracy threshold: 60.698\nTEST PASS\n"
)
TEST08 = (
    "num_acc_log_entries = 349823\nnum_perf_log_entries = 4096\nnum_matched = {matched}\nnum_unmatched = {missing}\n"
    "num_ne_mismatch = {differing}\ntolerance = 0.10%\n\nTEST PASS\n"
)
TEST09 = (
    "Total samples: 6396\nMean output tokens: {mean}\nMin output tokens: 1\nMax output tokens: 9000\n"
    "Std deviation: 8.10\n\n====\nMean output tokens: {mean}\nMin threshold: {least}\nMax threshold: 1406.02\n"
    "Min check pass: True\n\nTEST PASS\n"
)


def find(tree: Path, test: str, text: str, division: str = "closed") -> list[tuple[Severity, str]]:
    """What is said of a verify file with this text."""
    benchmark = "dlrm-v3" if test == "TEST08" else "gpt-oss-120b"
    top = tree / "closed/Acme/results/sys1"
    cell = shutil.copytree(top / "resnet/Offline", top / benchmark / "Offline")
    for name in ("TEST01", "TEST04"):
        (cell / name).rename(cell / test) if name == "TEST01" else shutil.rmtree(cell / name)
    (cell / test / "verify_performance.txt").unlink()
    (cell / test / ACCURACY).unlink()
    (cell / test / (LENGTHS if test == "TEST09" else ACCURACY)).write_text(text)
    if division != "closed":
        (tree / "closed").rename(tree / division)
    found = verify_tree(tree, round_name="v6.1").findings
    return [(f.severity, f.complaint.found) for f in found if f.rule.id == "compliance.stated"]


def predict(values: list[float], *, whole: bool) -> Entry:
    data = [1.0, 2.0, *values, *([0.0, 1.0, 1.0, 1.0, 2.0] if whole else [])]
    return Entry(1, struct.pack(f"<{len(data)}f", *data))


HONEST = {
    "TEST07 of the official script": ("TEST07", TEST07.format(score="65.1")),
    "TEST08 of the official script": ("TEST08", TEST08.format(matched=4096, missing=0, differing=0)),
    "TEST09 of the official script": ("TEST09", TEST09.format(mean="1150.38", least="1150.38")),
    "TEST07 of ours": ("TEST07", judge_test07("'exact_match': 65.1", Decimal("60.698")).files[ACCURACY]),
    "TEST08 of ours": (
        "TEST08",
        judge_test08([predict([0.2, 0.7], whole=True)], [predict([0.2, 0.7], whole=False)]).files[ACCURACY],
    ),
    "TEST09 of ours": (
        "TEST09",
        judge_test09([Entry(0, b"\0" * 4 * 1200)], Decimal("1150.38"), Decimal("1406.02")).files[LENGTHS],
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_pass_is_believed(tree: Path, name: str) -> None:
    test, text = HONEST[name]
    assert "TEST PASS" in text.splitlines()
    assert not find(tree, test, text)


LINES = {
    "TEST07": ["Accuracy score: 61", "Accuracy threshold: 60"],
    "TEST08": ["num_acc_log_entries = 9", "num_matched = 9", "num_unmatched = 0", "num_ne_mismatch = 0"],
    "TEST09": [
        *("Mean output tokens: 100", "Min output tokens: 1", "Max output tokens: 900"),
        *("Min threshold: 50", "Max threshold: 200"),
    ],
}
OURS = {
    "TEST07": ["accuracy: 61", "threshold: 60"],
    "TEST08": ["answers in the accuracy run: 9", "num_matched = 9", "not in the accuracy run: 0", "differing: 0"],
    "TEST09": ["mean tokens: 100", "shortest and longest: 1 and 900", "bounds: 50 to 200"],
}


def find_wrong(root: Path, test: str, lines: Iterable[str], division: str = "open", **options: object) -> list[str]:
    file = LENGTHS if test == "TEST09" else ACCURACY
    text = "".join(f"{line}\n" for line in (*lines, "TEST PASS"))
    view = small_cell(root, {f"{test}/{file}": text}, division=division, **options)  # type: ignore[arg-type]
    place = f"{division}/Acme/results/sys1/resnet/Offline/{test}/{file}"
    return [line.replace(place, "FILE").replace(f"./{test}/{file}", "FILE") for line in say(verify_stated(view))]


@pytest.mark.parametrize(
    ("test", "at", "line", "denied"),
    [
        ("TEST07", 0, "{}: 60", False),
        ("TEST07", 0, "{}: 59.99", True),
        ("TEST08", 1, "{} = 0", True),
        ("TEST08", 2, "{}2", True),
        ("TEST08", 3, "{}3", True),
        ("TEST09", 0, "{}: 49.98", True),
        ("TEST09", 0, "{}: 49.99", False),
        ("TEST09", 0, "{}: 200.01", False),
        ("TEST09", 0, "{}: 200.02", True),
    ],
)
@pytest.mark.parametrize("words", [LINES, OURS], ids=["the script's", "ours"])
def test_a_figure_that_denies_the_pass_is_named_with_its_line(
    tmp_path: Path, test: str, at: int, line: str, denied: bool, words: dict[str, list[str]]
) -> None:
    lines = list(words[test])
    assert find_wrong(tmp_path, test, lines) == []
    name = re.split(r"[:=] ", lines[at])[0] if "{}:" in line or "{} =" in line else lines[at].rstrip("0")
    lines[at] = line.format(name.strip() if "{}:" in line or "{} =" in line else name)
    assert find_wrong(tmp_path, test, lines) == [f"FILE:{len(lines) + 1}; see FILE:{at + 1}"] * denied
    silent = lines[:at] + lines[at + 1 :]
    assert not [found for found in find_wrong(tmp_path, test, silent) if "; see" in found]


def test_the_last_of_a_figure_counts_and_the_rounds_bounds_bind_the_closed_division(tmp_path: Path) -> None:
    assert find_wrong(tmp_path / "a", "TEST07", ["accuracy: 1", *LINES["TEST07"]]) == []
    limits = {
        name: SimpleNamespace(value=value) for name, value in (("least_mean_tokens", "99"), ("most_mean_tokens", 120))
    }
    bound = rules(tests={"TEST09": SimpleNamespace(limits=limits)})
    for mean, within in (("98.98", False), ("98.99", True), ("120.01", True), ("120.02", False)):
        lines = [line.replace("tokens: 100", f"tokens: {mean}") for line in LINES["TEST09"]]
        found = find_wrong(tmp_path / mean, "TEST09", lines, "closed", benchmark=bound)
        assert found == [f"FILE:{len(lines) + 1}; see FILE:1"] * (not within)
        assert find_wrong(tmp_path / mean, "TEST09", lines, "open", benchmark=bound) == []
        for unruled in (None, rules()):
            assert find_wrong(tmp_path / mean, "TEST09", lines, "closed", benchmark=unruled) == []
    shortest = ["Mean output tokens: 100", "Min output tokens: 101"]
    (found,) = find_wrong(tmp_path / "b", "TEST09", shortest)
    assert "see FILE:1" in found
