"""Measure the image worker of Stable Diffusion XL without LoadGen: ``python -m tests.gpu.bare_painter PROGRAM
SETTINGS`` prints one JSON document. Settings: model (a folder of configurations), dataset (of
tests.gpu.image_captions), batch, batches, precision, device, compile, channels_last, steps.

rate: images/s of sequential batches, with a breakdown of a batch's time. error: the difference between the network's
answer and that of the same weights in fp32. kernels: times of matrix products and attention of the published shape.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import diffusers
import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness.backends.diffusers import KINDS
from harness.backends.diffusers.loading import ImageSettings, find_checkpoint, load_networks, read_config
from harness.backends.diffusers.stable_diffusion_xl import FP8, lower_linears, round_rows
from tests.gpu.graphs import time_kernels
from tests.gpu.image_captions import NAMES, PIPELINE


def open_worker(settings: dict[str, Any]) -> Any:
    options = {"random_weights": True}
    plan: Any = SimpleNamespace(
        source=Path(settings["model"]), model=None, precision=settings["precision"], options=options
    )
    checkpoint = find_checkpoint(plan, KINDS)
    kind = KINDS[checkpoint.kind]
    device = torch.device("cuda", 0) if settings["device"] == "cuda" else torch.device("cpu")
    networks = load_networks(kind, checkpoint, plan, device)
    folder = Path(settings["dataset"])
    against = np.load(folder / "negative.npy")
    shared = {"latents": np.load(folder / "latents.npy"), **{f"negative_{name}": against for name in NAMES}}
    asked = ImageSettings(
        settings["steps"], float(PIPELINE["guidance"]), settings["compile"], settings["channels_last"]
    )
    return kind.open_worker(networks, shared, asked)


def rate(settings: dict[str, Any]) -> dict[str, Any]:
    painter, rows = open_worker(settings), np.load(Path(settings["dataset"]) / "input_ids.npy")
    batch = settings["batch"]

    def paint(number: int) -> None:
        start = number * batch % (len(rows) - batch + 1)
        painter.paint(dict.fromkeys(NAMES, rows[start : start + batch]))

    began = time.monotonic()
    paint(0)
    first = time.monotonic() - began
    paint(1)
    began = time.monotonic()
    for number in range(settings["batches"]):
        paint(number)
    seconds = time.monotonic() - began
    found: dict[str, Any] = {"rate": settings["batches"] * batch / seconds, "first_batch_s": round(first, 1)}
    found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1) if torch.cuda.is_available() else 0
    if settings.get("profile") and torch.cuda.is_available():  # kernel -> seconds per batch
        spent = time_kernels(lambda: paint(0))
        longest = {name: round(taken, 4) for name, taken in list(spent.items())[:30]}
        found["profile"] = {"all": round(sum(spent.values()), 4), **longest}
    return found


def error(settings: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(1)
    config = read_config(Path(settings["model"]) / "unet")
    device = torch.device(settings["device"])
    with device, torch.no_grad():
        exact = diffusers.UNet2DConditionModel.from_config(config).eval()
        side, channels = config["sample_size"], config["in_channels"]
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        more = {
            "text_embeds": torch.randn(2, pooled),
            "time_ids": torch.tensor([[8.0 * side, 8 * side, 0, 0] * 2] * 2)[:, :6],
        }
        given = (
            torch.randn(2, channels, side, side),
            torch.tensor(500),
            torch.randn(2, 77, config["cross_attention_dim"]),
        )

        def answer(network: Any, dtype: torch.dtype) -> torch.Tensor:
            near = [item.to(dtype) if item.is_floating_point() else item for item in given]
            reported = {name: item.to(dtype) for name, item in more.items()}
            return network(*near, added_cond_kwargs=reported).sample.float()

        wanted = answer(exact, torch.float32)
        near = copy.deepcopy(exact).to(torch.bfloat16)
        found = {"bf16": float((answer(near, torch.bfloat16) - wanted).norm() / wanted.norm())}
        found["lowered"] = lower_linears(near)
        found["fp8"] = float((answer(near, torch.bfloat16) - wanted).norm() / wanted.norm())
    return found


def kernels(settings: dict[str, Any]) -> dict[str, Any]:
    from triton.testing import do_bench

    found: dict[str, Any] = {}
    frames = 2 * settings["batch"]

    def note(name: str, work: Any, operations: float) -> None:
        try:
            taken = do_bench(work, warmup=10, rep=50, return_mode="median")
            found[name] = [round(1e3 * taken, 1), round(operations / taken / 1e9, 1)]
        except Exception as problem:  # what this version does not compute; the others count
            found[name] = f"{type(problem).__name__}: {str(problem)[:120]}"

    one = torch.ones((), device="cuda")
    for rows, depth, width in (
        *((frames * 1024, depth, width) for depth, width in ((1280, 3840), (1280, 1280), (1280, 10240), (5120, 1280))),
        *((frames * 4096, depth, width) for depth, width in ((640, 1920), (640, 5120), (2560, 640))),
    ):
        value, weight = (
            torch.randn(*size, device="cuda", dtype=torch.bfloat16) for size in ((rows, depth), (width, depth))
        )
        bias = torch.randn(width, device="cuda", dtype=torch.bfloat16)
        (a, a_scale), (b, b_scale) = round_rows(value), round_rows(weight)
        work = 2.0 * rows * depth * width
        name = f"{rows}x{depth}x{width}"
        note(f"{name} bf16", lambda v=value, w=weight, s=bias: functional.linear(v, w, s), work)
        usual = {"bias": bias, "out_dtype": torch.bfloat16, "use_fast_accum": True}
        by_row = {"scale_a": a_scale, "scale_b": b_scale.t().contiguous(), **usual}
        note(f"{name} fp8 rows", lambda a=a, b=b, o=by_row: torch._scaled_mm(a, b.t(), **o), work)
        whole = {"scale_a": one, "scale_b": one, **usual}
        note(f"{name} fp8 whole", lambda a=a, b=b, o=whole: torch._scaled_mm(a, b.t(), **o), work)
    for heads, tokens, seen in ((10, 4096, 4096), (20, 1024, 1024), (10, 4096, 77), (20, 1024, 77)):
        query = torch.randn(frames, heads, tokens, 64, device="cuda", dtype=torch.bfloat16)
        key = torch.randn(frames, heads, seen, 64, device="cuda", dtype=torch.bfloat16)
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            with sdpa_kernel(backend):
                work = 4.0 * frames * heads * tokens * seen * 64
                name = f"attention {heads}x{tokens}x{seen} {backend.name[:5]}"
                note(name, lambda q=query, k=key: functional.scaled_dot_product_attention(q, k, k), work)
    assert a.dtype == FP8
    return found


PROGRAMS = {"rate": rate, "error": error, "kernels": kernels}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))))
