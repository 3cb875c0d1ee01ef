"""Layout of an Endpoints submission (rules §8.1), the names of its files, and its content: values, and references to
stored bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.tree.content import Content, Files

POINT, CONFIG, SUMMARY = "point.yaml", "config.yaml", "result_summary.json"
ACCURACY, DESCRIPTION, POWER = "accuracy_results.json", "system_desc.json", "system_power.json"
README, DISCLOSURE = "README.md", "software_disclosure.md"
RESULTS, SOURCES, DOCUMENTS = "results", "src", "docs"

_POINT_FOLDER = re.compile(r"r(\d+)")
_NOT_IN_MODEL = re.compile(r"[^\w-]+")
_LONGEST_MODEL = 64

ROOT = "{submitter}/{submission}"
SOURCE_FILE = f"{ROOT}/{SOURCES}/{{implementation}}/{{file}}"
DOCUMENT_FILE = f"{ROOT}/{DOCUMENTS}/{{file}}"
SYSTEM_FILE = f"{ROOT}/{RESULTS}/{{system}}/{{file}}"
POINT_FILE = f"{ROOT}/{RESULTS}/{{system}}/{{model}}/{{point}}/{{file}}"


def name_point(concurrency: int) -> str:
    return f"r{concurrency}"


def parse_point_name(name: str) -> int | None:
    """Return the concurrency in the name of a point's folder, None for another folder."""
    match = _POINT_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def canonicalise_model(name: str) -> str:
    """Return the model's name for its folder and for point.yaml: without the organisation, and with _ for every
    character other than letters, digits, _ and -."""
    return re.sub("_+", "_", _NOT_IN_MODEL.sub("_", name.rpartition("/")[2].strip())).strip("_")[:_LONGEST_MODEL]


DEDICATED, ELECTED = "dedicated", "elected"
PENDING = "pending-submission-id"  # until MLCommons assigns one


class PointFacts(Struct, frozen=True):
    """Facts of a point for its files other than the client's own. ``own_accuracy``: its accuracy was measured at this
    point, not at the one that counts for its region. ``scores``: the accuracy of an agentic point's runs.
    ``disclosed``: fields of point.yaml and system_desc.json that the spec states. ``nodes``: engaged nodes, by type;
    ``min_concurrency``: as declared, 0 for none; ``shortfall``, ``warmup`` and ``speculative``: declared fields of
    point.yaml, by their names in a spec."""

    measured: MeasuredPoint
    max_concurrency: int
    seed_set: str
    own_accuracy: bool
    scores: bytes | None = None
    disclosed: Mapping[str, object] = field(default_factory=dict)
    min_concurrency: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    shortfall: Mapping[str, object] = field(default_factory=dict)
    warmup: Mapping[str, object] = field(default_factory=dict)
    speculative: Mapping[str, object] = field(default_factory=dict)


class PointContent(Struct, frozen=True, kw_only=True):
    """One r<N> folder. ``config``, ``summary`` and ``accuracy`` are the client's own files, byte for byte. ``offline``:
    "" or how the point counts for Offline. ``nodes``: nodes engaged, by system_node_ensemble_id."""

    facts: PointFacts
    config: Content
    summary: Content
    accuracy: Content | None = None
    offline: str = ""
    nodes: Mapping[int, int] = field(default_factory=dict)

    @property
    def measured(self) -> MeasuredPoint:
        return self.facts.measured


class CurveContent(Struct, frozen=True, kw_only=True):
    """One system's curve of one model. ``model``: the canonical name; ``disclosed``: fields of point.yaml that the spec
    states for all points (model_precision, link_to_model, dataset_name …); ``description``: declared fields of
    system_desc.json, ``power``: of system_power.json. ``implementation``: its folder below src/. ``rehearsal``: these
    runs are not results, and every point says so."""

    system: str
    model: str
    division: str
    max_concurrency: int
    dataset: str
    seed_set: str
    target_cohort: str
    implementation: str
    points: tuple[PointContent, ...]
    disclosed: Mapping[str, object] = field(default_factory=dict)
    description: Mapping[str, object] = field(default_factory=dict)
    power: Mapping[str, object] = field(default_factory=dict)
    min_concurrency: int | None = None
    rehearsal: bool = False


class EndpointsContent(Struct, frozen=True, kw_only=True):
    """All content of one submission. ``code``: {implementation: files of src/<implementation>}; a README.md is added if
    it is missing. ``documents``: files below docs/; software_disclosure.md is added likewise."""

    submitter: str
    curves: tuple[CurveContent, ...]
    code: Mapping[str, Files] = field(default_factory=dict)
    documents: Files = field(default_factory=dict)
