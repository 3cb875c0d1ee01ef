"""Lower packed programs for computation, in their precision and with related operators fused.

``quantize_linears`` is another lowering: matrix products in fp8, with calibrated scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import getitem
from typing import Any

import torch

from harness.backends.pytorch.packed_operators import (
    ALIGNED,
    FP8,
    add_and_normalize,
    attend_fp8,
    choose_scale,
    linear_gelu_fp8,
)
from harness.run.packing import BOUNDS

_ATEN, _PACKED = torch.ops.aten, torch.ops.packed
_KEPT = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float16}
"""The type of values that are not in fp8, by precision."""


def is_packed(program: torch.export.ExportedProgram) -> bool:
    return BOUNDS in program.graph_signature.user_inputs


def open_program(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return the program's module, without the checks added by the export."""
    module = program.module()
    for node in list(module.graph.nodes):
        checks = node.target in (_ATEN._assert_tensor_metadata.default, _ATEN._assert_scalar.default)
        if checks or (node.op == "call_module" and not node.users):
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def holds_fp8(module: torch.fx.GraphModule) -> bool:
    return any(node.target is _PACKED.linear_fp8.default for node in module.graph.nodes)


def lower_program(module: torch.fx.GraphModule, precision: str, device: str) -> torch.fx.GraphModule:
    """Lower on ``device``, in place."""
    kept = _KEPT[precision]
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.dtype != FP8 and tensor.is_floating_point() and tensor.ndim:  # scales are scalars
            tensor.data = tensor.data.to(kept)
    module.to(device)
    _fuse(module)
    return module


def _fuse(module: torch.fx.GraphModule) -> None:
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is _ATEN.layer_norm.default and len(node.args[1]) == 1 and len(node.args) > 3:
            _fuse_norm(graph, node)
        elif node.target is _PACKED.quantize.default:
            _fuse_rounding(graph, node)
    graph.eliminate_dead_code()
    graph.lint()
    module.recompile()


def _fuse_norm(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Fuse a sum, its normalisation, and the rounding to fp8."""
    value, _, weight, bias = node.args[:4]
    eps = node.args[4] if len(node.args) > 4 else node.kwargs.get("eps", 1e-5)
    residual = None
    plain = value.target is _ATEN.add.Tensor and len(value.users) == 1 and not value.kwargs
    if plain and all(isinstance(item, torch.fx.Node) for item in value.args):
        value, residual = value.args
    rounded = [user for user in node.users if user.target is _PACKED.quantize.default]
    scales = {str(user.args[1].target) for user in rounded}
    with graph.inserting_before(node):
        scale = graph.get_attr(scales.pop()) if len(scales) == 1 else None
        both = graph.call_function(add_and_normalize, (value, residual, weight, bias, eps, scale))
        normal = graph.call_function(getitem, (both, 0))
        lowered = graph.call_function(getitem, (both, 1))
    for user in rounded if scale is not None else ():
        user.replace_all_uses_with(lowered)
        graph.erase_node(user)
    node.replace_all_uses_with(normal)
    graph.erase_node(node)


def _fuse_rounding(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Compute a value directly in the rounded type if only the rounded value is used."""
    value, scale = node.args
    if not isinstance(value, torch.fx.Node) or len(value.users) != 1:
        return
    target: Callable[..., Any]
    if value.target is _PACKED.attend.default:
        target, arguments = attend_fp8, (*value.args, scale)
    elif value.target is _ATEN.gelu.default and _is_exact(value) and _is_lone_product(value.args[0]):
        target, arguments = linear_gelu_fp8, (*value.args[0].args, scale)
    else:
        return
    with graph.inserting_before(node):
        node.replace_all_uses_with(graph.call_function(target, arguments))
    graph.erase_node(node)


def _is_exact(gelu: torch.fx.Node) -> bool:
    return len(gelu.args) == 1 and gelu.kwargs.get("approximate", "none") == "none"


def _is_lone_product(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.target is _PACKED.linear_fp8.default and len(node.users) == 1


def find_linears(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Find products that can be computed in fp8: they have constant weights, a bias, and sizes that cuBLAS supports."""
    found = []
    for node in module.graph.nodes:
        if node.target is _ATEN.linear.default and len(node.args) == 3 and node.args[1].op == "get_attr":
            weight = _find_attribute(module, node.args[1].target)
            if all(extent % ALIGNED == 0 for extent in weight.shape):
                found.append(node)
    return found


class RangeRecorder(torch.fx.Interpreter):  # type: ignore[misc]  # torch is not type-checked here
    """Runs a program, and records the largest input magnitude of each of ``find_linears``."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.most: dict[str, float] = {}
        self._asked = {node.name: node.args[0].name for node in find_linears(module)}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.name in self._asked:
            given = self.fetch_args_kwargs_from_env(n)[0][0]
            self.most[n.name] = max(self.most.get(n.name, 0.0), float(given.abs().max()))
        return super().run_node(n)


def quantize_linears(module: torch.fx.GraphModule, most: Mapping[str, float]) -> int:
    """Replace ``find_linears`` by products in fp8, in place; return their number. ``most``: see RangeRecorder."""
    graph = module.graph
    linears = find_linears(module)
    for number, node in enumerate(linears):
        value, weight_node, bias = node.args
        weight = _find_attribute(module, weight_node.target).detach().float()
        weight_scale = choose_scale(weight.abs().max())
        made: dict[str, torch.Tensor] = {
            "weight": (weight / weight_scale).to(FP8),
            "weight_scale": weight_scale,
            "scale": choose_scale(most[node.name]),
        }
        for name, tensor in made.items():
            module.register_buffer(f"product{number}_{name}", tensor)
        with graph.inserting_before(node):
            inner = {name: graph.get_attr(f"product{number}_{name}") for name in made}
            rounded = graph.call_function(_PACKED.quantize.default, (value, inner["scale"]))
            product = graph.call_function(
                _PACKED.linear_fp8.default, (rounded, inner["weight"], bias, inner["scale"], inner["weight_scale"])
            )
        node.replace_all_uses_with(product)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    graph.lint()
    _drop_unused(module)
    module.recompile()
    return len(linears)


def _drop_unused(module: torch.fx.GraphModule) -> None:
    used = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in (*module.named_parameters(), *module.named_buffers()) if name not in used]:
        folder, _, last = name.rpartition(".")
        delattr(module.get_submodule(folder), last)


def _find_attribute(module: torch.fx.GraphModule, target: str) -> torch.Tensor:
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part)
    return found
