"""A repository with a curve that was measured elsewhere, rendered and committed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from reconciler.cli.main import main
from tests.unit.cli.conftest import commit, git
from tests.unit.endpoints.tree.curves import make_curve, make_submission, write_submission


def adopt_curve(folder: Path, *words: str) -> Path:
    """Seven points, and a dedicated Offline run. ``words``: further ones of the command that adopts them."""
    sent = write_submission(folder / "sent", make_submission(make_curve(dedicated=True)))
    root = folder / "mine"
    root.mkdir()
    git(root, "init", "--quiet")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.chdir(root)
        assert main(["adopt", str(sent), *words]) == 0
        assert main([]) == 0
    (root / ".gitignore").write_text(".reconcile/\n")
    commit(root, "Adopt a curve")
    return root
