"""Subject and result of a push or pull, as values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from reconciler.resource.kinds import Address


class TransferStatus(StrEnum):
    """Status of one object. ABSENT: the side that should give it does not have it. WRONG: that side has other bytes
    under its name; they were not taken."""

    MOVED = "moved"
    PRESENT = "present"
    ABSENT = "absent"
    WRONG = "wrong"


class ObjectRef(Struct, frozen=True):
    """An object that records name and git does not hold. ``name``, ``address``: of one artifact that it is."""

    sha256: str
    size: int
    name: str
    address: Address


class TransferResult(Struct, frozen=True):
    """The end of one object's transfer; ``why`` when it is neither moved nor present."""

    what: ObjectRef
    fate: TransferStatus
    why: str = ""
