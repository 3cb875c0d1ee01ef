"""The rounds as text and JSON: their values with sources, where sources differ, what changed between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.loadgen import keys
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_plain_value
from reconciler.render.table import render_table
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.ruled_values import ScenarioTable
from reconciler.resource.wording import show_value
from reconciler.rules.comparison import CATEGORIES, Conflict, RoundsDiff, RulePlace
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Ruleset

_PREFIXES = ("least_", "most_", "exact_", "short_single_stream_", "short_multi_stream_")
_LATENCIES = (keys.TARGET_LATENCY, "ttft_latency", "tpot_latency", "latency")
_LONGEST = 100


def render_rule_text(name: str, value: Any) -> str:
    """A ruled value as a person would write it, by the name of its rule."""
    if value is None:
        return "nothing"
    if name == CATEGORIES:
        return render_categories_text(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {render_rule_text('', item)}" for key, item in value.items()) or "nothing"
    if isinstance(value, tuple):
        return ", ".join(render_rule_text("", item) for item in value) or "none"
    last = name.rpartition(".")[2]
    bare = next((last.removeprefix(prefix) for prefix in _PREFIXES if last.startswith(prefix)), last)
    return show_value(keys.TARGET_LATENCY if bare in _LATENCIES else bare, value)


def render_categories_text(value: Mapping[str, Mapping[str, Any]]) -> str:
    """ "datacenter: Offline and (Interactive or Server); edge: none"."""
    tables = {category: ScenarioTable(**entry) for category, entry in value.items()}
    return "; ".join(f"{category}: {_table_text(found)}" for category, found in tables.items()) or "none"


def _table_text(found: ScenarioTable) -> str:
    grouped = {scenario for group in found.one_of for scenario in group}
    groups = [f"({' or '.join(group)})" for group in found.one_of]
    free = [f"{scenario} (optional)" for scenario in found.optional if scenario not in grouped]
    return join_listing([*found.required, *groups, *free])


def render_round_text(ruleset: Ruleset, paint: Paint = show_plain) -> str:
    """One line per benchmark, then what holds for all of them."""
    heading = f"{ruleset.round}: {show_count(len(ruleset.benchmarks), 'benchmark')}, layout {ruleset.layout}"
    rows = [("benchmark", "tests", "scenarios")]
    for rules in ruleset.benchmarks.values():
        categories = render_categories_text(rules.tables_ruled.value)
        rows.append((rules.name, " ".join(rules.compliance_tests) or "none", categories))
    lines = [
        paint(heading, Tone.HEADING),
        *render_table(rows, 2, width=paint.width),
        "",
        paint("for all benchmarks", Tone.HEADING),
    ]
    lines += render_table(_rows(ruleset.general, without="tests."), 2, width=paint.width)
    for scenario, fields in ruleset.scenarios.items():
        lines += [
            "",
            paint(f"for all benchmarks in {scenario}", Tone.HEADING),
            *render_table(_rows(fields), 2, width=paint.width),
        ]
    return "\n".join(lines)


def _rows(fields: Mapping[str, RuledValue], without: str = "\n") -> Iterator[tuple[str, str, str]]:
    for name, ruled in fields.items():
        if not name.startswith(without):
            yield name, _cut(render_rule_text(name, ruled.value)), ", ".join(ruled.sources)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def render_benchmark_rows(rules: BenchmarkRules) -> dict[str, dict[str, RuledValue]]:
    """Every value that holds: "" for all scenarios, then what each scenario that may be entered has of its own."""
    entered = {s: None for found in rules.tables.values() for s in (*found.required, *found.optional)}
    rows = {"": _of(rules, "", rules.list_names())}
    for scenario in rules.levels:
        if scenario in entered:
            special, _, common, _ = rules.levels[scenario]
            rows[scenario] = _of(rules, scenario, tuple(dict.fromkeys((*common, *special))))
    return rows


def _of(rules: BenchmarkRules, scenario: str, names: tuple[str, ...]) -> dict[str, RuledValue]:
    """The tests last, without those that the benchmark does not need."""
    shown = (n for n in names if not n.startswith("tests.") or n.split(".")[1] in rules.compliance_tests)
    ordered = sorted(shown, key=lambda name: name.split(".")[:2] if name.startswith("tests.") else [])
    return {name: found for name in ordered if (found := rules.find_ruled_value(name, scenario)) is not None}


def render_benchmark_text(rules: BenchmarkRules, paint: Paint = show_plain) -> str:
    lines = [paint(f"{rules.round} / {rules.name}", Tone.HEADING)]
    category_rows = [(category, _table_text(found)) for category, found in rules.tables.items()]
    lines += render_table(category_rows, 2)
    for scenario, fields in render_benchmark_rows(rules).items():
        lines += [
            "",
            paint(scenario or "in every scenario", Tone.HEADING),
            *render_table(_rows(fields), 2, width=paint.width),
        ]
    return "\n".join(lines)


def render_benchmark_part(rules: BenchmarkRules) -> dict[str, Any]:
    rows = render_benchmark_rows(rules)
    values = {
        name or "all": {n: convert_plain_value(ruled) for n, ruled in fields.items()} for name, fields in rows.items()
    }
    return {"categories": convert_plain_value(rules.tables), "values": values}


def render_conflicts_text(name: str, found: Sequence[Conflict], paint: Paint = show_plain) -> str:
    """Every statement under its value: the one that counts first."""
    if not found:
        return f"{name}: the sources agree about every value."
    lines = [paint(f"{name}: sources differ about {show_count(len(found), 'value')}", Tone.HEADING)]
    for conflict in found:
        lines.append(str(conflict.place))
        rows = [
            (
                "counts" if statement.counts else "",
                _cut(render_rule_text(conflict.place.name, statement.value)),
                ", ".join(statement.sources),
                statement.because,
            )
            for statement in conflict.statements
        ]
        lines += render_table(rows, 4, width=paint.width)
    return "\n".join(lines)


def render_conflicts_part(found: Sequence[Conflict]) -> list[dict[str, Any]]:
    return [{**_place_part(c.place), "statements": convert_plain_value(c.statements)} for c in found]


def render_diff_text(diff: RoundsDiff, paint: Paint = show_plain) -> str:
    lines = [paint(f"{diff.before} → {diff.after}", Tone.HEADING)]
    if not (diff.added or diff.removed or diff.changes):
        return f"{lines[0]}: nothing changed"
    lines += [f"  + {name}" for name in diff.added] + [f"  - {name}" for name in diff.removed]
    changed: dict[str, list[tuple[str, ...]]] = {}
    for change in diff.changes:
        place, name = change.place, change.place.name
        where = " / ".join(part for part in (place.benchmark, place.scenario) if part) or "for all benchmarks"
        before, after = (_cut(render_rule_text(name, value)) for value in (change.before, change.after))
        changed.setdefault(where, []).append((name, f"{before} → {after}"))
    for where, rows in changed.items():
        lines += ["", paint(where, Tone.HEADING), *render_table(rows, 2, width=paint.width)]
    return "\n".join(lines)


def render_diff_part(diff: RoundsDiff) -> dict[str, Any]:
    changes = [
        {**_place_part(c.place), "before": convert_plain_value(c.before), "after": convert_plain_value(c.after)}
        for c in diff.changes
    ]
    return {
        "before": diff.before,
        "after": diff.after,
        "added": diff.added,
        "removed": diff.removed,
        "changes": changes,
    }


def _place_part(place: RulePlace) -> dict[str, Any]:
    return {"benchmark": place.benchmark or None, "scenario": place.scenario or None, "name": place.name}
