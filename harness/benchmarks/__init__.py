"""Benchmarks: one file each, built in or a user's own, behind one small interface.

A benchmark file is a Python module. Everything in it is optional but ``build_dataset``:

- ``SYNTHETIC: bool`` (False): made-up data, never publishable.
- ``RESPONSE_DTYPE: str`` ("int32"): what a response's bytes are. ``OUTPUTS: dict[name, (shape, dtype)]``: the model's
  outputs per sample, which the null backend imitates; ({"output": ((1,), "float32")}).
- ``TOKENS: bool`` (False): a response is a row of tokens, as many as LoadGen is told. A backend that generates them
  (harness.run.tokens) takes prompts: ``load_samples`` gives ``input_ids``, a row of token ids for each.
  ``GENERATION: dict`` ({}): how they are chosen (harness.run.tokens.Sampling), where a round says nothing of it.
  ``SOUNDS`` in place of prompts: waveforms that a backend transcribes. ``MESSAGES``: those of a chat, as the bytes of
  their JSON. ``write_text(text)``: the response where an answer is a text.
- ``build_dataset(source, settings, output, counter)``: write ``samples.npy`` (first axis counts the samples) and
  ``labels.npy`` into the folder ``output``, and whatever else the benchmark needs. ``source``: Path or None.
- ``build_model(source, settings, inputs, output, counter)``: write ``model.onnx``, or ``model.pt2`` (a program of
  torch.export, for the PyTorch backends), with a free batch axis. ``inputs``: {"dataset": folder}. Default: a copy of
  ``source``.
- ``load_samples(dataset)``: input name -> array. Default: ``samples.npy``, mapped.
- ``load_performance_samples(dataset)``: those of performance runs, where they have samples of their own. Default: what
  ``load_samples`` gives.
- ``load_calibration(dataset)``: input name -> samples, in the order of the benchmark's calibration list, on which a
  model is quantized where ``model.settings.precision`` asks for it (harness.quantization). Default:
  ``calibration.npy``.
- ``postprocess(outputs)``: the engine's outputs of one batch -> array of responses, one row per sample, all of one
  size, or a list of arrays, one per sample, of any sizes. ``postprocess(outputs, indices)`` where a response names its
  sample. Default: the class of the highest score in the first output.
- ``loop(sample)``: where a sample takes several calls of the engine: a generator that yields inputs (name -> rows), is
  sent their outputs, and returns the response, of any size (harness.run.loops). ``sample``: input name -> its array.
  ``AT_ONCE: int`` (0): how many samples may be under way, where they are large. ``STEP_THREADS: int`` (0): how many
  of them may compute between two questions at a time, where that takes long. ``load_samples`` may then give
  ``harness.run.qsl.Ragged``, and ``postprocess`` is not called.
- ``ONE_CALL: harness.run.one_call.OneCall`` (none): with ``loop``, where each sample asks once, for many rows: which
  inputs they are, and how responses of rows are made of outputs. Large batches are then dealt with whole.
- ``open_loop(source)``: in the place of ``loop``, where it looks something up in the model itself, such as a table that
  no engine can hold: the loop. ``source``: what the spec names as the path of the model.
- ``list_in_order(samples, expected)``: where the rules have an order of samples: their numbers without an end, in the
  order in which they are asked for, whichever LoadGen names. ``samples``: what was loaded; ``expected``: how many
  queries the run will probably have. Responses then name their samples, and ``score`` goes by those names.
- ``load_collate(dataset)``: where the inputs of a batch are made as it runs, as by drawing the neighbours of nodes of a
  graph: a function of some samples (input name -> rows) that gives the engine's inputs, each as long as it comes out
  (harness.backends.Collate). It is called on several threads at once, and may be sent to other processes. Default:
  None, the samples are the inputs.
- ``PACKING: harness.run.packing.Packing`` (none): samples are of different lengths, padded to the longest. An engine
  that takes packed samples then computes no padding; outputs come back padded.
- ``lower_program(path, settings, samples, counter, compare)``: rewrites the program model.pt2 in the precision that
  ``settings`` ask for, and returns what its record keeps of it. Default: harness.quantization.programs.
- ``PARTS: tuple[str, ...]`` (none): where the model is several networks, their names. Each has an engine of its own:
  ``build_model`` writes the folder NAME with model.onnx or model.pt2 for each, ``OUTPUTS`` is by name of the part, and
  ``loop`` yields (name, inputs).
- ``PIPELINE: dict`` ({}): how a backend runs a pipeline that it reads from a checkpoint: ``steps``, ``guidance``, and
  of two networks that take turns ``guidance_2`` and ``boundary`` (harness.backends.diffusers.settings).
  ``load_shared(dataset)``: name -> what all its samples have in common, such as latents. Default: nothing.
- ``show_answers(answers, folder)``: (sample, bytes) of some answers -> a file each, where a round wants to see some.
- ``score(log, dataset, output)``: an AccuracyLog -> metrics by name; writes ``output/accuracy.txt``. Default: top-1
  against ``labels.npy``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.backends import Collate, LoadPlan, Outputs, Session, Tensor
from harness.benchmarks.accuracy import AnswerLog, write_top1
from harness.benchmarks.command import note_source
from harness.child.digests import hash_file
from harness.contract import BENCHMARKS, Benchmark, Counter
from harness.errors import HarnessError
from harness.run.loops import Loop, LoopSession
from harness.run.one_call import ENOUGH, OneCall, OneCallSession
from harness.run.packing import Packing
from harness.run.qsl import Arrays

Settings = Mapping[str, Any]
Metrics = Mapping[str, Any]
ShowAnswers = Callable[[Sequence[tuple[int, bytes]], Path], None]
Responses = np.ndarray | Sequence[np.ndarray]
"""A row per sample, or an array per sample where they are of different sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCode:
    """A loaded benchmark, its defaults filled in. ``digest``: of a user's file, "" for a built-in one.
    ``names_samples``: its responses hold the numbers of their samples. ``open_loop``: its loop where that reads the
    model's source itself. ``list_in_order``: the order in which samples are asked for, whichever LoadGen names."""

    name: str
    digest: str
    synthetic: bool
    response_dtype: str
    tokens: bool
    write_text: Callable[[str], np.ndarray] | None
    generation: Mapping[str, Any]
    pipeline: Mapping[str, Any]
    at_once: int
    step_threads: int
    outputs: tuple[Tensor, ...]
    parts: Mapping[str, tuple[Tensor, ...]]
    packing: Packing | None
    lower_program: Callable[..., dict[str, Any]] | None
    build_dataset: Callable[[Path | None, Settings, Path, Counter], None]
    build_model: Callable[[Path | None, Settings, Mapping[str, Path], Path, Counter], None]
    load_samples: Callable[[Path], Mapping[str, np.ndarray]]
    load_performance_samples: Callable[[Path], Mapping[str, np.ndarray]]
    load_calibration: Callable[[Path], Mapping[str, np.ndarray]]
    load_shared: Callable[[Path], Mapping[str, np.ndarray]]
    load_collate: Callable[[Path], Collate | None]
    postprocess: Callable[[Outputs, Sequence[int]], Responses]
    names_samples: bool
    loop: Loop | None
    open_loop: Callable[[Path | None], Loop] | None
    one_call: OneCall | None
    list_in_order: Callable[[Arrays, int], Iterator[int]] | None
    score: Callable[[AnswerLog, Path, Path], Metrics]
    show_answers: ShowAnswers | None

    @property
    def loops(self) -> bool:
        """True where a sample may take several calls of the engine."""
        return bool(self.loop or self.open_loop)

    def open_session(self, load: Callable[[LoadPlan], Session], plan: LoadPlan) -> Session:
        """``load``: the backend's, whose own session it is where the benchmark has no loop."""
        loop = self.open_loop(plan.source) if self.open_loop else self.loop
        if loop is None:
            return load(plan)
        if self.one_call is not None and plan.batch_size >= ENOUGH * self.one_call.most_rows:
            return OneCallSession(load, plan, self.one_call)
        parts, at_once, step_threads = self.parts, self.at_once, self.step_threads
        return LoopSession(load, plan, loop, parts=parts, at_once=at_once, step_threads=step_threads)


