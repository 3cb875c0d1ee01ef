"""The contract between a pass and its child processes, in the standard library only.

A child is started as ``python -P -m harness VERB REQUEST.json RESULT.json``. It reads one request, works in an empty
directory of its own, writes RESULT.json aside and renames it into place as its last act: a result file that exists is
complete. Progress goes through an mmap counter, nothing else is shared.

``reconciler`` may import nothing else of ``harness`` but the catalogs, and this also hands on the facts about backends
and built-in benchmarks that planning needs (``harness.catalog``, ``harness.benchmark_catalog``).
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from harness.benchmark_catalog import BENCHMARKS as BENCHMARKS
from harness.benchmark_catalog import BuiltInBenchmark as BuiltInBenchmark
from harness.catalog import BACKENDS as BACKENDS
from harness.catalog import BackendFacts as BackendFacts
from harness.catalog import Option as Option
from harness.catalog import installing as installing
from harness.verbs.code_folder import SKIPPED as SKIPPED
from harness.verbs.code_folder import is_below as is_below
from harness.verbs.code_folder import is_output as is_output

FORMAT = 1

# --------------------------------------------------------------------------------------------------------------
# Requests and results
# --------------------------------------------------------------------------------------------------------------

Scenario = Literal["SingleStream", "MultiStream", "Server", "Offline"]
Mode = Literal["performance", "accuracy"]
Role = Literal["evidence", "note"]


def _decode(annotation: Any, value: Any) -> Any:
    """Turn JSON back into the annotated type; only the shapes used in this module are known."""
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
    """A frozen value that travels as one JSON file. ``module``: what carries it out; "" for that of ``harness.verbs``
    which is named like the verb. ``has_keeper``: the child has a keeper of its own, which must live to put things in
    order."""

    verb: ClassVar[str] = ""
    module: ClassVar[str] = ""
    has_keeper: ClassVar[bool] = False

    def write(self, path: Path) -> None:
        """Write aside, flush to disk, rename: a reader sees nothing or all of it."""
        aside = path.with_name(path.name + ".partial")
        with aside.open("w", encoding="utf-8") as stream:
            json.dump({"format": FORMAT, **dataclasses.asdict(self)}, stream, indent=1, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)

    def edit(self, **changes: Any) -> Self:
        """The same message with other values."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises ValueError when the file is not one of these, or of another format."""
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
    """Which benchmark code a child loads: a built-in by name, or a user's own file by path."""

    name: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest(FileMessage):
    """Make one artifact: every file left under ``output`` belongs to it.

    ``settings`` are the identity settings of the resource (preprocessing, quantization, builder settings; for an
    Engine also batch_size and precision). ``inputs`` maps an upstream kind in lower case (dataset, model) to a folder
    that holds its files. ``source`` is the file or folder the spec names. ``caches`` maps a name (timing) to a file
    that may be read and replaced and that is not part of the artifact. ``slices``: see RunRequest.
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
    """Load on a slice next to a run: a benchmark, without LoadGen and without a pause. ``slice``: its profile, "" for
    none; ``settings``, ``inputs`` and ``performance_sample_count`` as of a RunRequest."""

    benchmark: Benchmark
    backend: str
    slice: str
    performance_sample_count: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(FileMessage):
    """One LoadGen run.

    ``log_dir`` exists and is empty; ``user_conf`` is written already; ``audit_config`` "" means none. ``model_key``:
    LoadGen's key in its built-in mlperf.conf (resnet50). ``performance_sample_count``: how many samples the QSL offers
    to hold at once; 0 means all. ``settings``: batch_size, streams, threads, queue_delay_us (microseconds a partial
    Server batch may wait) and the backend's own run options.

    Of a backend that generates tokens: ``generation`` is what the round rules of answers (min_new_tokens,
    max_new_tokens); ``sources`` what the spec names as the path of the model; ``service_url`` and ``service_log`` where
    the server answers that the pass started, and the folder of what it prints; ``secrets`` as of a CommandRequest.

    ``slices``: profiles of the slices of GPUs (MIG) that CUDA shows the child and what it starts, such as 1g.10gb; none
    where whole GPUs compute. ``background``: loads on further slices during the run.
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

    ``shown``: samples of which the round wants the answers as files, in ``output``/``shown_folder``; "" where it wants
    none.
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
    """Run a user's own command, placeholders filled in, and collect what it leaves.

    ``results`` "endpoints" or "points": what must be there is one set of the endpoints harness's results, and no
    user.conf.

    ``purpose`` "run": exactly one LoadGen log set that was written during the attempt must be below ``logs``; it goes
    to ``output``. A set dated before ``since`` (UTC, ISO) counts where no other was written. "score": accuracy.txt in
    ``run_dir``, else what the command printed, goes to ``output``. "build": ``outputs``, by default everything in
    ``run_dir``, goes there, each file newly written. ``secrets`` maps a variable of the command to the variable of this
    process that has its value. ``user_conf`` is compared with ``user_conf_sha256`` afterwards; with that "", it is
    copied from ``user_conf_at``, or from the folder of the logs. ``place_audit`` is audit.config in ``cwd`` during the
    run, under ``lock``. ``timeout`` in seconds, or 0. ``service_log``: folder of the output of the server that the run
    asks; a copy goes with the run. ``slices``: see RunRequest. ``ending``: of a command that starts a container, what
    ends it.
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
    """Start another child behind a launcher, and end whatever the launcher started when this process ends.

    ``command``: the launcher's words and the child's. The child writes ``answer``, a Result, and ``counter_there``,
    whose clock is that of another machine; ``counter`` is kept by ours. ``ending``: a command that ends what may be
    left, such as a container. ``environment``: of the launcher, in addition to that of this process. ``secrets``: as of
    a CommandRequest; they travel on standard input.
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
    """When a server is ready: ``url`` answers a GET with success, ``tcp`` (host:port) takes a connection, or a line
    that it prints holds ``line``; the one of them that is set. ``timeout``: seconds until then, at most; ``patience``:
    seconds for which it may leave a probe unanswered afterwards, 0 when it is not asked any more."""

    url: str = ""
    tcp: str = ""
    line: str = ""
    timeout: float
    patience: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest(FileMessage):
    """Start a server and keep it until SIGTERM asks for its end.

    A result in ``ready`` says that it is ready, with the facts of it; the child's own result says how it ended. What it
    prints lies in ``log``, a folder that ``harness.child.output`` reads and writes. ``stop_signal`` by name, then
    ``stop_grace`` seconds until what is left of it is killed. ``hides``: variables whose values the server is not
    given, and which nothing may show that it prints. ``slices``: see RunRequest; ``ending``: see CommandRequest.
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
    """Read this machine and, when asked, the seeds that the installed LoadGen carries (by a one-query run).

    ``hardware``: also read what a system description has. ``quiet``: see who else uses the processors, looking at
    loaded ones for so many seconds, and the first ``gpus`` GPUs; negative: do not look. ``slices``: see RunRequest.
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
    """Generate a benchmark's dataset and network, in the formats in which they are published, into ``output``.

    ``output`` does not exist yet; it appears as a whole. ``size`` "full": a network as deep as the published one.
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
    """Who uses the machine. ``pid`` 0: a process that cannot be seen from here, as that of another container.
    ``host``: where, when it is another machine than that of the pass. ``since``: when that process began, as text."""

    what: str
    pid: int = 0
    user: str = ""
    command: str = ""
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        where = f"{self.host}: " if self.host else ""
        if not self.pid:
            return (
                f"{where}{self.what} a process that cannot be seen from here (of another container or virtual machine)"
            )
        who = ", ".join(part for part in (self.user, self.command, self.since and f"since {self.since}") if part)
        return f"{where}{self.what} process {self.pid}{f' ({who})' if who else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that was so during an attempt. Evidence must be equal across a cell's runs; a note is only kept."""

    value: Any
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(FileMessage):
    """How a child ended. ``done`` false: ``problem`` says what went wrong and ``fix`` what to do about it.

    ``problem_class``: "input" (the request or its files), "missing" (something is not installed or not there),
    "resources" (memory, disk, device), "backend", "crash". ``values``: what was made or measured. ``facts``: the
    environment by name. ``seconds``: monotonic time of the work itself.
    """

    done: bool
    seconds: float
    values: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    problem: str = ""
    problem_class: str = ""
    fix: str = ""


