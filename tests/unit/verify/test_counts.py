"""What the verification of TEST01 counted, against itself and against the logs next to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.verify.power_readings import read_samples, read_watts
from reconciler.verify.verdicts import verify_counts
from tests.unit.tree.small_cells import DETAIL, RUN, Line, log, say, small_cell

TEXT, LOG = "verify_accuracy.txt", "mlperf_log_accuracy.json"
CUT = "\n\n...\n\n"


def counted(logged: int = 4, matched: int = 4, missing: int = 0, repeated: int = 0, unlike: int = 0) -> str:
    """As the official script prints it, a count a line; ten entries in the accuracy run."""
    return (
        f"num_acc_log_entries = {10 + repeated}\nnum_acc_log_duplicate_keys = {repeated}\n"
        f"num_acc_log_data_mismatch = {unlike}\nnum_perf_log_entries = {logged}\n"
        f"num_perf_log_qsl_idx_match = {matched}\nnum_perf_log_data_mismatch = 0\n"
        f"num_missing_qsl_idxs = {missing}\nTEST PASS\n"
    )


def find(root: Path, text: str, more: dict[str, str] | None = None, test: str = "TEST01") -> list[str]:
    return say(verify_counts(small_cell(root, {f"{test}/{TEXT}": text, **(more or {})})))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (counted(), []),
        (counted(matched=3, missing=1), []),
        (counted(repeated=3, unlike=3), []),
        (counted(logged=4, matched=0, missing=4), [f"./TEST01/{TEXT}:5; mechanism: contradicted-verdict"]),
        (counted(matched=0, missing=4).replace("PASS", "FAIL"), []),
        (counted(matched=3), [f"./TEST01/{TEXT}:4; see ./TEST01/{TEXT}:5"]),
        (counted(repeated=1, unlike=2), [f"./TEST01/{TEXT}:3; see ./TEST01/{TEXT}:2"]),
        (
            "answers in the audit run: 4\nfound in the accuracy run: 2\nnot in the accuracy run: 1\nTEST PASS\n",
            [f"./TEST01/{TEXT}:1; see ./TEST01/{TEXT}:2"],
        ),
    ],
)
def test_counts_are_of_one_comparison(tmp_path: Path, text: str, said: list[str]) -> None:
    assert find(tmp_path, text) == said


@pytest.mark.parametrize(("version", "mild"), [("3.1 @ 1a2b", True), (".5a1", True), ("4.0 @ 1a2b", False)])
def test_scripts_before_v4_0_passed_what_compared_nothing(tmp_path: Path, version: str, mild: bool) -> None:
    run = log(("loadgen_version", version), ("effective_scenario", "Offline"))
    (found,) = find(tmp_path, counted(logged=0, matched=0), {f"TEST01/{RUN}/{DETAIL}": run})
    assert found.startswith("warning ") == found.endswith("mechanism: empty-test") == mild


def test_sums_of_other_tests_are_not_of_these_counts(tmp_path: Path) -> None:
    assert find(tmp_path, counted(matched=3), test="TEST08") == []


def answers(count: int) -> str:
    return "[\n" + ",\n".join(f'{{ "seq_id" : {n}, "qsl_idx" : {n}, "data" : "00" }}' for n in range(count)) + "\n]\n"


@pytest.mark.parametrize(
    ("log_text", "there", "wrong"),
    [
        (answers(4), 4, False),
        (answers(3), 3, True),
        (answers(5), 5, True),
        (f"{answers(2)}{CUT}{answers(1)}", 3, False),
        (f"{answers(2)}{CUT}{answers(2)}", 4, False),
        (f"{answers(3)}{CUT}{answers(2)}", 5, True),
        (f"{answers(90)[:4096]}{CUT}{answers(90)[-4096:]}", 90, True),  # the two ends overlap
    ],
)
def test_the_test_has_as_many_answers_as_its_log(tmp_path: Path, log_text: str, there: int, wrong: bool) -> None:
    said = f"./TEST01/{TEXT}:4; see ./TEST01/accuracy/{LOG}"
    assert find(tmp_path, counted(), {f"TEST01/accuracy/{LOG}": log_text}) == ([said] if wrong else [])


@pytest.mark.parametrize(("log_text", "doubted"), [("", True), ("\n", True), ("[\n]\n", False)])
def test_an_empty_file_is_no_log_whose_answers_count(tmp_path: Path, log_text: str, doubted: bool) -> None:
    """LoadGen writes two brackets at least."""
    files = {f"TEST01/{TEXT}": counted(), f"TEST01/accuracy/{LOG}": log_text}
    (found,) = verify_counts(small_cell(tmp_path, files))
    assert bool(found.doubt) is doubted


@pytest.mark.parametrize(
    ("accuracy", "audited", "missing", "wrong"),
    [(10, 10, 1, True), (10, 10, 0, False), (10, 11, 1, False), (10, None, 1, False), (None, 10, 1, False)],
)
def test_no_answer_is_to_a_sample_that_a_whole_accuracy_run_lacks(
    tmp_path: Path, accuracy: int | None, audited: int | None, missing: int, wrong: bool
) -> None:
    def run(samples: int) -> str:
        lines: list[Line] = [("effective_scenario", "Offline"), ("qsl_reported_total_count", samples)]
        return log(*lines)

    libraries = {f"accuracy/{DETAIL}": accuracy, f"TEST01/{RUN}/{DETAIL}": audited}
    logs = {name: run(samples) for name, samples in libraries.items() if samples is not None}
    found = find(tmp_path, counted(matched=4 - missing, missing=missing), logs)
    said = f"./TEST01/{TEXT}:7; see ./TEST01/{TEXT}:1"
    assert found == ([said] if wrong else [])


FOUR = "Watts,{},Volts,230.100000,Amps,0.963000,PF,0.949950"


def make(channels: int, watts: list[str]) -> bytes:
    several = "".join(f",Ch{number},{FOUR.format('70.2')}" for number in range(1, channels + 1))
    lines = (f"Time,07-28-2025 08:09:{at:02}.507,{FOUR.format(w)},Mark,testing{several}" for at, w in enumerate(watts))
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_watts_are_read_with_the_samples(channels: int) -> None:
    data = make(channels, ["210.5", "-1.000000", "0", "007.25"])
    assert read_samples(data).watts == read_watts(data) == [210.5, -1.0, 0.0, 7.25]


PIECES = st.sampled_from(
    [b"", b"\n", b"\r", b",", b",Watts,", b",Watts,9,Volts,9,Amps,9,PF,9", b",Ch4", b"Time,x", b"-", b".", b"1e3", b"x"]
)


@given(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9), PIECES), max_size=3))
def test_damaged_samples_have_equal_watts_or_are_alone(channels: int, damages: list[tuple[int, int, bytes]]) -> None:
    data = make(channels, ["210.5", "31", "210.5"])
    for at, count, piece in damages:
        data = data[:at] + piece + data[at + count :]
    assert read_samples(data).watts in (None, read_watts(data))


@pytest.mark.parametrize(
    "mark", [b"", b",Mark", b",Mark,", b",Mark,a,b", b",Mark,Ch7", b",Other,testing", b",Mark,a,Mark,b"]
)
def test_whatever_comes_before_the_first_channel_is_passed_over(mark: bytes) -> None:
    data = make(2, ["210.5", "31"]).replace(b",Mark,testing", mark)
    assert read_samples(data).watts == [210.5, 31]
