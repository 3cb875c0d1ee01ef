"""The accuracy run of a result: its log, what accuracy.txt says, and both against the archive and the tests."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.accuracy import (
    ACCURACY_RULES,
    audit,
    check_accuracy_bars,
    check_ended,
    check_errors,
    check_extra_files,
    check_extra_samples,
    check_hash_line,
    check_lengths,
    check_log_size,
    check_mode,
    check_number_form,
    check_samples,
    check_test_hashes,
    hash_of_log,
    read_metric_values,
)
from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.resource.ruled_values import Bar, ExtraFiles
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.findings import Severity
from tests.unit.tree.small_cells import DETAIL, VALID, Line, log, rules, say, small_cell

RULE = load_ruleset("v6.1").accuracy_log
DIGEST = "ab" * 32
MODE, ACCURACY_MODE = "effective_test_mode", ("effective_test_mode", "AccuracyOnly")
COUNT, LIBRARY = "effective_accuracy_sample_count", "qsl_reported_total_count"
ANSWERS = b'[ { "seq_id" : 0, "qsl_idx" : 0, "data" : "00" } ]'
OWN = hashlib.sha256(ANSWERS).hexdigest()
CUT = b"[ 1\n\n...\n\n2 ]"
AGAIN = "to mend: score the accuracy run again"


def accuracy(text: str = "", log_lines: tuple[Line, ...] | None = (), answers: bytes | None = None) -> dict[str, Any]:
    """The files of an accuracy folder; a detail log has its first line from the second on."""
    found: dict[str, Any] = {"accuracy/accuracy.txt": text} if text else {}
    if log_lines is not None:
        found[f"accuracy/{DETAIL}"] = log(("effective_scenario", "Offline"), *log_lines)
    if answers is not None:
        found["accuracy/mlperf_log_accuracy.json"] = answers
    return found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(None, [], id="no log"),
        pytest.param((ACCURACY_MODE,), [], id="accuracy"),
        pytest.param(((MODE, "SubmissionRun"),), [], id="both modes"),
        pytest.param(
            (("a", 1), (MODE, "PerformanceOnly")),
            [
                "3: PerformanceOnly; wanted AccuracyOnly; "
                "because: the log of a performance run is in the folder of the accuracy run"
            ],
            id="performance",
        ),
        pytest.param(((MODE, "FindPeak"),), ["2: FindPeak; wanted AccuracyOnly"], id="another"),
        pytest.param((), ["nothing; wanted AccuracyOnly"], id="none"),
    ],
)
def test_the_log_is_of_an_accuracy_run(tmp_path: Path, lines: tuple[Line, ...] | None, said: list[str]) -> None:
    found = say(check_mode(small_cell(tmp_path, accuracy("x", lines))))
    assert [line.removeprefix(f"./accuracy/{DETAIL}").removeprefix(":").strip() for line in found] == said


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ((ACCURACY_MODE,), 2),
        ((ACCURACY_MODE, ("a", 1)), 3),
        ((ACCURACY_MODE, VALID), 3),
        ((ACCURACY_MODE, ("power_end", "x")), 0),
        (((MODE, "PerformanceOnly"),), 0),
        (None, 0),
    ],
)
def test_an_accuracy_run_came_to_its_end(tmp_path: Path, lines: tuple[Line, ...] | None, line: int) -> None:
    said = f"./accuracy/{DETAIL}:{line}: the log ends before the run did; wanted the log of a run that came to its end"
    assert say(check_ended(small_cell(tmp_path, accuracy("x", lines)))) == ([said] if line else [])


def test_the_first_error_of_an_accuracy_run_is_told(tmp_path: Path) -> None:
    lines = (("a", 1), ("error_runtime", "no memory"), ("error_other", "no disk"))
    view = small_cell(tmp_path / "1", accuracy("x", lines))
    assert say(check_errors(view)) == [f"./accuracy/{DETAIL}:3: no memory; wanted no ERROR line"]
    for name, quiet in (("2", ()), ("3", None)):
        assert not list(check_errors(small_cell(tmp_path / name, accuracy("x", quiet))))


def test_no_audit_config_took_part_in_the_accuracy_run(tmp_path: Path) -> None:
    view = small_cell(tmp_path / "a", accuracy("x", (ACCURACY_MODE, ("warning_generic", AUDIT_TEXT))))
    (said,) = say(audit(view))
    assert said.startswith(f"./accuracy/{DETAIL}:3: LoadGen took settings from an audit.config; wanted a run without")
    for name, quiet in (("b", (ACCURACY_MODE,)), ("c", None)):
        assert not list(audit(small_cell(tmp_path / name, accuracy("x", quiet))))


@pytest.mark.parametrize(
    ("lines", "wanted", "said"),
    [
        pytest.param(((COUNT, 10),), 10, "", id="all"),
        pytest.param(((COUNT, 9),), 10, ":2: 9 samples; wanted exactly 10", id="fewer"),
        pytest.param(((COUNT, 11),), 10, ":2: 11 samples; wanted exactly 10", id="more"),
        pytest.param(((LIBRARY, 9), (COUNT, 10)), 10, "", id="of a larger library"),
        pytest.param(((LIBRARY, 10),), 10, "", id="an early LoadGen"),
        pytest.param(((LIBRARY, 9),), 10, ":2: 9 samples; wanted exactly 10", id="an early LoadGen with fewer"),
        pytest.param(((LIBRARY, 9), (COUNT, "many")), 10, ":3: many samples; wanted exactly 10", id="no number"),
        pytest.param((), 10, ": nothing samples; wanted exactly 10", id="not stated"),
        pytest.param(((COUNT, 9),), None, "", id="no demand"),
        pytest.param(None, 10, "", id="no log"),
    ],
)
def test_every_sample_is_answered(
    tmp_path: Path, lines: tuple[Line, ...] | None, wanted: int | None, said: str
) -> None:
    files, asked = accuracy("x", lines), rules(values={"exact_accuracy_sample_count": wanted})
    place = f"./accuracy/{DETAIL}"
    for exempt, severity in (((), ""), (("accuracy",), "warning ")):
        found = say(check_samples(small_cell(tmp_path, files, benchmark=asked, exempt=exempt)))
        assert found == ([f"{severity}{place}{said}; mechanism: short-accuracy"] if said else [])
    assert not list(check_samples(small_cell(tmp_path, files, benchmark=None)))


BARS = (
    Bar("acc", Decimal(70)),
    Bar("ROUGE1", Decimal(40), Decimal(50)),
    Bar("GEN_LEN", None, Decimal(900)),
    Bar("TOKENS_PER_SAMPLE", Decimal(100), Decimal(200)),
)
GOOD = "accuracy=70%\n{'rouge1': 50, 'gen_len': 900, 'tokens_per_sample': 100}\n"
STATED = (
    (GOOD, [], []),
    (GOOD.replace("70", "69.9"), ["1: acc 69.9; wanted at least 70"], []),
    (GOOD.replace("50", "50.1"), ["2: ROUGE1 50.1; wanted at least 40 and at most 50"], []),
    (GOOD.replace("50", "39"), ["2: ROUGE1 39; wanted at least 40 and at most 50"], []),
    (GOOD.replace("900", "901"), [], ["2: GEN_LEN 901; wanted at most 900"]),
    (GOOD.replace("100", "99"), [], ["2: TOKENS_PER_SAMPLE 99; wanted at least 100 and at most 200"]),
    (GOOD.replace("100", "201"), [], ["2: TOKENS_PER_SAMPLE 201; wanted at least 100 and at most 200"]),
    (
        "nothing\n",
        [
            f"no line states acc; wanted at least 70; {AGAIN}",
            f"no line states ROUGE1; wanted at least 40 and at most 50; {AGAIN}",
        ],
        # The official checkers look for a metric that has a least value; another is held to its bar where it is stated.
        [f"no line states TOKENS_PER_SAMPLE; wanted at least 100 and at most 200; {AGAIN}"],
    ),
)


@pytest.mark.parametrize("round_name", ["v5.1", "v6.0", "v6.1"])
@pytest.mark.parametrize(
    ("official", "metric", "text", "met"),
    [
        ("deepseek-r1", "exact_match", "'exact_match': 80.545\n", True),
        ("deepseek-r1", "exact_match", "'exact_match': 80.544\n", False),
        ("rgat", "acc", "accuracy=72.132%, good=568648, total=788379\n", True),
        ("rgat", "acc", "accuracy=72.131%, good=568640, total=788379\n", False),
        ("rgat", "acc", "accuracy=0.900%, good=7095, total=788379\n", False),
    ],
)
def test_bars_are_those_that_the_rounds_were_judged_by(
    official: str, metric: str, text: str, met: bool, round_name: str, tmp_path: Path
) -> None:
    view = small_cell(tmp_path, accuracy(text), official=official, round_name=round_name)
    found = [item.found for item in check_accuracy_bars(view) if item.found.startswith(metric)]
    assert (found == []) is met


@pytest.mark.parametrize(("text", "below", "lengths"), STATED, ids=[str(number) for number in range(len(STATED))])
def test_metrics_and_lengths_keep_their_bars(tmp_path: Path, text: str, below: list[str], lengths: list[str]) -> None:
    view = small_cell(tmp_path, accuracy(text), benchmark=rules(asked=BARS))
    place = "./accuracy/accuracy.txt:"
    assert [said.removeprefix(place).strip() for said in say(check_accuracy_bars(view))] == below
    assert [said.removeprefix(place).strip() for said in say(check_lengths(view))] == lengths


def test_an_accuracy_is_asked_for_where_the_round_and_the_files_have_one(tmp_path: Path) -> None:
    bad, asked = accuracy("accuracy=np.float64(1)\n"), rules(asked=BARS)
    for check, count in ((check_accuracy_bars, 2), (check_lengths, 1), (check_number_form, 1)):
        assert len(list(check(small_cell(tmp_path / "a", bad, benchmark=asked)))) == count
        assert not list(check(small_cell(tmp_path / "a", bad, benchmark=asked, exempt=("accuracy",))))
        assert not list(check(small_cell(tmp_path / "a", bad, benchmark=None)))
        assert not list(check(small_cell(tmp_path / "b", accuracy(), benchmark=asked)))


def test_one_number_that_is_a_scalar_of_numpy_is_told(tmp_path: Path) -> None:
    bars = (Bar("ROUGE2", Decimal(1)), Bar("acc", Decimal(1)), Bar("ROUGE1", Decimal(1)), Bar("unheard", Decimal(1)))
    text = "{'rouge2': 7}\naccuracy=np.float32(80.5)\n{'rouge1': np.float64(9)}\n"
    fix = "score with NumPy 1, or print float(…): the value itself stays"
    found = say(check_number_form(small_cell(tmp_path, accuracy(text), benchmark=rules(asked=bars))))
    said = "acc 80.5 as a scalar of NumPy 2, np.…(80.5); wanted a plain number"
    assert found == [f"./accuracy/accuracy.txt:2: {said}; to mend: {fix}"]


def test_accuracy_txt_has_the_hash_of_the_log(tmp_path: Path) -> None:
    files = accuracy("accuracy=70%\n")
    said = "no line hash=…; wanted the SHA-256 of the whole accuracy log"
    cause = "because: the accuracy log was perhaps not put through the truncation script; mechanism: no-hash"
    assert say(check_hash_line(small_cell(tmp_path / "a", files))) == [f"./accuracy/accuracy.txt: {said}; {cause}"]
    assert not list(check_hash_line(small_cell(tmp_path / "a", files, exempt=("accuracy",))))
    assert not list(check_hash_line(small_cell(tmp_path / "b", accuracy(f"hash={DIGEST}\n"))))
    assert not list(check_hash_line(small_cell(tmp_path / "c", accuracy())))


def test_the_accuracy_log_is_no_larger_than_its_truncated_form(tmp_path: Path) -> None:
    for size, said in (
        (RULE.limit, []),
        (RULE.limit + 1, [f"{RULE.limit + 1:,} bytes; wanted at most {RULE.limit:,}"]),
    ):
        found = say(check_log_size(small_cell(tmp_path, accuracy(answers=b"x" * size))))
        place = "./accuracy/mlperf_log_accuracy.json"
        assert found == [f"{place}: {line}; to mend: truncate the log" for line in said]
    assert not list(check_log_size(small_cell(tmp_path / "none", accuracy())))


HASHES = {
    "of the log": (f"\nhash={OWN}", ANSWERS, ""),
    "in capitals": (f"\nhash={OWN.upper()}", ANSWERS, ""),
    "of the log with the line ends of Windows": (
        "hash=" + hashlib.sha256(b"[ 1\r\n]").hexdigest(),
        b"[ 1\n]",
        "",
    ),
    "another": (
        f"\nhash={DIGEST}",
        ANSWERS,
        f"./accuracy/accuracy.txt:2: hash={DIGEST[:12]}…; wanted {OWN[:12]}…, that of the log; "
        f"beside ./accuracy/mlperf_log_accuracy.json; {AGAIN}",
    ),
    "of 17 digits": (
        f"hash={DIGEST[:17]}",
        ANSWERS,
        f"./accuracy/accuracy.txt:1: hash={DIGEST[:12]}…; wanted {OWN[:12]}…, that of the log; "
        f"beside ./accuracy/mlperf_log_accuracy.json; {AGAIN}",
    ),
    "of an empty log": (
        f"hash={DIGEST}",
        b"",
        f"./accuracy/accuracy.txt:1: hash={DIGEST[:12]}…; wanted e3b0c44298fc…, that of the log; "
        f"beside ./accuracy/mlperf_log_accuracy.json; {AGAIN}",
    ),
    "of the truncated log": (
        f"hash={hashlib.sha256(CUT).hexdigest().upper()}",
        CUT,
        "./accuracy/accuracy.txt:1: the hash of the truncated log; wanted that of the whole log; "
        "beside ./accuracy/mlperf_log_accuracy.json; "
        "because: the hash was taken after the log was truncated, as by a second truncation",
    ),
    "that is none of a truncated log": (
        "hash=cafe",
        CUT,
        "./accuracy/accuracy.txt:1: hash=cafe; wanted a SHA-256: 64 hexadecimal digits",
    ),
    "of 16 digits of a truncated log": (
        f"hash={DIGEST[:16]}",
        CUT,
        f"./accuracy/accuracy.txt:1: hash={DIGEST[:16]}; wanted a SHA-256: 64 hexadecimal digits",
    ),
    "in no text": ("", ANSWERS, ""),
    "of another truncated log": (f"hash={DIGEST}", CUT, ""),
    "without a log": (f"hash={DIGEST}", None, ""),
    "of no one": ("accuracy=70%", ANSWERS, ""),
}


@pytest.mark.parametrize("name", HASHES)
def test_the_hash_is_that_of_the_log(tmp_path: Path, name: str) -> None:
    text, answers, said = HASHES[name]
    assert say(hash_of_log(small_cell(tmp_path, accuracy(text, answers=answers)))) == ([said] if said else [])


@pytest.mark.parametrize(
    ("before", "severity"),
    [(f"total=9hash={DIGEST}\n", Severity.WARNING), ("total=9hash=cafe\n", None), ("total=9\n", None)],
)
def test_a_second_truncation_is_milder_where_the_first_hash_is_still_there(
    tmp_path: Path, before: str, severity: Severity | None
) -> None:
    """Behind the scorer's last line, which had no end, so that the script of truncation did not see it."""
    text = f"{before}hash={hashlib.sha256(CUT).hexdigest()}\n"
    (found,) = hash_of_log(small_cell(tmp_path, accuracy(text, answers=CUT)))
    assert found.severity is severity


