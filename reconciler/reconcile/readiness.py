"""List the prerequisites that real runs and the submission still need, and install the round's LoadGen."""

from __future__ import annotations

import configparser
import os
import platform
import re
import shutil
import socket
import sys
import venv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from harness.catalog import CONF
from harness.contract import ProbeRequest
from reconciler.errors import Problem, ReconcilerError, SpecError
from reconciler.fetch.scratch import FileState, find_scratch, look_for
from reconciler.loadgen.settings import RELEASES
from reconciler.observed.installed_backends import find_backend_version, list_installed
from reconciler.observed.loadgen_library import (
    CONFS,
    explain_install,
    explain_unavailable,
    find_loadgen_library,
    read_seeds,
)
from reconciler.observed.machine import find_unlike, list_accelerators, read_driver
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.resource.kinds import Kind
from reconciler.resource.programs import find_program
from reconciler.resource.quantities import join_listing, show_count, show_size
from reconciler.resource.records import REHEARSAL
from reconciler.resource.settings import CLIENT_CODE, COMMAND, DIRECTOR, KIT, STATE_SET, SystemSettings
from reconciler.rules.benchmark_files import SCRATCH_DEFAULTS, SCRATCH_VARIABLE, choose_scratch, find_benchmark_files
from reconciler.rules.programs import load_program
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec.submission_template import FILL_IN
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, hash_file
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import Node, probe_nodes
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import list_import_folders, run_pip

_LIMIT = 1800  # seconds for downloading a package of a few megabytes, or building it on a slow machine

_BUILDERS = ("setuptools", "wheel", "pybind11")

_REASON = re.compile(r"[Ee]rror: (?!subprocess|metadata)\S")  # an error in a line of output from pip or a compiler

_BENEATH = "beneath.pth"  # the site module reads it when an interpreter starts


def _locate_environment(paths: RepositoryPaths, round_name: str) -> Path:
    return paths.work / "environments" / round_name


def _find_python(paths: RepositoryPaths, round_name: str) -> Path | None:
    """Return the interpreter of a round's environment; None if none has the round's seeds."""
    environment = _locate_environment(paths, round_name)
    library = find_loadgen_library([str(_locate_packages(environment))])
    fits = library is not None and read_seeds(library) == load_ruleset(round_name).seeds()
    return environment / "bin" / "python" if fits else None


def install_loadgen(paths: RepositoryPaths, round_name: str, brought: Path | None = None) -> Path:
    """Create the round's environment from the release that ``RELEASES`` lists for the round, or from the wheel or
    sources in ``brought``, and return its interpreter. Raises ReconcilerError if pip cannot install it; an incomplete
    environment is removed."""
    environment = _locate_environment(paths, round_name)
    _refuse_place(environment)
    wanted = f"mlcommons-loadgen=={RELEASES[round_name]}" if brought is None else str(_find_sources(brought))
    conf = _find_conf(brought, round_name) if brought is not None else None
    shutil.rmtree(environment, ignore_errors=True)
    try:
        venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
        packages = _locate_packages(environment)
        # First, so that an environment with LoadGen is complete, even after a kill.
        lines = [f"import site; site.addsitedir({folder!r})" for folder in _list_packages_here()]
        (packages / _BENEATH).write_text("\n".join(lines) + "\n")
        with open_temporary("builders") as builders:
            _install([wanted], packages, _bring_builders(builders) if brought and Path(wanted).is_dir() else {})
        if conf is not None:
            shutil.copyfile(conf, packages / CONF)
        python = _find_python(paths, round_name)
        if python is None:
            raise ReconcilerError(
                f"{wanted} does not carry the seeds of round {round_name}", fix="install the LoadGen of the round"
            )
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    return python


