"""documentation/calibration.md as far as records have it: what calibrated each published model, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.resource.quantities import join_listing

_AS_IS = "The published weights are used as they are: nothing is quantized or calibrated."
_TOLD = ("document", "comparison", "scores")  # inputs of a model: shown in full, or of no concern here


class Calibration(Struct, frozen=True):
    """``precision``: of the engine or the run. ``settings``: with which the model was made. ``made``: the facts of its
    record about the quantization; ``source``: the digest of the file that was quantized."""

    cells: tuple[str, ...]
    benchmark: str
    precision: str
    settings: Mapping[str, object] = field(default_factory=dict)
    made: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


def render_calibration(found: Iterable[Calibration]) -> bytes:
    """A section for each model, in the order of the benchmarks."""
    parts = ["# Calibration", ""]
    for item in sorted(join_alike(found), key=lambda item: (item.benchmark, item.cells)):
        parts += [f"## {item.benchmark}", "", f"Of {join_listing(list(item.cells))}.", "", *_render(item), ""]
    return "\n".join(parts).encode()


def join_alike(found: Iterable[Calibration]) -> list[Calibration]:
    """Cells of a benchmark of whose models the document says the same share a section."""
    groups: dict[tuple[str, ...], list[Calibration]] = {}
    for item in found:
        groups.setdefault((item.benchmark, *_render(item)), []).append(item)
    return [
        replace(group[0], cells=tuple(sorted(cell for item in group for cell in item.cells)))
        for group in groups.values()
    ]


def _render(item: Calibration) -> Sequence[str]:
    lines = [f"- Precision: {item.precision}"] if item.precision else []
    lines += [f"- Source of the weights: SHA-256 `{item.source}`"] if item.source else []
    lines += [f"- `model.settings.{name}`: {value}" for name, value in sorted(item.settings.items())]
    lines += [f"- {name.replace('_', ' ')}: {value}" for name, value in sorted(_select_plain(item.made).items())]
    document = str(item.made.get("document", "")).partition("\n")[2].strip()  # its own title is that of this file
    if not item.made:
        return [*lines, *([""] if lines else []), _AS_IS if not item.settings else "Nothing is calibrated."]
    return [*lines, *(["", document] if document else [])]


def _select_plain(made: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in made.items() if name not in _TOLD and isinstance(value, str | int | float)}
