"""The accuracy log of a result, against its original in the archive."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.rules.accuracy import add_hash
from reconciler.rules.rounds import load_ruleset
from tests.unit.tree.check.made import BENCHMARK, SUBMITTER, SYSTEM, write
from tests.unit.truncation import truncate_log

FOLDER = f"closed/{SUBMITTER}/results/{SYSTEM}/{BENCHMARK}/Offline/accuracy"
RULE = load_ruleset("v6.1").accuracy_log


@pytest.mark.parametrize("more", [-1, 0, 1, RULE.keep, 3 * RULE.keep], ids=lambda more: f"{RULE.keep + more} bytes")
@pytest.mark.parametrize("edited", [None, 0, -1], ids=["honest", "first byte", "last byte"])
def test_the_published_ends_of_a_log_are_those_of_its_original(
    tree: Path, tmp_path: Path, more: int, edited: int | None
) -> None:
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


def test_the_hash_of_a_tests_own_log_is_not_that_of_the_accuracy_run(tree: Path) -> None:
    """Whatever the size of its letters."""
    test = (tree / FOLDER).parent / "TEST01/accuracy/mlperf_log_accuracy.json"
    digest = hashlib.sha256(test.read_bytes()).hexdigest().upper()
    write(tree / FOLDER / "accuracy.txt", f"accuracy=76.456%, good=38228, total=50000\nhash={digest}\n")
    found = [f for f in check_tree(tree, round_name="v6.1").findings if f.cell.endswith("/Offline")]
    (said,) = [f.complaint for f in found if f.rule.id == "accuracy.test-hash"]
    assert said.other is not None
    assert [(place.file, place.line) for place in (said.place, said.other)] == [
        (f"{FOLDER}/accuracy.txt", 2),
        (test.relative_to(tree).as_posix(), 0),
    ]
    assert (said.found, said.wanted, said.cause, said.mechanism) == (
        f"hash={digest[:12]}…, that of TEST01's log",
        "the hash of the accuracy run's own log",
        "accuracy.txt, or its hash, is of the run of TEST01",
        "accuracy-of-another-run",
    )