WAITING = "waiting-{}.json"  # in the folder of an attempt that a job of the named group may take over


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAttempt(FileMessage):
    """An attempt whose own job waits in a queue. ``arguments`` of ``python -m harness``; ``log``: where what it prints
    goes; ``seconds`` that it is expected to take."""

    arguments: tuple[str, ...]
    log: str
    seconds: float


# In the place of what would be made of a model or a dataset that is used as it is: its digest.
SOURCE_NOTE = "source.json"

# Next to the counter: readings of the machine during a run, a JSON object a line.
TELEMETRY = "telemetry.jsonl"
OWN_CODE = "harness-code.tar.gz"  # of a child behind a launcher: the harness as it was there


# Output of a server while it goes on: kept in parts, so that no file grows without end.
#
# ``harness.child.output`` writes them, in the folder of a service's attempt. Runs that ask the server keep a copy of
# its output so far, and people follow them as they grow.

# Its start, which stays; then two that take turns: once the newer is full it replaces the older.
LOG_PARTS = ("log.start", "log.older", "log.newer")


def copy_log(folder: Path, target: Path) -> None:
    """Copy a server's output up to now, as one file; none where it printed nothing. For either side: the server goes
    on."""
    found = (folder / name for name in LOG_PARTS)
    parts = [path for path in found if path.is_file()]
    if any(path.stat().st_size for path in parts):
        with target.open("wb") as out:
            for path in parts:
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, out)


