"""``python -m reconciler.cli.shared.reference``: write the generated parts of the documents, between their marks."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import click
from msgspec.structs import replace as replaced

from harness.contract import BACKENDS
from reconciler import errors
from reconciler.check import engine as check
from reconciler.cli.main import reconcile
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.loadgen import consistency
from reconciler.resource.inputs import Value
from reconciler.resource.queues import EXECUTOR, QUEUES
from reconciler.resource.rules import Rule, Severity
from reconciler.resource.settings import BUILD_COMMAND, COMMAND, RESULTS, SCORE_COMMAND, SERVICE_COMMAND, is_placing
from reconciler.rules.compliance.judging import TESTS
from reconciler.rules.programs import load_programs
from reconciler.rules.results.table import FORMATS
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec import executor_models, models, settings_models
from reconciler.spec.declared import Declared
from reconciler.spec.files import Source, compute_blob_id
from reconciler.spec.groups import Group, name_field
from reconciler.spec.loading import load_sources
from reconciler.storage.files import replace
from reconciler.storage.packaged_files import read_shipped

# The reference of spec fields: what each means, and which resources a change of it makes stale. The latter is not
# recorded: it is derived from the settings that the functions in ``desired/inputs.py`` read, in cells of every kind.
_PROGRAMS = tuple(program.load_reference() for program in load_programs())
# Title, file, model, and prefix of its settings; None if the settings have their own names.
_GROUPS: tuple[tuple[str, str, type[Group], str | None], ...] = (
    ("Submission", "`spec:`", models.Spec, ""),
    ("Documents", "`spec.documents:`", models.Documents, "documents."),
    ("Embargo", "`spec.embargo:`", models.EmbargoGroup, "embargo."),
    ("Signing", "`spec.signing:`", models.Signing, "signing."),
    ("Store", "`spec.stores.NAME:`", models.Store, "stores."),
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
    ("Harness", "`harness:`", settings_models.Harness, "harness."),
    ("Build", "`build:` of a harness", settings_models.Build, "harness.build."),
    ("Service", "`service:` of a harness", settings_models.Service, "harness.service."),
    ("Ready", "`ready:` of a service", settings_models.ReadyGroup, "harness.service.ready."),
    ("Stop", "`stop:` of a service", settings_models.Stop, "harness.service.stop."),
    ("Score", "`score:` of a harness", settings_models.Score, "harness.score."),
    ("Measurements", "`measurements:`", settings_models.Measurements, "measurements."),
    *(group for part in _PROGRAMS for group in part.groups),
)
_FREE = tuple(name for part in _PROGRAMS for name in part.free)  # groups of free names
# Settings that are read under other names.
_READ_AS = {
    **{name: other for part in _PROGRAMS for name, other in part.recorded.items()},
    **{name: f"{name}.any" for name in _FREE},
}
# Shared files of the tree show these, and all settings of documents and systems.
_RENDERED = ("submitter", "benchmark.source", "benchmark.excluded_code")
_OF_SHARED_FILES = ("documents.", "system.", "hardware.")
_LABELS = dict.fromkeys(TESTS, "Compliance test") | {f"{test} verdict": "Verdict" for test in TESTS}
_ORDER = (
    *("Dataset", "Model", "Engine", "Service", "Run accuracy", "Run performance", "Score"),
    *("Compliance test", "Verdict", "Result", "Submission"),
)


@cache
def find_field_effects() -> Mapping[str, tuple[str, ...]]:
    """Map each setting (or ``prefix.*``) to the kinds of resources whose key it enters, in any kind of cell."""
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
    """List the kinds of cells that decide which other settings are read: the backend, the format of the run results,
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
    """Map each kind, as named in the reference, to the settings that enter the keys of a spec's resources."""
    _, by_label = compile_desired(declared, ruleset, Pins(), noting=True)
    noted: dict[str, set[str]] = {}
    for label, names in by_label.items():
        noted.setdefault(_LABELS.get(label, label), set()).update(names)
    return noted


def _list_stale_kinds(name: str, table: Mapping[str, tuple[str, ...]]) -> str:
    """List direct effects only: everything made from a stale resource is stale, too."""
    if name == "round":
        return "Submission, and the runs that read a value which the rounds rule differently"
    patterns = (name, f"{name}.*", f"{name.partition('.')[0]}.*")
    kinds = {kind for pattern in patterns for kind in table.get(pattern, ())}
    if name in _RENDERED or (name.startswith(_OF_SHARED_FILES) and not is_placing(name)):
        kinds.add("Submission")
    return ", ".join(sorted(kinds, key=_ORDER.index)) or "nothing"


def _list_rows(
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
            else _list_stale_kinds(name_field(field, _READ_AS.get(setting, setting)), table)
        )
        yield written, field.description or "", stale


