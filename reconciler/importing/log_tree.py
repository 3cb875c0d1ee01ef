"""Imports folders with the logs of many runs, as harnesses leave them, and finds the cell of each run.

The log contains scenario and mode, and whether it is a test. The names of its folders supply the rest: the system, the
benchmark, and which test, as in ``build/logs/<time>/<system>/<benchmark>/<scenario>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import LogError, ReconcilerError
from reconciler.importing.adopted_records import ImportRecorder, TakenRecord
from reconciler.importing.log_folder import LoadgenRun, find_run, refuse_vanished
from reconciler.loadgen import keys
from reconciler.loadgen.compare import find_contradictions
from reconciler.loadgen.log_files import DETAIL
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.kinds import MODES, PERFORMANCE, SCENARIOS, Address, Cell, Kind, RunAddress
from reconciler.resource.placeholders import fill_placeholders
from reconciler.rules.results.loadgen_logs import find_asked_elsewhere
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import walk_files

_CONF_AT = "harness.user_conf_at"
_TEST = re.compile(r"TEST\d\d", re.IGNORECASE)
_ALONE = "import it separately, with --cell"


class RefusedLog(Struct, frozen=True):
    """Logs that were not recorded. ``message`` names the file, and the line if known."""

    log: Path
    message: str
    fix: str


class ImportedTree(Struct, frozen=True):
    """Records by cell, in the order of the runs."""

    taken: Mapping[Cell, tuple[TakenRecord, ...]]
    refused: tuple[RefusedLog, ...]


class LogTree(Struct):
    """Records the runs of ``cells``, which have their own runs. ``seen``: the bytes of a log → its path and
    address."""

    recorder: ImportRecorder
    cells: Sequence[Cell]
    refused: dict[Path, RefusedLog] = field(default_factory=dict)
    names: dict[Cell, frozenset[str]] = field(default_factory=dict)
    seen: dict[bytes, tuple[Path, Address]] = field(default_factory=dict)

    def record(self, folders: Iterable[Path]) -> ImportedTree:
        """Record every run below the folders, oldest first. Raises LogError if there are no logs at all."""
        listed: set[Path] = set()
        for folder in folders:
            with refuse_vanished(folder):
                listed.update(path for path in walk_files(folder) if path.name.endswith(DETAIL))
        logs = sorted(listed)
        if not logs:
            raise LogError(f"no {DETAIL} found in these folders", fix="pass the folders with LoadGen's logs")
        runs: list[tuple[str, Path, LoadgenRun]] = []
        for log in logs:
            with self._record_refusal(log):
                run = find_run(log.parent, tests=True, below=False)
                runs.append((str(run.log.started or ""), log, run))
        taken: dict[Cell, tuple[TakenRecord, ...]] = {}
        for _, log, run in sorted(runs, key=lambda item: item[:2]):
            with self._record_refusal(log):
                at = self._find_address(log, run)
                if self._is_copy(log, run, at):
                    continue
                assert at.cell is not None
                conf = run.user_conf or self._find_conf(at.cell, run)
                test = at.part if at.kind is Kind.COMPLIANCE_TEST else ""
                found = self.recorder.record_run(at.cell, replace(run, user_conf=conf), test)
                taken[at.cell] = (*taken.get(at.cell, ()), *found)
        return ImportedTree(taken, tuple(self.refused[log] for log in logs if log in self.refused))

    @contextmanager
    def _record_refusal(self, log: Path) -> Iterator[None]:
        try:
            with refuse_vanished(log.parent):
                yield
        except (ReconcilerError, OSError, ValueError) as error:
            refuse_storage_error(error, log)
            fix = error.fix if isinstance(error, ReconcilerError) else ""
            self.refused[log] = RefusedLog(log, str(error), fix)

    def _is_copy(self, log: Path, run: LoadgenRun, at: Address) -> bool:
        """Return True for a further copy of a log, such as a test's log that scripts copied. Raises LogError if the
        original belongs elsewhere."""
        first, known = self.seen.setdefault(run.read_log(), (log, at))
        if known != at:
            raise LogError(
                f"{log}: it is a copy of {first}, the log of {known}",
                fix="import the log that LoadGen wrote for this run",
            )
        return first != log

    def _find_address(self, log: Path, run: LoadgenRun) -> Address:
        """Return the cell's run, or the test, to which a log belongs. Raises LogError if it matches none or several."""
        found = list(self._list_addresses(log, run))
        fitting = [at for at in found if self._agrees(at, run)] if len(found) > 1 else found
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(map(str, fitting or found))
        why = "it matches several runs" if fitting else "it matches no declared settings"
        raise LogError(f"{log}: {why}: {names}", fix=_ALONE)

    def _agrees(self, at: Address, run: LoadgenRun) -> bool:
        asked = find_asked_elsewhere(self.recorder.desired.detail(at).collect_values(), run.mode)
        return not find_contradictions(run.log, asked)

    def _list_addresses(self, log: Path, run: LoadgenRun) -> Iterator[Address]:
        cells = self._list_cells(log, run)
        named = next((part.upper() for part in reversed(log.parts) if _TEST.fullmatch(part)), "")
        if run.log.audit is None:
            if named:
                raise LogError(
                    f"{log}: LoadGen read no audit.config, but its folder is for {named}",
                    fix=f"run {named} with its audit.config, or move other logs elsewhere",
                )
            yield from (RunAddress(cell, run.mode).address for cell in cells)
            return
        tests = [a for a in self.recorder.desired.by_address if a.kind is Kind.COMPLIANCE_TEST and a.cell in cells]
        chosen = [at for at in tests if at.part == (named or at.part)]
        if not chosen:
            asked = ", ".join(sorted({at.part for at in tests})) or "none"
            raise LogError(
                f"{log}:{run.log.audit.line}: a run of {named or 'a compliance test'}, and {cells[0]} needs {asked}",
                fix="add the test to `compliance` of the cell, or remove its logs",
            )
        yield from chosen

    def _list_cells(self, log: Path, run: LoadgenRun) -> list[Cell]:
        """Return the cells that its folders are named after. Raises LogError if there are none."""
        parts = log.absolute().parent.parts
        plain = [_simplify(part) for part in parts]
        scenario = self._find_scenario(log, run, parts)
        systems = _select_deepest(plain, {cell: frozenset({_simplify(cell.system)}) for cell in self.cells})
        if not systems:
            declared = ", ".join(sorted({cell.system for cell in self.cells}))
            raise LogError(f"{log}: no folder in its path matches a declared system ({declared})", fix=_ALONE)
        named = _select_deepest(plain, {cell: self._list_names(cell) for cell in systems})
        found = [
            cell
            for cell in named
            if scenario in ("", cell.scenario) and name_loadgen_scenario(cell.scenario) == run.log.scenario
        ]
        if not found:
            what = (
                f"{scenario or run.log.scenario} of {named[0].benchmark}" if named else "benchmark matching its folders"
            )
            message = f"{log}: the spec declares no {what} for {systems[0].system}"
            raise LogError(message, fix=f"declare the cell, or {_ALONE}")
        return found

    @staticmethod
    def _find_scenario(log: Path, run: LoadgenRun, parts: Sequence[str]) -> str:
        """Return the scenario that a folder is named after; "" for none. Raises LogError for a log in another
        scenario's or mode's folder: it was moved there, or LoadGen did not run what was requested."""
        scenario = next((part for part in reversed(parts) if part in SCENARIOS), "")
        folder = parts[-2] if parts[-1].startswith("run_") else parts[-1]
        mode = folder if folder in MODES and run.log.audit is None else ""
        logged = (
            (scenario, name_loadgen_scenario(scenario), run.log.scenario, keys.EFFECTIVE_SCENARIO),
            (mode, mode, run.mode, keys.EFFECTIVE_TEST_MODE),
        )
        for name, wanted, found, key in logged:
            if name and wanted != found:
                raise LogError(
                    f"{log}:{run.log.find_line_number(key)}: a log of {found} in a folder for {name}",
                    fix="import the original folder of the logs",
                )
        return scenario

    def _list_names(self, cell: Cell) -> frozenset[str]:
        """Return the possible folder names of a benchmark: as the spec, the round, LoadGen or its harness names it."""
        if cell not in self.names:
            detail = self.recorder.desired.detail(RunAddress(cell, PERFORMANCE).address)
            template = PurePath(detail.settings.get_text(_CONF_AT)).parts
            own = (before for before, part in pairwise(template) if part == "{scenario}")
            official, key = detail.settings.official, str(detail.collect_values().get("model_key", ""))
            self.names[cell] = frozenset(_simplify(name) for name in (cell.benchmark, official, key, *own) if name)
        return self.names[cell]

    def _find_conf(self, cell: Cell, run: LoadgenRun) -> Path | None:
        """Return the user.conf that the harness of a performance run wrote, if the spec says that it does."""
        if run.mode != PERFORMANCE:
            return None
        settings = self.recorder.desired.detail(RunAddress(cell, run.mode).address).settings
        at = fill_placeholders(settings.get_text(_CONF_AT), {"system": cell.system, "scenario": cell.scenario})
        found = (parent / at for parent in run.folder.absolute().parents) if at else ()
        return next((path for path in found if path.is_file()), None)


def _select_deepest(parts: Sequence[str], names: Mapping[Cell, frozenset[str]]) -> list[Cell]:
    """Return the cells that have a name equal to a folder's, for the deepest folder that matches any."""
    for part in reversed(parts):
        if found := [cell for cell, own in names.items() if part in own]:
            return found
    return []


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
