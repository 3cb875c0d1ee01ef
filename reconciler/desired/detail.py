"""Detail of a desired resource. It is separate from the desired state because a plan with nothing to do reads none of
it, and then need not load the classes of a round's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.resource.inputs import Input
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import RuleContext


class Detail(Struct, frozen=True):
    """Data for executing, recording and explaining a resource. ``locations`` (paths) and ``settings`` never enter the
    key unless an input has the same name. ``rules``: the round's rules for its cell."""

    inputs: tuple[Input, ...]
    locations: Mapping[str, str] = field(default_factory=dict)
    settings: CellSettings = field(default_factory=CellSettings)
    marks: tuple[str, ...] = ()
    rules: RuleContext | None = None

    @property
    def ruling(self) -> RuleContext:
        """Rules of a run, score or test; each of these belongs to a benchmark of the round."""
        assert self.rules is not None
        return self.rules

    def collect_values(self) -> dict[str, Any]:
        return {item.name: item.value for item in self.inputs}
