"""Create a repository: its first spec, the documents that the spec names, and the folders that git keeps."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template

from msgspec import Struct

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError, RepositoryError, StorageError, suggest_nearest
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset, normalise_category
from reconciler.spec.adapters import HarnessAdapter, describe_missing, fill_words, list_all_adapters
from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.families import find_family, find_stated_count, names_accelerator
from reconciler.spec.files import leads_out
from reconciler.spec.loading import load_adapters
from reconciler.spec.names import give_advice
from reconciler.spec.proposal import Proposal, propose
from reconciler.spec.published import (
    find_published_rate,
    list_broken_files,
    list_published_systems,
    names_system,
    show_pattern,
)
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import parse_name
from reconciler.spec.starter import NOTHING_READ, render_starter_spec
from reconciler.spec.submission_template import (
    Wanted,
    list_required,
    list_starting_values,
    render_submission_spec,
)
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import probe_nodes
from reconciler.storage.leftovers import open_temporary, sweep_folders, sweep_repository
from reconciler.storage.packaged_files import SCHEMA, read_shipped
from reconciler.storage.untrusted_files import LARGEST_RECORD, read_regular

_UNNAMED = "this-machine"  # a system without a name
_FEW = 4  # systems or files that a warning lists

_README = Template("""\
# $name

An MLPerf Inference submission, kept by `reconcile`.

- `specs/` declares it. `reconcile validate` checks it, `reconcile plan` shows what is to be done, `reconcile` does it.
- `state/` contains records and logs of measurements. Commit it (`reconcile --commit` does).
- `.reconcile/` contains what can be rebuilt or fetched; it is not committed.
""")

# For authors of scripts, and for coding assistants, which look for a file of this name.
_AGENTS = """\
# For assistants and scripts

People declare an MLPerf Inference submission in `specs/`. `reconcile` measures it, and keeps results in `state/`.

## Look

| Question | Command |
|---|---|
| Is the spec right? | `reconcile validate --json` |
| What would a pass do, and how long does it take? | `reconcile plan --json` |
| Why does a cell run again, or not? | `reconcile why CELL --json` |
| Which results are there, and are they VALID? | `reconcile status --json` |
| What would merging a branch make stale? | `reconcile pr --base main --json` |
| Which fields does a spec have? | `reconcile explain benchmarks` |

These commands change nothing and need no GPU. Name a cell as `plan` prints it, or by a part: `Server`.
`reconcile help json` describes the fields, `reconcile help TOPIC` everything else.

Exit codes: 0 in sync or done; 1 an error, with its fix; 2 not in sync (no error); 3 a bug; 130 interrupted: run
the same command again.

## Change

1. Edit `specs/*.yaml`, and code that a spec names. Comments there are the user's: keep them.
2. Run `reconcile validate`, then `reconcile plan`, and show what would run again.
3. Ask before `reconcile` alone: it is a pass, which runs benchmarks, often for hours. `reconcile --commit` also commits
   the new records.

## Never

- Edit, move or delete anything in `state/`: records and logs are evidence, named by their digests. `reconcile audit`
  finds every change.
- Edit the rendered tree in `.reconcile/tree/`, or `schemas/`: they are made from specs and records.
- Run `accept`, `freeze`, `amend`, `sign`, `prune` or `--rerun` without being asked: these are decisions of people, with
  a name and a reason.
- Push where the spec's embargo does not allow it: `reconcile embargo` lists each remote.
- Invent a number. If a run is INVALID, report its margin and the target that `reconcile why` suggests.
"""

WORKFLOW_FILE = ".github/workflows/submission.yml"
# The verdict is shown on the run's own page, because a comment could leave an embargoed repository by mail.
_WORKFLOW = """\
name: submission
on: pull_request
permissions: {contents: read}
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with: {fetch-depth: 0}
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install mlperf-reconciler
      - run: reconcile pr --base "origin/$GITHUB_BASE_REF" --fail-on errors --markdown "$RUNNER_TEMP/impact.md"
      - if: always()
        run: cat "$RUNNER_TEMP/impact.md" >> "$GITHUB_STEP_SUMMARY"
