"""``python -m tests.benchmarks.full_length FOLDER [--official CHECKOUT]``: one whole submission at full length.

Makes a repository in FOLDER (or goes on with the one there), runs `reconcile`, then `reconcile check`, with the
official checkers of CHECKOUT where it is given. Ends with the status of the check.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.full_length", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--official", type=Path)
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    if not (folder / "specs").exists():
        (folder / "specs").mkdir(parents=True)
        (folder / "benchmarks").mkdir()
        shutil.copy(HERE / "spec.yaml", folder / "specs/full-length.yaml")
        shutil.copy(HERE / "bands.py", folder / "benchmarks/bands.py")
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Declare"]):
            subprocess.run(["git", *words], cwd=folder, check=True)
    reconcile = [sys.executable, "-P", "-m", "reconciler.cli.main"]
    subprocess.run(reconcile, cwd=folder, check=False)
    official = ["--official", str(asked.official.resolve())] if asked.official else []
    return subprocess.run([*reconcile, "check", *official], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
