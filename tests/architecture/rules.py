"""Rules of imports that import-linter has no words for: what stages share, what is imported late, or by name.

Which place imports which, and where libraries may be imported, is in pyproject.toml. A place is a folder or module at
the top of ``reconciler/``. Modules are written without ``reconciler.`` where only that package is meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from tests.architecture.source import ROOT, Import, Module


def read_contract(name: str, part: str) -> list[str]:
    """A list that a contract of pyproject.toml holds."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(list(contract[part]) for contract in contracts if contract["name"].startswith(name))


# The row of stages, from the last to the first: each knows the types of the stages behind it in this list.
STAGES = next(
    paths for row in read_contract("Imports point down", "layers") if "plan" in (paths := re.split(r" [:|] ", row))
)

# Modules that hold only the values which stages hand to each other.
TYPES = frozenset(
    {
        "spec.declared",
        "desired.detail",
        "desired.state",
        "observed.state",
        "diff.change",
        "diff.claims",
        "diff.impact",
        "diff.timeline",
        "plan.plan",
        "execute.outcome",
        "tree.content",
        "tree.findings",
    }
)

# Places that show or decide on values: of the stages they know the types, never what makes them.
ONLY_TYPES_OF_STAGES = frozenset({"render"})

# What is imported inside functions, so that `--help`, and `plan` on a warm cache, stay fast. Type checkers see these
# imports like any other.
SLOW: dict[str, str] = {
    "concurrent.futures": "threads, only where large files are hashed",
    "difflib": "only where a command is not known",
    "fsspec": "comes with an extra, only where a store elsewhere is opened",
    "html": "entities, only where a page is written",
    "vl_convert": "comes with an extra, only where a plot is drawn",
    "msgspec": "a codec, not where --help or an error is all that is shown",
    "nibabel": "only where volumes are prepared: a run reads prepared ones",
    "harness.verbs.served_model": "HTTP and TLS, only where an endpoint is asked for its models",
    "reconciler.cli.shared.completion": "only where a shell completes words",
    "reconciler.cli.shared.crash_report": "only where there is a bug to report",
    "reconciler.cli.shared.run_pass": "all of a pass, only where an audit measures again",
    "reconciler.desired.checks": "rules, only when the spec changed",
    "reconciler.desired.compile": "rules, only when the spec changed",
    "reconciler.desired.detail": "classes of rules, only where a step is due",
    "reconciler.desired.requirements": "rules, only when the spec changed",
    "reconciler.diff.conditions": "only where cells are listed",
    "reconciler.storage.event_log": "logging, only with --verbose",
    "reconciler.execute.executors.ray.dashboard": "HTTP, only where jobs of Ray are asked for",
    "reconciler.execute.executors.slurm.submission": "submitit, of an extra, only where a job is submitted",
    "reconciler.storage.git": "GitPython",
    "reconciler.storage.git_index": "GitPython",
    "reconciler.history.audit": "rules of logs and verdicts, only where a pull request brings results",
    "reconciler.history.runs": "readers of logs, only where a pull request brings results",
    "reconciler.history.dates": "readers of logs, only where a pull request brings results",
    "reconciler.history.records": "archives of code, only where a pull request brings results",
    "reconciler.history.rendered": "the renderer, only where a pull request touches a tree",
    "reconciler.history.rerun": "all of a pass, only where an audit measures again",
    "reconciler.storage.leftovers": "only where a cache is written",
    "reconciler.rules.benchmark_files": "YAML of every benchmark, only where data are missing",
    "reconciler.rules.compliance.judging": "every compliance test, only where a verdict is due",
    "reconciler.loadgen.settings": "LoadGen's tables, only where a run is due",
    "reconciler.loadgen.log_files": "values of rules, only where a verdict is due",
    "reconciler.rules.rounds": "YAML, only when the spec changed",
    "reconciler.plan.saved": "only where a plan is saved or given as JSON",
    "reconciler.publish.rendered_tree": "the renderer, only in a pass that acts",
    "reconciler.record.signing": "git's configuration, only where records are signed",
    "reconciler.render.live": "rich",
    "reconciler.render.documents": "only where a command gives JSON",
    "reconciler.render.findings_page": "Jinja, only with --html",
    "reconciler.loadgen.duration": "LoadGen's formulas, only where a run is due",
    "reconciler.spec.cell_edit": "YAML and pydantic, only for a trial",
    "reconciler.spec.loading": "YAML and pydantic, only when the spec changed",
    "shutil": "compression, only where files are copied or folders removed",
    "starlette": "comes with an extra, only where the page is served",
    "tempfile": "random numbers, only where files are written",
    "uvicorn": "comes with an extra, only where the page is served",
    "webbrowser": "only with --open",
    "soundfile": "only where waveforms are prepared: a run reads prepared ones",
    "scipy": "only where volumes are prepared: a run reads prepared ones",
    "reconciler.spec.quantities": "only where a duration is given",
}

