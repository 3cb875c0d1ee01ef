"""Characters that look like others: letters of two alphabets in one word, spaces that are none, dashes in place of
hyphens. The screen seems right, so the error is not found without its position."""

from __future__ import annotations

import re
import unicodedata

# Letters of other alphabets that look like one of ours.
_LIKE = str.maketrans(
    # Cyrillic, then Greek
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0455\u04bb\u0501\u051b\u051d"
    + "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03b9",
    "ABESIJKMHOPCTYXaeijopcyxshdqw" + "ABEZHIKMNOPTYXovi",
)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_QUOTES = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_WIDE = re.compile("[\uff01-\uff5e]")  # as East Asian keyboards write them
_WORD = re.compile(r"[^\W_]+")
_LATIN = re.compile("[A-Za-z0-9]")


def find_odd_space(text: str) -> int:
    """Find a space that only looks like one; -1 for nowhere."""
    return next((index for index, character in enumerate(text) if character in _SPACES), -1)


def explain_space(character: str) -> tuple[str, str]:
    return f"the space here is U+{ord(character):04X} ({_name(character)})", "write an ordinary space"


def explain_lookalike(text: str) -> tuple[int, str, str] | None:
    """(where in ``text``, message, fix) of the first letter of another alphabet in a word of ours, or of a digit in
    another form; None where no word is mixed."""
    for word in _WORD.finditer(text):
        if not _LATIN.search(word[0]) or word[0].isascii():
            continue
        for offset, character in enumerate(word[0]):
            plain = plain_form(character)
            if plain != character and plain.isascii():
                message = f"{text!r} holds {character!r}, U+{ord(character):04X} ({_name(character)}), not {plain!r}"
                return word.start() + offset, message, f"write {plain_form(text)!r}, typed again"
    return None


def plain_form(text: str) -> str:
    """As it looks, in ASCII where there is such a form."""
    if text.isascii():
        return text
    swapped = text.translate(_LIKE)
    for dash in _DASHES:
        swapped = swapped.replace(dash, "-")
    return _WIDE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), swapped)


def find_typographic_quote(text: str) -> str:
    """The first quotation mark of typography that a value begins with; "" for none."""
    return text[0] if text[:1] and text[0] in _QUOTES else ""


def _name(character: str) -> str:
    return unicodedata.name(character, "no name").lower()
