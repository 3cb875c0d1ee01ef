"""Render a complete, commented spec for the cells that a submission needs. Known values have their source; unknown ones
are marked to be filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from harness.catalog import BACKENDS
from reconciler.loadgen import keys
from reconciler.resource.canonical import show_decimal
from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.rules.ruleset import BenchmarkRules, Ruleset, normalise_category
from reconciler.spec.adapters import HarnessAdapter
from reconciler.spec.checks import can_compute
from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.edit import render_value
from reconciler.spec.families import Family, StartingValue, find_starting_value
from reconciler.spec.proposal import Proposal
from reconciler.spec.published import find_published_rate
from reconciler.spec.starter import MODELINE, render_description, render_hardware

FILL_IN = "# <- fill in"
EXAMPLE_SUBMITTER = "Example"


class Wanted(Struct, frozen=True):
    """``benchmarks``: with their official names. ``read``: known facts about the system's machine. ``adapter``: of the
    harness that runs them; ``code``: benchmark → folder of its code in a checkout, if known."""

    name: str
    ruleset: Ruleset
    submitter: str
    division: str
    category: str
    system: str
    benchmarks: Sequence[BenchmarkRules]
    family: Family | None
    read: Proposal
    adapter: HarnessAdapter | None = None
    code: Mapping[str, str] = {}

    @property
    def writes_calibration(self) -> bool:
        """Return True if the calibration document must be written by hand, because no record shows how a command treats
        the weights."""
        known = [find_benchmark_facts(rules.name) for rules in self.benchmarks]
        runs_here = self.adapter is None and all(facts is not None and facts.support.runs for facts in known)
        return self.division != "open" and not runs_here


def render_submission_spec(wanted: Wanted) -> str:
    """Render a valid spec."""
    return "\n".join(_render_lines(wanted)) + "\n"


def list_starting_values(wanted: Wanted) -> dict[str, StartingValue]:
    """Return benchmark and scenario → the value of the spec, if it has a source."""
    found = {
        f"{rules.name} {scenario}": _find_start(wanted, rules.name, scenario)
        for rules in wanted.benchmarks
        for scenario in list_required(wanted, rules)
        if not _find_refusal(wanted, rules.name, scenario)
    }
    return {cell: value for cell, value in found.items() if value is not None}


def list_required(wanted: Wanted, rules: BenchmarkRules) -> tuple[str, ...]:
    """List the required scenarios; if the round requires one of several, choose Server, or else the first."""
    table = rules.tables[normalise_category(wanted.category)]
    chosen = ("Server" if "Server" in group else group[0] for group in table.one_of)
    return (*table.required, *chosen)


def _find_refusal(wanted: Wanted, official: str, scenario: str) -> str:
    """Return why the adapter does not run a scenario; "" if it does."""
    return wanted.adapter.explain_refusal(official, scenario) if wanted.adapter is not None else ""


def _find_start(wanted: Wanted, official: str, scenario: str) -> StartingValue | None:
    if wanted.adapter is not None and official in wanted.code:
        found = find_published_rate(wanted.adapter, Path(wanted.code[official]), wanted.system, official, scenario)
        if found is not None:
            least = f"{show_decimal(Decimal(found.min_duration) / 1000)} s" if found.min_duration else ""
            rules = next(each for each in wanted.benchmarks if each.name == official)
            enough = Decimal(found.min_query_count or -1) >= int(rules.get_value(keys.MIN_QUERY_COUNT, scenario) or 0)
            fewest = found.min_query_count if enough else ""
            shown = (f"{found.name} {found.value}", found.also, found.counted if fewest else "")
            further = {keys.MIN_DURATION: least, keys.MIN_QUERY_COUNT: fewest}
            settings = tuple(f"{name}: {value}" for name, value in further.items() if value)
            return StartingValue("target_qps", found.value, "", found.where, "; ".join(filter(None, shown)), settings)
    if "maxq" in wanted.system.lower():
        return None  # the published results were measured at full power
    return find_starting_value(wanted.family, official, scenario) if wanted.family is not None else None


def _render_lines(wanted: Wanted) -> Iterator[str]:
    yield MODELINE
    yield f"# {wanted.division}, {wanted.category}, round {wanted.ruleset.round}. Lines marked '{FILL_IN}' are yours."
    yield "# `reconcile doctor` lists what is still missing, `reconcile explain spec.benchmarks` what is allowed where."
    yield from ("", "apiVersion: mlperf-reconciler/v1", "kind: Submission", "metadata:")
    yield f"  name: {render_value(wanted.name)}"
    yield from ("", "spec:", f"  round: {wanted.ruleset.round}")
    fill = f"   {FILL_IN}: your organisation's folder in the tree" if wanted.submitter == EXAMPLE_SUBMITTER else ""
    yield f"  submitter: {render_value(wanted.submitter)}{fill}"
    yield "  # rehearsal: true   # marks every record permanently; none can be submitted"
    if wanted.writes_calibration:
        yield "  documents: {calibration: documents/calibration.md}   # published; how the models were quantized"
    yield from ("", "  systems:", f"    {wanted.system}:")
    yield f"      category: {render_value(wanted.category)}"
    yield "      status: available   # available, preview, or rdi (research, development, internal)"
    yield "      hardware:   # on a machine that differs, cells are Blocked"
    for line in render_hardware(wanted.read):
        is_open = line.startswith("# accelerator:") and wanted.read.hardware.get("count")
        yield f"        {line}{f'   {FILL_IN}' if is_open else ''}"
    yield f"      description:   # the fields of systems/{wanted.system}.json"
    for line in render_description(wanted.read):
        is_open = line.replace('"', "").endswith(f": {NOT_DECLARED}")
        yield f"        {line}{f'   {FILL_IN}' if is_open else ''}"
    yield from ("", "  benchmarks:")
    for rules in wanted.benchmarks:
        yield from (f"    {line}" if line else "" for line in _render_benchmark(wanted, rules))
    yield from ("", "  divisions:", f"    {wanted.division}:", f"      {wanted.system}:")
    for rules in wanted.benchmarks:
        yield f"        {rules.name}:"
        yield from (f"          {line}" for line in _render_cells(wanted, rules))


def _render_benchmark(wanted: Wanted, rules: BenchmarkRules) -> Iterator[str]:
    yield f"{rules.name}:"
    if wanted.adapter is not None:
        folder = wanted.code.get(rules.name)
        code = f"{render_value(folder)}}}" if folder else f"/path/to/code}}   {FILL_IN}: its checkout"
        yield f"  harness: {{adapter: {wanted.adapter.name}, code: {code}"
        yield f"  dataset: {{path: /path/to/dataset}}   {FILL_IN}: what its scorer reads"
        yield from (f"  {line}" for line in _render_undeclared("path: /path/to/model, "))
        return
    facts, accelerator = find_benchmark_facts(rules.name), str(wanted.read.hardware.get("accelerator", ""))
    usable = _ON_CPU if not accelerator else _ON_NVIDIA if "NVIDIA" in accelerator else ("openai",)
    able = [n for n in usable if facts and facts.support.runs and can_compute(BACKENDS[n], facts)]
    if facts is None or not able:
        yield from (f"  {line}" for line in _render_command(rules.name))
        return
    backend = able[0]
    precision, why = BACKENDS[backend].precisions[0], ""
    if accelerator:
        precision, why = _choose_precision(wanted, rules, backend)
    batch = "" if BACKENDS[backend].generates else ", batch_size: 1"
    fill = f"   {FILL_IN}: batch_size" if batch else ""
    yield f"  # {facts.title}; data: {facts.dataset.size or 'see'} `reconcile fetch {next(iter(facts.names))}`"
    yield f"  engine: {{backend: {backend}, precision: {precision}{batch}}}{fill}{why}"
    if BACKENDS[backend].serves:
        yield "  # A server of your own, which the runs ask: `reconcile explain spec.benchmarks.harness.service`."
        yield "  # harness: {service: {command: [vllm, serve, MODEL, --port, '{port}', --no-enable-prefix-caching],"
        yield "  #   ready: {url: '{url}/health'}}}"


# Built-in backends, in the order of choice. A command must run a benchmark that none of them can compute.
_ON_CPU = ("onnxruntime", "pytorch", "diffusers", "openvino-genai", "openai")
_ON_NVIDIA = ("tensorrt", "pytorch-cuda", "diffusers", "openai")


def _choose_precision(wanted: Wanted, rules: BenchmarkRules, backend: str) -> tuple[str, str]:
    """Return (precision, a comment with its source)."""
    able = BACKENDS[backend].precisions
    for scenario in list_required(wanted, rules):
        start = _find_start(wanted, rules.name, scenario)
        if start is not None and start.weights in able:
            return start.weights, f"   # precision of {start.source}"
    return ("fp16" if "fp16" in able else able[0]), ""


def _render_undeclared(path: str = "") -> Iterator[str]:
    yield "measurements:"
    yield f"  input_data_types: {NOT_DECLARED}   {FILL_IN}, such as fp16"
    yield f"  weight_data_types: {NOT_DECLARED}   {FILL_IN}, such as fp8"
    yield f"  weight_transformations: {NOT_DECLARED}   {FILL_IN}, such as quantization"
    yield f'model: {{{path}starting_weights_filename: {NOT_DECLARED}, retraining: "No"}}   {FILL_IN}'


def _render_command(name: str) -> Iterator[str]:
    yield "# This project has no code for it: your own command runs and scores it."
    yield "harness:"
    yield f'  command: ["python", "run.py", "--user-conf", "{{user_conf}}", "--logs", "{{run_dir}}"]   {FILL_IN}'
    yield f'  score: {{command: ["python", "score.py", "{{accuracy_log}}"]}}   {FILL_IN}'
    yield f"  code: harness/{name}   {FILL_IN}: the folder of that code, which is published"
    yield from _render_undeclared()


def _render_cells(wanted: Wanted, rules: BenchmarkRules) -> Iterator[str]:
    table = rules.tables[normalise_category(wanted.category)]
    required = list_required(wanted, rules)
    for scenario in required:
        if reason := _find_refusal(wanted, rules.name, scenario):
            yield f"# {scenario}: {{}}   # required; needs its own harness.command: {reason}"
            continue
        start = _find_start(wanted, rules.name, scenario)
        if start is not None:
            values = ", ".join((f"{start.setting}: {start.value}", *start.further))
            yield f"{scenario}: {{{values}}}   # to begin with: {start.shown}, {start.source}"
        elif scenario in ("SingleStream", "MultiStream"):
            yield f"{scenario}: {{}}   # required; target_latency: … is the latency that you expect"
        else:
            yield f"{scenario}: {{}}   {FILL_IN}: {{target_qps: …}}, the rate that you expect"
    for scenario in (name for name in table.optional if name not in required):
        yield f"# {scenario}: {{target_qps: …}}   # optional"