# Modules that import something else inside a function, and why. Everywhere else imports stand at the top.
LATE: dict[str, str] = {
    "reconciler.record.judgements": "readers of logs, only where a record was not judged yet",
    "harness.__main__": "one verb per process: a build loads no LoadGen",
    "harness.backends": "only the library of the backend that was asked for",
    "harness.backends.diffusers.stable_diffusion_xl": "Triton, only where a GPU computes",
    "harness.backends.pytorch.fused_operators": "Triton, only where a GPU computes",
    "harness.backends.pytorch.packed_operators": "Triton, only where a GPU computes",
    "harness.benchmarks.bert": "onnx and PyTorch, only in the child that writes the model as a program",
    "harness.backends.openai.client": "tokenizers, only for a server that takes text",
    "harness.backends.triton": "gRPC, only where batches travel over it",
    "harness.backends.tensorrt.versions": "one of the names under which TensorRT is installed",
    "harness.verbs.build": "onnx and onnxruntime, or PyTorch, only for a model that is quantized",
    "harness.cuda.nvml": "NVML, where it is installed",
    "harness.benchmarks": "only the benchmark that was asked for, and PyTorch only where its program is rewritten",
    "harness.benchmarks.digits": "onnx, only in the child that makes the model",
    "harness.benchmarks.dlrm": "PyTorch, only in the child that reads its checkpoint",
    "harness.benchmarks.dlrm_v2": "PyTorch, only in the child that lowers the model",
    "harness.benchmarks.dlrm_v2.checkpoint": "onnx or PyTorch, only in the child that writes a checkpoint as a model",
    "harness.benchmarks.dlrm_v3": "PyTorch, only in the child that writes a checkpoint as a program",
    "harness.benchmarks.language.published": "OpenVINO, only where a rehearsal is generated",
    "harness.benchmarks.language.paragraphs": "the text, only where the dataset is made",
    "harness.benchmarks.language.rehearsing": "NLTK, only where it learns where sentences end",
    "harness.benchmarks.language.prompt_sets": "NLTK, only where sentences are split",
    "harness.benchmarks.language.scoring": "ROUGE, which loads NLTK, only where it scores",
    "harness.benchmarks.language.tables": "pyarrow, only where Parquet is read",
    "harness.benchmarks.qwen3_vl": "Pillow and pyarrow, only where the dataset is prepared",
    "harness.benchmarks.pointpainting": "onnx or PyTorch, only in the child that writes the model",
    "harness.benchmarks.rgat.igbh": "PyTorch, only where the list of papers is read that it saved",
    "harness.benchmarks.retinanet": "onnxruntime, only where a rehearsal is generated",
    "harness.benchmarks.rgat": "PyTorch, only in the child that writes a checkpoint as a program",
    "harness.benchmarks.rnnt": "onnx and PyTorch, only in the child that writes a checkpoint as a model",
    "harness.benchmarks.rnnt.network": "PyTorch, only for a checkpoint; a rehearsal has none",
    "harness.benchmarks.ssd_resnet34": "onnxruntime, only where a rehearsal is generated",
    "harness.benchmarks.stable_diffusion_xl": "PyTorch, only for latents that it saved itself",
    "harness.benchmarks.wan_2_2.prompts": "PyTorch, only for the latent that it saved itself",
    "harness.run.llama_server": "llama.cpp, only where the server starts",
    "harness.benchmarks.wan_2_2": "ffmpeg, only where a video is written or read",
    "harness.machine.facts": "NVML, where it is installed",
    "harness.parts": "a part that may be removed, of which PARTS gives the name",
    "harness.verbs.probe": "LoadGen, only when its seeds are asked for",
    "reconciler.cli.command_table": "only the command that was called: --help stays fast",
    "reconciler.endpoints.program": "each part of the program only where it is asked for",
    "reconciler.resource.parts": "a part that may be removed, of which PARTS gives the name",
    "reconciler.rules.programs": "a program, only where something belongs to it",
    "reconciler.execute.executors.table": "a queue, of which QUEUES gives the name",
    "reconciler.reconcile.planning": "archives of code, only where the code of a command changed",
}

# Modules that import by name. No checker sees what they import: it is in a table of theirs, or heavy and may be absent.
BY_NAME = frozenset(
    {
        "harness.__main__",
        "harness.backends",
        "harness.backends.tensorrt.versions",
        "harness.benchmarks",
        "harness.cuda.nvml",
        "harness.machine.facts",
        "harness.parts",
        "reconciler.cli.command_table",
        "reconciler.execute.executors.table",
        "reconciler.resource.parts",
        "reconciler.rules.programs",
    }
)


def sideways(item: Import) -> str | None:
    """Which rule of the stages an import breaks; None when it breaks none."""
    importer, target = _inner(item.importer.name), _inner(item.target)
    upper, lower = importer.split(".")[0], target.split(".")[0]
    if upper == lower or lower not in STAGES or not within(item.target, "reconciler"):
        return None
    if upper in ONLY_TYPES_OF_STAGES and target not in TYPES:
        return f"{upper} knows only the types of the stages, {sorted(TYPES)}"
    if upper not in STAGES:
        return None
    if target not in TYPES:
        return f"{upper} and {lower} are side by side: only types may be imported, {sorted(TYPES)}"
    if STAGES.index(lower) < STAGES.index(upper):
        return f"{lower} comes after {upper}: not even its types"
    return None


def late(item: Import) -> str | None:
    if item.late and item.importer.name not in LATE and not any(within(item.target, slow) for slow in SLOW):
        return "an import inside a function, and neither is this slow to load (SLOW) nor the module a named door (LATE)"
    return None


def by_name(item: Import) -> str | None:
    if item.by_name and item.importer.name not in BY_NAME:
        return "an import by name, which no checker sees, and this module is not in the table (BY_NAME)"
    return None


def broken(items: Iterable[Import]) -> Iterator[str]:
    """One line for each broken rule: file:line, what imports what, the rule."""
    for item in items:
        for rule in (sideways, late, by_name):
            if problem := rule(item):
                yield f"{item.where}: {item.importer.name} imports {item.target or 'a computed module'}: {problem}"


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def _inner(name: str) -> str:
    return name.removeprefix("reconciler.")


def module(name: str, text: str) -> Module:
    """A module from its text, for testing the rules themselves."""
    return Module(name, name.replace(".", "/") + ".py", text)
