"""What honest submitters publish is not accused: one small extract for each case that once was, its names made up."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding
from reconciler.verify.engine import verify_tree
from tests.unit.check.made import detail, set_log, write

CELLS = "closed/Acme/results/sys1/resnet"
ROUND_OF_SEEDS = {
    "qsl_rng_seed": 3066443479025735752,
    "sample_index_rng_seed": 10688027786191513374,
    "schedule_rng_seed": 14962580496156340209,
}


def found(root: Path, rule: str) -> list[TreeFinding]:
    return [finding for finding in verify_tree(root).findings if finding.rule.id == rule]


def windows_log(entries: int = 200) -> tuple[bytes, bytes]:
    """An accuracy log as LoadGen writes it on Windows, and its truncated form: every line ends in CRLF."""
    lines = [f'{{ "seq_id" : {n}, "qsl_idx" : {n}, "data" : "{n:08x}" }},' for n in range(entries)]
    whole = ("[\r\n" + "\r\n".join(lines).rstrip(",") + "\r\n]\r\n").encode()
    return whole, whole[:4096] + b"\r\n\r\n...\r\n\r\n" + whole[-4096:]


def test_a_score_that_counts_pairs_covers_its_queries(tree: Path) -> None:
    text = tree / CELLS / "Offline/accuracy/accuracy.txt"
    line = "AUC=80.2%, accuracy=76.5%, good=12000000, total=13500123, queries={}\n"
    write(text, line.format(50_000) + text.read_text())
    assert not found(tree, "accuracy.samples")
    write(text, line.format(400))
    assert [item.complaint.found for item in found(tree, "accuracy.samples")] == ["a score over 400 samples"]


def test_a_multistream_summary_speaks_of_queries(tree: Path) -> None:
    folder = tree / CELLS / "MultiStream/performance/run_1"
    assert '"key": "result_min_query_latency_ns"' in detail(folder)
    set_log(folder, "result_min_latency_ns", 17)
    set_log(folder, "result_99.00_percentile_latency_ns", 18)
    assert not found(tree, "summary.contradicts")
    set_log(folder, "result_min_query_latency_ns", 19)
    (finding,) = found(tree, "summary.contradicts")
    assert finding.complaint.found.startswith("Min latency (ns): ")
    assert finding.complaint.wanted == "result_min_query_latency_ns 19 in the detail log"


def test_a_log_truncated_on_windows_is_truncated(tree: Path) -> None:
    whole, short = windows_log()
    folder = tree / CELLS / "Offline/accuracy"
    write(folder / "mlperf_log_accuracy.json", short)
    write(folder / "accuracy.txt", f"accuracy=76.4%\r\n\r\nhash={hashlib.sha256(whole).hexdigest()}\r\n")
    assert not found(tree, "accuracy.hash")
    assert not found(tree, "compliance.passes")


def test_a_whole_log_may_have_changed_its_line_ends(tree: Path) -> None:
    whole, _ = windows_log(20)
    folder = tree / CELLS / "Offline/accuracy"
    write(folder / "accuracy.txt", f"accuracy=76.4%\n\nhash={hashlib.sha256(whole).hexdigest()}\n")
    write(folder / "mlperf_log_accuracy.json", whole.replace(b"\r\n", b"\n"))
    assert not found(tree, "accuracy.hash")
    write(folder / "mlperf_log_accuracy.json", whole.replace(b"\r\n", b"\n").replace(b"00000001", b"00000002"))
    assert len(found(tree, "accuracy.hash")) == 1


def test_the_last_query_of_multistream_is_filled_up(tree: Path) -> None:
    cell = tree / CELLS / "MultiStream"
    for key in ("qsl_reported_total_count", "effective_accuracy_sample_count"):
        if f'"key": "{key}"' in detail(cell / "accuracy"):
            set_log(cell / "accuracy", key, 49_997)
    verdict = cell / "TEST01/verify_accuracy.txt"
    for entries, wrong in ((50_000, 0), (49_997, 0), (49_996, 1), (60_000, 1)):
        write(verdict, f"num_acc_log_entries = {entries}\nTEST PASS\n")
        assert len(found(tree, "compliance.counts")) == wrong, entries


def test_what_truncation_leaves_of_two_logs_of_long_answers_may_be_alike(tree: Path) -> None:
    """An answer of thousands of bytes fills both ends: the hashes show that the logs were not."""
    cell = tree / CELLS / "Offline"
    _, short = windows_log(4_000)
    for folder, digit in ((cell / "accuracy", "a"), (cell / "TEST01/accuracy", "b")):
        write(folder / "mlperf_log_accuracy.json", short)
        write(folder / "accuracy.txt", f"accuracy=76.4%\n\nhash={digit * 64}\n")
    assert not [item for item in found(tree, "accuracy.hash") if item.complaint.mechanism == "copied-logs"]
    write(cell / "TEST01/accuracy/accuracy.txt", f"accuracy=76.4%\n\nhash={'a' * 64}\n")
    assert [item for item in found(tree, "accuracy.hash") if item.complaint.mechanism == "copied-logs"]


@pytest.mark.parametrize(
    ("seeds", "cause"),
    [
        (dict.fromkeys(ROUND_OF_SEEDS, 0), "LoadGen used its default seeds, 0"),
        (ROUND_OF_SEEDS, "the seeds of v4.1"),
        (dict.fromkeys(ROUND_OF_SEEDS, 7), "seeds of no known round"),
    ],
)
def test_seeds_are_called_what_they_are(seeds: dict[str, int], cause: str, tree: Path) -> None:
    for name, seed in seeds.items():
        set_log(tree / CELLS / "Offline/accuracy", f"effective_{name}", seed)
    (finding,) = found(tree, "runs.seeds")
    assert finding.complaint.cause.startswith(cause)
    assert finding.severity is Severity.WARNING


def test_an_equal_number_elsewhere_is_no_cause(tree: Path) -> None:
    """A target that a cell of another system and scenario has by chance."""
    conf = tree / CELLS / "Offline/user.conf"
    write(conf, re.sub(r"target_qps = \S+", "target_qps = 200000", conf.read_text()))
    (finding,) = found(tree, "user-conf.contradicts")
    assert "MultiStream" not in finding.complaint.cause


def test_a_variant_may_share_what_its_twin_infers(tree: Path) -> None:
    """The Offline result of -99, inferred from SingleStream, and the SingleStream result of -99.9 are one run."""
    top = tree / "closed/Acme/results/sys1"
    shutil.copytree(top / "resnet/SingleStream", top / "3d-unet-99/Offline")
    shutil.copytree(top / "resnet/SingleStream", top / "3d-unet-99.9/SingleStream")
    shutil.copytree(top / "resnet/SingleStream", top / "bert-99/Offline")
    shared = {item.cell for item in found(tree, "placement.copied")}
    assert "closed/sys1/3d-unet-99.9/SingleStream" not in shared
    assert "closed/sys1/bert-99/Offline" in shared
