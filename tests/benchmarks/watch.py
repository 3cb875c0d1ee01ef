"""What watch mode costs: ``python -m tests.benchmarks.watch [--json]``.

On a made-up repository (see ``made_up``) of 1,000 cells: seconds from a saved spec to the plan that follows from it,
the processor it takes when nothing happens, and its memory over 1,000 changes that plan alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.benchmarks.made_up import SPEC
from tests.benchmarks.rounds import Measure, report

SYSTEMS, BENCHMARKS = 25, 10
EDITS, IDLE, CHANGES = 6, 60.0, 1000


class Watch:
    """A watch that observes every cell: it plans, and runs nothing."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.events = root.parent / f"{root.name}-events.jsonl"
        command = [str(Path(sys.executable).with_name("reconcile")), "watch", "--observe", "cell=*"]
        command += ["--events", str(self.events), *arguments]
        self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL)
        self.usage = psutil.Process(self.process.pid)

    def plans(self) -> list[dict[str, object]]:
        text = self.events.read_text() if self.events.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [event for event in found if event["event"] == "plan"]

    def wait(self, count: int) -> None:
        while len(self.plans()) < count:
            if self.process.poll() is not None:
                raise SystemExit("the watch ended")
            time.sleep(0.005)

    def processor(self) -> float:
        used = self.usage.cpu_times()
        return used.user + used.system

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def measure(folder: Path, idle: float, changes: int) -> Iterator[Measure]:
    root = folder / "repository"
    made = [sys.executable, "-m", "tests.benchmarks.made_up", str(root), str(SYSTEMS), str(BENCHMARKS)]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    watch = Watch(root)
    try:
        watch.wait(1)
        yield _latency(watch, root / SPEC)
        yield _idle(watch, idle)
        yield _memory(watch, root / SPEC, changes)
    finally:
        watch.stop()


def _latency(watch: Watch, spec: Path) -> Measure:
    text = spec.read_text()
    seconds = []
    for number in range(EDITS):
        count = len(watch.plans())
        began = time.perf_counter()
        spec.write_text(text.replace("target_qps: 10000}", f"target_qps: {99 + number}}}"))
        watch.wait(count + 1)
        seconds.append(time.perf_counter() - began)
        time.sleep(1.0)
    spec.write_text(text)
    watch.wait(len(watch.plans()))
    return Measure("spec to plan", statistics.median(seconds), 1.0, False, " s", f"median of {EDITS}, 0.3 s debounce")


def _idle(watch: Watch, seconds: float) -> Measure:
    time.sleep(5.0)
    before = watch.processor()
    time.sleep(seconds)
    used = 100 * (watch.processor() - before) / seconds
    return Measure("idle", used, 1.0, False, " % of a core", f"over {seconds:g} s")


def _memory(watch: Watch, spec: Path, changes: int) -> Measure:
    """The first fifth warms it up: caches and the allocator reach their size."""
    text = spec.read_text()
    first = 0.0
    for number in range(changes):
        spec.write_text(f"{text}# {number}\n")
        time.sleep(0.35 if number % 5 == 4 else 0.02)  # some are looked at alone, most in bursts
        if number == changes // 5:
            first = watch.usage.memory_info().rss
    time.sleep(3.0)
    last = watch.usage.memory_info().rss
    detail = f"times that after {changes // 5} of {changes} changes; {last / 1e6:.0f} MB"
    return Measure("memory", last / first, 1.1, False, "", detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--idle", type=float, default=IDLE, help="seconds (default %(default)s)")
    parser.add_argument("--changes", type=int, default=CHANGES, help="(default %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measures = list(measure(Path(folder), given.idle, given.changes))
    return report("watch", measures, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
