"""Benchmarks: a class each, built in or a user's own, behind one small interface.

How a benchmark computes is its base class: ``TensorBenchmark`` takes a batch and gives a batch, ``LoopBenchmark`` asks
the engine several times for a sample, ``TokenBenchmark`` leaves a prompt to a backend that generates tokens. Its module
has it as ``BENCHMARK``, or several by name as ``BENCHMARKS``. A user's own file has ``BENCHMARK``, too, or is a module
of functions and constants that are named as the members of these classes, constants in capitals (``adapt_module``).
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
"""A row per sample, or an array per sample where they are of different sizes."""
_NONE: Mapping[str, Any] = MappingProxyType({})


class BenchmarkCode:
    """What every benchmark has: data, a model and a score. All but ``build_dataset`` have defaults.

    ``synthetic``: made-up data, never publishable. ``response_dtype``: the type of a response's bytes. ``outputs``: the
    model's outputs per sample, name -> (shape, dtype), which the null backend imitates. ``counts_tokens``: a response
    is a row of tokens, and LoadGen counts them. ``packing``: samples are of different lengths, padded to the longest;
    an engine that takes packed samples then computes no padding, and its outputs come back padded. ``show_answers``:
    writes a file for each of some answers, (sample, bytes), into a folder, where a round wants to see some.
    """

    name = ""
    digest = ""  # of a user's file; the code of a built-in benchmark is the harness's
    synthetic: bool = False
    response_dtype: str = "int32"
    outputs: Mapping[str, Any] = MappingProxyType({"output": ((1,), "float32")})
    counts_tokens: bool = False
    packing: Packing | None = None
    show_answers: ShowAnswers | None = None

    def build_dataset(self, source: Path | None, settings: Settings, output: Path, counter: Counter, /) -> None:
        """Write ``samples.npy`` (first axis counts the samples) and ``labels.npy`` into the folder ``output``, and
        whatever else the benchmark needs."""
        raise NotImplementedError

    def build_model(
        self, source: Path | None, settings: Settings, inputs: Mapping[str, Path], output: Path, counter: Counter, /
    ) -> None:
        """Write ``model.onnx``, or ``model.pt2`` (a program of torch.export, for the PyTorch backends), with a free
        batch axis. ``inputs``: {"dataset": folder}. Default: a copy of ``source``, or its digest where it is a
        checkpoint that is read where it is."""
        make = keep_checkpoint if self.counts_tokens else copy_model
        make(source, settings, inputs, output, counter)

    def load_samples(self, dataset: Path, /) -> Arrays:
        """Input name -> array. Default: ``samples.npy``, mapped: a page is read when a sample of it is made
        resident."""
        return {"samples": np.load(dataset / "samples.npy", mmap_mode="r")}

    def load_performance_samples(self, dataset: Path, /) -> Arrays:
        """Load those of performance runs. Default: what ``load_samples`` gives."""
        return self.load_samples(dataset)

    def load_calibration(self, dataset: Path, /) -> Mapping[str, np.ndarray]:
        """Input name -> samples, in the order of the benchmark's calibration list, on which a model is quantized where
        ``model.settings.precision`` asks for it (harness.quantization). Default: ``calibration.npy``, or nothing."""
        path = dataset / "calibration.npy"
        return {"samples": np.load(path, mmap_mode="r")} if path.is_file() else {}

    def lower_program(
        self, program: Path, settings: Settings, samples: Arrays, counter: Counter, /, *, compare: int
    ) -> dict[str, Any]:
        """Rewrite ``program``, a model.pt2, in the precision that ``settings`` ask for, and return what its record
        keeps of it. ``compare``: how many samples both are compared on."""
        from harness.quantization.programs import quantize_program

        return quantize_program(program, settings, samples, self.packing, counter, compare=compare)

    def score(self, log: AnswerLog, dataset: Path, output: Path, /) -> Metrics:
        """Metrics by name; writes ``output/accuracy.txt``. Default: top-1 against ``labels.npy``."""
        return write_top1(log, np.dtype(self.response_dtype), np.load(dataset / "labels.npy"), output)

    def write_rehearsal(
        self, data: Path, models: Path, /, *, count: int, seed: int, size: str, counter: Counter
    ) -> None:
        """Write generated data and a network of a built-in benchmark into two empty folders. ``count``: of samples;
        ``size``: "small" or "full", of the network."""
        write = importlib.import_module(f"{type(self).__module__}.rehearsal").write_rehearsal
        write(data, models, count=count, seed=seed, size=size, counter=counter)

    def list_outputs(self) -> tuple[Tensor, ...]:
        """Describe the outputs of a model that is one network."""
        return _describe_outputs(self.outputs)

    def open_session(self, load: Callable[[LoadPlan], Session], plan: LoadPlan) -> Session:
        """``load``: the backend's, whose own session it is where the benchmark has no loop."""
        return load(plan)

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        """The responses to a batch. ``indices``: its samples, in the order of the rows."""
        raise NotImplementedError


