"""The contract between a pass and its child processes, in the standard library only.

A child is started as ``python -P -m harness VERB REQUEST.json RESULT.json``. It reads one request, works in its own
empty directory, writes RESULT.json under a temporary name and renames it as its last action, so an existing result file
is complete. Progress goes through an mmap counter; nothing else is shared.

``reconciler`` may import only this module and the catalogs from ``harness``; this module also re-exports the facts
about backends and built-in benchmarks that planning needs (``harness.catalog``, ``harness.benchmark_catalog``).
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import shutil
import struct
import time
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from harness.benchmark_catalog import BENCHMARKS as BENCHMARKS
from harness.benchmark_catalog import BuiltInBenchmark as BuiltInBenchmark
from harness.catalog import BACKENDS as BACKENDS
from harness.catalog import BackendFacts as BackendFacts
from harness.catalog import Option as Option
from harness.catalog import show_install as show_install
from harness.verbs.code_folder import SKIPPED as SKIPPED
from harness.verbs.code_folder import is_below as is_below
from harness.verbs.code_folder import is_output as is_output

FORMAT = 1

Scenario = Literal["SingleStream", "MultiStream", "Server", "Offline"]
Mode = Literal["performance", "accuracy"]
Role = Literal["evidence", "note"]


def _decode(annotation: Any, value: Any) -> Any:
    """Turn JSON back into the annotated type; supports only the types used in this module."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else _decode(inner[0], value) if len(inner) == 1 else value
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation)
        return annotation(**{name: _decode(hints[name], item) for name, item in value.items()})
    if origin is dict:
        return {name: _decode(arguments[1], item) for name, item in value.items()}
    if origin is tuple:
        return tuple(_decode(arguments[0], item) for item in value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMessage:
    """A frozen value stored as one JSON file. ``module``: the module that executes it; "" for the one in
    ``harness.verbs`` named like the verb. ``has_keeper``: the child has its own keeper process, which must survive to
    clean up."""

    verb: ClassVar[str] = ""
    module: ClassVar[str] = ""
    has_keeper: ClassVar[bool] = False

    def write(self, path: Path) -> None:
        """Write to a temporary file, flush it to disk, and rename it, so that a reader sees either nothing or the
        complete file."""
        aside = path.with_name(path.name + ".partial")
        with aside.open("w", encoding="utf-8") as stream:
            json.dump({"format": FORMAT, **dataclasses.asdict(self)}, stream, indent=1, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)

    def edit(self, **changes: Any) -> Self:
        """Return a copy with other values."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a message. Raises ValueError if the file is not such a message, or has another format version."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except RecursionError as error:
            raise ValueError(f"{path}: {error}") from error
        if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
            raise ValueError(f"{path}: not a version {FORMAT} {cls.__name__}")
        try:
            message: Self = _decode(cls, document)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: not a {cls.__name__}: {error}") from error
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The benchmark code that a child loads: a built-in by name, or a user's own file by path."""

    name: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest(FileMessage):
    """Build one artifact, which consists of all files left under ``output``.

    ``settings``: the resource's identity settings (preprocessing, quantization, builder settings; for an Engine also
    batch_size and precision). ``inputs``: upstream kind in lower case (dataset, model) -> the folder with its files.
    ``source``: the file or folder named in the spec. ``caches``: name (timing) -> a file that may be read and replaced
    and is not part of the artifact. ``slices``: see RunRequest.
    """

    verb: ClassVar[str] = "build"
    kind: Literal["Dataset", "Model", "Engine"]
    benchmark: Benchmark
    output: str
    counter: str
    backend: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    caches: dict[str, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundLoad:
    """A load on another slice during a run: a benchmark that computes continuously, without LoadGen. ``slice``: its
    profile, "" for none; ``settings``, ``inputs`` and ``performance_sample_count``: as in a RunRequest."""

    benchmark: Benchmark
    backend: str
    slice: str
    performance_sample_count: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(FileMessage):
    """One LoadGen run.

    ``log_dir`` exists and is empty; ``user_conf`` is already written; ``audit_config`` "" means none. ``model_key``:
    LoadGen's key in its built-in mlperf.conf (resnet50). ``performance_sample_count``: the number of samples that the
    QSL can keep in memory at once; 0 means all. ``settings``: batch_size, streams, threads, queue_delay_us
    (microseconds a partial Server batch may wait) and the backend's own run options.

    For a backend that generates tokens: ``generation``: the round's rules for answers (min_new_tokens, max_new_tokens).
    ``sources``: the model path from the spec. ``service_url`` and ``service_log``: the address of the server that the
    pass started, and the folder of its output. ``secrets``: as in a CommandRequest.

    ``slices``: profiles, such as 1g.10gb, of the GPU slices (MIG) that are visible to the child and its processes;
    empty if whole GPUs compute. ``background``: loads on further slices during the run.

    """

    verb: ClassVar[str] = "run"
    benchmark: Benchmark
    backend: str
    scenario: Scenario
    mode: Mode
    model_key: str
    user_conf: str
    log_dir: str
    counter: str
    audit_config: str = ""
    performance_sample_count: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    generation: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    service_url: str = ""
    service_log: str = ""
    secrets: dict[str, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()
    background: tuple[BackgroundLoad, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest(FileMessage):
    """Score an untruncated accuracy log; ``output`` receives accuracy.txt without its hash line.

    ``shown``: samples whose answers the round wants as files in ``output``/``shown_folder``; "" if it wants none.
    """

    verb: ClassVar[str] = "score"
    benchmark: Benchmark
    accuracy_log: str
    output: str
    counter: str
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    shown_folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest(FileMessage):
    """Run a user's own command, with its placeholders filled in, and collect its results.

    ``results`` "endpoints" or "points": requires one result set of the endpoints harness, and no user.conf.

    ``purpose`` "run": exactly one LoadGen log set must have been written below ``logs`` during the attempt; it is
    stored in ``output``. A set dated before ``since`` (UTC, ISO) counts if no other was written. "score": accuracy.txt
    in ``run_dir``, or else the command's output, is stored in ``output``. "build": ``outputs``, by default everything
    in ``run_dir``, is stored there; each file must be newly written. ``secrets``: variable of the command -> variable
    of this process with its value. ``user_conf`` is compared with ``user_conf_sha256`` afterwards; if that is "", it is
    copied from ``user_conf_at``, or from the folder of the logs. ``place_audit``: the audit.config placed in ``cwd``
    during the run, under ``lock``. ``timeout``: in seconds, or 0. ``service_log``: folder with the output of the server
    that the run uses; a copy is kept with the run. ``slices``: see RunRequest. ``ending``: the command that stops the
    container which the command starts.

    """

    verb: ClassVar[str] = "command"
    has_keeper: ClassVar[bool] = True
    purpose: Literal["build", "run", "score"]
    command: tuple[str, ...]
    cwd: str
    run_dir: str
    output: str
    counter: str
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    timeout: float = 0.0
    logs: str = ""
    since: str = ""
    user_conf: str = ""
    user_conf_sha256: str = ""
    user_conf_at: str = ""
    outputs: tuple[str, ...] = ()
    place_audit: str = ""
    lock: str = ""
    code: str = ""
    code_location: str = ""
    results: Literal["loadgen", "endpoints", "points"] = "loadgen"
    service_log: str = ""
    slices: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest(FileMessage):
    """Start another child through a launcher, and end everything the launcher started when this process ends.

    ``command``: the launcher's arguments followed by the child's. The child writes ``answer``, a Result, and
    ``counter_there``, which uses another machine's clock; this process writes ``counter``. ``ending``: a command that
    ends anything left over, such as a container. ``environment``: variables for the launcher, in addition to those of
    this process. ``secrets``: as in a CommandRequest; they are passed on standard input.

    """

    verb: ClassVar[str] = "launch"
    has_keeper: ClassVar[bool] = True
    command: tuple[str, ...]
    answer: str
    counter: str
    counter_there: str
    cwd: str
    ending: tuple[str, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)
    stop_grace: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """When a server counts as ready, by whichever is set: ``url`` answers a GET with success, ``tcp`` (host:port)
    accepts a connection, or a printed line contains ``line``. ``timeout``: maximum seconds until ready. ``patience``:
    seconds for which it may leave probes unanswered once it is ready; 0 disables later probes."""

    url: str = ""
    tcp: str = ""
    line: str = ""
    timeout: float
    patience: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest(FileMessage):
    """Start a server and keep it until SIGTERM asks for its end.

    A result in ``ready`` reports that the server is ready, with facts about it; the child's own result reports how it
    ended. ``log``: folder with its output, read and written by ``harness.child.output``. ``stop_signal``: the signal's
    name; ``stop_grace`` seconds after it the remaining processes are killed. ``hides``: variables that are not passed
    to the server; their values are removed from its output. ``slices``: see RunRequest; ``ending``: see CommandRequest.
    """

    verb: ClassVar[str] = "serve"
    command: tuple[str, ...]
    cwd: str
    counter: str
    ready: str
    probe: Ready
    log: str
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    stop_signal: str = "SIGTERM"
    stop_grace: float = 30.0
    code: str = ""
    hides: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest(FileMessage):
    """Probe this machine and, on request, the seeds of the installed LoadGen (by a one-query run).

    ``hardware``: also read the facts for a system description. ``quiet``: check whether others use the processors,
    watching busy ones for this many seconds, or the first ``gpus`` GPUs; negative: skip the check. ``slices``: see
    RunRequest.

    """

    verb: ClassVar[str] = "probe"
    seeds: bool = False
    hardware: bool = False
    quiet: float = -1.0
    gpus: int = 0
    slices: tuple[str, ...] = ()
    counter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearseRequest(FileMessage):
    """Generate a benchmark's dataset and network into ``output``, in their published formats.

    ``output`` does not exist yet and is created atomically. ``size`` "full": a network as deep as the published one.
    """

    verb: ClassVar[str] = "rehearse"
    benchmark: Benchmark
    output: str
    counter: str
    count: int
    seed: int = 1
    size: Literal["small", "full"] = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Another user of the machine. ``pid`` 0: a process that is not visible from here, such as one in another
    container. ``host``: its machine, if not that of the pass. ``since``: when the process started, as text."""

    what: str
    pid: int = 0
    user: str = ""
    command: str = ""
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        where = f"{self.host}: " if self.host else ""
        if not self.pid:
            return f"{where}{self.what} a process outside this container or virtual machine"
        who = ", ".join(part for part in (self.user, self.command, self.since and f"since {self.since}") if part)
        return f"{where}{self.what} process {self.pid}{f' ({who})' if who else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """An observation made during an attempt. Evidence must be equal across a cell's runs; a note is only recorded."""

    value: Any
    role: Role


def as_evidence(values: Mapping[str, Any]) -> dict[str, Fact]:
    return {name: Fact(value=value, role="evidence") for name, value in values.items()}


def as_notes(values: Mapping[str, Any]) -> dict[str, Fact]:
    return {name: Fact(value=value, role="note") for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(FileMessage):
    """How a child ended. If ``done`` is false, ``problem`` describes the failure and ``fix`` the remedy.

    ``problem_class``: "input" (the request or its files), "missing" (something is not installed or not found),
    "resources" (memory, disk, device), "backend", "crash". ``values``: results of the work. ``facts``: facts about the
    environment by name. ``seconds``: duration of the work itself, by the monotonic clock.

    """

    done: bool
    seconds: float
    values: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    problem: str = ""
    problem_class: str = ""
    fix: str = ""


WAITING = "waiting-{}.json"  # a file in the folder of each attempt that a job of this group may take over


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAttempt(FileMessage):
    """An attempt whose own job waits in a queue. ``arguments``: those of ``python -m harness``. ``log``: file for its
    output. ``seconds``: expected duration."""

    arguments: tuple[str, ...]
    log: str
    seconds: float


# The digest of a model or a dataset that is used unchanged. It is stored instead of files built from it.
SOURCE_NOTE = "source.json"

# Next to the counter: machine readings during a run, one JSON object per line.
TELEMETRY = "telemetry.jsonl"
OWN_CODE = "harness-code.tar.gz"  # the harness code that a child behind a launcher uses


# Output of a running server, stored in parts so that no file grows without limit.
#
# ``harness.child.output`` writes them in the folder of a service's attempt. Runs that use the server keep a copy of its
# output so far, and users follow the files as they grow.

# The first part is kept; two others alternate: once the newer is full, it replaces the older.
LOG_PARTS = ("log.start", "log.older", "log.newer")


def copy_log(folder: Path, target: Path) -> None:
    """Copy a server's output so far into one file; no file if it printed nothing. The server may still be running."""
    found = (folder / name for name in LOG_PARTS)
    parts = [path for path in found if path.is_file()]
    if any(path.stat().st_size for path in parts):
        with target.open("wb") as out:
            for path in parts:
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, out)


# Progress of a child: a counter in a small file that the child writes and its follower reads.

STAGES = (
    *("starting", "loading", "building", "warming up", "running", "completing", "scoring", "done"),
    *("starting service", "serving"),
)
# Stage, an unused field, done, expected, start of the stage and time of the last bump (both monotonic ns).
_COUNTER = struct.Struct("=IIQQQQ")


class Counter:
    """A progress counter in a small file that parent and child both map.

    Only the child writes. Readers tolerate a torn read, since the next read is correct. CLOCK_MONOTONIC is shared by
    all processes of a machine, so the parent can compute rates from the child's times.
    """

    def __init__(self, path: str | Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _COUNTER.size)
            self._map = mmap.mmap(descriptor, _COUNTER.size)
        finally:
            os.close(descriptor)
        self._stage, self._done, self._expected, self._began = 0, 0, 0, time.monotonic_ns()

    def stage(self, name: str, expected: int = 0) -> None:
        """Enter a stage with ``expected`` units of work (samples, layers), 0 if unknown."""
        self._stage, self._done, self._expected, self._began = STAGES.index(name), 0, expected, time.monotonic_ns()
        self._write()

    def bump(self, count: int) -> None:
        """Add completed work. Call once per batch, never per sample."""
        self._done += count
        self._write()

    @property
    def done(self) -> int:
        return self._done

    def _write(self) -> None:
        _COUNTER.pack_into(self._map, 0, self._stage, 0, self._done, self._expected, self._began, time.monotonic_ns())

    def close(self) -> None:
        self._map.close()


@dataclass(frozen=True, slots=True)
class Progress:
    """One reading of a counter: work done and expected, seconds in this stage and since the last bump, and the last
    line that a command printed."""

    stage: str
    done: int
    expected: int
    seconds: float
    idle: float
    text: str = ""


def read_progress(path: str | Path) -> Progress | None:
    """Read the counter; None if the child has not created it yet."""
    try:
        data = Path(path).read_bytes()
        stage, _, done, expected, began, last = _COUNTER.unpack(data)
    except (OSError, struct.error):
        return None
    now = time.monotonic_ns()
    name = STAGES[stage] if stage < len(STAGES) else STAGES[0]
    return Progress(name, done, expected, (now - began) / 1e9 if began else 0.0, (now - last) / 1e9 if last else 0.0)


class CounterCopy:
    """Copies the progress of a child on another machine into a local counter."""

    def __init__(self, there: str | Path, here: str | Path) -> None:
        self._there, self._here = there, Counter(here)
        self._here.stage(STAGES[0])
        self._seen: Progress | None = None

    def copy(self) -> None:
        found = read_progress(self._there)
        if found is None:
            return
        seen = self._seen
        if seen is None or (seen.stage, seen.expected) != (found.stage, found.expected) or found.done < seen.done:
            self._here.stage(found.stage, found.expected)
            self._here.bump(found.done)
        elif found.done > seen.done:
            self._here.bump(found.done - seen.done)
        self._seen = found

    def close(self) -> None:
        self._here.close()
