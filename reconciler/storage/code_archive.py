"""A run's code as one file: packed when the run begins, kept with its logs, unpacked into the submission tree.

So the published code is the code that ran. It depends only on the records: no local folder is read for it later.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from reconciler.storage.archive_members import NO_ARCHIVE, BoundedMember, read_members
from reconciler.storage.code_files import list_code_names, select_kept_names
from reconciler.storage.files import hash_file

LARGEST_CODE = 4 << 20  # bytes of one file; a larger file is data, listed by its digest instead
MOST_CODE = 256 << 20  # bytes of an archive's content
LEFT_OUT = "left-out.txt"
_SMALL = 1 << 20  # bytes of an archive whose content is kept for the next run
_DIGITS = 64  # hexadecimal digits of a SHA-256


def read_code(path: Path, prefix: str = "", written: Collection[str] = ()) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return name → content of a file or folder of code, and name → digest of files that are too large to be code, or
    that a link leads to outside the folder. Neither includes hidden files, which contain settings and secrets. Raises
    OSError."""
    if not path.is_dir():
        names, folder = [path.name], path.parent
    else:
        names, folder = select_kept_names(path, list_code_names(path), written), path.resolve()
    found: dict[str, bytes] = {}
    large: dict[str, str] = {}
    for name in names:
        file = folder / name
        if any(part.startswith(".") for part in name.split("/")):
            continue
        outside = path.is_dir() and not file.resolve().is_relative_to(folder)
        if outside or file.stat().st_size > LARGEST_CODE:
            large[prefix + name] = hash_file(file)
        else:
            found[prefix + name] = file.read_bytes()
    return found, large


def list_changed_files(kept: Mapping[str, bytes], now: Mapping[str, bytes], large: Mapping[str, str]) -> list[str]:
    """List how a folder of code differs from the copy that a run kept: "run.py changed". ``now`` and ``large``: from
    ``read_code``."""
    before: dict[str, object] = dict(kept)
    with suppress(ValueError):  # a file of the code's own with this name
        before |= read_left_out(kept.get(LEFT_OUT, b""))
        before.pop(LEFT_OUT, None)
    after: dict[str, object] = {**now, **large}
    words = {(True, True): "changed", (True, False): "removed", (False, True): "added"}
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [f"{name} {words[name in before, name in after]}" for name in names]


def describe_left_out(large: Mapping[str, str]) -> bytes:
    """Return the list in sha256sum's format."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(large.items())).encode()


def read_left_out(data: bytes) -> dict[str, str]:
    """Return name → digest from the output of ``describe_left_out``. Raises ValueError for anything else."""
    found = {}
    for line in data.decode().splitlines():
        digest, separator, name = line.partition("  ")
        if not (separator and name and len(digest) == _DIGITS):
            raise ValueError(f"{LEFT_OUT}: {line[:80]!r} is not a digest and a name")
        found[name] = digest
    return found


def pack_code(files: Mapping[str, bytes]) -> bytes:
    """Pack files so that equal files give equal bytes: without this machine's times, owners and modes."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def unpack_code(data: bytes) -> dict[str, bytes]:
    """Unpack the files of an archive. Raises ValueError for data that ``pack_code`` has not written."""
    return dict(_unpack(data)) if len(data) <= _SMALL else _unpack.__wrapped__(data)


@lru_cache(maxsize=2)  # the runs of a submission usually have the same code
def _unpack(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = MOST_CODE
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz", tarinfo=BoundedMember) as tar:
            for member in read_members(tar):
                left -= member.size
                plain = member.isfile() and not member.issparse() and member.name not in found
                content = tar.extractfile(member) if plain and left >= 0 else None
                if content is None:
                    raise ValueError(f"{member.name[:80]} is not a file of code")
                found[member.name] = content.read()
    except (*NO_ARCHIVE, OSError) as error:
        raise ValueError(f"not an archive of code: {error}") from error
    return found
