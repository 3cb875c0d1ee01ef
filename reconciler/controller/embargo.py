"""What may leave this machine before the results are public. Pure; nothing is allowed by default."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from typing import Any


def refusal(settings: Mapping[str, Any], address: str, today: date) -> str:
    """Why nothing may be pushed to this address today; "" when it may. ``settings``: the submission's, by flat name."""
    until = settings.get("embargo.until")
    if not until or today >= date.fromisoformat(str(until)):
        return ""
    if any(fnmatchcase(address, str(pattern)) for pattern in settings.get("embargo.allow") or ()):
        return ""
    return f"embargo until {until}: {address} is not among embargo.allow"
