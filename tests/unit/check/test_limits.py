"""Equal issue of all samples, and what the power supplies of a measured system can give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.check.limits import check_equal_issue
from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, say, small_cell

EQUAL = "effective_sample_concatenate_permutation"
EARLY = ("loadgen_version", "1.1 @ 0123456789")  # it does not log the setting
LATER = ("loadgen_version", "5.1 @ 0123456789")
ON, OFF = "resnet50.*.sample_concatenate_permutation = 1\n", "resnet50.*.sample_concatenate_permutation = 0\n"


@pytest.mark.parametrize(
    ("lines", "confs", "equal"),
    [
        pytest.param([LATER, (EQUAL, True)], {}, True, id="logged"),
        pytest.param([LATER, (EQUAL, False)], {"user.conf": ON}, False, id="logged otherwise"),
        pytest.param([LATER, (EQUAL, "true")], {"user.conf": ON}, False, id="logged as a word"),
        pytest.param([LATER], {"user.conf": ON}, False, id="not logged by who logs it"),
        pytest.param([EARLY], {"user.conf": ON}, True, id="configured"),
        pytest.param([EARLY], {"mlperf.conf": ON}, True, id="configured in mlperf.conf"),
        pytest.param([EARLY], {"mlperf.conf": OFF, "user.conf": ON}, True, id="in one of both"),
        pytest.param([EARLY], {"user.conf": OFF}, False, id="configured otherwise"),
        pytest.param([EARLY], {"user.conf": ON.replace("resnet50", "bert")}, False, id="of another model"),
        pytest.param([EARLY], {"user.conf": ON.replace("*", "Server")}, False, id="of another scenario"),
        pytest.param([EARLY], {}, False, id="no conf"),
    ],
)
def test_every_sample_is_issued_equally_often(
    tmp_path: Path, lines: list[tuple[str, object]], confs: dict[str, str], equal: bool
) -> None:
    files = {f"{RUN}/{DETAIL}": log(("effective_scenario", "Offline"), *lines), **confs}
    needed = {"exact_sample_concatenate_permutation": True, "model_key": "resnet50"}
    found = small_cell(tmp_path / "a", files, benchmark=rules(values=needed)).performance
    assert found is not None
    place = f"./{RUN}/{DETAIL}{':3' if EQUAL in dict(lines) else ''}"
    assert say(check_equal_issue(found)) == ([] if equal else [place])
    unasked = small_cell(tmp_path / "a", files, benchmark=rules()).performance
    assert unasked is not None
    assert not list(check_equal_issue(unasked))
    del needed["model_key"]
    named = {name: text.replace("resnet50", "resnet") for name, text in files.items()}
    unkeyed = small_cell(tmp_path / "b", named, benchmark=rules(values=needed)).performance
    assert unkeyed is not None
    assert (not list(check_equal_issue(unkeyed))) is equal


TREE = Path("closed/Acme")


FILE_NAMEPLATE = TREE / "systems/sys1_power.yaml"


GOOD_NAMEPLATE = "Server:\n  Min PSUs Needed: 1\n  PSUs:\n  - PowerCapacityWatts: 1200\n"


def find(root: Path, name: str = "v6.1") -> list[TreeFinding]:
    return [found for found in check_tree(root, round_name=name).findings if found.rule.id == "system.nameplate"]


@pytest.fixture
def measured(tree_of: Callable[[str], Path]) -> Path:
    """A tree in which the power of one run was measured."""
    root = tree_of("closed")
    (root / TREE / "results/sys1/resnet/Offline/performance/power").mkdir()
    return root


def test_without_a_power_measurement_no_one_asks(tree_of: Callable[[str], Path]) -> None:
    assert not find(tree_of("closed"))


def test_missing_nameplate_is_a_warning(measured: Path) -> None:
    (found,) = find(measured)
    assert (found.severity, found.complaint.place.file) == (Severity.WARNING, str(FILE_NAMEPLATE))


@pytest.mark.parametrize("way", ["file", "field"])
def test_either_way_to_say_it_is_enough(measured: Path, way: str) -> None:
    if way == "file":
        (measured / FILE_NAMEPLATE).write_text(GOOD_NAMEPLATE)
    else:
        description = measured / TREE / "systems/sys1.json"
        said = json.loads(description.read_text())
        description.write_text(json.dumps({**said, "system_power_capacity": 1200}))
    assert not find(measured)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Server: [", Severity.ERROR),
        ("- Server\n", Severity.ERROR),
        (GOOD_NAMEPLATE.replace(": 1\n", ": 3\n"), Severity.ERROR),
        (GOOD_NAMEPLATE.replace("PSUs", "Supplies"), Severity.WARNING),
    ],
)
def test_file_that_shows_nothing_is_found(measured: Path, text: str, severity: Severity) -> None:
    (measured / FILE_NAMEPLATE).write_text(text)
    (found,) = find(measured)
    assert found.severity is severity


def test_earlier_round_asks_for_none(measured: Path) -> None:
    assert not find(measured, "v6.0")
