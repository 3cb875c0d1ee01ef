"""Observe this disk and machine once, for the desired resources."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS, show_install
from reconciler.desired.state import Desired
from reconciler.loadgen.user_conf import UserConf
from reconciler.observed.digest_cache import DigestCache, Stated, seal
from reconciler.observed.installed_backends import find_backend_version, find_missing_libraries
from reconciler.observed.loadgen_library import (
    IMPORT_ONLY,
    explain_install,
    explain_missing_settings,
    explain_unavailable,
    find_other_seeds,
    find_other_settings,
)
from reconciler.observed.machine import find_missing_queue, find_unlike, list_accelerators
from reconciler.observed.probed_nodes import (
    ProbedNodes,
    find_unlike_nodes,
    list_distributions_there,
    name_nodes,
    needs_probe,
    read_probed_nodes,
)
from reconciler.observed.rendered import observe_tree, read_rendered
from reconciler.observed.state import ArtifactPresence, Observed, Obstacle
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.queues import QUEUES
from reconciler.resource.records import Artifact, Recorded
from reconciler.resource.settings import BUILD_COMMAND, CLIENT_SOURCES, COMMAND, USUAL, SystemSettings
from reconciler.storage.escaping import find_variable
from reconciler.storage.files import RepositoryPaths, has_path, hash_bytes
from reconciler.storage.storage_errors import refuse_storage_error

# Finds recorded artifacts that are missing or damaged on this disk.

# Folders to search for an artifact, by its recorded place.
_PLACES = {"logs": ("logs", "objects"), "objects": ("objects",)}


def list_artifacts(folder: str, *, nested: bool) -> list[Stated]:
    """Return (path, size, mtime in ns) of each file in a folder of files named by digest; reads one directory, with no
    stat per missing file."""
    found: list[Stated] = []
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        refuse_storage_error(error, Path(folder))
        return found
    for entry in entries:
        if nested and entry.is_dir(follow_symlinks=False):
            found += list_artifacts(entry.path, nested=False)
        elif entry.is_file():
            status = entry.stat()
            found.append((entry.path, status.st_size, status.st_mtime_ns))
    return found


def observe_artifacts(
    artifacts: Iterable[Artifact], of: str, paths: RepositoryPaths, stamps: DigestCache
) -> dict[tuple[str, str], ArtifactPresence]:
    """Return (place, sha256) → problem, without intact artifacts. A log in git is searched for in both of its places.

    ``of`` identifies the whole of ``artifacts``, which is not called if nothing changed since all were intact.
    """
    stated = {
        "logs": list_artifacts(str(paths.logs), nested=False),
        "objects": list_artifacts(str(paths.objects), nested=True),
    }
    disk = seal("", itertools.chain(*stated.values()))
    sealed = hash_bytes(f"{of} {disk}".encode())
    if stamps.was_intact("artifacts", sealed):
        return {}
    folders = {place: {file[0].rpartition("/")[2]: file for file in files} for place, files in stated.items()}
    found: dict[tuple[str, str], ArtifactPresence] = {}
    sound = stamps.load_intact(disk)
    for artifact in artifacts:
        for place in _PLACES[artifact.place]:
            if (place, artifact.sha256) in sound or (place, artifact.sha256) in found:
                continue
            presence = _judge_presence(artifact, folders[place].get(artifact.sha256), stamps)
            if presence is None:
                sound.add((place, artifact.sha256))
            else:
                found[place, artifact.sha256] = presence
    stamps.note_check("artifacts", sealed, well=not found)
    return found


def _judge_presence(artifact: Artifact, entry: Stated | None, stamps: DigestCache) -> ArtifactPresence | None:
    if entry is None:
        return ArtifactPresence.MISSING
    path, size, mtime_ns = entry
    if size != artifact.size or stamps.get_digest(path, size, mtime_ns) != artifact.sha256:
        return ArtifactPresence.CORRUPT
    return None


def observe(
    desired: Desired,
    recorded: Recorded,
    paths: RepositoryPaths,
    tree: Path,
    stamps: DigestCache,
    also: frozenset[str] = frozenset(),
) -> Observed:
    """Observe only artifacts of records that a desired resource could use, or that have one of the keys in ``also``."""
    rendered = read_rendered(paths)
    same_tree = rendered.is_of(paths, tree)
    of = " ".join([desired.digest, recorded.digest, *sorted(also)])
    observed = Observed(
        artifacts=observe_artifacts(_list_needed(desired, recorded, also), of, paths, stamps),
        systems=find_unlike_systems(desired.submission.systems, read_probed_nodes(paths)),
        rendered=rendered.cells if same_tree else {},
        tree=observe_tree(tree, rendered, stamps) if same_tree else {},
        tree_present=same_tree and (tree.is_dir() or rendered.unfinished),
    )
    stamps.save()
    return observed


def _list_needed(desired: Desired, recorded: Recorded, also: frozenset[str]) -> Iterator[Artifact]:
    for key in {resource.key for resource in desired.resources} | also:
        for summary in recorded.by_key.get(key, ()):
            yield from summary.artifacts


def find_unlike_systems(systems: Mapping[str, SystemSettings], reached: ProbedNodes) -> dict[str, Obstacle]:
    """Return the declared systems that are neither this machine nor the nodes that their launcher reached, with the
    reason."""
    found = {name: _find_unlike_system(system, reached) for name, system in systems.items()}
    return {name: obstacle for name, obstacle in found.items() if obstacle is not None}


def _find_unlike_system(settings: SystemSettings, reached: ProbedNodes) -> Obstacle | None:
    """Return why the machine is not the declared one. Nodes that were never probed are assumed to match: the first pass
    with work there probes them."""
    if settings.is_queued:
        return find_missing_queue(QUEUES[settings.queue])
    here = find_unlike(settings.hardware) if settings.runs_here else None
    seen = reached.get(name_nodes(settings)) if needs_probe(settings) else None
    return here or (find_unlike_nodes(settings, seen) if seen is not None else None)


def list_installed_for(
    systems: Mapping[str, SystemSettings], reached: ProbedNodes, here: Mapping[str, str]
) -> dict[str, Mapping[str, str] | None]:
    """Return system → packages installed where its commands run; None if unknown."""
    found: dict[str, Mapping[str, str] | None] = {}
    for name, system in systems.items():
        if system.runs_here:
            found[name] = here
        elif system.is_queued:
            found[name] = None
        else:
            seen = reached.get(name_nodes(system))
            found[name] = list_distributions_there(seen) if seen is not None and seen.nodes else None
    return found


def can_build_anywhere(address: Address, locations: Mapping[str, str]) -> bool:
    """Return True if an engine can be built for any device: its library needs no device, and this machine has none that
    it would build for instead."""
    facts = BACKENDS.get(locations.get("backend", ""))
    ours = address.kind is Kind.ENGINE and BUILD_COMMAND not in locations
    return ours and facts is not None and facts.builds_without_device and not list_accelerators()


# Kinds whose children import the benchmark's code.
_LOADS_BENCHMARK = (Kind.DATASET, Kind.MODEL, Kind.RUN, Kind.COMPLIANCE_TEST, Kind.SCORE)
_CODE_OF = {Kind.SERVICE: "harness.service.code", Kind.ENGINE: "harness.build.code"}


_CLIENT = (*CLIENT_SOURCES, "client.python")  # what the official Endpoints client needs


def find_obstacle(
    address: Address,
    locations: Mapping[str, str],
    root: Path,
    distributions: Mapping[str, str] | None,
    round_name: str = "",
) -> Obstacle | None:
    """Return what prevents one action here: for example, its backend is not installed, or its source is not on this
    disk.

    ``distributions``: of the machine that acts, None if unknown. ``round_name``: the spec's; for some rounds no LoadGen
    is available any more.
    """
    backend = locations.get("backend", "")
    code = BENCHMARKS.get(locations.get("benchmark.code", ""))
    if (code is not None and code.elsewhere) or (backend in BACKENDS and BACKENDS[backend].elsewhere):
        fix = f"record a run made elsewhere: reconcile import LOGDIR --cell {address.cell or 'CELL'}"
        return Obstacle("its runs are imported", fix)
    ours = COMMAND not in locations  # a command has its own libraries
    runs = address.is_run
    built = address.kind is Kind.ENGINE and BUILD_COMMAND not in locations
    if distributions is not None and (built or (runs and ours)) and backend in BACKENDS:
        facts = BACKENDS[backend]
        if find_backend_version(backend, dict(distributions)) is None:
            fix = show_install(facts.extra)
            return Obstacle(f"backend {backend} is not installed here", fix)
    if runs and ours and (reason := explain_unavailable(round_name)):
        return Obstacle(reason, IMPORT_ONLY)
    if distributions is not None and runs and ours and "mlcommons-loadgen" not in distributions:
        return Obstacle("LoadGen is not installed here", show_install("cpu"))
    kind = str(address.kind).lower()
    wanted = [locations.get("benchmark.path")]
    if runs and not ours:
        wanted += [locations.get(name) for name in ("harness.code", *_CLIENT)]
    wanted.append(locations.get(_CODE_OF.get(address.kind, "")))
    if address.kind in (Kind.MODEL, Kind.DATASET):
        wanted.append(locations.get(f"{kind}.path"))
    for path in wanted:
        if path and not (root / path).exists():
            if name := find_variable(path):
                fix = f"export {name}=/path/to/it, or write the path in the spec"
                return Obstacle(f"the environment variable {name} for {path} is not set", fix)
            places = locations.get(f"{kind}.looked_for", "")
            if address.kind in (Kind.MODEL, Kind.DATASET) and path in places.split(", "):
                return _explain_scratch(address, kind, places, locations)
            return Obstacle(f"{path} is not on this machine", "copy the file here, or fix the path in the spec")
    if (found := _find_absent_need(address, locations, root)) is not None:
        return found
    loads = address.kind in _LOADS_BENCHMARK and (ours or not runs) and "benchmark.path" not in locations
    absent = find_missing_libraries(code, distributions) if loads and code and distributions is not None else []
    if code is not None and absent:
        name = locations["benchmark.code"]
        return Obstacle(
            f"{', '.join(absent)} of benchmark {name} {'is' if len(absent) == 1 else 'are'} not installed here",
            show_install(code.installed_by),
        )
    return None


def _find_absent_need(address: Address, locations: Mapping[str, str], root: Path) -> Obstacle | None:
    """Return an obstacle if the code's folder is not the one that its adapter's commands were written for."""
    name = "needs.command" if address.is_run else "needs.score" if address.kind is Kind.SCORE else ""
    code = locations.get("harness.code", "")
    for path in locations.get(name, "").splitlines() if code and (root / code).exists() else ():
        if not has_path(root / code, path):
            fix = f"set harness.code to the folder that has {path}: {locations['needs.code']}"
            return Obstacle(f"{code}/{path} is missing, which the adapter's command needs", fix)
    return None


def find_wrong_loadgen(
    desired: Desired, address: Address, carried: Callable[[], UserConf | None], installed: Mapping[str, str] | None
) -> Obstacle | None:
    """Return an obstacle if this interpreter's LoadGen, with the configuration ``carried``, is another round's, or if
    the one ``installed`` where the system runs cannot do what is requested. The LoadGen of a command or of another
    interpreter is unknown here; compliance tests have their own seeds, and follow their run."""
    detail, submission = desired.detail(address), desired.submission
    system = submission.systems.get(detail.locations.get("system", ""))
    drives_loadgen = address.is_run and detail.settings.results == USUAL and COMMAND not in detail.locations
    if system is None or not drives_loadgen:
        return None
    values, fix = detail.collect_values(), explain_install(submission.round)
    if missing := explain_missing_settings(values, str(values["mode"]), (installed or {}).get("mlcommons-loadgen", "")):
        return Obstacle(missing, fix)
    conf = carried() if system.runs_here and not system.launcher.python else None
    if conf is None or address.kind is not Kind.RUN:
        return None
    if find_other_seeds(values, conf):
        of = f"the seeds of round {submission.round}"
        return Obstacle(f"the installed LoadGen does not have {of}: its runs would be rejected", fix)
    built_in = detail.rules.built_in if detail.rules is not None else {}
    left = {name: value for name, value in built_in.items() if values.get(name) == value}
    if others := find_other_settings(values, left, conf):
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        return Obstacle(f"the installed LoadGen is not from round {submission.round}: {others[0]}{more}", fix)
    return None


def find_wrong_source(
    kind: Kind, location: str, declared: object, root: Path, digest: Callable[[Path], str | None]
) -> Obstacle | None:
    """Return an obstacle if the file or folder at ``location`` does not have the digest that the spec declares."""
    if not location or not declared:
        return None
    found = digest(root / location)
    if found in (None, declared):
        return None
    name = str(kind).lower()
    fix = f"provide the right file (`reconcile fetch` verifies it), or fix {name}.sha256 in the spec"
    return Obstacle(f"{location} has the sha256 {found}, but the spec declares {declared}", fix)


def _explain_scratch(address: Address, kind: str, places: str, locations: Mapping[str, str]) -> Obstacle:
    """Explain that no path was declared, and that the scratch space has none of those that the guides use."""
    from reconciler.rules.benchmark_files import find_benchmark_files

    files = find_benchmark_files(locations.get("benchmark.code", address.name))
    name = files.name if files else address.name
    fix = (
        f"`reconcile fetch {name}` downloads it or shows how; or export MLPERF_SCRATCH_PATH=DIR, or set "
        f"{kind}.path in the spec"
    )
    return Obstacle(f"the {kind} was not found in the scratch space: {places}", fix)
