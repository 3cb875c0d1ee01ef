"""Verify files of TEST07, TEST08 and TEST09: a pass that the figures above it deny."""

from __future__ import annotations

import shutil
import struct
from decimal import Decimal
from pathlib import Path

import pytest

from reconciler.mlperf.compliance.entries import Entry
from reconciler.mlperf.compliance.test07 import judge_test07
from reconciler.mlperf.compliance.test08 import judge_test08
from reconciler.mlperf.compliance.test09 import judge_test09
from reconciler.tree.findings import Severity
from reconciler.tree.verify.engine import verify_tree

ACCURACY, LENGTHS = "verify_accuracy.txt", "verify_output_len.txt"
ERROR, WARNING = Severity.ERROR, Severity.WARNING
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
LIES = {
    "an accuracy below its threshold": ("TEST07", TEST07.format(score="60.69"), ERROR, "an accuracy of 60.69"),
    "samples that differ": (
        "TEST08",
        TEST08.format(matched=4096, missing=0, differing=2),
        ERROR,
        "2 samples that differ",
    ),
    "samples that are not there": (
        "TEST08",
        TEST08.format(matched=4000, missing=96, differing=0),
        ERROR,
        "96 samples that the accuracy run lacks",
    ),
    "no sample": ("TEST08", TEST08.format(matched=0, missing=0, differing=0), ERROR, "no sample of the accuracy run"),
    "answers that are too short": (
        "TEST09",
        TEST09.format(mean="1150.20", least="1150.38"),
        ERROR,
        "a mean of 1150.20",
    ),
    "answers that are too long": ("TEST09", TEST09.format(mean="1500.00", least="1150.38"), ERROR, "a mean of 1500.00"),
    "a bound of its own": ("TEST09", TEST09.format(mean="900.00", least="800"), ERROR, "a mean of 900.00"),
    "a mean beyond the longest": (
        "TEST09",
        "mean tokens: 1200.00\nshortest and longest: 1 and 1100\nTEST PASS\n",
        ERROR,
        "a mean of 1200.00",
    ),
    "a word alone for predictions": ("TEST08", "TEST PASS\n", WARNING, "without the number of entries"),
    "a word alone for lengths": ("TEST09", "TEST PASS\n", WARNING, "without the mean length"),
    "a word alone for the accuracy": ("TEST07", "'exact_match': 65.1\nTEST PASS\n", WARNING, "without the accuracy"),
}


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


@pytest.mark.parametrize("lie", LIES)
def test_a_pass_that_its_figures_deny_is_named(tree: Path, lie: str) -> None:
    test, text, severity, words = LIES[lie]
    found = find(tree, test, text)
    assert {item for item, _ in found} == {severity}
    assert all(f"TEST PASS with{'out' * (severity is WARNING)}" in said for _, said in found)
    assert any(words in said for _, said in found)


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


OFFICIAL = TEST09.replace("Min output tokens: 1", "Min output tokens: 10")
BOUNDS = "mean tokens: {mean}\nbounds: {least} to 1406.02\nTEST PASS\n"
ENDS = "mean tokens: {mean}\nshortest and longest: 5 and 1100\nTEST PASS\n"


@pytest.mark.parametrize(
    ("text", "mean", "denied"),
    [
        pytest.param(OFFICIAL, "799.98", True, id="official-least"),
        pytest.param(OFFICIAL, "799.99", False, id="official-least-rounded"),
        pytest.param(OFFICIAL, "1406.04", True, id="official-most"),
        pytest.param(OFFICIAL, "1406.03", False, id="official-most-rounded"),
        pytest.param(OFFICIAL.replace("{least}", "2"), "9.98", True, id="official-shortest"),
        pytest.param(BOUNDS, "799.98", True, id="our-least"),
        pytest.param(BOUNDS, "799.99", False, id="our-least-rounded"),
        pytest.param(BOUNDS, "1406.04", True, id="our-most"),
        pytest.param(BOUNDS, "1406.03", False, id="our-most-rounded"),
        pytest.param(ENDS, "4.98", True, id="our-shortest"),
        pytest.param(ENDS, "4.99", False, id="our-shortest-rounded"),
        pytest.param(ENDS, "1100.02", True, id="our-longest"),
        pytest.param(ENDS, "1100.01", False, id="our-longest-rounded"),
    ],
)
def test_a_mean_is_held_to_each_figure_beside_it(tree: Path, text: str, mean: str, denied: bool) -> None:
    """In a division that has no bounds of the round."""
    found = find(tree, "TEST09", text.format(mean=mean, least="800"), division="open")
    assert found == ([(ERROR, f"TEST PASS with a mean of {mean} tokens")] if denied else [])


def test_the_open_division_may_have_bounds_of_its_own(tree: Path) -> None:
    assert not find(tree, "TEST09", TEST09.format(mean="900.00", least="800"), division="open")


@pytest.mark.parametrize(
    ("mean", "least", "most", "believed"),
    [
        ("900.00", "900", "900", True),
        ("900.00", "800", "899", False),
        ("900.00", "901", "1000", False),
        ("900.01", "800", "900", True),  # as it is rounded
    ],
)
@pytest.mark.parametrize("ours", [False, True], ids=["the script's", "ours"])
def test_a_mean_is_within_the_bounds_that_stand_beside_it(
    tree: Path, mean: str, least: str, most: str, believed: bool, ours: bool
) -> None:
    text = (
        f"mean tokens: {mean}\nshortest and longest: 1 and 9000\nbounds: {least} to {most}\nTEST PASS\n"
        if ours
        else TEST09.format(mean=mean, least=least).replace("1406.02", most)
    )
    assert bool(find(tree, "TEST09", text, division="open")) is not believed
