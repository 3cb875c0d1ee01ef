"""``run``: run one LoadGen test of one engine. The parent parses the logs for the verdict."""

from __future__ import annotations

import ctypes
import gzip
import io
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from harness.backends import Session, load_backend
from harness.benchmarks import BenchmarkCode, LoopBenchmark, TokenBenchmark, load_benchmark
from harness.catalog import CpuRunOptions, EngineSettings, TokenOptions, WeightOptions, list_options
from harness.child.digests import CODE_ROOT, hash_code, hash_folder
from harness.child.launched import is_launched
from harness.contract import BACKENDS, OWN_CODE, TELEMETRY, Counter, Result, RunRequest, as_evidence, as_notes, copy_log
from harness.errors import HarnessError, require
from harness.machine.clocks import ClockWatch
from harness.machine.facts import collect_machine_notes, collect_slice_evidence, list_taken
from harness.machine.telemetry import Telemetry, find_flags
from harness.parts import load_mig
from harness.run.loadgen import Prepared, Responder, Test, collect_loadgen_facts, prepare, run_test
from harness.run.loops import warm_rows
from harness.run.qsl import Arrays, IssueOrder, SampleLibrary
from harness.run.sut import Completer, Guard, Indexed, LoadedSut, OfflineSut, ServerSut, StreamSut
from harness.run.tokens import (
    GenerationPlan,
    Generator,
    Sampling,
    StopSequence,
    TokenBackend,
    TokenCompleter,
    TokenRelay,
    TokenSut,
    WarmUp,
    name_samples,
    place_prompts,
)
from harness.verbs.command import SERVICE_LOG
from harness.verbs.load_plans import make_load_plan

_GRACE = 2.0  # seconds that LoadGen has to end by itself after a failure
_WARM_UP_BATCHES = 3
_HANDED_OVER = 0.03  # seconds of work that a stream gets at once if its batches are shorter


def execute(request: RunRequest, give_up: Callable[[BaseException], None]) -> Result:
    """Run it. values: samples_completed, marks, loadgen (settings, overrides), response (dtype); batches and
    batch_size, or for a generating backend tokens (count, shortest and longest answer) and sampling; clock_set.

    ``give_up`` ends the process with a failed result. Another thread calls it if a run has failed, because LoadGen
    cannot be aborted and would continue to the end of its schedule.
    """
    began, clock = time.monotonic(), ClockWatch()
    keep_freed_memory()
    others = None
    if request.background:
        folder = Path(request.counter).parent
        others = load_mig().prepare_background(request.background, len(request.slices), folder)
    counter = Counter(request.counter)
    counter.stage("loading")
    benchmark = load_benchmark(request.benchmark)
    backend = load_backend(request.backend)
    prepared = prepare(
        Test(
            scenario=request.scenario,
            mode=request.mode,
            model_key=request.model_key,
            user_conf=Path(request.user_conf),
            log_dir=Path(request.log_dir),
            audit_config=request.audit_config,
        )
    )
    dataset = require(Path(request.inputs["dataset"]), "the dataset")
    load_samples = benchmark.load_performance_samples if request.mode == "performance" else benchmark.load_samples
    arrays = load_samples(dataset)
    guard = Guard(partial(_end_soon, give_up))
    load = load_generator if BACKENDS[request.backend].generates else load_session
    driven = load(request, benchmark, arrays, prepared, counter, guard)
    _require_different(request.audit_config, driven.library.performance_count)
    counter.stage("warming up")
    with others or nullcontext():
        counter.stage("running", prepared.estimate_samples(driven.library.total_count))
        readings = Path(request.counter).with_name(TELEMETRY)
        with Telemetry(driven.notes.get("devices", ()), readings, lambda: counter.done) as telemetry:
            run_test(prepared, driven.sut, driven.library)
        if others is not None:
            others.check()
    if guard.failure is not None:
        raise _make_backend_error(request.backend, guard.failure, telemetry.describe_faults())
    counter.stage("completing")
    driven.close()
    engine = request.inputs.get("engine")
    code = {
        "harness.code": hash_code(),
        "benchmark.code": benchmark.digest,
        "engine.digest": hash_folder(Path(engine)) if engine else "",
    }
    facts = {
        **backend.facts(),
        **collect_loadgen_facts(),
        **collect_machine_notes(),
        **collect_slice_evidence(),
        **(others.facts() if others is not None else {}),
        **telemetry.facts(driven.samples()),
        **as_evidence(code),
        **as_notes({"numpy.version": np.__version__}),
        **as_notes({f"backend.{name}": value for name, value in driven.notes.items()}),
        **as_evidence(driven.evidence),
    }
    if request.service_log:
        copy_log(Path(request.service_log), Path(request.counter).with_name(SERVICE_LOG))
    if is_launched() and request.mode == "performance":
        pack_own_code(Path(request.counter).with_name(OWN_CODE))
    values = _list_values(request, benchmark, prepared, driven) | clock.describe()
    counter.stage("done")
    return Result(
        done=True,
        seconds=time.monotonic() - began,
        values=find_flags(values, telemetry.list_flags()),
        facts=facts,
    )


