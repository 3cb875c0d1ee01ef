from pathlib import Path

import click
import pytest

from reconciler.cli.main import reconcile
from tests.shared import need
from tests.unit.cli.json_outputs import TARGET, WITHOUT_EXAMPLE, outputs, reference

need("mlperf_loadgen", "sklearn")


@pytest.mark.timeout(600)
def test_the_reference_of_json_outputs_is_what_the_commands_print(tmp_path: Path) -> None:
    found = outputs(tmp_path / "repository")
    assert reference(found) == TARGET.read_text(encoding="utf-8"), "run: python -m tests.unit.cli.json_outputs"
    shown = {name.split()[0] for name in found if name} | WITHOUT_EXAMPLE
    assert _with_json() - shown == set()


def _with_json() -> set[str]:
    context = click.Context(reconcile)
    commands = {name: reconcile.get_command(context, name) for name in reconcile.list_commands(context)}
    return {name for name, command in commands.items() if command and any("--json" in p.opts for p in command.params)}
