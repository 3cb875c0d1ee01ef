"""`reconcile init [DIR]`: a repository with a commented starter spec for this machine."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

import click

from harness.contract import ProbeRequest
from reconciler import git
from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.errors import IN_SYNC, ReconcilerError, RepositoryError, StorageError
from reconciler.files import replace
from reconciler.launch.launcher import Launcher
from reconciler.launch.nodes import probe_nodes
from reconciler.spec.proposal import Proposal, propose
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import parse_name as folder_name
from reconciler.spec.shipped import read_shipped
from reconciler.spec.starter import NOTHING_READ, render_starter_spec

_SCHEMA = "schemas/submission.schema.json"
_FOLDER = click.Argument(["folder"], required=False, default=".", metavar="[DIR]", type=click.Path(file_okay=False))
_NAME = click.Option(["--name"], metavar="NAME", help="Name of the submission; by default that of the folder.")

_README = Template("""\
# $name

An MLPerf Inference submission, kept by `reconcile`.

- `specs/` declares it. `reconcile validate` checks it, `reconcile plan` shows what is to be done, `reconcile` does it.
- `state/` holds what was measured: records and logs. Commit it (`reconcile --commit` does).
- `.reconcile/` holds what can be made again or fetched; it is not committed.
""")

_WORKFLOW_FILE = ".github/workflows/submission.yml"
# The verdict goes to the run's own page: what a comment says can leave an embargoed repository by mail.
_WORKFLOW = """\
name: submission
on: pull_request
permissions: {contents: read}
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with: {fetch-depth: 0}
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install mlperf-reconciler
      - run: reconcile pr --base "origin/$GITHUB_BASE_REF" --fail-on errors --markdown "$RUNNER_TEMP/impact.md"
      - if: always()
        run: cat "$RUNNER_TEMP/impact.md" >> "$GITHUB_STEP_SUMMARY"
"""


@click.command("init")
@takes([_FOLDER, _NAME])
def command(folder: str, name: str | None) -> int:
    """Make DIR (by default this folder) a repository: a starter spec for this machine, state/, and git if need be.

    Nothing that exists is overwritten.
    """
    root = Path(folder).resolve()
    chosen = _name_from(root.name) if name is None else _checked(name)
    spec = root / "specs" / f"{chosen}.yaml"
    with _writing(root):
        _refuse(root)
        root.mkdir(parents=True, exist_ok=True)
        made_git = git.initialise(root)
        _write(root, spec, chosen)
    _say(root, spec, made_git)
    return IN_SYNC


def _write(root: Path, spec: Path, name: str) -> None:
    replace(spec, render_starter_spec(_this_machine(), name=name, schema=f"../{_SCHEMA}").encode())
    replace(root / _SCHEMA, read_shipped(_SCHEMA))
    for kept in ("state/records/.gitkeep", "state/logs/.gitkeep"):
        replace(root / kept, b"")
    # Without a slash at its end: a link to a folder elsewhere is ignored too.
    _line(root / ".gitignore", ".reconcile")
    # Records and logs go by the digest of their bytes: git must not change a line end.
    _line(root / ".gitattributes", "state/** -text")
    for path, text in (("README.md", _README.substitute(name=name)), (_WORKFLOW_FILE, _WORKFLOW)):
        if not (root / path).exists():
            replace(root / path, text.encode())


def _this_machine() -> Proposal:
    """As `reconcile detect` reads it; a machine that cannot be read is for the user to describe."""
    try:
        (node,) = probe_nodes(ProbeRequest(hardware=True), Launcher(), Path(tempfile.gettempdir()))
    except ReconcilerError:
        return NOTHING_READ
    return propose(node)


def _checked(name: str) -> str:
    try:
        return folder_name(name)
    except UnfitError as error:
        raise ReconcilerError(f"--name: {error.message}", fix=error.fix) from error


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    """Whatever the file system refuses is the folder's fault: a file in its path, a place where nothing can be made."""
    try:
        yield
    except OSError as error:
        where = error.filename or root
        fix = "choose a folder that can be made and written: reconcile init DIR"
        raise StorageError(f"cannot make a repository at {root}: {where}: {error.strerror}", fix=fix) from error


def _name_from(folder: str) -> str:
    """A folder's name as a name that specs take."""
    return re.sub(r"[^a-z0-9._-]+", "-", folder.lower()).strip("-._")[:100] or "submission"


def _refuse(root: Path) -> None:
    present = sorted(path for path in (root / "specs").glob("**/*") if path.suffix in (".yaml", ".yml"))
    present += [path for path in (root / _SCHEMA,) if path.exists()]
    if present:
        names = ", ".join(path.relative_to(root).as_posix() for path in present[:4])
        raise RepositoryError(
            f"{root} has {names} already; nothing was written",
            fix="`reconcile plan` works with what is there; or choose an empty folder: reconcile init DIR",
        )


def _line(path: Path, wanted: str) -> None:
    """Add a line to a file, unless it is there."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if wanted not in before.splitlines():
        joined = before if not before or before.endswith("\n") else f"{before}\n"
        replace(path, f"{joined}{wanted}\n".encode())


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
