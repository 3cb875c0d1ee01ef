"""Compiled cells, for the next compilation of the same process: an edit of one cell compiles one cell.

A cell's resources follow from its values alone, wherever they are written, so that a line added above moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.resource.codec import encode_packed
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource


class CachedCell(Struct):
    """``of`` identifies the cell's settings. ``dataset``, ``model``: its keys; ``commons``: those that most cells of
    its benchmark have. ``resources``: its result then; empty while it was not compiled."""

    of: bytes
    dataset: str = ""
    model: str = ""
    commons: tuple[str, str] = ("", "")
    resources: tuple[Resource, ...] = ()


class CellCache(Struct):
    """``world``: everything apart from its own settings that a cell's resources follow from."""

    world: object = None
    cells: dict[Cell, CachedCell] = field(default_factory=dict)

    def begin(self, world: object) -> None:
        """Forget everything unless it was made in this very world."""
        if self.world != world:
            self.world, self.cells = world, {}

    def find_cached(self, cell: Cell, settings: Mapping[str, Value]) -> CachedCell:
        of = _write([(name, value.value) for name, value in settings.items()])
        kept = self.cells.get(cell)
        return kept if kept is not None and kept.of == of else CachedCell(of)


def _write(settings: list[tuple[str, object]]) -> bytes:
    """Write bytes that separate what is equal and not the same, as True and 1 are."""
    try:
        return encode_packed(settings)
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError):  # what MessagePack does not have
        return ascii(settings).encode()
