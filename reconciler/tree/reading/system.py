"""What a submitter's folder holds once: system descriptions and the model mapping."""

from __future__ import annotations

import json
import re
from functools import cached_property

from msgspec import Struct

from reconciler.files import hash_bytes
from reconciler.mlperf.documents import ResultDocument, parse_json_object
from reconciler.mlperf.rules.ruleset import Ruleset, normalise_category
from reconciler.tree.reading.files import Read, list_files, read_file
from reconciler.tree.reading.places import SubmitterPlace

_ENTRY_FIELDS = ("system_name", "system_type")  # of the entry, and not of the machine
_CATEGORIES = ("datacenter", "edge", "datacenter,edge", "edge,datacenter")


class SystemFile(Struct, frozen=True, dict=True):
    """systems/<system>.json."""

    name: str
    read: Read[ResultDocument]

    @cached_property
    def category(self) -> str:
        """datacenter, edge, or both joined by a comma; "" when the description does not say."""
        found = self.read.value.get("system_type") if self.read.value else None
        return normalise_category(found) if isinstance(found, str) and found in _CATEGORIES else ""

    @cached_property
    def machine(self) -> str:
        """A digest of the description without the system's name and category, by which two entries of one machine are
        known; "" without a description."""
        if self.read.value is None:
            return ""
        said = {name: value for name, value in self.read.value.values.items() if name not in _ENTRY_FIELDS}
        name = re.compile(rf"(?<![\w-]){re.escape(json.dumps(self.name)[1:-1])}(?![\w-])")  # as in paths of its files
        return hash_bytes(name.sub("", json.dumps(said, sort_keys=True, default=str)).encode())

    def text(self, field: str) -> str:
        found = self.read.value.get(field) if self.read.value else None
        return found if isinstance(found, str) else ""

    def whole(self, field: str) -> int | None:
        """A count, which some write as a number and some as text; None of anything else."""
        found = self.read.value.get(field) if self.read.value else None
        if isinstance(found, bool) or not isinstance(found, (int, str)):
            return None
        text = str(found).strip()
        return int(text) if text.isdecimal() and len(text) < 9 else None

    def line(self, field: str) -> int:
        return self.read.value.lines.get(field, 0) if self.read.value else 0


class SubmitterFiles(Struct, frozen=True, dict=True):
    """``ruleset``: None where nobody asks what the round demands."""

    place: SubmitterPlace
    ruleset: Ruleset | None = None

    def binds(self, demand: str) -> bool:
        return self.ruleset is None or self.ruleset.binds(self.place.division, demand)

    def system(self, name: str) -> SystemFile:
        file = f"systems/{name}.json"
        return SystemFile(name, read_file(f"{self.place.path}/{file}", f"{self.place.shown}/{file}", parse_json_object))

    @cached_property
    def described(self) -> tuple[str, ...]:
        """The systems that have a description."""
        names = list_files(self.place.path / "systems")
        return tuple(name.removesuffix(".json") for name in names if name.endswith(".json"))

    @cached_property
    def mapping(self) -> Read[ResultDocument]:
        """model_mapping.json, which only the open division has."""
        file = "model_mapping.json"
        if self.place.division != "open":
            return Read(f"{self.place.shown}/{file}")
        return read_file(f"{self.place.path}/{file}", f"{self.place.shown}/{file}", parse_json_object)
