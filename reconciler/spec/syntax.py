"""The YAML parser's events, and its errors with messages that explain the fix."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.tokens import ScalarToken

from reconciler.errors import Problem

# Characters that look like others: letters of two alphabets in one word, unusual spaces, dashes used as hyphens. The
# text looks right, so the user needs the position of the error.

# Letters of other alphabets that look like Latin ones.
_LIKE = str.maketrans(
    # Cyrillic, then Greek
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0455\u04bb\u0501\u051b\u051d"
    + "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03b9",
    "ABESIJKMHOPCTYXaeijopcyxshdqw" + "ABEZHIKMNOPTYXovi",
)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_QUOTES = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_WIDE = re.compile("[\uff01-\uff5e]")  # typed on East Asian keyboards
_WORD = re.compile(r"[^\W_]+")
_LATIN = re.compile("[A-Za-z0-9]")


def find_odd_space(text: str) -> int:
    """Find a character that only looks like a space; -1 if there is none."""
    return next((index for index, character in enumerate(text) if character in _SPACES), -1)


def explain_space(character: str) -> tuple[str, str]:
    return f"unusual space U+{ord(character):04X} ({_name_character(character)})", "write an ordinary space"


def explain_lookalike(text: str) -> tuple[int, str, str] | None:
    """Return (position in ``text``, message, fix) of the first letter of another alphabet in a Latin word, or of the
    first digit in another form; None if no word is mixed."""
    for word in _WORD.finditer(text):
        if not _LATIN.search(word[0]) or word[0].isascii():
            continue
        for offset, character in enumerate(word[0]):
            plain = replace_lookalikes(character)
            if plain != character and plain.isascii():
                name = f"U+{ord(character):04X} ({_name_character(character)})"
                message = f"{text!r} contains {character!r}, {name}, not {plain!r}"
                return word.start() + offset, message, f"retype it: {replace_lookalikes(text)!r}"
    return None


def replace_lookalikes(text: str) -> str:
    """Replace lookalikes with ASCII where possible."""
    if text.isascii():
        return text
    swapped = text.translate(_LIKE)
    for dash in _DASHES:
        swapped = swapped.replace(dash, "-")
    return _WIDE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), swapped)


def find_typographic_quote(text: str) -> str:
    """Return the typographic quotation mark with which a value begins; "" if there is none."""
    return text[0] if text[:1] and text[0] in _QUOTES else ""


def _name_character(character: str) -> str:
    return unicodedata.name(character, "no name").lower()


_C_PARSER = importlib.util.find_spec("_ruamel_yaml") is not None
_REFUSED_BY_C = "found unexpected ':'"  # for {url: http://host}, which YAML 1.2 allows, so the slower parser takes over

# libyaml's message (a part of it) → our message and the fix.
_WORDS = (
    (
        "mapping values are not allowed",
        "a ':' is not allowed here",
        "check the indentation, or quote text that contains ': '",
    ),
    ("unexpected end of stream", "unclosed quotes", "close the quotes"),
    ("expected ',' or ']'", "the list is not closed", "separate items with ',' and end the list with ']'"),
    (
        "expected ',' or '}'",
        "the group is not closed",
        "separate settings with ',' and end the group with '}'; quote text such as '${NAME}'",
    ),
    ("expected <block end>", "indentation does not match the lines above", "align the settings of one group"),
    (
        "did not find expected key",
        "indentation does not match the lines above",
        "align the settings of one group",
    ),
    ("found a tab character", "tab in the indentation", "indent with spaces"),
    ("expected '-' indicator", "setting inside a list of '-' items", "indent it less, or start it with '-'"),
    ("expected ':'", "missing ':' after a name", "write 'name: value', with a space after the ':'"),
    ("expected node content", "missing value or unclosed bracket", "write the value, or close the bracket"),
    ("unknown escape character", "an unknown escape after '\\'", "double the '\\', or use single quotes"),
    ("undefined tag handle", "a '!' starts a tag, which is not supported", "quote the text"),
)
_SETTING = re.compile(r" *[^\s#-][^:]*:")
_EQUALS = re.compile(r" *([A-Za-z_][\w.-]*) *= *([^=\s].*)")
_SEMICOLON = re.compile(r";(?= *[A-Za-z_][\w.-]*$)")
_ITEM = re.compile(r" *- ([\w.-]+):?(?: .*)?")
_BARE = re.compile(r" *(?P<name>[A-Za-z_][\w.-]*)(?:(?P<joint> +|:)(?P<value>[^\s#].*?))?(?P<comment> +#.*)? *")
_BARE_GROUP = re.compile(r" *(?:- +)?(?P<name>[A-Za-z_][\w.-]*) +(?P<open>[{[])")
_BARE_GROUP_WITHIN = re.compile(r"(?P<name>[A-Za-z_][\w.-]*) +(?P<open>[{[])$")
_ITEM_SETTING = re.compile(r" *- +[\w.-]+:(?: .*)?")
_AFTER_QUOTE = re.compile(r"""[:,\[{-] *(?P<quote>["']).*(?P=quote) *$""")
_AFTER_QUOTE_FIX = "close the quotes after the complete text, and quote text that contains ' with \""
_CONFLICT = re.compile(r"^<{7} .*\n(?:.*\n)*?={7}\r?$", re.MULTILINE)


def parse_events(text: str) -> Iterator[Any]:
    """Yield the events of ``text``. Raises YAMLError."""
    count = 0
    try:
        for event in YAML(typ="safe", pure=not _C_PARSER).parse(text):
            count += 1
            yield event
    except MarkedYAMLError as error:
        if not _C_PARSER or _REFUSED_BY_C not in str(error.problem):
            raise
    else:
        return
    yield from islice(YAML(typ="safe", pure=True).parse(text), count, None)


def make_syntax_problem(error: Exception, text: str, file: str) -> Problem:
    """Convert the parser's error to a problem at the place to fix."""
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        fix = "keep one side, and remove the lines that start with <<<<<<<, ======= and >>>>>>>"
        return Problem(file, line, 1, "", "unresolved merge conflict", fix)
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return Problem(file, 1, 1, "", "the file is not YAML", "save it as UTF-8 text in YAML")
    words = str(error.problem)
    mark = error.problem_mark
    if "'-' indicator" not in words and (written := _find_other_notation(text, mark.line, mark.column)):
        line, column, message, fix = written
        return Problem(file, line, column, "", message, fix)
    if opened := _find_open_quote(text, mark.line, mark.column):
        message = f"unclosed quotes: the next {opened.style} is on line {mark.line + 1}"
        return Problem(file, opened.start_mark.line + 1, opened.start_mark.column + 1, "", message, "close the quotes")
    # An unclosed quote or bracket is detected at the end of the file, but must be fixed where it begins.
    lines = text.splitlines()
    is_at_end = "unexpected end of stream" in words or mark.line >= len(text.rstrip().splitlines())
    if error.context_mark is not None and (is_at_end or _stays_open(lines, error)):
        mark = error.context_mark
    line, column = mark.line + 1, mark.column + 1
    if "cannot start any token" in words:
        character = lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
        if character == "\t":
            return Problem(file, line, column, "", "tab in the indentation", "indent with spaces")
        return Problem(file, line, column, "", f"a value cannot start with {character!r}", "quote the value")
    if mark.line < len(lines) and (odd := find_odd_space(lines[mark.line])) >= 0 and not lines[mark.line][:odd].strip():
        return Problem(file, line, odd + 1, "", *explain_space(lines[mark.line][odd]))
    if "mapping values are not allowed" in words and (mistake := _find_deeper(lines, mark.line)):
        return Problem(file, line, mistake[0], "", *mistake[1:])
    if bare := _find_bare_name(lines, mark.line, words) or _find_bare_group(lines, mark, words):
        return Problem(file, bare[0], bare[1], "", *bare[2:])
    if "'-' indicator" in words and error.context_mark and _is_only_item(lines, error.context_mark, mark.line):
        begun = error.context_mark
        message = "one setting is a list item, and those below it are not"
        return Problem(file, begun.line + 1, begun.column + 1, "", message, "remove the '-'")
    if "could not find expected ':'" in words and error.context_mark is not None:
        line, column = error.context_mark.line + 1, error.context_mark.column + 1
        if (found := _BARE.fullmatch(lines[line - 1])) is not None:
            return Problem(file, line, column, "", *_describe_bare(found))
    if mark.line < len(lines) and _AFTER_QUOTE.search(lines[mark.line][: mark.column]):
        return Problem(file, line, column, "", "text after the closing quote", _AFTER_QUOTE_FIX)
    for part, message, fix in _WORDS:
        if part in words:
            begun = error.context_mark
            if begun is not None and begun.line != mark.line:
                message += f" (in the part that starts on line {begun.line + 1})"
            return Problem(file, line, column, "", message, fix)
    fix = "check the line above too; quote text with special characters"
    return Problem(file, line, column, "", f"not valid YAML: {words}", fix)


def _find_other_notation(text: str, line: int, at: int) -> tuple[int, int, str, str] | None:
    """Find notation from another language on the line of the error or the line before: a list item among settings, an
    equals sign, or a semicolon or surplus bracket before ``at``. Return (line, column, message, fix)."""
    lines = text.splitlines()
    begun = lines[line][:at] if line < len(lines) else ""
    if (semicolon := _SEMICOLON.search(begun)) is not None:
        return line + 1, semicolon.start() + 1, "a ';' does not separate settings", "use ',' instead"
    if (sign := lines[line][at : at + 1] if begun.strip() else "") in ("}", "]") and sign:
        return line + 1, at + 1, f"unmatched '{sign}'", f"remove the '{sign}'"
    for number in (line, line - 1):
        if not 0 <= number < len(lines):
            continue
        written = lines[number]
        column = len(written) - len(written.lstrip(" ")) + 1
        if (equals := _EQUALS.fullmatch(written)) is not None:
            message = f"{equals[1]} uses '=' instead of ':'"
            return number + 1, column, message, f"write '{equals[1]}: {equals[2]}'"
        if (item := _ITEM.fullmatch(written)) is not None and _has_following_settings(lines, number, column):
            message = f"{item[1]} is a list item, but settings belong here"
            return number + 1, column, message, f"write '{item[1]}:' without the '-'"
    return None


def _has_following_settings(lines: list[str], number: int, column: int) -> bool:
    """Return True if an adjacent line with the same or the item's inner indentation is a setting."""
    near = lines[max(number - 1, 0) : number] + lines[number + 1 : number + 2]
    return any(_SETTING.match(line) and len(line) - len(line.lstrip(" ")) in (column - 1, column + 1) for line in near)


def _find_open_quote(text: str, line: int, column: int) -> Any | None:
    """Return the quoted text that starts on an earlier line and ends on this line, before ``column``; None if there is
    none."""
    found = None
    with suppress(MarkedYAMLError):
        for token in YAML(typ="safe", pure=True).scan(text):
            if token.start_mark.line > line:
                break
            end = token.end_mark
            is_quoted = isinstance(token, ScalarToken) and token.style in ('"', "'")
            if is_quoted and token.start_mark.line < end.line == line and end.column <= column:
                found = token
    return found


def _stays_open(lines: Sequence[str], error: MarkedYAMLError) -> bool:
    """Return True if a bracket is not closed on its line but further settings follow, so that it must be fixed
    there."""
    mark, begun = error.problem_mark, error.context_mark
    if mark is None or begun is None or mark.line == begun.line or "expected ',' or" not in str(error.problem):
        return False
    first, last = lines[begun.line], lines[mark.line]
    opened = sum(first.count(sign) for sign in "[{") > sum(first.count(sign) for sign in "]}")
    return opened and len(last) - len(last.lstrip(" ")) <= len(first) - len(first.lstrip(" "))


def _find_deeper(lines: Sequence[str], line: int) -> tuple[int, str, str] | None:
    """Return (column, message, fix) of a line that is indented below one that already has a value; None for any
    other."""
    above = next((number for number in range(line - 1, -1, -1) if _SETTING.match(lines[number])), None)
    if above is None or not _SETTING.match(lines[line]):
        return None
    depth, before = (len(each) - len(each.lstrip(" ")) for each in (lines[line], lines[above]))
    has_value = lines[above].partition(":")[2].partition(" #")[0].strip()
    if depth <= before or not has_value:
        return None
    message = f"this line is indented below line {above + 1}, which already has a value"
    return depth + 1, message, f"use the same indentation for both: {before} spaces, or {depth}"


def _find_bare_name(lines: list[str], line: int, words: str) -> tuple[int, int, str, str] | None:
    """Return (line, column, message, fix) of a name without ': ' in the line above a setting; the parser reads both
    lines as one name, unless the first ends with a comment."""
    found = _BARE.fullmatch(lines[line - 1]) if line else None
    if found is None or ": " in (found["value"] or ""):
        return None
    if "mapping values are not allowed" not in words and not ("did not find expected" in words and found["comment"]):
        return None
    return line, found.start("name") + 1, *_describe_bare(found)


def _describe_bare(found: re.Match[str]) -> tuple[str, str]:
    """Return (message, fix) of a name without ': '."""
    value = f" {found['value']}" if found["value"] else ""
    fix = f"write '{found['name']}:{value}'"
    missing = f"space after '{found['name']}:'" if found["joint"] == ":" else f"':' after {found['name']}"
    return f"missing {missing}", fix


def _find_bare_group(lines: list[str], mark: Any, words: str) -> tuple[int, int, str, str] | None:
    """Return (line, column, message, fix) of a name before a '{' or '[', without ': ': at the beginning of a line, or
    within another group."""
    written = lines[mark.line] if mark.line < len(lines) else ""
    found = _BARE_GROUP.match(written) if "mapping values are not allowed" in words else None
    if found is None and "expected ',' or" in words and written[mark.column : mark.column + 1] in ("{", "["):
        found = _BARE_GROUP_WITHIN.search(written, 0, mark.column + 1)
    if found is None:
        return None
    closed = {"{": "{…}", "[": "[…]"}[found["open"]]
    name = found["name"]
    return mark.line + 1, found.start("name") + 1, f"missing ':' after {name}", f"write '{name}: {closed}'"


def _is_only_item(lines: list[str], begun: Any, line: int) -> bool:
    """Return True if the list that begins at ``begun`` has a single item before ``line``, and that item is a
    setting."""
    items = [each for each in lines[begun.line : line] if each[begun.column :].startswith("- ")]
    return len(items) == 1 and _ITEM_SETTING.fullmatch(items[0]) is not None
