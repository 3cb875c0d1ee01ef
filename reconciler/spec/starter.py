"""The commented starter spec that ``reconcile init`` writes, filled in with known facts about the machine."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.edit import render_value
from reconciler.spec.proposal import DESCRIPTION_FIELDS, REQUIRED, Proposal
from reconciler.storage.packaged_files import SCHEMA

MODELINE = f"# yaml-language-server: $schema=../{SCHEMA}"  # for editors
NOTHING_READ = Proposal({}, {}, ())
# Starting values of fields that cannot be read from a machine.
_SAID = {
    "system_name": "this-machine",
    "system_type_detail": "N/A",
    "number_of_nodes": "1",
    "accelerators_per_node": "0",
    "framework": "ONNX Runtime",
}
_COMMENTS = {"accelerators_per_node": "   # in quotes: a checker reads a bare 0 as empty"}


def render_starter_spec(
    read: Proposal = NOTHING_READ, *, name: str = "my-submission", submitter: str = "Example"
) -> str:
    """Render a valid spec. ``read``: known facts about the machine."""
    return _TEXT.substitute(
        modeline=MODELINE,
        name=render_value(name),
        submitter=f"{render_value(submitter):<15}",
        hardware="\n".join(f"        {line}" for line in render_hardware(read)),
        description="\n".join(f"        {line}" for line in render_description(read)),
    )


def render_hardware(read: Proposal) -> Iterator[str]:
    """Yield the lines of a system's `hardware` group."""
    examples = {"accelerator": "NVIDIA H200", "cpu": "AMD EPYC 9654"}
    for field in ("cpu", "accelerator"):
        value = read.hardware.get(field)
        yield f"{field}: {render_value(value)}" if value else f"# {field}: {examples[field]}"
    yield f"count: {read.hardware['count']}" if read.hardware.get("count") else "# count: 8"
    for field in ("mig", "nodes"):
        if field in read.hardware:
            yield f"{field}: {render_value(read.hardware[field])}"


def render_description(read: Proposal) -> Iterator[str]:
    """Yield every required field of a submission, and all others that were read."""
    for field, meaning in DESCRIPTION_FIELDS.items():
        value = read.description.get(field)
        if value is None and field in REQUIRED:
            value = _SAID.get(field, "" if "may be empty" in meaning else NOT_DECLARED)
        if value is not None:
            yield f"{field}: {render_value(value)}{_COMMENTS.get(field, '')}"


_TEXT = Template("""\
$modeline
# A submission spec: it declares what you want to submit, and 'reconcile' makes it so.
#
#     reconcile validate      is the spec right?
#     reconcile plan          what would be done, and why
#     reconcile               do it; a second pass has nothing to do
#
# Several files of this form in one folder merge (one per system, say); setting a value twice is an error.

apiVersion: mlperf-reconciler/v1
kind: Submission
metadata:
  name: $name

spec:
  round: v6.1
  submitter: $submitter # your organisation's folder in the submission tree: letters, digits, . _ + -
  rehearsal: true            # marks every record permanently; remove it for the real submission

  # Named blocks of settings. A benchmark or a cell takes them with 'use: [name]'; settings next to 'use' win.
  defaults:
    short:
      min_duration: 0        # durations carry a unit: 600 s, 10 min, 15 ms; only 0 needs none

  systems:
    this-machine:
      category: edge         # datacenter, edge, or "datacenter,edge"
      status: available      # available, preview, or rdi (research, development, internal)
      hardware:              # on a machine that differs from what is declared here, cells are Blocked
$hardware
        # nodes: 1
        # power_limit: 300 W
      description:           # the fields of systems/this-machine.json; complete them before you submit
$description

  benchmarks:
    # Built in: real handwritten digits and a small net that is trained in seconds. Good for a first pass.
    digits:
      as: resnet             # the official benchmark it is entered as
      use: [short]
      model:
        retraining: "Yes"
        starting_weights_filename: none (trained from a fixed seed)
        weight_transformations: none
      engine: {backend: onnxruntime, precision: fp32, batch_size: 1}
      measurements: {input_data_types: fp32, weight_data_types: fp32}

    # The MLPerf benchmarks are built in, too: 'reconcile benchmarks' lists them with the data that they need.
    # resnet50: {dataset: {path: …}, model: {path: …}}

    # Your own: one Python file, and a model and data that stay where they are. Environment variables expand in these
    # locations only; a location is not part of what makes a result stale, its sha256 is.
    # resnet:
    #   code: benchmarks/resnet.py
    #   model:
    #     path: $${MLPERF_SCRATCH_PATH}/models/resnet50_v1.onnx
    #     sha256: 64 characters, as 'sha256sum FILE' prints them
    #     retraining: "No"
    #     starting_weights_filename: resnet50_v1.onnx
    #     weight_transformations: none
    #   dataset: {path: "$${MLPERF_SCRATCH_PATH}/data/imagenet"}
    #   engine: {backend: openvino, precision: fp32, batch_size: 16, options: {performance_hint: throughput}}
    #   run: {streams: 2}
    #   measurements: {input_data_types: fp32, weight_data_types: fp32}

  divisions:
    open:                    # closed, open or network
      this-machine:
        digits:
          SingleStream: {min_query_count: 2_000}
          MultiStream: {min_query_count: 1_000, engine: {batch_size: 8}}
          Server: {target_qps: 200, target_latency: 2 s, min_query_count: 2_000}
          Offline: {target_qps: 10_000, min_query_count: 50_000, engine: {batch_size: 32}}
        # resnet:
        #   SingleStream:    # empty: the benchmark's settings and the round's
        #   Offline: {target_qps: 100, attempts: 3, publish: best}
""")