"""


@contextmanager
def explain_unwritable(root: Path, command: str) -> Iterator[None]:
    """Explain a file system error as a problem of the folder: a file in its path, or a place that is not writable.
    ``command``: how to choose another folder."""
    try:
        yield
    except OSError as error:
        where = error.filename or root
        fix = f"choose a folder that can be made and written: {command}"
        raise StorageError(f"cannot make a repository at {root}: {where}: {error.strerror}", fix=fix) from error


def write_repository(root: Path, name: str, spec: str) -> tuple[str, ...]:
    """Write a repository's files; return the paths to commit. Existing files are not changed.

    ``spec``: the text of specs/``name``.yaml, which is written last, so that an interrupted call can be repeated.
    """
    sweep_repository(RepositoryPaths(root))
    sweep_folders(((root / SCHEMA).parent, (root / WORKFLOW_FILE).parent))
    replace(root / SCHEMA, read_shipped(SCHEMA))
    for kept in ("state/records/.gitkeep", "state/logs/.gitkeep"):
        replace(root / kept, b"")
    # No slash at the end, so that a link to a folder elsewhere is ignored too.
    _add_line(root / ".gitignore", ".reconcile")
    # Records and logs are named by the digest of their bytes, so git must not change line ends.
    _add_line(root / ".gitattributes", "state/** -text")
    texts = {"README.md": _README.substitute(name=name), "AGENTS.md": _AGENTS, WORKFLOW_FILE: _WORKFLOW}
    for path, text in texts.items():
        if not (root / path).exists():
            replace(root / path, text.encode())
    replace(root / "specs" / f"{name}.yaml", spec.encode())
    return (f"specs/{name}.yaml", SCHEMA, ".gitignore", ".gitattributes", *texts)


def propose_this_machine() -> Proposal:
    """Describe this machine as `reconcile detect` reads it; the user must describe one that cannot be read."""
    try:
        with open_temporary("probe") as shared:
            (node,) = probe_nodes(ProbeRequest(hardware=True), Launcher(), shared)
    except ReconcilerError:
        return NOTHING_READ
    return propose(node)


def _add_line(path: Path, wanted: str) -> None:
    """Add a line to a file unless the file already contains it."""
    line, before = wanted.encode(), read_regular(path, LARGEST_RECORD) if path.exists() else b""
    if line not in before.splitlines():
        joined = before if not before or before.endswith(b"\n") else before + b"\n"
        replace(path, joined + line + b"\n")


_CALIBRATION = """\
# Calibration

How each model was quantized, with which data. `reconcile check` asks for this file in the closed and network divisions.

