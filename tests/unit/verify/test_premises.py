"""An accusation has premises: where one is not shown, it is a question; honest submitters are not accused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.resource.rules import Premise, Severity, question, rule
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.findings import Complaint, Place, TreeFinding
from reconciler.verify.engine import list_rules, verify_tree
from reconciler.verify.premises import are_one_name
from tests.unit.check.made import change_system, set_log, write

CELL = "closed/Acme/results/sys1/resnet/Offline"
LOG = f"{CELL}/performance/run_1"


def doubt_odd(complaint: Complaint, view: int) -> str:
    return f"{view} is odd" if view % 2 and complaint.found == "odd" else ""


EVEN = Premise("The view is even.", doubt_odd)


@rule("test.even", "what is even", sources=("ours",), premises=(EVEN,))
def find_all(view: int) -> Iterator[Complaint]:
    """Every number is
    complained of."""
    yield Complaint(Place(str(view)), "odd", "even")
    yield Complaint(Place(str(view)), "other", "even")
    yield Complaint(Place(str(view)), "odd", "even", doubt="said by the rule")
    yield Complaint(Place(str(view)), "odd", "even", severity=Severity.NOTE)


def test_a_rule_is_declared_where_it_is_applied() -> None:
    rule = find_all.rule
    assert (rule.id, rule.argument, rule.premises) == ("test.even", "Every number is complained of.", (EVEN,))
    with pytest.raises(TypeError, match="docstring"):
        question("test.silent", "what?", sources=("ours",))(lambda _: iter(()))


def test_every_error_has_a_premise_and_every_rule_an_argument() -> None:
    assert [rule.id for rule in list_rules() if not rule.argument] == []
    assert [rule.id for rule in list_rules() if rule.severity is Severity.ERROR and not rule.premises] == []


def severities(tree: Path, rule: str) -> list[tuple[Severity, bool]]:
    found = [item for item in verify_tree(tree).findings if item.rule.id == rule]
    return [(item.severity, bool(item.complaint.doubt)) for item in found]


def test_dates_alone_do_not_accuse_and_the_loggers_clock_does(tree: Path) -> None:
    set_log(tree / LOG, "effective_min_duration_ms", 86_400_000)
    assert severities(tree, "log.duration") == [(Severity.ERROR, False)]


def test_a_clock_that_is_set_to_another_year_is_asked_about(tree: Path) -> None:
    set_log(tree / LOG, "loadgen_build_date_utc", '"2071-06-01T00:00:00"')
    found = severities(tree, "log.consistency")
    assert found, "a build after the run"
    assert set(found) == {(Severity.NOTE, True)}


def test_logs_of_a_loadgen_that_is_not_known_accuse_of_nothing_that_it_derives(tree: Path) -> None:
    set_log(tree / LOG, "early_stopping_met", "false")
    assert severities(tree, "log.validity") == [(Severity.ERROR, False)]
    set_log(tree / LOG, "loadgen_version", '"7.0 @ 0123456789"')
    assert severities(tree, "log.validity") == [(Severity.NOTE, True)]


def test_a_second_version_of_loadgen_is_no_way_out(tree: Path) -> None:
    set_log(tree / LOG, "early_stopping_met", "false")
    path = tree / LOG / "mlperf_log_detail.txt"
    lines = path.read_text().splitlines(keepends=True)
    first = next(line for line in lines if '"key": "loadgen_version"' in line)
    write(path, "".join([re.sub(r'"value": "[^"]*"', '"value": "7.0 @ 0123456789"', first), *lines]))
    assert severities(tree, "log.validity") == [(Severity.ERROR, False)]
    assert (Severity.ERROR, False) in severities(tree, "log.consistency")


def test_a_pointer_that_git_keeps_is_no_broken_file(tree: Path) -> None:
    path = tree / CELL / "measurements.json"
    write(path, "{")
    assert severities(tree, "files.readable") == [(Severity.ERROR, False)]
    write(path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n")
    assert severities(tree, "files.readable") == [(Severity.NOTE, True)]


def test_a_name_that_is_spelt_otherwise_is_asked_about(tree: Path) -> None:
    change_system(tree, submitter="Bcme")
    assert severities(tree, "system.names") == [(Severity.ERROR, False)]
    change_system(tree, submitter="Acme Inc.")
    assert severities(tree, "system.names") == [(Severity.NOTE, True)]


def test_a_tree_without_descriptions_may_be_a_part(tree: Path) -> None:
    (tree / "closed/Acme/systems/sys1.json").unlink()
    assert severities(tree, "system.description") == [(Severity.ERROR, False)]
    (tree / "closed/Acme/systems").rmdir()
    assert severities(tree, "system.description") == [(Severity.NOTE, True)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Dell EMC", "Dell_EMC", True),
        ("Inspur Electronic", "inspur", True),
        ("Acme", "Bcme", False),
        ("", "Acme", False),
        ("--", "Acme", False),
    ],
)
def test_two_spellings_of_one_name(one: str, other: str, same: bool) -> None:
    assert are_one_name(one, other) is same
    assert are_one_name(other, one) is same


def test_a_round_without_rules_accuses_of_nothing_ruled(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_system(tree, system_type="datacenter")
    assert {item[0] for item in severities(tree, "system.category")} == {Severity.ERROR}
    monkeypatch.setattr(Ruleset, "is_known", False)
    assert severities(tree, "system.category") == []


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


def test_a_variant_may_share_what_its_twin_infers(tree: Path) -> None:
    """The Offline result of -99, inferred from SingleStream, and the SingleStream result of -99.9 are one run."""
    top = tree / "closed/Acme/results/sys1"
    shutil.copytree(top / "resnet/SingleStream", top / "3d-unet-99/Offline")
    shutil.copytree(top / "resnet/SingleStream", top / "3d-unet-99.9/SingleStream")
    shutil.copytree(top / "resnet/SingleStream", top / "bert-99/Offline")
    shared = {item.cell for item in found(tree, "placement.copied")}
    assert "closed/sys1/3d-unet-99.9/SingleStream" not in shared
    assert "closed/sys1/bert-99/Offline" in shared
