"""The layers of DLRM-DCNv2, with the weights' names in torchrec's DLRM_DCN and in the checkpoint. The DLRM of earlier
rounds has the same layers without a cross network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from harness.errors import HarnessError

DENSE = 13  # features
# For each of the 26 categorical features: values per pair, and rows of its table.
MULTI_HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
TABLE_ROWS = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10),
    *(2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36),
)
OUTPUT = "probability"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of the layers. ``values``: values per pair of each categorical feature; ``width``: width of an
    embedding; ``bottom`` and ``top``: layers of the two perceptrons; ``crosses``: layers of the cross network;
    ``rank``: rank of their products.

    Without a cross network, the embeddings of a pair are multiplied with each other (``interactions``). The default is
    the reference's DLRM-DCNv2.
    """

    rows: tuple[int, ...] = TABLE_ROWS
    values: tuple[int, ...] = MULTI_HOT
    width: int = 128
    bottom: tuple[int, ...] = (512, 256, 128)
    crosses: int = 3
    rank: int = 512
    top: tuple[int, ...] = (1024, 1024, 512, 256, 1)

    @property
    def joined(self) -> int:
        """The width of a pair in the cross network."""
        return (len(self.rows) + 1) * self.width

    @property
    def interactions(self) -> int:
        """The number of products of two embeddings of a pair. The dense features count as one embedding."""
        return len(self.rows) * (len(self.rows) + 1) // 2

    @property
    def given(self) -> int:
        """The input width of the top perceptron."""
        return self.joined if self.crosses else self.width + self.interactions


class Weights(Protocol):
    """A checkpoint's weights, by the names of ``list_weights``."""

    def read(self, name: str, out: np.ndarray | None = None) -> np.ndarray: ...


def name_table(number: int) -> str:
    return f"sparse_arch.embedding_bag_collection.embedding_bags.t_cat_{number}.weight"


def name_bottom(layer: int) -> str:
    return f"dense_arch.model._mlp.{layer}._linear"


def name_cross(what: str, layer: int) -> str:
    """Name a weight of the cross network. ``what``: "V_kernels", "W_kernels" or "bias"."""
    return f"inter_arch.crossnet.{what}.{layer}"


def name_top(layer: int, layers: int) -> str:
    return "over_arch.model.1" if layer == layers - 1 else f"over_arch.model.0._mlp.{layer}._linear"


def list_weights(shape: Shape) -> dict[str, tuple[int, ...]]:
    """List every weight with its shape."""
    found: dict[str, tuple[int, ...]] = {}
    for number, rows in enumerate(shape.rows):
        found[name_table(number)] = rows, shape.width
    for layer, (size, out) in enumerate(pairwise((DENSE, *shape.bottom))):
        found[f"{name_bottom(layer)}.weight"] = out, size
        found[f"{name_bottom(layer)}.bias"] = (out,)
    for layer in range(shape.crosses):
        found[name_cross("V_kernels", layer)] = shape.rank, shape.joined
        found[name_cross("W_kernels", layer)] = shape.joined, shape.rank
        found[name_cross("bias", layer)] = (shape.joined,)
    for layer, (size, out) in enumerate(pairwise((shape.given, *shape.top))):
        found[f"{name_top(layer, len(shape.top))}.weight"] = out, size
        found[f"{name_top(layer, len(shape.top))}.bias"] = (out,)
    return found


def find_shape(shapes: Mapping[str, tuple[int, ...]], reference: Shape | None = None) -> Shape:
    """Return the reference's shape with the checkpoint's widths. Raises HarnessError if weights do not fit together."""
    reference = reference or Shape()
    layers = len(reference.top)
    shape = replace(
        reference,
        rows=tuple(shapes[name_table(number)][0] for number in range(len(reference.rows))),
        width=shapes[name_table(0)][-1],
        bottom=tuple(shapes[f"{name_bottom(layer)}.bias"][0] for layer in range(len(reference.bottom))),
        rank=shapes[name_cross("V_kernels", 0)][0] if reference.crosses else reference.rank,
        top=tuple(shapes[f"{name_top(layer, layers)}.bias"][0] for layer in range(layers)),
    )
    for name, wanted in list_weights(shape).items():
        if shapes[name] != wanted:
            problem = f"{name} of the checkpoint is {list(shapes[name])}, by the others it should be {list(wanted)}"
            raise HarnessError(problem, "input", "use the reference's checkpoint")
    return shape