"""


class SubmissionRequest(Struct, frozen=True, kw_only=True):
    """A whole submission, as typed. ``benchmarks``: names, one or several separated by commas."""

    round_name: str | None
    division: str
    category: str
    benchmarks: tuple[str, ...]
    system: str | None
    harness: str
    code: str


class NewRepository(Struct, frozen=True):
    """A repository that was just created. ``spec``: relative to the root. ``wanted``: None for the starter spec."""

    root: Path
    spec: str
    made_git: bool
    wanted: Wanted | None
    documents: tuple[str, ...] = ()


def make_repository(root: Path, name: str | None, submitter: str, request: SubmissionRequest | None) -> NewRepository:
    """Make the folder a repository with a spec for this machine or for the requested submission.

    Raises ReconcilerError for a request that a spec cannot express, RepositoryError if there are specs already.
    """
    chosen = _make_spec_name(root.name) if name is None else _check_name("--name", name)
    submitter = _check_name("--submitter", submitter)
    own = load_adapters(root)
    wanted = _prepare_submission(chosen, submitter, request, list_all_adapters(own)) if request is not None else None
    documents = _list_documents(wanted) if wanted is not None else {}
    spec_file = f"specs/{chosen}.yaml"
    with explain_unwritable(root, "reconcile init DIR"):
        _refuse_existing(root, {adapter.file for adapter in own})
        if (root / spec_file).exists():
            fix = "give the submission another name: --name NAME"
            raise RepositoryError(f"{spec_file} is an adapter; nothing was written", fix=fix)
        root.mkdir(parents=True, exist_ok=True)
        made_git = git.initialise(root)
        for path, content in documents.items():
            if not (root / path).exists():
                replace(root / path, content.encode())
        if wanted is not None:
            spec = render_submission_spec(wanted)
        else:
            spec = render_starter_spec(propose_this_machine(), name=chosen, submitter=submitter)
        write_repository(root, chosen, spec)
    return NewRepository(root, spec_file, made_git, wanted, tuple(documents))


def _prepare_submission(
    name: str, submitter: str, request: SubmissionRequest, adapters: Mapping[str, HarnessAdapter]
) -> Wanted:
    """Turn a request into the description of a submission. Raises ReconcilerError for an unavailable round, benchmark
    or category."""
    ruleset = load_ruleset(request.round_name or list_rounds()[-1])
    names = [name.strip() for text in request.benchmarks for name in text.split(",") if name.strip()]
    adapter = _find_adapter(request.harness, ruleset.round, adapters) if request.harness else None
    if adapter is not None and not names:
        names = _list_adapted(adapter, ruleset, request.category)
        code = Path(request.code).resolve()
        names = [name for name in names if request.code and adapter.names_folder(code, name)] or names
    rules = [_find_rules(ruleset, name, request.category) for name in dict.fromkeys(names)]
    for each in rules:
        if adapter is not None and each.name not in adapter.known.benchmarks:
            message, fix = describe_missing(adapter, each.name)
            raise ReconcilerError(message, fix=fix)
    system = _check_name("--system", request.system or _UNNAMED)
    family = find_family(system)
    if family is None:
        read = _propose_system(request.system or "")
    elif family.accelerator:
        count = family.count // family.nodes
        hardware = {"accelerator": family.accelerator, "count": count}
        described = {"accelerator_model_name": family.accelerator, "accelerators_per_node": str(count)}
        if family.nodes > 1:
            hardware["nodes"] = family.nodes
            described["number_of_nodes"] = str(family.nodes)
        read = Proposal(hardware, described, ())
    else:
        read = NOTHING_READ
    accelerated = bool(read.hardware.get("count")) if read.hardware or family is not None else None
    known = {"system_name": request.system or NOT_DECLARED, "framework": NOT_DECLARED, **read.description}
    return Wanted(
        name=name,
        ruleset=ruleset,
        submitter=submitter,
        division=request.division,
        category=request.category,
        system=system,
        benchmarks=rules,
        family=family,
        read=Proposal(read.hardware, known, read.unread),
        adapter=adapter,
        code=_find_code(adapter, Path(request.code).resolve(), rules, system, accelerated=accelerated)
        if adapter and request.code
        else {},
    )


def _find_code(
    adapter: HarnessAdapter,
    checkout: Path,
    benchmarks: Sequence[BenchmarkRules],
    system: str,
    *,
    accelerated: bool | None,
) -> dict[str, str]:
    """Return the folder of each benchmark's code: a folder below ``checkout``, preferably one with settings of the
    system, or ``checkout`` itself if all benchmarks share it. Raises ReconcilerError if there is none."""
    found = {}
    alone = len({adapter.make_folder_name(rules.name) for rules in benchmarks}) == 1
    partners = adapter.find_partners(checkout)
    fitting = [path for path in partners if any(_has_settings(adapter, path, each.name, system) for each in benchmarks)]
    for name in (rules.name for rules in benchmarks):
        folders = adapter.find_code(checkout, name)
        if fitting and not set(folders) & set(fitting):
            folders = fitting
        elif not folders and not partners and alone and adapter.fits_folder(checkout, name):
            folders = [checkout]
        folders = folders or partners
        if len(folders) > 1:
            folders = [each for each in folders if _has_settings(adapter, each, name, system)] or folders
        if len(folders) > 1 and (cpu := adapter.known.cpu_folder):
            kinds = {each: not each.name.endswith(cpu) for each in folders}
            folders = [each for each in folders if kinds[each] is accelerated] or folders
        if len(folders) > 1:
            shown = [f"{each}{_show_kind(adapter, each)}" for each in folders]
            message = f"{checkout} has more than one folder for {name}: {', '.join(shown)}"
            raise ReconcilerError(message, fix=f"choose one: --benchmark {name} --code {folders[0]}")
        if not folders:
            message = f"{checkout} has no folder {adapter.make_folder_name(name)}, the code of {name}"
            fix = "give the whole checkout to --code, or name only benchmarks that it has with --benchmark"
            raise ReconcilerError(message, fix=fix)
        found[name] = str(folders[0])
    return found


def _show_kind(adapter: HarnessAdapter, folder: Path) -> str:
    if (cpu := adapter.known.cpu_folder) is None:
        return ""
    return f" (for systems {'without' if folder.name.endswith(cpu) else 'with'} accelerators)"


def _has_settings(adapter: HarnessAdapter, code: Path, benchmark: str, system: str) -> bool:
    published = adapter.known.published
    names = list_published_systems(adapter, code, benchmark)
    return published is not None and any(names_system(published, name, system) for name in names)


def list_warnings(wanted: Wanted) -> list[str]:
    """List what the user probably did not intend in the submission."""
    adapter, found = wanted.adapter, []
    if wanted.family is not None and not list_starting_values(wanted):
        limited = "maxq" in wanted.system.lower()
        model = wanted.system if limited else wanted.family.accelerator or wanted.family.name
        found.append(
            f"no published result of {model} with these benchmarks is known; those of other models do not count"
        )
    if adapter is None:
        return found
    if adapter.round and adapter.round != wanted.ruleset.round:
        found.append(f"{adapter.name} is for the code of round {adapter.round}, the spec is of {wanted.ruleset.round}")
    published = adapter.known.published
    codes = {name: Path(folder) for name, folder in wanted.code.items()}
    found += _list_unfit(wanted, adapter, codes)
    if published is None or not codes:
        return found
    if any(_has_settings(adapter, folder, name, wanted.system) for name, folder in codes.items()):
        if without := ", ".join(_list_without_settings(wanted, adapter, codes)):
            found.append(f"the code has no settings of {wanted.system} for {without}")
        return found
    systems = sorted({each for name, folder in codes.items() for each in list_published_systems(adapter, folder, name)})
    few = _show_few(systems)
    if not systems:
        name, folder = next(iter(codes.items()))
        files = show_pattern(fill_words(published.files, adapter.known.benchmarks[name].words))
        found.append(f"{folder} has no file {files}: no rates of its own are taken")
    elif wanted.system == _UNNAMED:
        found.append(f"no system is named: the code has settings of {few}; name one with --system, as its notes say")
    else:
        near = ", ".join(difflib.get_close_matches(wanted.system, systems, _FEW, 0.3)) or few
        near += f", with {published.accelerators} accelerators" if published.accelerators else ""
        found.append(f"the code has no settings of {wanted.system}; the closest of its names: {near}")
    return found


def _show_few(names: Sequence[str]) -> str:
    return ", ".join(names[:_FEW]) + (", …" if len(names) > _FEW else "")


def _list_unfit(wanted: Wanted, adapter: HarnessAdapter, codes: Mapping[str, Path]) -> Iterator[str]:
    """List what is wrong with the code: its round, missing files, and configurations that cannot be read."""
    for folder in dict.fromkeys(codes.values()):
        version = (
            read_regular(folder / "VERSION").decode(errors="replace").strip() if (folder / "VERSION").is_file() else ""
        )
        if adapter.round and version in list_rounds() and version != adapter.round:
            yield f"{folder} is the code of round {version} ({folder / 'VERSION'}), the adapter is for {adapter.round}"
        missing = {
            path
            for rules in wanted.benchmarks
            if codes[rules.name] == folder
            for scenario in list_required(wanted, rules)
            for path in adapter.list_missing(folder, rules.name, {"system": wanted.system, "scenario": scenario})
        }
        if missing:
            yield f"{folder} has no {_show_few(sorted(missing))}: the command needs it"
    broken = (list_broken_files(adapter, folder, name, wanted.system) for name, folder in codes.items())
    yield from dict.fromkeys(itertools.chain.from_iterable(broken))


def _list_without_settings(wanted: Wanted, adapter: HarnessAdapter, codes: Mapping[str, Path]) -> Iterator[str]:
    """List the benchmarks, with their scenarios, for which the code has no settings of the system."""
    published = adapter.known.published
    for rules in wanted.benchmarks:
        rates = {
            scenario: find_published_rate(adapter, codes[rules.name], wanted.system, rules.name, scenario)
            for scenario in list_required(wanted, rules)
            if published and scenario in published.target_qps and not adapter.explain_refusal(rules.name, scenario)
        }
        if without := ", ".join(scenario for scenario, rate in rates.items() if rate is None):
            yield f"{rules.name} ({without})"


def _propose_system(system: str) -> Proposal:
    """Describe this machine, unless the system's name states accelerators that it does not have."""
    read, count = propose_this_machine(), find_stated_count(system)
    if count is None or names_accelerator(system, str(read.hardware.get("accelerator", ""))):
        return read
    described = {"accelerator_model_name": NOT_DECLARED, "accelerators_per_node": str(count)}
    return Proposal({"count": count}, described, ())


