"""Which compliance tests a cell has, and which are refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import check
from reconciler.desired.compile import find_gaps
from reconciler.desired.compliance import has_test, select_tests
from reconciler.errors import Problem, SpecError
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared
from tests.unit.desired.test_inputs import HERE, compiled, declare

ASKED_AT = Origin("specs/a.yaml", 31, 9)
ROUND = load_ruleset("v5.0")


def asking(test: str, official: str = "resnet", division: str = "open") -> Declared:
    declared = declare("Offline", benchmark__official=official)
    cell = declared.cells[0]
    settings = {**cell.settings, f"compliance.{test}": Value(True, ASKED_AT)} if test else cell.settings
    named = replace(cell, cell=Cell(division, "box", "digits", "Offline"), settings=settings)
    return replace(declared, cells=(named,), rehearsal=Value(True, HERE))


def problems(declared: Declared) -> tuple[Problem, ...]:
    try:
        check(declared, ROUND)
    except SpecError as error:
        return tuple(error.problems)
    return ()


@pytest.mark.parametrize(
    ("test", "official"),
    [("TEST99", "resnet"), ("TEST08", "resnet"), ("TEST07", "llama2-70b-99")],
    ids=["of no round", "of a later round", "of a later round, another benchmark"],
)
def test_a_test_that_the_round_does_not_have_is_refused_at_its_line(test: str, official: str) -> None:
    (problem,) = problems(asking(test, official))
    assert (problem.file, problem.line, problem.column) == ("specs/a.yaml", 31, 9)
    assert problem.message == f"there is no {test} for {official} in this round"
    assert problem.fix.startswith("remove it; round v5.0 requires ")


def names(declared: Declared, official: str = "resnet") -> list[str]:
    return [rules.name for rules in select_tests(declared.cells[0], ROUND.find_benchmark(official), ROUND)]


def test_the_closed_division_has_the_rounds_tests_and_the_open_one_those_asked_for() -> None:
    assert names(asking("", division="closed")) == ["TEST01", "TEST04"]
    assert names(asking("TEST04", division="closed")) == ["TEST01", "TEST04"]
    assert names(asking("")) == []
    assert names(asking("TEST04")) == ["TEST04"]
    assert names(asking("TEST99")) == []


@pytest.mark.parametrize(
    ("round_name", "tests"),
    [("v5.0", {"TEST01", "TEST04", "TEST06"}), ("v6.1", {"TEST01", "TEST04", "TEST06", "TEST07", "TEST08", "TEST09"})],
)
def test_a_round_has_its_own_tests(round_name: str, tests: set[str]) -> None:
    rules = load_ruleset(round_name).find_benchmark("resnet")
    assert rules is not None
    assert {f"TEST{n:02}" for n in range(1, 100) if has_test(rules, f"TEST{n:02}", "Offline")} == tests


def test_a_test_is_made_from_what_the_run_is_with_its_own_settings_in_place_of_the_runs() -> None:
    desired = compiled(asking("TEST01"))
    (cell,) = asking("TEST01").cells
    inputs = [item.name for item in desired.detail(Address(Kind.COMPLIANCE_TEST, f"{cell.cell}/TEST01")).inputs]
    own = {name.removeprefix("audit.") for name in inputs if name.startswith("audit.")}
    assert {"mode", "min_duration"} & own == {"mode"}
    assert {"scenario", "mode", "min_duration", "test"} <= {*inputs}
    assert own & {*inputs} == {"mode"}


@pytest.mark.parametrize(
    ("settings", "attempts", "verdicts"),
    [
        ({}, 1, 2),
        ({"attempts": 3}, 3, 6),
        ({"compliance.TEST01.attempts": 2}, 2, 3),
        ({"compliance.TEST01.attempts": 2, "attempts": 3}, 2, 5),
        ({"compliance.TEST04.attempts": 2}, 1, 2),
    ],
    ids=str,
)
def test_a_verdict_is_of_each_attempt_and_the_run(settings: dict[str, int], attempts: int, verdicts: int) -> None:
    declared = asking("TEST01")
    (cell,) = declared.cells
    added = {**cell.settings, **{name: Value(value, HERE) for name, value in settings.items()}}
    found = {
        resource.address: resource.attempts
        for resource in compiled(replace(declared, cells=(replace(cell, settings=added),))).resources
    }
    name = f"{cell.cell}/TEST01"
    assert found[Address(Kind.COMPLIANCE_TEST, name)] == attempts
    assert found[Address(Kind.VERDICT, name)] == verdicts
    assert found[Address(Kind.RUN, f"{cell.cell}/performance")] == settings.get("attempts", 1)


def commanded(**changes: object) -> Declared:
    """A cell of a command that is entered as ``official``, asked for both tests that compare first elements."""
    official = str(changes.pop("official", "resnet"))
    declared = asking("TEST01", official)
    (cell,) = declared.cells
    words = {"harness.command": ("run", "{run_dir}", "{user_conf}"), "harness.code": ".", **changes}
    settings = {name: value for name, value in cell.settings.items() if not name.startswith("engine.")}
    settings |= {name.replace("__", "."): Value(value, ASKED_AT) for name, value in words.items()}
    return replace(declared, cells=(replace(cell, settings=settings),))


def list_types(declared: Declared) -> list[object]:
    """The type in the verdict's key; [] where it is the default of the official script."""
    (cell,) = declared.cells
    detail = compiled(declared).detail(Address(Kind.VERDICT, f"{cell.cell}/TEST01"))
    return [item.value for item in detail.inputs if item.name == "dtype"]


IMAGENET = ("python", "tools/accuracy-imagenet.py", "{accuracy_log}")


@pytest.mark.parametrize(
    ("changes", "types"),
    [
        ({}, ["any"]),
        ({"harness__score__command": ("score",)}, ["any"]),
        ({"harness__score__command": ("score", "--dtype", "int64")}, ["int64"]),
        ({"harness__score__command": ("score", "--output_dtype=float16")}, ["any"]),
        ({"harness__score__command": ("bash", "-c", "exec score --dtype 'float' x")}, ["float32"]),
        ({"harness__score__command": ("score", "--output_dtype=uint8")}, []),
        ({"harness__score__command": IMAGENET}, ["float32"]),
        ({"harness__score__command": ("sh", "-c", "python 'a/accuracy-imagenet.py' x")}, ["float32"]),
        ({"harness__score__command": ("python", "my-accuracy-imagenet.py")}, ["any"]),
        ({"harness__score__command": (*IMAGENET, "--dtype=int32")}, ["int32"]),
        ({"harness__score__command": IMAGENET, "compliance__TEST01__dtype": "int64"}, ["int64"]),
        ({"benchmark__code": "resnet50"}, ["int32"]),
        ({"official": "retinanet", "harness__score__command": ("score",)}, ["float32"]),
    ],
    ids=str,
)
def test_answers_of_a_command_are_compared_as_scored(changes: dict[str, object], types: list[object]) -> None:
    declared = commanded(**changes)
    assert list_types(declared) == types
    asked = [gap.path for gap in find_gaps(declared, ROUND) if gap.path.endswith(".compliance")]
    assert bool(asked) is (types == ["any"])