def _install(wanted: Sequence[str], folder: Path, more: Mapping[str, str]) -> None:
    """Install packages into a folder with pip. ``more``: variables for a build without isolation."""
    bare = ("--no-build-isolation",) if more else ()
    ended = run_pip(["install", "--quiet", "--no-deps", *bare, "--target", str(folder), *wanted], _LIMIT, more)
    if ended.status:
        said = ended.error.strip().splitlines() or ["no output"]
        line = next((each.strip() for each in said if _REASON.search(each)), said[-1])
        fix = "check that a package index is reachable, and that a compiler is installed if it has no wheel"
        raise ReconcilerError(f"pip cannot install {' '.join(wanted)}: {line}", fix=fix)


def _bring_builders(folder: Path) -> dict[str, str]:
    """Return the variables with which LoadGen's sources find pybind11: those up to 2.1 have its headers in a submodule,
    later ones import it, and only some declare it for pip."""
    _install(_BUILDERS, folder, {})
    return {"PYTHONPATH": str(folder), "CPLUS_INCLUDE_PATH": str(folder / "pybind11" / "include")}


def _find_sources(brought: Path) -> Path:
    """Return the wheel, or the folder to build: LoadGen's own, or the one in a checkout of mlcommons/inference."""
    if brought.is_file() and brought.suffix == ".whl":
        return brought.absolute()
    for folder in (brought / "loadgen", brought):
        if (folder / "setup.py").is_file() and (folder / "loadgen.cc").is_file():
            return folder.absolute()
    fix = "name a wheel of LoadGen, its folder of sources, or a checkout of mlcommons/inference at the tag of the round"
    raise ReconcilerError(f"{brought} is not LoadGen", fix=fix)


def _find_conf(brought: Path, round_name: str) -> Path | None:
    """Return a round's mlperf.conf, if it is separate from LoadGen: in the ``brought`` folder or next to it."""
    if (wanted := CONFS.get(round_name)) is None:
        return None
    places = [folder / CONF for folder in (brought, brought.absolute().parent)]
    found = [place for place in places if place.is_file()]
    if fitting := [place for place in found if hash_file(place) == wanted]:
        return fitting[0]
    problem = (
        f"{found[0]} is not that of round {round_name}" if found else f"there is no {CONF} in {brought} or next to it"
    )
    fix = f"put that of mlcommons/inference at tag {round_name} there: sha256 {wanted}"
    raise ReconcilerError(problem, fix=fix)


def _refuse_place(environment: Path) -> None:
    """Refuse a link, whose target folder may belong to another user and would be removed or written to."""
    for path in (environment.parent, environment):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            fix = "find out who created it, and move it away; environments need a folder of this repository"
            raise ReconcilerError(f"{path} is a link or not a folder", fix=fix)
    try:
        str(environment).encode()
    except UnicodeEncodeError:
        unfit = "is not text"
    else:
        unfit = f"contains {os.pathsep!r}" if os.pathsep in str(environment) else ""
    if unfit:
        problem = f"no Python environment can be in {environment}: its name {unfit}"
        raise ReconcilerError(problem, fix="rename the folder of the repository")


def _locate_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _list_packages_here() -> list[str]:
    """List the package folders that this interpreter's children read, in their order."""
    return [folder for folder in list_import_folders() if Path(folder).name in ("site-packages", "dist-packages")]


MACHINE, REPOSITORY, SPEC, RUNS = "Machine", "Repository", "Spec", "Runs"


class Check(Struct, frozen=True):
    """The result of one check. ``missing``: real runs, or the submission, need this. ``where``: a place in a file, a
    cell, or nothing. ``advice``: recommended by submitters' guides but not required."""

    topic: str
    text: str
    missing: bool = False
    fix: str = ""
    where: str = ""
    advice: bool = False


def examine(paths: RepositoryPaths, specs: tuple[str, ...] = ()) -> list[Check]:
    """Examine everything, in the order in which one would fix it. Problems of the spec are included."""
    found = list(_check_machine())
    try:
        seen = compute_plan(paths, Options(specs=specs))
    except SpecError as error:
        problems = [Check(SPEC, p.message, True, p.fix, f"{p.file}:{p.line}:{p.column}") for p in error.problems]
        return [*found, *problems]
    found += _check_seeds(seen)
    found += _check_disk(seen)
    found += _advise(seen)
    found += _check_repository(seen)
    found += _check_spec(seen)
    found += _check_runs(seen)
    return found


