"""What verify files and accuracy.txt state, line by line, against the logs beside them: cells of a few small files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.tree.reading.view import CellView
from reconciler.verify.contradiction import ViewRule
from reconciler.verify.counts import verify_counts
from reconciler.verify.judging import find_disagreements, find_empty_tests
from reconciler.verify.verdicts import (
    VERDICT_RULES,
    verify_figures,
    verify_hashes,
    verify_one_hash,
    verify_scored_samples,
    verify_scores,
)
from tests.unit.tree.small_cells import DETAIL, RUN, Line, log, say, small_cell

Check = ViewRule[CellView]
SPEED, ANSWERS, TEXT = "verify_performance.txt", "verify_accuracy.txt", "accuracy.txt"
OFFLINE: Line = ("effective_scenario", "Offline")
SCORE = "result_samples_per_second"


def run_of(score: object, scenario: str = "Offline", key: str = SCORE, version: str = "5.1 @ 0123456789") -> str:
    """The score is on its third line."""
    return log(
        ("loadgen_version", version), ("effective_scenario", scenario), (key, score), ("early_stopping_met", True)
    )


def tell(check: ViewRule[CellView], root: Path, files: dict[str, str], scenario: str = "Offline") -> list[str]:
    return say(check(small_cell(root, files, scenario=scenario)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Reference score = 100", ""),
        ("reference score = 100.09", ""),
        ("Reference score = 99.9", ""),
        ("Reference score = 99.89", "reference score 99.89; wanted 100, the published run's own; beside ./{}:3"),
        ("Reference score = 100.11", "reference score 100.11; wanted 100, the published run's own; beside ./{}:3"),
        ("REFERENCE SCORE = 1e2", ""),
        ("  Reference score = 7, of 9  ", "reference score 7; wanted 100, the published run's own; beside ./{}:3"),
        ("performance run: 100", ""),
        ("performance run: 7", "performance run 7; wanted 100, the published run's own; beside ./{}:3"),
        ("performance run = 7", ""),
        ("reference score: 7", ""),
        ("the reference score = 7", ""),
        ("Test score = 200", ""),
        ("Test score = 100", "test score 100; wanted 200, the TEST04 run's own; beside ./TEST04/{}:3"),
        ("audit run: 200", ""),
        ("audit run: 1.5e+3", "audit run 1500; wanted 200, the TEST04 run's own; beside ./TEST04/{}:3"),
        ("audit run: 1.2.3", ""),
    ],
)
def test_scores_are_those_of_the_runs_that_are_published(tmp_path: Path, line: str, said: str) -> None:
    files = {f"{RUN}/{DETAIL}": run_of(100), f"TEST04/{RUN}/{DETAIL}": run_of(200)}
    found = tell(verify_scores, tmp_path, {**files, f"TEST04/{SPEED}": f"Verifying\n{line}\nTEST PASS\n"})
    mend = "because: the verdict is of another run than the one published; "
    mend += "to mend: run the verification of TEST04 again on the published logs"
    text = f"./TEST04/{SPEED}:2: {said.format(f'{RUN}/{DETAIL}')}; {mend}"
    assert [each.replace("1.5e+3", "1500").replace("1.5E+3", "1500") for each in found] == ([text] if said else [])


def test_a_score_of_a_run_that_is_not_there_is_of_none(tmp_path: Path) -> None:
    verdict = {f"TEST04/{SPEED}": "reference score = 5\ntest score = 6\n"}
    assert not tell(verify_scores, tmp_path / "a", verdict | {f"{RUN}/{DETAIL}": run_of(100)})
    alone = tell(verify_scores, tmp_path / "b", verdict | {f"TEST04/{RUN}/{DETAIL}": run_of(6)})
    unscored = tell(verify_scores, tmp_path / "c", verdict | {f"TEST04/{RUN}/{DETAIL}": run_of("none")})
    assert alone == unscored == []


@pytest.mark.parametrize(
    ("scenario", "key", "agrees"),
    [
        ("SingleStream", "early_stopping_latency_ss", True),
        ("MultiStream", "early_stopping_latency_ms", True),
        ("Offline", SCORE, False),
    ],
)
def test_streams_state_their_score_also_as_a_rate(tmp_path: Path, scenario: str, key: str, agrees: bool) -> None:
    for number, (said, near) in enumerate(
        (("1000", True), ("1001", True), ("1001.1", False), ("999", True), ("998", False))
    ):
        files = {
            f"{RUN}/{DETAIL}": run_of(1_000_000, scenario, key),
            f"TEST04/{RUN}/{DETAIL}": run_of(0, scenario, key),
            f"TEST04/{SPEED}": f"reference score = {said}\n",
        }
        found = tell(verify_scores, tmp_path / str(number), files, scenario)
        assert (not found) is (agrees and near), said


PASS = "TEST PASS\n"
COUNT, LIBRARY = "effective_accuracy_sample_count", "qsl_reported_total_count"
MISMATCHES = (
    "wanted no mismatch; because: a verdict that was edited, or the output of two verifications in one file; "
    "mechanism: contradicted-verdict"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"num_perf_log_data_mismatch = 0\n{PASS}", ""),
        (f"x\nnum_perf_log_data_mismatch = 3\n {PASS}", f"2: TEST PASS with 3 mismatches; {MISMATCHES}"),
        ("num_perf_log_data_mismatch = 3\nTEST FAIL\n", ""),
        (f"num_perf_log_data_mismatch: 3\n{PASS}", ""),
        (f"differing: 1\n{PASS}", f"1: TEST PASS with 1 mismatches; {MISMATCHES}"),
        (f"differing = 1\n{PASS}", ""),
        (f"num_other = 3\n{PASS}", ""),
        (f"differing: 7\ndiffering: 0\n{PASS}", ""),
        (
            f"differing: 7\nnum_perf_log_data_mismatch = 2\n{PASS}",
            f"2: TEST PASS with 2 mismatches; {MISMATCHES}",
        ),
        (f"differing: {'9' * 20}\n{PASS}", ""),
        (f"differing: {'9' * 19}\n{PASS}", f"1: TEST PASS with {'9' * 19} mismatches; {MISMATCHES}"),
    ],
)
def test_a_pass_has_no_mismatches(tmp_path: Path, text: str, said: str) -> None:
    found = tell(verify_counts, tmp_path, {f"TEST01/{ANSWERS}": text})
    assert found == ([f"./TEST01/{ANSWERS}:{said}"] if said else [])


def answered(scenario: str = "Offline", count: object = 100, group: object = 8, loaded: object = 40) -> dict[str, str]:
    """The count is on the second line."""
    lines: list[Line] = [("effective_scenario", scenario), (COUNT, count), (LIBRARY, 7)]
    lines += [("effective_samples_per_query", group), ("effective_performance_sample_count", loaded)]
    return {f"accuracy/{DETAIL}": log(*((key, value) for key, value in lines if value is not None))}


@pytest.mark.parametrize(
    ("logs", "fewest", "most"),
    [
        pytest.param(answered(), 100, 100, id="offline"),
        pytest.param(answered("MultiStream"), 100, 100 + 3 * 7, id="two sets and a part"),
        pytest.param(answered("MultiStream", loaded=None), 100, 107, id="an unknown library"),
        pytest.param(answered("MultiStream", loaded=0), 100, 107, id="a library of nothing"),
        pytest.param(answered("MultiStream", group=None), 100, 100, id="queries of an unknown length"),
        pytest.param(answered("MultiStream", group=0), 100, 100, id="queries of nothing"),
        pytest.param(answered("MultiStream", group=-8), 100, 100, id="queries of less than nothing"),
        pytest.param(answered("MultiStream", group=1), 100, 100, id="queries of one"),
        pytest.param(answered(count=None), 7, 7, id="an early LoadGen"),
    ],
)
def test_entries_are_those_of_the_accuracy_run(tmp_path: Path, logs: dict[str, str], fewest: int, most: int) -> None:
    def find(entries: int) -> list[str]:
        for text in ("num_acc_log_entries = {}\n", "answers in the accuracy run: {} (0 repeated)\n"):
            found = tell(verify_counts, tmp_path, {**logs, f"TEST01/{ANSWERS}": f"x\n{text.format(entries)}"})
        return found

    assert find(fewest) == find(most) == []
    for entries in (fewest - 1, most + 1):
        (said,) = find(entries)
        assert said == (
            f"./TEST01/{ANSWERS}:2: {entries} entries of the accuracy log; wanted {fewest}, "
            f"the samples of the accuracy run; beside ./accuracy/{DETAIL}:2; because: "
            "the verdict was made with another, or an already truncated, accuracy log"
        )


def test_entries_are_compared_with_a_run_that_says_how_many_it_had(tmp_path: Path) -> None:
    verdict = {f"TEST01/{ANSWERS}": "num_acc_log_entries = 5\n"}
    assert not tell(verify_counts, tmp_path / "a", verdict)
    assert not tell(verify_counts, tmp_path / "b", {**verdict, f"accuracy/{DETAIL}": log(OFFLINE)})
    assert not tell(verify_counts, tmp_path / "c", {f"TEST01/{ANSWERS}": "no count\n", **answered()})


SCORES, ENTRIES = "the scores of both runs", "the number of entries that were compared"


@pytest.mark.parametrize(
    ("test", "file", "text", "missing"),
    [
        *((test, SPEED, "", SCORES) for test in ("TEST01", "TEST04", "TEST05")),
        ("TEST01", ANSWERS, "", ENTRIES),
        ("TEST04", ANSWERS, "", ""),
        ("TEST06", SPEED, "", ""),
        ("TEST04", SPEED, "reference score = 5\ntest score = 6\n", ""),
        ("TEST04", SPEED, "performance run: 5\naudit run: 6\n", ""),
        ("TEST04", SPEED, "reference score = 5\naudit run: 6\n", SCORES),
        ("TEST04", SPEED, "reference score = 5\n", SCORES),
        ("TEST04", SPEED, "test score = 5\n", SCORES),
        ("TEST01", ANSWERS, "num_acc_log_entries = 5\n", ""),
        ("TEST01", ANSWERS, "answers in the accuracy run: 5\n", ""),
        ("TEST01", ANSWERS, "num_other = 5\n", ENTRIES),
    ],
)
def test_a_pass_has_its_figures(tmp_path: Path, test: str, file: str, text: str, missing: str) -> None:
    said = (
        f"./{test}/{file}:{text.count(chr(10)) + 1}: TEST PASS without {missing}; wanted "
        "what the verification of the test prints before its verdict; "
        "because: a verdict that was written by hand, or cut; "
        f"to mend: run the verification of {test} again and publish all of its output"
    )
    assert tell(verify_figures, tmp_path, {f"{test}/{file}": f"{text}{PASS}"}) == ([said] if missing else [])
    assert not tell(verify_figures, tmp_path, {f"{test}/{file}": f"{text}TEST PASSED\n"})


@pytest.mark.parametrize(
    ("text", "line", "scored"),
    [
        ("accuracy=7%, good=7, total=100\n", 0, 0),
        ("x\naccuracy=7%, good=7, total=99\n", 2, 99),
        ("'gen_num': 101,\n", 1, 101),
        ("queries=100, total=500\n", 0, 0),
        ("queries=99, total=100\n", 1, 99),
        ("'gen_num': 100, total=7\n", 0, 0),
        ("subtotal=7 myqueries=8\n", 0, 0),
        (f"total={'9' * 20}\n", 0, 0),
        (f"total={'9' * 19}\n", 1, int("9" * 19)),
    ],
)
def test_a_score_is_over_the_samples_of_its_run(tmp_path: Path, text: str, line: int, scored: int) -> None:
    said = f"./accuracy/{TEXT}:{line}: a score over {scored} samples; wanted 100, the samples of the accuracy run; "
    said += f"beside ./accuracy/{DETAIL}:2; because: accuracy.txt is of another run, or of a part of this one"
    files = {**answered(), f"accuracy/{TEXT}": text}
    assert tell(verify_scored_samples, tmp_path / "a", files) == ([said] if line else [])
    assert not tell(verify_scored_samples, tmp_path / "b", {f"accuracy/{TEXT}": text})
    assert not tell(verify_scored_samples, tmp_path / "c", answered())
    assert not tell(
        verify_scored_samples, tmp_path / "d", {f"accuracy/{DETAIL}": log(OFFLINE), f"accuracy/{TEXT}": text}
    )


ONE, OTHER = "ab" * 32, "cd" * 32
RESULT = '{"f1": 0.5}'  # whose hash one scorer writes as if it were the log's


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"hash={ONE}\n", None),
        (f"hash={ONE}\nhash={ONE.upper()}\n", None),
        (f"x\nhash= {ONE}\nhash={ONE}\nhash={OTHER}\nhash={'0' * 64}", (4, 2)),
        (f"hash={ONE}\n hash={OTHER}\n", None),
        (f"hash={ONE}\nhash={OTHER[:-1]}\n", None),
        (f"hash={ONE}\nhash={OTHER}0\n", None),
        ("none\n", None),
        (f"{RESULT}\nhash={hashlib.sha256(RESULT.encode()).hexdigest()}\nhash={ONE}\n", None),
        (f"{RESULT}\nhash={hashlib.sha256(RESULT.encode()).hexdigest()}\nhash={ONE}\nhash={OTHER}\n", (4, 3)),
    ],
)
def test_one_log_has_one_hash(tmp_path: Path, text: str, lines: tuple[int, int] | None) -> None:
    for folder in ("accuracy", "TEST01/accuracy"):
        place = f"./{folder}/{TEXT}"
        found = tell(verify_one_hash, tmp_path / folder, {f"{folder}/{TEXT}": text})
        assert found == [
            f"{place}:{second}: hash={OTHER[:12]}…; wanted {ONE[:12]}…, as the same file states; "
            f"beside {place}:{first}; because: the hashes of two accuracy logs, or of one before and after it was cut; "
            "to mend: keep the hash of the accuracy log that is published"
            for second, first in ([lines] if lines else [])
        ]


def test_hashes_are_looked_at_as_check_does_it(tmp_path: Path) -> None:
    logs = {"accuracy/mlperf_log_accuracy.json": "[ 1 ]", "TEST01/accuracy/mlperf_log_accuracy.json": "[ 1 ]"}
    found = tell(verify_hashes, tmp_path, {**logs, f"accuracy/{TEXT}": f"hash={ONE}"})
    assert [line.partition("; ")[0] for line in found] == [
        f"./accuracy/{TEXT}:1: hash={ONE[:12]}…",
        "./TEST01/accuracy/mlperf_log_accuracy.json: the accuracy run's log, byte for byte",
    ]


def test_rules_of_verdicts_by_their_ids() -> None:
    assert [(rule.id, check, rule.sources[0]) for rule, check in VERDICT_RULES] == [
        ("compliance.scores", verify_scores.find, "ours"),
        ("compliance.passes", find_disagreements.find, "compliance scripts"),
        ("compliance.empty", find_empty_tests.find, "compliance scripts"),
        ("compliance.figures", verify_figures.find, "compliance scripts"),
        ("compliance.counts", verify_counts.find, "compliance scripts"),
        ("accuracy.samples", verify_scored_samples.find, "ours"),
        ("accuracy.hash", verify_hashes.find, "submission rules: truncation"),
        ("accuracy.hashes", verify_one_hash.find, "submission rules: truncation"),
    ]
