"""Processor time that the control groups of this process allow, in addition to the processors that they allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/")


def read_processor_limit(root: Path = _ROOT) -> float:
    """Processors' worth of time, the least of all groups above this process; infinite where nothing limits it."""
    limits = (_read_limit(folder) for folder in _list_groups(root))
    return min(limits, default=float("inf"))


def _list_groups(root: Path) -> Iterator[Path]:
    """List the groups of this process, up to the topmost that can be seen. In a container the topmost is its own."""
    mounted = root / "sys/fs/cgroup"
    text = ""
    with suppress(OSError):
        text = (root / "proc/self/cgroup").read_text(encoding="utf-8")
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        top = mounted if number == "0" else mounted / controllers
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        here = top / path.strip("/")
        yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(top))


def _read_limit(folder: Path) -> float:
    """Version 2 says quota and period in one file, version 1 in two; "max" and -1 are no limit."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    with suppress(OSError, ValueError):
        quota, period = (
            (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip() for name in ("quota", "period")
        )
        return int(quota) / int(period) if int(quota) > 0 else float("inf")
    return float("inf")
