"""LoadGen logs the digest of each of its source files: those of one commit are the same wherever it was built."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.check.demands import OURS
from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.resource.rules import question
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import find_at
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About
from reconciler.verify.runs import NO_COMMIT

_KEY = keys.LOADGEN_FILE_SHA1
_SUFFIXES = (".cc", ".h")
_WRITTEN = ("build/", "version.cc", "version_generated.cc")  # by the build itself
_SHOWN = 3
_UNKNOWN = f" @ {NO_COMMIT}"  # any of the commits of a version


class LoadGenBuild(Struct, frozen=True):
    """The LoadGen of a performance run. ``sources``: (file, SHA-1) of what was compiled."""

    submitter: str
    cell: str
    version: str
    sources: frozenset[tuple[str, str]]
    place: Place


def find_build(view: CellView) -> LoadGenBuild | None:
    """None where no log says."""
    run = view.performance
    try:
        logged = run.log.get(_KEY) if run is not None else None
    except (LogError, ValueError):
        return None
    if run is None or not isinstance(logged, dict) or not run.log.version or run.log.version.endswith(_UNKNOWN):
        return None
    sources = _list_compiled(tuple((str(name), str(digest)) for name, digest in logged.items()))
    place = find_at(run.log, _KEY)
    return (
        LoadGenBuild(view.files.submitter.submitter, str(view.cell), run.log.version, sources, place)
        if sources
        else None
    )


@functools.lru_cache(maxsize=32)  # a round's logs are of a few builds
def _list_compiled(sources: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    compiled = (item for item in sources if item[0].endswith(_SUFFIXES))
    return frozenset(item for item in compiled if not any(part in item[0] for part in _WRITTEN))


@question("runs.sources", "why do LoadGen's sources differ from others of its commit?", sources=(OURS,))
def verify_sources(builds: Iterable[LoadGenBuild]) -> Iterator[tuple[About, Complaint]]:
    """LoadGen logs the SHA-1 of each of its files, and one of those that are compiled is not the one of most results of
    the same commit. A generated header may differ for many reasons: a question.
    """
    by_version: dict[str, list[LoadGenBuild]] = {}
    for build in builds:
        by_version.setdefault(build.version, []).append(build)
    for version, same in by_version.items():
        (usual, count), *others = Counter(build.sources for build in same).most_common(2)
        if not others or others[0][1] == count:
            continue
        model = next(build for build in same if build.sources == usual)
        for build in same:
            if build.sources != usual:
                files = sorted({name.lstrip("/") for name, _ in build.sources ^ usual})
                more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
                found = f"LoadGen {version} with another {', '.join(files[:_SHOWN])}{more}"
                wanted = f"the sources of {count} other results of this commit"
                yield About(build.submitter, build.cell), Complaint(build.place, found, wanted, other=model.place)
