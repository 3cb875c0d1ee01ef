"""The gate for foreign archives: a member's header is size-checked before it is read.

A name or attributes may claim gigabytes, which would be read into memory; a negative size sends the reader back to an
earlier position again and again; thousands of headers before one file are read recursively until the stack overflows.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

LARGEST_HEAD = 1 << 20  # bytes of a long name, or of attributes
# Errors of reading a damaged archive or a file that is not an archive; for a zip also an unknown method and a password.
NO_ARCHIVE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, RecursionError, NotImplementedError, RuntimeError),
)


class BoundedMember(tarfile.TarInfo):
    """A member whose header is read only if its size is sensible. For ``tarfile.open(tarinfo=…)``."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if self.size < 0:
            raise tarfile.HeaderError(f"a size of {self.size:,} bytes")
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > LARGEST_HEAD:
            raise tarfile.HeaderError(f"a head of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]


def read_members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield each member in turn. Raises the errors in ``NO_ARCHIVE``."""
    for member in tar:
        if member.size < 0:  # set by attributes, which follow its header
            raise tarfile.HeaderError(f"a size of {member.size:,} bytes")
        yield member
