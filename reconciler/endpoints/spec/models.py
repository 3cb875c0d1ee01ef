"""Spec fields of MLPerf Endpoints: the client, the endpoint that it loads, and the curve of points."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reconciler.rules.programs import ProgramReference
from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group, Options
from reconciler.spec.quantities import UnfitError, show_quantity
from reconciler.spec.scalars import FieldReader, choose_from, parse_text
from reconciler.spec.settings_models import SettingsGroup

AUTO = "auto"  # points that the rules place
OFFLINE = "offline"  # a dedicated Offline run, instead of electing the point at the maximum
_APIS = ("openai", "openai_completions", "sglang")


def _parse_concurrency(value: Any) -> str:
    """Parse the concurrency of a point, its number of simultaneous requests; ``auto`` for points that the rules place,
    ``offline`` for a dedicated Offline run."""
    written = parse_text(value)
    if not re.fullmatch(r"[1-9][0-9]{0,6}|auto|offline", written, re.ASCII):
        fix = "write numbers such as [1, 8, 40], or 'points: auto'; 'offline' for a dedicated Offline run"
        raise UnfitError(f"{show_quantity(written)} is not a concurrency", fix)
    return written


def _parse_concurrencies(value: Any) -> tuple[int, ...]:
    """Parse the points of a curve, ascending; a single one needs no brackets."""
    written = value if isinstance(value, list) else [value]
    points = [_parse_concurrency(item) for item in written]
    if not points or not all(map(str.isdigit, points)):
        raise UnfitError("accuracy_points must be a list of numbers", "write numbers such as [1, 3, 10, 64]")
    return tuple(sorted(set(map(int, points))))


_Api = Annotated[str | None, choose_from(_APIS, "API of an endpoint")]
_Concurrency = Annotated[
    str, FieldReader(_parse_concurrency, {"type": "string", "pattern": "^([1-9][0-9]*|auto|offline)$"})
]
_Concurrencies = Annotated[
    tuple[int, ...] | None,
    FieldReader(_parse_concurrencies, {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1}),
]


class ClientAccuracy(Group):
    """The accuracy dataset, and how the client scores its answers. Points at which the rules demand accuracy run it
    with their performance run, unsalted and at the same concurrency."""

    dataset: fields.Location = Field(
        None, description="File of the accuracy dataset, relative to the repository; ${NAME} is expanded."
    )
    name: fields.OptionalName = Field(None, description="Name of the dataset in the results; default: accuracy.")
    method: fields.OptionalText = Field(
        None, description="The client's scorer, such as pass_at_1, string_match or rouge (accuracy_config.eval_method)."
    )
    ground_truth: fields.OptionalText = Field(None, description="Column of the expected answers.")
    extractor: fields.OptionalText = Field(
        None, description="The client's extractor of answers, such as identity_extractor."
    )
    columns: Options = Field({}, description="Columns by the client's names, such as {prompt: question}.")
    service: fields.OptionalText = Field(
        None,
        description="Agentic benchmarks, instead of a dataset and a method: address of the client's SWE-bench"
        " service, such as http://scorer:18080. It must reach the endpoint. Not part of any key.",
    )
    extras: Options = Field(
        {},
        description="Agentic benchmarks: more settings of the SWE-bench scorer, such as workers: 10 or"
        " swebench_service_auth_token: ${TOKEN}, of the environment of the harness.",
    )


class ClientAudit(Group):
    """The client's own test that responses are not cached, run behind each performance run: distinct samples, then one
    of them again and again, which must not be answered more than 10 % faster (audit: output_caching_test)."""

    samples: fields.Count = Field(None, description="Number of distinct samples sent first, such as 64.")
    audit_samples: fields.Count = Field(
        None, description="How often the repeated sample is sent; default: as often as distinct samples."
    )
    sample_index: fields.CountOrNone = Field(None, description="Index of the performance sample to repeat; default: 0.")


class EndpointsClient(Group):
    """The official client, mlcommons/endpoints, and its settings. A change makes every point stale."""

    code: fields.Location = Field(
        None, description="Checkout of the client, such as ${MLPERF_ENDPOINTS_CLIENT}; its content counts."
    )
    python: fields.Location = Field(
        None,
        description="Python interpreter with the client's dependencies; default: .venv/bin/python of the checkout.",
    )
    model_name: fields.OptionalText = Field(
        None, description="Name under which the endpoint serves the model (model_params.name)."
    )
    tokenizer: fields.Location = Field(
        None, description="Folder of the reference tokenizer, by which output tokens are counted; its content counts."
    )
    api: _Api = Field(None, description="API of the endpoint: openai (default), openai_completions or sglang.")
    workers: fields.Count = Field(None, description="Worker processes of the client; default: its own choice.")
    warmup: fields.CountOrNone = Field(
        None, description="Requests of the warm-up, salted and drained before the measurement; 0, the default: none."
    )
    steady_state: fields.Flag = Field(
        None,
        description="true: the client looks for the steady-state window (settings.steady_state.enabled; clients from"
        " September 2026 on). Its report is compared with the run's events.",
    )
    columns: Options = Field(
        {}, description="Columns of the performance dataset by the client's names, such as {prompt: text}."
    )
    parameters: Options = Field(
        {},
        description="More model_params, such as max_new_tokens: 1024, temperature: 0 or "
        "chat_template_kwargs.preserve_thinking: true.",
    )
    arguments: fields.Command = Field(
        None, description="More arguments for the client's command line, such as [--timeout, '7200']."
    )
    accuracy: ClientAccuracy = Field(ClientAccuracy(), description="The accuracy dataset and its scorer.")
    audit: ClientAudit = Field(ClientAudit(), description="The client's test for cached responses.")


class Shortfall(Group):
    """Why a point ran fewer replicas than its system can run."""

    replicas: fields.Count = Field(None, description="Replicas that ran (dp_actual).")
    fitting: fields.Count = Field(None, description="Replicas that fit on the provisioned accelerators (dp_formula).")
    reason: fields.OptionalText = Field(None, description="Why no more of them ran.")


class PointWarmup(Group):
    """Events before a point's run, where they are more than the client was asked for: published in point.yaml."""

    duration: fields.Microseconds = Field(
        None, description="From the first request of the warm-up to the start of the run, such as 90 s (duration_s)."
    )
    requests_issued: fields.CountOrNone = Field(None, description="Requests of the warm-up.")
    requests_completed: fields.CountOrNone = Field(None, description="Requests of the warm-up that were answered.")
    data_source: fields.OptionalText = Field(None, description="Source of the requests, such as synthetic.")
    concurrency: fields.CountOrNone = Field(None, description="Concurrent requests.")
    initialization_steps: fields.Names = Field(
        None, description="Platform steps before the run, such as [CUDA graphs captured, caches filled]."
    )
    logs_retained: fields.Flag = Field(None, description="true: the logs of the warm-up are kept.")
    link_logs: fields.OptionalText = Field(None, description="Where reviewers can find these logs.")


