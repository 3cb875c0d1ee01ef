"""Render a submission: the same values give the same paths and bytes, on any machine, at any time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePosixPath
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.errors import ReconcilerError, SpecError
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BUILT_IN_CONF
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import PROGRAMS, find_program_of_results
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.records import REHEARSAL
from reconciler.rules.accuracy import add_hash, parse_accuracy
from reconciler.rules.nameplate import CAPACITY
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.edit import read, render_value
from reconciler.storage.code_archive import LEFT_OUT
from reconciler.storage.files import hash_bytes
from reconciler.tree.content import (
    AccuracyLog,
    CellCode,
    CellContent,
    Content,
    Files,
    LogRef,
    Rendered,
    SubmissionContent,
    hash_content,
)
from reconciler.tree.documents import (
    collect_measurements_fields,
    encode_json,
    render_built_in_conf,
    render_cell_readme,
    render_description,
    render_source_readme,
)
from reconciler.tree.layout import LAYOUTS, Layout, MakePath, make_path, name_folders

# src/<benchmark>: the code kept by the published runs, and REPRODUCE.md. An auditor follows that file, and `adopt`
# reads from it how the cells were measured.

REPRODUCE, README = "REPRODUCE.md", "README.md"
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_SHORT = 12  # characters of a digest in a folder's name
OF_BENCHMARK = ("as", "code", "model", "dataset")  # settings that a cell cannot have separately
# Settings that refer to code → its location among the kept files.
PLACES = {"code": "", "harness.code": "", "harness.service.code": "service/", "harness.build.code": "build/"}
CONFIGS = "configs/"
SCORER = "score/"  # code of a harness that only scores
_OWN = "harness/"  # our own harness, if no command replaces it
_SECTION = re.compile(r"^## ", re.M)
_PREFIX = re.compile(r"^Code: (?:`([^`\n]*)`|this folder), ", re.M)
_SPEC = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
_DIGEST = re.compile(r"^([0-9a-f]{64})  (.+)$", re.M)


class _Version(Struct, frozen=True):
    """Code of some cells of a folder. ``prefix``: its location below the folder, "" at the top."""

    prefix: str
    files: Files
    cells: tuple[CellCode, ...]


def join_declared_code(benchmarks: Collection[str], submission: SubmissionContent) -> dict[str, Content]:
    """Join the code of several benchmarks of the spec that are entered as one, on different systems."""
    code: dict[str, Content] = {}
    for benchmark in sorted(benchmarks):
        for name, content in submission.code.get(benchmark, {}).items():
            if hash_content(code.setdefault(name, content)) != hash_content(content):
                fix = "name the benchmarks in the spec alike, or their files of one name apart"
                problem = f"{join_listing(sorted(benchmarks))} are entered as one, with two {name}"
                raise ReconcilerError(problem, fix=fix)
    return code


def place_kept_code(folder: str, cells: Sequence[CellCode], declared: Mapping[str, Content]) -> dict[str, Content]:
    """Return the files of src/<folder>, including REPRODUCE.md. Cells share the folder if no file name has two
    contents; otherwise each version of the code gets a separate folder, named by its digest."""
    if not cells:
        return {}
    versions = _separate(cells, declared)
    code: dict[str, Content] = {}
    for version in versions:
        code |= {f"{version.prefix}{name}": content for name, content in version.files.items()}
    published = {*declared, *code, REPRODUCE, README}
    code[REPRODUCE] = _render_reproduce(folder, versions, published).encode()
    return code


def _separate(cells: Sequence[CellCode], declared: Mapping[str, Content]) -> list[_Version]:
    by_code: dict[str, list[CellCode]] = {}
    for cell in cells:
        by_code.setdefault(_hash_files(cell.files), []).append(cell)
    joined: dict[str, str] = {name: hash_content(content) for name, content in declared.items()}
    contents = (item for group in by_code.values() for item in group[0].files.items())
    if all(joined.setdefault(name, hash_content(content)) == hash_content(content) for name, content in contents):
        merged = {name: content for group in by_code.values() for name, content in group[0].files.items()}
        return [_Version("", merged, tuple(cells))]
    return [_Version(f"{digest[:_SHORT]}/", group[0].files, tuple(group)) for digest, group in sorted(by_code.items())]


def _hash_files(files: Files) -> str:
    listed = "".join(f"{name}\0{hash_content(content)}\n" for name, content in sorted(files.items()))
    return hash_bytes(listed.encode())


def _render_reproduce(folder: str, versions: Iterable[_Version], published: Collection[str]) -> str:
    parts = [
        f"# How to reproduce {folder}",
        "",
        "The code is that which the published performance runs kept as they began, file by file. Accuracy runs and "
        "compliance tests are published next to them only where their records hold the same digest of it.",
    ]
    for version in versions:
        where = f"`{version.prefix}`" if version.prefix else "this folder"
        parts += ["", f"## {join_listing([str(cell.cell) for cell in version.cells])}", ""]
        parts += [f"Code: {where}, {show_count(len(version.files), 'file')}."]
        excluded = max(cell.excluded for cell in version.cells)
        if excluded:
            parts += ["", f"{show_count(excluded, 'file')} of it {'is' if excluded == 1 else 'are'} not published."]
        parts += _render_version(folder, version, published)
    return "\n".join(parts) + "\n"


def _render_version(folder: str, version: _Version, published: Collection[str]) -> list[str]:
    cells = version.cells
    release = cells[0].tool.removeprefix("mlperf-reconciler ")
    names = sorted({name for cell in cells for name in cell.extras})
    extras = f"[{','.join(names)}]" if names else ""
    spec = list(_render_spec(cells))
    variables = sorted(
        {name for line in spec for name in _VARIABLE.findall(line)}
        | {item["from_env"] for cell in cells for item in _list_references(cell.settings)}
    )
    lines = [
        "",
        "In an empty folder on the system that its description names, with `SRC` as the folder of this file:",
        "",
        "```sh",
        f"python -m pip install 'mlperf-reconciler{extras}=={release}'",
        *_render_software(folder, cells),
        *(f"export {name}=  # to be filled in" for name in variables),
        *_render_copies(version, published),
        "```",
        "",
        "Save as `specs/repeat.yaml`:",
        "",
        "```yaml",
        *spec,
        "```",
        "",
        "Put model and dataset where the spec names them, and measure:",
        "",
        "```sh",
        *(f"reconcile apply {_format_selection(cell.cell)}" for cell in cells),
        "```",
    ]
    if any(name.startswith("harness/") for name in version.files):
        lines += [
            "",
            "`harness/` is the part of the package that ran; `diff -r` with the installed one shows what is not of "
            "that release.",
        ]
    for cell in _list_distinct(cells):
        listed = [f"{digest}  {name}" for name, digest in sorted(cell.digests.items())]
        if listed:
            lines += ["", f"SHA-256 of the files that `{cell.cell}` ran with:", "", "```", *listed, "```"]
    scenarios = sorted({cell.cell.scenario for cell in cells})
    return [
        *lines,
        "",
        "What LoadGen then writes to `mlperf_log_detail.txt` has the settings of the published log, and its result "
        f"differs by no more than runs of {join_listing(scenarios)} differ from each other. `reconcile verify-tree "
        "TREE` compares the published files with each other.",
    ]


def _render_software(folder: str, cells: Sequence[CellCode]) -> Iterator[str]:
    """Install the versions listed in a cell's README.md exactly, including combinations that pip would reject."""
    for cell in [cell.cell for cell in cells if cell.lists_software][:1]:
        listed = f'"$SRC"/../../*/{shlex.quote(f"{cell.system}/{folder}/{cell.scenario}")}/README.md'
        yield f"grep -hE '^[^ ]+==[^ ]+$' {listed} | python -m pip install --no-deps -r /dev/stdin"


