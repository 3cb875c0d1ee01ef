"""What the page shows: the documents that commands print with `--json`, read when a view asks for them."""

from __future__ import annotations

from typing import Any, Protocol

Document = dict[str, Any]


class PageSource(Protocol):
    """Each method raises ReconcilerError with what to do, as the command does whose document it gives."""

    @property
    def name(self) -> str:
        """Of the repository's folder."""

    def is_timed(self) -> bool:
        """Whether a run is being timed, so that what takes long must wait."""

    def read_matrix(self) -> Document:
        """`status`: submission, round, in_sync, cells, findings, and when it was looked at."""

    def read_cell(self, cell: str) -> Document:
        """`show`, `why` and what was measured: cell, status, settings, resources, why, runs, performance, logs."""

    def read_log(self, cell: str, name: str) -> Document:
        """`logs --print`: the end of one log as text."""

    def read_plan(self) -> Document:
        """`plan`."""

    def read_live(self) -> Document:
        """The pass in progress; cheap, and asked again and again."""
