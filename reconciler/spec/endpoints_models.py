"""What a spec says of MLPerf Endpoints: the client, the endpoint that it loads, and the curve of points."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator, Field

from reconciler.spec import fields
from reconciler.spec.groups import Group, Options

AUTO = "auto"  # points that the rules place
OFFLINE = "offline"  # a dedicated Offline run, in place of the point at the maximum that is elected


class ClientAccuracy(Group):
    """The accuracy dataset, and how the client scores its answers. Points at which the rules demand accuracy run it
    beside their performance run, unsalted and at the same concurrency."""

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
    columns: Options = Field({}, description="Columns by what the client calls them, such as {prompt: question}.")


class ClientAudit(Group):
    """The client's own test that responses are not cached, run behind each performance run: distinct samples, then one
    of them again and again, which must not be answered more than 10 % faster (audit: output_caching_test)."""

    samples: fields.Count = Field(None, description="Distinct samples that are asked first, such as 64.")
    audit_samples: fields.Count = Field(
        None, description="How often the one sample is asked; default: as many as there are distinct ones."
    )
    sample_index: fields.CountOrNone = Field(
        None, description="Which sample of the performance dataset is asked again and again; default: 0."
    )


class EndpointsClient(Group):
    """The official client, mlcommons/endpoints, and what it is told. A change makes every point stale."""

    code: fields.Location = Field(
        None, description="Checkout of the client, such as ${MLPERF_ENDPOINTS_CLIENT}; its content counts."
    )
    python: fields.Location = Field(
        None, description="Interpreter that has the client's dependencies; default: .venv/bin/python of the checkout."
    )
    model_name: fields.OptionalText = Field(
        None, description="Name under which the endpoint serves the model (model_params.name)."
    )
    tokenizer: fields.Location = Field(
        None, description="Folder of the reference tokenizer, by which output tokens are counted; its content counts."
    )
    api: fields.EndpointApi = Field(
        None, description="API of the endpoint: openai (default), openai_completions or sglang."
    )
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
        {}, description="Columns of the performance dataset by what the client calls them, such as {prompt: text}."
    )
    parameters: Options = Field({}, description="More of model_params, such as max_new_tokens: 1024 or temperature: 0.")
    arguments: fields.Command = Field(
        None, description="More words for the client's command line, such as [--timeout, '7200']."
    )
    accuracy: ClientAccuracy = Field(ClientAccuracy(), description="The accuracy dataset and its scorer.")
    audit: ClientAudit = Field(ClientAudit(), description="The client's test that responses are not cached.")


class Shortfall(Group):
    """Why a point ran fewer replicas than its system holds."""

    replicas: fields.Count = Field(None, description="Replicas that ran (dp_actual).")
    fitting: fields.Count = Field(None, description="Replicas that the provisioned accelerators hold (dp_formula).")
    reason: fields.OptionalText = Field(None, description="Why no more of them ran.")


class PointWarmup(Group):
    """What happened before a point's run, where it is more than the client was told: published in point.yaml."""

    duration: fields.Microseconds = Field(
        None, description="From the first request of the warm-up to the start of the run, such as 90 s (duration_s)."
    )
    requests_issued: fields.CountOrNone = Field(None, description="Requests of the warm-up.")
    requests_completed: fields.CountOrNone = Field(None, description="Requests of the warm-up that were answered.")
    data_source: fields.OptionalText = Field(None, description="Source of the requests, such as synthetic.")
    concurrency: fields.CountOrNone = Field(None, description="Requests at a time.")
    initialization_steps: fields.Names = Field(
        None, description="Steps of the platform before the run, such as [CUDA graphs captured, caches filled]."
    )
    logs_retained: fields.Flag = Field(None, description="true: the logs of the warm-up are kept.")
    link_logs: fields.OptionalText = Field(None, description="Where a reviewer finds these logs.")


class Endpoint(Group):
    """An endpoint that somebody else runs. One that this project starts is `harness.service`."""

    url: fields.OptionalText = Field(None, description="Its address, such as https://host/; no secret belongs here.")
    api_key_env: fields.OptionalName = Field(
        None, description="Variable of the environment that holds its key; its name counts, never its value."
    )
    stack: Options = Field(
        {},
        description="Description of the service in names of your own, such as engine, weights, flags and image. A "
        "change makes every point stale.",
    )


def _by_concurrency(value: Any) -> Any:
    """A list of concurrencies is as good as a mapping without settings; so is a word."""
    if isinstance(value, list):
        return {str(item): None for item in value}
    return {value: None} if isinstance(value, str) else value


def or_list(schema: dict[str, Any]) -> None:
    """An editor takes ``auto`` and a list of numbers, too."""
    mapping = {name: schema.pop(name) for name in ("type", "additionalProperties", "propertyNames") if name in schema}
    items = {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": [AUTO, OFFLINE]}]}
    listed = {"type": "array", "items": items, "minItems": 1}
    names = {"pattern": f"^([0-9]+|{AUTO}|{OFFLINE})$"}
    schema["anyOf"] = [{"const": AUTO}, listed, {**mapping, "propertyNames": names}]


ByConcurrency = BeforeValidator(_by_concurrency)
