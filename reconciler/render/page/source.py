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
        """`show`, `why` and what was measured: cell, status, settings, resources, why, runs, performance, logs, and the
        files of ``list_specs``."""

    def read_log(self, cell: str, name: str) -> Document:
        """`logs --print`: the end of one log as text."""

    def list_specs(self) -> tuple[str, ...]:
        """Files of which a line sets a value; as origins name them."""

    def read_spec(self, file: str) -> Document:
        """Lines of a file of ``list_specs``, each with its commit."""

    def read_plan(self) -> Document:
        """`plan`."""

    def read_impact(self, base: str, head: str) -> Document:
        """`pr`."""

    def read_history(self, cell: str) -> Document:
        """`history` and `blame`: results, and steps from each to the next."""

    def read_comparison(self, one: str, other: str) -> Document:
        """`compare`: two commits or systems, or trees by the names that ``list_trees`` gives."""

    def list_systems(self) -> tuple[str, ...]:
        """That the specs declare."""

    def list_refs(self) -> tuple[str, ...]:
        """Branches and tags, for people to choose from."""

    def list_trees(self) -> tuple[str, ...]:
        """Names of the trees that may be looked at; the first is the rendered one."""

    def read_findings(self, tree: str, command: str) -> Document:
        """``command``: `check` or `verify-tree`."""

    def read_live(self) -> Document:
        """The pass in progress; cheap, and asked again and again."""
