"""Find contradictions in every cell of a tree, then across cells, with one cell's logs in memory at a time."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.check.cell_formats import read_facts
from reconciler.check.demands import OURS
from reconciler.check.engine import LevelRules, TreeWalk, make_report
from reconciler.loadgen import keys
from reconciler.loadgen.log import find_fingerprints
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Premise, Rule, Severity, question, rule
from reconciler.rules.programs import find_program_of_tree
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import hash_bytes
from reconciler.tree.findings import Complaint, Facts, Gap, Place, TreeFinding, TreeReport
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.unreadable_folders import collect_closed_folders
from reconciler.tree.reading.values import find_at
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import About, compare_cells
from reconciler.verify.cell_rules import choose_cell_rules, list_cell_rules, verify_cell
from reconciler.verify.conf import read_conf, read_target
from reconciler.verify.cross_cell import (
    PublishedLogs,
    Span,
    StatedHash,
    add_causes,
    list_spans,
    list_stated_hashes,
    verify_copied_logs,
    verify_overlaps,
    verify_stated_hashes,
)
from reconciler.verify.runs import NO_COMMIT
from reconciler.verify.systems import BENCHMARK_CONTRADICTIONS, ROUND_QUESTIONS, SYSTEM_CONTRADICTIONS

# All logs of one LoadGen commit state the same version, which is a file in the commit, and the same commit date.

_VERSION, _DATE = keys.LOADGEN_VERSION, keys.LOADGEN_GIT_COMMIT_DATE
_STATED = re.compile(r"(\S{1,40}) @ ([0-9a-f]{10,40})", re.ASCII)
_DIGITS = 10  # length of a commit id as LoadGen prints it
# Git's strict ISO 8601 format, which LoadGen's build requests. A git too old to know the format prints its letters.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", re.ASCII)


class Revision(Struct, frozen=True):
    """The LoadGen that wrote a log. ``stated``: its version and the date of its commit."""

    submitter: str
    cell: str
    commit: str
    stated: tuple[str, str]
    places: tuple[Place, Place]


def list_revisions(view: CellView) -> Iterator[Revision]:
    """List the LoadGen revisions of the logs. Logs without a commit are skipped, such as those of a LoadGen built
    outside a repository."""
    for run in view.list_runs():
        version, date = (run.log.get_plain(key) for key in (_VERSION, _DATE))
        found = _STATED.fullmatch(version) if isinstance(version, str) else None
        if found and isinstance(date, str):
            cell = view.files.submitter.submitter, str(view.cell)
            places = find_at(run.log, _VERSION), find_at(run.log, _DATE)
            yield Revision(*cell, found[2][:_DIGITS], (found[1], date), places)


def _read_instant(date: str) -> str:
    """Read a date of git, which writes UTC as Z or as +00:00, depending on its version."""
    return f"{date.removesuffix('Z')}+00:00" if date.endswith("Z") else date


@rule(
    "runs.revision",
    "one LoadGen commit with different dates or versions",
    sources=("LoadGen", OURS),
    cause="revision",
    premises=(Premise("Both logs state a date in git's format."),),
)
def verify_revisions(revisions: Iterable[Revision]) -> Iterator[tuple[About, Complaint]]:
    """A commit has one date, no matter where LoadGen was built: the 6,455 logs of v4.1 and v5.1 name 43 commits, each
    with one date and one version. Values that are not dates are not compared, because a git that does not know the
    format prints its letters. If two dates are equally frequent, the first counts as right. A different version is a
    warning, because it is read from a file that may change without a commit. Logs without a commit are skipped."""
    commits: dict[str, list[Revision]] = {}
    for revision in revisions:
        commits.setdefault(revision.commit, []).append(revision)
    for commit, same in commits.items():
        for part, (name, severity) in enumerate((("version", Severity.WARNING), ("date", None))):
            named = [
                revision for revision in same if part == 0 or _INSTANT.fullmatch(_read_instant(revision.stated[1]))
            ]
            if not named:
                continue
            counts = Counter(_read_instant(revision.stated[part]) for revision in named)
            (usual, count), *others = counts.most_common()
            model = next(revision for revision in named if _read_instant(revision.stated[part]) == usual)
            for revision in named if others else ():
                if _read_instant(revision.stated[part]) != usual:
                    logs = "another log" if count == 1 else f"{count} other logs"
                    complaint = Complaint(
                        revision.places[part],
                        f"{name} {revision.stated[part]} of LoadGen's commit {commit}",
                        f"{usual}, as in {logs} of this commit",
                        cause="an edited log, or a LoadGen with edited files or history",
                        other=model.places[part],
                        severity=severity,
                    )
                    yield About(revision.submitter, revision.cell), complaint


# LoadGen logs the digest of each of its source files, which is the same for one commit wherever it was built.

_KEY = keys.LOADGEN_FILE_SHA1
_SUFFIXES = (".cc", ".h")
_WRITTEN = ("build/", "version.cc", "version_generated.cc")  # written by the build itself
_SHOWN = 3
_UNKNOWN = f" @ {NO_COMMIT}"  # any commit of a version


class LoadGenBuild(Struct, frozen=True):
    """The LoadGen of a performance run. ``sources``: (file, SHA-1) of each compiled file."""

    submitter: str
    cell: str
    version: str
    sources: frozenset[tuple[str, str]]
    place: Place


def list_builds(view: CellView) -> Iterator[LoadGenBuild]:
    """List the build of LoadGen in the performance log; none if the log does not state it."""
    run = view.performance
    logged = run.log.get(_KEY) if run is not None else None
    if run is None or not isinstance(logged, dict) or not run.log.version or run.log.version.endswith(_UNKNOWN):
        return
    sources = _list_compiled(tuple((str(name), str(digest)) for name, digest in logged.items()))
    if sources:
        cell = view.files.submitter.submitter, str(view.cell)
        yield LoadGenBuild(*cell, run.log.version, sources, find_at(run.log, _KEY))


@functools.lru_cache(maxsize=32)  # a round's logs come from a few builds
def _list_compiled(sources: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    compiled = (item for item in sources if item[0].endswith(_SUFFIXES))
    return frozenset(item for item in compiled if not any(part in item[0] for part in _WRITTEN))


@question("runs.sources", "why do LoadGen's sources differ from those of other builds of its commit?", sources=(OURS,))
def verify_sources(builds: Iterable[LoadGenBuild]) -> Iterator[tuple[About, Complaint]]:
    """LoadGen logs the SHA-1 of each of its files. The digest of a compiled file differs from that of most results with
    the same commit. A question, because a generated header may differ for many reasons."""
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
                wanted = f"the same sources as {count} other results of this commit"
                yield About(build.submitter, build.cell), Complaint(build.place, found, wanted, other=model.place)


def list_rules() -> tuple[Rule, ...]:
    """Return all rules about contradictions, in the order of the findings."""
    per_place = (ROUND_QUESTIONS, SYSTEM_CONTRADICTIONS, BENCHMARK_CONTRADICTIONS)
    rules = [rule for table in per_place for rule, _ in table]
    rules += [rule for cell in list_cell_rules() for rule, _ in cell.rules]
    rules += [each.rule for each in (verify_copied_logs, verify_overlaps, verify_sources, verify_revisions)]
    return tuple(dict.fromkeys(rules))


def verify_tree(
    path: Path, *, round_name: str = "", original: FindOriginal | None = None, progress: Progress | None = None
) -> TreeReport:
    """Find all contradictions in the tree at, below or around a path, including other programs' trees. Raises
    ReconcilerError if there is no tree.

    ``round_name``: "" to recognise the round.
    """
    with collect_closed_folders() as closed:
        if (program := find_program_of_tree(path)) is not None:
            report: TreeReport = program.verify(path)
            return report
        return _verify(survey_tree(path, round_name, original), path, closed, progress)


def _verify(surveys: tuple[Survey, ...], path: Path, closed: set[Path], progress: Progress | None) -> TreeReport:
    pairs = frozenset((rule.scenario, rule.measured) for item in surveys for rule in item.ruleset.inferences)
    known = all(item.ruleset.is_known for item in surveys)
    memory = _Memory(PublishedLogs(inferable=pairs if known else None))
    rules = LevelRules(verify_cell, ROUND_QUESTIONS, system=SYSTEM_CONTRADICTIONS, benchmark=BENCHMARK_CONTRADICTIONS)
    walk = TreeWalk(rules, memory.add, progress=progress)
    with pause_collector():
        found = walk.find(surveys)
    found += compare_cells(verify_copied_logs, memory.logs)
    found += compare_cells(verify_stated_hashes, memory.hashes)
    found += compare_cells(verify_overlaps, memory.spans)
    found += compare_cells(verify_sources, memory.builds)
    found += compare_cells(verify_revisions, memory.revisions)
    facts = memory.logs.facts
    report = make_report(surveys, path, closed, facts, add_causes(found, facts))
    return replace(report, findings=fold_systemic(report.findings, facts), gaps=tuple(memory.gaps))


class _Memory(Struct):
    """Facts about each cell for the comparison across cells, and missing files."""

    logs: PublishedLogs
    gaps: list[Gap] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    builds: list[LoadGenBuild] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    hashes: list[StatedHash] = field(default_factory=list)

    def add(self, view: CellView) -> None:
        self.logs.facts.append(_collect_facts(view))
        self.gaps += choose_cell_rules(view).find_gaps(view)
        self.spans += list_spans(view)
        self.builds += list_builds(view)
        self.revisions += list_revisions(view)
        self.hashes += list_stated_hashes(view)
        result = view.files.submitter.submitter, str(view.cell)
        self.logs.machines[result] = view.system.entry
        for run in view.files.list_runs():
            self.logs.files[*result, run.name] = f"{run.folder.shown}/{DETAIL}"
        for read in view.list_runs():
            self.logs.fingerprints[*result, read.name] = read.log.compute_once(find_fingerprints)


def _collect_facts(view: CellView) -> Facts:
    setting, target = read_target(read_conf(view)), None
    if setting is not None:
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            target = float(setting.value)
    facts = read_facts(view, target)
    facts = replace(facts, digests=tuple(each for each in facts.digests if not view.is_foreign(each[0])))
    conf = view.files.user_conf_text
    return replace(facts, digests=(*facts.digests, ("user.conf", hash_bytes(conf)))) if conf else facts


# Findings of one kind that are too frequent to be submitters' mistakes: one question about the round, tool or machine
# that they share.

_PART = 20  # 1 in this many; a kind found in a larger share of a round's results is folded
_FEWEST = 5  # results; fewer may share a mistake by chance or because of one person

Result = tuple[str, str]  # submitter, cell


class _Group(Struct):
    """Findings of one kind and the affected results."""

    findings: list[TreeFinding] = field(default_factory=list)
    results: set[Result] = field(default_factory=set)

    @property
    def submitters(self) -> set[str]:
        return {submitter for submitter, _ in self.results}


def fold_systemic(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> tuple[TreeFinding, ...]:
    """Replace findings that share a cause by one question with these findings as members. All findings of a kind are
    replaced if they affect more than a twentieth of a round's results and several submitters, or every result of a
    submitter with several, or several results of a submitter with a common explanation. A rule with a proof is replaced
    only for the last reason, since its findings are true no matter how frequent they are. Questions are never
    replaced."""
    found = tuple(findings)
    of_round, of_submitter = _list_results(facts, "round"), _list_results(facts, "submitter")
    results = {
        id(finding): _list_about(finding, of_submitter.get(finding.submitter, ()))
        for finding in found
        if not finding.rule.proof and finding.rule.severity is not Severity.NOTE
    }
    folded: dict[int, TreeFinding] = {}
    for name, own in of_submitter.items():
        explained = [finding for finding in found if finding.complaint.common and not finding.complaint.doubt]
        about = {id(finding): _list_about(finding, own) for finding in explained}
        for group in _group_by_kind(explained, about, folded, own):
            if len(group.results) >= _FEWEST:
                common = group.findings[0].complaint.common
                _fold(group, len(own), name, name, folded, common)
    for name, own in of_round.items():
        for group in _group_by_kind(found, results, folded, own):
            if len(group.results) * _PART > len(own) and len(group.results) >= _FEWEST and len(group.submitters) > 1:
                _fold(group, len(own), name, "", folded)
    for name, own in of_submitter.items():
        for group in _group_by_kind(found, results, folded, own):
            if len(group.results) == len(own) >= _FEWEST:
                _fold(group, len(own), name, name, folded)
    # Each question once, in the position of its first member.
    kept = (folded.get(id(finding), finding) for finding in found)
    return tuple({id(finding): finding for finding in kept}.values())


def _list_results(facts: Sequence[Facts], by: str) -> dict[str, dict[Result, None]]:
    found: dict[str, dict[Result, None]] = {}
    for item in facts:
        found.setdefault(getattr(item, by), {})[item.submitter, item.cell] = None
    return found


def _list_about(finding: TreeFinding, own: Iterable[Result]) -> list[Result]:
    """Return the results that a finding affects: one, or all of its system or benchmark."""
    result = finding.submitter, finding.cell
    return [result] if result in own else [each for each in own if each[1].startswith(f"{finding.cell}/")]


def _group_by_kind(
    found: Sequence[TreeFinding],
    results: dict[int, list[Result]],
    folded: dict[int, TreeFinding],
    own: dict[Result, None],
) -> Iterable[_Group]:
    """Group the remaining findings that affect a round's or a submitter's results. Doubtful ones are grouped
    separately."""
    groups: dict[tuple[str, str, bool, str], _Group] = {}
    for finding in found:
        about = [] if id(finding) in folded else [each for each in results.get(id(finding), ()) if each in own]
        if about:
            complaint = finding.complaint
            kind = finding.rule.id, complaint.aspect, bool(complaint.doubt), complaint.common
            group = groups.setdefault(kind, _Group())
            group.findings.append(finding)
            group.results.update(about)
    return groups.values()


def _fold(
    group: _Group, results: int, of: str, submitter: str, folded: dict[int, TreeFinding], common: str = ""
) -> None:
    """``results``: of the round or submitter ``of``."""
    first = group.findings[0]
    cells = list(
        dict.fromkeys(f"{'' if submitter else item.submitter} {item.cell}".lstrip() for item in group.findings)
    )
    more = f" and {len(cells) - _SHOWN:,} more" if len(cells) > _SHOWN else ""
    share = "all" if len(group.results) == results else f"{len(group.results):,} of the"
    count = f"{share} {show_count(results, 'result')} of {of}"
    whose = "these results" if submitter else "results of this round"
    complaint = Complaint(
        first.complaint.place,
        f"{first.complaint.found}, and similarly in {count}: {', '.join(cells[:_SHOWN])}{more}",
        first.complaint.wanted,
        cause=common or f"what {whose} have in common, such as a tool or a machine",
        other=first.complaint.other,
        mechanism=first.complaint.mechanism,
        doubt=f"it was found in {count}, so the cause is probably the round, a tool or a machine",
        aspect=first.complaint.aspect,
    )
    question = TreeFinding(first.rule, submitter, "", complaint, members=tuple(group.findings))
    folded.update((id(finding), question) for finding in group.findings)
