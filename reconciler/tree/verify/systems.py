"""The system description and measurements.json against the folders that they describe. Against logs: ``runs``."""

from __future__ import annotations

import re

from reconciler.mlperf.documents import ResultDocument
from reconciler.resource.records import REHEARSAL
from reconciler.tree.check import systems
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.check.presence import BenchmarkView
from reconciler.tree.check.structure import check_round
from reconciler.tree.check.systems import SystemView
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import show_value
from reconciler.tree.reading.view import CellView

REPEATED = Rule("files.repeated", "which of two values of one name holds?", (OURS,), Severity.NOTE)
# "8xH100", and "H100-80GBx8"; what follows a small letter may be a kind of machine ("gx3").
_COUNT = re.compile(r"(?:^|[-_ (])(\d{1,3})x ?(?=([A-Z][A-Za-z0-9]*))|(?<=[A-Z0-9)])x(\d{1,3})(?=[-_ )]|$)", re.ASCII)
# The same in a text, where lanes, memories and disks are counted, too, and the shape of a slice has an x.
_COUNT_IN_TEXT = re.compile(
    r"(?:^|[-_ (])(\d{1,3})x ?(?!(?:DDR|HBM|NVM|SSD|HDD|PCI|Gen))(?=([A-Z][A-Za-z0-9]*))"
    r"|(?<!PCIE)(?<!PCIe)(?<=[A-Z)])x(\d{1,3})(?=[-_ )]|$)",
    re.ASCII,
)
_NAMED = ("system_name", "accelerator_model_name")


def verify_described(view: SystemView) -> Complaints:
    yield from systems.check_described(view)
    yield from systems.check_readable(view)


def verify_names(view: SystemView) -> Complaints:
    yield from systems.check_names(view)


def verify_accelerators(view: SystemView) -> Complaints:
    """ "8x" in the name of a folder, or in one that the description gives, against the number that it states."""
    stated = view.system.whole("accelerators_per_node")
    nodes = view.system.whole("number_of_nodes")
    document = view.system.read.value
    if stated is None or nodes is None or document is None:
        return
    host = view.system.text("host_processor_model_name").casefold()
    fitting = {stated, stated * nodes, view.system.whole("host_processors_per_node"), nodes}
    names = {"the system's name": view.system.name} | {name: str(document.get(name)) for name in _NAMED}
    for whose, text in names.items():
        counts = (_COUNT if text == view.system.name else _COUNT_IN_TEXT).findall(text)
        named = {int(before or behind) for before, what, behind in counts if not what or what.casefold() not in host}
        if named and not named & fitting:
            amount = " or ".join(map(str, sorted(named)))
            yield Complaint(
                Place(view.system.read.file, view.system.line("accelerators_per_node")),
                f"{stated} accelerators per node, {nodes} nodes",
                f"{amount}, as {whose} says",
                cause="a description copied from another system, or a name that counts what was not used",
            )
            return


def verify_category(view: BenchmarkView) -> Complaints:
    """A benchmark that the round does not have for what the description says the system is."""
    if view.submitter.division != "open" and not view.allowed:
        place = Place(view.system.read.file, view.system.line("system_type"))
        found = f"a {view.system.category} system with results of {view.official}"
        wanted = f"a benchmark that {view.ruleset.round} has for {view.system.category}"
        yield Complaint(place, found, wanted, other=view.place)


def verify_retraining(view: CellView) -> Complaints:
    """The closed division allows none (inference rules: benchmark models)."""
    read = view.files.measurements
    said = read.value.get("retraining") if read.value else None
    if view.division == "closed" and isinstance(said, str) and said.strip().lower() in ("yes", "y", "true"):
        place = Place(read.file, read.value.lines.get("retraining", 0) if read.value else 0)
        yield Complaint(place, f"retraining {show_value(said)}", "no retraining in the closed division")


def verify_rehearsal(view: CellView) -> Complaints:
    """What our own renderer writes into the files of a rehearsal, whose dataset may be smaller than the round's."""
    read = view.files.measurements
    if view.rehearsal and read.value:
        place = Place(read.file, read.value.lines.get(REHEARSAL, 0))
        yield Complaint(place, "a rehearsal", "a result", fix="measure it without `rehearsal: true`")


def verify_stated_once(view: SystemView) -> Complaints:
    yield from ask_repeated(view.system.read)


def verify_measurements_once(view: CellView) -> Complaints:
    yield from ask_repeated(view.files.measurements)


def ask_repeated(read: Read[ResultDocument]) -> Complaints:
    """JSON does not say which of two values of one name holds; programs take the last, and people read the first."""
    for name, first, last in read.value.repeated if read.value else ():
        place = Place(read.file, read.value.lines.get(name, 0) if read.value else 0)
        yield Complaint(
            place, f"{name} {show_value(first)}", f"{show_value(last)}, which the same file states behind it"
        )


ROUND_QUESTIONS = (
    (Rule("tree.round", "which round is it, whose rules are not here?", (OURS,), Severity.NOTE), check_round),
)
SYSTEM_CONTRADICTIONS = (
    (Rule("system.description", "every system is described", (OURS,)), verify_described),
    (Rule("system.names", "division and submitter are the folders'", ("submission checker", OURS)), verify_names),
    (
        Rule(
            "system.accelerators",
            "why does the name count otherwise?",
            (OURS,),
            Severity.NOTE,
        ),
        verify_accelerators,
    ),
    (REPEATED, verify_stated_once),
)
BENCHMARK_CONTRADICTIONS = (
    (Rule("system.category", "results that the system's type cannot have", ("submission checker",)), verify_category),
)
MEASUREMENTS_CONTRADICTIONS = (
    (
        Rule("measurements.retraining", "retraining in the closed division", ("inference rules",), Severity.WARNING),
        verify_retraining,
    ),
    (
        Rule("measurements.rehearsal", "it says that it is a rehearsal", (OURS,), Severity.WARNING),
        verify_rehearsal,
    ),
    (REPEATED, verify_measurements_once),
)