def render_spec_reference() -> str:
    table = find_field_effects()
    parts = []
    for title, where, group, prefix in _GROUPS:
        parts.append(f"## {title}\n\n{where[0].upper()}{where[1:]}\n")
        rows = "".join(f"| `{name}` | {text} | {stale} |\n" for name, text, stale in _list_rows(group, prefix, table))
        parts.append(f"| Field | Meaning | A change makes stale |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


# The reference of commands and of exit codes as Markdown, from click's tables and from ``reconciler.errors``.

_CODES = (
    (errors.IN_SYNC, "in sync, or done"),
    (errors.ERROR, "an error that you can fix; the message says how. Usage errors are among them"),
    (errors.NOT_IN_SYNC, "something selected is not in sync: changes, drift, INVALID runs, blocked steps, findings"),
    (errors.BUG, "a bug in `reconcile`: it names a report to send; records are safe"),
    (
        errors.INTERRUPTED,
        "interrupted by Ctrl-C or SIGTERM; run the same command again to continue. `watch` and `page`, which normally "
        "end so, exit with 0",
    ),
)

_EVERYWHERE = ("--help", "--no-color", "--verbose", "--quiet")  # described in the document's introduction
_SEVERAL = 3  # number of commands from which an option is described once


def render_command_reference(program: click.Group) -> str:
    """Render each command: its purpose, usage and options. Options with the same meaning in several commands are
    described once."""
    commands = dict(_list_commands(program, "reconcile"))
    counted = Counter(option for command in commands.values() for option in _list_options(command))
    shared = [option for option, count in counted.items() if count >= _SEVERAL]
    parts = ["## Options of several commands\n", _render_options(shared)]
    for path, command in commands.items():
        name = path.removeprefix("reconcile").strip()
        level = "###" if " " in name else "##"
        parts += [f"{level} {name or 'A pass'}\n", *_render_command(command, path, shared)]
    return "\n".join(parts)


def _list_commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """List the pass first, then the commands in the order of `--help`, each group before its commands."""
    context = click.Context(group, info_name=path)
    names = group.list_commands(context)
    for name in names if path != "reconcile" else ["pass", *names]:
        command = group.get_command(context, name)
        assert command is not None
        below = path if name == "pass" else f"{path} {name}"
        yield below, command
        if isinstance(command, click.Group):
            yield from _list_commands(command, below)


def _render_command(command: click.Command, path: str, shared: Sequence[tuple[str, str]]) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=path)))
    yield f"```text\n{path} {usage}\n```\n\n{_join_paragraphs(command.help or '')}\n"
    options = _list_options(command)
    own = [option for option in options if option not in shared]
    if own:
        yield _render_options(own)
    others = [f"`{_escape_cell(name)}`" for name, text in options if (name, text) in shared]
    if others:
        yield f"{'Also' if own else 'Options:'} {', '.join(others)}.\n"


def _list_options(command: click.Command) -> list[tuple[str, str]]:
    context = click.Context(command)
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context)) is not None]
    return [(name, text) for name, text in records if not any(word in name for word in _EVERYWHERE)]


def _render_options(options: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"| `{_escape_cell(name)}` | {_escape_cell(text)} |\n" for name, text in options)
    return f"| Option | Meaning |\n|---|---|\n{rows}"


def _join_paragraphs(text: str) -> str:
    """Join each paragraph into one line of Markdown, and drop click's no-wrap marks."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def render_exit_codes() -> str:
    """List the exit codes, and the exceptions that lead to them."""
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in _CODES)
    tree = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    lines = "\n".join(line.removeprefix("    ") for line in tree.splitlines())
    return f"| Code | Meaning |\n|---|---|\n{rows}\n## Errors\n\n```text\n{lines}\n```\n"


# The generated part of ``findings.md``: the rules of ``verify-tree``, of a detail log and of ``check``, as declared by
# the functions that apply them.

_HEAD = ("| Kind | Finds | Premises | Argument |", "|---|---|---|---|")
_LOG_HEAD = ("### Rules of a detail log\n", "A finding of `log.consistency` names the rule that the log breaks.\n")
_LOG_COLUMNS = ("| Rule | Asks for | By |", "|---|---|---|")
_CHECK_COLUMNS = ("| Rule | Asks for | By | Explanation |", "|---|---|---|---|")


def render_findings_reference() -> str:
    """Render the numbered premises, then a table for each severity; then the rules of a detail log and those of
    ``check``."""
    verifier = check.load_verifier()
    declared = verifier.list_rules() if verifier is not None else ()
    premises = list(dict.fromkeys(item.statement for rule in declared for item in rule.premises))
    parts = ["### Premises\n", *(f"{number}. {_escape_pipes(text)}" for number, text in enumerate(premises, 1))]
    for severity in Severity:
        rules = sorted((rule for rule in declared if rule.severity is severity), key=lambda rule: rule.id)
        if rules:
            parts += ["", f"### {severity.value.title()}s\n", *_HEAD]
            parts += [_render_rule(rule, premises) for rule in rules]
    parts += ["", *_LOG_HEAD, *_LOG_COLUMNS]
    parts += [_render_row((f"`{rule.id}`", rule.title, rule.argument)) for rule in consistency.list_rules()]
    parts += ["", "### Rules of `check`\n", *_CHECK_COLUMNS]
    for rule in check.list_rules():
        mark = "" if rule.severity is Severity.ERROR else f" ({rule.severity.value})"
        parts.append(_render_row((f"`{rule.id}`{mark}", rule.title, ", ".join(rule.sources), rule.argument)))
    return "\n".join(parts) + "\n"


def _render_rule(rule: Rule, premises: Sequence[str]) -> str:
    never = f" Never summed up: {rule.proof}." if rule.proof else ""
    numbers = ", ".join(str(premises.index(item.statement) + 1) for item in rule.premises)
    return _render_row((f"`{rule.id}`", rule.title, numbers, f"{rule.argument}{never}"))


def _render_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escape_pipes, cells))} |"


def _escape_pipes(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


DOCUMENTS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
GENERATED: Mapping[str, Callable[[], str]] = {
    "spec.md": render_spec_reference,
    "commands.md": lambda: render_command_reference(reconcile),
    "exit-codes.md": render_exit_codes,
    "findings.md": render_findings_reference,
}


def write_into(text: str, generated: str) -> str:
    """Return the document with the generated text between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{generated}\n{END}{after}"


if __name__ == "__main__":
    for document, render in GENERATED.items():
        path = DOCUMENTS / document
        replace(path, write_into(path.read_text(encoding="utf-8"), render()).encode())
    sys.stdout.write(f"wrote {', '.join(GENERATED)} in {DOCUMENTS}\n")