def load_benchmark(benchmark: Benchmark) -> BenchmarkCode:
    """Raises HarnessError when there is no such benchmark, or its file does not load or fit the interface."""
    if benchmark.path is not None:
        path = Path(benchmark.path)
        return _with_defaults(_load_file(path), benchmark.name, hash_file(path))
    offered = [name for name, facts in BENCHMARKS.items() if not facts.elsewhere]
    if benchmark.name not in offered:
        raise HarnessError(
            f"no built-in benchmark {benchmark.name!r}", "input", f"use one of {', '.join(offered)}, or name a file"
        )
    module = importlib.import_module(f"harness.benchmarks.{BENCHMARKS[benchmark.name].module}")
    return _with_defaults(module, benchmark.name, "")


def load_rehearsal(name: str) -> Callable[..., None]:
    """The function that writes generated data and a network of a built-in benchmark: ``write_rehearsal(data, models, *,
    count, seed, size, counter)``, two empty folders, how many samples, and "small" or "full" for the network."""
    facts = BENCHMARKS.get(name)
    if facts is None or not facts.rehearsed:
        known = ", ".join(known for known, facts in BENCHMARKS.items() if facts.rehearsed)
        raise HarnessError(f"there is no rehearsal of {name!r}", "input", f"use one of {known}")
    found: Callable[..., None] = importlib.import_module(f"harness.benchmarks.{facts.module}.rehearsal").write_rehearsal
    return found


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
        raise HarnessError(
            f"{path} does not load: {type(error).__name__}: {error}", "input", "correct the file"
        ) from error
    finally:
        sys.dont_write_bytecode = writes
    return module


