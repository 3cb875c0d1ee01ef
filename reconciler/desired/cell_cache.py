"""In-memory cache of compiled cells, so that editing one cell recompiles only that cell.

A cell's resources depend only on its values, not on their lines, so that a line added above invalidates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.resource.codec import encode_packed
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource


class CachedCell(Struct):
    """``of`` identifies the cell's settings. ``dataset``, ``model``: the keys of both; ``commons``: the keys that most
    cells of its benchmark use. ``resources``: the compiled result, empty until the cell is compiled."""

    of: bytes
    dataset: str = ""
    model: str = ""
    commons: tuple[str, str] = ("", "")
    resources: tuple[Resource, ...] = ()


class CellCache(Struct):
    """``world``: everything that a cell's resources depend on apart from its own settings."""

    world: object = None
    cells: dict[Cell, CachedCell] = field(default_factory=dict)

    def begin(self, world: object) -> None:
        """Clear the cache unless it was filled for the same ``world``."""
        if self.world != world:
            self.world, self.cells = world, {}

    def find_cached(self, cell: Cell, settings: Mapping[str, Value]) -> CachedCell:
        of = _encode_settings([(name, value.value) for name, value in settings.items()])
        kept = self.cells.get(cell)
        return kept if kept is not None and kept.of == of else CachedCell(of)


def _encode_settings(settings: list[tuple[str, object]]) -> bytes:
    """Encode settings so that equal values of different types, such as True and 1, get different bytes."""
    try:
        return encode_packed(settings)
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError):  # types that MessagePack does not support
        return ascii(settings).encode()
