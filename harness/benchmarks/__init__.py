"""Benchmarks, built-in or a user's own. Each is a class with one small interface.

The base class defines how a benchmark computes: ``TensorBenchmark`` maps batches to batches, ``LoopBenchmark`` calls
the engine several times per sample, ``TokenBenchmark`` passes prompts to a backend that generates tokens. Its module
defines ``BENCHMARK``, or several by name as ``BENCHMARKS``. A user's own file also defines ``BENCHMARK``, or is a
module of functions and constants named like the members of these classes, constants in capitals (``adapt_module``).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from harness.backends import Collate, LoadPlan, Outputs, Session, Tensor
from harness.benchmarks.accuracy import AnswerLog, write_top1
from harness.child.digests import hash_file, hash_folder
from harness.contract import BENCHMARKS, SOURCE_NOTE, Benchmark, Counter
from harness.errors import HarnessError
from harness.run.loops import Loop, LoopSession, Parts
from harness.run.one_call import ENOUGH, OneCall, OneCallSession
from harness.run.packing import Packing
from harness.run.qsl import Arrays

Settings = Mapping[str, Any]
Metrics = Mapping[str, Any]
ShowAnswers = Callable[[Sequence[tuple[int, bytes]], Path], None]
Responses = np.ndarray | Sequence[np.ndarray]
"""One row per sample, or one array per sample if their sizes differ."""
_NONE: Mapping[str, Any] = MappingProxyType({})


class BenchmarkCode:
    """Base of every benchmark: data, a model and a score. All methods but ``build_dataset`` have defaults.

    ``synthetic``: generated data, never publishable. ``response_dtype``: the type of a response's bytes. ``outputs``:
    the model's outputs per sample, name -> (shape, dtype), imitated by the null backend. ``counts_tokens``: a response
    is a row of tokens, which LoadGen counts. ``packing``: samples differ in length and are padded to the longest;
    engines for packed samples skip the padding, and their outputs are padded again. ``show_answers``: writes files of
    selected answers, (sample, bytes), to a folder, for rounds that require them.
    """

    name = ""
    digest = ""  # the digest of a user's file; built-in benchmarks are part of the harness
    synthetic: bool = False
    response_dtype: str = "int32"
    outputs: Mapping[str, Any] = MappingProxyType({"output": ((1,), "float32")})
    counts_tokens: bool = False
    packing: Packing | None = None
    show_answers: ShowAnswers | None = None

    def build_dataset(self, source: Path | None, settings: Settings, output: Path, counter: Counter, /) -> None:
        """Write ``samples.npy`` (samples along the first axis), ``labels.npy`` and any other files of the benchmark to
        the folder ``output``. ``settings``: those that its benchmark.yaml lists; "count" samples from the first
        (default: all), "threads" (default: one per processor) and "dtype" (default: the first listed) mean the same
        everywhere."""
        raise NotImplementedError

    def build_model(
        self, source: Path | None, settings: Settings, inputs: Mapping[str, Path], output: Path, counter: Counter, /
    ) -> None:
        """Write ``model.onnx``, or ``model.pt2`` (a program of torch.export, for the PyTorch backends), with a free
        batch axis. ``inputs``: {"dataset": folder}. Default: a copy of ``source``, or its digest for a checkpoint that
        is read in place."""
        make = keep_checkpoint if self.counts_tokens else copy_model
        make(source, settings, inputs, output, counter)

    def load_samples(self, dataset: Path, /) -> Arrays:
        """Return input name -> array. Default: ``samples.npy``, memory-mapped: a page is read when one of its samples
        is made resident."""
        return {"samples": np.load(dataset / "samples.npy", mmap_mode="r")}

    def load_performance_samples(self, dataset: Path, /) -> Arrays:
        """Load the samples of performance runs. Default: those of ``load_samples``."""
        return self.load_samples(dataset)

    def load_calibration(self, dataset: Path, /) -> Mapping[str, np.ndarray]:
        """Return input name -> samples, in the order of the benchmark's calibration list, for quantizing a model by
        ``model.settings.precision`` (harness.quantization). Default: ``calibration.npy``, or nothing."""
        path = dataset / "calibration.npy"
        return {"samples": np.load(path, mmap_mode="r")} if path.is_file() else {}

    def lower_program(
        self, program: Path, settings: Settings, samples: Arrays, counter: Counter, /, *, compare: int
    ) -> dict[str, Any]:
        """Rewrite ``program``, a model.pt2, in the precision requested in ``settings``, and return the facts for its
        record. ``compare``: number of samples for comparing both."""
        from harness.quantization.programs import quantize_program

        return quantize_program(program, settings, samples, self.packing, counter, compare=compare)

    def score(self, log: AnswerLog, dataset: Path, output: Path, /) -> Metrics:
        """Return metrics by name, and write ``output/accuracy.txt``. Default: top-1 against ``labels.npy``."""
        return write_top1(log, np.dtype(self.response_dtype), np.load(dataset / "labels.npy"), output)

    def write_rehearsal(
        self, data: Path, models: Path, /, *, count: int, seed: int, size: str, counter: Counter
    ) -> None:
        """Write generated data and a network of a built-in benchmark to two empty folders. ``count``: number of
        samples; ``size``: size of the network, "small" or "full"."""
        write = importlib.import_module(f"{type(self).__module__}.rehearsal").write_rehearsal
        write(data, models, count=count, seed=seed, size=size, counter=counter)

    def list_outputs(self) -> tuple[Tensor, ...]:
        """Describe the outputs of a model with a single network."""
        return _describe_outputs(self.outputs)

    def open_session(self, load: Callable[[LoadPlan], Session], plan: LoadPlan) -> Session:
        """Open the session of a run. ``load``: the backend's, which returns the session unless the benchmark has a
        loop."""
        return load(plan)

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        """Return the responses to a batch. ``indices``: its samples, in the order of the rows."""
        raise NotImplementedError


class TensorBenchmark(BenchmarkCode):
    """A benchmark that maps batches to batches, with one engine call for each sample.

    A subclass overrides ``postprocess``, or ``respond`` if a response contains its sample's index: then
    ``names_samples`` is true. ``pipeline``: settings of a pipeline read from a checkpoint: ``steps``, ``guidance``, and
    for two alternating networks ``guidance_2`` and ``boundary`` (harness.backends.diffusers.loading).
    """

    names_samples: bool = False
    pipeline: Mapping[str, Any] = _NONE

    def postprocess(self, outputs: Outputs, /) -> Responses:
        """Convert the engine's outputs of one batch to an array of responses of equal size, one row per sample, or to a
        list of arrays of any sizes. Default: the class of the highest score in the first output."""
        return highest_class(outputs)

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        return self.postprocess(outputs)

    def load_shared(self, dataset: Path, /) -> Mapping[str, np.ndarray]:
        """Return the arrays that all samples of a pipeline share, such as latents, by name."""
        return {}

    def load_collate(self, dataset: Path, /) -> Collate | None:
        """Return a function that creates a batch's inputs during the run, for example by sampling neighbours in a
        graph. It maps samples (input name -> rows) to the engine's inputs of any length, is called on several threads
        at once, and may be sent to other processes. Default: None, the samples are the inputs."""
        return None


class LoopBenchmark(BenchmarkCode):
    """A benchmark whose samples need several engine calls: a generator yields inputs (name -> rows), receives their
    outputs, and returns the response, of any size (harness.run.loops). ``load_samples`` may then return
    ``harness.run.qsl.Ragged``.

    A subclass overrides ``loop``, or ``open_loop`` if the loop reads the model itself. ``parts``: the names of a
    model's networks, if it has several. Each has its own engine: ``build_model`` writes a folder NAME with model.onnx
    or model.pt2 for each, ``outputs`` is by part, and the loop yields (name, inputs). ``at_once``: the maximum number
    of samples in progress, for large samples. ``step_threads``: how many loops may compute at the same time between
    engine calls, for slow loops. ``reuse_outputs``: the loop does not use outputs after its next request, so that their
    memory can be reused, which matters for many megabytes. ``one_call``: for samples with a single request of many
    rows, its inputs and the conversion of outputs to responses; large batches are then processed at once.
    ``list_in_order(samples, expected)``: for rules that define an order of samples: yields their numbers in that order
    without end, regardless of LoadGen's. ``samples``: the loaded ones; ``expected``: the estimated number of queries.
    Responses then contain the numbers of their samples, which ``score`` uses.
    """

    parts: Sequence[str] = ()
    at_once: int = 0
    step_threads: int = 0
    reuse_outputs: bool = False
    one_call: OneCall | None = None
    list_in_order: Callable[[Arrays, int], Iterator[int]] | None = None

    def loop(self, sample: Arrays, /) -> Any:
        """Return the generator of one sample, given as input name -> array."""
        raise NotImplementedError

    def open_loop(self, source: Path | None, /) -> Loop:
        """Return the loop. ``source``: the path of the model in the spec, for a loop that reads a table too large for
        an engine."""
        return self.loop

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        """Return the results of the samples' loops."""
        return outputs

    def list_outputs(self) -> tuple[Tensor, ...]:
        return () if self.parts else super().list_outputs()

    def list_parts(self) -> Parts:
        """Describe the outputs of each part; empty for a single network."""
        return {part: _describe_outputs(self.outputs[part]) for part in self.parts}

    def open_session(self, load: Callable[[LoadPlan], Session], plan: LoadPlan) -> Session:
        if self.one_call is not None and plan.batch_size >= ENOUGH * self.one_call.most_rows:
            return OneCallSession(load, plan, self.one_call)
        loop, parts = self.open_loop(plan.source), self.list_parts()
        return LoopSession(
            load,
            plan,
            loop,
            parts=parts,
            at_once=self.at_once,
            step_threads=self.step_threads,
            reuse_outputs=self.reuse_outputs,
        )


