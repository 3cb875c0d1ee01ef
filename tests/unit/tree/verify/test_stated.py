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

from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.test07 import judge_test07
from reconciler.rules.compliance.test08 import judge_test08
from reconciler.rules.compliance.test09 import judge_test09
from reconciler.tree.findings import Severity
from reconciler.verify.engine import verify_tree
from reconciler.verify.stated import STATED_RULES, verify_stated
from tests.unit.tree.small_cells import rules, say, small_cell

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
EDITED = "because: a verdict that was edited, or the output of two verifications in one file"


def tell(root: Path, test: str, lines: Iterable[str], division: str = "open", **options: object) -> list[str]:
    file = LENGTHS if test == "TEST09" else ACCURACY
    text = "".join(f"{line}\n" for line in (*lines, "TEST PASS"))
    view = small_cell(root, {f"{test}/{file}": text}, division=division, **options)  # type: ignore[arg-type]
    place = f"{division}/Acme/results/sys1/resnet/Offline/{test}/{file}"
    return [line.replace(place, "FILE").replace(f"./{test}/{file}", "FILE") for line in say(verify_stated(view))]


@pytest.mark.parametrize(
    ("test", "at", "line", "said"),
    [
        ("TEST07", 0, "{}: 60", ""),
        ("TEST07", 0, "{}: 59.99", "an accuracy of 59.99; wanted at least its threshold of 60"),
        ("TEST08", 1, "{} = 0", "no sample of the accuracy run; wanted at least one"),
        ("TEST08", 2, "{}2", "2 samples that the accuracy run lacks; wanted none"),
        ("TEST08", 3, "{}3", "3 samples that differ; wanted none"),
        ("TEST09", 0, "{}: 49.98", "a mean of 49.98 tokens; wanted one within its bounds: 50 to 200"),
        ("TEST09", 0, "{}: 49.99", ""),
        ("TEST09", 0, "{}: 200.01", ""),
        ("TEST09", 0, "{}: 200.02", "a mean of 200.02 tokens; wanted one within its bounds: 50 to 200"),
    ],
)
@pytest.mark.parametrize("words", [LINES, OURS], ids=["the script's", "ours"])
def test_a_figure_that_denies_the_pass_is_named_with_its_line(
    tmp_path: Path, test: str, at: int, line: str, said: str, words: dict[str, list[str]]
) -> None:
    lines = list(words[test])
    assert tell(tmp_path, test, lines) == []
    name = re.split(r"[:=] ", lines[at])[0] if "{}:" in line or "{} =" in line else lines[at].rstrip("0")
    lines[at] = line.format(name.strip() if "{}:" in line or "{} =" in line else name)
    mend = f"to mend: run the verification of {test} again and publish all of its output"
    place = f"FILE:{len(lines) + 1}: TEST PASS with"
    assert tell(tmp_path, test, lines) == ([f"{place} {said}; beside FILE:{at + 1}; {EDITED}; {mend}"] if said else [])
    silent = lines[:at] + lines[at + 1 :]
    assert not [found for found in tell(tmp_path, test, silent) if EDITED in found]


@pytest.mark.parametrize(
    ("test", "needed"),
    [
        ("TEST07", "the accuracy of its answers"),
        ("TEST08", "the number of entries that were compared"),
        ("TEST09", "the mean length of its answers"),
    ],
)
def test_a_pass_without_its_figure_is_a_warning(tmp_path: Path, test: str, needed: str) -> None:
    for number, words in enumerate((LINES, OURS)):
        assert tell(tmp_path / str(number), test, ["x", *words[test][1:]]) == [
            f"warning FILE:{len(words[test]) + 1}: TEST PASS without {needed}; wanted "
            "what the verification of the test prints before its verdict; because: a verdict that was written by hand, "
            f"or cut; to mend: run the verification of {test} again and publish all of its output; "
            "mechanism: verdict-without-figures"
        ]


def test_the_last_of_a_figure_counts_and_the_rounds_bounds_bind_the_closed_division(tmp_path: Path) -> None:
    assert tell(tmp_path / "a", "TEST07", ["accuracy: 1", *LINES["TEST07"]]) == []
    limits = {
        name: SimpleNamespace(value=value) for name, value in (("least_mean_tokens", "99"), ("most_mean_tokens", 120))
    }
    bound = rules(tests={"TEST09": SimpleNamespace(limits=limits)})
    for mean, within in (("98.98", False), ("98.99", True), ("120.01", True), ("120.02", False)):
        lines = [line.replace("tokens: 100", f"tokens: {mean}") for line in LINES["TEST09"]]
        found = tell(tmp_path / mean, "TEST09", lines, "closed", benchmark=bound)
        said = f"a mean of {mean} tokens; wanted one within the bounds of the round: 99 to 120; beside FILE:1"
        assert [line.partition(" with ")[2].partition("; because")[0] for line in found] == ([] if within else [said])
        assert tell(tmp_path / mean, "TEST09", lines, "open", benchmark=bound) == []
        for unruled in (None, rules()):
            assert tell(tmp_path / mean, "TEST09", lines, "closed", benchmark=unruled) == []
    shortest = ["Mean output tokens: 100", "Min output tokens: 101"]
    (found,) = tell(tmp_path / "b", "TEST09", shortest)
    assert "wanted one within its answers: 101 to None; beside FILE:1" in found


def test_rules_of_figures_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in STATED_RULES] == [("compliance.stated", verify_stated.find)]
