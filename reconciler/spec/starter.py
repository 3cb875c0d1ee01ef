"""The commented starter spec that ``reconcile init`` writes, filled with what is known of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from reconciler.spec.edit import rendered


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the starter says of a machine; text as it shall stand in the system description.

    ``cores`` per CPU socket; ``memory`` such as "64 GiB"; ``accelerator`` "" for none. The defaults are honest for a
    machine of which nothing is known.
    """

    cpu: str = "unknown CPU"
    sockets: int = 1
    cores: int = 1
    memory: str = "unknown"
    operating_system: str = "Linux"
    accelerator: str = ""
    accelerators: int = 0


def starter_spec(facts: MachineFacts, *, name: str = "my-submission", schema: str = "") -> str:
    """A spec that loads as it is. ``schema``: path or address of the JSON Schema, for editors; "" leaves it out."""
    modeline = f"# yaml-language-server: $schema={schema}\n" if schema else ""
    accelerated = bool(facts.accelerator)
    return modeline + _TEXT.substitute(
        name=rendered(name),
        cpu=rendered(facts.cpu),
        sockets=facts.sockets,
        cores=facts.cores,
        memory=rendered(facts.memory),
        operating_system=rendered(facts.operating_system),
        accelerator_line=f"accelerator: {rendered(facts.accelerator)}" if accelerated else "# accelerator: NVIDIA H200",
        accelerators=facts.accelerators,
        accelerator=rendered(facts.accelerator or "N/A"),
        unknown=rendered("not declared" if accelerated else "N/A"),
    )


_TEXT = Template("""\
# A submission spec: it declares what you want to submit, and 'reconcile' makes it so.
#
#     reconcile validate      is the spec right?
#     reconcile plan          what would be done, and why
#     reconcile               do it; a second time there is nothing left to do
#
# Several files of this form in one folder merge (one per system, say); setting a value twice is an error.

apiVersion: mlperf-reconciler/v1
kind: Submission
metadata:
  name: $name

spec:
  round: v6.1
  submitter: Example         # your organisation's folder in the submission tree: letters, digits, . _ + -
  rehearsal: true            # marks every record for ever; take it out for the real submission

  # Named blocks of settings. A benchmark or a cell takes them with 'use: [name]'; settings beside 'use' win.
  defaults:
    short:
      min_duration: 0        # durations carry a unit: 600 s, 10 min, 15 ms; only 0 stands alone

  systems:
    this-machine:
      category: edge         # datacenter, edge, or "datacenter,edge"
      status: available      # available, preview, or rdi (research, development, internal)
      hardware:              # on a machine that differs from what is declared here, cells are Blocked
        cpu: $cpu
        $accelerator_line
        count: $accelerators
        # nodes: 1
        # power_limit: 300 W
      description:           # the fields of systems/this-machine.json; complete them before you submit
        system_name: this-machine
        system_type_detail: N/A
        number_of_nodes: 1
        host_processor_model_name: $cpu
        host_processors_per_node: $sockets
        host_processor_core_count: $cores
        host_processor_frequency: ""
        host_processor_caches: ""
        host_processor_interconnect: ""
        host_memory_capacity: $memory
        host_memory_configuration: not declared
        host_storage_capacity: not declared
        host_storage_type: not declared
        host_networking: N/A
        host_networking_topology: N/A
        host_network_card_count: N/A
        accelerators_per_node: "$accelerators"   # in quotes: a checker takes a bare 0 for an empty field
        accelerator_model_name: $accelerator
        accelerator_memory_capacity: $unknown
        accelerator_memory_configuration: $unknown
        accelerator_host_interconnect: $unknown
        accelerator_interconnect: $unknown
        accelerator_interconnect_topology: ""
        accelerator_frequency: ""
        accelerator_on-chip_memories: ""
        cooling: not declared
        framework: ONNX Runtime
        operating_system: $operating_system
        other_software_stack: Python
        hw_notes: ""
        sw_notes: ""

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
          Server: {target_qps: 200, target_latency: 100 ms, min_query_count: 2_000}
          Offline: {target_qps: 10_000, min_query_count: 50_000, engine: {batch_size: 32}}
        # resnet:
        #   SingleStream:    # empty: the benchmark's settings and the round's
        #   Offline: {target_qps: 100, attempts: 3, publish: best}
""")