def _list_references(value: object) -> Iterator[Mapping[str, str]]:
    if isinstance(value, Mapping):
        if set(value) == {"from_env"}:
            yield value
        for item in value.values():
            yield from _list_references(item)


def _render_copies(version: _Version, published: Collection[str]) -> Iterator[str]:
    """Copy each part of the code to where the spec expects it: a single file if its name matches, else the folder,
    without other files published there. Skip a location inside one already copied, because its files are already
    there."""
    done: list[PurePosixPath] = []
    places = {at: part for cell in version.cells for at, part in cell.places.items()}
    alone = {at: name for at, part in places.items() if (name := _find_single_file(at, part, version.files))}
    for at, part in places.items():
        place = PurePosixPath(at)
        if any(other in place.parents for other in done):
            continue
        if at in alone:
            yield _render_copy(version.prefix + alone[at], str(place.parent))
        elif any(name.startswith(part) for name in version.files):
            done.append(place)
            above = version.prefix + part
            there = {name.removeprefix(above) for name in published if name.startswith(above)}
            unneeded = _list_unneeded(there, _select_part(version, at, part, set(alone.values())))
            removed = f" && (cd {_quote(at)} && rm -r {shlex.join(unneeded)})" if unneeded else ""
            yield f"{_render_copy(f'{above}.', at)}{removed}"