class TokenBenchmark(TensorBenchmark):
    """A benchmark that maps a prompt to a row of tokens, with a backend that generates and batches
    (harness.run.tokens).

    ``load_samples`` returns ``input_ids``, a row of token ids for each prompt; or ``sound``, waveforms to transcribe;
    or ``messages``, a chat's messages as JSON bytes. ``generation``: the sampling (harness.run.tokens.Sampling), unless
    a round defines it. ``write_text``: converts a text answer to the response. A backend that computes batches returns
    rows of tokens as for any ``TensorBenchmark``.
    """

    counts_tokens = True
    generation: Mapping[str, Any] = _NONE
    write_text: Callable[[str], np.ndarray] | None = None


def load_benchmark(benchmark: Benchmark) -> BenchmarkCode:
    """Load a benchmark. Raises HarnessError if it does not exist, or its file cannot be loaded or does not fit the
    interface."""
    digest = ""
    if benchmark.path is not None:
        path = Path(benchmark.path)
        module, digest = _load_file(path), hash_file(path)
        found = getattr(module, "BENCHMARK", None) or adapt_module(module, benchmark.name)
    else:
        offered = [name for name, facts in BENCHMARKS.items() if not facts.elsewhere]
        if benchmark.name not in offered:
            problem = f"no built-in benchmark {benchmark.name!r}"
            raise HarnessError(problem, "input", f"use one of {', '.join(offered)}, or pass a file")
        module = importlib.import_module(f"harness.benchmarks.{BENCHMARKS[benchmark.name].module}")
        found = vars(module).get("BENCHMARK") or module.BENCHMARKS[benchmark.name]
    if not isinstance(found, BenchmarkCode):
        problem = f"BENCHMARK of {module.__file__} is not a benchmark"
        raise HarnessError(problem, "input", "set it to an instance of a benchmark class")
    found.name, found.digest = benchmark.name, digest
    return found