class TensorBenchmark(BenchmarkCode):
    """A batch in, a batch out: one call of the engine for each sample.

    A subclass overrides ``postprocess``, or ``respond`` where a response names its sample: then ``names_samples`` is
    true. ``pipeline``: how a backend runs a pipeline that it reads from a checkpoint: ``steps``, ``guidance``, and of
    two networks that take turns ``guidance_2`` and ``boundary`` (harness.backends.diffusers.loading).
    """

    names_samples: bool = False
    pipeline: Mapping[str, Any] = _NONE

    def postprocess(self, outputs: Outputs, /) -> Responses:
        """The engine's outputs of one batch -> array of responses, one row per sample, all of one size, or a list of
        arrays, one per sample, of any sizes. Default: the class of the highest score in the first output."""
        return highest_class(outputs)

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        return self.postprocess(outputs)

    def load_shared(self, dataset: Path, /) -> Mapping[str, np.ndarray]:
        """Name -> an array that all samples of a pipeline have in common, such as latents."""
        return {}

    def load_collate(self, dataset: Path, /) -> Collate | None:
        """Where the inputs of a batch are made as it runs, as by drawing the neighbours of nodes of a graph: a function
        of some samples (input name -> rows) that gives the engine's inputs, each as long as it comes out. It is called
        on several threads at once, and may be sent to other processes. Default: None, the samples are the inputs."""
        return None


class LoopBenchmark(BenchmarkCode):
    """A sample takes several calls of the engine: a generator yields inputs (name -> rows), is sent their outputs, and
    returns the response, of any size (harness.run.loops). ``load_samples`` may then give ``harness.run.qsl.Ragged``.

    A subclass overrides ``loop``, or ``open_loop`` where the loop looks something up in the model itself. ``parts``:
    where the model is several networks, their names. Each has an engine of its own: ``build_model`` writes the folder
    NAME with model.onnx or model.pt2 for each, ``outputs`` is by name of the part, and the loop yields (name, inputs).
    ``at_once``: how many samples may be under way, where they are large. ``step_threads``: how many of them may compute
    between two questions at a time, where that takes long. ``one_call``: where each sample asks once, for many rows:
    which inputs they are, and how responses of rows are made of outputs; large batches are then dealt with whole.
    ``list_in_order(samples, expected)``: where the rules have an order of samples: their numbers without an end, in the
    order in which they are asked for, whichever LoadGen names. ``samples``: what was loaded; ``expected``: how many
    queries the run will probably have. Responses then name their samples, and ``score`` goes by those names.
    """

    parts: Sequence[str] = ()
    at_once: int = 0
    step_threads: int = 0
    one_call: OneCall | None = None
    list_in_order: Callable[[Arrays, int], Iterator[int]] | None = None

    def loop(self, sample: Arrays, /) -> Any:
        """The generator of one sample: input name -> its array."""
        raise NotImplementedError

    def open_loop(self, source: Path | None, /) -> Loop:
        """The loop. ``source``: the path of the model in the spec, for a loop that reads a table in it that no engine
        can hold."""
        return self.loop

    def respond(self, outputs: Outputs, indices: Sequence[int], /) -> Responses:
        """What the loops of the samples returned."""
        return outputs

    def list_outputs(self) -> tuple[Tensor, ...]:
        return () if self.parts else super().list_outputs()

    def list_parts(self) -> Parts:
        """Describe the outputs of each part; empty where the model is one network."""
        return {part: _describe_outputs(self.outputs[part]) for part in self.parts}

    def open_session(self, load: Callable[[LoadPlan], Session], plan: LoadPlan) -> Session:
        if self.one_call is not None and plan.batch_size >= ENOUGH * self.one_call.most_rows:
            return OneCallSession(load, plan, self.one_call)
        loop, parts = self.open_loop(plan.source), self.list_parts()
        return LoopSession(load, plan, loop, parts=parts, at_once=self.at_once, step_threads=self.step_threads)


