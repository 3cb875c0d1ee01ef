"""The gate for archives that somebody else made: the head of a member is bounded before it is believed.

A name or attributes may claim gigabytes, which would be read into memory; a size below zero leads the reader back to
where it was, for ever; and thousands of heads before one file are read one within the other, until the stack is full.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

LARGEST_HEAD = 1 << 20  # bytes of a long name, or of attributes
# Errors of reading an archive that is none, or a damaged one; of a zip also an unknown method, and a password.
NO_ARCHIVE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, RecursionError, NotImplementedError, RuntimeError),
)


class BoundedMember(tarfile.TarInfo):
    """A member whose head is read only when it is of a sensible size. For ``tarfile.open(tarinfo=…)``."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if self.size < 0:
            raise tarfile.HeaderError(f"a size of {self.size:,} bytes")
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > LARGEST_HEAD:
            raise tarfile.HeaderError(f"a head of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]


def read_members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Each member in turn. Raises what is in ``NO_ARCHIVE``."""
    for member in tar:
        if member.size < 0:  # as attributes of it say, which come after its head
            raise tarfile.HeaderError(f"a size of {member.size:,} bytes")
        yield member
