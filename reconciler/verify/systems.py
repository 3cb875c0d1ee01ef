"""Compare the system description and measurements.json with their folders. ``runs`` compares them with logs."""

from __future__ import annotations

import re

from msgspec.structs import replace

from reconciler.check import systems
from reconciler.check.demands import OURS, Complaints, ask_repeated
from reconciler.check.presence import BenchmarkView
from reconciler.check.structure import check_round
from reconciler.check.systems import SystemView
from reconciler.resource.quantities import show_count
from reconciler.resource.records import REHEARSAL
from reconciler.resource.rules import Premise, Severity, applies, question, rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.survey import Survey
from reconciler.tree.reading.values import show_value
from reconciler.tree.reading.view import CellView
from reconciler.verify.premises import ROUND_IS_KNOWN, are_one_name

# "8xH100" and "H100-80GBx8"; after a lower-case letter, x and a number may be a machine type ("gx3").
_COUNT = re.compile(r"(?:^|[-_ (])(\d{1,3})x ?(?=([A-Z][A-Za-z0-9]*))|(?<=[A-Z0-9)])x(\d{1,3})(?=[-_ )]|$)", re.ASCII)
# The same in a text, which may also count lanes, memories and disks, and has an x in the names of slices.
_COUNT_IN_TEXT = re.compile(
    r"(?:^|[-_ (])(\d{1,3})x ?(?!(?:DDR|HBM|NVM|SSD|HDD|PCI|Gen))(?=([A-Z][A-Za-z0-9]*))"
    r"|(?<!PCIE)(?<!PCIe)(?<=[A-Z)])x(\d{1,3})(?=[-_ )]|$)",
    re.ASCII,
)
_NAMED = ("system_name", "accelerator_model_name")


def _doubt_absence(_: Complaint, view: SystemView) -> str:
    known = (view.submitter.path / "systems").is_dir()
    return "" if known else "this copy has no folder of descriptions: it may be only part of a submission"


@rule(
    "system.description",
    "a system without a description",
    sources=(OURS,),
    cause="description",
    premises=(Premise("The submitter's folder of descriptions is in this copy of the tree.", _doubt_absence),),
)
def verify_described(view: SystemView) -> Complaints:
    """A system with results has no description, or its description cannot be parsed."""
    yield from systems.check_described(view)
    yield from systems.check_readable(view)


@rule(
    "system.names",
    "a description of another submitter or division",
    sources=("submission checker", OURS),
    cause="description",
    premises=(Premise("The two names are not spellings of one name."),),
)
def verify_names(view: SystemView) -> Complaints:
    """The description states another submitter or division than its folder. It is a question if the names may be the
    same: they are equal except for case, spaces and punctuation, or one begins with the other."""
    document, folder = view.system.read.value, view.submitter
    for item in systems.check_names(view):
        name, own = (
            ("submitter", folder.submitter) if item.found.startswith("submitter") else ("division", folder.division)
        )
        spelt = document is not None and are_one_name(str(document.get(name)), own)
        yield replace(item, doubt="both may be spellings of one name" if spelt else "")


@question("system.accelerators", "why does the system's name state another count?", sources=(OURS,))
def verify_accelerators(view: SystemView) -> Complaints:
    """A name contains "4x" or "H100x4", but the description has another count. A question. In v4.1, v5.1 and v6.0, the
    description matches for all 125 names of the second form and for all 147 counts in a ``system_name`` or
    ``accelerator_model_name``."""
    stated = view.system.get_count("accelerators_per_node")
    nodes = view.system.get_count("number_of_nodes")
    document = view.system.read.value
    if stated is None or nodes is None or document is None:
        return
    host = view.system.get_text("host_processor_model_name").casefold()
    fitting = {stated, stated * nodes, view.system.get_count("host_processors_per_node"), nodes}
    names = {"the system's name": view.system.name} | {name: str(document.get(name)) for name in _NAMED}
    for whose, text in names.items():
        counts = (_COUNT if text == view.system.name else _COUNT_IN_TEXT).findall(text)
        named = {int(before or behind) for before, what, behind in counts if not what or what.casefold() not in host}
        if named and not named & fitting:
            amount = " or ".join(map(str, sorted(named)))
            yield Complaint(
                Place(view.system.read.file, view.system.get_line("accelerators_per_node")),
                f"{show_count(stated, 'accelerator')} per node, {show_count(nodes, 'node')}",
                f"{amount}, as {whose} says",
                cause="a description copied from another system, or a name that counts unused accelerators",
            )
            return


@rule(
    "system.category",
    "a benchmark that the system's type does not have",
    sources=("submission checker",),
    cause="category",
    premises=(ROUND_IS_KNOWN,),
)
def verify_category(view: BenchmarkView) -> Complaints:
    """The round does not have this benchmark for the system's type."""
    if view.submitter.division != "open" and not view.allowed:
        place = Place(view.system.read.file, view.system.get_line("system_type"))
        found = f"a {view.system.category} system with results of {view.official}"
        wanted = f"a benchmark of {view.ruleset.round} for {view.system.category} systems"
        yield Complaint(place, found, wanted, other=view.place)


@rule(
    "measurements.retraining",
    "retraining in the closed division",
    sources=("inference rules",),
    cause="category",
    severity=Severity.WARNING,
)
def verify_retraining(view: CellView) -> Complaints:
    """The file states retraining, which the closed division does not allow."""
    read = view.files.measurements
    said = read.value.get("retraining") if read.value else None
    if view.division == "closed" and isinstance(said, str) and said.strip().lower() in ("yes", "y", "true"):
        place = Place(read.file, read.value.lines.get("retraining", 0) if read.value else 0)
        yield Complaint(place, f"retraining {show_value(said)}", "no retraining in the closed division")


@rule(
    "measurements.rehearsal",
    "a rehearsal",
    sources=(OURS,),
    cause="rehearsal",
    severity=Severity.WARNING,
)
def verify_rehearsal(view: CellView) -> Complaints:
    """The file is marked as a rehearsal. This project writes ``rehearsal`` into each cell with records of a rehearsal,
    whose dataset may be smaller than the round's."""
    read = view.files.measurements
    if view.rehearsal and read.value:
        place = Place(read.file, read.value.lines.get(REHEARSAL, 0))
        yield Complaint(place, "a rehearsal", "a result", fix="measure without `rehearsal: true`")


@applies(ask_repeated.rule)
def verify_stated_once(view: SystemView) -> Complaints:
    yield from ask_repeated(view.system.read)


@applies(ask_repeated.rule)
def verify_measurements_once(view: CellView) -> Complaints:
    yield from ask_repeated(view.files.measurements)


@question("tree.round", "which round is it? Its rules are unknown", sources=(OURS,))
def ask_round(tree: Survey) -> Complaints:
    """The round was recognised, but its rules are not available, so only rules for all rounds were checked. A
    question."""
    yield from check_round(tree)


ROUND_QUESTIONS = (ask_round,)
SYSTEM_CONTRADICTIONS = (verify_described, verify_names, verify_accelerators, verify_stated_once)
BENCHMARK_CONTRADICTIONS = (verify_category,)
MEASUREMENTS_CONTRADICTIONS = (verify_retraining, verify_rehearsal, verify_measurements_once)