class TokenBenchmark(TensorBenchmark):
    """A prompt in, a row of tokens out, by a backend that generates them and batches by itself (harness.run.tokens).

    ``load_samples`` gives ``input_ids``, a row of token ids for each prompt; or ``sound``, waveforms that a backend
    transcribes; or ``messages``, those of a chat as the bytes of their JSON. ``generation``: how tokens are chosen
    (harness.run.tokens.Sampling), where a round says nothing of it. ``write_text``: the response where an answer is a
    text. A backend that computes batches gives rows of tokens as of any ``TensorBenchmark``.
    """

    counts_tokens = True
    generation: Mapping[str, Any] = _NONE
    write_text: Callable[[str], np.ndarray] | None = None


def load_benchmark(benchmark: Benchmark) -> BenchmarkCode:
    """Raises HarnessError when there is no such benchmark, or its file does not load or fit the interface."""
    digest = ""
    if benchmark.path is not None:
        path = Path(benchmark.path)
        module, digest = _load_file(path), hash_file(path)
        found = getattr(module, "BENCHMARK", None) or adapt_module(module, benchmark.name)
    else:
        offered = [name for name, facts in BENCHMARKS.items() if not facts.elsewhere]
        if benchmark.name not in offered:
            problem = f"no built-in benchmark {benchmark.name!r}"
            raise HarnessError(problem, "input", f"use one of {', '.join(offered)}, or name a file")
        module = importlib.import_module(f"harness.benchmarks.{BENCHMARKS[benchmark.name].module}")
        found = vars(module).get("BENCHMARK") or module.BENCHMARKS[benchmark.name]
    if not isinstance(found, BenchmarkCode):
        problem = f"BENCHMARK of {module.__file__} is no benchmark"
        raise HarnessError(problem, "input", "make it an instance of a class of one")
    found.name, found.digest = benchmark.name, digest
    return found


_NOT_OF_MODULES = ("list_outputs", "list_parts", "open_session", "respond", "write_rehearsal")
_MAY_BE_NONE = ("list_in_order", "show_answers", "write_text")


def adapt_module(module: ModuleType, name: str) -> BenchmarkCode:
    """The benchmark that a user's module of functions and constants is. ``postprocess`` of two arguments is ``respond``
    of the class, ``TOKENS`` is ``counts_tokens``. Raises HarnessError for a function that is none."""
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
    """``write_rehearsal`` of a built-in benchmark."""
    facts = BENCHMARKS.get(name)
    if facts is None or not facts.rehearsed:
        known = ", ".join(known for known, facts in BENCHMARKS.items() if facts.rehearsed)
        raise HarnessError(f"there is no rehearsal of {name!r}", "input", f"use one of {known}")
    return load_benchmark(Benchmark(name=name)).write_rehearsal


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reconcile_benchmark", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise HarnessError(f"no benchmark file {path}", "missing", "check the path in the spec; it must end in .py")
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
    """The model is the ONNX file, or the program of torch.export, that the spec names."""
    if source is None or source.suffix not in (".onnx", ".pt2"):
        raise HarnessError(
            f"the model must be an ONNX file or a .pt2 program, not {source}" if source else "no model is declared",
            "input",
            "name such a file as model.path in the spec, or write build_model() in the benchmark's file",
        )
    shutil.copyfile(source, output / f"model{source.suffix}")


def keep_checkpoint(
    source: Path | None, settings: Settings, inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Keep a model that generates: the digest of its checkpoint, which is read where it is; or the file that an engine
    is built from."""
    if source is not None and source.suffix in (".onnx", ".pt2"):
        copy_model(source, settings, inputs, output, counter)
    else:
        note_source(source, output)


def note_source(source: Path | None, output: Path) -> dict[str, Any]:
    """Note the source at the time of the command's first run, without its path: paths differ from machine to
    machine."""
    digest = "" if source is None else hash_folder(source) if source.is_dir() else hash_file(source)
    (output / SOURCE_NOTE).write_text(json.dumps({"sha256": digest}) + "\n", encoding="utf-8")
    return {"source": digest, "marks": []}


def highest_class(outputs: Outputs) -> np.ndarray:
    """Scores [n, classes] -> int32 [n]."""
    classes: np.ndarray = outputs[0].argmax(axis=-1)
    return classes.astype(np.int32)
