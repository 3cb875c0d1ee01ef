"""`reconcile init [DIR]`: a repository with a commented starter spec for this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from reconciler import git
from reconciler.cli.shared.new_repository import SCHEMA, explain_unwritable, propose_this_machine, write_repository
from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.errors import IN_SYNC, ReconcilerError, RepositoryError
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import parse_name as folder_name
from reconciler.spec.shipped import read_shipped
from reconciler.spec.starter import render_starter_spec

_FOLDER = click.Argument(["folder"], required=False, default=".", metavar="[DIR]", type=click.Path(file_okay=False))
_NAME = click.Option(["--name"], metavar="NAME", help="Name of the submission; by default that of the folder.")


@click.command("init")
@takes([_FOLDER, _NAME])
def command(folder: str, name: str | None) -> int:
    """Make DIR (by default this folder) a repository: a starter spec for this machine, state/, and git if need be.

    Nothing that exists is overwritten.
    """
    root = Path(folder).resolve()
    chosen = _name_from(root.name) if name is None else _checked(name)
    spec = root / "specs" / f"{chosen}.yaml"
    with explain_unwritable(root, "reconcile init DIR"):
        _refuse(root)
        root.mkdir(parents=True, exist_ok=True)
        made_git = git.initialise(root)
        write_repository(root, chosen, render_starter_spec(propose_this_machine(), name=chosen, schema=f"../{SCHEMA}"))
    _say(root, spec, made_git)
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
    present = sorted(path for path in (root / "specs").glob("**/*") if path.suffix in (".yaml", ".yml"))
    present += [path for path in (root / SCHEMA,) if path.exists() and path.read_bytes() != read_shipped(SCHEMA)]
    if present:
        names = ", ".join(path.relative_to(root).as_posix() for path in present[:4])
        raise RepositoryError(
            f"{root} has {names} already; nothing was written",
            fix="`reconcile plan` works with what is there; or choose an empty folder: reconcile init DIR",
        )


def _say(root: Path, spec: Path, made_git: bool) -> None:
    here = Path.cwd().resolve()
    go = f"cd {os.path.relpath(root, here)}\n  " if root != here else ""
    say(f"Made {'a git repository and ' if made_git else ''}{spec.relative_to(root)}, filled in for this machine.")
    say(
        "Next:\n"
        f"  {go}$EDITOR {spec.relative_to(root)}   # what to submit; it works as it is\n"
        "  reconcile validate\n"
        "  reconcile plan\n"
        "  reconcile"
    )
