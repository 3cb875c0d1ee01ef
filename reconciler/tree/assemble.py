"""Collect the tree's content from desired resources and published records."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS
from reconciler.desired.state import Desired
from reconciler.diff.change import Chosen
from reconciler.errors import ReconcilerError
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, DETAIL, SUMMARY, TRUNCATED
from reconciler.loadgen.settings import DECLARED
from reconciler.resource.canonical import is_digest
from reconciler.resource.decisions import Acceptance
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.programs import find_program_of_division
from reconciler.resource.quantities import join_listing
from reconciler.resource.records import CODE_ARCHIVE, IMPORTED, LOG_LIMIT, REHEARSAL, REQUIREMENTS, SESSION, Record
from reconciler.resource.settings import (
    BUILD,
    COMMAND,
    HARNESS,
    MAXIMUM,
    MINIMUM,
    SERVICE,
    CellSettings,
    SubmissionSettings,
    SystemSettings,
    group_node_types,
)
from reconciler.resource.wording import show_value
from reconciler.rules.accuracy import add_hash
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import find_recorded_format
from reconciler.storage.code_archive import unpack_code
from reconciler.tree.content import (
    AccuracyLog,
    CellCode,
    CellContent,
    Content,
    Files,
    LogRef,
    SubmissionContent,
    SystemContent,
)
from reconciler.tree.layout import CHECKER_LOG, is_portable
from reconciler.tree.render import CONFIGS, PLACES, SCORER
from reconciler.tree.source import Sources

_REPORTS = (BASELINE, COMPLIANCE)  # of TEST01's fallback; they belong in the folder of the answers


def collect_test_files(test: str, run: Mapping[str, LogRef], verdict: Mapping[str, LogRef]) -> Files:
    """Return {path below the test's folder: content}, from the artifacts of a test's run and its verdict.

    The answers are truncated as required by the submission rules, and accuracy.txt contains their hash. For TEST01,
    truncation and the checkers need this file, but no script writes it.
    """
    files: dict[str, Content] = {}
    for name, content in verdict.items():
        if name in _REPORTS:
            files[f"accuracy/{name}"] = content
        elif name.startswith("verify_"):
            files[name] = content
    shown = find_test(test)
    if shown.shows_run:
        files |= {f"performance/run_1/{name}": run[name] for name in (SUMMARY, DETAIL) if name in run}
    if shown.shown_whole and ACCURACY_LOG in run and run[ACCURACY_LOG].size <= LOG_LIMIT:
        files[f"accuracy/{ACCURACY_LOG}"] = run[ACCURACY_LOG]
    elif shown.shows_answers and ACCURACY_LOG in run and TRUNCATED in run:
        files[f"accuracy/{ACCURACY_LOG}"] = run[TRUNCATED]
        files[f"accuracy/{ACCURACY_TEXT}"] = add_hash("", run[ACCURACY_LOG].sha256).encode()
    return files


# documentation/calibration.md, from the records: how each published model was calibrated.

_AS_IS = "The published weights are used as they are: nothing is quantized or calibrated."
_NOT_LISTED = ("document", "comparison", "scores")  # facts that are rendered separately, or not relevant here


class Calibration(Struct, frozen=True):
    """Calibration of a model. ``precision``: of the engine or the run. ``settings``: the model's settings. ``made``:
    its record's facts about the quantization; ``source``: digest of the file that was quantized."""

    cells: tuple[str, ...]
    benchmark: str
    precision: str
    settings: Mapping[str, object] = field(default_factory=dict)
    made: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


def render_calibration(found: Iterable[Calibration]) -> bytes:
    """Render a section for each model, in the order of the benchmarks."""
    parts = ["# Calibration", ""]
    # A benchmark's cells whose models have the same text share a section.
    sections: dict[tuple[str, ...], list[str]] = {}
    for item in found:
        sections.setdefault((item.benchmark, *_render(item)), []).extend(item.cells)
    for (benchmark, *lines), cells in sorted(sections.items(), key=lambda item: (item[0][0], sorted(item[1]))):
        parts += [f"## {benchmark}", "", f"Of {join_listing(sorted(cells))}.", "", *lines, ""]
    return "\n".join(parts).encode()


def _render(item: Calibration) -> Sequence[str]:
    lines = [f"- Precision: {item.precision}"] if item.precision else []
    lines += [f"- Source of the weights: SHA-256 `{item.source}`"] if item.source else []
    lines += [f"- `model.settings.{name}`: {value}" for name, value in sorted(item.settings.items())]
    plain = {n: v for n, v in item.made.items() if n not in _NOT_LISTED and isinstance(v, str | int | float)}
    lines += [f"- {name.replace('_', ' ')}: {value}" for name, value in sorted(plain.items())]
    document = str(item.made.get("document", "")).partition("\n")[2].strip()  # this file has its own title
    if not item.made:
        return [*lines, *([""] if lines else []), _AS_IS if not item.settings else "Nothing is calibrated."]
    return [*lines, *(["", document] if document else [])]


CALIBRATION = "documentation/calibration.md"
_MODEL = "model.settings."
_FILES_OF = ("dataset.", "model.", "engine.")
_RENAMED = {"benchmark.official": "as", "benchmark.code": "code", "benchmark.path": "code"}
_REPEATED = (*_RENAMED, "dataset.", "harness.", "measurements.", "model.")
_LOCATIONS = ("path", "code", "configs", "cwd", "logs", "outputs", "user_conf_at")
_FREE = re.compile(r"(.+?\.(?:settings|options|env))\.(.+)")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SHOWN = ("engine.", "run.", "compliance.", *DECLARED, MINIMUM, MAXIMUM)


class Assembly(Struct, frozen=True):
    """A submission to assemble. ``chosen``: publishable cells only. ``sources``: reads code and documents.
    ``accepted``: cells shown with the settings they were measured with. ``kept``: declared cells whose files stay
    unchanged, so only shared files are made for them."""

    desired: Desired
    chosen: Mapping[Cell, Chosen]
    load_record: Callable[[str], Record]
    load_bytes: Callable[[LogRef], bytes]
    sources: Sources
    accepted: Mapping[Cell, Acceptance] = MappingProxyType({})
    kept: Mapping[Cell, Chosen] = MappingProxyType({})

    def assemble(self) -> SubmissionContent:
        """Assemble it. Every system with a publishable cell gets its description."""
        submission = self.desired.submission
        cells = tuple(map(self._assemble_cell, sorted(self.chosen)))
        present = {*(cell.cell for cell in cells), *self.kept}
        pairs = sorted({(cell.division, cell.system) for cell in present})
        systems = tuple(self._assemble_system(name, division, submission.systems[name]) for division, name in pairs)
        kept_code = tuple(self._collect_kept_code())
        known = {item.cell.benchmark for item in kept_code}
        benchmarks = {cell.benchmark for cell in present}
        return SubmissionContent(
            submitter=submission.submitter,
            systems=systems,
            cells=cells,
            code={
                **self._collect_published_code(submission.own_code, benchmarks - known),
                **self._collect_published_code(submission.code, benchmarks),
            },
            kept_code=kept_code,
            documents=self._collect_documents() | self._derive_calibration(),
            official_only=frozenset({CALIBRATION}),
        )

    def _collect_published_code(
        self, declared: Mapping[str, tuple[str, ...]], benchmarks: Collection[str]
    ) -> dict[str, dict[str, bytes]]:
        """Return {benchmark: files of its src folder} for benchmarks that declare their code."""
        return {name: self.sources.list_files(declared[name]) for name in sorted(benchmarks) if name in declared}

    def _collect_kept_code(self) -> Iterator[CellCode]:
        """Collect the code of cells whose benchmark does not declare what to publish. Each archive is unpacked
        once."""
        submission, chosen = self.desired.submission, {**self.kept, **self.chosen}
        unpacked: dict[tuple[str, str], tuple[Files, int]] = {}
        for cell in sorted(chosen):
            code, benchmark = chosen[cell].code, cell.benchmark
            if not code or benchmark in submission.code:
                continue
            timed = self.load_record(chosen[cell].performance)
            if (code, benchmark) not in unpacked:
                ref = _make_refs(timed)[CODE_ARCHIVE]
                unpacked[code, benchmark] = self._unpack(cell, ref, submission.excluded_code.get(benchmark, ()))
            files, excluded = unpacked[code, benchmark]
            settings = self.desired.detail(Address(Kind.RESULT, str(cell))).settings
            settings = _apply_acceptance(settings, self.accepted.get(cell))
            yield CellCode(
                cell=cell,
                official=settings.official or benchmark,
                files=files,
                excluded=excluded,
                tool=timed.tool,
                submission=_describe_submission(submission, settings),
                system=_describe_system(submission.systems[cell.system]),
                settings=_nest_settings(settings),
                places=_list_places(settings),
                extras=list_extras(settings),
                digests=_list_digests(timed, self.desired, self.accepted.get(cell)),
                lists_software=REQUIREMENTS in _make_refs(timed),
            )

    def _unpack(self, cell: Cell, ref: LogRef, patterns: Collection[str]) -> tuple[Files, int]:
        """Unpack the published files of an archive, and count those that the patterns exclude."""
        try:
            files = unpack_code(self.load_bytes(ref))
        except FileNotFoundError as error:
            message = f"the code that {cell} was run with is not here (object {ref.sha256[:12]})"
            raise ReconcilerError(message, fix="reconcile pull") from error
        except ValueError as error:
            raise ReconcilerError(f"{cell}: {error}", fix="reconcile pull, or repeat the run") from error
        left = {name: data for name, data in files.items() if not any(fnmatchcase(name, p) for p in patterns)}
        return {n: data for n, data in left.items() if all(map(is_portable, n.split("/")))}, len(files) - len(left)

    def _collect_documents(self) -> dict[str, bytes]:
        submission, sources = self.desired.submission, self.sources
        folder = submission.documents_folder
        found = sources.list_files([folder]) if folder else {}
        if calibration := submission.calibration:
            found[CALIBRATION] = sources.read_document(calibration, "documents.calibration")
        if bandwidth := submission.bandwidth:
            name = f"documentation/bandwidth{PurePosixPath(bandwidth).suffix}"
            found[name] = sources.read_document(bandwidth, "documents.bandwidth")
        if log := submission.checker_log:
            with contextlib.suppress(ReconcilerError):  # a later check of the tree writes it if it is missing
                found[f"results/{CHECKER_LOG}"] = sources.read_document(log, "documents.checker_log")
        return found

    def _derive_calibration(self) -> dict[str, bytes]:
        """Derive the calibration document if the spec names none and the records of all results that need one describe
        it. Changes to the weights by a command or by hand are not recorded."""
        chosen = {**self.kept, **self.chosen}
        bound = {cell: records for cell, records in chosen.items() if cell.division != "open" and records.performance}
        if self.desired.submission.calibration or not bound:
            return {}
        found = []
        for cell, records in sorted(bound.items()):
            settings = self.desired.detail(Address(Kind.RESULT, str(cell))).settings
            timed = self.load_record(records.performance)
            if COMMAND in settings or IMPORTED in timed.marks:
                return {}
            model = self._find_model(timed)
            inputs = {name: item.value for name, item in model.inputs.items()} if model is not None else {}
            found.append(
                Calibration(
                    cells=(str(cell),),
                    benchmark=settings.official or cell.benchmark,
                    precision=settings.precision,
                    settings={n.removeprefix(_MODEL): v for n, v in inputs.items() if n.startswith(_MODEL)},
                    made=model.values.get("quantization", {}) if model is not None else {},
                    source=str(inputs.get("source", "")),
                )
            )
        return {CALIBRATION: render_calibration(found)}

    def _find_model(self, timed: Record) -> Record | None:
        """Find the record of its engine's model, or of the model that it ran directly."""
        engine = timed.upstream.get("engine")
        holder = self.load_record(engine) if engine else timed
        model = holder.upstream.get("model")
        return self.load_record(model) if model else None

    def _assemble_system(self, name: str, division: str, system: SystemSettings) -> SystemContent:
        original = self.sources.read_document(system.original, f"original of {name}") if system.original else b""
        nameplate = self.sources.read_document(system.nameplate, f"nameplate of {name}") if system.nameplate else b""
        # The nodes do not depend on the order in which they were written.
        nodes = group_node_types(dict(sorted(system.values.items())))
        return SystemContent(
            name, division, system.category, system.status, system.description, original, nameplate, nodes
        )

    def _assemble_cell(self, cell: Cell) -> CellContent:
        records = self.chosen[cell]
        timed = self.load_record(records.performance)
        performance = _make_refs(timed)
        accuracy, score = map(_make_refs, map(self.load_record, (records.accuracy, records.score)))
        form, program = find_recorded_format(timed), find_program_of_division(cell.division)
        shown = form.SHOWN
        result = Address(Kind.RESULT, str(cell))
        source = _find_source(self.desired, result)
        settings = _apply_acceptance(self.desired.detail(result).settings, self.accepted.get(source or cell))
        run = self.desired.detail(Address(Kind.RESULT, str(source))).settings if source else settings
        run = _apply_acceptance(run, self.accepted.get(source or cell))
        point = None
        if program:
            point = load_program(program).describe_point(settings, performance, accuracy, self.load_bytes)
        listed = performance.get(REQUIREMENTS)
        return CellContent(
            cell=cell,
            official=settings.official or cell.benchmark,
            measurements=_collect_measurements(settings),
            settings=_list_shown_settings(run, adopted=IMPORTED in timed.marks and REQUIREMENTS in performance),
            user_conf=performance[shown.user_conf] if shown.user_conf else None,
            performance={name: performance[name] for name in shown.performance},
            # Files in a score's folders are answers that the round requires, such as images.
            accuracy={name: accuracy[name] for name in shown.accuracy}
            | {n: ref for n, ref in score.items() if "/" in n},
            accuracy_log=AccuracyLog(accuracy[shown.answers], accuracy[shown.answers_shown]) if shown.answers else None,
            # Preserve every byte of a text, even if it is not UTF-8.
            accuracy_text=self.load_bytes(score[shown.score]).decode("utf-8", "surrogateescape") if shown.score else "",
            compliance={**self._collect_tests(records), **_find_included_tests(performance, shown.tests)},
            configuration=performance[shown.configuration] if shown.configuration else None,
            format=form.NAME,
            code=describe_code(settings),
            power=self._collect_power(settings, performance),
            inferred_from=source,
            rehearsal=REHEARSAL in timed.marks,
            point=point,
            requirements=tuple(self.load_bytes(listed).decode("utf-8", "replace").splitlines()) if listed else (),
        )

    def _collect_power(self, settings: CellSettings, performance: Mapping[str, LogRef]) -> Files:
        """Return the power files of the published run if power was measured, else the folder declared in the spec."""
        measured = {name.removeprefix(SESSION): ref for name, ref in performance.items() if name.startswith(SESSION)}
        if measured:
            return measured
        declared = settings.power_path
        return self.sources.list_files([declared]) if declared else {}

    def _collect_tests(self, records: Chosen) -> dict[str, Files]:
        """Show imported tests unchanged, and own tests with the verdict's files."""
        verdicts = dict(records.verdicts)
        found: dict[str, Files] = {}
        for name, identity in records.tests:
            run = _make_refs(self.load_record(identity))
            verdict = _make_refs(self.load_record(verdicts[name])) if name in verdicts else None
            found[name] = run if verdict is None else collect_test_files(name, run, verdict)
        return found


def _describe_submission(submission: SubmissionSettings, settings: CellSettings) -> dict[str, Any]:
    found = {"round": submission.round, "submitter": submission.submitter}
    return found | ({"rehearsal": True} if settings.get("rehearsal") else {})


def _describe_system(system: SystemSettings) -> dict[str, Any]:
    """Return the system as a spec describes it, without the settings for how it is reached and how its power is
    metered."""
    values = {name.removeprefix("system."): value for name, value in sorted(system.values.items())}
    found = _nest({n: v for n, v in values.items() if n in ("category", "status") or n.startswith("hardware.")})
    return found | ({"description": dict(system.description)} if system.description else {})


def _nest_settings(settings: CellSettings) -> dict[str, Any]:
    """Nest the settings that decide how a cell is measured as in a spec, with units. Locations that exist only on this
    machine become environment variables."""
    found: dict[str, Any] = {}
    for name, value in sorted(settings.values.items()):
        if not name.startswith((*_SHOWN, *_REPEATED)) or name.endswith(".looked_for"):
            continue
        if name.rpartition(".")[2] in _LOCATIONS and not _FREE.fullmatch(name):
            if isinstance(value, list | tuple):
                value = [_name_location(name, str(item)) for item in value]
            else:
                value = _name_location(name, str(value))
        found[_RENAMED.get(name, name)] = value
    if found.get("code") in (None, "command"):
        found.pop("code", None)
    return _nest(found)


def _name_location(name: str, location: str) -> str:
    path = PurePosixPath(location)
    alone = path.is_absolute() or ".." in path.parts
    return f"${{{re.sub('[^A-Z0-9]+', '_', name.upper())}}}" if alone else location


def _list_places(settings: CellSettings) -> dict[str, str]:
    """List the locations where a spec expects the runs' code, in storage order, each with its part of the kept
    files."""
    written = {new: old for old, new in _RENAMED.items()}
    names = {written.get(name, name): part for name, part in PLACES.items()}
    if COMMAND not in settings:
        names[f"{HARNESS}.code"] = SCORER
    found = {_name_location(name, text): part for name, part in names.items() if (text := settings.get_text(name))}
    for name in (f"{part}.configs" for part in (HARNESS, SERVICE, BUILD)):
        for text in settings.get_words(name):
            found.setdefault(_name_location(name, text), CONFIGS)
    return found


def _nest(values: Mapping[str, object]) -> dict[str, Any]:
    """Convert {"engine.batch_size": 8} to {"engine": {"batch_size": 8}}. Names in a free group may contain dots."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        free = _FREE.fullmatch(name)
        *groups, last = (*free[1].split("."), free[2]) if free else name.split(".")
        at = nested
        for group in groups:
            if not isinstance(at.get(group), dict):
                at[group] = {}  # replaces the value that marks the group as present
            at = at[group]
        at[last] = _write_value(name, value, is_free=free is not None)
    return nested


def _write_value(name: str, value: object, *, is_free: bool) -> object:
    if is_free and isinstance(value, list | tuple):
        return {"from_env": str(value[1])}
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    if isinstance(value, str):
        is_number = not name.startswith(("measurements.", HARNESS)) and _NUMBER.fullmatch(value)
        return Decimal(value) if is_number and (not is_free or "." in value) else value
    if value is True and name.startswith("compliance.") and name.count(".") == 1:
        return {}
    if isinstance(value, int) and not isinstance(value, bool) and not is_free:
        shown = show_value(name, value)
        return value if shown == str(value) else shown
    return value


def list_extras(settings: CellSettings) -> tuple[str, ...]:
    """List this project's extras required by a cell's backend, the backend that makes its engines, and its
    benchmark."""
    backend = BACKENDS.get(settings.backend)
    option = backend.engine.get("made_by") if backend else None
    maker = BACKENDS.get(settings.get_text("engine.options.made_by", option.default)) if option else None
    benchmark = BENCHMARKS.get(settings.benchmark_code)
    names = [found.extra for found in (backend, maker) if found] + ([benchmark.installed_by] if benchmark else [])
    return tuple(dict.fromkeys(name for name in names if name)) or ("loadgen",)


def _list_digests(timed: Record, desired: Desired, acceptance: Acceptance | None) -> dict[str, str]:
    """List the files that a run read, and the sources of everything it depends on, with their SHA-256."""
    inputs = acceptance.inputs if acceptance else ()
    changed = {(name, item.after): item.before for _, name, item in inputs if is_digest(item.after)}
    facts = {name: fact.value for name, fact in timed.facts.items() if name.startswith(_FILES_OF)}
    found = {name: str(value) for name, value in facts.items() if is_digest(value)}
    for address in desired.list_lineage(timed.address):
        for item in desired.detail(address).inputs:
            if item.upstream is None and is_digest(item.value):
                found[f"{address.label}: {item.name}"] = str(changed.get((item.name, item.value), item.value))
    return found


def _list_shown_settings(settings: CellSettings, *, adopted: bool) -> dict[str, str]:
    """``adopted``: the run comes from a tree that we rendered, whose list of software has the version that the spec now
    declares."""
    found = {name: str(value) for name, value in sorted(settings.values.items()) if name.startswith(_SHOWN)}
    return {name: value for name, value in found.items() if not (adopted and name == "engine.version")}


def _make_refs(record: Record) -> dict[str, LogRef]:
    return {a.name: LogRef(a.sha256, a.size) for a in record.artifacts}


def _apply_acceptance(settings: CellSettings, acceptance: Acceptance | None) -> CellSettings:
    """Return the settings of the published runs, even if the spec has changed since."""
    if acceptance is None:
        return settings
    before = {name: item.before for _, name, item in acceptance.inputs if name.startswith(_SHOWN)}
    return CellSettings({n: value for n, value in {**settings.values, **before}.items() if value is not None})


def _find_included_tests(performance: Mapping[str, LogRef], folder: str) -> dict[str, Files]:
    """List the tests included in a performance run: their verdicts, which the checker reads."""
    if not folder:
        return {}
    brought = {PurePosixPath(name): ref for name, ref in performance.items()}
    verdicts = {path.name: ref for path, ref in brought.items() if path.parent == PurePosixPath(folder)}
    return {folder: verdicts} if verdicts else {}


def _find_source(desired: Desired, result: Address) -> Cell | None:
    """Return the cell that a result is inferred from: the one whose runs it uses."""
    found = next((a.cell for a in desired.by_address[result].upstream if a.cell is not None), None)
    return None if found == result.cell else found


def describe_code(settings: CellSettings) -> str:
    """Describe where the code of a cell's benchmark is, for the README of src/<benchmark>."""
    command = settings.command
    if command:
        return f"`{PurePosixPath(settings.harness_code or command[0]).name}`, a command of the submitter's"
    # A path outside the repository exists on one machine only; only its file name is useful to others.
    if path := settings.benchmark_path:
        return f"`{PurePosixPath(path).name}`"
    benchmark = BENCHMARKS.get(settings.benchmark_code)
    if benchmark is None or benchmark.elsewhere:
        return "the submitter's own code, which is not part of mlperf-reconciler"
    return f"`harness.benchmarks.{benchmark.module}` of mlperf-reconciler"


def _collect_measurements(settings: CellSettings) -> dict[str, Any]:
    """Return the declared fields, which override those derived from the settings."""
    path = settings.model_path
    own = {
        "weight_data_types": settings.get("engine.precision"),
        "starting_weights_filename": PurePosixPath(path).name if path else None,
    }
    return {**{name: value for name, value in own.items() if value}, **settings.get_below("measurements.")}