# Progress of a child: a counter in a small file that it keeps, and that its follower reads.

STAGES = (
    *("starting", "loading", "building", "warming up", "running", "completing", "scoring", "done"),
    *("starting service", "serving"),
)
# Stage, unused, done, expected, when the stage began and when the last bump was (both monotonic ns).
_COUNTER = struct.Struct("=IIQQQQ")


class Counter:
    """A progress counter in a small file that parent and child both map.

    One writer, the child; readers tolerate a torn read, since the next one fixes it. CLOCK_MONOTONIC is one clock for
    all processes of a machine, so the parent computes rates without a clock of its own in the file.
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
        """Enter a stage; ``expected`` units of work (samples, layers), 0 when not known."""
        self._stage, self._done, self._expected, self._began = STAGES.index(name), 0, expected, time.monotonic_ns()
        self._write()

    def bump(self, count: int) -> None:
        """Add finished work. Called per batch, never per sample."""
        self._done += count
        self._write()

    @property
    def done(self) -> int:
        """Finished work of this stage."""
        return self._done

    def _write(self) -> None:
        _COUNTER.pack_into(self._map, 0, self._stage, 0, self._done, self._expected, self._began, time.monotonic_ns())

    def close(self) -> None:
        self._map.close()


@dataclass(frozen=True, slots=True)
class Progress:
    """One reading of a counter: work done and expected, seconds in this stage and since the last bump; the last line
    that a command printed."""

    stage: str
    done: int
    expected: int
    seconds: float
    idle: float
    text: str = ""


def read_progress(path: str | Path) -> Progress | None:
    """None while the child has not made its counter yet."""
    try:
        data = Path(path).read_bytes()
        stage, _, done, expected, began, last = _COUNTER.unpack(data)
    except (OSError, struct.error):
        return None
    now = time.monotonic_ns()
    name = STAGES[stage] if stage < len(STAGES) else STAGES[0]
    return Progress(name, done, expected, (now - began) / 1e9 if began else 0.0, (now - last) / 1e9 if last else 0.0)


class CounterCopy:
    """Copies the progress of a child whose clock is another machine's into a counter of this one."""

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
