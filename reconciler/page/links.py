"""Addresses of views, on the server or as files of an export. Always relative to the view that links to them."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from msgspec import Struct

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Links(Struct, frozen=True):
    """``root``: the path from the current view to the top, such as "../../". ``files``: use the names of an export."""

    root: str = ""
    files: bool = False

    def view(self, name: str) -> str:
        """Return the address of a view. ``name``: "" for the matrix, "live" or "plan"."""
        if self.files:
            return f"{self.root}{name or 'index'}.html"
        return f"{self.root}{name}" or "./"

    def cell(self, cell: str) -> str:
        return f"{self.root}{name_cell_file(cell)}" if self.files else f"{self.root}cell/{quote(cell)}"

    def run(self, cell: str, record: str) -> str:
        """Return the address of a cell with another of its runs drawn over the one that is shown."""
        if self.files:
            return f"{self.root}{name_run_file(cell, record)}"
        return f"{self.cell(cell)}?other={quote(record, safe='')}"

    def curve(self, curve: str) -> str:
        return f"{self.root}{name_curve_file(curve)}" if self.files else f"{self.root}curve/{quote(curve)}"

    def log(self, cell: str, log: str) -> str:
        """Return "" in an export, which does not include logs."""
        return "" if self.files else f"{self.root}log?cell={quote(cell, safe='')}&name={quote(log, safe='')}"

    def line(self, origin: str) -> str:
        """Return the address of ``origin``, a file and a line, such as "specs/acme.yaml:94"."""
        file, _, number = origin.rpartition(":")
        if self.files:
            return f"{self.root}{name_spec_file(file)}#L{number}"
        return f"{self.root}spec?file={quote(file, safe='')}#L{number}"

    def comparison(self, one: str, other: str) -> str:
        """Return "" in an export, which contains one comparison at most."""
        asked = f"one={quote(one, safe='')}&other={quote(other, safe='')}"
        return "" if self.files else f"{self.root}history?{asked}"

    def history(self, cell: str) -> str:
        return f"{self.root}history.html" if self.files else f"{self.root}history?cell={quote(cell, safe='')}"

    def findings(self, tree: str, command: str, number: int) -> str:
        """Return the address of findings. ``number``: the tree's number in an export."""
        if self.files:
            return f"{self.root}{name_findings_file(command, number)}"
        return f"{self.root}findings?tree={quote(tree, safe='')}&command={command}"

    def static(self, name: str) -> str:
        return f"{self.root}static/{name}"


def find_root(path: str) -> str:
    """Return the path from an address or file to the top."""
    return "../" * path.count("/")


def name_cell_file(cell: str) -> str:
    return f"cell/{_make_plain(cell)}.html"


def name_run_file(cell: str, record: str) -> str:
    return f"{name_cell_file(cell).removesuffix('.html')}-{_make_plain(record.rpartition('/')[2])}.html"


def name_curve_file(curve: str) -> str:
    return f"curve/{_make_plain(curve)}.html"


def name_spec_file(file: str) -> str:
    return f"spec/{_make_plain(file)}.html"


def _make_plain(name: str) -> str:
    """Return a name that is safe as a path, else its digest: names come from data."""
    plain = all(_PLAIN.fullmatch(part) for part in name.split("/"))
    return name if plain else hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:20]


def name_findings_file(command: str, number: int) -> str:
    """Name a findings file; other views link to the first."""
    return "findings.html" if (command, number) == ("check", 0) else f"findings-{command}-{number}.html"
