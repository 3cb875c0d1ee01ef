"""Starting blocks for common systems, which ship as data: what somebody published, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.resource.inputs import Origin, Value
from reconciler.spec.layers import Block, LayeredSetting, flatten
from reconciler.spec.locations import Variables
from reconciler.spec.nodes import MapNode, convert_plain, parse
from reconciler.spec.settings_models import SettingsGroup

_FILE = Path(__file__).with_name("presets.yaml")
MARK = "/"  # in its name, which no block of a spec has


class Preset(Struct, frozen=True):
    """``source``: where its values were published."""

    name: str
    source: str
    settings: MapNode

    def make_block(self) -> Block:
        """As a named block of a spec. ``preset.NAME`` among its settings is no setting: it tells what was taken."""
        group = SettingsGroup.model_validate(convert_plain(self.settings), context=Variables({}))
        path, origin = f"preset {self.name}", Origin(f"preset {self.name}")
        block = flatten(group, self.settings, path)
        own = {name: tuple(_from(origin, layer) for layer in layers) for name, layers in block.items()}
        return {**own, f"preset.{self.name}": (LayeredSetting(Value(self.source, origin), path),)}


def _from(origin: Origin, setting: LayeredSetting) -> LayeredSetting:
    return replace(setting, value=Value(setting.value.value, origin))


@cache
def list_presets() -> Mapping[str, Preset]:
    """By name, as in the file."""
    tree, problems = parse(_FILE.read_text(encoding="utf-8"), _FILE.name)
    assert tree is not None, problems
    return {name: _read(name, node) for name, node in tree.items.items() if isinstance(node, MapNode)}


def _read(name: str, node: MapNode) -> Preset:
    settings = node.items["settings"]
    assert isinstance(settings, MapNode)
    return Preset(name, str(convert_plain(node.items["source"])).strip(), settings)
