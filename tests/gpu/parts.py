"""Run the parts of a measurement one after the other, and report each when it ends, even if others fail."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


def add_options(parser: argparse.ArgumentParser, parts: Iterable[str], usual: Iterable[str]) -> None:
    """Add --only and --json. ``usual``: the parts measured by default."""
    parser.add_argument("--only", default=",".join(usual), help=", ".join(parts))
    parser.add_argument("--json", type=Path)


def measure_parts(
    program: str,
    title: str,
    parts: Mapping[str, Callable[[], Figures]],
    options: argparse.Namespace,
    facts: Figures | None = None,
) -> None:
    """``program``: the started module. ``title``: of the document in options.json, which begins with ``facts``."""
    found: Figures = {"command": f"python -m {program} {' '.join(sys.argv[1:])}", **(facts or {})}
    for name in options.only.split(","):
        began = time.monotonic()
        try:
            found[name] = parts[name]()
        except Exception as error:  # the other parts are still worth their time
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[-3000:]}"}
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps({name: found[name]}), flush=True)
        if options.json:
            options.json.write_text(json.dumps({title: found}, indent=1) + "\n")
