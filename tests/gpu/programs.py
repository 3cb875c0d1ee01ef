"""Networks of this folder as programs of torch.export, with the weights of their ONNX files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HEAD = 64


def weights_of(model: Path) -> Iterator[torch.Tensor]:
    """Return the weights in the order in which they were drawn, without constants."""
    import onnx
    from onnx import numpy_helper

    for tensor in onnx.load(str(model)).graph.initializer:
        if tensor.name.startswith("weight"):
            yield torch.from_numpy(np.array(numpy_helper.to_array(tensor)))


class ResNet(nn.Module):
    """ResNet with batch normalisation folded into the convolutions, as in the ONNX file."""

    def __init__(self, weights: Iterator[torch.Tensor], blocks: list[int]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        self.plan: list[tuple[int, bool]] = []  # of each block: stride, and whether a convolution accompanies it
        self._weights = weights
        self._add(7, 2)
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage and not block else 1
                for size, step in ((1, 1), (3, stride), (1, 1)):
                    self._add(size, step)
                if not block:
                    self._add(1, stride)
                self.plan.append((stride, not block))
        matrix = next(weights)
        self.classes = nn.Linear(matrix.shape[1], matrix.shape[0])
        self.classes.weight.data, self.classes.bias.data = matrix, next(weights)

    def _add(self, size: int, stride: int) -> None:
        weight, bias = next(self._weights), next(self._weights)
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], size, stride, size // 2)
        layer.weight.data, layer.bias.data = weight, bias
        self.convolutions.append(layer)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        layers = iter(self.convolutions)
        top = functional.max_pool2d(torch.relu(next(layers)(image)), 3, 2, 1)
        for _, others in self.plan:
            inner = torch.relu(next(layers)(top))
            inner = torch.relu(next(layers)(inner))
            inner = next(layers)(inner)
            top = torch.relu(inner + (next(layers)(top) if others else top))
        return self.classes(top.mean((2, 3)))


class Bert(nn.Module):
    def __init__(self, weights: Iterator[torch.Tensor], layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Parameter(next(weights)), nn.Parameter(next(weights))
        self.width = self.words.shape[1]
        self.dense = nn.ModuleList(self._dense(next(weights), next(weights)) for _ in range(6 * layers + 1))
        self.layers = layers

    @staticmethod
    def _dense(matrix: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
        layer = nn.Linear(*matrix.shape)
        layer.weight.data, layer.bias.data = matrix.T.contiguous(), bias
        return layer

    def normalised(self, source: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(source, (self.width,), eps=1e-5)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        count, length = input_ids.shape
        top = self.normalised(functional.embedding(input_ids, self.words) + self.places[:length])
        masked = (attention_mask != 0)[:, None, None, :]
        for layer in range(self.layers):
            query, key, value, out, up, down = self.dense[6 * layer : 6 * layer + 6]
            split = [part(top).view(count, length, -1, HEAD).transpose(1, 2) for part in (query, key, value)]
            mixed = functional.scaled_dot_product_attention(*split, attn_mask=masked)
            middle = self.normalised(out(mixed.transpose(1, 2).reshape(count, length, self.width)) + top)
            top = self.normalised(down(functional.gelu(up(middle))) + middle)
        return self.dense[-1](top)


class UNet3d(nn.Module):
    def __init__(self, weights: Iterator[torch.Tensor], levels: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            self._block(weights, 2 if level and not half else 1) for level in range(levels) for half in (0, 1)
        )
        self.wide, self.up = nn.ModuleList(), nn.ModuleList()
        for _ in range(levels - 1):
            weight = next(weights)
            layer = nn.ConvTranspose3d(weight.shape[0], weight.shape[1], 2, 2, bias=False)
            layer.weight.data = weight
            self.wide.append(layer)
            self.up.append(nn.Sequential(self._block(weights, 1), self._block(weights, 1)))
        weight, bias = next(weights), next(weights)
        self.classes = nn.Conv3d(weight.shape[1], weight.shape[0], 1)
        self.classes.weight.data, self.classes.bias.data = weight, bias

    @staticmethod
    def _block(weights: Iterator[torch.Tensor], stride: int) -> nn.Sequential:
        weight, scale, shift = (next(weights) for _ in range(3))
        layer = nn.Conv3d(weight.shape[1], weight.shape[0], 3, stride, 1, bias=False)
        layer.weight.data = weight
        norm = nn.InstanceNorm3d(weight.shape[0], affine=True)
        norm.weight.data, norm.bias.data = scale, shift
        return nn.Sequential(layer, norm, nn.ReLU())

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002  # as in the ONNX file
        top, others = input, []
        for number, block in enumerate(self.down):
            top = block(top)
            if number % 2:
                others.append(top)
        others.pop()
        for wide, up in zip(self.wide, self.up, strict=True):
            top = up(torch.cat([wide(top), others.pop()], dim=1))
        return self.classes(top)


def save(module: nn.Module, samples: dict[str, tuple[tuple[int, ...], Any]], path: Path, largest: int = 4096) -> None:
    """``samples``: input name -> shape of a sample and dtype."""
    batch = torch.export.Dim("batch", min=1, max=largest)
    given = tuple(torch.ones(2, *shape, dtype=dtype) for shape, dtype in samples.values())
    free = {name: {0: batch} for name in samples}
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), given, dynamic_shapes=free), path)


def export_resnet(model: Path, blocks: list[int], side: int) -> None:
    """Write model.pt2 next to ``model``, an ONNX file."""
    save(ResNet(weights_of(model), blocks), {"image": ((3, side, side), torch.float32)}, model.with_suffix(".pt2"))


def export_bert(model: Path, layers: int, length: int) -> None:
    shapes = dict.fromkeys(("input_ids", "attention_mask"), ((length,), torch.int32))
    save(Bert(weights_of(model), layers), shapes, model.with_suffix(".pt2"))


def export_unet3d(model: Path, levels: int, side: int) -> None:
    shapes = {"input": ((1, side, side, side), torch.float32)}
    save(UNet3d(weights_of(model), levels), shapes, model.with_suffix(".pt2"), largest=64)
