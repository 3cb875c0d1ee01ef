"""Generated datasets and networks: each made once, by a child, below the rehearsal's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.contract import Benchmark, Progress, RehearseRequest, Result, read_progress
from reconciler.errors import ReconcilerError
from reconciler.rules.benchmark_facts import BenchmarkFacts
from reconciler.storage.json_files import read_json
from reconciler.storage.process import Child, build_child_environment, build_harness_command

FOLDER = "generated"  # below the rehearsal's folder
_MARK = "data/rehearsal.json"
_LOOK = 0.5

Size = Literal["small", "full"]
Moved = Callable[[str, Progress], None]


class Generated(Struct, frozen=True, kw_only=True):
    """Folders of one benchmark's data and model, relative to the rehearsal's folder; ``made``: by this call."""

    code: str
    data: str
    model: str
    samples: int
    made: bool


def generate(root: Path, facts: BenchmarkFacts, *, size: Size, seed: int, samples: int, moved: Moved) -> Generated:
    """Raises ReconcilerError with the child's fix. What is there as asked for is taken; other data is replaced."""
    assert facts.rehearsal is not None, f"{facts.code} has no rehearsal"
    count = samples or facts.rehearsal.samples
    asked = {"benchmark": facts.code, "count": count, "seed": seed, "size": size}
    folder = root / FOLDER / facts.code
    found = _read_mark(folder / _MARK) == asked
    if not found:
        request = RehearseRequest(
            benchmark=Benchmark(name=facts.code),
            output=str(folder),
            counter=str(folder.with_name(f"{facts.code}.counter")),
            count=count,
            seed=seed,
            size=size,
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run(request, folder, facts, moved)
    place = f"{FOLDER}/{facts.code}"
    model = f"{place}/models/{facts.model.file}"
    return Generated(code=facts.code, data=f"{place}/data", model=model, samples=count, made=not found)


def _run(request: RehearseRequest, folder: Path, facts: BenchmarkFacts, moved: Moved) -> None:
    work = folder.with_name(f"{facts.code}.child")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    asked, answer, log = work / "request.json", work / "result.json", work / "log"
    request.write(asked)
    command = build_harness_command("rehearse", asked, answer)
    with Child(command, folder=work, log=log, environment=build_child_environment()) as child:
        while child.wait(_LOOK) is None:
            if (progress := read_progress(request.counter)) is not None:
                moved(facts.code, progress)
    result = Result.read(answer) if answer.is_file() else None
    if result is None or not result.done:
        problem = result.problem if result else f"the child ended without a result; its log is {log}"
        raise ReconcilerError(
            f"the rehearsal of {facts.code} cannot be generated: {problem}", fix=result.fix if result else ""
        )
    shutil.rmtree(work)
    Path(request.counter).unlink(missing_ok=True)


def _read_mark(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
