from pathlib import Path

import pytest

from tests.shared import need
from tests.unit.cli.json_outputs import TARGET, WITHOUT_EXAMPLE, list_commands, outputs, reference

need("mlperf_loadgen", "sklearn")


@pytest.mark.timeout(600)
def test_the_reference_of_json_outputs_is_what_the_commands_print(tmp_path: Path) -> None:
    found = outputs(tmp_path / "repository")
    assert reference(found) == TARGET.read_text(encoding="utf-8"), "run: python -m tests.unit.cli.json_outputs"
    assert found.keys() == set(list_commands()) - WITHOUT_EXAMPLE


def test_only_commands_that_print_json_are_excused() -> None:
    assert set(list_commands()) >= WITHOUT_EXAMPLE


def test_commands_below_a_group_are_listed_too() -> None:
    assert {"", "plan", "rounds", "rounds show"} <= set(list_commands())
