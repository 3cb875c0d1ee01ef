"""Text on its way out, from any source: specs, logs, names of folders, subjects of commits, output of a child.

Escaped once, at the exit, for where it goes. Nothing that is shown moves a cursor, hides or reorders its neighbours,
becomes markup, or is a command for the program that reads the output of a continuous integration.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# Control characters, surrogates (bytes of a name that is not UTF-8), what is invisible, and what turns the direction of
# writing around: https://trojansource.codes
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f"
)
# Patterns are compiled where they are first used: these classes take long, and most of what is shown needs none.
_IN_TEXT = f"[{_HIDDEN}]"
_IN_LINE = f"[{_HIDDEN}\t\n]"
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# A style of ours carries a secret number that the authors of shown text did not know; any other escape sequence is
# text.
_SEAL = os.urandom(8).hex()
_STYLED = rf"\x1b\[{_SEAL}:([0-9;]*)m|[{_HIDDEN}]"
# GitHub (::error::, ##[error]), Azure (##vso[…]) and TeamCity (##teamcity[…]) obey such lines, wherever they come from.
_COMMAND = r"(?m)^([^\S\n]*):(?=:)|#(?=#(?:\[|vso\[|teamcity\[))"
_MARKUP = r"([\\`*_{}\[\]<>#|~$!&])"
_RESET = "0"
_SHORTEST = 6  # characters of a value that is looked for in what is shown
_HIDDEN_VALUES: dict[str, str] = {}  # what this process has expanded in specs
_HIDDEN_LOCATIONS: dict[str, str] = {}  # whole locations as they were expanded → as they are written
_VARIABLE = r"\$\{(\w+)\}"
_BELOW_A_VARIABLE = r"\$\{\w+\}/[^/$]+"


def _visible(match: re.Match[str]) -> str:
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
    """Text in a style of ours (``codes``: SGR, such as "1;31"), which ``escape_output`` lets through."""
    return f"\x1b[{_SEAL}:{codes}m{text}\x1b[{_SEAL}:{_RESET}m"


def escape_output(text: str) -> str:
    """Lines for a terminal or a log. Our own styles and newlines stay, every other control character is written out,
    and no line is a command."""
    shown = _hide_values(text)
    if not _is_plain(shown.replace("\n", "")):
        shown = re.sub(_STYLED, lambda found: f"\x1b[{found[1]}m" if found[1] else _visible(found), shown)
    return re.sub(_COMMAND, lambda found: "#\\" if found[1] is None else f"{found[1]}\\:", shown)


def escape_line(text: str) -> str:
    """One value within a line: a newline in it does not begin another line."""
    return text if _is_plain(text) else re.sub(_IN_LINE, _visible, text)


def escape_hidden(text: str) -> str:
    """Text that is markup already, or commands of ours to a continuous integration: only invisible characters go."""
    return re.sub(_IN_TEXT, _visible, _hide_values(text))


def hide_value(name: str, value: str) -> None:
    """From now on show ``value`` as its ``${NAME}``, anywhere. Not a place on this disk: much else is below it, and
    ``hide_location`` hides what a spec names; nor a word of a few characters, which would be found everywhere."""
    if len(value) >= _SHORTEST and not value.startswith("/"):
        _HIDDEN_VALUES[value] = f"${{{name}}}"


def expand_variables(written: str, environment: Mapping[str, str]) -> str:
    """A location with the values of the variables that it names; those that are not set stay as they are."""
    return re.sub(_VARIABLE, lambda found: environment.get(found[1], found[0]), written)


def find_variable(location: str) -> str:
    """The first variable of a location that was left as it is written, since it is not set; "" for none."""
    found = re.search(_VARIABLE, location)
    return found[1] if found is not None else ""


def hide_location(written: str, expanded: str) -> bool:
    """From now on the location shows as it is written in the spec, and what is below it as below that. False where it
    is so short a word that it would be found everywhere."""
    if not expanded.startswith("/") and len(expanded) < _SHORTEST:
        return False
    pairs = [(written, expanded)]
    if top := re.match(_BELOW_A_VARIABLE, written):
        rest = written[top.end() :]
        pairs += [(top[0], expanded.removesuffix(rest))] if "$" not in rest and expanded.endswith(rest) else []
    for shown, path in pairs:
        if path := path.rstrip("/"):
            _HIDDEN_LOCATIONS[path] = shown.rstrip("/")
    _find_locations.cache_clear()
    return True


def _hide_values(text: str) -> str:
    if _HIDDEN_LOCATIONS:
        text = _find_locations().sub(lambda found: _HIDDEN_LOCATIONS[found[0]], text)
    for value in sorted(_HIDDEN_VALUES, key=len, reverse=True):
        text = text.replace(value, _HIDDEN_VALUES[value])
    return text


@lru_cache(maxsize=1)
def _find_locations() -> re.Pattern[str]:
    """Whole names of files and folders only; in JSON a newline before one is the letter n."""
    longest_first = sorted(_HIDDEN_LOCATIONS, key=len, reverse=True)
    return re.compile(rf"(?:(?<![\w./~-])|(?<=\\[nrt]))(?:{'|'.join(map(re.escape, longest_first))})(?![\w-]|\.\w)")


def encode_json(value: Any) -> str:
    """As ``json.dumps``, readable; what would be invisible, or a command, is escaped in JSON's own way."""
    return re.sub(_IN_TEXT, _json_escape, _hide_values(_dump_json(value))).replace("##", "#\\u0023")


def _dump_json(value: Any) -> str:
    """Python's own writer takes five times as long where it also indents. What msgspec refuses and that writes (half a
    character, a number that is none) it writes alone."""
    import msgspec

    try:
        return msgspec.json.format(json.dumps(value, ensure_ascii=False), indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json.dumps(value, indent=2, ensure_ascii=False)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def escape_markdown(text: str) -> str:
    """A value as plain text of a paragraph, a heading or a cell of a table: no markup, no link, no mention."""
    return re.sub(_MARKUP, r"\\\1", escape_line(" ".join(text.split()))).replace("@", "@<!-- -->")


def quote_code(text: str, *, in_table: bool = False) -> str:
    """A value as code in Markdown: it cannot end the code, whatever backticks it holds, nor the cell of a table."""
    inside = escape_line(text).replace("|", "\\|") if in_table else escape_line(text)
    longest = max((len(run) for run in re.findall("`+", inside)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {inside} {fence}" if longest or not inside.strip() else f"{fence}{inside}{fence}"


def escape_html(text: str) -> str:
    """A value as text or as an attribute in quotes."""
    import html

    return html.escape(re.sub(_IN_TEXT, _visible, text), quote=True)
