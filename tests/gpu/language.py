"""Measure language models through vLLM: ``python -m tests.gpu.language [--shape S] [--only PART,…] [--json FILE]``.

Shapes of Llama 3.1 8B, Llama 2 70B, Mixtral 8x7B and gpt-oss-120b with random weights; prompts and answers are as long
as the published ones on average.

- offline: LoadGen's Offline samples/s through the ``vllm`` backend, relative to ``LLM.generate`` of the same prompts in
  one process before and one after it.
- http: a server, vLLM's or (--server sglang) SGLang's, and the ``openai`` backend: Offline relative to
  ``LLM.generate``, and the highest rate that is VALID within the round's limits for the first token and for each
  further token, relative to Offline. http-offline omits the rate. $SERVER_PYTHON: the Python of the server, whose
  packages may conflict with vLLM's.
- server: the same rate for the engine in the run's process, relative to its Offline rate: stated, measured before by
  offline or whole, or measured first.
- whole: Offline in the run's process, without LLM.generate.

vLLM's caches of compiled graphs are stored in $VLLM_CACHE_ROOT.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.contract import Benchmark
from tests.benchmarks.children import ROOT, bare, build, run
from tests.gpu import language_prompts
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest
from tests.processes import find_free_ports

STARTING = 420.0  # seconds
END = "</s>"
FIRST_SHARE, SHARE_STEP = 0.7, 0.04  # of Offline
SECONDS, CONFIRMING = 40.0, 90.0
_LLAMA: Figures = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class LanguageShape:
    """``config``: config.json; ``engine``: options of the backend; ``declared``: the declared precision; ``limits``:
    the section of LoadGen's mlperf.conf with the latencies that Server must meet."""

    config: Figures
    engine: Figures
    declared: Figures
    prompts: int
    mean: int
    longest: int
    answer: int = 128  # tokens
    limits: str = "llama3_1-8b"


_EIGHT = {
    **_LLAMA,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}
# A checkpoint as it is published for this precision: fp8 weights, and a scale for each tensor of weights and inputs.
_STATIC: Figures = {
    "quantization_config": {
        "quant_method": "modelopt",
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "ignore": ["lm_head"],
    }
}
_SEVENTY = {
    **_LLAMA,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
_MIXTRAL = {
    **_LLAMA,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "torch_dtype": "bfloat16",
}
_GPT_OSS: Figures = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_act": "silu",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "attention_bias": True,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "swiglu_limit": 7.0,
    "rms_norm_eps": 1e-5,
    "rope_theta": 150000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    },
    "initial_context_length": 4096,
    "max_position_embeddings": 131072,
    "vocab_size": 201088,
    "tie_word_embeddings": False,
    "eos_token_id": 200002,
    "pad_token_id": 199999,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
}
_SMALL = {
    **_LLAMA,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "float32",
}
_ON_GPU = {"context": 2816, "sequences": 1024, "batched_tokens": 16384, "memory_percent": 92, "graphs": True}
SHAPES = {
    "llama3.1-8b-bf16": LanguageShape(_EIGHT, _ON_GPU, {"precision": "bf16"}, 1500, 819, 2540),
    "llama3.1-8b-fp8": LanguageShape(
        _EIGHT, _ON_GPU, {"precision": "fp8", "quantization": "fp8", "kv_cache": "fp8"}, 1500, 819, 2540
    ),
    "llama3.1-8b-static": LanguageShape(
        {**_EIGHT, **_STATIC},
        {**_ON_GPU, "batched_tokens": 8192},
        {"precision": "fp8", "kv_cache": "fp8"},
        4200,
        819,
        2540,
    ),
    "llama2-70b-static": LanguageShape(
        {**_SEVENTY, **_STATIC},
        {**_ON_GPU, "context": 1536, "batched_tokens": 8192, "memory_percent": 94},
        {"precision": "fp8", "kv_cache": "fp8"},
        2048,  # waves of 1,024: a last wave of few samples would cost as long as a full one
        294,
        1024,
        294,
        "llama2-70b",
    ),
    "mixtral-8x7b-static": LanguageShape(
        {**_MIXTRAL, **_STATIC},
        # FlashInfer's kernels of experts are compiled for minutes at the first start; Triton's come with tuned tiles.
        {**_ON_GPU, "batched_tokens": 8192, "extra": '{"moe_backend": "triton", "enable_flashinfer_autotune": false}'},
        {"precision": "fp8", "kv_cache": "fp8"},
        5000,
        294,
        2048,
        145,
        "mixtral-8x7b",
    ),
    "gpt-oss-120b": LanguageShape(
        _GPT_OSS,
        {
            **_ON_GPU,
            "context": 14336,
            "sequences": 512,
            "batched_tokens": 8192,
            "extra": '{"enable_flashinfer_autotune": false}',
        },
        {"precision": "fp4"},
        512,
        4000,  # articles of PubMed; their mean is not published, the longest has 15,330 tokens
        12288,
        1379,  # the mean of Red Hat's published result of v6.0 on H200
        "gpt-oss-120b",
    ),
    "small": LanguageShape(
        _SMALL, {"context": 512, "sequences": 32, "graphs": False}, {"precision": "fp32"}, 96, 24, 128
    ),
}
_DTYPES = {"bf16": "bfloat16", "fp32": "float32", "fp8": "bfloat16", "fp4": "bfloat16"}


