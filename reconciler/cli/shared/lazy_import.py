"""The one place where the command line imports late: commands, and libraries that only some of their runs need.

`reconcile --help` imports click and nothing else; `plan` on a warm cache must not pay for git, rich or a YAML parser.
"""

from __future__ import annotations

import importlib
from typing import Any


def lazy_import(module: str) -> Any:
    return importlib.import_module(module)