def load_session(
    request: RunRequest, benchmark: BenchmarkCode, arrays: Arrays, prepared: Prepared, counter: Counter, guard: Guard
) -> LoadedSut:
    """Load and warm up a session that computes batches, and create the SUT that cuts queries into them."""
    backend = load_backend(request.backend)
    responder = Responder(with_data=prepared.logs_responses, tokens=benchmark.counts_tokens)
    completer = Completer(responder, benchmark.respond, counter, guard)
    slices = list_taken()
    plan = make_load_plan(
        request,
        benchmark,
        scenario=request.scenario,
        completed=completer.completed,
        failed=completer.failed,
        folder=Path(request.counter).parent,
        more={"devices": 1} if slices else {},
    )
    session: Session
    if len(slices) > 1 and request.scenario in ("Offline", "Server"):  # the other scenarios keep only one slice busy
        session = load_mig().open_session(request.backend, request.benchmark, plan, slices)
    else:
        session = benchmark.open_session(backend.load, plan)
    library = SampleLibrary(arrays, session.place, guard.record, performance_count=request.performance_sample_count)
    counter.stage("warming up")
    seconds = warm_up(session, arrays, benchmark)
    samples: Indexed = library
    if isinstance(benchmark, LoopBenchmark) and benchmark.list_in_order is not None:
        expected = prepared.estimate_samples(library.total_count)
        samples = IssueOrder(library, benchmark.list_in_order(arrays, expected))
    sut = make_sut(request, session, samples, completer, guard, seconds)

    def close() -> None:
        sut.close()
        session.close()

    return LoadedSut(
        sut=sut,
        library=library,
        notes=session.notes,
        values=lambda: {
            "samples_completed": completer.samples,
            "batches": completer.batches,
            "batch_size": session.batch_size,
        },
        samples=lambda: completer.samples,
        close=close,
        evidence=session.evidence,
    )


def _require_different(audit_config: str, loaded: int) -> None:
    """Refuse a test that issues more different samples than are in memory, since LoadGen would read past them."""
    if not audit_config:
        return
    lines = Path(audit_config).read_text(encoding="utf-8").splitlines()
    settings = dict(line.removeprefix("*.*.").split(" = ") for line in lines if line.startswith("*.*."))
    asked = int(settings.get("min_query_count", 0))
    if settings.get("performance_issue_unique") == "1" and loaded < asked:
        fix = "check the dataset of the test, and performance_sample_count"
        raise HarnessError(f"the test issues {asked} different samples, but only {loaded} are in memory", "input", fix)


def warm_up(session: Session, arrays: Arrays, benchmark: BenchmarkCode) -> float:
    """Compute a few batches of the largest and the smallest size, so that no run pays for first-time work; the largest
    first, since that gives memory which grows with the first batches the best layout. Return the seconds that the last
    of the largest batches took."""
    count = min(session.batch_size, len(next(iter(arrays.values()))))
    session.place(warm_rows(arrays, count))
    seconds = dict.fromkeys((count, 1), 0.0)
    usual = 1 if isinstance(benchmark, LoopBenchmark) else _WARM_UP_BATCHES
    for size in seconds:
        for _ in range(session.warm_up_batches or usual):
            began = time.perf_counter()
            benchmark.respond(session.warm_up(slice(0, size)), range(size))
            seconds[size] = time.perf_counter() - began
    return seconds[count]


