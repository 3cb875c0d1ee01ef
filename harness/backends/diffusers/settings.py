"""How a pipeline is run: what the benchmark says, and over it what the spec says."""

from __future__ import annotations

from dataclasses import dataclass

from harness.backends import LoadPlan
from harness.catalog import DiffusersEngineOptions, DiffusersRunOptions
from harness.errors import HarnessError

NOT_COMPILED = "none"  # of the run option compile, else a mode of torch.compile


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """``steps``: in which noise is taken away; ``guidance``: how far from the words that are drawn against.
    ``channels_last``: how convolutions lay out memory. Of a pipeline with two networks that take turns, ``boundary`` is
    the share of all noise down to which the first one computes, and ``guidance_2`` is that of the second one."""

    steps: int
    guidance: float
    compiled: str
    channels_last: bool
    guidance_2: float | None = None
    boundary: float | None = None

    @property
    def compile_mode(self) -> str | None:
        return None if self.compiled == "default" else self.compiled


def read_settings(plan: LoadPlan) -> ImageSettings:
    """Raises HarnessError where the benchmark is not one for pipelines."""
    if "steps" not in plan.pipeline:
        raise HarnessError(
            "the benchmark says nothing of a pipeline", "input", "choose another backend, or set PIPELINE in its file"
        )
    run = DiffusersRunOptions(plan.options)
    guidance_2, boundary = plan.pipeline.get("guidance_2"), plan.pipeline.get("boundary")
    return ImageSettings(
        DiffusersEngineOptions(plan.options).steps or int(plan.pipeline["steps"]),
        float(plan.pipeline["guidance"]),
        run.compile,
        run.channels_last,
        None if guidance_2 is None else float(guidance_2),
        None if boundary is None else float(boundary),
    )
