"""A pass as a process of its own, for tests that end it in the middle."""

from __future__ import annotations

import subprocess

from tests.passes.repository import Repository
from tests.warm.commands import start_command


def start_doomed_pass(repository: Repository) -> subprocess.Popen[bytes]:
    """Dataset and model are made before, by this process."""
    repository.reconcile(only=("Dataset", "Model"))
    return start_command((), repository.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
