"""No deadline for single examples: a shared machine may pause any of them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
