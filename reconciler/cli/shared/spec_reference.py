"""The reference of a spec as Markdown: every field, what it means, and what a change of it makes stale.

What a field makes stale is not written down anywhere: it is what the functions in ``desired/inputs.py`` read of it, in
cells of every kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.contract import BACKENDS
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.resource.inputs import Value
from reconciler.resource.queues import EXECUTOR, QUEUES
from reconciler.resource.settings import BUILD_COMMAND, COMMAND, RESULTS, SCORE_COMMAND, SERVICE_COMMAND, is_placing
from reconciler.rules.compliance.judging import TESTS
from reconciler.rules.programs import load_programs
from reconciler.rules.results.table import FORMATS
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec import executor_models, harness_models, models, settings_models, submission_models
from reconciler.spec.declared import Declared
from reconciler.spec.files import Source, compute_blob_id
from reconciler.spec.groups import Group, name_field
from reconciler.spec.loading import load_sources
from reconciler.storage.packaged_files import read_shipped

_PROGRAMS = tuple(program.load_reference() for program in load_programs())
# Title, where it is written, the model, and the prefix of its settings; None: the settings have names of their own.
_GROUPS: tuple[tuple[str, str, type[Group], str | None], ...] = (
    ("Submission", "`spec:`", models.Spec, ""),
    ("Documents", "`spec.documents:`", submission_models.Documents, "documents."),
    ("Embargo", "`spec.embargo:`", submission_models.EmbargoGroup, "embargo."),
    ("Signing", "`spec.signing:`", submission_models.Signing, "signing."),
    ("Store", "`spec.stores.NAME:`", submission_models.Store, "stores."),
    ("System", "`spec.systems.NAME:`, in addition to the settings of its cells", models.System, "system."),
    ("Hardware", "`hardware:` of a system", executor_models.HardwareGroup, "hardware."),
    *(
        (QUEUES[name].title, f"`executor: {{{name}: …}}` of a system", group, f"{EXECUTOR}.{name}.")
        for name, group in executor_models.list_queue_groups().items()
    ),
    ("Power state", "`power_state:` of a system", executor_models.PowerState, "power_state."),
    ("Power", "`power:` of a system", executor_models.Meter, "power."),
    (
        "Benchmark",
        "`spec.benchmarks.NAME:`, in addition to the settings of a cell",
        models.BenchmarkGroup,
        "benchmark.",
    ),
    ("Model", "`model:` of a benchmark", models.Model, "model."),
    ("Dataset", "`dataset:` of a benchmark", settings_models.Dataset, "dataset."),
    (
        "Settings",
        "in a cell, a benchmark, a system, its `benchmarks` and their scenarios, or a block of `spec.defaults`",
        settings_models.SettingsGroup,
        "",
    ),
    ("Cell", "in a cell, in addition to its settings", models.CellGroup, ""),
    ("Compliance test", "`compliance: {TEST01: …}` of a cell", settings_models.Audit, "compliance."),
    ("Dataset of a test", "`dataset:` of a compliance test", settings_models.Dataset, "compliance.dataset."),
    ("Engine", "`engine:`", settings_models.Engine, "engine."),
    ("Run", "`run:`", settings_models.Run, "run."),
    ("Harness", "`harness:`", harness_models.Harness, "harness."),
    ("Build", "`build:` of a harness", harness_models.Build, "harness.build."),
    ("Service", "`service:` of a harness", harness_models.Service, "harness.service."),
    ("Ready", "`ready:` of a service", harness_models.ReadyGroup, "harness.service.ready."),
    ("Stop", "`stop:` of a service", harness_models.Stop, "harness.service.stop."),
    ("Score", "`score:` of a harness", harness_models.Score, "harness.score."),
    ("Measurements", "`measurements:`", settings_models.Measurements, "measurements."),
    *(group for part in _PROGRAMS for group in part.groups),
)
_FREE = tuple(name for part in _PROGRAMS for name in part.free)  # groups of free names
# Settings that are read under other names.
_READ_AS = {
    **{name: other for part in _PROGRAMS for name, other in part.recorded.items()},
    **{name: f"{name}.any" for name in _FREE},
}
# Shared files of the tree show these, and all that is said of documents and systems.
_RENDERED = ("submitter", "benchmark.source", "benchmark.excluded_code")
_OF_SHARED_FILES = ("documents.", "system.", "hardware.")
_LABELS = dict.fromkeys(TESTS, "Compliance test") | {f"{test} verdict": "Verdict" for test in TESTS}
_ORDER = (
    *("Dataset", "Model", "Engine", "Service", "Run accuracy", "Run performance", "Score"),
    *("Compliance test", "Verdict", "Result", "Submission"),
)


@cache
def find_field_effects() -> Mapping[str, tuple[str, ...]]:
    """Setting (or ``prefix.*``) → the kinds of resources whose key it enters, in any kind of cell."""
    data = read_shipped("specs/quickstart.yaml")
    declared = load_sources([Source("quickstart.yaml", data.decode(), compute_blob_id(data))], Path(), {})
    ruleset = load_ruleset(str(declared.round.value))
    noted: dict[str, set[str]] = {}
    for asked in _list_kinds_of_cells():
        cells = tuple(replaced(cell, settings={**cell.settings, **asked}) for cell in declared.cells)
        for kind, read in note_reads(replaced(declared, cells=cells), ruleset).items():
            noted.setdefault(kind, set()).update(read)
    names = sorted(set().union(*noted.values()))
    found = {name: [kind for kind in _ORDER if name in noted.get(kind, ())] for name in names}
    found["compliance"] = ["Compliance test", "Result"]
    return {name: tuple(kinds) for name, kinds in found.items()}


def _list_kinds_of_cells() -> Iterator[dict[str, Value]]:
    """List the kinds of cells that decide which other settings are read: the backend, the format of its runs' results,
    and whether files and commands are the user's own."""
    command, path = Value(("run",)), Value("somewhere")
    tests = {f"compliance.{test}": Value(True) for test in TESTS}
    own = {
        **dict.fromkeys((COMMAND, BUILD_COMMAND, SERVICE_COMMAND, SCORE_COMMAND), command),
        **{f"{source}.path": path for source in ("model", "dataset", "benchmark", "power")},
        **{f"{name}.any": path for name in _FREE},
    }
    for backend, results, asked in itertools.product(BACKENDS, FORMATS, ({}, own)):
        yield {**tests, "engine.backend": Value(backend), RESULTS: Value(results), **asked}