def test_the_hash_of_a_truncated_log_is_looked_up_in_the_archive(tmp_path: Path) -> None:
    asked: list[str] = []

    def find(digest: str) -> Path | None:
        asked.append(digest)
        return tmp_path / "original" if digest == OWN else None

    (tmp_path / "original").write_bytes(b"[ 1 ]\n")
    missing = small_cell(tmp_path / "a", accuracy(f"hash={DIGEST.upper()}", answers=CUT), original=find)
    wanted = f"hash={DIGEST[:12]}…; wanted the hash of an accuracy log in the archive; {AGAIN}"
    assert say(hash_of_log(missing)) == [f"./accuracy/accuracy.txt:1: {wanted}"]
    other = small_cell(tmp_path / "b", accuracy(f"hash={OWN}", answers=CUT), original=find)
    found = "not the ends of the log that the hash names; wanted its truncated form; beside ./accuracy/accuracy.txt:1"
    assert say(hash_of_log(other)) == [f"./accuracy/mlperf_log_accuracy.json: {found}"]
    assert asked == [DIGEST, OWN]
    (tmp_path / "original").write_bytes(CUT)
    assert not list(hash_of_log(other))
    windows = accuracy(f"hash={OWN}", answers=CUT.replace(b"\n", b"\r\n"))
    assert not list(hash_of_log(small_cell(tmp_path / "c", windows, original=find)))


