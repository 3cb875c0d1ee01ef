"""The READMEs of an Endpoints submission, and the disclosure of its software (rules §2.2.1, §8.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.endpoints.tree.content import CurveContent
from reconciler.endpoints.tree.layout import name_point

# What the rules ask of a service, and of a model that is not the reference's (§2.3.1, §2.4.1).
_TERMS = (
    *(("advertised_model", "model as advertised"), ("pricing", "pricing"), ("rate_limits", "rate limits and quotas")),
    ("augmentations", "changes to the reference model"),
)
_SOFTWARE = ("inference_backend", "driver", "operating_system", "container_link", "other_software_stack", "sw_notes")


def render_source_readme(implementation: str, curves: Iterable[CurveContent]) -> bytes:
    """src/<implementation>/README.md: how a point is measured again."""
    lines = [
        f"# {implementation}",
        "",
        "How each point of the submission was measured, and how to measure it again.",
        "",
    ]
    for curve in curves:
        points = ", ".join(name_point(point.measured.concurrency) for point in curve.points)
        lines += [f"## {curve.model} on {curve.system}", "", f"Points: {points}.", ""]
        lines += ["Every point's folder holds `config.yaml`, the configuration that the client ran with:", ""]
        lines += ["```", "inference-endpoint benchmark from-config --config config.yaml", "```", ""]
        if framework := curve.description.get("serving_framework"):
            lines += [f"Served by {framework}.", ""]
        if configuration := curve.description.get("node_config"):
            lines += [str(configuration), ""]
    lines += ["In the repository that holds the submission spec, `reconcile plan` says what would run again, and why;"]
    lines += ["`reconcile apply` runs it."]
    return ("\n".join(lines) + "\n").encode()


def render_disclosure(curves: Iterable[CurveContent]) -> bytes:
    """docs/software_disclosure.md, from the system descriptions."""
    lines = ["# Software", ""]
    for curve in curves:
        lines += [f"## {curve.model} on {curve.system}", "", "| component | version |", "|---|---|"]
        lines += [f"| serving framework | {_cell(curve.description.get('serving_framework'))} |"]
        lines += [
            f"| client | {_cell(', '.join(sorted({p.measured.client for p in curve.points if p.measured.client})))} |"
        ]
        lines += [f"| {title} | {_cell(curve.disclosed[name])} |" for name, title in _TERMS if name in curve.disclosed]
        nodes = curve.description.get("node_types")
        for node in nodes if isinstance(nodes, (list, tuple)) else ():
            lines += _node(node) if isinstance(node, Mapping) else []
        lines += [""]
    return "\n".join(lines).encode()


def _node(node: Mapping[str, Any]) -> list[str]:
    return [f"| {name.replace('_', ' ')} | {_cell(node[name])} |" for name in _SOFTWARE if node.get(name)]


def _cell(value: object) -> str:
    return " ".join(str(value or "not stated").replace("|", "\\|").split())
