"""What the page shows, read from this repository as the commands read it that print the same with `--json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler.cli.logs import find_log, list_logs
from reconciler.cli.plan import report_plan
from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.page_cell import report_cell
from reconciler.cli.shared.page_live import is_timed, report_live
from reconciler.cli.shared.page_look import Look, Looks
from reconciler.cli.status import report_status
from reconciler.errors import ReconcilerError
from reconciler.files import RepositoryPaths
from reconciler.foreign import read_regular
from reconciler.planning import Options
from reconciler.record.store import find_readable
from reconciler.resource.kinds import Cell

_LOG_TAIL = 256 << 10  # bytes of a log that are shown
_LARGEST_LOG = 1 << 30


@dataclass
class RepositoryPage:
    """``trees``: name → a submission tree that may be looked at beside the rendered one. What takes long is worked out
    when it is asked for, kept until the repository changes, and put off while a run is timed."""

    paths: RepositoryPaths
    options: Options
    trees: Mapping[str, Path] = field(default_factory=dict)
    _kept: dict[tuple[str, ...], tuple[object, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._looks = Looks(self.paths, self.options, self.is_timed)

    @property
    def name(self) -> str:
        return self.paths.root.resolve().name

    def is_timed(self) -> bool:
        return is_timed(self.paths)

    def look(self) -> Look:
        return self._looks.take()

    def read_matrix(self) -> dict[str, Any]:
        look = self.look()
        return self._keep(look, ("matrix",), lambda: self._matrix(look))

    def _matrix(self, look: Look) -> dict[str, Any]:
        desired = look.seen.desired
        named = {"submission": desired.name, "round": desired.submission.round, "looked": _now()}
        return {**report_status(look.seen, look.cells), **named}

    def read_cell(self, cell: str) -> dict[str, Any]:
        look = self.look()
        return self._keep(look, ("cell", cell), lambda: {**report_cell(look, _cell(look, cell)), "looked": _now()})

    def read_log(self, cell: str, name: str) -> dict[str, Any]:
        look = self.look()
        chosen = _cell(look, cell)
        log = find_log(name, [log for r in look.lineages[chosen] for log in list_logs(look.seen, r)])
        try:
            data = read_regular(find_readable(self.paths, log.artifact), _LARGEST_LOG)
        except OSError as error:
            fix = "`reconcile` restores it from git or from its other copy"
            raise ReconcilerError(f"{log.name}: {error.strerror}", fix=fix) from error
        shown = data[-_LOG_TAIL:]
        skipped = len(data) - len(shown)
        text = shown.decode("utf-8", "replace")
        return {
            "cell": cell,
            "name": log.name,
            "record": log.summary.id,
            "text": text,
            "skipped": skipped,
            "title": name,
        }

    def read_plan(self) -> dict[str, Any]:
        look = self.look()
        return self._keep(look, ("plan",), lambda: {**report_plan(look.seen, look.cells), "looked": _now()})

    def read_live(self) -> dict[str, Any]:
        planned = self._planned() if any(self.paths.attempts.glob("*/attempt.json")) else []
        return {**report_live(self.paths, planned), "looked": _now()}

    def _planned(self) -> list[dict[str, Any]]:
        """Of the last look: none is taken for this."""
        last = self._looks.last
        steps = last.seen.plan.steps if last else ()
        return [{"address": str(step.change.address), "seconds": step.seconds} for step in steps]

    def _keep(self, at: object, name: tuple[str, ...], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """``at``: what it was made from; it is made again where that is another."""
        kept = self._kept.get(name)
        if kept is None or kept[0] is not at:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[name] = (at, make())
        return kept[1]


_MOST_KEPT = 256


def _cell(look: Look, name: str) -> Cell:
    return look.by_name.get(name) or find_cell(name, look.lineages)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
