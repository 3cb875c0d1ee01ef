"""Content of the folder of an Endpoints submission: values, and references to stored bytes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.tree.content import Content, Files

DEDICATED, ELECTED = "dedicated", "elected"
PENDING = "pending-submission-id"  # until MLCommons assigns one


class PointFacts(Struct, frozen=True):
    """Facts of a point for its files other than the client's own. ``own_accuracy``: its accuracy is that of this point,
    not of the one that counts for its region. ``scores``: the accuracy of an agentic point's runs. ``disclosed``:
    fields of point.yaml that the spec states. ``nodes``: engaged nodes, by type; ``min_concurrency``: as declared, 0
    for none; ``shortfall``: (replicas run, replicas that fit, reason) if fewer ran than fit. ``warmup`` and
    ``speculative``: declared fields of point.yaml."""

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
    """Events before a point's run. ``seconds``: from the first request to the start; ``steps``: what the platform did;
    ``logs``: where a reviewer finds them, "" for none; ``retained`` None: follows from the logs and the requests."""

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
        """Describe the warm-up that the client itself did."""
        return cls(issued=requests, data_source="performance dataset, salted", concurrency=concurrency)


class PointContent(Struct, frozen=True, kw_only=True):
    """One r<N> folder. ``config``, ``summary`` and ``accuracy`` are the client's own files, byte for byte. ``offline``:
    "" or how the point counts for Offline. ``deployment``: this point's own fields of system_desc.json, ``disclosed``:
    those of point.yaml, which override the curve's. ``nodes``: nodes engaged, by system_node_ensemble_id.
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
    submission_id: str = PENDING
    code: Mapping[str, Files] = field(default_factory=dict)
    documents: Files = field(default_factory=dict)