def install_missing(paths: RepositoryPaths, specs: tuple[str, ...] = (), brought: Path | None = None) -> None:
    """Install the LoadGen of the declared round if neither this environment nor the round's own has it, or if the user
    ``brought`` another one. Raises ReconcilerError if pip cannot install it; does nothing if a spec cannot be read, or
    for a round without LoadGen."""
    try:
        seen = compute_plan(paths, Options(specs=specs))
    except SpecError:
        return
    installed, library = list_installed().get("mlcommons-loadgen", ""), find_loadgen_library()
    round_name = seen.desired.submission.round
    if find_program(round_name) or explain_unavailable(round_name):
        return
    fits = library and _explain_wrong_round(seen, installed, library) is None
    if brought is not None:
        install_loadgen(paths, round_name, brought)
    elif not fits and round_name in RELEASES and _find_python(paths, round_name) is None:
        install_loadgen(paths, round_name)


def _check_machine() -> Iterator[Check]:
    yield Check(MACHINE, f"Python {sys.version.partition(' ')[0]}")
    if shutil.which("git") is None:
        yield Check(MACHINE, "git is not installed", True, "install git: records are kept in it")


def _check_seeds(seen: PlanResult) -> Iterator[Check]:
    if program := find_program(seen.desired.submission.round):
        yield from _check_clients(seen, program)
        return  # not driven by LoadGen; its client gets the seeds
    round_name = seen.desired.submission.round
    installed, library = list_installed().get("mlcommons-loadgen"), find_loadgen_library()
    if installed is None or library is None:
        needed = not _has_only_commands(seen)
        text = "LoadGen is not installed" + ("" if needed else " here: the harness commands bring their own")
        yield Check(MACHINE, text, needed, explain_install(round_name) if needed else "")
        return
    if mismatch := _explain_wrong_round(seen, installed, library):
        text, missing, fix = mismatch
        if _has_only_commands(seen):
            own = f"nothing if the harness commands bring a LoadGen of round {round_name}; otherwise {fix}"
            yield Check(MACHINE, text, fix=own, advice=True)
            return
        yield _find_environment(seen) or Check(MACHINE, text, missing, fix)
    else:
        yield Check(MACHINE, f"LoadGen {installed} carries the seeds of round {round_name}")


def _has_only_commands(seen: PlanResult) -> bool:
    """Return True if every run starts a harness command, since it is not known here which LoadGen a command uses."""
    runs = [seen.desired.detail(each.address) for each in seen.desired.resources if each.kind is Kind.RUN]
    return bool(runs) and all(COMMAND in run.settings for run in runs)


def _check_clients(seen: PlanResult, program: str) -> Iterator[Check]:
    """Check each client of another program once."""
    runs = (seen.desired.detail(each.address) for each in seen.desired.resources if each.kind is Kind.RUN)
    found = [run.locations for run in runs if CLIENT_CODE in run.locations]
    for locations in {each[CLIENT_CODE]: each for each in found}.values():
        for text, missing, fix in load_program(program).examine_client(locations, seen.paths.root):
            yield Check(MACHINE, text, missing, fix)


def _find_environment(seen: PlanResult) -> Check | None:
    """Check for a LoadGen in its own environment, and whether all systems use it; None without one."""
    python = _find_python(seen.paths, seen.desired.submission.round)
    if python is None:
        return None
    text = f"LoadGen of round {seen.desired.submission.round} is installed in {python.parent.parent}"
    others = [name for name, system in seen.desired.submission.systems.items() if system.launcher.python != str(python)]
    fix = f"let {join_listing(others)} run there: `launcher: [env]` and `python: {python}`" if others else ""
    return Check(MACHINE, text, bool(others), fix)


