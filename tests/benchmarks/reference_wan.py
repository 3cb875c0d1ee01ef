"""Compare Wan 2.2 with the reference's code: prompts, tokens, latents and videos of a small pipeline.

    python -m tests.benchmarks.reference_wan CHECKOUT

CHECKOUT is one of mlcommons/inference with the folder text_to_video. Its script for LoadGen loads a rehearsal's
pipeline in bf16, like the published one, and answers prompts without LoadGen. Also compares all prompts of the
checkout, its settings, and the bytes of a video that the library writes. Exits with 1 if anything differs.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import wan_2_2
from harness.benchmarks.wan_2_2 import prompts
from harness.benchmarks.wan_2_2.rehearsal import MODEL, SHAPES
from tests.benchmarks.comparing import paint_samples, rehearse, report

COUNT = 20
NAME = "wan_2_2"
SHAPE = SHAPES["small"]


def main(checkout: Path) -> int:
    reference = checkout / "text_to_video/wan-2.2-t2v-a14b"
    sys.path.insert(0, str(reference))
    sys.modules["mlperf_loadgen"] = make_loadgen()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all(list(compare(Path(folder), reference))) else 1


def make_loadgen() -> types.ModuleType:
    """Return what the script needs of LoadGen while it answers: it stores the bytes of each answer."""
    loadgen: Any = types.ModuleType("mlperf_loadgen")
    loadgen.TestScenario = types.SimpleNamespace(SingleStream=0, MultiStream=1, Server=2, Offline=3)
    loadgen.answers = []
    loadgen.QuerySampleResponse = lambda _, address, size: ctypes.string_at(address, size)
    loadgen.QuerySamplesComplete = loadgen.answers.extend
    made: types.ModuleType = loadgen
    return made


def compare(folder: Path, reference: Path) -> Iterator[bool]:
    """Print what was compared. Yield whether it is equal."""
    import run_mlperf  # type: ignore[import-not-found]
    import torch

    benchmark = rehearse(folder, NAME, count=COUNT)
    data, models, dataset = (folder / part for part in ("data", "models", "dataset"))
    config = run_mlperf.load_config(str(reference / "inference_config.yaml"))
    settings = {
        "steps": config["sample_steps"],
        "guidance": config["guidance_scale"],
        "guidance_2": config["guidance_scale_2"],
        "boundary": config["boundary_ratio"],
    }
    yield report(f"settings {settings}", settings == benchmark.pipeline and config["fps"] == wan_2_2.FPS)
    full = SHAPES["full"]
    sizes = [config[name] for name in ("num_frames", "height", "width")]
    yield report(f"frames, height and width {sizes}", sizes == [full.frames, full.height, full.width])
    published = run_mlperf.load_prompts(str(reference / "data/vbench_prompts.txt"))
    ours = prompts.read_prompts(reference / "data/vbench_prompts.txt")
    prompts.check_prompts(ours, reference)
    yield report(f"{len(published)} published prompts", ours == published)
    own = run_mlperf.load_prompts(str(data / prompts.PROMPTS[0]))
    yield report(f"{COUNT} prompts", prompts.read_prompts(data / prompts.PROMPTS[0]) == own)
    latent = torch.load(data / prompts.LATENT[0])
    shared = benchmark.load_shared(dataset)
    yield report("latent", np.array_equal(shared["latents"], latent.float().numpy()))
    small = {**config, "height": SHAPE.height, "width": SHAPE.width, "num_frames": SHAPE.frames}
    theirs = run_mlperf.Model(str(models / MODEL), torch.device("cpu"), small, own, latent)
    yield from compare_tokens(theirs, published, prompts.read_tokenizer(data / prompts.TOKENIZER, ""))
    yield report("negative prompt", prompts.clean_prompt(theirs.negative_prompt) == prompts.AGAINST)
    frames = answer(theirs)
    for batch in (1, 4):
        found = paint_samples(NAME, models / MODEL, dataset, count=COUNT, batch=batch, precision="bf16")
        difference = np.abs(found.astype(np.int16) - frames)
        said = f"videos in batches of {batch}: {(difference > 0).mean():.2e} of all values differ, by"
        yield report(f"{said} {difference.max()}", batch > 1 or not difference.any())
    yield compare_files(folder, frames[0])


def compare_tokens(theirs: Any, texts: Sequence[str], ours: Any) -> Iterator[bool]:
    """Tokenize prompts like the library's pipeline, which also repairs Unicode if ftfy is installed."""
    from diffusers.pipelines.wan.pipeline_wan import prompt_clean

    for name, asked in (("prompts", [*texts, " A   cat &amp; a\ndog "]), ("negative prompt", [theirs.negative_prompt])):
        wanted = theirs.pipe.tokenizer(
            [prompt_clean(text) for text in asked],
            padding="max_length",
            max_length=512,
            truncation=True,
            add_special_tokens=True,
            return_attention_mask=True,
            return_tensors="np",
        )
        ids, mask = prompts.encode_prompts(ours, asked)
        same = np.array_equal(ids, wanted.input_ids) and np.array_equal(mask, wanted.attention_mask)
        yield report(f"tokens of {len(asked)} {name}", same)


def answer(theirs: Any) -> np.ndarray:
    """Return each answer of the script [prompts, frames, height, width, 3], truncated to bytes as the library writes
    videos. The script expects a tensor of PyTorch from the pipeline, but gets an array."""
    import torch

    pipe = theirs.pipe
    pipe.set_progress_bar_config(disable=True)
    theirs.pipe = lambda **reported: types.SimpleNamespace(frames=[torch.from_numpy(pipe(**reported).frames[0])])
    theirs.issue_queries([types.SimpleNamespace(index=index, id=index) for index in range(COUNT)])
    theirs.pipe = pipe
    answers = [np.frombuffer(data, np.float32) for data in sys.modules["mlperf_loadgen"].answers]
    return (np.stack(answers).reshape(-1, SHAPE.frames, SHAPE.height, SHAPE.width, 3) * 255).astype(np.uint8)


def compare_files(folder: Path, frames: np.ndarray) -> bool:
    """Compare with the same frames written by the library's own function, which needs the package imageio."""
    from diffusers.utils import export_to_video

    path = folder / "theirs.mp4"
    export_to_video([frame.astype(np.float64) / 255 + 1e-9 for frame in frames], str(path), fps=wan_2_2.FPS)
    data = wan_2_2.encode_video(frames)
    return report(f"a video of {len(data)} bytes", data == path.read_bytes())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
