"""The observed state as one value, which lists only differences from the records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.resource.records import Judgement


class ArtifactPresence(StrEnum):
    MISSING = "missing"
    CORRUPT = "corrupt"


class Obstacle(Struct, frozen=True):
    """The reason why something cannot be done on this machine now, and the fix."""

    message: str
    fix: str = ""


class Observed(Struct, frozen=True):
    """The observed state. ``artifacts``: (place, sha256) → problem. ``paths`` gives their files for messages.

    ``systems``: declared systems that are not this machine. ``rendered``: cell (or "submission") → fingerprint of the
    sources of the last rendering. ``tree``: missing, edited or unknown files of the rendered tree, by cell;
    ``tree_present`` is false in a fresh clone. ``judgements``: record id → findings in its kept logs, for records that
    have any.
    """

    artifacts: Mapping[tuple[str, str], ArtifactPresence] = field(default_factory=dict)
    systems: Mapping[str, Obstacle] = field(default_factory=dict)
    rendered: Mapping[str, str] = field(default_factory=dict)
    tree: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    tree_present: bool = False
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
