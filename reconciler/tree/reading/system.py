"""Files that exist once per submitter: system descriptions and the model mapping."""

from __future__ import annotations

import json
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from reconciler.rules.ruleset import Ruleset, normalise_category
from reconciler.storage.documents import ResultDocument, parse_json_object
from reconciler.storage.files import hash_bytes
from reconciler.tree.reading.files import Read, list_files, read_file
from reconciler.tree.reading.places import SubmitterPlace

_MACHINE_FIELDS = (
    *("number_of_nodes", "host_processors_per_node", "host_processor_model_name"),
    *("accelerators_per_node", "accelerator_model_name", "framework"),
)
_CATEGORIES = ("datacenter", "edge", "datacenter,edge", "edge,datacenter")


class SystemEntry(NamedTuple):
    """Values that identify two entries of the same machine. ``description``: digest of everything but the submitter's
    name."""

    category: str = ""
    machine: tuple[str, ...] = ()
    description: str = ""


class SystemFile(Struct, frozen=True, dict=True):
    """systems/<system>.json."""

    name: str
    read: Read[ResultDocument]

    @cached_property
    def category(self) -> str:
        """Category: datacenter, edge, or both joined by a comma; "" if the description does not state it."""
        found = self.read.value.get("system_type") if self.read.value else None
        return normalise_category(found) if isinstance(found, str) and found in _CATEGORIES else ""

    @property
    def machine(self) -> tuple[str, ...]:
        """Fields that two entries of the same machine share, whatever their names, categories and wording; () without a
        description."""
        said = self.read.value
        found = tuple(str(said.get(name) or "").strip() for name in _MACHINE_FIELDS) if said else ()
        return found if any(found) else ()

    @property
    def entry(self) -> SystemEntry:
        if self.read.value is None:
            return SystemEntry()
        said = {name: value for name, value in self.read.value.values.items() if name != "submitter"}
        digest = hash_bytes(json.dumps(said, sort_keys=True, default=str).encode())
        return SystemEntry(self.category, self.machine, digest)

    def get_text(self, field: str) -> str:
        found = self.read.value.get(field) if self.read.value else None
        return found if isinstance(found, str) else ""

    def get_count(self, field: str) -> int | None:
        """Return a count, which may be written as a number or as text; None for anything else."""
        found = self.read.value.get(field) if self.read.value else None
        if isinstance(found, bool) or not isinstance(found, (int, str)):
            return None
        text = str(found).strip()
        return int(text) if text.isdecimal() and len(text) < 9 else None

    def get_line(self, field: str) -> int:
        return self.read.value.lines.get(field, 0) if self.read.value else 0


class SubmitterFiles(Struct, frozen=True, dict=True):
    """Submitter's files. ``ruleset``: None if the round's demands do not matter."""

    place: SubmitterPlace
    ruleset: Ruleset | None = None

    def binds(self, demand: str) -> bool:
        return self.ruleset is None or self.ruleset.binds(self.place.division, demand)

    def read_system(self, name: str) -> SystemFile:
        file = f"systems/{name}.json"
        return SystemFile(name, read_file(f"{self.place.path}/{file}", f"{self.place.shown}/{file}", parse_json_object))

    @cached_property
    def described(self) -> tuple[str, ...]:
        """Systems that have a description."""
        names = list_files(self.place.path / "systems")
        return tuple(name.removesuffix(".json") for name in names if name.endswith(".json"))

    @cached_property
    def mapping(self) -> Read[ResultDocument]:
        """model_mapping.json; only the open division has one."""
        file = "model_mapping.json"
        if self.place.division != "open":
            return Read(f"{self.place.shown}/{file}")
        return read_file(f"{self.place.path}/{file}", f"{self.place.shown}/{file}", parse_json_object)
