"""Lines that LoadGen writes in every run, or in every run of a kind: where one is not there, what it would have denied
goes unseen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import LOADGEN, Inconsistency, show_value
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import LOADGEN_MODE, PERFORMANCE
from reconciler.resource.rules import rule

_KNOWN = range(
    keys.FIRST_KNOWN_RELEASE, 7
)  # LoadGen's releases whose sources were read: a later one may leave a line out
_RELEASE = re.compile(r"\d*\.\d", re.ASCII)  # how its version begins; that of the first ones ".5a1"


@rule("log.missing-keys", "keys that LoadGen always logs", sources=LOADGEN)
def find_missing_keys(log: DetailLog) -> Iterator[Inconsistency]:
    """Without a condition they are logged by ``StartTest``, ``LoadSamplesToRam`` and ``IssueQueries`` (loadgen.cc),
    ``LogRequestedTestSettings`` and ``LogEffectiveSettings`` (test_settings_internal.cc), ``LogLoadgenVersion``
    (version.cc) and ``PerformanceSummary::LogDetail`` (results.cc), each for the scenarios that are named here."""
    yield from _find_missing_version(log)
    if log.release in _KNOWN:
        for key in log.index.list_absent(_list_keys(log)):
            yield Inconsistency(key, "absent", "LoadGen logs it of every such run", log.length)


def _find_missing_version(log: DetailLog) -> Iterator[Inconsistency]:
    """A line may be missing from the log of an old release, not from one without a release."""
    version = log.find_line(keys.LOADGEN_VERSION)
    if version is None and log.index.structured:
        yield Inconsistency(keys.LOADGEN_VERSION, "absent", "LoadGen logs it of every run", log.length)
    elif version is not None and not _RELEASE.match(str(version.value)):
        yield Inconsistency(keys.LOADGEN_VERSION, show_value(version), "LoadGen's begins with a release", version.line)


def _list_keys(log: DetailLog) -> Iterator[str]:
    timed = log.mode == LOADGEN_MODE[PERFORMANCE]
    return keys.list_required(log.scenario, timed=timed, tokens=log.get(keys.REQUESTED_USE_TOKEN_LATENCIES) is True)