class LanguageCase:
    """A shape with its prompts, and a folder with a checkpoint without weights."""

    def __init__(self, name: str, engine: Figures, server: str) -> None:
        """``engine``: options of the backend in place of the shape's; ``server``: vllm or sglang."""
        self.name, self.shape, self.server_kind = name, SHAPES[name], server
        self.shape = replace(self.shape, engine={**self.shape.engine, **engine})
        self.folder = WORK / f"language-{name}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.benchmark = Benchmark(name="language_prompts", path=language_prompts.__file__)
        self.settings: Figures = {
            "random_weights": not self.drawn,
            **self.shape.engine,
            **self.shape.declared,
            "min_new_tokens": self.shape.answer,
            "max_new_tokens": self.shape.answer,
        }

    @cached_property
    def dataset(self) -> Path:
        shape = self.shape
        settings = {"count": shape.prompts, "mean": shape.mean, "longest": shape.longest}
        words = {"words": shape.config["vocab_size"]}
        return build(self.folder, "Dataset", self.benchmark, settings={**settings, **words})

    @cached_property
    def model(self) -> Path:
        folder = self.folder / "checkpoint"
        folder.mkdir(exist_ok=True)
        if not self.drawn:
            (folder / "config.json").write_text(json.dumps(self.shape.config), encoding="ascii")
        elif not (folder / "config.json").exists():
            from tests.gpu.cyclic_llama import write_checkpoint  # which imports PyTorch

            write_checkpoint(folder, self.shape.config, self.shape.config["vocab_size"], seed=1)
        return folder

    @property
    def drawn(self) -> bool:
        """Return whether weights are written: vLLM's own dummy weights are zeros in fp8, which take less power."""
        config = self.shape.config
        return "quantization_config" in config and config["model_type"] == "llama"

    @cached_property
    def arguments(self) -> Figures:
        """Return the arguments for vLLM without the harness, by vLLM's names."""
        engine, declared = self.shape.engine, self.shape.declared
        named = {
            "max_model_len": engine.get("context"),
            "max_num_seqs": engine.get("sequences"),
            "max_num_batched_tokens": engine.get("batched_tokens"),
            "gpu_memory_utilization": engine["memory_percent"] / 100 if "memory_percent" in engine else None,
            "quantization": declared.get("quantization"),
            "kv_cache_dtype": declared.get("kv_cache"),
        }
        return {
            "dtype": _DTYPES[declared["precision"]],
            "load_format": "auto" if self.drawn else "dummy",
            **{name: value for name, value in named.items() if value},
            **json.loads(engine.get("extra", "{}")),
        }

    def bare(self) -> list[float]:
        """Return samples/s of ``LLM.generate``, twice in one process; the first after a warm-up of four prompts."""
        reported = {
            "model": str(self.model),
            "dataset": str(self.dataset),
            "repeats": 1,
            "tokens": self.shape.answer,
            "graphs": self.shape.engine["graphs"],
            "arguments": self.arguments,
            "passes": 2,
        }
        rates: list[float] = bare("vllm", reported, self.folder)["rates"]
        print(json.dumps({"bare": rates}), flush=True)
        return rates

    def measure(self, backend: str, scenario: Any, conf: dict[str, int | float], **options: Any) -> Figures:
        return run(
            self.folder,
            scenario,
            benchmark=self.benchmark,
            backend=backend,
            dataset=self.dataset,
            model=self.model,
            model_key=self.shape.limits,
            conf=conf,
            settings={**self.settings, **options},
        )

    def offline(self, backend: str, **options: Any) -> Figures:
        count = self.shape.prompts
        conf = {"min_duration": 0, "min_query_count": count, "target_qps": 1, "sample_concatenate_permutation": 1}
        log = self.measure(backend, "Offline", conf, **options)
        return {"rate": log["result_samples_per_second"], "tokens": log["result_tokens_per_second"]}

    def serve(self, backend: str, rate: float, seconds: float, **options: Any) -> Figures:
        conf = {"min_duration": int(1000 * seconds), "min_query_count": 100, "target_qps": round(rate, 2)}
        log = self.measure(backend, "Server", conf, **options)
        times = {
            "first_ms": log["result_first_token_99.00_percentile_latency_ns"] / 1e6,
            "each_ms": log["result_time_per_output_token_99.00_percentile_ns"] / 1e6,
        }
        return {
            "target_qps": round(rate, 2),
            "seconds": seconds,
            "verdict": log["result_validity"],
            "completed": round(log["result_completed_samples_per_sec"], 2),
            **{name: round(value, 1) for name, value in times.items()},
        }

    @contextmanager
    def server(self) -> Iterator[str]:
        """Start a server, and yield its address once it is ready."""
        (port,) = find_free_ports(1)
        command = [os.environ.get("SERVER_PYTHON", sys.executable), "-P"]
        command += self._describe_sglang() if self.server_kind == "sglang" else self._describe_vllm()
        command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "served"]
        quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        environment = {**os.environ, **quiet, "PYTHONPATH": str(ROOT)}
        with (self.folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
            try:
                url = f"http://127.0.0.1:{port}"
                self._wait(process, f"{url}/health")
                yield url
            finally:
                process.terminate()
                process.wait(60)

    def _describe_vllm(self) -> list[str]:
        command = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model)]
        for name, value in self.arguments.items():
            option = name.replace("_", "-")
            command += [f"--no-{option}"] if value is False else [f"--{option}", str(value)]
        command += ["--skip-tokenizer-init", "--no-enable-prefix-caching", "--disable-uvicorn-access-log"]
        return command + ([] if self.shape.engine["graphs"] else ["--enforce-eager"])

    def _describe_sglang(self) -> list[str]:
        """It returns text, so the checkpoint needs a tokenizer: one word for each token."""
        write_tokenizer(self.model, self.shape.config["vocab_size"])
        engine = self.shape.engine
        command = [
            "-m",
            "sglang.launch_server",
            "--model-path",
            str(self.model),
            "--load-format",
            self.arguments["load_format"],
        ]
        named = {
            "dtype": self.arguments["dtype"],
            "context-length": engine["context"],
            "max-running-requests": engine["sequences"],
            "cuda-graph-max-bs-decode": engine["sequences"],
            "cuda-graph-backend-prefill": "disabled",
            "chunked-prefill-size": engine["batched_tokens"],
            "max-prefill-tokens": engine["batched_tokens"],
            "mem-fraction-static": engine["memory_percent"] / 100,
            "kv-cache-dtype": {"fp8": "fp8_e4m3"}.get(self.shape.declared.get("kv_cache", ""), "auto"),
            "attention-backend": "fa3",
            "sampling-backend": "pytorch",
            "log-level": "warning",
            **json.loads(os.environ.get("SGLANG_OPTIONS", "{}")),
        }
        for name, value in named.items():
            command += [f"--{name}", str(value)]
        return [*command, "--disable-radix-cache"]

    def _wait(self, process: subprocess.Popen[bytes], url: str) -> None:
        end = time.monotonic() + STARTING
        while time.monotonic() < end and process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
            else:
                return
        said = (self.folder / "server.log").read_text(errors="replace")[-1500:]
        raise RuntimeError(f"the server is not ready: {said}")


