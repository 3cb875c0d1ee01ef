"""Answers against what LoadGen asked and against each other, and accuracies that no scorer finds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.verify.verdicts import verify_answers, verify_differing
from tests.unit.tree.small_cells import DETAIL, RUN, Line, log, say, small_cell

LOG = "mlperf_log_accuracy.json"
CUT = "\n\n...\n\n"
TOTAL = "qsl_reported_total_count"


def answers(*pairs: tuple[int, str]) -> str:
    """(sample, data), a line each."""
    lines = (f'{{ "seq_id" : {at}, "qsl_idx" : {index}, "data" : "{data}" }}' for at, (index, data) in enumerate(pairs))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def asked(mode: str = "AccuracyOnly", ended: bool = True, scenario: str = "Offline", samples: int = 2) -> str:
    """How many samples there are is on the third line."""
    lines: list[Line] = [("effective_scenario", scenario), ("effective_test_mode", mode), (TOTAL, samples)]
    lines += [("effective_accuracy_sample_count", samples), ("effective_accuracy_log_sampling_target", 2)]
    return log(*lines, *([("power_end", "x"), ("result_validity", "VALID")] if ended else []))


GOOD, FEWER = answers((0, "00"), (1, "01")), answers((0, "00"), (0, "01"))
STRANGE = answers((0, "00"), (7, "01"))
BEYOND = "see {}:3"


def test_answers_are_to_the_samples_that_loadgen_asked_for(tmp_path: Path) -> None:
    place = f"./accuracy/{LOG}"

    def find(name: str, text: str, ended: bool = True) -> list[str]:
        files = {f"accuracy/{LOG}": text, f"accuracy/{DETAIL}": asked(ended=ended)}
        return say(verify_answers(small_cell(tmp_path / name, files)))

    assert find("good", GOOD) == []
    assert find("strange", STRANGE)[0] == f"{place}; {BEYOND.format(f'./accuracy/{DETAIL}')}"
    assert find("ended", STRANGE, ended=False) == []
    assert find("fewer", FEWER)
    assert not list(verify_answers(small_cell(tmp_path / "none", {f"accuracy/{LOG}": STRANGE})))


def test_answers_of_a_test_are_of_samples_that_the_library_has(tmp_path: Path) -> None:
    files = {f"TEST01/accuracy/{LOG}": STRANGE, f"TEST01/{RUN}/{DETAIL}": asked("PerformanceOnly")}
    (found,) = say(verify_answers(small_cell(tmp_path / "a", files)))
    assert found == f"./TEST01/accuracy/{LOG}; {BEYOND.format(f'./TEST01/{RUN}/{DETAIL}')}"
    assert not list(verify_answers(small_cell(tmp_path / "b", {**files, f"TEST01/accuracy/{LOG}": GOOD})))


def test_of_a_truncated_log_the_ends_are_read_or_the_original(tmp_path: Path) -> None:
    whole = answers((0, "00"), (9, "02"), (1, "03"))
    first, second, third = whole.splitlines()[1:-1]
    cut = f"[\n{first}\n{second[:9]}{CUT}{second[-6:]}\n{third}\n]\n"
    digest = hashlib.sha256(whole.encode()).hexdigest()
    (tmp_path / "original").write_text(whole)
    files = {f"accuracy/{LOG}": cut, f"accuracy/{DETAIL}": asked(samples=3)}
    files["accuracy/accuracy.txt"] = f"hash={digest.upper()}\n"
    assert not list(verify_answers(small_cell(tmp_path / "a", files)))
    view = small_cell(tmp_path / "a", files, original=lambda name: tmp_path / "original" if name == digest else None)
    assert list(verify_answers(view)), "sample 9 of three"
    (tmp_path / "original").write_text(answers((0, "00"), (1, "01")))
    assert list(verify_answers(view)), "of three samples two are answered"
    strange = cut.replace(third, third.replace('"qsl_idx" : 1', '"qsl_idx" : 8'))
    (said,) = say(verify_answers(small_cell(tmp_path / "b", {**files, f"accuracy/{LOG}": strange})))
    assert said.startswith(f"./accuracy/{LOG}; ")
    missing = small_cell(tmp_path / "a", files, original=lambda _: None)
    assert not list(verify_answers(missing))


VERIFY = "verify_accuracy.txt"


def pair(
    accuracy: str, test: str, counted: str = "num_perf_log_data_mismatch = 0", scenario: str = "Offline"
) -> dict[str, str]:
    return {
        f"accuracy/{DETAIL}": asked(scenario=scenario),
        f"accuracy/{LOG}": accuracy,
        f"TEST01/accuracy/{LOG}": test,
        f"TEST01/{VERIFY}": f"x\n{counted}\n",
    }


def ends(*pairs: tuple[int, str]) -> str:
    """Of a truncated log, all but its last answer before the cut."""
    lines = answers(*pairs).splitlines()
    return "\n".join(lines[:-2]) + f"\n{{ {CUT} }}\n{lines[-2]}\n]\n"


def differing(root: Path, files: dict[str, str], scenario: str = "Offline") -> list[str]:
    return say(verify_differing(small_cell(root, files, scenario=scenario)))


ONE, OTHER = ends((5, "aa01"), (3, "BB"), (4, "cc")), ends((3, "bd"), (5, "AA02"), (4, "cc"))
TWO = ends((3, "bd"), (5, "ab02"), (4, ""))


@pytest.mark.parametrize(
    ("accuracy", "test", "counted", "lines"),
    [
        (ONE, ONE, "num_perf_log_data_mismatch = 0", None),
        (ONE, OTHER, "num_perf_log_data_mismatch = 0", (2, 3)),
        (ONE, OTHER, "differing: 0", (2, 3)),
        (ONE, OTHER, "num_perf_log_data_mismatch = 1", None),
        (ONE, OTHER, "num_acc_log_entries = 0", None),
        (ONE, TWO, "differing: 2", (2, 3)),
        (ONE, TWO, "differing: 3", None),
        (answers((3, "aa")), OTHER, "differing: 0", (2, 2)),
        (ends((5, "aa"), (4, "c0")), OTHER, "differing: 0", (9, 8)),
        (answers((3, "aa")), answers((3, "ab")), "differing: 0", None),
        (ONE, ends((6, "00"), (7, "00")), "differing: 0", None),
    ],
)
def test_answers_that_differ_are_as_many_as_the_verification_counted(
    tmp_path: Path, accuracy: str, test: str, counted: str, lines: tuple[int, int] | None
) -> None:
    """The lines are those of the first differing answer, in both logs."""
    found = list(verify_differing(small_cell(tmp_path, pair(accuracy, test, counted))))
    if lines is None:
        assert found == []
        return
    assert say(found) == [f"./TEST01/accuracy/{LOG}:{lines[0]}; see ./accuracy/{LOG}:{lines[1]}"]
    assert f"TEST01/{VERIFY}:2" in found[0].wanted
