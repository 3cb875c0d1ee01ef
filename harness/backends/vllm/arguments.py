"""Arguments of vLLM's engine, from the spec's options and the checkpoint's configuration files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.catalog import VllmEngineOptions, VllmRunOptions, WeightOptions
from harness.errors import HarnessError
from harness.run.tokens import SOUND_RATE, SOUNDS, GenerationPlan, read_extra

_CONFIG, _GENERATION, _OPENVINO = "config.json", "generation_config.json", "openvino_model.xml"
_PLAIN = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_WHOLE = 100  # percent
# The features of a waveform are computed again for each query.
_HEARING = {"mm_processor_cache_gb": 0, "limit_mm_per_prompt": {"audio": 1}}


@dataclass(frozen=True, slots=True)
class TransformersCheckpoint:
    """A checkpoint folder in Hugging Face's layout. ``config``: config.json; ``ends``: tokens that end an answer."""

    folder: Path
    config: Mapping[str, Any]
    ends: tuple[int, ...]

    @property
    def quantization(self) -> str:
        """Quantization of its weights; "" for none."""
        declared = self.config.get("quantization_config") or {}
        return str(declared.get("quant_method") or declared.get("quant_algo") or "")


def find_checkpoint(plan: GenerationPlan) -> TransformersCheckpoint:
    """Find the checkpoint: the spec's, or else the one built by the benchmark."""
    for folder in (plan.source, plan.model):
        if folder is not None and (folder / _CONFIG).is_file():
            if (folder / _OPENVINO).is_file() and not any(folder.glob("*.safetensors")):
                problem = f"{folder.name} is a network of OpenVINO, such as a rehearsal's"
                raise HarnessError(problem, "input", "use engine.backend: openvino-genai, or a Hugging Face checkpoint")
            return TransformersCheckpoint(folder, _read(folder / _CONFIG), _read_ends(folder))
    problem = f"{plan.source or plan.model} has no {_CONFIG}"
    raise HarnessError(problem, "missing", "set model.path to the folder of a checkpoint in Hugging Face format")


def choose_arguments(plan: GenerationPlan, checkpoint: TransformersCheckpoint) -> dict[str, Any]:
    """Choose the arguments of ``AsyncEngineArgs``. Queries share no computation unless the spec declares prefix
    caching."""
    engine, run = VllmEngineOptions(plan.options), VllmRunOptions(plan.options)
    said = {
        "quantization": engine.quantization,
        "kv_cache_dtype": engine.kv_cache,
        "tensor_parallel_size": engine.tensor_parallel,
        "pipeline_parallel_size": engine.pipeline_parallel,
        "data_parallel_size": run.replicas,
        "max_model_len": engine.context,
        "max_num_seqs": run.sequences,
        "max_num_batched_tokens": run.batched_tokens,
        "block_size": run.block_size,
        "stream_interval": run.stream_interval,
        "gpu_memory_utilization": run.memory_percent / _WHOLE,
    }
    return {
        "model": str(checkpoint.folder),
        **(_HEARING if plan.samples == SOUNDS else {"skip_tokenizer_init": True}),
        "seed": max(0, plan.sampling.seed),
        "dtype": _choose_dtype(plan, checkpoint),
        "load_format": "dummy" if WeightOptions(plan.options).random_weights else "auto",
        "enforce_eager": not run.graphs,
        "enable_prefix_caching": run.prefix_caching,
        "enable_chunked_prefill": run.split_prompts,
        "enable_expert_parallel": engine.expert_parallel,
        "disable_log_stats": True,
        **{argument: value for argument, value in said.items() if value},  # else vLLM's default
        **read_extra(run.extra),
    }


def choose_environment(plan: GenerationPlan) -> dict[str, str]:
    """Choose vLLM's environment variables. A run makes no external requests or reports; the engine's processes are
    spawned rather than forked, since this one has threads."""
    cores = f"0-{plan.threads - 1}"
    return {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_CPU_KVCACHE_SPACE": str(VllmRunOptions(plan.options).cache_gib),
        **({"VLLM_CPU_OMP_THREADS_BIND": cores, "OMP_NUM_THREADS": str(plan.threads)} if plan.threads else {}),
    }


def _choose_dtype(plan: GenerationPlan, checkpoint: TransformersCheckpoint) -> str:
    """Choose the dtype. Raises HarnessError if the weights differ from the spec."""
    declared = VllmEngineOptions(plan.options).quantization
    plain, own = _PLAIN.get(plan.precision), checkpoint.quantization
    if plain is not None and (declared or own):
        by = f"engine.options.quantization: {declared}" if declared else f"the checkpoint's own {own}"
        fix = "set the precision of the quantized weights, such as engine.precision: fp8"
        raise HarnessError(f"engine.precision is {plan.precision}, but weights are quantized by {by}", "input", fix)
    if plain is None and not (declared or own):
        fix = "set engine.options.quantization, or use a quantized checkpoint"
        raise HarnessError(f"engine.precision is {plan.precision}, but the weights are not quantized", "input", fix)
    return plain or "auto"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"{path.name} of the checkpoint cannot be read: {error}", "input", "see the file") from error
    return found if isinstance(found, dict) else {}


def _read_ends(folder: Path) -> tuple[int, ...]:
    """Read the end tokens from generation_config.json, or else from config.json."""
    for name in (_GENERATION, _CONFIG):
        ends = _read(folder / name).get("eos_token_id") if (folder / name).is_file() else None
        if ends is not None:
            return tuple(ends) if isinstance(ends, list) else (int(ends),)
    return ()


# Speech through vLLM: the prompt of a Whisper model for each waveform.

_ENGLISH, _TASK = "<|en|>", "transcribe"


def read_speech_prompt(folder: Path) -> tuple[int, ...]:
    """Read the initial tokens of a transcript in MLPerf's reference: English, transcription, no timestamps. An
    English-only checkpoint has neither languages nor tasks. Raises HarnessError if generation_config.json does not
    define the tokens.
    """
    try:
        said = json.loads((folder / _GENERATION).read_text(encoding="utf-8"))
        several = bool(said.get("lang_to_id"))
        chosen = (said["lang_to_id"][_ENGLISH], said["task_to_id"][_TASK]) if several else ()
        tokens = (said["decoder_start_token_id"], *chosen, said["no_timestamps_token_id"])
        return tuple(int(token) for token in tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{folder / _GENERATION} does not define the start of a transcript: {type(error).__name__}: {error}"
        fix = "set model.path to a Whisper checkpoint in Hugging Face format, with generation_config.json"
        raise HarnessError(problem, "input", fix) from error


def describe_sound(prompt: Sequence[int], sound: np.ndarray) -> dict[str, Any]:
    """Describe a sound for the engine. ``sound``: a waveform in -1..1, float32."""
    return {"prompt_token_ids": list(prompt), "multi_modal_data": {"audio": (sound, SOUND_RATE)}}