_NOT_OF_MODULES = ("list_outputs", "list_parts", "open_session", "respond", "write_rehearsal")
_MAY_BE_NONE = ("list_in_order", "show_answers", "write_text")


def adapt_module(module: ModuleType, name: str) -> BenchmarkCode:
    """Create a benchmark from a user's module of functions and constants. ``postprocess`` with two arguments becomes
    the class's ``respond``, ``TOKENS`` becomes ``counts_tokens``. Raises HarnessError if a function is not callable."""
    given = vars(module)
    tokens = bool(given.get("TOKENS", False))
    loops = not given.keys().isdisjoint(("loop", "open_loop"))
    base = LoopBenchmark if loops else TokenBenchmark if tokens else TensorBenchmark
    members: dict[str, Any] = {"counts_tokens": tokens}
    for member in dir(base):
        if member.startswith("_") or member in _NOT_OF_MODULES:
            continue
        is_function = member in _MAY_BE_NONE or inspect.isfunction(getattr(base, member))
        value = given.get(member if is_function else member.upper())
        if callable(value) and is_function:
            members[member] = staticmethod(value)
        elif member == "build_dataset" or (is_function and member in given):
            problem = f"benchmark {name} has no function {member}()"
            raise HarnessError(problem, "input", f"write {member}() in {module.__file__}")
        elif value is not None:
            members[member] = value
    if "postprocess" in members:
        taken = inspect.signature(members["postprocess"].__func__).parameters.values()
        if sum(item.default is item.empty for item in taken) > 1:
            members |= {"respond": members.pop("postprocess"), "names_samples": True}
    found: BenchmarkCode = type("OwnBenchmark", (base,), members)()
    return found


