"""src/<benchmark>: the code that the published runs kept, and REPRODUCE.md, which says how an auditor uses it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import join_listing, show_count
from reconciler.tree.content import CellCode, Content, Files, SubmissionContent, hash_content

REPRODUCE = "REPRODUCE.md"
_SHORT = 12  # characters of a digest that name a folder
_MEANINGS = {
    "user_conf": "`user.conf` of the cell, in its folder of the results",
    "run_dir": "an empty folder: the logs are found in it",
    "log_dir": "an empty folder: the logs are found in it",
    "scenario": "the scenario of the cell",
    "mode": "`performance` or `accuracy`",
    "benchmark": "the benchmark's name",
    "accuracy_log": "`mlperf_log_accuracy.json` of the accuracy run",
    "engine": "the folder of the engine, as the build command leaves it",
    "model": "the folder or file of the model",
    "dataset": "the folder of the dataset",
}


class _Version(Struct, frozen=True):
    """The code of some cells of a folder. ``prefix``: its place below the folder, "" at its top."""

    prefix: str
    files: Files
    cells: tuple[CellCode, ...]


def join_declared_code(benchmarks: Collection[str], submission: SubmissionContent) -> dict[str, Content]:
    """The files of a folder that several benchmarks of the spec, on different systems, are entered as."""
    code: dict[str, Content] = {}
    for benchmark in sorted(benchmarks):
        for name, content in submission.code.get(benchmark, {}).items():
            if hash_content(code.setdefault(name, content)) != hash_content(content):
                fix = "name the benchmarks in the spec alike, or their files of one name apart"
                raise ReconcilerError(
                    f"{join_listing(sorted(benchmarks))} are entered as one, with two {name}", fix=fix
                )
    return code


def place_kept_code(folder: str, cells: Sequence[CellCode], declared: Mapping[str, Content]) -> dict[str, Content]:
    """The files of src/<folder>, REPRODUCE.md among them. Cells whose code has no two contents for one name share the
    folder; else each version of the code has a folder of its own, named by its digest."""
    if not cells:
        return {}
    versions = _separate(cells, declared)
    code: dict[str, Content] = {}
    for version in versions:
        code |= {f"{version.prefix}{name}": content for name, content in version.files.items()}
    code[REPRODUCE] = _render_reproduce(folder, versions).encode()
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
    return hashlib.sha256(listed.encode()).hexdigest()


def _render_reproduce(folder: str, versions: Iterable[_Version]) -> str:
    parts = [
        f"# How to reproduce {folder}",
        "",
        "The code is that which the published performance runs kept as they began, file by file. Accuracy runs and "
        "compliance tests are published beside them only where their records hold the same digest of it.",
    ]
    for version in versions:
        where = f"`{version.prefix}`" if version.prefix else "this folder"
        parts += ["", f"## {join_listing([str(cell.cell) for cell in version.cells])}", ""]
        parts += [f"Code: {where}, {show_count(len(version.files), 'file')}."]
        excluded = max(cell.excluded for cell in version.cells)
        if excluded:
            parts += ["", f"{show_count(excluded, 'file')} of it {'is' if excluded == 1 else 'are'} not published."]
        for cell in _list_distinct(version.cells):
            parts += _render_commands(cell) if cell.commands.get("run") else _render_own(cell)
    return "\n".join(parts) + "\n"


def _list_distinct(cells: Sequence[CellCode]) -> list[CellCode]:
    """One cell for each way to run: cells mostly differ in their user.conf alone."""
    found: dict[object, CellCode] = {}
    for cell in cells:
        settings = () if cell.commands.get("run") else tuple(sorted(cell.settings.items()))
        found.setdefault((tuple(cell.commands.items()), cell.image, cell.tool, settings), cell)
    return list(found.values())


def _render_commands(cell: CellCode) -> list[str]:
    lines = ["", f"As for `{cell.cell}`, in the folder of the code:"]
    if cell.image:
        lines += ["", f"In the image `{cell.image}`."]
    for name, words in cell.commands.items():
        lines += ["", f"{name}:", "", "```", shlex.join(words), "```"]
    if cell.environment:
        lines += ["", "With these variables of the environment:", "", "```"]
        lines += [f"{name}={shlex.quote(value)}" for name, value in sorted(cell.environment.items())]
        lines += ["```"]
    said = " ".join([*(word for words in cell.commands.values() for word in words), *cell.environment.values()])
    used = [f"- `{{{name}}}`: {meaning}" for name, meaning in _MEANINGS.items() if f"{{{name}}}" in said]
    return [*lines, *(["", *used] if used else []), *_render_digests(cell), *_render_comparison(cell)]


def _render_own(cell: CellCode) -> list[str]:
    version = cell.tool.removeprefix("mlperf-reconciler ")
    extras = f"[{','.join(cell.extras)}]" if cell.extras else ""
    return [
        "",
        f"As for `{cell.cell}`, in an empty folder on the system that its description names:",
        "",
        "```",
        f"python -m pip install 'mlperf-reconciler{extras}=={version}'",
        "reconcile init",
        "```",
        "",
        "Declare the cell in the spec that `init` made, with these settings:",
        "",
        "```",
        *(f"{name}: {' '.join(value.split())}" for name, value in sorted(cell.settings.items())),
        "```",
        "",
        "Install what is listed under Software in the README.md of the cell's results, commit the spec, and measure:",
        "",
        "```",
        f"reconcile apply {_select(cell.cell)}",
        "```",
        "",
        "`harness/` is the part of the package that ran; `diff -r` with the installed one shows what is not of that "
        "release.",
        *_render_digests(cell),
        *_render_comparison(cell),
    ]


def _select(cell: Cell) -> str:
    names = {"division": cell.division, "system": cell.system, "benchmark": cell.benchmark, "scenario": cell.scenario}
    return shlex.join(f"{name}={value}" for name, value in names.items())


def _render_digests(cell: CellCode) -> list[str]:
    if not cell.digests:
        return []
    listed = [f"{digest}  {name}" for name, digest in sorted(cell.digests.items())]
    return ["", "SHA-256 of the files that it ran with:", "", "```", *listed, "```"]


def _render_comparison(cell: CellCode) -> list[str]:
    return [
        "",
        "What LoadGen then writes to `mlperf_log_detail.txt` has the settings of the published log, and its result "
        f"differs by no more than runs of `{cell.cell.scenario}` differ from each other. `reconcile verify-tree TREE` "
        "compares the published files with each other.",
    ]
