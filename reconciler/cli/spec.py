"""Commands that use only the specs: `explain`, `fmt` and `validate`."""

from __future__ import annotations

import difflib
import itertools
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json, say_report
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.desired.checks import check_reading
from reconciler.desired.compile import compile_desired
from reconciler.desired.requirements import list_needed_pins
from reconciler.desired.state import Desired
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError, SpecError
from reconciler.observed.pins import collect_recorded_pins
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.record.index import load
from reconciler.render.documents import render_document
from reconciler.resource.quantities import join_listing, show_count
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.checks import find_absent_code
from reconciler.spec.declared import Declared
from reconciler.spec.edit import format_spec
from reconciler.spec.files import LARGEST_FILE, Source, decode, read_sources
from reconciler.spec.loading import list_left_out, read_texts
from reconciler.spec.schema import WIDTH, complete_path, find_schema_node, render_schema_node, render_schema_part
from reconciler.storage.files import replace as replace_file
from reconciler.storage.leftovers import sweep_siblings


def _complete_paths(_: click.Context, __: click.Parameter, beginning: str) -> list[CompletionItem]:
    try:
        return [CompletionItem(path) for path in complete_path(beginning)]
    except ReconcilerError:
        return []


_PATH = click.Argument(["path"], required=False, default="", metavar="[PATH]", shell_complete=_complete_paths)


@click.command("explain")
@takes([_PATH, json_option()])
def explain_command(path: str, as_json: bool) -> int:
    """Show what may be written at PATH in a spec, such as spec.benchmarks.engine: its type, choices, default and
    meaning.

    Your own names (of a system, a benchmark, a cell) are optional in PATH; a field is also found by its name, such as
    target_qps. Without PATH: the whole document.

    Editors use the same schema: the first line of a spec names the schema, schemas/submission.schema.json.
    """
    found = find_schema_node(path)
    document = render_document("explain", **render_schema_part(found))
    say_report(document, render_schema_node(found, min(choose_paint().width or WIDTH, WIDTH)), as_json=as_json)
    return IN_SYNC


_SPECS = click.Argument(["specs"], nargs=-1, metavar="[SPEC]...", type=click.Path())
_CHECK = click.Option(["--check"], is_flag=True, help="Change nothing; show what would change, and exit 2 if any does.")


@click.command("fmt")
@takes([_SPECS, _CHECK, json_option()])
def fmt_command(specs: tuple[str, ...], check: bool, as_json: bool) -> int:
    """Format SPEC (by default all files in specs/) uniformly: trailing spaces, line endings, empty lines.

    Comments, order and every value stay as they are; a file whose content would change is skipped.
    """
    paths = find_repository(specs)
    spec_paths = list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs])
    sources, problems = read_sources(spec_paths, paths.root)
    if problems:
        raise SpecError(problems)
    changed = []
    for source in sources:
        formatted = format_spec(source.text, source.name)
        path = paths.root / source.name
        if formatted.encode() == path.read_bytes():
            continue
        changed.append(source.name)
        if not check:
            sweep_siblings(path)
            replace_file(path, formatted.encode())
        if as_json:
            continue
        if check:
            before, after = source.text.splitlines(), formatted.splitlines()
            for line in difflib.unified_diff(before, after, source.name, source.name, n=1, lineterm=""):
                say(line)
        else:
            say(f"Formatted {source.name}.")
    if as_json:
        say_json(render_document("fmt", changed=changed, written=not check))
    elif not changed:
        say("Nothing to change.")
    return NOT_IN_SYNC if check and changed else IN_SYNC


STANDARD_INPUT = "-"


@click.command("validate")
@takes([_SPECS, json_option()])
def validate_command(specs: tuple[str, ...], as_json: bool) -> int:
    """Check SPEC (by default all files in specs/; - is standard input): syntax, names, units, merging, and the rules of
    the round.

    Needs no model, data or device. Reports every problem at once, also those for which a submission would be refused
    later: a valid spec with such gaps exits 2.
    """
    declared, desired, left_out = _read_specs(specs)
    files = [file.path for file in declared.files]
    distinct = len({resource.key for resource in desired.resources})  # as plans count them: cells may share one
    head = {"valid": True, "complete": not desired.gaps, "problems": [], "files": files}
    said = {"missing_cells": desired.missing_cells, "notes": desired.notes, "left_out": left_out}
    counts = {"cells": len(declared.cells), "resources": distinct}
    cells, resources = show_count(len(declared.cells), "cell"), show_count(distinct, "resource")
    lines = [f"Valid: {join_listing(files)} ({cells}, {resources}, round {declared.round.value})."]
    lines += [f"Skipped, because they apply only when given by name: {join_listing(left_out)}"] if left_out else []
    lines += [f"Not declared, but required by the round: {cell}" for cell in desired.missing_cells]
    lines += desired.notes
    if desired.gaps:
        lines.append(f"Before it can be submitted ({show_count(len(desired.gaps), 'gap')}):")
    for fix, alike in itertools.groupby(desired.gaps, key=lambda gap: gap.fix):
        lines += [f"  {gap._replace(fix='')}" for gap in alike]
        lines += [f"    fix: {fix}"] if fix else []
    document = render_document("validate", **head, **said, **counts, gaps=desired.gaps)
    say_report(document, "\n".join(lines), as_json=as_json)
    return NOT_IN_SYNC if desired.gaps else IN_SYNC


def _read_specs(specs: Sequence[str]) -> tuple[Declared, Desired, tuple[str, ...]]:
    named = [spec for spec in specs if spec != STANDARD_INPUT]
    paths = find_repository(named)
    only_given = bool(specs) and not named
    spec_paths = [] if only_given else list_spec_paths(paths, [show_from_root(paths, spec) for spec in named])
    sources, problems = ([], []) if only_given else read_sources(spec_paths, paths.root)
    if STANDARD_INPUT in specs:
        given = decode(sys.stdin.buffer.read(LARGEST_FILE), "<stdin>")
        if isinstance(given, Source):
            sources.append(given)
        else:
            problems.append(given)
    declared, ruleset = check_reading(read_texts(sources, paths.root, os.environ, problems), load_ruleset)
    recorded = load(paths).recorded
    desired = compile_desired(
        declared, ruleset, collect_recorded_pins(list_needed_pins(declared, ruleset), recorded, {})
    )[0]
    absent, elsewhere = find_absent_code(declared, paths.root)
    desired = replace(desired, gaps=(*desired.list_gaps(recorded), *absent), notes=(*desired.notes, *elsewhere))
    return declared, desired, list_left_out(spec_paths, paths.root)
