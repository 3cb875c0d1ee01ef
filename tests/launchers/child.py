"""What a fork does that is to be ``python -P -m harness`` on a node, with the folder ``node`` on its path."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from harness import __main__ as harness

_NODE = Path(__file__).with_name("node")


def main(words: list[str]) -> None:
    sys.path.insert(0, str(_NODE))
    runpy.run_path(str(_NODE / "sitecustomize.py"))  # each Python does that with the first on its path
    harness.main(words)