def note_reads(declared: Declared, ruleset: Ruleset) -> Mapping[str, set[str]]:
    """Kind, as the reference names it → the settings that the keys of a spec's resources were made of."""
    _, by_label = compile_desired(declared, ruleset, Pins(), noting=True)
    noted: dict[str, set[str]] = {}
    for label, names in by_label.items():
        noted.setdefault(_LABELS.get(label, label), set()).update(names)
    return noted


def _stale(name: str, table: Mapping[str, tuple[str, ...]]) -> str:
    """Direct effects only: what is made from a stale resource is stale with it."""
    if name == "round":
        return "Submission, and the runs that read a value which the rounds rule differently"
    patterns = (name, f"{name}.*", f"{name.partition('.')[0]}.*")
    kinds = {kind for pattern in patterns for kind in table.get(pattern, ())}
    if name in _RENDERED or (name.startswith(_OF_SHARED_FILES) and not is_placing(name)):
        kinds.add("Submission")
    return ", ".join(sorted(kinds, key=_ORDER.index)) or "nothing"


def _rows(
    group: type[Group], prefix: str | None, table: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str, str]]:
    has_settings = issubclass(group, settings_models.SettingsGroup) and group is not settings_models.SettingsGroup
    inherited = set(settings_models.SettingsGroup.model_fields) if has_settings else set()
    for name, field in group.model_fields.items():
        annotation = field.annotation
        nested = isinstance(annotation, type) and issubclass(annotation, Group)
        if name in inherited or nested or name in ("systems", "benchmarks", "stores", "divisions", "defaults", "use"):
            continue
        written = field.alias or name
        setting = f"{prefix}{written}"
        stale = (
            "nothing"
            if name in group.list_unread()
            else _stale(name_field(field, _READ_AS.get(setting, setting)), table)
        )
        yield written, field.description or "", stale


def render_spec_reference() -> str:
    table = find_field_effects()
    parts = []
    for title, where, group, prefix in _GROUPS:
        parts.append(f"## {title}\n\n{where[0].upper()}{where[1:]}\n")
        rows = "".join(f"| `{name}` | {text} | {stale} |\n" for name, text, stale in _rows(group, prefix, table))
        parts.append(f"| Field | Meaning | A change makes stale |\n|---|---|---|\n{rows}")
    return "\n".join(parts)