def _with_defaults(module: ModuleType, name: str, digest: str) -> BenchmarkCode:
    dtype = str(getattr(module, "RESPONSE_DTYPE", "int32"))
    defaults = {
        "build_dataset": None,
        "build_model": keep_checkpoint if getattr(module, "TOKENS", False) else copy_model,
        "load_samples": map_samples,
        "load_performance_samples": getattr(module, "load_samples", map_samples),
        "load_calibration": map_calibration,
        "load_shared": share_nothing,
        "load_collate": collate_nothing,
        "postprocess": keep_answers if hasattr(module, "loop") or hasattr(module, "open_loop") else highest_class,
        "score": _top1(dtype),
    }
    found: dict[str, Any] = {function: getattr(module, function, default) for function, default in defaults.items()}
    wrong = [function for function, value in found.items() if not callable(value)]
    if wrong:
        raise HarnessError(
            f"benchmark {name} has no function {wrong[0]}()", "input", f"write {wrong[0]}() in {module.__file__}"
        )
    taken = inspect.signature(found["postprocess"]).parameters.values()
    names_samples = sum(item.default is item.empty for item in taken) > 1
    if not names_samples:
        found["postprocess"] = _without_indices(found["postprocess"])
    outputs = getattr(module, "OUTPUTS", {"output": ((1,), "float32")})
    parts = {part: _describe_outputs(outputs[part]) for part in getattr(module, "PARTS", ())}
    return BenchmarkCode(
        name=name,
        digest=digest,
        synthetic=bool(getattr(module, "SYNTHETIC", False)),
        response_dtype=np.dtype(dtype).name,
        tokens=bool(getattr(module, "TOKENS", False)),
        write_text=getattr(module, "write_text", None),
        generation=dict(getattr(module, "GENERATION", {})),
        pipeline=dict(getattr(module, "PIPELINE", {})),
        show_answers=getattr(module, "show_answers", None),
        names_samples=names_samples,
        at_once=int(getattr(module, "AT_ONCE", 0)),
        step_threads=int(getattr(module, "STEP_THREADS", 0)),
        loop=getattr(module, "loop", None),
        open_loop=getattr(module, "open_loop", None),
        one_call=getattr(module, "ONE_CALL", None),
        list_in_order=getattr(module, "list_in_order", None),
        outputs=() if parts else _describe_outputs(outputs),
        parts=parts,
        packing=getattr(module, "PACKING", None),
        lower_program=getattr(module, "lower_program", None),
        **found,
    )


def _without_indices(postprocess: Callable[[Outputs], Responses]) -> Callable[[Outputs, Sequence[int]], Responses]:
    return lambda outputs, _indices: postprocess(outputs)


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


def map_samples(dataset: Path) -> Mapping[str, np.ndarray]:
    """``samples.npy`` as a memory map: a page is read when a sample of it is made resident."""
    return {"samples": np.load(dataset / "samples.npy", mmap_mode="r")}


def map_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    """``calibration.npy`` as a memory map; nothing where there is none."""
    path = dataset / "calibration.npy"
    return {"samples": np.load(path, mmap_mode="r")} if path.is_file() else {}


def share_nothing(_dataset: Path) -> Mapping[str, np.ndarray]:
    return {}


def collate_nothing(_dataset: Path) -> None:
    """The samples are what the engine is given."""


def keep_answers(outputs: Outputs) -> Responses:
    """Keep the results of the samples' loops."""
    return outputs


def highest_class(outputs: Outputs) -> np.ndarray:
    """Scores [n, classes] -> int32 [n]."""
    classes: np.ndarray = outputs[0].argmax(axis=-1)
    return classes.astype(np.int32)


def _top1(dtype: str) -> Callable[[AnswerLog, Path, Path], Metrics]:
    def score(log: AnswerLog, dataset: Path, output: Path) -> Metrics:
        return write_top1(log, np.dtype(dtype), np.load(dataset / "labels.npy"), output)

    return score
