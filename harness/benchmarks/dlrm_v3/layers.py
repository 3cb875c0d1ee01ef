"""The weights of HSTU by their names in the reference's checkpoint, with their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

HEADS = 4
ACTIONS = (1, 2, 4, 8, 16)
ACTION_WIDTH = 8
TIME_FEATURES = 4  # sine and cosine of the hour and of the weekday
LEAST_REQUEST = 20  # with fewer items of a history and its candidates, the user is not looked up
ITEMS, CATEGORIES, USERS = "item_id", "item_category_id", "user_id"

TRANSDUCER = "_hstu_transducer"
PREPROCESSOR = f"{TRANSDUCER}._input_preprocessor"
POSITIONS = f"{TRANSDUCER}._positional_encoder._position_embeddings_weight"
TIMES = f"{TRANSDUCER}._positional_encoder._timestamp_embeddings_weight"
POSTPROCESSOR = f"{TRANSDUCER}._output_postprocessor"
ITEM_MLP = "_item_embedding_mlp"
PREDICTION = "_multitask_module._prediction_module"
CONTENT_MLP, CATEGORY_MLP, ACTION_MLP = (
    f"{PREPROCESSOR}._{name}_embedding_mlp" for name in ("content", "additional", "action")
)
ACTION_TABLE = f"{PREPROCESSOR}._action_encoder._action_embedding_table"
TARGET_ACTIONS = f"{PREPROCESSOR}._action_encoder._target_action_embedding_table"
USER_WEIGHT = f"{PREPROCESSOR}._batched_contextual_linear_weights"
USER_BIAS = f"{PREPROCESSOR}._batched_contextual_linear_bias"


@dataclass(frozen=True, slots=True, kw_only=True)
class HstuShape:
    """``embedding``: width of a table's row; ``width``: width of HSTU; ``hidden``: width of the layers that prepare its
    inputs; ``joined``: width of those that join users and items; ``linear`` and ``attention``: widths of a head.
    Defaults are the reference's."""

    embedding: int = 512
    width: int = 512
    hidden: int = 256
    joined: int = 512
    linear: int = 128
    attention: int = 128
    layers: int = 5
    positions: int = 8192
    times: int = 2049


def name_layer(layer: int, what: str) -> str:
    return f"{TRANSDUCER}._stu_module._stu_layers.{layer}._{what}"


def list_weights(shape: HstuShape) -> dict[str, tuple[int, ...]]:
    """List every weight with its shape, except those of the tables."""
    return dict(_walk_weights(shape))


def find_shape(sizes: Mapping[str, tuple[int, ...]]) -> HstuShape:
    """Find the shape of a checkpoint's weights. Raises KeyError if one is missing."""
    layers = 0
    while name_layer(layers, "uvqk_weight") in sizes:
        layers += 1
    joint, linear = sizes[name_layer(0, "uvqk_weight")][1] // HEADS, sizes[name_layer(0, "output_norm_weight")][0]
    return HstuShape(
        embedding=sizes[USER_WEIGHT][1],
        width=sizes[USER_WEIGHT][2],
        hidden=sizes[f"{CONTENT_MLP}.0.bias"][0],
        joined=sizes[f"{ITEM_MLP}.0.bias"][0],
        linear=linear // HEADS,
        attention=joint // 2 - linear // HEADS,
        layers=layers,
        positions=sizes[POSITIONS][0],
        times=sizes[TIMES][0],
    )


def _walk_weights(shape: HstuShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, hidden = shape.width, shape.hidden
    yield USER_WEIGHT, (1, shape.embedding, width)
    yield USER_BIAS, (1, width)
    yield ACTION_TABLE, (len(ACTIONS), ACTION_WIDTH)
    yield TARGET_ACTIONS, (1, len(ACTIONS) * ACTION_WIDTH)
    for name, size in (
        (CONTENT_MLP, shape.embedding),
        (CATEGORY_MLP, shape.embedding),
        (ACTION_MLP, len(ACTIONS) * ACTION_WIDTH),
    ):
        yield from _walk_mlp(name, size, hidden, width, normed=True)
    yield from _walk_mlp(ITEM_MLP, 2 * shape.embedding, shape.joined, width, normed=True)
    yield from _walk_mlp(PREDICTION, width, shape.joined, 1, normed=False)
    yield POSITIONS, (shape.positions, width)
    yield TIMES, (shape.times, width)
    for layer in range(shape.layers):
        joint = 2 * HEADS * (shape.linear + shape.attention)
        yield name_layer(layer, "uvqk_weight"), (width, joint)
        yield name_layer(layer, "uvqk_beta"), (joint,)
        yield from ((name_layer(layer, f"input_norm_{what}"), (width,)) for what in ("weight", "bias"))
        yield name_layer(layer, "output_weight"), (3 * HEADS * shape.linear, width)
        yield from ((name_layer(layer, f"output_norm_{what}"), (HEADS * shape.linear,)) for what in ("weight", "bias"))
    yield f"{POSTPROCESSOR}._time_feature_combiner.weight", (width, width + TIME_FEATURES)
    yield f"{POSTPROCESSOR}._time_feature_combiner.bias", (width,)
    yield from ((f"{POSTPROCESSOR}._layer_norm.{what}", (width,)) for what in ("weight", "bias"))


def _walk_mlp(name: str, size: int, hidden: int, out: int, *, normed: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield a linear layer, swish with a layer norm, a second linear layer, and for most a second layer norm."""
    yield f"{name}.0.weight", (hidden, size)
    yield f"{name}.0.bias", (hidden,)
    yield from ((f"{name}.1.{what}", (hidden,)) for what in ("weight", "bias"))
    yield f"{name}.2.weight", (out, hidden)
    yield f"{name}.2.bias", (out,)
    if normed:
        yield from ((f"{name}.3.{what}", (out,)) for what in ("weight", "bias"))