def load_rehearsal(name: str) -> Callable[..., None]:
    """Return the ``write_rehearsal`` of a built-in benchmark."""
    facts = BENCHMARKS.get(name)
    if facts is None or not facts.rehearsed:
        known = ", ".join(known for known, facts in BENCHMARKS.items() if facts.rehearsed)
        raise HarnessError(f"there is no rehearsal of {name!r}", "input", f"use one of {known}")
    return load_benchmark(Benchmark(name=name)).write_rehearsal


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reconcile_benchmark", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise HarnessError(
            f"benchmark file not found: {path}", "missing", "check the path in the spec; it must end in .py"
        )
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # leave no trace in the user's folder
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError:
        raise
    except Exception as error:
        problem = f"{path} does not load: {type(error).__name__}: {error}"
        raise HarnessError(problem, "input", "correct the file") from error
    finally:
        sys.dont_write_bytecode = writes
    return module


def _describe_outputs(outputs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, tuple(shape), kind) for name, (shape, kind) in outputs.items())


def copy_model(
    source: Path | None, _settings: Settings, _inputs: Mapping[str, Path], output: Path, _counter: Counter
) -> None:
    """Copy the spec's model, an ONNX file or a torch.export program."""
    if source is None or source.suffix not in (".onnx", ".pt2"):
        raise HarnessError(
            f"the model must be an ONNX file or a .pt2 program, not {source}" if source else "model.path is not set",
            "input",
            "set model.path to such a file, or write build_model() in the benchmark's file",
        )
    shutil.copyfile(source, output / f"model{source.suffix}")


def keep_checkpoint(
    source: Path | None, settings: Settings, inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Store a generating model, as the digest of a checkpoint that is read in place, or as the file from which an
    engine is built."""
    if source is not None and source.suffix in (".onnx", ".pt2"):
        copy_model(source, settings, inputs, output, counter)
    else:
        note_source(source, output)


def note_source(source: Path | None, output: Path) -> dict[str, Any]:
    """Record the source when the command first runs, without its path, which differs between machines."""
    digest = "" if source is None else hash_folder(source) if source.is_dir() else hash_file(source)
    (output / SOURCE_NOTE).write_text(json.dumps({"sha256": digest}) + "\n", encoding="utf-8")
    return {"source": digest, "marks": []}


def highest_class(outputs: Outputs) -> np.ndarray:
    """Map scores [n, classes] to classes, int32 [n]."""
    classes: np.ndarray = outputs[0].argmax(axis=-1)
    return classes.astype(np.int32)