class Endpoint(Group):
    """An endpoint that runs elsewhere. One that this project starts is `harness.service`."""

    url: fields.OptionalText = Field(None, description="Its address, such as https://host/, without secrets.")
    api_key_env: fields.OptionalName = Field(
        None, description="Environment variable with its key; only its name enters the key, never its value."
    )
    stack: Options = Field(
        {},
        description="Description of the service, with fields of your choice, such as engine, weights, flags and image. "
        "A change makes every point stale.",
    )


def _map_by_concurrency(value: Any) -> Any:
    """Accept a list of concurrencies, or a word, as a mapping without settings."""
    if isinstance(value, list):
        return {str(item): None for item in value}
    return {value: None} if isinstance(value, str) else value


def _allow_list(schema: dict[str, Any]) -> None:
    """Make editors also accept ``auto`` and a list of numbers."""
    mapping = {name: schema.pop(name) for name in ("type", "additionalProperties", "propertyNames") if name in schema}
    items = {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": [AUTO, OFFLINE]}]}
    listed = {"type": "array", "items": items, "minItems": 1}
    names = {"pattern": f"^([0-9]+|{AUTO}|{OFFLINE})$"}
    schema["anyOf"] = [{"const": AUTO}, listed, {**mapping, "propertyNames": names}]


_ByConcurrency = BeforeValidator(_map_by_concurrency)


class PointGroup(SettingsGroup):
    """One point of a curve: settings that the others do not have. Whatever belongs to the stack is one for all."""

    client: EndpointsClient = Field(EndpointsClient(), description="The official client, for this point.")
    disclosure: Options = Field({}, description="Fields of point.yaml and system_desc.json that only this point has.")
    nodes_used: Annotated[dict[fields.Name, fields.Count], Empty] = Field(
        {}, description="Nodes that a point uses, by name in the system's `node_types`; default: all."
    )
    dp_shortfall: Shortfall = Field(Shortfall(), description="Why fewer replicas ran than fit on the system.")
    warmup: PointWarmup = Field(
        PointWarmup(), description="Events before the run, other than the client's own warm-up."
    )
    speculative_decoding: Options = Field(
        {}, description="Fields of speculative_decoding in point.yaml, such as model_id and weight_checksum."
    )


class CurveGroup(PointGroup):
    """The points of one benchmark on one system, with program endpoints. Settings next to `points` apply to each."""

    max_supported_concurrency: fields.Count = Field(
        None, description="Maximum concurrency that the system supports (C_max), more than 32."
    )
    min_concurrency: fields.Count = Field(
        None,
        description=(
            "Lowest concurrency, 1 to 32, from which the regions are derived (c_min_override); needs a point "
            "there. Default: the lowest point's."
        ),
    )
    points: Annotated[dict[_Concurrency, PointGroup], _ByConcurrency, Empty] = Field(
        {},
        description=(
            "Concurrency of each point, such as [1, 8, 40], or a map from concurrency to the point's settings; "
            "auto: as many points as the rules require, placed by region; offline: a dedicated Offline run."
        ),
        json_schema_extra=_allow_list,
    )
    accuracy_points: _Concurrencies = Field(
        None,
        description=(
            "Points with an accuracy run, such as [1, 3, 10, 64]: at least one in each region. Default: as the "
            "rules require."
        ),
    )
    point_count: fields.Count = Field(
        None,
        description="Number of points that `auto` places, including a dedicated Offline run; default: the minimum.",
    )
    seed_set: fields.OptionalName = Field(
        None, description="Published seed set of the curve, such as A; default: the newest."
    )
    client: EndpointsClient = Field(EndpointsClient(), description="The official client.")
    disclosure: Options = Field(
        {}, description="Fields of point.yaml and system_desc.json that cannot be derived and apply to all points."
    )
    endpoint: Endpoint = Field(Endpoint(), description="An endpoint that runs elsewhere.")


Curves = Annotated[dict[fields.Name, Annotated[dict[fields.Name, CurveGroup], Empty]], Empty]

# Group of the core → the fields that a program adds to it.
ADDED_FIELDS: dict[str, dict[str, tuple[Any, Any]]] = {
    "BenchmarkGroup": {
        "client": (
            EndpointsClient,
            Field(EndpointsClient(), description="With program endpoints: the official client."),
        ),
        "disclosure": (
            Options,
            Field(
                {},
                description="With program endpoints: fields of point.yaml that cannot be derived, such as "
                "link_to_model, and fields of system_desc.json that may differ between points, such as "
                "tensor_parallel.",
            ),
        ),
        "endpoint": (
            Endpoint,
            Field(
                Endpoint(),
                description="With program endpoints: endpoint that runs elsewhere, unless `harness.service` starts it.",
            ),
        ),
    },
    "Divisions": {
        "standardized": (Curves, Field({}, description="With program endpoints: curves of the Standardized division.")),
        "serviced": (Curves, Field({}, description="With program endpoints: curves of the Serviced division.")),
        "rdi": (Curves, Field({}, description="With program endpoints: curves of the RDI division.")),
    },
}

REFERENCE = ProgramReference(
    groups=(
        (
            "Curve",
            "with program endpoints in `spec.divisions.DIVISION.SYSTEM.BENCHMARK:`, in addition to the "
            "settings of its points",
            CurveGroup,
            "",
        ),
        ("Client", "`client:` of a benchmark or a curve", EndpointsClient, "client."),
        ("Accuracy of a client", "`accuracy:` of a client", ClientAccuracy, "client.accuracy."),
        ("Audit of a client", "`audit:` of a client", ClientAudit, "client.audit."),
        ("Shortfall", "`dp_shortfall:` of a curve or a point", Shortfall, "dp_shortfall."),
        ("Warm-up of a point", "`warmup:` of a curve or a point", PointWarmup, "warmup."),
        ("Endpoint", "`endpoint:` of a benchmark or a curve", Endpoint, "endpoint."),
    ),
    free=("client.parameters", "client.columns", "client.accuracy.columns", "client.accuracy.extras", "endpoint.stack"),
    recorded={
        "benchmark.disclosure": "disclosure",
        "client.model_name": "harness.model_name",
        "client.arguments": "harness.command",
        "accuracy_points": "accuracy_from",
    },
)
