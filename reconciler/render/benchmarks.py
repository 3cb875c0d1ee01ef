"""Views of the built-in benchmarks: the list, and the page of one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.fetch.scratch import Found
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.table import lay_out, render_table
from reconciler.resource.quantities import show_size
from reconciler.rules.benchmark_facts import BenchmarkFacts, SourceFacts
from reconciler.rules.benchmark_files import SourceFile

Rounds = Mapping[str, Mapping[str, Sequence[str]]]
_PLAIN = re.compile(r"[A-Za-z/.-][\w/.-]*")  # a word that YAML reads as is
_NARROW = 5  # columns of the list on a terminal
_DEVICES = {"cpu": "processors", "nvidia": "NVIDIA GPUs"}


def render_benchmark_list(
    found: Sequence[BenchmarkFacts], rounds: Mapping[str, Rounds], here: Mapping[str, Sequence[Found]], paint: Paint
) -> str:
    """A row for each: names in a spec, rounds that have it, size of its data, what is missing of its files on this
    machine, and what it is. Where there is room: what works here, and the licence of the data."""
    heading = ("benchmark", "rounds", "data", "missing here", "what it is", "what works here", "licence of the data")
    rows = [
        (
            ", ".join(_list_official_names(facts)),
            _show_span(rounds[facts.code]),
            facts.dataset.size,
            _show_missing(here[facts.code]),
            facts.title,
            _show_support(facts),
            facts.dataset.licence,
        )
        for facts in found
    ]
    shown = len(heading) if paint.width is None else _NARROW
    head, *lines = lay_out([row[:shown] for row in (heading, *sorted(rows))], width=paint.width, first=_NARROW - 1)
    return "\n".join([*(paint(line, Tone.HEADING) for line in head), *(line for row in lines for line in row)])


def _list_official_names(facts: BenchmarkFacts) -> list[str]:
    """List the names that a spec and a round share; where there is none, those of a spec."""
    return [name for name, official in facts.names.items() if name == official] or list(facts.names)


def _show_support(facts: BenchmarkFacts) -> str:
    """Show whether it can be rehearsed, what scores it, and how it runs."""
    scorer = "scored by the official script" if facts.support.script else "scored here"
    if facts.support.runs:
        return f"works in rehearsal, {scorer}" if facts.rehearsal else f"runs, {scorer}"
    by = "with a harness command, " if facts.support.script else "with the endpoints harness, "
    return f"{by}{scorer if facts.support.script else 'which scores it'}"


def _show_missing(here: Sequence[Found]) -> str:
    if not here:
        return "not listed"
    needed = [found for found in here if not found.file.optional]
    missing = [found for found in needed if found.is_due]
    return f"{len(missing)} of {len(needed)}" if missing else "nothing"


def render_files_part(here: Sequence[Found]) -> list[dict[str, Any]]:
    """A file each, as ``benchmarks --json`` has it."""
    return [
        {
            "path": found.file.path,
            "about": found.file.about,
            "licence": found.file.licence,
            "size": found.file.size,
            "optional": found.file.optional,
            "presence": str(found.presence),
            "found_at": str(found.path),
            "why": found.why,
        }
        for found in here
    ]


def render_benchmark_page(
    facts: BenchmarkFacts, rounds: Rounds, here: Sequence[Found], paint: Paint = show_plain
) -> str:
    """Everything about one benchmark, in the order in which a user needs it."""
    needed = "dataset: {path: …}, model: {path: …}" + ("" if facts.backends else ", engine: {backend: …}")
    if not facts.support.runs:
        needed = "harness: {command: […], …}"
    spec = f"benchmarks: {{{next(iter(facts.names))}: {{{needed}}}}}"
    general = [
        ("in a spec", spec),
        ("names", ", ".join(facts.names)),
        ("metric", facts.metric),
        ("what works here", _show_support(facts)),
        *([("computed by", _show_backends(facts))] if facts.backends else []),
        *([("install", f"pip install 'mlperf-reconciler[{facts.extra}]'")] if facts.extra else []),
    ]
    entered = [
        (name, "; ".join(f"{category}: {', '.join(scenarios)}" for category, scenarios in categories.items()))
        for name, categories in rounds.items()
    ]
    return "\n".join(
        [
            paint(facts.title, Tone.HEADING),
            *render_table(general, indent=2),
            *_render_support(facts, paint),
            *_render_source("dataset", facts.dataset, paint),
            *_render_source("model", facts.model, paint),
            *_render_files(here, next(iter(facts.names)), paint),
            "",
            paint("rounds", Tone.HEADING),
            *render_table(entered, indent=2),
        ]
    )


def _show_backends(facts: BenchmarkFacts) -> str:
    supported = [f"{facts.backends[kind]} on {name}" for kind, name in _DEVICES.items() if kind in facts.backends]
    return f"{', '.join(supported)}; else as the spec says"


def _render_support(facts: BenchmarkFacts, paint: Paint) -> list[str]:
    """Why something of it does not work here, and what does that instead."""
    support = facts.support
    if not support.because:
        return []
    words = ", ".join(word if _PLAIN.fullmatch(word) else json.dumps(word) for word in support.command)
    named = {
        "why": support.because,
        "script": f"{support.script} of mlcommons/inference" if support.script else "",
        "sha256": support.sha256,
        "in a spec": f"harness: {{score: {{command: [{words}]}}, code: …}}" if support.command else "",
    }
    title = "scored by the official script" if support.runs else "not by code of this project"
    return ["", paint(title, Tone.HEADING), *render_table([item for item in named.items() if item[1]], indent=2)]


def _render_files(here: Sequence[Found], name: str, paint: Paint) -> list[str]:
    rows = [
        (
            found.file.path,
            show_size(found.file.size),
            found.why or str(found.presence),
            "optional" if found.file.optional else "",
            _show_digest(found.file),
        )
        for found in here
    ]
    title = f"in the scratch space (`reconcile fetch {name}`)"
    return ["", paint(title, Tone.HEADING), *render_table(rows, 2, width=paint.width)] if rows else []


def _show_digest(file: SourceFile) -> str:
    """That of an archive is of nothing that lies on disk later."""
    if file.digest is None:
        return "no digest published"
    of = f" of {file.archive}" if file.is_archive else ""
    return f"{file.digest.algorithm} {file.digest.value}{of}"


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
        "settings": ", ".join(
            name if isinstance(known, str) else f"{name} ({', '.join(known)})"
            for name, known in (source.settings or {}).items()
        ),
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
