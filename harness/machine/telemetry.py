"""Load, frequency and temperature of the machine during a run, read by an unobtrusive thread."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from harness.contract import Fact, as_notes
from harness.cuda.nvml import Gpus

THROTTLED = "throttled"
PROCESSORS = Path("/sys/devices/system/cpu")
_INTERVAL = 1.0  # seconds between readings
_SHARE = 0.005  # maximum share of time for readings, which are slow on machines with hundreds of cores
_MOST_READ = 16  # maximum number of cores whose frequency is read, and of temperatures
_THINNED = 600.0  # readings are logged after each 600th of the run so far, which limits the file's length


class Series:
    """Smallest, mean and largest of a series of readings."""

    def __init__(self) -> None:
        self._count, self._total, self._least, self._most = 0, 0.0, float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self._count += 1
        self._total += value
        self._least, self._most = min(self._least, value), max(self._most, value)

    def summarise(self) -> dict[str, float] | None:
        if not self._count:
            return None
        return {
            "min": round(self._least, 3),
            "mean": round(self._total / self._count, 3),
            "max": round(self._most, 3),
            "count": self._count,
        }


def find_flags(values: dict[str, Any], flags: Mapping[str, int]) -> dict[str, Any]:
    """Add a run's flags, and their visible mark, to its values."""
    if not flags:
        return values
    return {**values, "flags": dict(flags), "marks": [*values.get("marks", ()), THROTTLED]}


class Telemetry:
    """Context manager around a run; ``facts()`` afterwards. Readings that the machine does not support are omitted.

    ``devices``: PCI addresses of the run's GPUs. ``log``: a file for the readings; each has the number of samples
    ``done``.
    """

    def __init__(
        self, devices: Sequence[str] = (), log: Path | None = None, done: Callable[[], int] | None = None
    ) -> None:
        self._series: defaultdict[str, Series] = defaultdict(Series)
        self._log, self._done = log, done
        self._began, self._logged = 0.0, 0.0
        self._gpus = Gpus(devices)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="telemetry", daemon=True)
        self._frequency_files = sorted(PROCESSORS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))[:_MOST_READ]
        self._temperature_files = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))[:_MOST_READ]
        # The thermal throttling counters of cores and sockets, which Intel's processors have.
        self._throttle_files = sorted(PROCESSORS.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"))
        self._process = psutil.Process()
        self._processor_seconds = 0.0
        self._throttled = 0

    def __enter__(self) -> Self:
        self._gpus.begin()
        self._processor_seconds = -_read_processor_seconds(self._process)
        self._throttled = _sum(self._throttle_files)
        psutil.cpu_percent()  # the first call only sets the start of the next measurement
        self._began = self._logged = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._processor_seconds += _read_processor_seconds(self._process)
        self._thread.join()
        self._read()
        self._throttled = max(0, _sum(self._throttle_files) - self._throttled)

    def facts(self, samples: int = 0) -> dict[str, Fact]:
        """Return the facts. ``samples``: number of completed samples, for the energy per sample."""
        summaries = ((name, series.summarise()) for name, series in sorted(self._series.items()))
        found = {name: value for name, value in summaries if value is not None} | self._gpus.summarise(samples)
        found["processor_seconds"] = round(self._processor_seconds, 3)
        if self._throttle_files:
            found["cpu_throttled"] = self._throttled
        return as_notes({f"telemetry.{name}": value for name, value in found.items()})

    def list_flags(self) -> dict[str, int]:
        """Return heat, hardware slowdown and power brake flags: fact → number of readings (or kernel events) with
        them."""
        cpu = {"cpu_throttled": self._throttled} if self._throttled else {}
        return {f"telemetry.{name}": count for name, count in {**self._gpus.list_flags(), **cpu}.items()}

    def describe_faults(self) -> str:
        """Describe GPU faults that the driver has reported since the run began; "" for none."""
        xids = self._gpus.look_for_faults()
        return f"; the driver reported Xid {', '.join(map(str, xids))}" if xids else ""

    def _watch(self) -> None:
        pause = _INTERVAL
        while not self._stop.wait(pause):
            began = time.thread_time()
            self._write(self._read())
            pause = max(_INTERVAL, (time.thread_time() - began) / _SHARE)

    def _read(self) -> dict[str, list[float]]:
        """Read name → a value for each device, core or sensor; also adds the values to the series."""
        values: defaultdict[str, list[float]] = defaultdict(list)
        values["load_percent"].append(psutil.cpu_percent())
        values["memory_bytes"].append(float(self._process.memory_info().rss))
        for name, value in self._gpus.read():
            values[name].append(value)
        for path in self._frequency_files:
            values["frequency_mhz"] += _read_number(path, 1e-3)
        for path in self._temperature_files:
            values["temperature_celsius"] += _read_number(path, 1e-3)
        for name, found in values.items():
            for value in found:
                self._series[name].add(value)
        return values

    def _write(self, values: Mapping[str, Sequence[float]]) -> None:
        """Write a line: seconds since the start, samples done, the mean of each name."""
        now = time.monotonic()
        if self._log is None or now - self._logged < (now - self._began) / _THINNED:
            return
        self._logged = now
        line: dict[str, float] = {"seconds": round(now - self._began, 3)}
        if self._done is not None:
            line["done"] = self._done()
        line |= {name: round(sum(found) / len(found), 3) for name, found in values.items() if found}
        with suppress(OSError), self._log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _read_number(path: Path, scale: float = 1) -> list[float]:
    try:
        return [int(path.read_text(encoding="ascii")) * scale]
    except (OSError, ValueError):
        return []


def _read_processor_seconds(process: psutil.Process) -> float:
    """Read the processor seconds that all threads of this process have used so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _sum(files: Sequence[Path]) -> int:
    return int(sum(number for path in files for number in _read_number(path)))
