"""`reconcile init [DIR]`: a repository with a commented starter spec for this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import Struct

from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.new_repository import SCHEMA, explain_unwritable, propose_this_machine, write_repository
from reconciler.cli.shared.options import complete_rounds, takes
from reconciler.cli.shared.output import say
from reconciler.errors import IN_SYNC, ReconcilerError, RepositoryError, suggest_nearest
from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.quantities import join_listing, show_count
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset, normalise_category
from reconciler.spec.adapters import HarnessAdapter, describe_missing, list_adapters
from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.files import leads_out
from reconciler.spec.names import give_advice
from reconciler.spec.proposal import Proposal
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import CATEGORIES
from reconciler.spec.scalars import parse_name as folder_name
from reconciler.spec.starter import NOTHING_READ, render_starter_spec
from reconciler.spec.starting_values import find_family
from reconciler.spec.submission_template import (
    FILL_IN,
    Wanted,
    list_required,
    list_starting_values,
    render_submission_spec,
)
from reconciler.storage import git
from reconciler.storage.files import replace
from reconciler.storage.packaged_files import read_shipped
from reconciler.storage.untrusted_files import read_regular

# Output of `reconcile init --benchmark …`: the spec of a whole submission, and the documents that it names.

_CALIBRATION = """\
# Calibration

How each model was quantized, with which data. `reconcile check` asks for this file in the closed and network divisions.

