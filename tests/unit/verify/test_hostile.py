"""One submitter who writes what no one would: it is a finding about that file, and everybody else is still judged."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.cli.main import main
from reconciler.errors import ReconcilerError
from reconciler.verify.command import read_baseline
from reconciler.verify.engine import verify_tree
from tests.unit.storage.strange_files import STRANGE
from tests.unit.storage.test_untrusted_files import make_hole, nest, swept

__all__ = ["swept"]

CELL = "results/sys1/resnet/Offline"
DETAIL = f"{CELL}/performance/run_1/mlperf_log_detail.txt"
MEASUREMENTS = f"{CELL}/measurements.json"
DEEP = 200_000


def logged(key: str, value: str) -> Callable[[Path], object]:
    """The log says another value."""

    def change(submitter: Path) -> None:
        path = submitter / DETAIL
        text, count = re.subn(rf'("key": "{key}", "value": )[^,]+', rf"\g<1>{value}", path.read_text())
        assert count
        path.write_text(text)

    return change


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda submitter: (submitter / name).write_text(text)


def four_million_keys(submitter: Path) -> None:
    (submitter / MEASUREMENTS).write_text("{" + ",".join(f'"{i}":1' for i in range(4_000_000)) + "}")


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(submitter: Path) -> None:
        (submitter / name).unlink()
        make(submitter / name)

    return change


ATTACKS: dict[str, Callable[[Path], object]] = {
    "a list as a seed": logged("effective_qsl_rng_seed", "[1]"),
    "an object as a seed": logged("effective_sample_index_rng_seed", '{"a": [1]}'),
    "a target of 1e400": logged("effective_target_qps", "1e400"),
    "a result of 1e400": logged("result_samples_per_second", "1e400"),
    "5,000 digits": logged("effective_min_query_count", "9" * 5000),
    "4,000 digits": logged("effective_min_duration_ms", "9" * 4000),
    "not a number": logged("effective_target_qps", "NaN"),
    "nested brackets in a log": logged("effective_qsl_rng_seed", "[" * DEEP),
    "nested brackets in measurements": written(MEASUREMENTS, "[" * DEEP + "]" * DEEP),
    "nested objects in measurements": written(MEASUREMENTS, '{"a":' * DEEP + "1" + "}" * DEEP),
    "4 million keys": four_million_keys,
    "5,000 digits in measurements": written(MEASUREMENTS, f'{{"retraining": {"9" * 5000}}}'),
    "numbers without end in a user.conf": written(
        f"{CELL}/user.conf", f"*.Offline.target_qps = {'9' * 5000}\n*.*.min_duration = 1e400\n"
    ),
    "odd types in a system": written(
        "systems/sys1.json", '{"system_type": ["edge"], "division": {}, "number_of_nodes": 1e400, "status": 7}'
    ),
    "digits in an accuracy": written(f"{CELL}/accuracy/accuracy.txt", f"accuracy={'9' * 5000}%, total={'9' * 5000}\n"),
    "a link to a device": replaced(MEASUREMENTS, lambda path: path.symlink_to("/dev/zero")),
    "a link to a private file": replaced(MEASUREMENTS, lambda path: path.symlink_to("/etc/passwd")),
    "a pipe": replaced(DETAIL, os.mkfifo),
    "a hole": replaced(DETAIL, make_hole),
    "a system that is a pipe": replaced("systems/sys1.json", os.mkfifo),
    "1,200 nested folders": lambda submitter: nest(submitter / CELL, 1200),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_hostile_submitter_stops_no_one_else(tree: Path, attack: str, tmp_path: Path) -> None:
    mallory = tree / "closed/Mallory"
    shutil.copytree(tree / "closed/Acme", mallory)
    ATTACKS[attack](mallory)
    for look in (verify_tree, check_tree):
        report = look(tree, round_name="v6.1")
        assert {facts.submitter for facts in report.facts} == {"Acme", "Mallory"}
        assert not [f for f in report.findings if f.submitter == "Acme" and f.rule.id == "internal.rule"]
        if look is check_tree:
            assert any(f.submitter == "Mallory" for f in report.findings)
    out = [f"--html={tmp_path}/a.html", f"--csv={tmp_path}/a.csv", f"--objections={tmp_path}/objections"]
    assert main(["verify-tree", str(tree), *out]) in (0, 2)
    assert "root:" not in (tmp_path / "a.html").read_text(), "a private file was read"


@pytest.mark.parametrize("strange", STRANGE)
def test_a_baseline_that_is_none_is_refused_by_its_name(tmp_path: Path, strange: str) -> None:
    STRANGE[strange](tmp_path / "named.json")
    with pytest.raises(ReconcilerError, match=r"named\.json"):
        read_baseline(tmp_path / "named.json")
