"""Optimisation profiles: the shapes for which an engine is built, and the profile that a batch uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.backends import FREE_BATCH
from harness.catalog import TensorrtEngineOptions
from harness.errors import HarnessError

FREE = -1


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile tuned for its maximum shape: ``batch`` samples with ``length`` along each free axis (0: no free
    axis)."""

    batch: int
    length: int = 0

    def shapes(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the smallest, best and largest shape of an input; FREE marks varying axes."""
        least = tuple(1 if size == FREE else size for size in shape)
        most = tuple(self._most(axis, size) for axis, size in enumerate(shape))
        return least, most, most

    def _most(self, axis: int, size: int) -> int:
        return size if size != FREE else self.batch if axis == 0 else self.length

    def holds(self, batch: int, shape: Sequence[int], sample: Sequence[int]) -> bool:
        """Return True if ``batch`` samples of this shape fit an input."""
        most = self.shapes(shape)[2]
        free = zip(shape[1:], most[1:], sample, strict=True)
        return batch <= most[0] and all(have <= limit if size == FREE else have == limit for size, limit, have in free)


def plan_profiles(
    inputs: Mapping[str, Sequence[int]], batch_size: int, options: TensorrtEngineOptions
) -> tuple[Profile, ...]:
    """Plan the profiles. ``inputs``: name -> shape with its batch axis. Raises HarnessError if the model and the
    options contradict each other."""
    fixed = {name: shape[0] for name, shape in inputs.items() if shape and shape[0] not in (FREE, batch_size)}
    if fixed:
        name, size = next(iter(fixed.items()))
        raise HarnessError(f"input {name} has a fixed batch of {size}, not {batch_size}", "input", FREE_BATCH)
    batches = parse_numbers("profiles", options.profiles) or [batch_size]
    if batches[-1] != batch_size:
        raise HarnessError(
            f"the last of profiles {options.profiles} is not batch_size {batch_size}", "input", "make them equal"
        )
    if len(batches) > 1 and not any(FREE in shape[:1] for shape in inputs.values()):
        problem = f"profiles {options.profiles}: the model has a fixed batch"
        raise HarnessError(problem, "input", "export it with a dynamic batch axis, or remove engine.options.profiles")
    lengths = parse_numbers("sequence_lengths", options.sequence_lengths)
    varying = [name for name, shape in inputs.items() if FREE in shape[1:]]
    if varying and not lengths:
        problem = f"input {varying[0]} has a dynamic axis besides the batch: {list(inputs[varying[0]])}"
        raise HarnessError(problem, "input", "set engine.options.sequence_lengths, such as 384 or 128,384")
    return tuple(Profile(batch, length) for length in (lengths if varying else [0]) for batch in batches)


def parse_numbers(name: str, text: str) -> list[int]:
    """Parse a list such as "1,16,256", ascending."""
    text = text.replace(" ", "")
    try:
        found = [int(part) for part in text.split(",") if part]
    except ValueError:
        found = [0]
    if found != sorted(set(found)) or (found and found[0] < 1):
        raise HarnessError(f"{name} {text!r} is not an ascending list of counts", "input", "use the form 128,384")
    return found


def find_profile(
    profiles: Sequence[Profile], batch: int, shapes: Iterable[Sequence[int]], samples: Iterable[Sequence[int]]
) -> int:
    """Return the number of the tightest profile for a batch of samples of these shapes; -1 if none fits."""
    pairs = list(zip(shapes, samples, strict=True))
    holding = [
        (profile.length, profile.batch, number)
        for number, profile in enumerate(profiles)
        if all(profile.holds(batch, shape, sample) for shape, sample in pairs)
    ]
    return min(holding)[2] if holding else -1