"""


class SubmissionRequest(Struct, frozen=True):
    """As typed. ``benchmarks``: names, or several with commas between them."""

    name: str
    round_name: str | None
    division: str
    category: str
    benchmarks: tuple[str, ...]
    system: str | None
    submitter: str
    harness: str = ""
    code: str = ""


def prepare_submission(request: SubmissionRequest, schema: str) -> Wanted:
    """Raises ReconcilerError for a round, a benchmark or a category that is not to be had."""
    ruleset = load_ruleset(request.round_name or list_rounds()[-1])
    names = [name.strip() for text in request.benchmarks for name in text.split(",") if name.strip()]
    adapter = _find_adapter(request.harness) if request.harness else None
    if adapter is not None and not names:
        names = _list_adapted(adapter, ruleset, request.category)
    rules = [_find_rules(ruleset, name, request.category) for name in dict.fromkeys(names)]
    for each in rules:
        if adapter is not None and each.name not in adapter.known.benchmarks:
            message, fix = describe_missing(adapter, each.name)
            raise ReconcilerError(message, fix=fix)
    system = request.system or "this-machine"
    family = find_family(system)
    if family is None:
        read = propose_this_machine()
    elif family.accelerator:
        counted = str(family.count)
        described = {"accelerator_model_name": family.accelerator, "accelerators_per_node": counted}
        read = Proposal({"accelerator": family.accelerator, "count": family.count}, described, ())
    else:
        read = NOTHING_READ
    known = {"system_name": request.system or NOT_DECLARED, "framework": NOT_DECLARED, **read.description}
    return Wanted(
        name=request.name,
        ruleset=ruleset,
        submitter=request.submitter,
        division=request.division,
        category=request.category,
        system=system,
        benchmarks=rules,
        family=family,
        read=Proposal(read.hardware, known, read.unread),
        schema=schema,
        adapter=adapter,
        code=str(Path(request.code).resolve()) if request.code else "",
    )


def _find_adapter(name: str) -> HarnessAdapter:
    if (found := list_adapters().get(name)) is None:
        raise ReconcilerError(f"{name!r} is not an adapter", fix=give_advice(name, [*list_adapters()], what="adapter"))
    return found


def _list_adapted(adapter: HarnessAdapter, ruleset: Ruleset, category: str) -> list[str]:
    """What it runs, of the benchmarks that the round has for such a system."""
    own = [name for name in adapter.known.benchmarks if name in ruleset.benchmarks]
    able = [name for name in own if normalise_category(category) in ruleset.benchmarks[name].tables]
    if not able:
        runs = ", ".join(adapter.known.benchmarks)
        message = f"adapter {adapter.name} runs nothing that round {ruleset.round} asks of {category} systems"
        raise ReconcilerError(message, fix=f"name another --round or --category; it runs {runs}")
    return able


def _find_rules(ruleset: Ruleset, name: str, category: str) -> BenchmarkRules:
    official = ruleset.find_official_name(name)
    if official is None:
        gone = " any more" if name in ruleset.earlier else ""
        fix = f"{suggest_nearest(name, ruleset.benchmarks)}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}{gone}", fix=fix)
    rules = ruleset.benchmarks[official]
    if normalise_category(category) not in rules.tables:
        able = [other for other, found in ruleset.benchmarks.items() if normalise_category(category) in found.tables]
        fix = f"it is for {join_listing(rules.tables)}; {category} has {', '.join(able)}"
        raise ReconcilerError(f"{ruleset.round} has no {category} {official}", fix=fix)
    return rules


def list_documents(wanted: Wanted) -> Mapping[str, str]:
    """Path → text of the documents that the spec names."""
    if not wanted.writes_calibration:
        return {}
    blanks = "\n".join(f"## {rules.name}\n\nNot written yet.\n" for rules in wanted.benchmarks)
    return {"documents/calibration.md": _CALIBRATION + blanks}


def describe_submission(wanted: Wanted, spec: str) -> list[str]:
    """Describe the written files, and the tasks left to the user."""
    cells = sum(len(list_required(wanted, rules)) for rules in wanted.benchmarks)
    started = list_starting_values(wanted)
    blanks = sum(line.count(FILL_IN) for line in render_submission_spec(wanted).splitlines()[3:])
    lines = [
        f"Wrote {spec}: {show_count(len(wanted.benchmarks), 'benchmark')}, {show_count(cells, 'required cell')} of the "
        f"{wanted.division} division for {wanted.system}, round {wanted.ruleset.round}.",
        *(f"Wrote {path}." for path in list_documents(wanted)),
    ]
    if started:
        lines.append(f"Values to begin with, from published results ({len(started)} of {cells} cells):")
        lines += [f"  {value.setting} {value.value}: {value.shown}, {value.source}" for value in started]
    if wanted.adapter is not None and wanted.adapter.known.notes:
        lines.append(f"About {wanted.adapter.name}: {' '.join(wanted.adapter.known.notes.split())}")
    lines.append(f"Left for you: {show_count(blanks, 'line')} marked '{FILL_IN.removeprefix('# ')}'.")
    return lines


_FOLDER = click.Argument(["folder"], required=False, default=".", metavar="[DIR]", type=click.Path(file_okay=False))
_NAME = click.Option(["--name"], metavar="NAME", help="Name of the submission; by default that of the folder.")


_SUBMISSION = (
    click.Option(
        ["--round", "round_name"],
        metavar="ROUND",
        shell_complete=complete_rounds,
        help="The round of a whole submission; default: the latest.",
    ),
    click.Option(["--division"], type=click.Choice(DIVISIONS), default="closed", help="Its division; default: closed."),
    click.Option(
        ["--category"],
        type=click.Choice(CATEGORIES),
        default="datacenter",
        help="The category of the system; default: datacenter.",
    ),
    click.Option(
        ["--benchmark", "benchmarks"], multiple=True, metavar="NAME", help="A benchmark; repeat, or use commas."
    ),
    click.Option(["--system"], metavar="NAME", help="The system, such as h200x8; default: this machine."),
    click.Option(
        ["--harness"],
        metavar="ADAPTER",
        help="A published harness that runs them, such as nvidia-v5.1; default benchmarks: all that it runs.",
    ),
    click.Option(
        ["--code"],
        metavar="DIR",
        type=ExistingPath(file_okay=False),
        help="Checkout of that harness; its own settings of the system become starting values.",
    ),
    click.Option(["--submitter"], default="Example", metavar="NAME", help="Your folder in the submission tree."),
)


@click.command("init")
@takes([_FOLDER, _NAME, *_SUBMISSION])
def command(
    folder: str,
    name: str | None,
    round_name: str | None,
    division: str,
    category: str,
    benchmarks: tuple[str, ...],
    system: str | None,
    harness: str | None,
    code: str | None,
    submitter: str,
) -> int:
    """Make DIR (by default this folder) a repository: a starter spec for this machine, state/, and git if need be.

    With --benchmark the spec is that of a whole submission: every scenario that the round requires, what is known of
    the system, values to begin with from published results, and marked blanks for the rest. Nothing that exists is
    overwritten.
    """
    root = Path(folder).resolve()
    chosen = _name_from(root.name) if name is None else _checked("--name", name)
    submitter = _checked("--submitter", submitter)
    spec = root / "specs" / f"{chosen}.yaml"
    if code and not harness:
        raise click.UsageError("name the harness that is there, too: --harness ADAPTER")
    if benchmarks or harness:
        request = SubmissionRequest(
            chosen, round_name, division, category, benchmarks, system, submitter, harness or "", code or ""
        )
        wanted = prepare_submission(request, f"../{SCHEMA}")
        text, documents = render_submission_spec(wanted), list_documents(wanted)
    elif round_name or system:
        raise click.UsageError("name the benchmarks of the submission, too: --benchmark NAME")
    else:
        wanted, text, documents = None, None, {}
    with explain_unwritable(root, "reconcile init DIR"):
        _refuse(root)
        root.mkdir(parents=True, exist_ok=True)
        made_git = git.initialise(root)
        for path, content in documents.items():
            if not (root / path).exists():
                replace(root / path, content.encode())
        starter = text or render_starter_spec(
            propose_this_machine(), name=chosen, schema=f"../{SCHEMA}", submitter=submitter
        )
        write_repository(root, chosen, starter)
    if wanted is not None:
        say("\n".join(describe_submission(wanted, spec.relative_to(root).as_posix())))
    _say(root, spec, made_git, whole=wanted is not None)
    return IN_SYNC


def _checked(option: str, name: str) -> str:
    try:
        return folder_name(name)
    except UnfitError as error:
        raise ReconcilerError(f"{option}: {error.message}", fix=error.fix) from error


def _name_from(folder: str) -> str:
    """A folder's name as a name that specs take."""
    return re.sub(r"[^a-z0-9._-]+", "-", folder.lower()).strip("-._")[:100] or "submission"


