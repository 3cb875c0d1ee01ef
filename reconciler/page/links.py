"""Addresses of views: of the server, or files of an export. Always relative to the view that links to it."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from msgspec import Struct

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Links(Struct, frozen=True):
    """``root``: the way from the view that is shown to the top, such as "../../". ``files``: of an export."""

    root: str = ""
    files: bool = False

    def view(self, name: str) -> str:
        """``name``: "" for the matrix, "live", "plan"."""
        if self.files:
            return f"{self.root}{name or 'index'}.html"
        return f"{self.root}{name}" or "./"

    def cell(self, cell: str) -> str:
        return f"{self.root}{name_cell_file(cell)}" if self.files else f"{self.root}cell/{quote(cell)}"

    def curve(self, curve: str) -> str:
        return f"{self.root}{name_curve_file(curve)}" if self.files else f"{self.root}curve/{quote(curve)}"

    def log(self, cell: str, log: str) -> str:
        """ "" in an export: logs stay where they are."""
        return "" if self.files else f"{self.root}log?cell={quote(cell, safe='')}&name={quote(log, safe='')}"

    def line(self, origin: str) -> str:
        """``origin``: a file and a line, such as "specs/acme.yaml:94"."""
        file, _, number = origin.rpartition(":")
        if self.files:
            return f"{self.root}{name_spec_file(file)}#L{number}"
        return f"{self.root}spec?file={quote(file, safe='')}#L{number}"

    def comparison(self, one: str, other: str) -> str:
        """ "" in an export, which holds one comparison at most."""
        asked = f"one={quote(one, safe='')}&other={quote(other, safe='')}"
        return "" if self.files else f"{self.root}history?{asked}"

    def history(self, cell: str) -> str:
        return f"{self.root}history.html" if self.files else f"{self.root}history?cell={quote(cell, safe='')}"

    def findings(self, tree: str, command: str, number: int) -> str:
        """``number``: of the tree among those of an export."""
        if self.files:
            return f"{self.root}{name_findings_file(command, number)}"
        return f"{self.root}findings?tree={quote(tree, safe='')}&command={command}"

    def static(self, name: str) -> str:
        return f"{self.root}static/{name}"


def find_root(path: str) -> str:
    """The way from an address or file to the top."""
    return "../" * path.count("/")


def name_cell_file(cell: str) -> str:
    return f"cell/{_make_plain(cell)}.html"


def name_curve_file(curve: str) -> str:
    return f"curve/{_make_plain(curve)}.html"


def name_spec_file(file: str) -> str:
    return f"spec/{_make_plain(file)}.html"


def _make_plain(name: str) -> str:
    """A name where it is a plain path, else its digest: a name is data, a path is not."""
    plain = all(_PLAIN.fullmatch(part) for part in name.split("/"))
    return name if plain else hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:20]


def name_findings_file(command: str, number: int) -> str:
    """The first of all is the view that others lead to."""
    return "findings.html" if (command, number) == ("check", 0) else f"findings-{command}-{number}.html"
