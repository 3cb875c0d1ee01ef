"""Check that an endpoint serves the model that its client requests, before anything is measured."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from string import Template

from harness.errors import HarnessError

_PATIENCE = 10.0  # seconds; an endpoint that does not answer within them is still measured
_MOST = 1 << 20  # maximum bytes read from an answer
_SHOWN = 6


_DIRECT = urllib.request.OpenerDirector()  # does not follow redirects, so that only the endpoint receives the key
for _handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
    _DIRECT.add_handler(_handler)


def refuse_other_model(config: Path, environment: Mapping[str, str]) -> None:
    """``config``: the configuration of the Endpoints client, which will run in ``environment``. Raises HarnessError if
    an endpoint lists its models by the OpenAI protocol and the client's model is not among them. Many endpoints list
    none."""
    asked = json.loads(config.read_bytes())
    model, endpoint = asked["model_params"]["name"], asked["endpoint_config"]
    key = Template(endpoint.get("api_key", "")).safe_substitute(environment)
    for url in endpoint["endpoints"]:
        served = _list_models(url, key)
        if served and model not in served:
            more = f" and {len(served) - _SHOWN} more" if len(served) > _SHOWN else ""
            problem = f"the endpoint {url} serves {', '.join(served[:_SHOWN])}{more}, not {model}"
            fix = "start it with the declared model, or fix client.model_name or endpoint.url"
            raise HarnessError(problem, "input", fix)


def _list_models(url: str, key: str) -> list[str]:
    """List the endpoint's models; none if it does not list them."""
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/v1/models")  # noqa: S310 the opener accepts only http(s)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        if (answer := _DIRECT.open(request, timeout=_PATIENCE)) is None:
            return []
        with answer:
            return [str(model["id"]) for model in json.loads(answer.read(_MOST))["data"]]
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        return []
