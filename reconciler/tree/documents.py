"""JSON and Markdown files generated here rather than copied: their fields, order and text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from reconciler.loadgen.log_files import BUILT_IN_CONF
from reconciler.loadgen.settings import find_settings
from reconciler.loadgen.user_conf import select_settings, write_user_conf
from reconciler.resource.canonical import canonicalise
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.tree.content import CellContent, SystemContent


def collect_system_fields(system: SystemContent, submitter: str, ruleset: Ruleset) -> dict[str, Any]:
    """Return the system description: the round's mandatory fields in its order, "" if not declared, then the rest by
    name. ``is_network`` is left out unless declared, since its mere presence means the network division."""
    known = {
        "division": system.division,
        "submitter": submitter,
        "status": system.status,
        "system_type": system.category,
    }
    network = dict.fromkeys(ruleset.network.fields, "") if system.division == "network" else {}
    declared: dict[str, Any] = {"system_name": system.name, **network, **system.description, **known}
    if network:
        declared["is_network"] = "true"
    return _format_fields([field.name for field in ruleset.system_fields], declared)


def render_description(system: SystemContent, submitter: str, ruleset: Ruleset) -> bytes:
    """Render systems/<name>.json: the original's bytes if it states the same as the spec."""
    rendered = encode_json(collect_system_fields(system, submitter, ruleset))
    stated = read_statements(system.original) if system.original else None
    return system.original if stated is not None and stated == read_statements(rendered) else rendered


def read_statements(document: bytes) -> dict[str, str] | None:
    """Read a JSON object: its values as text, without empty ones. None for anything else."""
    try:
        values = json.loads(document, object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    texts = {name: "" if value is None else " ".join(str(value).split()) for name, value in values.items()}
    return {name: text.lower() if name in ("division", "status") else text for name, text in texts.items() if text}


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise ValueError for a repeated name, which is ambiguous: some readers use the first value and others the last
    one."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is there twice")
    return values


def collect_measurements_fields(measurements: Mapping[str, Any], ruleset: Ruleset) -> dict[str, Any]:
    """Return the round's mandatory fields in its order, "" if not declared, then the rest by name."""
    return _format_fields(ruleset.measurements_fields, measurements)


def _format_fields(mandatory: Sequence[str], declared: Mapping[str, Any]) -> dict[str, Any]:
    names = [*mandatory, *sorted(declared.keys() - set(mandatory))]
    return {name: _format_field(declared.get(name, "")) for name in names}


def encode_json(document: Mapping[str, Any]) -> bytes:
    """Encode indented JSON in the given order, in ASCII only, so that it does not depend on the reader's locale."""
    return (json.dumps(document, indent=2, ensure_ascii=True) + "\n").encode("ascii")


def render_cell_readme(content: CellContent, ruleset: Ruleset, runs: str) -> bytes:
    """Render a scenario folder's README.md: what it is, how to repeat and audit the run, and its settings. ``runs``:
    the files of its runs, as Markdown."""
    cell = content.cell
    selectors = " ".join(f"{name}={value}" for name, value in asdict(cell).items())
    entered = "" if content.official == cell.benchmark else f" (entered as {content.official})"
    source = content.inferred_from
    inferred = (
        f"\n**Inferred**: the runs in this folder are those of `{source}`; nothing was run for this scenario itself.\n"
        if source
        else ""
    )
    rehearsal = "\n**Rehearsal**: these runs are not a result, and cannot be submitted.\n" if content.rehearsal else ""
    tests = "".join(f"- compliance test {name}: `{name}/`\n" for name in sorted(content.compliance))
    text = f"""# {cell.benchmark}, {cell.scenario}

{cell.division} division, system {cell.system}, benchmark {cell.benchmark}{entered}, MLPerf Inference {ruleset.round}.
Every file in this folder is derived from the recorded runs; none is edited by hand.
{rehearsal}{inferred}
## Run

In the repository that holds the submission spec, on the system described in `systems/{cell.system}.json`:

```
reconcile plan {selectors}
reconcile apply {selectors}
```

The first command says what would run and why, the second runs it.

## Audit

{runs}
{tests}
```
reconcile show {cell}
reconcile why {cell}
```

The first command names every setting and where it was set, the second says what the result was made from.

## Settings

{_render_table(content.settings)}"""
    if content.requirements:
        lines = "\n".join(content.requirements)
        text += f"\n## Software\n\nInstalled where the performance run was made:\n\n```\n{lines}\n```\n"
    return text.encode()


def read_requirements(readme: str) -> tuple[str, ...]:
    """Read the list of installed packages in the README.md of a cell rendered here; empty without one."""
    listed = readme.partition("\n## Software\n")[2].partition("```\n")[2].partition("```")[0]
    return tuple(listed.splitlines())


def parse_requirements(listed: Sequence[str]) -> dict[str, str]:
    """Return normalised package → version."""
    pairs = (line.split("==") for line in listed if line.count("==") == 1)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


def render_built_in_conf(rules: BenchmarkRules, scenario: str) -> bytes:
    """Render LoadGen's built-in configuration for a cell, in LoadGen's format. Rounds up to v4.1 require the file."""
    known = {name: rules.find_ruled_value(name, scenario) for name in rules.list_names(scenario)}
    values = {
        setting.name: ruled.value
        for setting in find_settings(scenario)
        if (ruled := known.get(setting.name)) is not None and BUILT_IN_CONF in ruled.sources
    }
    key = str(rules.get_value("model_key", scenario))
    notes = (f"What LoadGen's built-in configuration of round {rules.round} says for this cell.",)
    seeds = "".join(f"*.*.{name} = {value}\n" for name, value in rules.seeds().items())
    return write_user_conf(key, scenario, select_settings(scenario, values), notes) + seeds.encode()


def render_source_readme(benchmark: str, notes: tuple[str, ...]) -> bytes:
    """Render README.md of src/<benchmark>: the location of the code. ``notes``: the distinct code lines of its
    cells."""
    lines = "".join(f"- {note}\n" for note in notes)
    body = lines or "The results were made by the harness of mlperf-reconciler with its built-in benchmark code.\n"
    return f"# Code of {benchmark}\n\n{body}".encode()


def _render_table(settings: Mapping[str, str]) -> str:
    if not settings:
        return "None were recorded.\n"
    texts = {name: " ".join(value.replace("|", "\\|").split()) for name, value in sorted(settings.items())}
    return "| setting | value |\n|---|---|\n" + "".join(f"| `{name}` | {text} |\n" for name, text in texts.items())


def _format_field(value: Any) -> Any:
    """Return nonzero counts as numbers and everything else as text, since the checkers treat the number 0 as an empty
    field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value:
        return value
    if isinstance(value, (list, dict)):
        return canonicalise(value)
    return "" if value is None else str(value)
