"""Making a repository: its specs, the folders that git keeps, and what is known of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError, StorageError
from reconciler.launch.nodes import probe_nodes
from reconciler.resource.launcher import Launcher
from reconciler.spec.proposal import Proposal, propose
from reconciler.spec.starter import NOTHING_READ
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.leftovers import open_temporary, sweep_folders, sweep_repository
from reconciler.storage.packaged_files import read_shipped
from reconciler.storage.untrusted_files import LARGEST_RECORD, read_regular

SCHEMA = "schemas/submission.schema.json"

_README = Template("""\
# $name

An MLPerf Inference submission, kept by `reconcile`.

- `specs/` declares it. `reconcile validate` checks it, `reconcile plan` shows what is to be done, `reconcile` does it.
- `state/` holds what was measured: records and logs. Commit it (`reconcile --commit` does).
- `.reconcile/` holds what can be made again or fetched; it is not committed.
""")

WORKFLOW_FILE = ".github/workflows/submission.yml"
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


@contextmanager
def explain_unwritable(root: Path, command: str) -> Iterator[None]:
    """Whatever the file system refuses is the folder's fault: a file in its path, a place where nothing can be made.
    ``command``: how another folder is chosen."""
    try:
        yield
    except OSError as error:
        where = error.filename or root
        fix = f"choose a folder that can be made and written: {command}"
        raise StorageError(f"cannot make a repository at {root}: {where}: {error.strerror}", fix=fix) from error


def write_repository(root: Path, name: str, spec: str) -> None:
    """``spec``: its text, for specs/``name``.yaml. What git is to know stays as it is where it exists already. The spec
    comes last: what was killed before that can be begun again."""
    sweep_repository(RepositoryPaths(root))
    sweep_folders(((root / SCHEMA).parent, (root / WORKFLOW_FILE).parent))
    replace(root / SCHEMA, read_shipped(SCHEMA))
    for kept in ("state/records/.gitkeep", "state/logs/.gitkeep"):
        replace(root / kept, b"")
    # Without a slash at its end: a link to a folder elsewhere is ignored too.
    _line(root / ".gitignore", ".reconcile")
    # Records and logs go by the digest of their bytes: git must not change a line end.
    _line(root / ".gitattributes", "state/** -text")
    for path, text in (("README.md", _README.substitute(name=name)), (WORKFLOW_FILE, _WORKFLOW)):
        if not (root / path).exists():
            replace(root / path, text.encode())
    replace(root / "specs" / f"{name}.yaml", spec.encode())


def propose_this_machine() -> Proposal:
    """As `reconcile detect` reads it; a machine that cannot be read is for the user to describe."""
    try:
        with open_temporary("probe") as shared:
            (node,) = probe_nodes(ProbeRequest(hardware=True), Launcher(), shared)
    except ReconcilerError:
        return NOTHING_READ
    return propose(node)


def _line(path: Path, wanted: str) -> None:
    """Add a line to a file, unless it is there."""
    line, before = wanted.encode(), read_regular(path, LARGEST_RECORD) if path.exists() else b""
    if line not in before.splitlines():
        joined = before if not before or before.endswith(b"\n") else before + b"\n"
        replace(path, joined + line + b"\n")