@pytest.mark.parametrize(
    ("count", "there", "lacking", "beyond"),
    [
        (10, ("3.png", "9.png", "10.png", "sheet"), [], []),
        (10, ("3.png", "10.png", "sheet.txt"), ["1 of 4 files missing, as 9"], []),
        (10, ("3.png", "9.png", "sheet.x.y"), ["1 of 4 files missing, as sheet"], ["1 of 4 files missing, as 10"]),
        (9, ("sheet.txt",), ["1 of 4 files missing, as 3"], ["2 of 4 files missing, as 9"]),
        (None, (), ["4 of 4 files missing, as 3"], []),
    ],
)
def test_pictures_of_the_samples_that_the_round_names_are_there(
    tmp_path: Path, count: int | None, there: tuple[str, ...], lacking: list[str], beyond: list[str]
) -> None:
    files = accuracy(log_lines=((COUNT, count),) if count else ()) | {f"accuracy/images/{name}": "x" for name in there}
    asked = rules(extra=ExtraFiles("images", ("3", "9", "10", "sheet")))
    for exempt, severity in (((), ""), (("accuracy_files",), "warning ")):
        view = small_cell(tmp_path, files, benchmark=asked, exempt=exempt)
        for check, said in ((check_extra_files, lacking), (check_extra_samples, beyond)):
            wanted = "wanted 3, 9, 10, sheet with any extension"
            assert say(check(view)) == [f"{severity}./accuracy/images: {line}; {wanted}" for line in said]


