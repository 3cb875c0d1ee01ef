"""Views of the built-in benchmarks: the list, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.mlperf.benchmark_facts import BenchmarkFacts, SourceFacts
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.explanation import render_table

Rounds = Mapping[str, Mapping[str, Sequence[str]]]


def render_benchmark_list(found: Sequence[BenchmarkFacts], rounds: Mapping[str, Rounds], paint: Paint) -> str:
    """A row for each: name, what it is, the first and last round that have it, size and licence of its data."""
    rows = [
        (facts.code, facts.title, _show_span(rounds[facts.code]), facts.dataset.size, facts.dataset.licence)
        for facts in found
    ]
    heading = ("benchmark", "what it is", "rounds", "data", "licence of the data")
    head, *lines = render_table([heading, *rows], indent=0)
    return "\n".join([paint(head, Tone.HEADING), *lines])


def render_benchmark_page(facts: BenchmarkFacts, rounds: Rounds, paint: Paint = show_plain) -> str:
    """Everything about one benchmark, in the order in which a user needs it."""
    spec = f"benchmarks: {{{next(iter(facts.names))}: {{dataset: {{path: …}}, model: {{path: …}}}}}}"
    general = [
        ("in a spec", spec),
        ("names", ", ".join(facts.names)),
        ("metric", facts.metric),
        ("install", f"pip install 'mlperf-reconciler[{facts.extra}]'"),
    ]
    entered = [
        (name, "; ".join(f"{category}: {', '.join(scenarios)}" for category, scenarios in categories.items()))
        for name, categories in rounds.items()
    ]
    return "\n".join(
        [
            paint(facts.title, Tone.HEADING),
            *render_table(general, indent=2),
            *_render_source("dataset", facts.dataset, paint),
            *_render_source("model", facts.model, paint),
            "",
            paint("rounds", Tone.HEADING),
            *render_table(entered, indent=2),
        ]
    )


def _render_source(kind: str, source: SourceFacts, paint: Paint) -> list[str]:
    named = {
        "licence": source.licence,
        "size": source.size,
        "prepared": source.prepared,
        "samples": f"{source.samples:,}" if source.samples else "",
        "file": source.file,
        "download": ", ".join(source.sources),
        "by hand": source.by_hand,
        "calibration": source.calibration,
        "inputs": _show_tensors(source.inputs),
        "outputs": _show_tensors(source.outputs),
    }
    rows = [(name, text) for name, text in named.items() if text]
    layout = render_table(list(source.layout.items()), indent=4)
    return [
        "",
        paint(f"{kind}: {source.title}", Tone.HEADING),
        *render_table(rows, indent=2),
        *(["  on disk", *layout] if layout else []),
    ]


def _show_tensors(tensors: Mapping[str, Sequence[object]]) -> str:
    return ", ".join(
        f"{name} {dtype} {[*shape] if isinstance(shape, list) else shape}" for name, (shape, dtype) in tensors.items()
    )


def _show_span(rounds: Rounds) -> str:
    names = list(rounds)
    if not names:
        return "none carried here"
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
