"""The accuracy log of a result, against its original in the archive."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.mlperf.accuracy import add_hash
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.tree.check.engine import check_tree
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
