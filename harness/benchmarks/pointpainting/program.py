"""The reference's checkpoints for torch.export: the same inputs and outputs as those of the published ONNX files.

DeepLabV3+ has a ResNet-50 whose last stage uses dilation instead of a stride; PointPillars is that of automotive/
3d-object-detection in mlcommons/inference, up to the 4,096 likeliest boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from harness.benchmarks.pointpainting.boxes import FOUND
from harness.benchmarks.pointpainting.infos import CLASSES
from harness.benchmarks.pointpainting.points import (
    CELLS,
    DEVIATION,
    HIGHEST,
    LOWEST,
    MEAN,
    MOST_PILLARS,
    MOST_POINTS,
    PAINTED,
    SIZE,
)
from harness.benchmarks.saved_tensors import NamedWeights, load_state, name_attribute
from harness.errors import HarnessError

MODEL = "model.pt2"
_FIX = "use the reference checkpoint, see `reconcile fetch pointpainting`"
_RESNET = {"layer1": (3, 1), "layer2": (4, 2), "layer3": (6, 2), "layer4": (3, 1)}  # blocks, stride of the first
_FURTHER = "layer4"  # its blocks after the first have dilation 2
_ATROUS = (6, 12, 18)
_BLOCKS = ((3, 1), (5, 2), (5, 2))  # PointPillars: number of layers after the first one, and the first one's stride
_UPWARDS = (1, 2, 4)
_EPSILON, _PILLARS_EPSILON = 1e-5, 1e-3
_ANCHORS = (((0.84, 0.91, 1.74), -0.0345), ((0.84, 1.81, 1.77), 0.0), ((2.08, 4.73, 1.77), -0.1188))  # sizes, height
_ANGLES = (0, 1.57)
_MOST_PICTURES = 64  # maximum of a batch
Weights = Mapping[str, torch.Tensor]


class _Network(NamedWeights):
    def __init__(self, weights: Weights, epsilon: float) -> None:
        super().__init__({name: tensor.float() for name, tensor in weights.items() if tensor.is_floating_point()})
        self._epsilon = epsilon

    def normalise(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Normalise the batch, and set negative values to zero."""
        parts = (self.weight(f"{name}.{part}") for part in ("running_mean", "running_var", "weight", "bias"))
        return functional.batch_norm(x, *parts, eps=self._epsilon).relu()

    def convolve(self, x: torch.Tensor, name: str, norm: str, **settings: Any) -> torch.Tensor:
        return self.normalise(functional.conv2d(x, self.weight(f"{name}.weight"), **settings), norm)