def _find_adapter(name: str, round_name: str, adapters: Mapping[str, HarnessAdapter]) -> HarnessAdapter:
    if (found := adapters.get(name)) is None:
        fitting = [each.name for each in adapters.values() if each.round in ("", round_name)]
        raise ReconcilerError(f"{name!r} is not an adapter", fix=give_advice(name, fitting, what="adapter"))
    return found


def _list_adapted(adapter: HarnessAdapter, ruleset: Ruleset, category: str) -> list[str]:
    """List the benchmarks that the adapter runs and that the round has for such a system."""
    own = [name for name in adapter.known.benchmarks if name in ruleset.benchmarks]
    able = [name for name in own if normalise_category(category) in ruleset.benchmarks[name].tables]
    if not able:
        runs = ", ".join(adapter.known.benchmarks)
        message = f"adapter {adapter.name} runs no {category} benchmark of round {ruleset.round}"
        raise ReconcilerError(message, fix=f"name another --round or --category; it runs {runs}")
    return able


def _find_rules(ruleset: Ruleset, name: str, category: str) -> BenchmarkRules:
    official = ruleset.find_official_name(name)
    if official is None:
        gone = " any more" if name in ruleset.earlier else ""
        fix = f"{suggest_nearest(name, ruleset.benchmarks)}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}{gone}", fix=fix)
    rules = ruleset.benchmarks[official]
    if not rules.tables:
        fix = "run `reconcile init` without --benchmark, and declare it by hand: `reconcile help` lists the guides"
        raise ReconcilerError(f"{official} of {ruleset.round} has no scenarios, for which init writes a spec", fix=fix)
    if normalise_category(category) not in rules.tables:
        able = [other for other, found in ruleset.benchmarks.items() if normalise_category(category) in found.tables]
        wanted = max(rules.tables, key=len)
        fix = f"add --category {wanted}; {category} has {', '.join(able)}"
        raise ReconcilerError(f"{ruleset.round} has no {category} {official}", fix=fix)
    return rules


