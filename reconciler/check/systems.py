"""Rules for systems/<system>.json (submission checker: system check)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reconciler.check.demands import NEW, OLD, OURS, Complaints
from reconciler.resource.ruled_values import SystemField
from reconciler.resource.rules import Severity, rule
from reconciler.rules.nameplate import CAPACITY, compute_capacity
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.documents import ResultDocument, parse_yaml_mapping
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import read_file
from reconciler.tree.reading.places import SubmitterPlace
from reconciler.tree.reading.system import SystemFile
from reconciler.tree.reading.values import show_value

_CHECK = f"{NEW}: system check"


class SystemView(Struct, frozen=True, dict=True):
    submitter: SubmitterPlace
    system: SystemFile
    ruleset: Ruleset


@rule("system.missing", "every system is described", sources=(_CHECK, OLD))
def check_described(view: SystemView) -> Complaints:
    """systems/ has a file for each system with results."""
    if view.system.read.absent:
        yield Complaint(
            Place(view.system.read.file),
            "missing",
            f"a description of the system results/{view.system.name}",
            cause="the folder under results/ and the description have different names",
        )


@rule("system.readable", "the description is a JSON object", sources=(_CHECK, OURS))
def check_readable(view: SystemView) -> Complaints:
    """The description of a system parses as a JSON object."""
    read = view.system.read
    if read.problem:
        yield Complaint(Place(read.file, read.line), read.problem, "a JSON object", mechanism="unreadable")


@rule("system.fields", "the mandatory fields", sources=(_CHECK, OLD))
def check_fields(view: SystemView) -> Complaints:
    """Each mandatory field is present and not empty; counts are whole numbers, and fields with fixed values have one of
    them."""
    document = view.system.read.value
    if document is None:
        return
    for field in view.ruleset.system_fields:
        found = _explain_wrong(field, document)
        place = Place(view.system.read.file, view.system.get_line(field.name))
        if found:
            yield Complaint(place, *found)
        elif field.integer and not str(document.get(field.name)).strip().isdecimal():
            bound = view.ruleset.binds(view.submitter.division, "whole_numbers")
            said = f"{field.name} is {show_value(document.get(field.name))}"
            yield Complaint(place, said, "a whole number as text", severity=None if bound else Severity.WARNING)


def _explain_wrong(field: SystemField, document: ResultDocument) -> tuple[str, str] | None:
    if field.name not in document.values:
        return f"no field {field.name}", "a value" if field.filled else "the field, empty or not"
    found = document.get(field.name)
    if field.filled and not found:
        return f"{field.name} is {show_value(found) or 'empty'}", "a value, as text: the number 0 counts as empty"
    if field.one_of and not _is_allowed(field, found):
        return f"{field.name} is {show_value(found)}", f"one of {', '.join(field.one_of)}"
    return None


def _is_allowed(field: SystemField, found: Any) -> bool:
    """Compare the status in any case, and the system type exactly (submission checker: system check)."""
    if not isinstance(found, str):
        return False
    return found in field.one_of or (field.name != "system_type" and found.lower() in field.one_of)


@rule("system.names", "division and submitter are the folders'", sources=(_CHECK, OLD))
def check_names(view: SystemView) -> Complaints:
    """division and submitter match the folder names."""
    for field, folder in (("division", view.submitter.division), ("submitter", view.submitter.submitter)):
        found = view.system.read.value.get(field) if view.system.read.value else None
        if not found:
            continue  # another rule reports missing and empty fields
        place = Place(view.system.read.file, view.system.get_line(field))
        exact = field == "division"
        if str(found).lower() != folder.lower() or (exact and found != folder):
            yield Complaint(place, f"{field} is {show_value(found)}", f"{folder}, as the folder is named")


@rule("system.network", "the network division's fields", sources=(_CHECK, OLD))
def check_network(view: SystemView) -> Complaints:
    """Systems in the network division set is_network and describe the network; closed systems omit it. From v6.0 on, a
    description with this field must describe the network, whatever its value."""
    document = view.system.read.value
    if document is None:
        return
    place = Place(view.system.read.file, view.system.get_line("is_network"))
    division, found = view.submitter.division, document.get("is_network")
    said = f"is_network is {show_value(found)}"
    is_network = isinstance(found, str) and found.lower() == "true"
    if (
        division != "network"
        and "is_network" in document.values
        and (not isinstance(found, str) or division == "closed")
    ):
        yield Complaint(place, said, "no such field outside the network division", fix="remove the field")
    elif division == "network" or is_network or (found and view.ruleset.binds(division, "network_fields")):
        absent = [name for name in view.ruleset.network.fields if not document.get(name)]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            yield Complaint(place, f"no field {absent[0]}{more}", "every field that describes the network")
        elif division == "network" and not is_network:
            yield Complaint(place, said, '"true" in the network division')


@rule("system.nameplate", "the capacity of the power supplies", sources=(_CHECK,))
def check_nameplate(view: SystemView) -> Complaints:
    """If power was measured, the capacity of the power supplies is stated, in the system's description or in a file."""
    document, name = view.system.read.value, view.system.name
    measured = any((view.submitter.path / "results" / name).glob("*/*/performance/power"))
    if CAPACITY not in view.ruleset.power_fields or not measured or document is None or CAPACITY in document.values:
        return
    file = f"systems/{name}_power.yaml"
    read = read_file(f"{view.submitter.path}/{file}", f"{view.submitter.shown}/{file}", parse_yaml_mapping)
    if read.absent:
        wanted = f"the capacity of the power supplies, here or as {CAPACITY} of systems/{name}.json"
        yield Complaint(Place(read.file), "missing", wanted, severity=Severity.WARNING)
    elif read.value is None:
        yield Complaint(Place(read.file, read.line), read.problem, "a YAML mapping of components")
    else:
        yield from _judge_nameplate(Place(read.file), read.value)


def _judge_nameplate(place: Place, document: ResultDocument) -> Complaints:
    """The checker ignores a component that does not follow the template, or stops at it."""
    try:
        capacity = compute_capacity(document.values)
    except ValueError as error:
        yield Complaint(place, str(error), "PSUs with PowerCapacityWatts, and how many of them are needed")
        return
    if not capacity:
        found = "no component with PSUs and Min PSUs Needed"
        yield Complaint(place, found, "at least one, as in the template", severity=Severity.WARNING)


SYSTEM_RULES = (check_described, check_readable, check_fields, check_names, check_network, check_nameplate)