def make_sut(
    request: RunRequest, session: Session, samples: Indexed, completer: Completer, guard: Guard, seconds: float
) -> StreamSut | OfflineSut | ServerSut:
    """Create the SUT. ``seconds``: duration of a batch."""
    if request.scenario == "Server":
        delay = int(request.settings.get("queue_delay_us", 0)) / 1e6
        return ServerSut(session, samples, completer, guard, delay=delay)
    if request.scenario == "Offline":
        at_once = max(1, int(_HANDED_OVER / seconds)) if session.takes_several else 1
        return OfflineSut(session, samples, completer, guard, at_once=at_once)
    return StreamSut(session, samples, completer, guard)


def _end_soon(give_up: Callable[[BaseException], None], error: BaseException) -> None:
    timer = threading.Timer(_GRACE, give_up, (error,))
    timer.daemon = True
    timer.start()


def _make_backend_error(backend: str, failure: BaseException, addition: str) -> BaseException:
    """Convert the error. ``addition``: further information about the device."""
    if isinstance(failure, HarnessError):
        return HarnessError(failure.problem + addition, failure.problem_class, failure.fix) if addition else failure
    if isinstance(failure, MemoryError | OSError):
        return failure
    error = HarnessError(
        f"the run on {backend} failed: {type(failure).__name__}: {failure}{addition}",
        "backend",
        "see the traceback in the log of this run",
    )
    error.__cause__ = failure
    return error


def _list_values(
    request: RunRequest, benchmark: BenchmarkCode, prepared: Prepared, driven: LoadedSut
) -> dict[str, Any]:
    drawn = WeightOptions(request.settings).random_weights
    synthetic = benchmark.synthetic or BACKENDS[request.backend].synthetic or drawn
    return {
        **driven.values(),
        "marks": ["synthetic"] if synthetic else [],
        "loadgen": {"settings": prepared.snapshot(), "overrides": prepared.overrides},
        "response": {"dtype": benchmark.response_dtype},
    }


# What the C library does with freed memory.
#
# Loops that prepare samples during the run allocate arrays of some MB and drop them. glibc returns such memory to the
# system at once and requests it again for the next sample, page by page. For pointpainting this took a fifth of the
# time, and more on a shared machine, so that its slowest queries measured the system rather than the network.

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h, for mallopt(3)
_KEPT = 1 << 30  # bytes that may stay free at the end of an arena
_LARGEST = 32 << 20  # bytes of an allocation; the largest value that glibc accepts


def keep_freed_memory() -> None:
    """Make glibc keep freed memory for the next sample; other C libraries are unaffected.

    Only for a process that ends with its run, since its memory never shrinks, although it does not grow either.
    """
    with suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGEST)
        set_option(_TRIM_THRESHOLD, _KEPT)


# Runs of generating backends, which take prompts instead of batches.

_WARM_UP = 4  # prompts


