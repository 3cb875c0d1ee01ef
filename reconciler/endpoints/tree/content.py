"""Content of the folder of an Endpoints submission: values, and references to bytes that are in storage."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.tree.content import Content, Files

DEDICATED, ELECTED = "dedicated", "elected"
PENDING = "pending-submission-id"  # until MLCommons assigns one


class PointFacts(Struct, frozen=True):
    """Facts of a point for its files other than the client's own. ``own_accuracy``: its accuracy is of this very point,
    not of the one that counts for its region. ``scores``: of an agentic benchmark, the accuracy of the point's runs.
    ``disclosed``: fields of point.yaml that the spec states. ``nodes``: that it engages, by type; ``min_concurrency``:
    as declared, 0 for none; ``shortfall``: replicas, fitting and reason, where fewer ran than the system has room for.
    ``warmup`` and ``speculative``: of point.yaml what the spec declares of them."""

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


class WarmupContent(Struct, frozen=True, kw_only=True):
    """Events before a point's run. ``seconds`` from the first request to the start; ``steps``: what the platform did;
    ``logs``: where a reviewer finds them, "" for nowhere; ``retained`` None: as the logs and the requests say."""

    seconds: float = 0.0
    issued: int = 0
    completed: int = 0
    data_source: str = "none"
    concurrency: int = 0
    steps: tuple[str, ...] = ()
    logs: str = ""
    retained: bool | None = None

    @classmethod
    def of_client(cls, requests: int, concurrency: int) -> WarmupContent:
        """Make the warm-up that the client itself did."""
        return cls(issued=requests, data_source="performance dataset, salted", concurrency=concurrency)


class PointContent(Struct, frozen=True, kw_only=True):
    """One r<N> folder. ``config``, ``summary`` and ``accuracy`` are the client's own files, byte for byte. ``offline``:
    "" or how the point counts for Offline. ``deployment``: fields of system_desc.json that this point has of its own,
    ``disclosed``: those of point.yaml, over the curve's. ``nodes``: nodes engaged, by system_node_ensemble_id.
    ``shortfall``: (replicas run, replicas that fit, reason)."""

    measured: MeasuredPoint
    config: Content
    summary: Content
    accuracy: Content | None = None
    offline: str = ""
    warmup: WarmupContent = field(default_factory=WarmupContent)
    deployment: Mapping[str, object] = field(default_factory=dict)
    disclosed: Mapping[str, object] = field(default_factory=dict)
    server_configs: Files = field(default_factory=dict)
    nodes: Mapping[int, int] = field(default_factory=dict)
    shortfall: tuple[int, int, str] | None = None
    speculative: Mapping[str, object] = field(default_factory=dict)


class CurveContent(Struct, frozen=True, kw_only=True):
    """One system's curve of one model. ``model``: the canonical name; ``disclosed``: fields of point.yaml that the spec
    states for all points (model_precision, link_to_model, dataset_name …); ``description``: declared fields of
    system_desc.json, ``power`` of system_power.json. ``implementation``: its folder below src/. ``rehearsal``: these
    runs are no result, and every point says so."""

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
    """Everything of one submission. ``code``: {implementation: files of src/<implementation>}; a README.md is added
    where none is given. ``documents``: files below docs/; software_disclosure.md is added likewise."""

    submitter: str
    curves: tuple[CurveContent, ...]
    submission_id: str = PENDING
    code: Mapping[str, Files] = field(default_factory=dict)
    documents: Files = field(default_factory=dict)
