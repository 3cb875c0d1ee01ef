"""Handwritten digits: the UCI "Optical Recognition of Handwritten Digits" test set, from scikit-learn.

1797 images of 8 x 8 pixels with 17 grey levels in ten classes: real data written by people. LoadGen runs on 1024 of
them, and these are scored; the other 773 train a small convolutional net. The split is drawn from a fixed seed.
Training is plain numpy, deterministic for a seed on one kind of machine, and takes seconds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import TensorBenchmark
from harness.contract import Counter
from harness.errors import require

HELD_OUT = 1024
CHANNELS = (16, 32)
CLASSES = 10
SIDE = 8

Floats = NDArray[np.float32]
Parameters = dict[str, Floats]


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write samples.npy float32 [1024, 1, 8, 8] in -1..1 and labels.npy int64 [1024]; likewise train_*.npy, 773 each.

    ``settings``: seed (of the split).
    """
    rows = np.loadtxt(_find_digits(), delimiter=",")
    samples = (rows[:, :-1].reshape(-1, 1, SIDE, SIDE) / 8.0 - 1.0).astype(np.float32)
    labels = rows[:, -1].astype(np.int64)
    order = np.random.default_rng(int(settings.get("seed", 1))).permutation(len(labels))
    counter.bump(len(labels))
    for name, chosen in (("", order[:HELD_OUT]), ("train_", order[HELD_OUT:])):
        np.save(output / f"{name}samples.npy", samples[chosen])
        np.save(output / f"{name}labels.npy", labels[chosen])


def _find_digits() -> Path:
    """Find the file inside scikit-learn. Each line has 64 grey levels of 0..16 and the label. Loading the library would
    take longer than all processing of the file."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    return require(Path(found.origin).parent / "datasets/data/digits.csv.gz", "the digits that scikit-learn carries")


def load_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    """Load the training part."""
    return {"samples": np.load(dataset / "train_samples.npy", mmap_mode="r")}


def build_model(
    _source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Train on the training part, and export the model. ``settings``: seed (of weights and order), epochs."""
    samples = np.load(inputs["dataset"] / "train_samples.npy")
    labels = np.load(inputs["dataset"] / "train_labels.npy")
    epochs = int(settings.get("epochs", 40))
    counter.stage("building", epochs)
    parameters = train(samples, labels, seed=int(settings.get("seed", 1)), epochs=epochs, counter=counter)
    export(parameters, output / "model.onnx")


