"""One form for specs. Only what means nothing changes: the result is read again, and must say the same."""

from __future__ import annotations

import re
from itertools import pairwise

from reconciler.errors import SpecError
from reconciler.spec.edit import read
from reconciler.spec.nodes import parse

_BLOCK_TEXT = re.compile(r":[ \t]*[|>][-+0-9]*[ \t]*(#.*)?$", re.MULTILINE)


def format_spec(text: str, name: str) -> str:
    """Raises SpecError for a text that is not YAML. Text with blocks (``|``, ``>``) keeps its lines: spaces count
    there."""
    tree, problems = parse(text, name)
    if tree is None or problems:
        raise SpecError(problems)
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    if _BLOCK_TEXT.search(plain):
        return f"{plain.rstrip()}\n"
    lines = [_space_comment(line.rstrip()) for line in plain.split("\n")]
    kept = [line for before, line in pairwise(["", *lines]) if line or before]
    formatted = "\n".join(kept).rstrip("\n") + "\n"
    return formatted if read(formatted) == read(text) else text


def _space_comment(line: str) -> str:
    """``#comment`` at the beginning of a line becomes ``# comment``; a modeline or a shebang stays."""
    found = re.fullmatch(r"( *)#([^\s#!].*)", line)
    return f"{found[1]}# {found[2]}" if found else line
