"""What watch mode costs: ``python -m tests.benchmarks.watch [--json]``.

On a made-up repository (see ``made_up``) of 1,000 cells: seconds from a saved spec to the plan that follows from it,
the processor it takes when nothing happens, and its memory over 1,000 changes, each planned for.
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
EDITS, IDLE, CHANGES = 11, 130.0, 1000  # a look each 120 s belongs to being idle
_TARGET = "target_qps: 10000}"


class Watch:
    """A watch that observes every cell: it plans, and runs nothing."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.events = root.parent / f"{root.name}-events.jsonl"
        command = [str(Path(sys.executable).with_name("reconcile")), "watch", "--observe", "cell=*"]
        command += ["--events", str(self.events), *arguments]
        self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL)
        self.usage = psutil.Process(self.process.pid)
        self.read, self.told = 0, list[dict[str, object]]()

    def plans(self) -> list[dict[str, object]]:
        """Those told so far; the file is read on from where it was read last."""
        if self.events.exists():
            with self.events.open("rb") as stream:
                stream.seek(self.read)
                lines = [line for line in stream if line.endswith(b"\n")]
            self.read += sum(map(len, lines))
            self.told += [event for event in map(json.loads, lines) if event["event"] == "plan"]
        return self.told

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
        yield from _latency(watch, root / SPEC)
        yield _idle(watch, idle)
        yield _memory(watch, root / SPEC, changes)
    finally:
        watch.stop()


def _edit(text: str, number: int) -> str:
    """One value differs from any other number's; every other time all of the file has moved down by a line as well."""
    return "# moved\n" * (number % 2) + text.replace(_TARGET, f"target_qps: {99 + number}}}")


def _latency(watch: Watch, spec: Path) -> Iterator[Measure]:
    text = spec.read_text()
    seconds, processor = [], []
    for number in range(EDITS):
        count, used = len(watch.plans()), watch.processor()
        began = time.perf_counter()
        spec.write_text(_edit(text, number))
        watch.wait(count + 1)
        seconds.append(time.perf_counter() - began)
        processor.append(watch.processor() - used)
        time.sleep(4.0)  # caches are written when it has been quiet for two seconds
    spec.write_text(text)
    watch.wait(count + 2)
    detail = f"median of {EDITS}, {min(seconds):.2f} to {max(seconds):.2f} s, debounce included"
    yield Measure("spec to plan", statistics.median(seconds), 1.0, False, " s", detail)
    yield Measure(
        "its processor", statistics.median(processor), 1.0, False, " s", "which the load of the machine spares"
    )


def _idle(watch: Watch, seconds: float) -> Measure:
    time.sleep(5.0)
    before = watch.processor()
    time.sleep(seconds)
    used = 100 * (watch.processor() - before) / seconds
    return Measure("idle", used, 1.0, False, " % of a core", f"over {seconds:g} s")


def _memory(watch: Watch, spec: Path, changes: int) -> Measure:
    """Each change is planned for before the next. Quarters are compared, as the allocator goes up and down."""
    text = spec.read_text()
    sizes = []
    for number in range(changes):
        count = len(watch.plans())
        spec.write_text(_edit(text, number))
        watch.wait(count + 1)
        sizes.append(watch.usage.memory_info().rss)
    quarter = max(1, len(sizes) // 4)
    first, last = statistics.mean(sizes[:quarter]), statistics.mean(sizes[-quarter:])
    detail = f"last quarter of {changes} changes over the first; {last / 1e6:.0f} MB, at most {max(sizes) / 1e6:.0f}"
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
