"""`reconcile init [DIR]`: a repository with a commented starter spec for this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from reconciler.cli.shared.new_repository import SCHEMA, explain_unwritable, propose_this_machine, write_repository
from reconciler.cli.shared.new_submission import (
    SubmissionRequest,
    describe_submission,
    list_documents,
    prepare_submission,
)
from reconciler.cli.shared.options import complete_rounds, takes
from reconciler.cli.shared.output import say
from reconciler.errors import IN_SYNC, ReconcilerError, RepositoryError
from reconciler.resource.kinds import DIVISIONS
from reconciler.spec.files import leads_out
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import CATEGORIES
from reconciler.spec.scalars import parse_name as folder_name
from reconciler.spec.starter import render_starter_spec
from reconciler.spec.submission_template import render_submission_spec
from reconciler.storage import git
from reconciler.storage.files import replace
from reconciler.storage.packaged_files import read_shipped
from reconciler.storage.untrusted_files import read_regular

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
        type=click.Path(exists=True, file_okay=False),
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
    chosen = _name_from(root.name) if name is None else _checked(name)
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
        starter = text or render_starter_spec(propose_this_machine(), name=chosen, schema=f"../{SCHEMA}")
        write_repository(root, chosen, starter)
    if wanted is not None:
        say("\n".join(describe_submission(wanted, spec.relative_to(root).as_posix())))
    _say(root, spec, made_git, whole=wanted is not None)
    return IN_SYNC


def _checked(name: str) -> str:
    try:
        return folder_name(name)
    except UnfitError as error:
        raise ReconcilerError(f"--name: {error.message}", fix=error.fix) from error


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
