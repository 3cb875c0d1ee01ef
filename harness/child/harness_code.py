"""Pack the code of this package as a file, for a run on another machine."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from harness.child.digests import CODE_ROOT


def pack_own_code(path: Path) -> None:
    """Pack the Python files of this package as a gzipped tar, atomically."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for source in sorted(CODE_ROOT.rglob("*.py")):
            content = source.read_bytes()
            member = tarfile.TarInfo(f"{CODE_ROOT.name}/{source.relative_to(CODE_ROOT).as_posix()}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(stream.getvalue())
    partial.replace(path)
