"""Starts children the way a pass does, and reads what LoadGen wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from harness.contract import Benchmark, BuildRequest, FileMessage, Result
from reconciler.storage.process import Child, build_harness_command
from tests.requests import make_run_request

ROOT = Path(__file__).parents[3]
TINY = Path(__file__).parent / "tiny.py"
LIMIT = 120  # seconds after which a child counts as hanging
CONF = "*.*.min_duration = 0\n*.*.min_query_count = 70\n*.*.performance_sample_count_override = 0\n"


@dataclass(frozen=True)
class Ended:
    """A child that has ended: its result, what it wrote to its log, and its folder."""

    result: Result
    output: str
    folder: Path

    @property
    def detail(self) -> dict[str, Any]:
        """LoadGen's detail log by key; "errors" holds its error lines."""
        lines = (self.folder / "mlperf_log_detail.txt").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
        errors = [entry["value"] for entry in entries if entry["metadata"]["is_error"]]
        return {entry["key"]: entry["value"] for entry in entries} | {"errors": errors}

    @property
    def answers(self) -> list[tuple[int, bytes]]:
        entries = json.loads((self.folder / "mlperf_log_accuracy.json").read_text(encoding="ascii"))
        return [(entry["qsl_idx"], bytes.fromhex(entry["data"])) for entry in entries]


class Children:
    """Starts children in folders of their own below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count()

    def place(self) -> Path:
        folder = self.folder / f"child{next(self._numbers)}"
        folder.mkdir()
        return folder

    def start(self, request: FileMessage, folder: Path) -> Ended:
        request.write(folder / "request.json")
        log = folder.with_suffix(".log")
        words = build_harness_command(request.verb, folder / "request.json", folder / "result.json")
        with Child(words, folder=folder, log=log, environment=environment()) as child:
            status = child.wait(LIMIT)
        output = log.read_text(encoding="utf-8", errors="replace")
        assert status == 0, output
        return Ended(Result.read(folder / "result.json"), output, folder)

    def build(self, kind: Any, *, benchmark: Path = TINY, **request: Any) -> Ended:
        folder = self.place()
        (folder / "artifact").mkdir()
        named = Benchmark(name=benchmark.stem, path=str(benchmark))
        return self.start(
            BuildRequest(
                kind=kind,
                benchmark=named,
                output=str(folder / "artifact"),
                counter=str(folder / "counter"),
                **request,
            ),
            folder,
        )

    def run(
        self,
        scenario: Any,
        mode: Any = "performance",
        *,
        benchmark: Path = TINY,
        conf: str = CONF,
        audit: str = "",
        folder: Path | None = None,
        **request: Any,
    ) -> Ended:
        """``conf`` and ``audit`` are contents. Server gets a rate at which a test does not wait."""
        folder = folder or self.place()
        (folder / "user.conf").write_text("*.Server.target_qps = 5000\n" + conf, encoding="ascii")
        if audit:
            (folder / "audit.config").write_text(audit, encoding="ascii")
        return self.start(
            make_run_request(
                folder,
                benchmark=Benchmark(name=benchmark.stem, path=str(benchmark)),
                scenario=scenario,
                mode=mode,
                audit_config=str(folder / "audit.config") if audit else "",
                **request,
            ),
            folder,
        )


def command() -> list[str]:
    return [sys.executable, "-P", "-m", "harness"]


def run_python(folder: Path, *words: str) -> str:
    """Run Python in a folder with the code of this checkout; what it printed."""
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RECONCILE_PARENT": str(os.getpid())}