def _list_documents(wanted: Wanted) -> Mapping[str, str]:
    """Return path → text of the documents that the spec names."""
    if not wanted.writes_calibration:
        return {}
    blanks = "\n".join(f"## {rules.name}\n\nNot written yet.\n" for rules in wanted.benchmarks)
    return {"documents/calibration.md": _CALIBRATION + blanks}


def _check_name(option: str, name: str) -> str:
    try:
        return parse_name(name)
    except UnfitError as error:
        raise ReconcilerError(f"{option}: {error.message}", fix=error.fix) from error


def _make_spec_name(folder: str) -> str:
    """Turn a folder's name into a valid spec name."""
    return re.sub(r"[^a-z0-9._-]+", "-", folder.lower()).strip("-._")[:100] or "submission"


def _refuse_existing(root: Path, kept: Collection[str]) -> None:
    """Raise RepositoryError if the folder has specs other than ``kept``."""
    if out := [name for name in ("specs", "schemas", "state", ".github") if leads_out(root / name, root)]:
        raise RepositoryError(
            f"{root / out[0]} leads out of {root}: no command reads a spec there; nothing was written",
            fix="remove the link, or choose another folder: reconcile init DIR",
        )
    present = sorted(path for path in (root / "specs").glob("**/*") if path.suffix in (".yaml", ".yml"))
    present += [path for path in (root / SCHEMA,) if path.exists() and read_regular(path) != read_shipped(SCHEMA)]
    if found := [name for path in present if (name := path.relative_to(root).as_posix()) not in kept]:
        names = ", ".join(found[:4])
        raise RepositoryError(
            f"{root} has {names} already; nothing was written",
            fix="run `reconcile plan` here, or choose an empty folder: reconcile init DIR",
        )
