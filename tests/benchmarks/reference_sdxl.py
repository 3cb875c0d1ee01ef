"""Compare Stable Diffusion XL with the reference's code: tokens, latents and images of a small pipeline.

    python -m tests.benchmarks.reference_sdxl CHECKOUT

CHECKOUT is one of mlcommons/inference with the folder text_to_image. Captions and the pipeline are a rehearsal's; the
reference's backend class generates the images, its dataset class tokenizes the captions, and its post-processing makes
the bytes. Imports that only scores need are omitted. Also compares the tokens of all captions in the checkout. Exits
with 1 if anything differs.
"""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import stable_diffusion_xl
from harness.benchmarks.stable_diffusion_xl import clip_tokens
from harness.benchmarks.stable_diffusion_xl.rehearsal import MODEL
from tests.benchmarks.comparing import paint_samples, rehearse, report

COUNT = 12
NAME = "stable_diffusion_xl"
# What the reference imports for its scores, its tables and its progress.
_UNUSED = {
    "tools": (),
    "tools.clip": (),
    "tools.clip.clip_encoder": ("CLIPEncoder",),
    "tools.fid": (),
    "tools.fid.fid_score": ("compute_fid",),
    "pandas": (),
}


def main(checkout: Path) -> int:
    reference = checkout / "text_to_image"
    sys.path.insert(0, str(reference))
    for name, members in _UNUSED.items():
        sys.modules[name] = types.ModuleType(name)
        for member in members:
            setattr(sys.modules[name], member, None)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all(list(compare(Path(folder), reference))) else 1


def compare(folder: Path, reference: Path) -> Iterator[bool]:
    """Print what was compared. Yield whether it is equal."""
    import torch

    benchmark = rehearse(folder, NAME, count=COUNT)
    data, models, dataset = (folder / part for part in ("data", "models", "dataset"))
    samples, shared = benchmark.load_samples(dataset), benchmark.load_shared(dataset)
    theirs = load_reference(models / MODEL)
    coco = make_coco()
    captions = stable_diffusion_xl.read_captions(data / stable_diffusion_xl.CAPTIONS[0])
    tokens = [[coco.preprocess(text, t) for text in captions] for t in (theirs.pipe.tokenizer, theirs.pipe.tokenizer_2)]
    for name, found in zip(stable_diffusion_xl.TOKENIZERS, tokens, strict=True):
        wanted = np.concatenate([item.input_ids.numpy() for item in found])
        yield report(f"{name} of {COUNT} captions", np.array_equal(samples[name], wanted))
    for name, item in (("input_ids", theirs.negative_prompt_tokens), ("input_ids_2", theirs.negative_prompt_tokens_2)):
        yield report(f"negative {name}", np.array_equal(shared[f"negative_{name}"], item.input_ids.numpy()))
    latents = torch.load(data / stable_diffusion_xl.LATENTS[1], weights_only=True)
    yield report("latents", np.array_equal(shared["latents"], latents.numpy()))
    published = stable_diffusion_xl.read_captions(reference / "coco2014/captions/captions_source.tsv")
    for part, tokenizer in (("tokenizer", theirs.pipe.tokenizer), ("tokenizer_2", theirs.pipe.tokenizer_2)):
        ours = clip_tokens.encode_captions(clip_tokens.read_tokenizer(data / part, ""), published)
        wanted = np.concatenate([coco.preprocess(text, tokenizer).input_ids.numpy() for text in published])
        yield report(f"{part} of {len(published)} published captions", np.array_equal(ours, wanted))
    asked = [{"input_tokens": one, "input_tokens_2": two, "latents": latents} for one, two in zip(*tokens, strict=True)]
    painted = sys.modules["coco"].PostProcessCoco()(theirs.predict(asked), list(range(COUNT)))
    for batch in (1, 8):
        ours = paint_samples(NAME, models / MODEL, dataset, count=COUNT, batch=batch)
        difference = np.abs(ours.astype(np.int16) - np.stack(painted))
        said = (
            f"images in batches of {batch}: {(difference > 0).mean():.2e} of all values differ, by {difference.max()}"
        )
        yield report(said, not difference.any() if batch == 1 else difference.max() <= 1)


def load_reference(model: Path) -> Any:
    from backend_pytorch import BackendPytorch  # type: ignore[import-not-found]

    theirs = BackendPytorch(model_path=str(model), precision="fp32", batch_size=1).load()
    theirs.pipe.set_progress_bar_config(disable=True)
    return theirs


def make_coco() -> Any:
    """Return the reference's dataset, of which only methods are called."""
    import coco  # type: ignore[import-not-found]

    return object.__new__(coco.Coco)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
