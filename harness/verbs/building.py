"""Brings what a user's build command left: every declared output, newly written, or a reason why not."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.child.group import GroupEnd
from harness.contract import CommandRequest
from harness.verbs.collecting import find_matching, take

Written = Mapping[Path, tuple[int, int]]  # file → inode and time of its last change, in ns


def list_written(request: CommandRequest) -> Written:
    """The files that lie where the build is to leave its own."""
    found = (path for pattern in _patterns(request) for path in find_matching(pattern, Path(request.cwd)))
    return {file: (s.st_ino, s.st_ctime_ns) for path in found for file in _files(path) for s in (file.stat(),)}


def collect_built(request: CommandRequest, ended: GroupEnd, before: Written) -> str:
    """Find what keeps the build from counting; "" once all of its files are in ``output``. ``before``: what was
    ``written`` when it began. A copy may carry an older date, so that the date alone proves nothing."""
    if ended.timed_out:
        return f"timeout: the build took longer than {request.timeout:g} s"
    if ended.status:
        return "the build failed"
    run_dir, output = Path(request.run_dir), Path(request.output)
    now = list_written(request)
    taken: dict[str, Path] = {}
    for pattern in _patterns(request):
        found = list(find_matching(pattern, Path(request.cwd)))
        if not found:
            return f"outputs: the build left no {_shown(pattern, run_dir)}"
        for path in found:
            if old := next((file for file in _files(path) if before.get(file) == now.get(file)), None):
                return f"outputs: {_shown(str(old), run_dir)} was there before the build, and not written by it"
            if taken.setdefault(path.name, path) != path:
                return f"outputs: {taken[path.name]} and {path} have one name"
    _bring(taken.values(), output, run_dir)
    if not any(path.is_file() for path in output.rglob("*")):
        return "outputs: the build left no file"
    return ""


def _shown(path: str, run_dir: Path) -> str:
    return path.replace(str(run_dir), "{run_dir}")


def _patterns(request: CommandRequest) -> tuple[str, ...]:
    return request.outputs or (f"{request.run_dir}/*",)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]


def _bring(paths: Iterable[Path], output: Path, run_dir: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, output / path.name)
        else:
            take(path, output / path.name, run_dir)
