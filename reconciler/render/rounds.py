"""Rounds and benchmarks as text and JSON: values with sources, differences between sources and between two rounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from reconciler.fetch.scratch import Found
from reconciler.loadgen import keys
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_decimal_text, convert_plain_value
from reconciler.render.table import lay_out, render_table
from reconciler.resource.kinds import SCENARIOS
from reconciler.resource.quantities import join_listing, show_count, show_size
from reconciler.resource.ruled_values import ScenarioTable
from reconciler.resource.wording import show_value
from reconciler.rules.benchmark_facts import BenchmarkFacts, SourceFacts
from reconciler.rules.benchmark_files import SourceFile
from reconciler.rules.comparison import CATEGORIES, Conflict, RoundsDiff, RulePlace
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Ruleset

_PREFIXES = ("least_", "most_", "exact_", "short_single_stream_", "short_multi_stream_")
_LATENCIES = (keys.TARGET_LATENCY, "ttft_latency", "tpot_latency", "latency")
_LONGEST = 100


def render_rule_text(name: str, value: Any) -> str:
    """Render a ruled value for people, by the name of its rule."""
    if value is None:
        return "nothing"
    if name == CATEGORIES:
        tables = {category: ScenarioTable(**entry) for category, entry in value.items()}
        return "; ".join(f"{category}: {_describe_table(found)}" for category, found in tables.items()) or "none"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {render_rule_text('', item)}" for key, item in value.items()) or "nothing"
    if isinstance(value, tuple):
        return ", ".join(render_rule_text("", item) for item in value) or "none"
    last = name.rpartition(".")[2]
    bare = next((last.removeprefix(prefix) for prefix in _PREFIXES if last.startswith(prefix)), last)
    return show_value(keys.TARGET_LATENCY if bare in _LATENCIES else bare, value)


def _describe_table(found: ScenarioTable) -> str:
    """Return "Offline and (Interactive or Server)"."""
    grouped = {scenario for group in found.one_of for scenario in group}
    groups = [f"({' or '.join(group)})" for group in found.one_of]
    free = [f"{scenario} (optional)" for scenario in found.optional if scenario not in grouped]
    return join_listing([*found.required, *groups, *free])


def render_round_text(ruleset: Ruleset, paint: Paint = show_plain) -> str:
    """Render a line per benchmark, then the values that apply to all of them."""
    heading = f"{ruleset.round}: {show_count(len(ruleset.benchmarks), 'benchmark')}, layout {ruleset.layout}"
    rows = [("benchmark", "category", "scenarios", "tests")]
    for rules in ruleset.benchmarks.values():
        names, tests = [rules.name], [" ".join(rules.compliance_tests) or "none"]
        for category, text in _show_tables(rules):
            rows.append((names.pop() if names else "", category, text, tests.pop() if tests else ""))
    lines = [paint(heading, Tone.HEADING), *render_table(rows, 2, width=paint.width)]
    general = {name: ruled for name, ruled in ruleset.general.items() if not name.startswith("tests.")}
    lines += _render_section("for all benchmarks", general, paint)
    for scenario, fields in ruleset.scenarios.items():
        lines += _render_section(f"for all benchmarks in {scenario}", fields, paint)
    return "\n".join(lines)


def _render_section(title: str, fields: Mapping[str, RuledValue], paint: Paint) -> list[str]:
    rows = [(name, _shorten(render_rule_text(name, r.value)), ", ".join(r.sources)) for name, r in fields.items()]
    return ["", paint(title, Tone.HEADING), *render_table(rows, 2, width=paint.width)]


def _show_tables(rules: BenchmarkRules) -> Iterator[tuple[str, str]]:
    """Yield a row per category, and one for systems of both categories if it differs from the two together."""
    tables = {name: table for name, table in rules.tables.items() if "," not in name}
    for category, table in rules.tables.items():
        parts = [tables[part] for part in category.split(",") if part in tables]
        if category in tables or any(
            set(getattr(table, field)) != {item for part in parts for item in getattr(part, field)}
            for field in table.__struct_fields__
        ):
            yield category, _describe_table(table)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def render_benchmark_rows(rules: BenchmarkRules) -> dict[str, dict[str, RuledValue]]:
    """Return every applicable value: "" for all scenarios, then the specific values of each allowed scenario."""
    entered = {s: None for found in rules.tables.values() for s in (*found.required, *found.optional)}
    rows = {"": _find_values(rules, "", rules.list_names())}
    for scenario in rules.levels:
        if scenario in entered:
            special, _, common, _ = rules.levels[scenario]
            rows[scenario] = _find_values(rules, scenario, tuple(dict.fromkeys((*common, *special))))
    return rows


def _find_values(rules: BenchmarkRules, scenario: str, names: tuple[str, ...]) -> dict[str, RuledValue]:
    """Put the tests last, and drop those that the benchmark does not need."""
    shown = (n for n in names if not n.startswith("tests.") or n.split(".")[1] in rules.compliance_tests)
    ordered = sorted(shown, key=lambda name: name.split(".")[:2] if name.startswith("tests.") else [])
    return {name: found for name in ordered if (found := rules.find_ruled_value(name, scenario)) is not None}


def render_benchmark_text(rules: BenchmarkRules, paint: Paint = show_plain) -> str:
    lines = [paint(f"{rules.round} / {rules.name}", Tone.HEADING)]
    lines += render_table(_show_tables(rules), 2, width=paint.width)
    for scenario, fields in render_benchmark_rows(rules).items():
        lines += _render_section(scenario or "in every scenario", fields, paint)
    return "\n".join(lines)


def render_benchmark_part(rules: BenchmarkRules) -> dict[str, Any]:
    rows = render_benchmark_rows(rules)
    values = {
        name or "all": {
            n: {
                **convert_plain_value(ruled),
                "value": _convert_rule(ruled.value),
                "overruled": [(source, _convert_rule(value)) for source, value in ruled.overruled],
                "ignored": [{**convert_plain_value(i), "value": _convert_rule(i.value)} for i in ruled.ignored],
            }
            for n, ruled in fields.items()
        }
        for name, fields in rows.items()
    }
    return {"categories": convert_plain_value(rules.tables), "values": values}


def render_conflicts_text(name: str, found: Sequence[Conflict], paint: Paint = show_plain) -> str:
    """Render all statements below their value; the one that counts comes first."""
    if not found:
        return f"{name}: the sources agree about every value."
    lines = [paint(f"{name}: sources differ about {show_count(len(found), 'value')}", Tone.HEADING)]
    for conflict in found:
        lines.append(str(conflict.place))
        texts = [_shorten(render_rule_text(conflict.place.name, s.value)) for s in conflict.statements]
        rows = [
            ("counts" if s.counts else "", text, ", ".join(s.sources), s.because)
            for s, text in zip(conflict.statements, texts, strict=True)
        ]
        lines += render_table(rows, 4, width=paint.width)
    return "\n".join(lines)


def render_conflicts_part(found: Sequence[Conflict]) -> list[dict[str, Any]]:
    return [
        {
            **_render_place(c.place),
            "statements": [{**convert_plain_value(s), "value": _convert_rule(s.value)} for s in c.statements],
        }
        for c in found
    ]


def _convert_rule(value: Any) -> Any:
    """Convert a ruled value; decimals are text in rounds and numbers in JSON."""
    return convert_decimal_text(value) if isinstance(value, str) else convert_plain_value(value)


def render_diff_text(diff: RoundsDiff, paint: Paint = show_plain) -> str:
    lines = [paint(f"{diff.before} → {diff.after}", Tone.HEADING)]
    if not (diff.added or diff.removed or diff.changes):
        return f"{lines[0]}: nothing changed"
    lines += [f"  + {name}" for name in diff.added] + [f"  - {name}" for name in diff.removed]
    changed: dict[str, list[tuple[str, ...]]] = {}
    for change in diff.changes:
        place, name = change.place, change.place.name
        where = " / ".join(part for part in (place.benchmark, place.scenario) if part) or "for all benchmarks"
        changed.setdefault(where, []).extend(_list_changed_rows(name, change.before, change.after))
    for where, rows in changed.items():
        lines += ["", paint(where, Tone.HEADING), *render_table(rows, 2, width=paint.width)]
    return "\n".join(lines)


def _list_changed_rows(name: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """Yield a row per part of a value that changed, so that long values that share most parts stay distinguishable."""
    if isinstance(before, Mapping) and isinstance(after, Mapping) and name != CATEGORIES:
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                yield from _list_changed_rows(f"{name}.{key}", before.get(key), after.get(key))
        return
    if isinstance(before, tuple) and isinstance(after, tuple) and set(before) != set(after):
        parts = [f"- {render_rule_text('', item)}" for item in before if item not in after]
        parts += [f"+ {render_rule_text('', item)}" for item in after if item not in before]
        yield name, ", ".join(parts)
        return
    was, now = (_shorten(render_rule_text(name, value)) for value in (before, after))
    yield name, f"{was} → {now}"


def render_diff_part(diff: RoundsDiff) -> dict[str, Any]:
    changes = [
        {**_render_place(c.place), "before": _convert_rule(c.before), "after": _convert_rule(c.after)}
        for c in diff.changes
    ]
    return {**convert_plain_value(diff), "changes": changes}


def _render_place(place: RulePlace) -> dict[str, Any]:
    return {"benchmark": place.benchmark or None, "scenario": place.scenario or None, "name": place.name}


# Views of the built-in benchmarks: the list, and the page of one.

Rounds = Mapping[str, Mapping[str, Sequence[str]]]
_PLAIN = re.compile(r"[A-Za-z/.-][\w/.-]*")  # a word that YAML reads as a plain string
_DEVICES = {"cpu": "processors", "nvidia": "NVIDIA GPUs"}


def render_benchmark_list(
    found: Sequence[BenchmarkFacts],
    rounds: Mapping[str, Rounds],
    rounds_by_name: Mapping[str, Rounds],
    here: Mapping[str, Sequence[Found]],
    paint: Paint,
) -> str:
    """Render a row per benchmark: names in a spec, rounds that have it, size of its data, files missing on this
    machine, and a description; with --wide, also its support here and the licence of the data. A terminal gets the
    description and all but the first name on a second line. A name that not all of these rounds have comes last, with
    its rounds."""
    heading = ("benchmark", "rounds", "data", "missing here")
    further = ("what it is", "what works here", "licence of the data")
    rows: list[tuple[str, ...]] = []
    for facts in found:
        whole = rounds[facts.code]
        spans = {name: rounds_by_name[name] for name in _list_official_names(facts)}
        name, *others = sorted(spans, key=lambda name: spans[name].keys() != whole.keys())
        others = [n if spans[n].keys() == whole.keys() else f"{n} ({_show_span(spans[n])})" for n in others]
        size, missing = facts.dataset.size, _show_missing(here[facts.code])
        if paint.width is None:
            every = ", ".join([name, *others])
            texts = (facts.title, _show_support(facts), facts.dataset.licence)
            rows.append((every, _show_span(whole), size, missing, *texts))
        else:
            also = f"; also {join_listing(others)}" if others else ""
            rows.append((name, _show_span(whole), size.partition(", ")[0], missing, facts.title + also))
    named = (*heading, *further) if paint.width is None else (*heading, "")
    head, *lines = lay_out([named, *sorted(rows)], width=paint.width, first=len(heading))
    return "\n".join([*(paint(line, Tone.HEADING) for line in head), *(line for row in lines for line in row)])


def _list_official_names(facts: BenchmarkFacts) -> list[str]:
    """List the names that specs and rounds share; if there are none, list the names in specs."""
    return [name for name, official in facts.names.items() if name == official] or list(facts.names)


def _show_support(facts: BenchmarkFacts) -> str:
    """Describe whether the benchmark can be rehearsed, what scores it, and how it runs."""
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
    """Return an entry per file, as in ``benchmarks --json``."""
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
    """Render everything about one benchmark, in the order in which a user needs it."""
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
            *render_table(_show_entered(rounds), indent=2, width=paint.width),
        ]
    )


def _show_entered(rounds: Rounds) -> list[tuple[str, str]]:
    """Return a row per span of consecutive rounds with the same scenarios."""

    def show(name: str) -> str:
        shown = {category: [s for s in SCENARIOS if s in found] for category, found in rounds[name].items()}
        return "; ".join(f"{category}: {', '.join(scenarios)}" for category, scenarios in shown.items())

    return [(_show_span(names), text) for text, names in groupby(rounds, show)]


def _show_backends(facts: BenchmarkFacts) -> str:
    supported = [f"{facts.backends[kind]} on {name}" for kind, name in _DEVICES.items() if kind in facts.backends]
    return f"{', '.join(supported)}; otherwise as declared in the spec"


def _render_support(facts: BenchmarkFacts, paint: Paint) -> list[str]:
    """Explain why a part of the benchmark does not work here, and what to use instead."""
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
    return ["", paint(title, Tone.HEADING), *_render_named(named)]


def _render_named(named: Mapping[str, str]) -> list[str]:
    return render_table([item for item in named.items() if item[1]], 2)  # unfolded, so that no address is split


def _render_files(here: Sequence[Found], name: str, paint: Paint) -> list[str]:
    rows = []
    for found in here:
        optional, why = "optional" if found.file.optional else "", found.why or str(found.presence)
        rows.append((found.file.path, show_size(found.file.size), why, optional, _show_digest(found.file)))
    title = f"in the scratch space (`reconcile fetch {name}`)"
    table = render_table(rows, 2, width=paint.width, is_last_loose=True)
    return ["", paint(title, Tone.HEADING), *table] if rows else []


def _show_digest(file: SourceFile) -> str:
    """Show a file's digest. The digest of an archive matches no file that is on disk later."""
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
    layout = render_table(list(source.layout.items()), 4, width=paint.width, is_last_loose=True)
    return [
        "",
        paint(f"{kind}: {source.title}", Tone.HEADING),
        *_render_named(named),
        *(["  on disk", *layout] if layout else []),
    ]


def _show_tensors(tensors: Mapping[str, Sequence[object]]) -> str:
    return ", ".join(
        f"{name} {dtype} {[*shape] if isinstance(shape, list) else shape}" for name, (shape, dtype) in tensors.items()
    )


def _show_span(rounds: Iterable[str]) -> str:
    names = list(rounds)
    if not names:
        return "none carried here"
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