def _refuse(root: Path) -> None:
    if out := [name for name in ("specs", "schemas", "state", ".github") if leads_out(root / name, root)]:
        raise RepositoryError(
            f"{root / out[0]} leads out of {root}: no command reads a spec there; nothing was written",
            fix="remove the link, or choose another folder: reconcile init DIR",
        )
    present = sorted(path for path in (root / "specs").glob("**/*") if path.suffix in (".yaml", ".yml"))
    present += [path for path in (root / SCHEMA,) if path.exists() and read_regular(path) != read_shipped(SCHEMA)]
    if present:
        names = ", ".join(path.relative_to(root).as_posix() for path in present[:4])
        raise RepositoryError(
            f"{root} has {names} already; nothing was written",
            fix="`reconcile plan` works with what is there; or choose an empty folder: reconcile init DIR",
        )


def _say(root: Path, spec: Path, made_git: bool, *, whole: bool) -> None:
    here = Path.cwd().resolve()
    go = f"cd {os.path.relpath(root, here)}\n  " if root != here else ""
    if whole:
        if made_git:
            say("Made a git repository.")
        say(f"Next:\n  {go}$EDITOR {spec.relative_to(root)}   # the lines marked '<- fill in'\n  reconcile doctor")
        return
    say(f"Made {'a git repository and ' if made_git else ''}{spec.relative_to(root)}, filled in for this machine.")
    say(
        "Next:\n"
        f"  {go}$EDITOR {spec.relative_to(root)}   # what to submit; it works as it is\n"
        "  reconcile validate\n"
        "  reconcile plan\n"
        "  reconcile"
    )
