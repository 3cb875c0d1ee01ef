"""Check the folders and files of a submission. A rule is named ``curve.`` and the official check that fails for the
same reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.tree.content import (
    ACCURACY,
    CONFIG,
    DESCRIPTION,
    DOCUMENTS,
    POINT,
    README,
    RESULTS,
    SOURCES,
    SUMMARY,
)
from reconciler.endpoints.tree.reading import CurveFolder, PointFolder, SubmissionFolder, SystemFolder
from reconciler.resource.rules import Rule, Severity
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import Read, list_files

F = TypeVar("F")
CHECKER, POLICY, OURS = "submission-checker", "policy", "ours"


def make_rule(name: str, title: str, *sources: str, warning: bool = False) -> Rule:
    """Make a rule for curves. ``sources``: by default the official checker and the policy."""
    severity = Severity.WARNING if warning else Severity.ERROR
    return Rule(f"curve.{name}", title, sources or (CHECKER, POLICY), severity)


def complain(
    at: str | Read[ResultDocument] | PointFolder | CurveFolder,
    found: str,
    wanted: str,
    fix: str = "",
    *,
    line: int = 0,
    warning: bool = False,
) -> Complaint:
    """Make a complaint about a file or folder; about a point, it is about its point.yaml. ``warning``: this case is
    milder than its rule."""
    if isinstance(at, PointFolder):
        at = at.point
    if isinstance(at, Read):
        at = at.file
    elif isinstance(at, CurveFolder):
        at = at.shown
    return Complaint(Place(at, line), found, wanted, fix=fix, severity=Severity.WARNING if warning else None)


def describe_mismatch(value: object) -> str:
    """Describe a field's wrong value in words that follow the field's name."""
    if value is None:
        return "is missing"
    return f"is {' '.join(str(value).split())[:60]!r}" if not isinstance(value, (int, Decimal)) else f"is {value}"


Mismatch = tuple[str, str, str]  # name of a field, what is wrong with its value, what is wanted
WHOLE = "a whole number"


class RuledFolder(Struct, Generic[F], frozen=True):
    """A folder with the rules that apply to it."""

    folder: F
    rules: CurveRules


SubmissionView = RuledFolder[SubmissionFolder]
DescribedSystem = RuledFolder[SystemFolder]
CurveView = RuledFolder[CurveFolder]
PointView = RuledFolder[PointFolder]
PointCheck = Callable[[PointView], Iterator[Complaint]]


def check_folders(view: SubmissionView) -> Iterator[Complaint]:
    for name in (RESULTS, DOCUMENTS):
        if not (view.folder.path / name).is_dir():
            yield complain(f"{view.folder.shown}{name}", "no such folder", f"a folder {name}/")


def check_sources(view: SubmissionView) -> Iterator[Complaint]:
    if not view.folder.list_implementations():
        place = f"{view.folder.shown}{SOURCES}"
        yield complain(place, "no implementation", f"a folder {SOURCES}/<implementation>/")


def check_source_readmes(view: SubmissionView) -> Iterator[Complaint]:
    for name in view.folder.list_implementations():
        files = list_files(view.folder.path / SOURCES / name)
        if not any(file.lower() == README.lower() for file in files):
            place = f"{view.folder.shown}{SOURCES}/{name}/{README}"
            yield complain(place, "no such file", "instructions to build the system and to reproduce a point")


def check_models(view: DescribedSystem) -> Iterator[Complaint]:
    if not view.folder.curves:
        yield complain(view.folder.shown, "no model folder", "a folder <model>/ with points r<N>/")


def check_points_there(view: CurveView) -> Iterator[Complaint]:
    if not view.folder.points:
        yield complain(view.folder, "no point folder", "a folder r<N>/ for each concurrency N")


def _require_file(find: Callable[[PointFolder], Read[ResultDocument]], wanted: str) -> PointCheck:
    def check(view: PointView) -> Iterator[Complaint]:
        if (read := find(view.folder)).absent:
            yield complain(read, "no such file", wanted)

    return check


def _require_readable(find: Callable[[PointFolder], Read[ResultDocument]], name: str) -> PointCheck:
    def check(view: PointView) -> Iterator[Complaint]:
        if (read := find(view.folder)).problem:
            yield complain(read, read.problem, f"a readable {name}", line=read.line)

    return check


check_point_file = _require_file(lambda point: point.point, f"the point's {POINT}")
check_point_readable = _require_readable(lambda point: point.point, POINT)
check_summary_file = _require_file(lambda point: point.summary, f"{SUMMARY} as written by the client")
check_description_file = _require_file(lambda point: point.description, "the system's description")
check_description_readable = _require_readable(lambda point: point.description, DESCRIPTION)


def check_config(view: PointView) -> Iterator[Complaint]:
    yield from _require_file(lambda point: point.config, f"{CONFIG} as written by the client")(view)
    yield from _require_readable(lambda point: point.config, CONFIG)(view)


def check_summary_values(view: PointView) -> Iterator[Complaint]:
    if not view.folder.summary.absent:
        yield from complain_unreadable(view.folder, "result-file-valid")


def complain_unreadable(point: PointFolder, rule: str) -> Iterator[Complaint]:
    """Complain about the values that make a run unreadable. ``rule``: the official check that fails."""
    for problem in point.results[1]:
        if problem.rule == rule:
            yield complain(f"{point.shown}/{problem.file}", problem.text, "the file as written by the client")


def check_accuracy_file(view: PointView) -> Iterator[Complaint]:
    for problem in view.folder.scored[1]:
        yield complain(f"{view.folder.shown}/{ACCURACY}", problem.text, "the file as written by the client")


SUBMISSION_RULES = (
    (make_rule("required-dir", "results/ and docs/ exist"), check_folders),
    (make_rule("src-dir", "src/ contains an implementation"), check_sources),
    (make_rule("src-readme", "each implementation documents how to reproduce a point"), check_source_readmes),
)
SYSTEM_RULES = ((make_rule("benchmark-model-dir", "each system has a model"), check_models),)
CURVE_STRUCTURE_RULES = ((make_rule("point-dirs", "each model has points"), check_points_there),)
POINT_STRUCTURE_RULES = (
    (make_rule("measurement-points-present", "each point has its point.yaml"), check_point_file),
    (make_rule("point-config-valid", "point.yaml can be read"), check_point_readable),
    (make_rule("config-file-present", "each point has the client's configuration"), check_config),
    (make_rule("result-summary-present", "each point has its result"), check_summary_file),
    (make_rule("result-file-valid", "the result can be read"), check_summary_values),
    (make_rule("accuracy-valid", "the accuracy results can be read"), check_accuracy_file),
    (make_rule("system-description-present", "each point has its system's description"), check_description_file),
    (make_rule("system-description-valid", "the description can be read"), check_description_readable),
)