class DeepLab(_Network):
    """Maps images uint8 [N, height, width, 3] to scores [N, 19, height, width]."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, _EPSILON)
        for name, values in (("mean", MEAN), ("deviation", DEVIATION)):
            self.register_buffer(name, torch.tensor(values))

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        x = ((images.float() / 255 - self.mean) / self.deviation).permute(0, 3, 1, 2)
        size = x.shape[2:]
        x = self.convolve(x, "backbone.conv1", "backbone.bn1", stride=2, padding=3)
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        low = None
        for layer, (blocks, stride) in _RESNET.items():
            for block in range(blocks):
                dilation = 2 if layer == _FURTHER and block else 1
                x = self._apply_block(x, f"backbone.{layer}.{block}", 1 if block else stride, dilation)
            low = x if low is None else low
        low = self._convolve_sequence(low, "classifier.project")
        x = functional.interpolate(self._apply_aspp(x), size=low.shape[2:], mode="bilinear", align_corners=False)
        x = self._convolve_sequence(torch.cat([low, x], dim=1), "classifier.classifier", padding=1)
        last = "classifier.classifier.3"
        x = functional.conv2d(x, self.weight(f"{last}.weight"), self.weight(f"{last}.bias"))
        return {"scores": functional.interpolate(x, size=size, mode="bilinear", align_corners=False)}

    def _convolve_sequence(self, x: torch.Tensor, name: str, first: int = 0, **settings: Any) -> torch.Tensor:
        return self.convolve(x, f"{name}.{first}", f"{name}.{first + 1}", **settings)

    def _apply_block(self, x: torch.Tensor, name: str, stride: int, dilation: int) -> torch.Tensor:
        inner = self.convolve(x, f"{name}.conv1", f"{name}.bn1")
        inner = self.convolve(inner, f"{name}.conv2", f"{name}.bn2", stride=stride, padding=dilation, dilation=dilation)
        inner = self._convolve_plainly(inner, f"{name}.conv3", f"{name}.bn3")
        if hasattr(self, name_attribute(f"{name}.downsample.0.weight")):
            x = self._convolve_plainly(x, f"{name}.downsample.0", f"{name}.downsample.1", stride=stride)
        return (inner + x).relu()

    def _convolve_plainly(self, x: torch.Tensor, name: str, norm: str, **settings: Any) -> torch.Tensor:
        """Apply a convolution and its normalisation, without setting negative values to zero."""
        x = functional.conv2d(x, self.weight(f"{name}.weight"), **settings)
        parts = (self.weight(f"{norm}.{part}") for part in ("running_mean", "running_var", "weight", "bias"))
        return functional.batch_norm(x, *parts, eps=self._epsilon)

    def _apply_aspp(self, x: torch.Tensor) -> torch.Tensor:
        name = "classifier.aspp"
        seen = [self._convolve_sequence(x, f"{name}.convs.0")]
        seen += [
            self._convolve_sequence(x, f"{name}.convs.{place}", padding=reach, dilation=reach)
            for place, reach in enumerate(_ATROUS, 1)
        ]
        whole = self._convolve_sequence(x.mean(dim=(2, 3), keepdim=True), f"{name}.convs.4", first=1)
        return self._convolve_sequence(torch.cat([*seen, whole.expand(-1, -1, *x.shape[2:])], dim=1), f"{name}.project")


class PointPillars(_Network):
    """Maps pillars [1, n, 20, 11], cells int64 [1, n, 4] and counts int32 [1, n] to boxes [1, 4096, 11]."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, _PILLARS_EPSILON)
        self.register_buffer("anchors", torch.from_numpy(list_anchors()))

    def forward(self, pillars: torch.Tensor, cells: torch.Tensor, counts: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self._spread(self._encode(pillars[0], cells[0], counts[0]), cells[0])
        made = []
        for block, ((layers, stride), upwards) in enumerate(zip(_BLOCKS, _UPWARDS, strict=True)):
            for layer in range(layers + 1):
                name = f"backbone.multi_blocks.{block}"
                step = 1 if layer else stride
                x = self.convolve(x, f"{name}.{3 * layer}", f"{name}.{3 * layer + 1}", stride=step, padding=1)
            name = f"neck.decoder_blocks.{block}"
            wider = functional.conv_transpose2d(x, self.weight(f"{name}.0.weight"), stride=upwards)
            made.append(self.normalise(wider, f"{name}.1"))
        x = torch.cat(made, dim=1)
        return {
            "boxes": self._choose(*(self._predict_maps(x, f"head.conv_{part}") for part in ("cls", "reg", "dir_cls")))
        }

    def _encode(self, pillars: torch.Tensor, cells: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return [n, 64]."""
        places = pillars[:, :, :3]
        offsets = places - places.sum(dim=1, keepdim=True) / counts[:, None, None]
        middles = [float(SIZE[axis]) * cells[:, None, axis + 1 : axis + 2] + _find_middle(axis) for axis in range(2)]
        x, y = (pillars[:, :, axis : axis + 1] - middles[axis] for axis in range(2))
        features = torch.cat([x, y, pillars[:, :, 2:], offsets, x, y], dim=2)
        there = torch.arange(MOST_POINTS, device=pillars.device)[None] < counts[:, None]
        features = (features * there[:, :, None]).permute(0, 2, 1)
        name = "pillar_encoder"
        found = functional.conv1d(features, self.weight(f"{name}.conv.weight"))
        return self.normalise(found, f"{name}.bn").amax(dim=2)

    def _spread(self, features: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
        """Return [1, 64, 468, 468], along y and x; zero at positions without a pillar."""
        whole = torch.zeros(CELLS * CELLS, features.shape[1], dtype=features.dtype, device=features.device)
        whole = whole.index_put((cells[:, 2] * CELLS + cells[:, 1],), features)
        return whole.reshape(1, CELLS, CELLS, -1).permute(0, 3, 1, 2).contiguous()

    def _predict_maps(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return [468, 468, values of the anchors there]."""
        return functional.conv2d(x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))[0].permute(1, 2, 0)

    def _choose(self, scores: torch.Tensor, deltas: torch.Tensor, ahead: torch.Tensor) -> torch.Tensor:
        likely = scores.reshape(-1, len(CLASSES)).float().sigmoid()
        best = likely.amax(dim=1).topk(FOUND)[1]
        anchors, moved = self.anchors[best], deltas.reshape(-1, 7)[best].float()
        diagonal = (anchors[:, 3:4] ** 2 + anchors[:, 4:5] ** 2).sqrt()
        sizes = anchors[:, 3:6] * moved[:, 3:6].exp()
        middle = moved[:, :2] * diagonal + anchors[:, :2]
        height = anchors[:, 5:6]
        bottom = moved[:, 2:3] * height + anchors[:, 2:3] + height / 2 - sizes[:, 2:] / 2
        looks = ahead.reshape(-1, 2)[best].argmax(dim=1, keepdim=True).float()
        return torch.cat([middle, bottom, sizes, anchors[:, 6:] + moved[:, 6:], likely[best], looks], dim=1)[None]


def _find_middle(axis: int) -> float:
    """Return the middle of the first column along an axis, in metres."""
    return float(SIZE[axis]) / 2 + float(LOWEST[axis])


def list_anchors() -> np.ndarray:
    """Return anchors, float32 [468 * 468 * 6, 7]: along y, then x, with two angles for each class."""
    lines = [torch.linspace(float(LOWEST[axis]), float(HIGHEST[axis]), CELLS + 1).numpy() for axis in range(2)]
    x, y = (line[:-1] + (line[1] - line[0]) / 2 for line in lines)
    anchors = np.empty((CELLS, CELLS, len(CLASSES), len(_ANGLES), 7), np.float32)
    anchors[..., 0], anchors[..., 1] = x[None, :, None, None], y[:, None, None, None]
    for number, (sizes, height) in enumerate(_ANCHORS):
        anchors[:, :, number, :, 2], anchors[:, :, number, :, 3:6] = height, sizes
    anchors[..., 6] = _ANGLES
    return anchors.reshape(-1, 7)


def write_segmentation_program(source: Path, folder: Path, height: int, width: int) -> None:
    network = DeepLab(load_state(source, "DeepLabV3+", _FIX, name="model_state")).eval()
    batch = torch.export.Dim("batch", min=1, max=_MOST_PICTURES)
    given = (torch.zeros(2, height, width, 3, dtype=torch.uint8),)
    _write(source, network, given, ({0: batch},), folder)


def write_detection_program(source: Path, folder: Path) -> None:
    network = PointPillars(load_state(source, "PointPillars", _FIX, name="model_state_dict")).eval()
    given = (
        torch.zeros(1, MOST_PILLARS, MOST_POINTS, PAINTED),
        torch.zeros(1, MOST_PILLARS, 4, dtype=torch.int64),
        torch.ones(1, MOST_PILLARS, dtype=torch.int32),
    )
    _write(source, network, given, None, folder)


def _write(source: Path, network: Any, given: Any, free: Any, folder: Path) -> None:
    try:
        with torch.no_grad():
            program = torch.export.export(network, given, dynamic_shapes=free)
    except AttributeError as error:
        raise HarnessError(f"{source} lacks weights of the published network: {error}", "input", _FIX) from error
    torch.export.save(program, folder / MODEL)
