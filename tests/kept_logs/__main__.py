"""Make the kept logs again with the LoadGen that is installed."""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.kept_logs import FOLDER
from tests.unit.check.made import make_logs
from tests.unit.loadgen.conftest import RUNS, make_run
from tests.unit.rules.compliance.runs import make_all


def make_runs(folder: Path) -> None:
    for name, case in RUNS.items():
        (folder / name).mkdir()
        make_run(case, folder / name)


SETS: dict[str, Callable[[Path], object]] = {"runs": make_runs, "compliance": make_all, "tree": make_logs}


def main() -> None:
    for name in sys.argv[1:] or SETS:
        with tempfile.TemporaryDirectory() as scratch:
            SETS[name](Path(scratch))
            pack(name, Path(scratch))


def pack(name: str, folder: Path) -> None:
    """Logs alone, in the order of their names, without owners and times."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted(folder.rglob("mlperf_log_*")):
            item = tarfile.TarInfo(path.relative_to(folder).as_posix())
            item.size = path.stat().st_size
            archive.addfile(item, io.BytesIO(path.read_bytes()))
    (FOLDER / f"{name}.tar.xz").write_bytes(lzma.compress(data.getvalue(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
