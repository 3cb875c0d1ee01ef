"""What `audit` and `pr` say in the tests of a module, held word for word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.said import hold

from .conftest import Reconcile

COMMANDS = ("audit", "pr")
# Whatever another run may measure, and digests, commits and ids of records, which may lack a digit.
_MEASURED = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b[0-9a-f]{7,64}\b|[+-]?\d+[.,]\d[\d.,]*|\d{4,}"
    r"|(?<=about )\d+ (?:ms|s|min)|(?<=seconds\": )\d+|(?<=^seconds: )\d+|(?<=process )\d+|(?<=here it is )[^;\"]+"
)


def hold_outputs(reconcile: Reconcile, request: pytest.FixtureRequest, said: Path) -> Iterator[Reconcile]:
    """``reconcile``, of whose outputs what is not proven stands in ``said`` beneath the name of the test."""
    lines: list[str] = []
    here = str(request.getfixturevalue("tmp_path"))

    def run(*arguments: str) -> tuple[int, str, str]:
        code, out, error = reconcile(*arguments)
        if arguments and arguments[0] in COMMANDS:
            refused = [line for line in error.splitlines() if line.startswith(("error:", "fix:"))]
            told = [f"$ reconcile {' '.join(arguments)} = {code}", *_tell(out), *refused]
            lines.extend(_MEASURED.sub("#", line.replace(here, "…").rstrip()) for line in told)
        return code, out, error

    yield run
    hold(said, request.node.name, lines)


def _tell(out: str) -> Iterator[str]:
    """Of a document in JSON a line for each of its values, and for each item of its lists."""
    if not out.startswith("{"):
        yield from out.splitlines()
        return
    for name, value in json.loads(out).items():
        for item in value if isinstance(value, list) else [value]:
            if not (isinstance(item, dict) and item.get("proof") == "proven"):
                yield f"{name}: {json.dumps(item, ensure_ascii=False)}"