def _explain_wrong_round(seen: PlanResult, installed: str, library: Path) -> tuple[str, bool, str] | None:
    """Return (text, missing, fix) if the installed LoadGen has another round's seeds, or else None."""
    round_name = seen.desired.submission.round
    if find_program(round_name):
        return None
    carried, wanted = read_seeds(library), load_ruleset(round_name).seeds()
    if reason := explain_unavailable(round_name):
        return reason, True, explain_install(round_name)
    if carried == wanted:
        return None
    other = next((name for name in list_rounds() if load_ruleset(name).seeds() == carried), "")
    whose = f"those of round {other}" if other else "those of an unknown round" if carried else "none"
    text = f"LoadGen {installed} does not carry the seeds of round {round_name}, but {whose}"
    return text, True, explain_install(round_name)


def _check_disk(seen: PlanResult) -> Iterator[Check]:
    """Check that the files still to be fetched fit on their disk."""
    try:
        scratch = find_scratch(os.environ)
    except ReconcilerError:
        return
    due = 0
    datasets = [r.address for r in seen.desired.resources if r.kind is Kind.DATASET]
    for code in {seen.desired.detail(address).locations.get("benchmark.code", "") for address in datasets}:
        files = find_benchmark_files(code)
        for file in files.files if files is not None else ():
            if look_for(scratch, file, deep=False).presence is FileState.MISSING and not file.optional:
                due += file.size or 0
    top = next((folder for folder in (scratch.root, *scratch.root.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(top).free
    if due > free:
        text = f"{show_size(due)} of datasets and models are still missing, and {scratch.root} has {show_size(free)}"
        yield Check(MACHINE, text, True, "free space there, or export MLPERF_SCRATCH_PATH=DIR on a larger disk")
    elif due:
        yield Check(MACHINE, f"{show_size(due)} are still missing; {show_size(free)} are free for them")


# Advice of submitters' guides: each check reads this machine's settings, and says nothing if it cannot.

# Major version of CUDA → the oldest Linux driver that runs programs built for it (CUDA compatibility, minor versions).
_LEAST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}

_BUILT_FOR = re.compile(r"tensorrt(?:-rtx)?-cu(\d+)(?:-libs|-bindings)?")

_CONNECTING = 2.0  # seconds

_LISTENING = "0.0.0.0 4950"  # address of the power kit's server if its configuration has none


def _advise(seen: PlanResult) -> Iterator[Check]:
    if os.geteuid() == 0:
        fix = "run as an ordinary user: files that root makes cannot be changed by others"
        yield Check(MACHINE, "you are root", fix=fix, advice=True)
    yield from check_scratch()
    systems = {name: each for name, each in seen.desired.submission.systems.items() if each.runs_here}
    fitting = {name: each for name, each in systems.items() if find_unlike(each.hardware) is None}
    own = {name: each for name, each in fitting.items() if each.hardware.accelerator}
    if own and list_accelerators():
        yield from _check_driver(seen, own)
        yield from _check_gpus(seen, own)
    for name, system in fitting.items():
        yield from _check_power(seen.paths.root, name, system)


def check_scratch() -> Iterator[Check]:
    try:
        place = choose_scratch(named := os.environ.get(SCRATCH_VARIABLE), os.path.isdir)
    except ReconcilerError as error:
        yield Check(MACHINE, error.message, True, error.fix)
        return
    if not place:
        return
    if not Path(place).is_dir():
        yield Check(MACHINE, f"{SCRATCH_VARIABLE} is {place}, which is not a folder", fix="correct it", advice=True)
        return
    others = [path for path in SCRATCH_DEFAULTS if path != place and Path(path).is_dir()]
    if others and not named:
        text = f"two scratch spaces exist; {place} is used, not {others[0]}"
        yield Check(MACHINE, text, fix=f"choose one: export {SCRATCH_VARIABLE}=DIR", advice=True)
    if not os.access(place, os.R_OK | os.X_OK):
        fix = "let this user read it, such as with: sudo chmod -R a+rX"
        yield Check(MACHINE, f"the scratch space {place} cannot be read", True, f"{fix} {place}")


def _check_driver(seen: PlanResult, systems: Collection[str]) -> Iterator[Check]:
    """Check that the driver supports the CUDA version for which the TensorRT in use was built."""
    details = (seen.desired.detail(each.address) for each in seen.desired.resources if each.kind is Kind.RUN)
    used = {each.settings.backend for each in details if each.locations.get("system") in systems}
    driver, installed = read_driver(), list_installed()
    for backend in sorted(used.intersection(("tensorrt", "tensorrt-rtx"))):
        version = find_backend_version(backend, installed)
        mine = [name for name in installed if name.startswith("tensorrt-rtx") == (backend == "tensorrt-rtx")]
        built = {int(found[1]) for name in mine if (found := _BUILT_FOR.fullmatch(name))}
        least = _LEAST_DRIVERS.get(max(built, default=0))
        if not (driver and version and least):
            continue
        text = f"driver {driver}; {backend} {version} for CUDA {max(built)} needs {least} or later"
        old = _split_version(driver) < _split_version(least)
        fix = f"install a driver of at least {least}, or {backend} for an older CUDA" if old else ""
        yield Check(MACHINE, text, old, fix)


def _split_version(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _check_gpus(seen: PlanResult, systems: Mapping[str, SystemSettings]) -> Iterator[Check]:
    """Check modes and limits of the GPUs, as NVML reports them."""
    try:
        (node,) = probe_nodes(ProbeRequest(), Launcher(), seen.paths.work)
    except ReconcilerError:
        return
    gpus: Sequence[Node] = node.get("accelerators", ())

    def count(test: Callable[[Node], bool]) -> str:
        found = sum(map(test, gpus))
        return f"{found} of {show_count(len(gpus), 'GPU')}" if found else ""

    categories = " ".join(each.category for each in systems.values())
    limited = any(each.hardware.power_limit or STATE_SET in each for each in systems.values())
    if "datacenter" in categories and (off := count(lambda gpu: gpu.get("ecc") is False)):
        text = f"ECC is off on {off}; datacenter systems need it on"
        yield Check(MACHINE, text, fix="sudo nvidia-smi -e 1, and restart", advice=True)
    if off := count(lambda gpu: gpu.get("persistence") is False):
        text = f"persistence mode is off on {off}: the driver is loaded again for each process and loses its settings"
        yield Check(MACHINE, text, fix="sudo nvidia-smi -pm 1", advice=True)
    if low := count(lambda gpu: gpu.get("application_mhz", 0) < gpu.get("default_mhz", 0)):
        yield Check(MACHINE, f"application clocks are below the default on {low}", fix="nvidia-smi -rac", advice=True)
    if not limited and (low := count(lambda gpu: gpu.get("power_limit_watts", 0) < gpu.get("default_limit_watts", 0))):
        fix = "raise it with nvidia-smi -pl, or declare power_limit in the system's hardware"
        yield Check(MACHINE, f"the power limit is below the default on {low}", fix=fix, advice=True)


def _check_power(root: Path, name: str, system: SystemSettings) -> Iterator[Check]:
    """Check that the director of a system's meter answers at the address in the spec, and that the configuration of the
    kit's server on this machine, if there is one, has the same address."""
    if not (director := system.get_text(DIRECTOR)):
        return
    host, _, written = director.partition(":")
    port = written or _LISTENING.split()[-1]
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECTING).close()
        yield Check(MACHINE, f"the power director of {name} answers at {host}:{port}")
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        fix = "start server.py of the kit there, with its server.cfg, and open its firewall for this machine"
        yield Check(MACHINE, f"the power director of {name} does not answer at {host}:{port}: {why}", True, fix)
    kit = system.get_text(KIT)
    folders = [root / kit, root / kit / "ptd_client_server", root / "power"] if kit else [root / "power"]
    names = (f"server-{platform.node()}.cfg", "server.cfg", "server.conf")
    file = next((folder / each for each in names for folder in folders if (folder / each).is_file()), None)
    if file is not None:
        yield from _check_server(file, port)


def _check_server(file: Path, port: str) -> Iterator[Check]:
    configured = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        configured.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error):
        return
    listening = configured.get("server", "listen", fallback=_LISTENING).split()[-1:]
    daemon = configured.get("ptd", "networkPort", fallback="8888").strip()
    if listening != [port]:
        text = f"the kit's server is configured to listen at port {''.join(listening)}, and the spec has {port}"
        fix = "correct `director` in the spec, or listen in the file"
        yield Check(MACHINE, text, fix=fix, where=str(file), advice=True)
    if [daemon] == listening:
        text = f"the kit's server and the analyzer's daemon are configured for one port, {daemon}"
        yield Check(MACHINE, text, fix="write another networkPort", where=str(file), advice=True)


def _check_repository(seen: PlanResult) -> Iterator[Check]:
    root = seen.paths.root
    if git.find_head(root) is None:
        yield Check(
            REPOSITORY,
            "nothing is committed yet",
            True,
            "git add . && git commit; results count only once the spec is committed",
        )
        return
    dirty = git.list_dirty(root, seen.spec)
    if dirty:
        fix = "commit them, before or after the runs: results count only once the spec is committed"
        yield Check(REPOSITORY, f"not committed: {join_listing(dirty)}", True, fix)
    else:
        yield Check(REPOSITORY, f"{show_count(len(seen.spec), 'spec')} committed")
    new = git.count_new_files(root, ["state"]) if (root / "state").is_dir() else 0
    if new:
        yield Check(
            REPOSITORY, f"{show_count(new, 'file')} of records and logs not committed", True, "reconcile --commit"
        )


def _check_marks(seen: PlanResult) -> Iterator[Check]:
    """Check for lines that `init` left to the user and that are still marked."""
    for name in seen.spec:
        try:
            lines = (seen.paths.root / name).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            continue  # problems of a file were reported when it was loaded
        blanks = ((number, line) for number, line in enumerate(lines, 1) if FILL_IN in line)
        numbers = [number for number, line in blanks if not line.startswith("#")]  # the header explains the mark
        if numbers:
            listed = join_listing(map(str, numbers), most=4)
            text = f"{show_count(len(numbers), 'line')} still {'says' if len(numbers) == 1 else 'say'} '{FILL_IN}'"
            fix = f"fill in the value and remove the mark: line{'s' * (len(numbers) > 1)} {listed}"
            yield Check(SPEC, text, True, fix, f"{name}:{numbers[0]}")


def _check_spec(seen: PlanResult) -> Iterator[Check]:
    alike: dict[str, list[Problem]] = {}
    gaps = seen.desired.list_gaps(seen.recorded)
    for gap in gaps:
        alike.setdefault(gap.fix, []).append(gap)
    for fix, (gap, *more) in alike.items():
        text = f"{gap.message}{f' ({len(more)} more alike)' if more else ''}"
        yield Check(SPEC, text, True, fix, f"{gap.file}:{gap.line}:{gap.column}")
    for cell in seen.desired.missing_cells:
        yield Check(
            SPEC, "the round requires it, but it is not declared", True, "declare it below spec.divisions", cell
        )
    marked = list(_check_marks(seen))
    yield from marked
    if not marked and not gaps and not seen.desired.missing_cells:
        rehearsal = any(REHEARSAL in seen.desired.detail(each.address).marks for each in seen.desired.resources)
        fits = "a rehearsal: it is never submitted, so descriptions and settings need not be complete"
        yield Check(SPEC, fits if rehearsal else "complete for a submission")


def _check_runs(seen: PlanResult) -> Iterator[Check]:
    """List the reasons that block steps, each once, with the number of steps that it blocks."""
    waiting: dict[tuple[str, str], list[str]] = {}
    for step in seen.plan.steps:
        if step.blocked and step.fix:  # the other steps wait for these
            waiting.setdefault((step.blocked, step.fix), []).append(str(step.change.address))
    for (why, fix), steps in waiting.items():
        yield Check(RUNS, f"{why} ({show_count(len(steps), 'step')} blocked)", True, fix, steps[0])
    ready = sum(1 for step in seen.plan.steps if not step.blocked)
    if ready:
        yield Check(RUNS, f"{show_count(ready, 'step')} can be made here: reconcile")
