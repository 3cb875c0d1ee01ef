"""Engines for packed samples (harness.run.packing). The batches of their programs have a number of tokens and a number
of samples.

An engine is the program with its weights. Loading adapts it to the device. Operators are fused, and on GPUs several
sizes are captured as CUDA graphs; a batch uses the next larger size.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Outputs
from harness.backends.pytorch.packages import describe_tensor, list_inputs, save_program
from harness.backends.pytorch.packed_lowering import holds_fp8, lower_program, open_program
from harness.backends.streams import StreamSession
from harness.catalog import CudaRunOptions, PytorchRunOptions
from harness.errors import HarnessError
from harness.run.packing import BOUNDS, PackedSamples, make_memory
from harness.run.qsl import Arrays, Rows

FILE = "packed.pt2"
_STEPS, _LEAST = 32, 256  # number of captured sizes, and tokens of the smallest
_SHORT = 64  # average tokens of a sample, which determines the number of samples in a size


def build_packed(name: str, device: str, plan: BuildPlan, program: torch.export.ExportedProgram) -> BackendEngine:
    """Build the engine. Raises HarnessError if the program is not in the requested precision, or cannot be computed."""
    lowered = open_program(program)
    if (plan.precision == "fp8") != holds_fp8(lowered):
        problem = f"engine.precision is {plan.precision}, and the model is {'' if holds_fp8(lowered) else 'not '}in fp8"
        raise HarnessError(problem, "input", "set model.settings.precision and engine.precision to fp8, or neither")
    inputs = [describe_tensor(key, (), value.dtype) for key, value in list_inputs(program).items()]

    def compute() -> list[torch.Tensor]:
        lower_program(lowered, plan.precision, device)
        given = make_memory({tensor.name: tensor.dtype for tensor in inputs}, 2, 32)
        given[BOUNDS][1:] = (16, 32)
        return _compute(lowered, [torch.from_numpy(given[tensor.name]).to(device) for tensor in inputs])

    return save_program(name, plan, program, FILE, inputs, compute, packed=True)


def _compute(module: torch.fx.GraphModule, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        answers = module(*given)
    return list(answers) if isinstance(answers, tuple | list) else [answers]


class PackedProgram:
    """The program of an engine on one device."""

    def __init__(self, engine: BackendEngine, folder: Path, device: str) -> None:
        self.engine, self.device = engine, device
        self._module = lower_program(open_program(torch.export.load(folder / FILE)), engine.precision, device)

    def compute(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return _compute(self._module, given)


class PackedSession(StreamSession):
    """``workers``: threads that pack, and wait for outputs."""

    fits_by_size = True

    def __init__(self, plan: LoadPlan, engine: BackendEngine, *, workers: int = 0) -> None:
        if plan.packing is None:
            problem = "the engine takes packed samples, but the benchmark defines no packing"
            fix = "declare PACKING in the benchmark's file, or use a model for padded samples"
            raise HarnessError(problem, "input", fix)
        super().__init__(plan, engine, workers=workers)
        self._packing = plan.packing
        longest = self._packing.longest
        self.tokens = PytorchRunOptions(plan.options).tokens or self.batch_size * longest
        if self.tokens < longest:
            problem = f"run.options.tokens {self.tokens} is less than the longest sample"
            raise HarnessError(problem, "input", f"set it to {longest} or more")
        self._memory_of = {tensor.name: tensor.dtype for tensor in engine.inputs}
        self._samples: PackedSamples | None = None
        self.notes: Mapping[str, Any] = {**self.notes, "tokens": self.tokens}

    def place(self, samples: Arrays) -> None:
        self._samples = PackedSamples(self._packing, samples)

    def fit(self, rows: Rows) -> int:
        return self._placed.fit(rows, self.tokens)

    @property
    def _placed(self) -> PackedSamples:
        if self._samples is None:
            raise RuntimeError("no samples are resident")
        return self._samples

    def _run(self, stream: int, rows: Rows) -> Outputs:
        """Compute in as many batches as needed: a warm-up passes more samples than fit in one."""
        samples = self._placed
        found = [
            samples.unpack(part, self._compute_packed(stream, part))
            for part in samples.split(rows, self.batch_size, self.tokens)
        ]
        return found[0] if len(found) == 1 else [np.concatenate(parts) for parts in zip(*found, strict=True)]

    @abstractmethod
    def _compute_packed(self, stream: int, rows: Rows) -> Outputs:
        """Compute one batch; its outputs [tokens or more, ...] are valid until the stream's next batch."""


class PackedCpuSession(PackedSession):
    def __init__(self, plan: LoadPlan, engine: BackendEngine, folder: Path) -> None:
        super().__init__(plan, engine)
        self._program = PackedProgram(engine, folder, "cpu")
        self._memory = [make_memory(self._memory_of, self.batch_size, self.tokens) for _ in range(self._workers)]
        self._begin(0)  # for compute() on this thread

    def _begin(self, stream: int) -> None:
        torch.set_num_threads(self._places[stream].threads)

    def _compute_packed(self, stream: int, rows: Rows) -> Outputs:
        memory = self._memory[stream]
        count, tokens = self._placed.pack(rows, memory)
        given = [torch.from_numpy(memory[name][: count + 1 if name == BOUNDS else tokens]) for name in self._memory_of]
        return [answer.numpy() for answer in self._program.compute(given)]


