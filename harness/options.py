"""Settings that backends read, of an engine or of a run: those that several have in common, and the longer tables.

Standard library only.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Option(NamedTuple):
    """A setting that a backend reads. ``kind`` is "int", "text", "flag" or "choice"; None means the default.
    ``identity`` False: it says where something is, or how long to wait for it, and makes no run stale."""

    kind: Literal["int", "text", "flag", "choice"]
    default: int | str | bool | None
    help: str
    choices: tuple[str, ...] = ()
    identity: bool = True


COMMON_RUN = {
    "threads": Option("int", 0, "threads that compute one batch; 0 lets the backend decide"),
    "streams": Option("int", 1, "batches in flight at once"),
}

CUDA_RUN = {
    "streams": COMMON_RUN["streams"],
    "lanes": Option("int", 2, "batches in flight on each stream: while one computes, the next is copied"),
    "devices": Option("int", 1, "GPUs that take part; hardware.count of the system unless it is set here"),
    "cuda_graphs": Option("flag", True, "launch a batch as one captured graph, where the backend allows it"),
    "spin": Option("flag", False, "completion threads use a processor while they wait, and wake sooner"),
    "start_from_device": Option("flag", False, "samples live in GPU memory before the clock starts; needs evidence"),
    "start_from_device_evidence": Option(
        "text", "", "the document that shows how samples reach GPU memory, and at what rate"
    ),
}

ONNXRUNTIME_ENGINE = {
    "graph_optimization": Option(
        "choice",
        "all",
        "level of graph rewriting before the engine is saved",
        ("none", "basic", "extended", "all"),
    )
}

OPENVINO_ENGINE = {
    "performance_hint": Option("choice", "throughput", "what the plug-in tunes for", ("throughput", "latency")),
    "shape": Option(
        "choice",
        "bounded",
        "bounded: compute any batch up to batch_size; fixed: pad partial batches",
        ("bounded", "fixed"),
    ),
}

TENSORRT_ENGINE = {
    "optimization_level": Option("int", 3, "how long the builder searches, 0 to 5"),
    "workspace_mib": Option("int", 0, "most GPU memory of one layer's kernel, in MiB; 0 for all there is"),
    "profiles": Option("text", "", "batch sizes to tune for, such as 1,16,256; the last is batch_size"),
    "sequence_lengths": Option("text", "", "lengths of further free axes to tune for, such as 128,384"),
    "half_inputs": Option("flag", False, "float inputs are fp16; the dataset's arrays must be so too"),
    "tf32": Option("flag", False, "fp32 layers may compute in TF32"),
    "sparse_weights": Option("flag", False, "use kernels for weights that are structured sparse"),
    "version_compatible": Option("flag", False, "later versions of the same major version may run the engine"),
    "hardware_compatibility": Option(
        "choice", "none", "devices that may run the engine", ("none", "ampere_plus", "same_compute_capability")
    ),
    "plugins": Option("text", "", "plug-in libraries to load, absolute paths with colons between them"),
}

PYTORCH_ENGINE = {
    "batch_sizes": Option(
        "text", "", "compile one program for each of these, such as 1,16,256; else one that computes any size"
    ),
    "freeze_weights": Option("flag", True, "the compiler may fold weights and lay them out anew"),
}

PYTORCH_RUN = {
    "tokens": Option(
        "int", 0, "of samples without padding: most tokens of a batch; 0 for batch_size samples of the longest"
    )
}

DIFFUSERS_ENGINE = {
    "steps": Option("int", 0, "steps in which noise is taken away; 0 for what the benchmark says"),
    "random_weights": Option("flag", False, "weights are drawn, not read; every record says synthetic"),
}

DIFFUSERS_RUN = {
    "threads": COMMON_RUN["threads"],
    "streams": Option("int", 1, "batches in flight at once on each device"),
    "device": Option("choice", "auto", "what computes; auto: GPUs, where PyTorch finds any", ("auto", "cpu", "cuda")),
    "devices": CUDA_RUN["devices"],
    "compile": Option(
        "choice",
        "none",
        "compile the network and the decoder with torch.compile, in this mode; batches are then filled up",
        ("none", "default", "reduce-overhead", "max-autotune"),
    ),
    "channels_last": Option("flag", False, "convolutions compute channels last"),
}

TOKENS = {
    "min_new_tokens": Option("int", 0, "fewest tokens of an answer; 0 for what the round, else the benchmark says"),
    "max_new_tokens": Option("int", 0, "most tokens of an answer; 0 for what the round, else the benchmark says"),
}

TRITON_ENGINE = {
    "made_by": Option(
        "choice",
        "onnxruntime",
        "the backend of this project that builds what the server computes with",
        ("onnxruntime", "openvino", "onnxruntime-cuda", "tensorrt"),
    ),
    "served_by": Option(
        "choice",
        "python",
        "python: this project's session in Triton's Python backend; own: Triton's backend of that library",
        ("python", "own"),
    ),
    **ONNXRUNTIME_ENGINE,
    **OPENVINO_ENGINE,
    **TENSORRT_ENGINE,
}

TRITON_RUN = {
    "threads": COMMON_RUN["threads"],
    "streams": Option("int", 1, "requests under way at once"),
    "devices": CUDA_RUN["devices"],
    "instances": Option("int", 1, "copies of the model that compute at once, on each GPU"),
    "dynamic_batching": Option("flag", False, "the server puts waiting requests together into a batch"),
    "preferred_batch_sizes": Option(
        "text", "", "sizes of such a batch that need not wait to grow, such as 4,8; default: batch_size"
    ),
    "batch_delay_us": Option("int", 0, "longest that a request waits for others, in microseconds"),
    "protocol": Option("choice", "http", "how batches travel to the server", ("http", "grpc")),
    "grpc_port": Option("int", 8001, "port of gRPC of a server at an address", identity=False),
    "shared_memory": Option("flag", True, "a server that the run starts reads inputs from shared memory"),
    "pinned_memory": Option("flag", True, "batches for GPUs are put together in pinned memory"),
    "url": Option(
        "text",
        "",
        "address of a server; default: what harness.service starts, else one that each run starts",
        identity=False,
    ),
    "model": Option("text", "", "the model as that server names it; needed with url or harness.service"),
    "server": Option(
        "text", "", "path of tritonserver; default: that of nvidia-pytriton, else of PATH", identity=False
    ),
    "ready_timeout_s": Option("int", 600, "seconds until the server is ready, at most", identity=False),
    "timeout_s": Option("int", 600, "seconds that an answer may take", identity=False),
}
