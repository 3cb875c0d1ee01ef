"""A pass as a process of its own, for tests that end it in the middle."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.passes.repository import HERE, Repository

CHECKOUT = HERE.parent.parent
_PASS = """\
import sys
from pathlib import Path
from reconciler.files import RepositoryPaths
from reconciler.planning import Options
from reconciler.reconcile import run_pass
run_pass(RepositoryPaths(Path(sys.argv[1])), Options(), report=lambda _: None)
"""


def start_doomed_pass(repository: Repository) -> subprocess.Popen[bytes]:
    """Dataset and model are made before, by this process."""
    repository.reconcile(only=("Dataset", "Model"))
    command = [sys.executable, "-c", _PASS, str(repository.root)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stderr=subprocess.DEVNULL)
