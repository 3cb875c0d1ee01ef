"""The accuracy run of a result: its log, what accuracy.txt says, and both against the archive and the tests."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.accuracy import (
    check_accuracy_bars,
    check_extra_files,
    check_extra_samples,
    check_log_hash,
    check_test_hashes,
    read_metric_values,
)
from reconciler.check.engine import check_tree
from reconciler.resource.ruled_values import ExtraFiles
from reconciler.resource.rules import Severity
from reconciler.rules.accuracy import add_hash
from reconciler.rules.rounds import load_ruleset
from tests.unit.check.made import BENCHMARK, SUBMITTER, SYSTEM, write
from tests.unit.loadgen.truncation import truncate_log
from tests.unit.tree.small_cells import DETAIL, Line, log, rules, say, small_cell

DIGEST = "ab" * 32


COUNT = "effective_accuracy_sample_count"


ANSWERS = b'[ { "seq_id" : 0, "qsl_idx" : 0, "data" : "00" } ]'


OWN = hashlib.sha256(ANSWERS).hexdigest()


CUT = b"[ 1\n\n...\n\n2 ]"


def accuracy(text: str = "", log_lines: tuple[Line, ...] | None = (), answers: bytes | None = None) -> dict[str, Any]:
    """The files of an accuracy folder; a detail log has its first line from the second on."""
    found: dict[str, Any] = {"accuracy/accuracy.txt": text} if text else {}
    if log_lines is not None:
        found[f"accuracy/{DETAIL}"] = log(("effective_scenario", "Offline"), *log_lines)
    if answers is not None:
        found["accuracy/mlperf_log_accuracy.json"] = answers
    return found


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


@pytest.mark.parametrize(
    ("before", "severity"),
    [(f"total=9hash={DIGEST}\n", Severity.WARNING), ("total=9hash=cafe\n", None), ("total=9\n", None)],
)
def test_a_second_truncation_with_its_hash_is_milder(tmp_path: Path, before: str, severity: Severity | None) -> None:
    """Behind the scorer's last line, which had no end, so that the script of truncation did not see it."""
    text = f"{before}hash={hashlib.sha256(CUT).hexdigest()}\n"
    (found,) = check_log_hash(small_cell(tmp_path, accuracy(text, answers=CUT)))
    assert found.severity is severity


@pytest.mark.parametrize(
    ("count", "there", "absent", "beyond"),
    [
        (10, ("3.png", "9.png", "10.png", "sheet"), False, False),
        (10, ("3.png", "10.png", "sheet.txt"), True, False),
        (10, ("3.png", "9.png", "sheet.x.y"), True, True),
        (9, ("sheet.txt",), True, True),
        (None, (), True, False),
    ],
)
def test_pictures_of_the_samples_that_the_round_names_are_there(
    tmp_path: Path, count: int | None, there: tuple[str, ...], absent: bool, beyond: bool
) -> None:
    files = accuracy(log_lines=((COUNT, count),) if count else ()) | {f"accuracy/images/{name}": "x" for name in there}
    asked = rules(extra=ExtraFiles("images", ("3", "9", "10", "sheet")))
    for exempt, severity in (((), ""), (("accuracy_files",), "warning ")):
        view = small_cell(tmp_path, files, benchmark=asked, exempt=exempt)
        for check, said in ((check_extra_files, absent), (check_extra_samples, beyond)):
            assert say(check(view)) == [f"{severity}./accuracy/images"] * said


TEST, PLACE = "TEST01/accuracy/", "./TEST01/accuracy/"


TEXT, LOG = "accuracy.txt", "mlperf_log_accuracy.json"


OTHER = "cd" * 32


COPIED_LOG = f"{PLACE}{LOG}; see ./accuracy/{LOG}; mechanism: copied-logs"


COPIED_HASH = f"{PLACE}{TEXT}:2; see ./accuracy/{TEXT}:1"


TAKEN = f"./accuracy/{TEXT}:1; see {PLACE}{LOG}; mechanism: accuracy-of-another-run"


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


@pytest.mark.parametrize(("ends", "found"), [(b"\n", 1), (b"\r\n", 1), (b"\r", 0)])
def test_the_hash_of_a_log_before_windows_line_ends_is_known(tmp_path: Path, ends: bytes, found: int) -> None:
    log = b"[\n1\n]\n"
    files = accuracy(f"hash={hashlib.sha256(log).hexdigest()}", answers=CUT)
    files |= {f"{TEST}{LOG}": log.replace(b"\n", ends)}
    assert len(list(check_test_hashes(small_cell(tmp_path, files)))) == found


def test_the_last_value_of_each_known_metric_is_read() -> None:
    text = "accuracy=70%\n{'rouge1': 5}\naccuracy=71%\n"
    found = read_metric_values(text, ("acc", "ROUGE1", "ROUGE2", "unheard"))
    assert found == {"acc": Decimal(71), "ROUGE1": Decimal(5)}


FOLDER = f"closed/{SUBMITTER}/results/{SYSTEM}/{BENCHMARK}/Offline/accuracy"


RULE = load_ruleset("v6.1").accuracy_log


@pytest.mark.parametrize("more", [-1, 0, 1, RULE.keep, 3 * RULE.keep], ids=lambda more: f"{RULE.keep + more} bytes")
@pytest.mark.parametrize("edited", [None, 0, -1], ids=["honest", "first byte", "last byte"])
def test_published_ends_are_of_the_original(tree: Path, tmp_path: Path, more: int, edited: int | None) -> None:
    """A log that is as long as one end is published twice."""
    log = "".join(map(str, range(RULE.keep * 4))).encode()[: RULE.keep + more]
    original, digest = tmp_path / "original", hashlib.sha256(log).hexdigest()
    original.write_bytes(log)
    published = bytearray(truncate_log(log, RULE))
    if edited is not None:
        published[edited] ^= 1
    (tree / FOLDER / "mlperf_log_accuracy.json").write_bytes(published)
    write(tree / FOLDER / "accuracy.txt", add_hash("accuracy=76.456%, good=38228, total=50000\n", digest))
    report = check_tree(tree, round_name="v6.1", original=lambda asked: original if asked == digest else None)
    found = [finding for finding in report.findings if finding.rule.id == "accuracy.hash-of-log"]
    own = [finding for finding in found if finding.cell.endswith("/Offline")]
    assert len(own) == (edited is not None)
