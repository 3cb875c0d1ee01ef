"""Render an Endpoints submission: the same values give the same paths and bytes, on any machine, at any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.regions import Regions, derive_regions
from reconciler.endpoints.tree.content import (
    ACCURACY,
    CONFIG,
    DEDICATED,
    DESCRIPTION,
    DISCLOSURE,
    DOCUMENT_FILE,
    PENDING,
    POINT,
    POINT_FILE,
    POWER,
    README,
    SOURCE_FILE,
    SUMMARY,
    SYSTEM_FILE,
    CurveContent,
    EndpointsContent,
    PointContent,
    name_point,
)
from reconciler.endpoints.tree.point_file import collect_description, collect_point_fields, write_yaml
from reconciler.errors import ReconcilerError
from reconciler.tree.content import Content, Rendered
from reconciler.tree.documents import encode_json
from reconciler.tree.layout import make_path

# The READMEs of an Endpoints submission, and the disclosure of its software (rules §2.2.1, §8.4).

# Disclosures that the rules require of a service, and of a model other than the reference's (§2.3.1, §2.4.1).
_TERMS = (
    *(("advertised_model", "model as advertised"), ("pricing", "pricing"), ("rate_limits", "rate limits and quotas")),
    ("augmentations", "changes to the reference model"),
)
_SOFTWARE = ("inference_backend", "driver", "operating_system", "container_link", "other_software_stack", "sw_notes")


def render_source_readme(implementation: str, curves: Iterable[CurveContent]) -> bytes:
    """Render src/<implementation>/README.md: how to reproduce the measurement of a point."""
    lines = [f"# {implementation}", ""]
    lines += ["How each point of the submission was measured, and how to measure it again.", ""]
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
    """Render docs/software_disclosure.md, from the system descriptions."""
    lines = ["# Software", ""]
    for curve in curves:
        lines += [f"## {curve.model} on {curve.system}", "", "| component | version |", "|---|---|"]
        lines += [f"| serving framework | {_show(curve.description.get('serving_framework'))} |"]
        clients = sorted({point.measured.client for point in curve.points} - {""})
        lines += [f"| client | {_show(', '.join(clients))} |"]
        lines += [f"| {title} | {_show(curve.disclosed[name])} |" for name, title in _TERMS if name in curve.disclosed]
        nodes = curve.description.get("node_types")
        for node in nodes if isinstance(nodes, (list, tuple)) else ():
            found = node if isinstance(node, Mapping) else {}
            lines += [f"| {name.replace('_', ' ')} | {_show(found[name])} |" for name in _SOFTWARE if found.get(name)]
        lines += [""]
    return "\n".join(lines).encode()


def _show(value: object) -> str:
    return " ".join(str(value or "not stated").replace("|", "\\|").split())


def render_endpoints(submission: EndpointsContent, rules: CurveRules) -> Iterator[Rendered]:
    """Yield every file of the submission as (path with "/", content), sorted by path.

    Raises ReconcilerError if a name is not allowed in a tree, if two files have the same path, or if a system has two
    power descriptors.
    """
    files: dict[str, Content] = {}
    for path, content in _render_files(submission, rules):
        if path in files:
            raise ReconcilerError(f"two files claim {path} in the submission", fix="name the curves or points apart")
        files[path] = content
    yield from sorted(files.items(), key=lambda item: item[0])


def _render_files(submission: EndpointsContent, rules: CurveRules) -> Iterator[Rendered]:
    names = {"submitter": submission.submitter, "submission": PENDING}
    for implementation in sorted({curve.implementation for curve in submission.curves} | set(submission.code)):
        code = dict(submission.code.get(implementation, {}))
        curves = [curve for curve in submission.curves if curve.implementation == implementation]
        code.setdefault(README, render_source_readme(implementation, curves))
        for file, content in code.items():
            yield make_path(SOURCE_FILE, **names, implementation=implementation, file=file), content
    documents = dict(submission.documents)
    documents.setdefault(DISCLOSURE, render_disclosure(submission.curves))
    for file, content in documents.items():
        yield make_path(DOCUMENT_FILE, **names, file=file), content
    yield from _render_power(submission, names)
    for curve in submission.curves:
        yield from _render_curve(curve, rules, {**names, "system": curve.system, "model": curve.model})


def _render_power(submission: EndpointsContent, names: dict[str, str]) -> Iterator[Rendered]:
    """Render one file for each system, shared by all of its curves."""
    found: dict[str, bytes] = {}
    for curve in submission.curves:
        if curve.power:
            rendered = encode_json(curve.power)
            if found.setdefault(curve.system, rendered) != rendered:
                raise ReconcilerError(f"{curve.system} has two power descriptors", fix="declare `power` once")
    for system, rendered in found.items():
        yield make_path(SYSTEM_FILE, **names, system=system, file=POWER), rendered


def _render_curve(curve: CurveContent, rules: CurveRules, names: dict[str, str]) -> Iterator[Rendered]:
    regions = _find_regions(curve, rules)
    peak = max((point.measured.system_tps for point in curve.points), default=Decimal(0))
    for point in sorted(curve.points, key=lambda point: point.measured.concurrency):
        place = {**names, "point": name_point(point.measured.concurrency)}
        for file, content in _render_point(point, curve, regions, peak, rules):
            yield make_path(POINT_FILE, **place, file=file), content


def _find_regions(curve: CurveContent, rules: CurveRules) -> Regions:
    """Find the regions of all points like the official checker, including a dedicated Offline run. With a declared
    minimum, only points at a fixed concurrency count."""
    declared = curve.min_concurrency
    chosen = [point for point in curve.points if declared is None or point.offline != DEDICATED]
    return derive_regions((point.measured.concurrency for point in chosen), curve.max_concurrency, rules, declared)


def _render_point(
    point: PointContent, curve: CurveContent, regions: Regions, peak: Decimal, rules: CurveRules
) -> Iterator[Rendered]:
    yield POINT, write_yaml(collect_point_fields(point, curve, regions, rules))
    yield CONFIG, point.config
    yield SUMMARY, point.summary
    if point.accuracy is not None:
        yield ACCURACY, point.accuracy
    yield DESCRIPTION, encode_json(collect_description(point, curve, peak, rules))