class GraphSize(NamedTuple):
    """Maximum numbers of tokens and samples in a graph's batch."""

    tokens: int
    samples: int


def choose_sizes(tokens: int, samples: int) -> list[GraphSize]:
    """Choose sizes, ascending; the last has room for everything."""
    step = max(_LEAST, -(-tokens // _STEPS // 128) * 128)
    extents = {_LEAST, 2 * _LEAST, 4 * _LEAST, *range(step, tokens, step)}
    found = [GraphSize(extent, min(samples, extent // _SHORT)) for extent in sorted(extents) if extent < tokens]
    return [*found, GraphSize(tokens, samples)]


class CapturedProgram:
    """A program on one GPU, captured as graphs; it computes one batch at a time."""

    def __init__(self, program: PackedProgram, tokens: int, samples: int) -> None:
        self.sizes = choose_sizes(tokens, samples)
        self._program, self.lock = program, threading.Lock()
        self.stream = torch.cuda.Stream(program.device)
        memory = make_memory({item.name: item.dtype for item in program.engine.inputs}, samples, tokens)
        self.inputs = {name: torch.from_numpy(array).to(program.device) for name, array in memory.items()}
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.outputs: list[list[torch.Tensor]] = []
        pool = torch.cuda.graph_pool_handle()
        torch.cuda.synchronize(program.device)
        for size in reversed(self.sizes):  # the largest first, since the others fit in its memory
            self._capture(size, pool)
        self.graphs.reverse()
        self.outputs.reverse()
        torch.cuda.synchronize(program.device)

    def _capture(self, size: GraphSize, pool: Any) -> None:
        given = [whole[: size.samples + 1 if name == BOUNDS else size.tokens] for name, whole in self.inputs.items()]
        with torch.cuda.stream(self.stream):
            self._program.compute(given)  # selects and compiles kernels
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=self.stream):
            answers = self._program.compute(given)
        self.graphs.append(graph)
        self.outputs.append(answers)

    def find(self, tokens: int, samples: int) -> int:
        """Return the number of the smallest size that fits."""
        first = bisect_left(self.sizes, tokens, key=lambda size: size.tokens)
        return next(number for number in range(first, len(self.sizes)) if self.sizes[number].samples >= samples)


class PackedLane:
    """Pinned and device memory for one batch."""

    def __init__(self, program: CapturedProgram) -> None:
        device = program.stream.device
        self.program, self.copies = program, torch.cuda.Stream(device)
        self._pinned = {
            name: torch.zeros_like(whole, device="cpu").pin_memory() for name, whole in program.inputs.items()
        }
        self.memory = {name: whole.numpy() for name, whole in self._pinned.items()}
        self._near = {name: torch.zeros_like(whole) for name, whole in program.inputs.items()}
        largest = program.outputs[-1]
        self._answers = [torch.empty_like(answer) for answer in largest]
        self._back = [torch.empty(answer.shape, dtype=answer.dtype).pin_memory() for answer in largest]
        self._there, self._computed, self._done = (torch.cuda.Event(blocking=True) for _ in range(3))
        torch.cuda.synchronize(device)

    def run(self, samples: int, tokens: int) -> Outputs:
        """Run the batch packed into ``memory``."""
        program = self.program
        number = program.find(tokens, samples)
        with torch.cuda.stream(self.copies):  # and on its device
            for name, pinned in self._pinned.items():
                extent = len(pinned) if name == BOUNDS else tokens
                self._near[name][:extent].copy_(pinned[:extent], non_blocking=True)
            self._there.record()
        with program.lock, torch.cuda.stream(program.stream):
            self._there.wait()
            for name, near in self._near.items():
                extent = len(near) if name == BOUNDS else tokens
                program.inputs[name][:extent].copy_(near[:extent])
            program.graphs[number].replay()
            for answer, made in zip(self._answers, program.outputs[number], strict=True):
                answer[:tokens].copy_(made[:tokens])
            self._computed.record()
        with torch.cuda.stream(self.copies):
            self._computed.wait()
            for pinned, answer in zip(self._back, self._answers, strict=True):
                pinned[:tokens].copy_(answer[:tokens], non_blocking=True)
            self._done.record()
        self._done.synchronize()
        return [pinned[:tokens].numpy() for pinned in self._back]


class PackedCudaSession(PackedSession):
    """Has a thread for each lane of each device; a program computes one batch at a time, while others are packed,
    copied and answered."""

    def __init__(self, plan: LoadPlan, engine: BackendEngine, folder: Path, devices: Sequence[int]) -> None:
        lanes = CudaRunOptions(plan.options).lanes
        super().__init__(plan, engine, workers=len(devices) * plan.streams * lanes)
        self._lanes: list[PackedLane] = []
        sizes = 0
        for device in devices:
            with torch.cuda.device(device):
                program = PackedProgram(engine, folder, f"cuda:{device}")
                captured = CapturedProgram(program, self.tokens, self.batch_size)
                self._lanes += [PackedLane(captured) for _ in range(self._workers // len(devices))]
                sizes = len(captured.sizes)
        self.notes = {**self.notes, "cuda_graphs": sizes, "lanes": lanes}

    def _compute_packed(self, stream: int, rows: Rows) -> Outputs:
        lane = self._lanes[stream]
        return lane.run(*self._placed.pack(rows, lane.memory))
