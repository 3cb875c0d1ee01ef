"""The observed state as one value: only what is not as recorded is listed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.resource.records import Judgement


class ArtifactPresence(StrEnum):
    MISSING = "missing"
    CORRUPT = "corrupt"


class Obstacle(Struct, frozen=True):
    """Why something cannot be done on this machine now, and what would unblock it."""

    message: str
    fix: str = ""


class Observed(Struct, frozen=True):
    """``artifacts``: (place, sha256) → what is wrong with it. ``paths`` gives their files for messages.

    ``systems``: declared systems that this machine is not. ``rendered``: cell (or "submission") → fingerprint of
    what the tree was last rendered from. ``tree``: files of the rendered tree that are missing, edited or unknown,
    by cell; ``tree_present`` is false in a fresh clone. ``judgements``: record id → what its kept logs show, of records
    with anything to say.
    """

    artifacts: Mapping[tuple[str, str], ArtifactPresence] = field(default_factory=dict)
    systems: Mapping[str, Obstacle] = field(default_factory=dict)
    rendered: Mapping[str, str] = field(default_factory=dict)
    tree: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    tree_present: bool = False
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