def _find_single_file(at: str, part: str, files: Files) -> str:
    place = PurePosixPath(at)
    return part + place.name if place.suffix and part + place.name in files else ""


def _render_copy(source: str, folder: str) -> str:
    target = _quote(folder)
    return f'mkdir -p {target} && cp -R "$SRC"/{shlex.quote(source)} {target}/'


def _select_part(version: _Version, at: str, part: str, alone: Collection[str]) -> frozenset[str]:
    """Select the names of a folder's files, relative to it. Parts that were kept at the top may be mixed with it; then
    the recorded digest decides, or else files of the other parts do not count. ``alone``: files of code that is one
    file."""
    cells = [cell for cell in version.cells if at in cell.places]
    kept = {name: content for cell in cells for name, content in cell.files.items() if name.startswith(part)}
    kept.pop(LEFT_OUT, None)
    others = {other for cell in cells for other in cell.places.values() if other and not part}
    others |= {_OWN for cell in cells if not part and "command" not in cell.settings.get("harness", ())}
    own = {name: content for name, content in kept.items() if not name.startswith(tuple(others))}
    without_files = {name: content for name, content in own.items() if name not in alone}
    stated = {digest for cell in cells for digest in cell.digests.values()}
    below = [{name.removeprefix(part): c for name, c in files.items()} for files in (kept, own, without_files)]
    return frozenset(next((files for files in below if _hash_files(files) in stated), below[-1]))


def _list_unneeded(names: Set[str], needed: Set[str]) -> list[str]:
    """List the names that are not needed. A folder in which none is needed is listed once."""
    kept = {PurePosixPath(), *(folder for name in needed for folder in PurePosixPath(name).parents)}
    unneeded = [PurePosixPath(name) for name in names - needed]
    return sorted({str([path, *(f for f in path.parents if f not in kept)][-1]) for path in unneeded})


def _quote(place: str) -> str:
    return f'"{place}"' if place.startswith("$") else shlex.quote(place)


def _render_spec(cells: Sequence[CellCode]) -> Iterator[str]:
    """Render the cells as a separate spec. Settings common to all cells of a benchmark are written once."""
    yield from ("apiVersion: mlperf-reconciler/v1", "kind: Submission", "metadata: {name: repeat}", "spec:")
    yield from (f"  {name}: {render_value(value)}" for name, value in cells[0].submission.items())
    yield "  systems:"
    for name, system in {cell.cell.system: cell.system for cell in cells}.items():
        yield f"    {render_value(name)}:"
        yield from (f"      {key}: {render_value(value)}" for key, value in system.items())
    yield "  benchmarks:"
    shared: dict[str, dict[str, Any]] = {}
    for name in {cell.cell.benchmark: None for cell in cells}:
        first, *others = [cell.settings for cell in cells if cell.cell.benchmark == name]
        shared[name] = {
            key: value
            for key, value in first.items()
            if key in OF_BENCHMARK or all(other.get(key) == value for other in others)
        }
        yield f"    {render_value(name)}:"
        yield from (f"      {key}: {render_value(value)}" for key, value in shared[name].items())
    yield "  divisions:"
    above: tuple[str, ...] = ()
    for cell in sorted(cells, key=lambda item: item.cell):
        place = (cell.cell.division, cell.cell.system, cell.cell.benchmark)
        for depth, part in enumerate(place):
            if above[: depth + 1] != place[: depth + 1]:
                yield f"{'  ' * (depth + 2)}{render_value(part)}:"
        above = place
        common = shared[cell.cell.benchmark]
        own = {key: value for key, value in cell.settings.items() if key not in common}
        yield f"          {cell.cell.scenario}: {render_value(own)}"


def _list_distinct(cells: Sequence[CellCode]) -> list[CellCode]:
    """Return one cell for each set of files that was used."""
    return list({tuple(sorted(cell.digests.items())): cell for cell in reversed(cells)}.values())[::-1]


def _format_selection(cell: Cell) -> str:
    return shlex.join(f"{name}={value}" for name, value in asdict(cell).items())