def train(samples: Floats, labels: NDArray[np.int64], *, seed: int, epochs: int, counter: Counter) -> Parameters:
    """Train by Adam on shifted copies of the images, with a step size that falls to zero and cross-entropy loss."""
    rng = np.random.default_rng(seed)
    parameters = draw_parameters(rng)
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    batches = -(-len(samples) // 32)
    for epoch in range(epochs):
        for number, chosen in enumerate(np.array_split(rng.permutation(len(samples)), batches)):
            gradients = compute_gradients(parameters, shift_images(samples[chosen], rng), labels[chosen])
            step = epoch * batches + number + 1
            rate = 3e-3 * (1 - step / (epochs * batches + 1))
            for name, gradient in gradients.items():
                first[name] += 0.1 * (gradient - first[name])
                second[name] += 0.001 * (gradient * gradient - second[name])
                scale = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                parameters[name] -= rate * first[name] / (1 - 0.9**step) / scale
        counter.bump(1)
    return parameters


def draw_parameters(rng: np.random.Generator) -> Parameters:
    """Draw initial weights for rectified layers (He et al. 2015); biases are zero."""
    shapes = {
        "conv1": (CHANNELS[0], 1, 3, 3),
        "conv2": (CHANNELS[1], CHANNELS[0], 3, 3),
        "dense": (CLASSES, CHANNELS[1] * SIDE * SIDE // 4),
    }
    parameters: Parameters = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        parameters[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)
        parameters[name + "_bias"] = np.zeros(shape[0], np.float32)
    return parameters


def shift_images(images: Floats, rng: np.random.Generator) -> Floats:
    """Move every image by at most one pixel each way, and fill the border with background."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-1.0)
    down, right = rng.integers(0, 3, (2, len(images)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), axis=(2, 3))
    return windows[np.arange(len(images)), :, down, right]


def cut_patches(images: Floats) -> Floats:
    """Return the 3 x 3 neighbourhood of every pixel: [n, 8, 8, channels] -> [n, 8, 8, channels * 9]."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    found = np.empty((*images.shape, 3, 3), images.dtype)
    for row in range(3):
        for column in range(3):
            found[..., row, column] = padded[:, row : row + SIDE, column : column + SIDE]
    return found.reshape(len(images), SIDE, SIDE, -1)


def sum_patches(columns: Floats, channels: int) -> Floats:
    """The adjoint of ``cut_patches``: sum each pixel's values over all neighbourhoods."""
    blocks = columns.reshape(-1, SIDE, SIDE, channels, 3, 3)
    padded = np.zeros((len(blocks), SIDE + 2, SIDE + 2, channels), np.float32)
    for row in range(3):
        for column in range(3):
            padded[:, row : row + SIDE, column : column + SIDE] += blocks[..., row, column]
    return padded[:, 1:-1, 1:-1]


def convolve(parameters: Parameters, name: str, columns: Floats) -> Floats:
    """Rectified convolution: [n, 8, 8, channels * 9] -> [n, 8, 8, channels]."""
    weights = parameters[name].reshape(len(parameters[name]), -1)
    sums = columns @ weights.T
    sums += parameters[name + "_bias"]
    active: Floats = np.maximum(sums, 0, out=sums)
    return active


def compute_gradients(parameters: Parameters, images: Floats, labels: NDArray[np.int64]) -> Parameters:
    """Return the gradients of the mean cross-entropy for every parameter."""
    count, half = len(images), SIDE // 2
    columns1 = cut_patches(images.reshape(count, SIDE, SIDE, 1))
    active1 = convolve(parameters, "conv1", columns1)
    columns2 = cut_patches(active1)
    active2 = convolve(parameters, "conv2", columns2)
    cells = active2.reshape(count, half, 2, half, 2, CHANNELS[1])
    pooled = cells.max(axis=(2, 4))
    flat = pooled.transpose(0, 3, 1, 2).reshape(count, -1)  # in the order of the exported net's dense layer
    scores = flat @ parameters["dense"].T + parameters["dense_bias"]
    slope = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(count), labels] -= 1
    slope /= count
    back = (slope @ parameters["dense"]).reshape(count, CHANNELS[1], half, half).transpose(0, 2, 3, 1)
    largest = (cells == pooled[:, :, None, :, None]) & (cells > 0)
    back2 = (back[:, :, None, :, None] * largest).reshape(active2.shape)
    gradients = {"dense": slope.T @ flat, "dense_bias": slope.sum(axis=0)}
    rows2 = back2.reshape(-1, CHANNELS[1])
    differentiate(parameters, "conv2", columns2, rows2, gradients)
    slope1 = sum_patches(rows2 @ parameters["conv2"].reshape(CHANNELS[1], -1), CHANNELS[0])
    rows1 = (slope1 * (active1 > 0)).reshape(-1, CHANNELS[0])
    differentiate(parameters, "conv1", columns1, rows1, gradients)
    return gradients


def differentiate(parameters: Parameters, name: str, columns: Floats, rows: Floats, gradients: Parameters) -> None:
    """Add a convolution's gradients to the others. ``rows``: the gradient of its sums, [n * 64, channels]."""
    gradients[name] = (rows.T @ columns.reshape(len(rows), -1)).reshape(parameters[name].shape)
    gradients[name + "_bias"] = rows.sum(axis=0)


def export(parameters: Parameters, path: Path) -> None:
    """Export the trained net as ONNX: input "image" float32 [batch, 1, 8, 8], output "scores" float32 [batch, 10]."""
    from harness.benchmarks.network_builder import NetworkBuilder, Tensors  # the Dataset child needs no onnx

    net = NetworkBuilder(np.random.default_rng(0))
    top = "image"
    for layer in ("conv1", "conv2"):
        weights = [net.constant(parameters[name], name=name) for name in (layer, f"{layer}_bias")]
        top = net.node("Relu", [net.node("Conv", [top, *weights], kernel_shape=[3, 3], pads=[1, 1, 1, 1])])
    flat = net.node("Flatten", [net.node("MaxPool", [top], kernel_shape=[2, 2], strides=[2, 2])])
    net.node(
        "Gemm",
        [flat, *(net.constant(parameters[name], name=name) for name in ("dense", "dense_bias"))],
        "scores",
        transB=1,
    )
    inputs: Tensors = {"image": ("float32", ["batch", 1, SIDE, SIDE])}
    net.save(path, "digits", inputs, {"scores": ("float32", ["batch", CLASSES])})


class Digits(TensorBenchmark):
    outputs = {"scores": ((CLASSES,), "float32")}
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_calibration = staticmethod(load_calibration)


BENCHMARK = Digits()
