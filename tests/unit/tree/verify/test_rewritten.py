"""Figures that somebody wrote anew together with all that stands beside them, and what still denies them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from reconciler.loadgen.log_files import SEPARATOR
from reconciler.tree.findings import Severity, TreeFinding
from reconciler.verify.engine import verify_tree
from tests.unit.tree.check.made import write

CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"
ANSWERS = "mlperf_log_accuracy.json"


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


def test_logs_of_no_commit_deny_nothing(tree: Path) -> None:
    change(tree, "loadgen_version", r"[^\"]+", "9.9.9 @ NA")
    change(tree, "loadgen_git_commit_date", r"\d{4}", "2001")
    assert not find(tree, "runs.revision")


def cut(answers: Iterable[tuple[int, int]]) -> bytes:
    """The two ends of a log of many more answers."""
    lines = [
        f'{{ "seq_id" : {at}, "qsl_idx" : {sample}, "data" : "{struct.pack("<i", value).hex().upper()}" }},'
        for at, (sample, value) in enumerate(answers)
    ]
    half = len(lines) // 2
    head, tail = ("\n".join(part) for part in (["[", *lines[:half], ""], [*lines[half:], "]", ""]))
    return f'{head}{{ "seq_id" : 9'.encode() + SEPARATOR + f'9, "data" : "00" }},\n{tail}'.encode()


def publish(root: Path, test: Iterable[tuple[int, int]], counted: str = "num_perf_log_data_mismatch = 0") -> None:
    """``test``: what the ends of TEST01's log answer; the accuracy run answers sample n with n."""
    (root / CELL / "accuracy" / ANSWERS).write_bytes(cut([(n, n) for n in range(8)]))
    (root / CELL / "TEST01/accuracy").mkdir(parents=True, exist_ok=True)
    (root / CELL / "TEST01/accuracy" / ANSWERS).write_bytes(cut(test))
    write(root / CELL / "TEST01/verify_accuracy.txt", f"{counted}\nTEST PASS\n")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(3, 3), (5, 5), (90, 7), (91, 1)], id="the same"),
        pytest.param([(90, 7), (91, 1)], id="of no sample in common"),
        pytest.param([(3, 3), (5, 0x705), (90, 7), (91, 1)], id="the same beginning, which is all that is compared"),
    ],
)
def test_answers_that_the_verification_calls_the_same_are_believed(tree: Path, answers: list[tuple[int, int]]) -> None:
    publish(tree, answers)
    assert not find(tree, "compliance.answers")


def test_answers_that_differ_where_the_verification_counted_none_are_named(tree: Path) -> None:
    publish(tree, [(3, 4), (5, 5), (90, 7), (6, 1)])
    (found,) = find(tree, "compliance.answers")
    assert found.complaint.place.file.endswith(f"TEST01/accuracy/{ANSWERS}")
    assert found.complaint.found == "another answer to sample 3 than the accuracy run's"
    assert found.complaint.wanted == "0 answers that differ, as the verification counted"


@pytest.mark.parametrize("counted", ["num_perf_log_data_mismatch = 2", "differing: 2", "nothing was counted"])
def test_answers_that_the_verification_counted_itself_are_no_contradiction(tree: Path, counted: str) -> None:
    publish(tree, [(3, 4), (5, 5), (90, 7), (6, 1)], counted)
    assert not find(tree, "compliance.answers")


def trace(root: Path, process: int = 0, slowest: int = 0, *, whole: bool = True) -> None:
    """As LoadGen writes it beside the log of a run, of two samples; the slowest or the process may be another's."""
    folder = root / CELL / "performance/run_1"
    log = (folder / DETAIL).read_text()
    (own,) = set(re.findall(r'"pid": (\d+)', log))
    ends = [re.findall(rf'"result_{end}_latency_ns", "value": (\d+)', log)[0] for end in ("min", "max")]
    samples = [
        f'{{"name":"Sample","cat":"default","ph":"b","pid":{process or own},"id":{at},"ts":1.5,'
        f'"args":{{"sample_seq":{at},"query_seq":{at},"sample_idx":3,"issue_start_ns":0,"complete_ns":{took}}}}},'
        for at, took in enumerate((ends[0], slowest or ends[1]))
    ]
    last = ['{"name":"LastTrace"}', "],"] if whole else []
    write(folder / "mlperf_log_trace.json", "\n".join(['{"traceEvents":[', *samples, *last, ""]))


def test_a_trace_of_the_run_is_believed(tree: Path) -> None:
    trace(tree)
    assert not find(tree, "log.trace")
    trace(tree, slowest=5, whole=False)
    assert not find(tree, "log.trace"), "what is missing may be the slowest"
    write(tree / CELL / "performance/run_1/mlperf_log_trace.json", "")
    assert not find(tree, "log.trace")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"process": 7}, "written by process 7"),
        ({"slowest": 10**15}, "the slowest sample took 1000000000000000 ns"),
    ],
)
def test_a_trace_of_another_run_or_an_edited_one_is_named(tree: Path, other: dict[str, int], found: str) -> None:
    trace(tree, **other)  # type: ignore[arg-type]
    (finding,) = find(tree, "log.trace")
    assert finding.complaint.found == found
    assert finding.complaint.other is not None
    assert finding.complaint.other.line


def test_network_suts_that_are_not_the_nodes_of_the_description_are_asked_about(tree: Path) -> None:
    change(tree, "sut_name", r"[^\"]*", "Multi-Node SUT: Network SUT, Network SUT")
    (found,) = find(tree, "system.nodes")
    assert found.complaint.found == "number_of_nodes 1"
    assert found.complaint.wanted == "2, the network SUTs that the log names"
    change(tree, "sut_name", r"[^\"]*", "Network SUT")
    assert not find(tree, "system.nodes")


@pytest.mark.parametrize(("name", "said"), [("H200-80GBx16_TRT", 1), ("gx3-48x240x2l40s", 0), ("H200x1", 0)])
def test_a_count_behind_the_accelerator_in_a_name_is_held_against_the_description(
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


def test_two_hashes_of_one_log_are_asked_about(tree: Path) -> None:
    path = tree / CELL / "accuracy/accuracy.txt"
    path.write_text(f"{path.read_text().rstrip()}\nhash={'0' * 64}\n")
    (found,) = find(tree, "accuracy.hashes")
    assert (found.severity, found.complaint.found) == (Severity.WARNING, "hash=000000000000…")
    own = re.findall(r"hash=(\w+)", path.read_text())[0]
    path.write_text(f"{path.read_text().replace('0' * 64, own)}\n")
    assert not find(tree, "accuracy.hashes")


def test_a_pass_of_test05_without_its_scores_is_asked_about(tree: Path) -> None:
    file = tree / CELL / "TEST05/verify_performance.txt"
    write(file, "TEST PASS\n")
    (found,) = find(tree, "compliance.figures")
    assert found.complaint.found == "TEST PASS without the scores of both runs"
    write(file, "reference score = 10\ntest score = 10\nTEST PASS\n")
    assert not find(tree, "compliance.figures")


def test_a_second_value_is_seen_wherever_its_colon_stands(tree: Path) -> None:
    (path,) = (tree / "closed/Acme/systems").glob("*.json")
    text = path.read_text()
    name = '"number_of_nodes":'
    assert name in text
    path.write_text(text.replace(name, f'"number_of_nodes"\t: "7", "number_of_nodes"\n{" " * 40}:', 1))
    assert [item.complaint.found for item in find(tree, "files.repeated")] == ["number_of_nodes 7"]
