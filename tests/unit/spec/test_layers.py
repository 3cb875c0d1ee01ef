"""The flat names of what a spec declares."""

from __future__ import annotations

from pydantic import Field

from reconciler.spec.fields import OptionalText
from reconciler.spec.groups import Group
from reconciler.spec.layers import flatten
from reconciler.spec.models import HardwareGroup, SettingsGroup, System
from reconciler.spec.nodes import parse


def names(group: type[Group], text: str) -> set[str]:
    root, problems = parse(text, "a.yaml")
    assert root is not None
    assert not problems
    written = {name: getattr(node, "value", {}) for name, node in root.items.items()}
    return set(flatten(group.model_validate(written), root, ""))


class Racked(System):
    """A system with a field that is not there yet."""

    rack: OptionalText = Field(None)


def test_a_new_field_of_a_system_is_named_as_the_others_are() -> None:
    text = "category: edge\nstatus: available\nrack: left\n"
    assert names(Racked, text) == {"system.category", "system.status", "system.rack"}


def test_a_group_within_a_system_has_its_own_name() -> None:
    root, _ = parse("hardware:\n  cpu: any\n", "a.yaml")
    system = System(category="edge", status="available", hardware=HardwareGroup(cpu="any"))
    assert set(flatten(system, root, "")) == {"hardware.cpu"}


def test_settings_of_a_cell_have_no_prefix() -> None:
    assert names(SettingsGroup, "target_qps: 5\npublish: best\n") == {"target_qps", "policy.publish"}