def test_no_pictures_are_missed_where_none_are_asked_for(tmp_path: Path) -> None:
    for benchmark in (None, rules()):
        assert not list(check_extra_files(small_cell(tmp_path, accuracy(), benchmark=benchmark)))
    unread = rules(extra=ExtraFiles("images", ("3",)))
    view = small_cell(tmp_path / "unread", accuracy(log_lines=None), benchmark=unread)
    assert [len(list(check(view))) for check in (check_extra_files, check_extra_samples)] == [1, 0]


TEST, PLACE = "TEST01/accuracy/", "./TEST01/accuracy/"
TEXT, LOG = "accuracy.txt", "mlperf_log_accuracy.json"
OTHER = "cd" * 32
COPIED_LOG = (
    f"{PLACE}{LOG}: the accuracy run's log, byte for byte; wanted the log of TEST01's own run; "
    f"beside ./accuracy/{LOG}; because: one of the two was copied from the other; mechanism: copied-logs"
)
COPIED_HASH = (
    f"{PLACE}{TEXT}:2: hash={DIGEST[:12]}…, that of the accuracy run; wanted the hash of TEST01's own log; "
    f"beside ./accuracy/{TEXT}:1; because: accuracy.txt, or its hash, is of the accuracy run"
)
TAKEN = (
    f"./accuracy/{TEXT}:1: hash={OWN[:12]}…, that of TEST01's log; wanted the hash of the accuracy run's own log; "
    f"beside {PLACE}{LOG}; because: accuracy.txt, or its hash, is of the run of TEST01; "
    "mechanism: accuracy-of-another-run"
)
TWO_RUNS: dict[str, tuple[tuple[str, bytes | None], tuple[str, bytes | None], list[str]]] = {
    "of their own": ((f"hash={DIGEST}", CUT), (f"\nhash={OTHER}", b"[ 3 ]"), []),
    "one log": ((f"hash={DIGEST}", ANSWERS), (f"\nhash={OTHER}", ANSWERS), [COPIED_LOG]),
    "one truncated log of other hashes": ((f"hash={DIGEST}", CUT), (f"\nhash={OTHER}", CUT), []),
    "one truncated log of one hash": ((f"hash={DIGEST}", CUT), (f"\nhash={DIGEST}", CUT), [COPIED_LOG]),
    "one truncated log and no hash": (("", CUT), (f"\nhash={OTHER}", CUT), [COPIED_LOG]),
    "one truncated log and no hash of the test": ((f"hash={DIGEST}", CUT), ("", CUT), [COPIED_LOG]),
    "two empty logs of no hash": (("", b""), ("", b""), []),
    "the hash of no bytes": ((f"hash={hashlib.sha256().hexdigest()}", CUT), (f"\nhash={OTHER}", b""), []),
    "two empty logs": ((f"hash={DIGEST}", b""), (f"\nhash={OTHER}", b""), []),
    "one hash": ((f"hash={DIGEST}", CUT), (f"\nhash={DIGEST}", b"[ 3 ]"), [COPIED_HASH]),
    "no hashes": (("", CUT), ("", b"[ 3 ]"), []),
    "the hash of the test's log": ((f"hash={OWN}", CUT), (f"\nhash={OTHER}", ANSWERS), [TAKEN]),
    "no log of the test": ((f"hash={OWN}", CUT), (f"\nhash={OTHER}", None), []),
    "no log of the accuracy run": ((f"hash={DIGEST}", None), (f"\nhash={OTHER}", ANSWERS), []),
}