def write_tokenizer(folder: Path, words: int) -> None:
    """Write a tokenizer of ``words`` tokens, each a word of its own."""
    names = [f"w{number:x}" for number in range(words)]
    names[2] = END
    model = {"type": "WordLevel", "vocab": {name: number for number, name in enumerate(names)}, "unk_token": names[0]}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="ascii")
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(said), encoding="ascii")


def search(case: LanguageCase, whole: float, known: Figures, backend: str, **options: Any) -> Figures:
    """``whole``: Offline samples/s. The search starts at the fraction ``known["first"]`` of it."""
    return find_highest(
        lambda rate, seconds: case.serve(backend, rate, seconds, **options),
        whole,
        seconds=known["seconds"],
        confirming=known["confirming"],
        first=known["first"],
        step=known["step"],
        resolution=known["step"],
    )


def measure_offline(case: LanguageCase, known: Figures) -> Figures:
    before = case.bare()
    found = case.offline("vllm")
    after = case.bare()
    bare = fmean((*before, *after))  # they differ by several percent from pass to pass
    known["bare"], known["whole"] = bare, found["rate"]
    return {"bare": [before, after], "harness": found, "over_bare": round(found["rate"] / bare, 4)}


def measure_http(case: LanguageCase, known: Figures, *, searching: bool = True) -> Figures:
    bare = known["bare"] or fmean(case.bare())
    offline = []
    with case.server() as url:
        options = {"url": url, "concurrency": case.shape.engine["sequences"]}
        for _ in range(known["repeats"]):
            offline.append(case.offline("openai", **options))
            print(json.dumps(offline[-1]), flush=True)
        rate = fmean(each["rate"] for each in offline)
        found = search(case, rate, known, "openai", **options) if searching else None
    return {"bare": bare, "offline": offline, "over_bare": round(rate / bare, 4), "server": found}