def load_generator(
    request: RunRequest, benchmark: BenchmarkCode, arrays: Arrays, prepared: Prepared, counter: Counter, guard: Guard
) -> LoadedSut:
    if not isinstance(benchmark, TokenBenchmark):
        fix = "use another backend or benchmark"
        raise HarnessError(f"{benchmark.name} has no tokens for {request.backend} to generate", "input", fix)
    if len(taken := list_taken()) > 1:
        fix = "start a server per slice as `harness.service` with the backend openai, or declare one slice"
        raise HarnessError(f"{request.backend} supports one GPU slice, not {len(taken)}", "input", fix)
    asked = name_samples(arrays)
    if asked not in BACKENDS[request.backend].takes:
        able = ", ".join(name for name, facts in BACKENDS.items() if asked in facts.takes)
        problem = f"{request.backend} does not support {asked}, which {benchmark.name} needs"
        raise HarnessError(problem, "input", f"set engine.backend: {able}, or declare a harness command")
    counts_tokens = bool(prepared.read("use_token_latencies"))
    streaming = counts_tokens and request.scenario != "Offline"
    # Text answers are timed as a whole if the round says so; all answers are, if LoadGen is older than 4.1.
    if not (counts_tokens or prepared.read("infer_token_latencies", unseen=True) or benchmark.write_text):
        problem = f"LoadGen does not count tokens for the model {request.model_key}"
        raise HarnessError(problem, "input", "set `as:` to a benchmark of the round that generates tokens")
    sampling = choose_sampling(benchmark.generation, request.generation, request.settings)
    relay, known = TokenRelay(), {**BACKENDS[request.backend].engine, **BACKENDS[request.backend].run}
    plan = GenerationPlan(
        model=require(Path(request.inputs["model"]), "the model") if "model" in request.inputs else None,
        source=Path(request.sources["model"]) if "model" in request.sources else None,
        scenario=request.scenario,
        sampling=sampling,
        streaming=streaming,
        logged=prepared.logs_responses,
        threads=CpuRunOptions(request.settings).threads,
        precision=EngineSettings(request.settings).precision,
        options={name: value for name, value in request.settings.items() if name in known},
        first=relay.first,
        completed=relay.completed,
        failed=relay.failed,
        samples=asked,
        service_url=request.service_url,
        service_log=request.service_log,
    )
    backend = cast(TokenBackend, load_backend(request.backend))
    generator = backend.load(plan)
    place = partial(place_prompts, generator)
    library = SampleLibrary(arrays, place, guard.record, performance_count=request.performance_sample_count)
    counter.stage("warming up")
    _warm_up(generator, arrays, relay)
    completer = TokenCompleter(
        Responder(with_data=prepared.logs_responses, tokens=True),
        sampling,
        counter,
        guard,
        dtype=benchmark.response_dtype,
        streaming=streaming,
        logged=prepared.logs_responses,
        write_text=benchmark.write_text,
    )
    relay.target = completer
    return LoadedSut(
        sut=TokenSut(generator, library, completer, guard),
        library=library,
        notes=generator.notes,
        values=lambda: {
            "samples_completed": completer.counts.samples,
            "tokens": asdict(completer.counts),
            "sampling": asdict(sampling),
        },
        samples=lambda: completer.counts.samples,
        close=generator.close,
        evidence=generator.evidence,
    )


def choose_sampling(own: Mapping[str, Any], ruled: Mapping[str, Any], settings: Mapping[str, Any]) -> Sampling:
    """Combine the benchmark's ``own`` sampling with the round's rules, which override it, and the spec's run settings,
    which override both."""
    said = {name: int(settings[name]) for name in list_options(TokenOptions) if settings.get(name)}
    values = {**own, **ruled, **said}
    known = {field.name for field in fields(Sampling)}
    if unknown := sorted(set(values) - known):
        problem = f"{unknown[0]} does not define token selection"
        raise HarnessError(problem, "input", f"use {', '.join(sorted(known))}")
    if "stop" in values:
        values["stop"] = tuple(values["stop"])
    if "stop_sequences" in values:
        values["stop_sequences"] = tuple(StopSequence(text, tuple(tokens)) for text, tokens in values["stop_sequences"])
    return Sampling(**values)


def _warm_up(generator: Generator, arrays: Arrays, relay: TokenRelay) -> None:
    """Answer the first prompts before any clock runs, to open connections and compile kernels."""
    count = min(_WARM_UP, len(next(iter(arrays.values()))))
    place_prompts(generator, {name: [rows[row] for row in range(count)] for name, rows in arrays.items()})
    warm = relay.target
    assert isinstance(warm, WarmUp)
    for row in range(count):
        generator.submit(row, row)
    warm.wait(count)


def pack_own_code(path: Path) -> None:
    """Pack the Python files of this package as a gzipped tar, atomically."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for source in sorted(CODE_ROOT.rglob("*.py")):
            content = source.read_bytes()
            member = tarfile.TarInfo(f"{CODE_ROOT.name}/{source.relative_to(CODE_ROOT).as_posix()}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(stream.getvalue())
    partial.replace(path)