@pytest.mark.parametrize("name", TWO_RUNS)
def test_the_accuracy_run_and_a_test_have_a_log_of_their_own(tmp_path: Path, name: str) -> None:
    (text, answers), (test_text, test_answers), said = TWO_RUNS[name]
    files: dict[str, Any] = accuracy(text, answers=answers) | {f"{TEST}none.txt": "x"}
    files |= {f"{TEST}{TEXT}": test_text} if test_text else {}
    files |= {f"{TEST}{LOG}": test_answers} if test_answers is not None else {}
    assert say(check_test_hashes(small_cell(tmp_path, files))) == said


def test_a_test_may_state_its_own_hash_behind_that_of_the_accuracy_run(tmp_path: Path) -> None:
    files = accuracy(f"hash={DIGEST}", answers=CUT)
    for number, (text, found) in enumerate(((f"hash={DIGEST}\n", 1), (f"hash={DIGEST}\nhash={'cd' * 32}\n", 0))):
        view = small_cell(tmp_path / str(number), {**files, "TEST01/accuracy/accuracy.txt": text})
        assert len(list(check_test_hashes(view))) == found


@pytest.mark.parametrize(("ends", "found"), [(b"\n", 1), (b"\r\n", 1), (b"\r", 0)])
def test_the_hash_of_a_tests_log_is_known_before_its_line_ends_were_those_of_windows(
    tmp_path: Path, ends: bytes, found: int
) -> None:
    log = b"[\n1\n]\n"
    files = accuracy(f"hash={hashlib.sha256(log).hexdigest()}", answers=CUT)
    files |= {f"{TEST}{LOG}": log.replace(b"\n", ends)}
    assert len(list(check_test_hashes(small_cell(tmp_path, files)))) == found


def test_the_last_value_of_each_known_metric_is_read() -> None:
    text = "accuracy=70%\n{'rouge1': 5}\naccuracy=71%\n"
    found = read_metric_values(text, ("acc", "ROUGE1", "ROUGE2", "unheard"))
    assert found == {"acc": Decimal(71), "ROUGE1": Decimal(5)}


def test_rules_of_the_accuracy_run_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in ACCURACY_RULES] == [
        ("accuracy.mode", check_mode),
        ("accuracy.ended", check_ended),
        ("accuracy.errors", check_errors),
        ("accuracy.audit", audit),
        ("accuracy.samples", check_samples),
        ("accuracy.bars", check_accuracy_bars),
        ("accuracy.lengths", check_lengths),
        ("accuracy.number", check_number_form),
        ("accuracy.hash", check_hash_line),
        ("accuracy.size", check_log_size),
        ("accuracy.hash-of-log", hash_of_log),
        ("accuracy.extra", check_extra_files),
        ("accuracy.extra-samples", check_extra_samples),
        ("accuracy.test-hash", check_test_hashes),
    ]