class Instructions(Struct, frozen=True):
    """Instructions to repeat a cell: its ``settings`` and its system's ``hardware`` as in a spec, the folder of its
    code below that of the file, and the SHA-256 of the files that it used."""

    settings: Mapping[str, object]
    hardware: Mapping[str, object]
    prefix: str
    digests: Mapping[str, str]


def parse_reproduce(text: str) -> dict[tuple[str, str, str], Instructions]:
    """Parse instructions by division, system and scenario. Sections without a spec, as written by early releases, are
    ignored."""
    found: dict[tuple[str, str, str], Instructions] = {}
    for section in _SECTION.split(text)[1:]:
        prefix, block = _PREFIX.search(section), _SPEC.search(section)
        if prefix is None or block is None:
            continue
        try:
            spec = _get_group(_drop_nothing(read(block[1])), "spec")
        except SpecError:
            continue
        digests = {name: digest for digest, name in _DIGEST.findall(section)}
        divisions = _get_group(spec, "divisions")
        for division in divisions:
            for system in _get_group(divisions, division):
                hardware = _get_group(spec, "systems", system, "hardware")
                for benchmark in _get_group(divisions, division, system):
                    shared = _get_group(spec, "benchmarks", benchmark)
                    for scenario in _get_group(divisions, division, system, benchmark):
                        own = _get_group(divisions, division, system, benchmark, scenario)
                        at = division, system, scenario
                        found[at] = Instructions({**shared, **own}, hardware, prefix[1] or "", digests)
    return found


def _get_group(value: object, *names: str) -> Mapping[str, object]:
    """Return a nested group; empty if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _drop_nothing(value: Any) -> Any:
    """Drop empty entries."""
    if isinstance(value, dict):
        return {name: _drop_nothing(item) for name, item in value.items() if item is not None}
    return [_drop_nothing(item) for item in value if item is not None] if isinstance(value, list) else value


def render(submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
    """Yield every file of the tree as (path with "/", content), sorted by path.

    Raises ReconcilerError if a name is not allowed in a tree, if two files have the same path, if a truncated accuracy
    log is larger than the round allows, or if one folder would be two benchmarks.
    """
    if ruleset.layout in PROGRAMS:
        yield from load_program(ruleset.layout).render(submission, ruleset)
        return
    files: dict[str, Content] = {}
    for name, content in _render_files(submission, ruleset):
        if name in files:
            raise ReconcilerError(f"two files claim {name} in the submission tree")
        files[name] = content
    yield from sorted(files.items(), key=lambda item: item[0])


def _render_files(submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
    layout = LAYOUTS[ruleset.layout]
    for system in submission.systems:
        names = {"division": system.division, "submitter": submission.submitter, "system": system.name}
        yield (make_path(layout.system, **names), render_description(system, submission.submitter, ruleset))
        if system.nameplate and CAPACITY in ruleset.power_fields:  # earlier rounds do not have the file
            yield make_path(layout.nameplate, **names), system.nameplate
    for content in submission.cells:
        yield from _render_cell(content, submission.submitter, layout, ruleset)
    for division in sorted({content.cell.division for content in submission.cells}):
        yield from _render_division(division, submission, layout, ruleset)


def _render_cell(content: CellContent, submitter: str, layout: Layout, ruleset: Ruleset) -> Iterator[Rendered]:
    place = name_folders(content.cell, content.official, ruleset)

    def at(template: str, **names: str) -> str:
        return make_path(template, submitter=submitter, **asdict(place), **names)

    measurements = {**content.measurements, **({REHEARSAL: True} if content.rehearsal else {})}
    yield at(layout.measurements), encode_json(collect_measurements_fields(measurements, ruleset))
    form = find_rendered_format(content.format)
    yield at(layout.readme), render_cell_readme(content, ruleset, form.DESCRIBED)
    yield from form.render_runs(content, ruleset, layout, at)


def _render_division(
    division: str, submission: SubmissionContent, layout: Layout, ruleset: Ruleset
) -> Iterator[Rendered]:
    """Yield the files that a division has once: code, documents and, in open, the model mapping."""
    names = {"division": division, "submitter": submission.submitter}
    cells = [content for content in submission.cells if content.cell.division == division]
    folders: dict[str, list[CellContent]] = {}
    for content in cells:
        folders.setdefault(name_folders(content.cell, content.official, ruleset).benchmark, []).append(content)
    kept: dict[str, list[CellCode]] = {}
    for item in submission.kept_code:
        if item.cell.division == division:
            kept.setdefault(name_folders(item.cell, item.official, ruleset).benchmark, []).append(item)
    for folder, entered in sorted(folders.items()):
        code = join_declared_code({content.cell.benchmark for content in entered}, submission)
        code |= place_kept_code(folder, kept.get(folder, ()), code)
        if README not in code:
            notes = {content.code for content in entered if content.code}
            code[README] = render_source_readme(folder, tuple(sorted(notes)))
        for name, file in code.items():
            yield make_path(layout.source, **names, benchmark=folder, file=name), file
    for name, document in submission.documents.items():
        if name in submission.official_only and not ruleset.binds(division, "accuracy"):
            continue
        yield make_path(layout.document, **names, file=name), document
    mapping = _make_model_mapping(cells)
    if mapping and ruleset.binds(division, "model_mapping"):
        yield make_path(layout.model_mapping, **names), encode_json(mapping)


def _make_model_mapping(cells: list[CellContent]) -> dict[str, str]:
    """Return {folder: official benchmark} for folders with another name."""
    mapping: dict[str, str] = {}
    for content in sorted(cells, key=lambda content: content.cell):
        folder = content.cell.benchmark
        if mapping.setdefault(folder, content.official) != content.official:
            raise ReconcilerError(f"{folder} is entered as {mapping[folder]} and as {content.official}")
    return {folder: official for folder, official in mapping.items() if folder != official}


class RenderedFormat(Protocol):
    """Renderer for one result format. ``DESCRIBED``: text of a cell's README.md about the files of its runs."""

    DESCRIBED: str

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
        """Render the files of a scenario folder except its measurements and its README.md. ``at``: makes a path in the
        layout."""


