"""`reconcile init [DIR]`: create a repository with a commented starter spec for this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, complete_rounds, takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.repository import find_root, refuse_bare_repository
from reconciler.errors import IN_SYNC
from reconciler.reconcile.new_repository import NewRepository, SubmissionRequest, list_warnings, make_repository
from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.quantities import show_count
from reconciler.spec.scalars import CATEGORIES
from reconciler.spec.submission_template import (
    EXAMPLE_SUBMITTER,
    FILL_IN,
    Wanted,
    list_required,
    list_starting_values,
    render_submission_spec,
)

_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z`])")


def _describe_submission(made: NewRepository, wanted: Wanted) -> list[str]:
    """Describe the written files, and the tasks left to the user."""
    cells = sum(len(list_required(wanted, rules)) for rules in wanted.benchmarks)
    started = list_starting_values(wanted)
    blanks = sum(line.count(FILL_IN) for line in render_submission_spec(wanted).splitlines()[3:])
    lines = [
        f"Wrote {made.spec}: {show_count(len(wanted.benchmarks), 'benchmark')}, {show_count(cells, 'required cell')} "
        f"of the {wanted.division} division for {wanted.system}, round {wanted.ruleset.round}.",
        *(f"Wrote {path}." for path in made.documents),
    ]
    if started:
        lines.append(f"Starting values from published results ({len(started)} of {cells} cells):")
        lines += [f"  {cell} {one.setting} {one.value}: {one.shown}, {one.source}" for cell, one in started.items()]
    if wanted.adapter is not None and wanted.adapter.known.notes:
        notes = " ".join(wanted.adapter.known.notes.split())
        lines.append(f"About {wanted.adapter.name}:")
        lines += [f"  - {sentence}" for sentence in _SENTENCES.split(notes)]
    if wanted.code:
        lines.append(f"Its code: {', '.join(dict.fromkeys(wanted.code.values()))}.")
    lines += [f"Warning: {text}." for text in list_warnings(wanted)]
    if "host_processor_model_name" not in wanted.read.description:
        lines.append(f"Its host is not described: on it, run `reconcile detect --system {wanted.system} --write`.")
    lines.append(f"To fill in: {show_count(blanks, 'line')} marked '{FILL_IN.removeprefix('# ')}'.")
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
    click.Option(
        ["--system", "systems"],
        multiple=True,
        metavar="NAME",
        help="The system, such as h200x8; default: this machine.",
    ),
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
    click.Option(
        ["--submitter"], default=EXAMPLE_SUBMITTER, metavar="NAME", help="Your folder in the submission tree."
    ),
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
    systems: tuple[str, ...],
    harness: str | None,
    code: str | None,
    submitter: str,
) -> int:
    """Make DIR (by default this folder) a repository: a starter spec for this machine, state/, and git if needed.

    With --benchmark the spec is that of a whole submission: every scenario that the round requires, known facts about
    the system, starting values from published results, and marked blanks for the rest. Existing files are kept.
    """
    if code and not harness:
        raise click.UsageError("--code also needs --harness ADAPTER")
    if len(systems) > 1:
        raise click.UsageError("init describes one system: give one --system, and add the others to the spec")
    if (round_name or systems) and not (benchmarks or harness):
        raise click.UsageError("--system and --round also need --benchmark NAME or --harness ADAPTER")
    request = SubmissionRequest(
        round_name=round_name,
        division=division,
        category=category,
        benchmarks=benchmarks,
        system=next(iter(systems), None),
        harness=harness or "",
        code=code or "",
    )
    with contextlib.suppress(OSError):  # of a folder that cannot be made, reported below
        if find_root(Path(folder)) is None:
            refuse_bare_repository(Path(folder).resolve())
    made = make_repository(Path(folder).resolve(), name, submitter, request if benchmarks or harness else None)
    if made.wanted is not None:
        say("\n".join(_describe_submission(made, made.wanted)))
    _say_next(made)
    return IN_SYNC


def _say_next(made: NewRepository) -> None:
    here = Path.cwd().resolve()
    go = f"cd {shlex.quote(os.path.relpath(made.root, here))}\n  " if made.root != here else ""
    if made.wanted is not None:
        if made.made_git:
            say("Made a git repository.")
        say(f"Next:\n  {go}$EDITOR {made.spec}   # the lines marked '<- fill in'\n  reconcile doctor")
        return
    say(f"Made {'a git repository and ' if made.made_git else ''}{made.spec}, filled in for this machine.")
    say(
        "Next:\n"
        f"  {go}$EDITOR {made.spec}   # what to submit; it works unchanged\n"
        "  reconcile validate\n"
        "  reconcile plan\n"
        "  git add --all && git commit   # results count only once their spec is committed\n"
        "  reconcile"
    )
