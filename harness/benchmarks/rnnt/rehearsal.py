"""A small dev-clean of generated sounds, and a network with the reference's signature that transcribes them.

The transcripts are the network's own in fp32. It is narrower than the published one, except for its inputs and outputs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from harness.benchmarks.network_builder import NetworkSession, run_loop
from harness.benchmarks.rnnt.network import MODEL, POST, PRE, write_parts
from harness.benchmarks.rnnt.transcribing import (
    BLANK,
    CLASSES,
    FEATURES,
    HIDDEN,
    LETTERS,
    PARTS,
    PREDICTED,
    PREDICTION_LAYERS,
    STACKED,
    loop,
)
from harness.benchmarks.sources import read_list
from harness.benchmarks.speech import RATE, draw_sound, read_waveform
from harness.contract import Counter
from harness.run.qsl import Arrays

FOLDER = "parts"  # folder of the networks
_CHAPTER = 16  # utterances of a chapter
_SIZES = {"small": (32, 16, 32), "full": (HIDDEN, PREDICTED, 512)}  # widths of encoder, prediction network, joint
_CERTAIN, _SURE = 1000.0, 10.0
_BALANCED = 3  # how often the joint is balanced


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    files = [_name_file(data, number) for number in range(count)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, draw_sound(rng), RATE, subtype="PCM_16")
    waveforms = [read_waveform(file, soundfile.info(file).frames, "") for file in files]
    weights = draw_weights(rng, *_SIZES[size])
    balance_letters(weights, waveforms[:4], models)
    (models / FOLDER).mkdir()
    write_parts(weights, models / FOLDER)
    network = load_parts(models / FOLDER)
    for file, waveform in zip(files, waveforms, strict=True):
        letters, _ = transcribe(network, waveform)
        text = "".join(LETTERS[letter] for letter in letters)
        with (file.parent / f"{file.stem.rpartition('-')[0]}.trans.txt").open("a", encoding="ascii") as stream:
            stream.write(f"{file.stem} {' '.join(text.upper().split()) or 'A'}\n")
        counter.bump(1)


def _name_file(data: Path, number: int) -> Path:
    chapter = read_list("rnnt", "chapters.txt")[number // _CHAPTER]
    return data / chapter.replace("-", "/") / f"{chapter}-{number % _CHAPTER:04d}.flac"


def draw_weights(rng: np.random.Generator, width: int, predicted: int, joint: int) -> dict[str, NDArray[np.float32]]:
    """Draw weights whose deviations preserve the scale of values from layer to layer."""
    found: dict[str, NDArray[np.float32]] = {}

    def draw(name: str, shape: tuple[int, ...], deviation: float) -> None:
        found[name] = rng.normal(0, deviation, shape).astype(np.float32)

    layers = [("encoder.pre_rnn", layer, FEATURES if layer == 0 else width, width) for layer in range(PRE)]
    layers += [("encoder.post_rnn", layer, width if layer else STACKED * width, width) for layer in range(POST)]
    layers += [("prediction.dec_rnn", layer, predicted, predicted) for layer in range(PREDICTION_LAYERS)]
    for name, layer, size, hidden in layers:
        draw(f"{name}.lstm.weight_ih_l{layer}", (4 * hidden, size), 2 * size**-0.5)
        draw(f"{name}.lstm.weight_hh_l{layer}", (4 * hidden, hidden), hidden**-0.5)
        for which in ("ih", "hh"):
            draw(f"{name}.lstm.bias_{which}_l{layer}", (4 * hidden,), 0.1)
    draw("prediction.embed.weight", (CLASSES - 1, predicted), 1)
    draw("joint.net.0.weight", (joint, predicted + width), 2 * width**-0.5)
    draw("joint.net.0.bias", (joint,), 0.1)
    draw("joint.net.3.weight", (CLASSES, joint), 4 * joint**-0.5)
    draw("joint.net.3.bias", (CLASSES,), 0.1)
    return found


def _trigger_letters(weights: dict[str, NDArray[np.float32]], encoded: NDArray[np.float32]) -> None:
    """Emit a letter when one unit of the encoder changes its sign, so that frames are mostly blank. The prediction
    network keeps a sign that changes with each letter, and the joint compares the two."""
    for layer, (kind, unit) in enumerate((("hh", -_SURE), ("ih", _SURE))):
        name = "prediction.dec_rnn.lstm"
        hidden = len(weights[f"{name}.bias_ih_l{layer}"]) // 4
        for gate, certain in enumerate((_SURE, -_SURE, 0, _SURE)):  # input, forget, cell, output
            row = gate * hidden
            for which in ("ih", "hh"):
                weights[f"{name}.weight_{which}_l{layer}"][row] = 0
                weights[f"{name}.bias_{which}_l{layer}"][row] = certain / 2
        weights[f"{name}.weight_{kind}_l{layer}"][2 * hidden, 0] = unit
    weights["prediction.dec_rnn.lstm.bias_ih_l0"][2 * (len(weights["prediction.dec_rnn.lstm.bias_ih_l0"]) // 4)] = 0.5
    first, shift, last = (weights[f"joint.net.{name}"] for name in ("0.weight", "0.bias", "3.weight"))
    scale, middle = 1 / encoded[:, 0].std(), np.median(encoded[:, 0])
    # |e + p| - |e - p| is above 0 if e and p have the same sign.
    for row, (sounds, kept) in enumerate(((1, 1), (-1, -1), (1, -1), (-1, 1))):
        first[row] = 0
        first[row, 0], first[row, encoded.shape[1]] = sounds * scale, kept
        shift[row] = -sounds * scale * middle
    last[:, :4], last[BLANK] = 0, 0
    last[BLANK, :4] = np.array([1, 1, -1, -1]) * _SURE


def balance_letters(weights: dict[str, NDArray[np.float32]], waveforms: Sequence[np.ndarray], scratch: Path) -> None:
    """Shift the joint's output so that all letters are about equally likely, and words are short."""
    width = weights["encoder.pre_rnn.lstm.weight_hh_l0"].shape[1]
    shift = weights["joint.net.3.bias"]
    shift[BLANK] = _CERTAIN  # as nothing is written, all frames are used
    encoded, _ = _compute_joint(weights, waveforms, scratch)
    _trigger_letters(weights, encoded[:, :width])
    shift[BLANK] = 0
    for _ in range(_BALANCED):
        _, said = _compute_joint(weights, waveforms, scratch)
        change = -said.mean(axis=0)
        change[LETTERS.index(" ")] += said.std(axis=0).mean()
        change[BLANK] = (said + change)[:, :BLANK].max(axis=1).mean() - shift[BLANK]
        shift += change


def _compute_joint(
    weights: Mapping[str, NDArray[np.float32]], waveforms: Sequence[np.ndarray], scratch: Path
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute the joint's inputs and outputs."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        write_parts(weights, Path(folder))
        network = load_parts(Path(folder))
        found = [said for waveform in waveforms for said in transcribe(network, waveform)[1]]
    sounds, said = zip(*found, strict=True)
    return np.concatenate(sounds), np.concatenate(said)


Network = Mapping[str, NetworkSession]


def load_parts(folder: Path) -> Network:
    return {part: NetworkSession(folder / part / MODEL) for part in PARTS}


def transcribe(network: Network, waveform: np.ndarray) -> tuple[list[int], list[tuple[np.ndarray, np.ndarray]]]:
    """Transcribe to letters, with the joint's inputs and outputs on the way."""
    said = []

    def compute(asked: tuple[str, Arrays]) -> list[np.ndarray]:
        part, inputs = asked
        outputs = network[part].compute(inputs)
        if part == "joint":
            said.append((inputs["encoded"], outputs[0]))
        return outputs

    return run_loop(loop({"samples": waveform}), compute).tolist(), said