_OURS = (ACCURACY_LOG, ACCURACY_TEXT)


class LoadGenRuns:
    """Renderer for LoadGen's files."""

    DESCRIBED = """\
- performance run: `performance/run_1/`, with the settings in `user.conf`, which are those of this very run
- accuracy run: `accuracy/`; `accuracy.txt` carries the SHA-256 of the untruncated accuracy log"""

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
        assert content.user_conf is not None
        assert content.accuracy_log is not None
        yield at(layout.user_conf), content.user_conf
        rules = ruleset.find_rules(content.cell.division, content.official)
        if BUILT_IN_CONF in ruleset.cell_documents and rules is not None:
            yield at(layout.built_in_conf), render_built_in_conf(rules, content.cell.scenario)
        for name, log in content.performance.items():
            yield at(layout.performance, file=name), log
        for name, log in content.accuracy.items():
            if name not in _OURS:
                yield at(layout.accuracy, file=name), log
        _check_size(content.cell, content.accuracy_log, ruleset)
        text, digest = content.accuracy_text, content.accuracy_log.original.sha256
        if parse_accuracy(text, ()).hash != digest:  # that of an import may already have the line
            text = add_hash(text, digest)
        yield at(layout.accuracy, file=ACCURACY_LOG), content.accuracy_log.kept
        yield at(layout.accuracy, file=ACCURACY_TEXT), text.encode("utf-8", "surrogateescape")
        for test, files in content.compliance.items():
            for name, log in files.items():
                yield at(layout.compliance, test=test, file=name), log
        yield from _render_power(content, layout, at)


def _render_power(content: CellContent, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Keep every byte as measured, since a power session lists the digests of its files, including LoadGen's own
    logs."""
    for name, file in content.power.items():
        log = content.performance.get(name.removeprefix("run_1/")) if name.startswith("run_1/") else None
        if log is None:
            yield at(layout.power, file=name), file
        elif hash_content(log) != hash_content(file):
            problem = f"{content.cell}: {name} of the power measurement is not the log of the published run"
            fix = "publish the run that was measured: `reconcile import` its folder, or take `power` out"
            raise ReconcilerError(problem, fix=fix)


def _check_size(cell: Cell, log: AccuracyLog, ruleset: Ruleset) -> None:
    kept, limit = log.kept, ruleset.accuracy_log.limit
    size = kept.size if isinstance(kept, LogRef) else len(kept)
    if size > limit:
        problem = f"{cell}: the accuracy log has {size} bytes, {ruleset.round} allows {limit}"
        raise ReconcilerError(problem, fix="truncate it first; the original stays in storage")


def find_rendered_format(results: str) -> RenderedFormat:
    program = find_program_of_results(results)
    found: RenderedFormat = load_program(program).find_cell_format(results) if program else LoadGenRuns()
    return found