def measure_whole(case: LanguageCase, known: Figures) -> Figures:
    found = case.offline("vllm")
    known["whole"] = found["rate"]
    return found


def measure_server(case: LanguageCase, known: Figures) -> Figures:
    whole = known["whole"] or measure_whole(case, known)["rate"]
    return {"offline": whole, **search(case, whole, known, "vllm")}


PARTS: dict[str, Callable[[LanguageCase, Figures], Figures]] = {
    "offline": measure_offline,
    "http": measure_http,
    "http-offline": partial(measure_http, searching=False),
    "server": measure_server,
    "whole": measure_whole,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="llama3.1-8b-bf16")
    parser.add_argument(
        "--engine", type=json.loads, default={}, help='options in place of the shape\'s, {"sequences": 640}'
    )
    parser.add_argument("--server", choices=("vllm", "sglang"), default="vllm", help="of http")
    parser.add_argument("--bare", type=float, default=0.0, help="samples/s of LLM.generate, where it is known")
    parser.add_argument("--whole", type=float, default=0.0, help="samples/s of Offline in the process, where known")
    parser.add_argument("--repeats", type=int, default=1, help="runs of Offline through HTTP")
    parser.add_argument("--first", type=float, default=FIRST_SHARE, help="share of Offline that Server tries first")
    parser.add_argument("--step", type=float, default=SHARE_STEP, help="to the next share, and as near as is searched")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each run of Server")
    parser.add_argument("--confirming", type=float, default=CONFIRMING, help="seconds of the run that confirms")
    add_options(parser, PARTS, ("offline", "http", "server"))
    options = parser.parse_args()
    case = LanguageCase(options.shape, options.engine, options.server)
    reported = ("bare", "whole", "repeats", "first", "step", "seconds", "confirming")
    known: Figures = {name: getattr(options, name) for name in reported}
    parts = {name: partial(part, case, known) for name, part in PARTS.items()}
    measure_parts("tests.gpu.language", options.shape, parts, options)


if __name__ == "__main__":
    main()
