"""A small KiTS19 of generated volumes, and a network with the reference's signature that finds classes in them.

Labels are the network's own fp32 answers, written to the positions that resampling reads. Volumes are finer than the
benchmark's spacing, so each position of an answer has its own position in the labels.
"""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors, run_loop
from harness.benchmarks.sources import REHEARSAL, read_case_names
from harness.benchmarks.unet3d import CLASSES, IMAGE, LABELS, SIDE, SPACING, loop, prepare_case
from harness.contract import Counter
from harness.run.qsl import Arrays

MODEL = "3dUNetKiTS19.onnx"
_SHAPES = ((128, 128, 128), (128, 128, 192), (128, 128, 128), (192, 128, 128))  # shapes of prepared volumes
_FINER = (1.25, 1.125, 1.125)  # by how much volumes on disk are finer
_WIDTHS = {"small": (), "full": (32, 64, 128, 256, 320)}
_WINDOW: Tensors = {"input": ("float32", ["N", 1, SIDE, SIDE, SIDE])}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    names = read_case_names("unet3d", count)
    rng = np.random.default_rng(seed)
    (data / REHEARSAL).write_text("{}", encoding="utf-8")
    affine = np.diag([*(side / finer for side, finer in zip(SPACING, _FINER, strict=True)), 1.0])
    for number, name in enumerate(names):
        (data / name).mkdir()
        volume = draw_volume(rng, _SHAPES[number % len(_SHAPES)])
        nibabel.save(nibabel.Nifti1Image(volume, affine), data / name / IMAGE)
        nibabel.save(nibabel.Nifti1Image(np.zeros(volume.shape, np.uint8), affine), data / name / LABELS)
    first, _ = prepare_case(data / names[0])
    write_network(models / MODEL, rng, first[None, :, :SIDE, :SIDE, :SIDE], _WIDTHS[size])
    session = NetworkSession(models / MODEL)
    for name in names:
        answer = _answer(session, prepare_case(data / name)[0])
        shape = nibabel.load(data / name / IMAGE).shape
        labels = nibabel.Nifti1Image(_spread(answer, shape), affine)
        nibabel.save(labels, data / name / LABELS)
        counter.bump(1)


def draw_volume(rng: np.random.Generator, prepared: tuple[int, ...]) -> NDArray[np.int16]:
    """Draw smooth intensities in Hounsfield units, so fine that their shape in the benchmark's spacing is
    ``prepared``."""
    coarse = rng.normal(100, 120, (8, 8, 8))
    shape = [round(side * finer) for side, finer in zip(prepared, _FINER, strict=True)]
    smooth = zoom(coarse, [side / 8 for side in shape], order=1)
    volume: NDArray[np.int16] = (smooth + rng.normal(0, 10, shape)).astype(np.int16)
    return volume


def _answer(session: NetworkSession, volume: NDArray[np.float32]) -> NDArray[np.uint8]:
    def compute(asked: Arrays) -> list[np.ndarray]:
        return [np.concatenate([session.compute({"input": row[None]})[0] for row in asked["input"]])]

    return run_loop(loop({"input": volume}), compute)


def _spread(answer: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Make labels of this shape that resample to ``answer``. Each value is written to the position that resampling
    reads."""
    read = [
        zoom(np.arange(side), there / side, order=0, mode="constant", grid_mode=False)
        for side, there in zip(shape, answer.shape[1:], strict=True)
    ]
    labels = np.zeros(shape, np.uint8)
    labels[np.ix_(*read)] = answer[0]
    return labels


def write_network(path: Path, rng: np.random.Generator, window: NDArray[np.float32], widths: tuple[int, ...]) -> None:
    """Map input float32 [N, 1, 128, 128, 128] to output float32 [N, 3, 128, 128, 128]; each class is the likeliest at
    about the same number of positions of ``window``."""
    net = NetworkBuilder(rng)
    if widths:
        top = write_unet(net, widths, 1, CLASSES)
    else:
        blocks = write_blocks(net, 1, CLASSES)
        intensity = net.node("Mul", ["input", net.constant(np.array([-0.5, 0.1, 0.5]).reshape(1, 3, 1, 1, 1))])
        top = net.node("Add", [blocks, intensity])
    scores: Tensors = {"output": ("float32", ["N", CLASSES, SIDE, SIDE, SIDE])}
    save_balanced(net, path, "unet3d_rehearsal", top, _WINDOW, scores, window)


def save_balanced(
    net: NetworkBuilder,
    path: Path,
    name: str,
    top: str,
    inputs: Tensors,
    outputs: Tensors,
    sample: NDArray[np.float32],
) -> None:
    """Save a network whose classes are each the likeliest at about the same number of positions of ``sample``.
    ``top``: the name of their scores."""
    ((output, (dtype, shape)),) = outputs.items()
    net.save(path, "features", inputs, {top: (dtype, shape)})
    (found,) = NetworkSession(path).compute({"input": sample})
    mean, spread = (
        part.reshape(1, -1, 1, 1, 1) for part in (found.mean(axis=(0, 2, 3, 4)), found.std(axis=(0, 2, 3, 4)))
    )
    centred = net.node("Sub", [top, net.constant(mean)])
    net.node("Div", [centred, net.constant(spread + 1e-3)], output)
    net.save(path, name, inputs, outputs)


def write_blocks(net: NetworkBuilder, images: int, classes: int) -> str:
    """Write the pattern of blocks of 8 x 8 x 8."""
    kernel, shift = net.weight((8, images, 8, 8, 8), 0.05), net.weight((8,), 0.5)
    blocks = net.node("Relu", [net.node("Conv", ["input", kernel, shift], kernel_shape=[8] * 3, strides=[8] * 3)])
    up = net.weight((8, classes, 8, 8, 8), 0.3)
    return net.node("ConvTranspose", [blocks, up], kernel_shape=[8] * 3, strides=[8] * 3)


def write_unet(net: NetworkBuilder, widths: tuple[int, ...], images: int, classes: int) -> str:
    """Write two convolutions per level on the way down and up, halving and doubling between levels."""
    top, channels, levels = "input", images, []
    for depth, width in enumerate(widths):
        top = net.convolution(top, channels, width, 3, 2 if depth else 1, axes=3)
        top = net.convolution(top, width, width, 3, axes=3)
        levels.append((top, width))
        channels = width
    for shortcut, width in reversed(levels[:-1]):
        up = net.weight((channels, width, 2, 2, 2), (1 / (4 * channels)) ** 0.5)
        wide = net.node("ConvTranspose", [top, up], kernel_shape=[2] * 3, strides=[2] * 3)
        top = net.node("Concat", [wide, shortcut], axis=1)
        top = net.convolution(net.convolution(top, 2 * width, width, 3, axes=3), width, width, 3, axes=3)
        channels = width
    return net.convolution(top, channels, classes, 1, axes=3, active=False)
