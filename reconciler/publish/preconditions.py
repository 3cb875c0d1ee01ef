"""Preconditions of packing: each reason against it, with its cell and the fix. Pure: it takes values and returns
refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct

from reconciler.diff.change import Finding
from reconciler.loadgen.log import DetailLog
from reconciler.resource.conditions import CellStatus, ConditionStatus
from reconciler.resource.decisions import Acceptance, AcceptanceStatus
from reconciler.resource.embargo import make_embargo, show_embargo
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import show_count
from reconciler.resource.records import IMPORTED, QUICK, TRIAL, UNKNOWN, Record
from reconciler.resource.settings import SubmissionSettings
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.files import LOGS, RECORDS
from reconciler.tree.content import SubmissionContent
from reconciler.tree.source import find_unlicensed

# Hosts where a repository may be public; only its owner knows whether it is.
PUBLIC_HOSTS = (
    *("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "huggingface.co", "gitee.com"),
    *("sourceforge.net", "sr.ht"),
)
_INFERRED = "inferred"
_MARKS = {
    "rehearsal": ("it is a rehearsal", "remove `rehearsal: true` from the spec, and run again"),
    TRIAL: ("it is a trial", "run the cell itself: reconcile cell=CELL"),
    QUICK: ("its runs are short", "run it without --quick"),
    "synthetic": ("its data or backend is synthetic", "measure it with a real dataset, model and backend"),
}


class Refusal(Struct, frozen=True, order=True):
    """A reason against packing. ``where``: a cell, a file or a remote."""

    where: str
    reason: str
    fix: str


def find_refused_cells(standings: Iterable[CellStatus], findings: Iterable[Finding]) -> list[Refusal]:
    """Return refusals for cells that are not ready, or that have a mark that a submission must not have."""
    found = []
    for status in standings:
        cell = str(status.cell)
        found += [Refusal(cell, *_MARKS[mark]) for mark in status.marks if mark in _MARKS]
        unknown = [mark.removeprefix(UNKNOWN) for mark in status.marks if mark.startswith(UNKNOWN)]
        if unknown and _INFERRED not in status.marks:  # an inferred result is refused for its source instead
            wanted = " ".join(f"--declare {name}=…" for name in unknown)
            reason = f"not declared for its imported runs: {', '.join(unknown)}"
            found.append(Refusal(cell, reason, f"reconcile import --cell {cell} {wanted}"))
        if status.ready is not ConditionStatus.TRUE:
            last = status.conditions[-1]
            reason = f"it is not ready: {last.cause}{f' ({last.message})' if last.message else ''}"
            found.append(Refusal(cell, reason, "reconcile; if it does not help, see: reconcile why CELL"))
    cells = {str(status.cell) for status in standings}
    for finding in findings:
        if finding.where not in cells and finding.kind == "MissingCell":
            found.append(Refusal(finding.where, finding.message, finding.fix))
    return found


def find_refused_records(
    records: Mapping[Cell, Sequence[tuple[str, Record]]],
    committed: Callable[[str], bool],
    known_spec: Callable[[str, str], bool],
) -> list[Refusal]:
    """Return refusals for records that come from an unknown spec or are not committed. ``committed``: returns whether a
    path's bytes are those in HEAD; ``known_spec``: returns whether any commit has a spec file with these bytes (path,
    blob)."""
    found = set()
    for cell, items in records.items():
        for identity, record in items:
            known = all(known_spec(*item) for item in record.spec.items())
            name = record.address.label if record.address.cell == cell else record.address
            if not known and IMPORTED not in record.marks:
                found.add(Refusal(str(cell), f"{name} was made from an uncommitted spec", _COMMIT_SPEC))
            elif not known:
                found.add(Refusal(str(cell), f"{name} was imported for an uncommitted spec", "commit the spec"))
            paths = [f"{RECORDS}/{identity}.json"]
            paths += [f"{LOGS}/{a.sha256}" for a in record.artifacts if a.place == "logs"]
            if not all(committed(path) for path in paths):
                fix = "commit them: reconcile --commit"
                found.add(Refusal(str(cell), f"the record or logs of {name} are not committed", fix))
    return sorted(found)


_COMMIT_SPEC = (
    "commit that version of the spec; if it is lost, commit the current one and run: reconcile --rerun cell=CELL"
)


def find_refused_acceptances(
    acceptances: Iterable[tuple[str, Acceptance, AcceptanceStatus]], committed: Callable[[str], bool], *, wanted: bool
) -> list[Refusal]:
    """Return refusals for results that count although their inputs differ. They are packed only on request, and never
    because of an uncommitted decision."""
    found = []
    for path, item, status in acceptances:
        if status is not AcceptanceStatus.IN_FORCE:
            continue
        if not committed(path):
            found.append(Refusal(str(item.cell), f"{path} accepts its results, but is not committed", "commit it"))
        if not wanted:
            reason = f"its results are accepted, not measured from this spec (until {item.until}: {item.reason})"
            found.append(Refusal(str(item.cell), reason, "measure it, or pack and list it with --accepted"))
    return found


def find_refused_code(content: SubmissionContent) -> list[Refusal]:
    """Return refusals for published code without a licence."""
    found = []
    for benchmark, files in content.code.items():
        plain = {name: data for name, data in files.items() if isinstance(data, bytes)}
        if names := find_unlicensed(plain):
            reason = f"no licence for {show_count(len(names), 'published file')}, such as {names[0]}"
            fix = "add a LICENSE file to the published folder, or SPDX-License-Identifier lines to the files"
            found.append(Refusal(f"src/{benchmark}", reason, fix))
    return found


def find_refused_inferences(
    content: SubmissionContent, ruleset: Ruleset, log_of: Callable[[Cell], DetailLog]
) -> list[Refusal]:
    """Return refusals for inferred results whose source's log does not contain their inputs."""
    categories = {(system.division, system.name): system.category for system in content.systems}
    found = []
    for item in content.cells:
        source = item.inferred_from
        if source is None or source.scenario == item.cell.scenario:
            continue
        category = categories[item.cell.division, item.cell.system]
        rule = ruleset.find_inference(item.cell.scenario, source.scenario, category)
        if rule is not None and not log_of(item.cell).get(rule.key):
            least = f": it needs {rule.least_queries} queries" if rule.least_queries else ""
            fix = f"raise min_query_count of {source}, or measure {item.cell}"
            found.append(Refusal(str(item.cell), f"the log of {source} has no {rule.key}{least}", fix))
    return found


def find_refused_remotes(
    submission: SubmissionSettings, remotes: Iterable[tuple[str, str]], today: date
) -> list[Refusal]:
    """Return refusals for remotes at public hosts during an embargo; one without ``until`` never ends."""
    embargo = make_embargo(submission)
    if embargo is None or not embargo.is_in_force(today):
        return []
    until = f"until {embargo.until}" if embargo.until else "by embargo"
    found = []
    for name, url in remotes:
        if _find_host(url) not in PUBLIC_HOSTS or embargo.allows(url):
            continue
        reason = f"{show_embargo(url)} is on a public host, but results are under embargo {until}"
        fix = "add it to embargo.allow if it is private, or remove the remote; --despite-embargo packs anyway"
        found.append(Refusal(f"remote {name}", reason, fix))
    return found


def _find_host(url: str) -> str:
    """Return the host in https://host/path, ssh://user@host:port/path and user@host:path; "" for a path on disk."""
    rest = url.partition("://")[2] or (url if "@" in url.partition(":")[0] else "")
    host = rest.partition("/")[0].rpartition("@")[2].partition(":")[0].lower()
    return next((known for known in PUBLIC_HOSTS if host == known or host.endswith(f".{known}")), host)
