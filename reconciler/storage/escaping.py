"""Escape output text from any source: specs, logs, folder names, commit subjects, a child's output.

Text is escaped once, at output, for its destination. Nothing shown can move a cursor, hide or reorder other text,
become markup, or act as a command for the program that reads a CI job's output.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# Control characters, surrogates (bytes of a name that is not UTF-8), invisible characters, and those that change the
# direction of writing: https://trojansource.codes
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f"
)
# Patterns are compiled on first use: these classes take long to compile, and most output needs none.
_IN_TEXT = f"[{_HIDDEN}]"
_IN_LINE = f"[{_HIDDEN}\t\n]"
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Our styles contain a secret number that the authors of the shown text could not know; any other escape sequence is
# text.
_SEAL = os.urandom(8).hex()
_STYLED = rf"\x1b\[{_SEAL}:([0-9;]*)m|[{_HIDDEN}]"
# GitHub (::error::, ##[error]), Azure (##vso[…]) and TeamCity (##teamcity[…]) obey such lines from any source.
_COMMAND = r"(?m)^([^\S\n]*):(?=:)|#(?=#(?:\[|vso\[|teamcity\[))"
_MARKUP = r"([\\`*_{}\[\]<>#|~$!&])"
_RESET = "0"
_SHORTEST = 6  # characters of a value that is replaced in output
_HIDDEN_VALUES: dict[str, str] = {}  # values that this process has expanded in specs
_HIDDEN_LOCATIONS: dict[str, str] = {}  # expanded locations → as written
_VARIABLE = r"\$\{(\w+)\}"
_BELOW_A_VARIABLE = r"\$\{\w+\}/[^/$]+"


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if character in _NAMES:
        return _NAMES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def seal_style(text: str, codes: str) -> str:
    """Return text in one of our styles (``codes``: SGR, such as "1;31"), which ``escape_output`` keeps."""
    return f"\x1b[{_SEAL}:{codes}m{text}\x1b[{_SEAL}:{_RESET}m"


def escape_output(text: str) -> str:
    """Escape lines for a terminal or a log. Our own styles and newlines are kept, every other control character is
    written out, and no line is a command."""
    shown = _hide_values(text)
    if not _is_plain(shown.replace("\n", "")):
        shown = re.sub(_STYLED, lambda found: f"\x1b[{found[1]}m" if found[1] else _escape_character(found), shown)
    return re.sub(_COMMAND, lambda found: "#\\" if found[1] is None else f"{found[1]}\\:", shown)


def escape_line(text: str) -> str:
    """Escape one value within a line: a newline in it does not begin another line."""
    return text if _is_plain(text) else re.sub(_IN_LINE, _escape_character, text)


def escape_hidden(text: str) -> str:
    """Remove only invisible characters, from text that is markup already or that contains our own CI commands."""
    return re.sub(_IN_TEXT, _escape_character, _hide_values(text))


def hide_value(name: str, value: str) -> None:
    """Show ``value`` from now on as its ``${NAME}`` everywhere. It does nothing for a path on this disk, which has many
    others below it (``hide_location`` hides the paths in a spec), or for a very short word, which would match
    everywhere."""
    if len(value) >= _SHORTEST and not value.startswith("/"):
        _HIDDEN_VALUES[value] = f"${{{name}}}"


def expand_variables(written: str, environment: Mapping[str, str]) -> str:
    """Expand the variables in a location; unset variables remain unchanged."""
    return re.sub(_VARIABLE, lambda found: environment.get(found[1], found[0]), written)


def find_variable(location: str) -> str:
    """Return the first unexpanded (unset) variable of a location; "" if there is none."""
    found = re.search(_VARIABLE, location)
    return found[1] if found is not None else ""


def hide_location(written: str, expanded: str) -> bool:
    """Show the location from now on as written in the spec, and paths below it accordingly. Returns False if it is so
    short that it would match everywhere."""
    if not expanded.startswith("/") and len(expanded) < _SHORTEST:
        return False
    pairs = [(written, expanded)]
    if top := re.match(_BELOW_A_VARIABLE, written):
        rest = written[top.end() :]
        pairs += [(top[0], expanded.removesuffix(rest))] if "$" not in rest and expanded.endswith(rest) else []
    for shown, path in pairs:
        if path := path.rstrip("/"):
            _HIDDEN_LOCATIONS[path] = shown.rstrip("/")
    _compile_locations.cache_clear()
    return True


def _hide_values(text: str) -> str:
    if _HIDDEN_LOCATIONS:
        text = _compile_locations().sub(lambda found: _HIDDEN_LOCATIONS[found[0]], text)
    for value in sorted(_HIDDEN_VALUES, key=len, reverse=True):
        text = text.replace(value, _HIDDEN_VALUES[value])
    return text


@lru_cache(maxsize=1)
def _compile_locations() -> re.Pattern[str]:
    """Compile a pattern of complete names only; in JSON, the letter n of an escaped newline may precede one."""
    longest_first = sorted(_HIDDEN_LOCATIONS, key=len, reverse=True)
    return re.compile(rf"(?:(?<![\w./~-])|(?<=\\[nrt]))(?:{'|'.join(map(re.escape, longest_first))})(?![\w-]|\.\w)")


def encode_json(value: Any) -> str:
    """Encode like ``json.dumps``, with indentation; invisible characters and commands are escaped in JSON's own way."""
    shown = _hide_values(_dump_json(value))
    return re.sub(_IN_TEXT, lambda found: json.dumps(found[0])[1:-1], shown).replace("##", "#\\u0023")


def _dump_json(value: Any) -> str:
    """Encode with msgspec, since Python's own encoder takes five times as long with indentation. It is used only for
    values that msgspec rejects (half a character, a non-finite number)."""
    import msgspec

    try:
        return msgspec.json.format(json.dumps(value, ensure_ascii=False), indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json.dumps(value, indent=2, ensure_ascii=False)


def escape_markdown(text: str) -> str:
    """Escape a value as plain text of a paragraph, a heading or a table cell: no markup, no link, no mention."""
    return re.sub(_MARKUP, r"\\\1", escape_line(" ".join(text.split()))).replace("@", "@<!-- -->")


def quote_code(text: str, *, in_table: bool = False) -> str:
    """Quote a value as code in Markdown: its backticks cannot end the code, and it cannot end a table cell."""
    inside = escape_line(text).replace("|", "\\|") if in_table else escape_line(text)
    longest = max((len(run) for run in re.findall("`+", inside)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {inside} {fence}" if longest or not inside.strip() else f"{fence}{inside}{fence}"


def escape_html(text: str) -> str:
    """Escape a value as text or as a quoted attribute."""
    import html

    return html.escape(re.sub(_IN_TEXT, _escape_character, text), quote=True)
