"""The configuration of the official Endpoints client for one point: built from the request, and compared with what the
client reports. Names and units (ms) are those of the client (mlcommons/endpoints: config/schema.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.endpoints.results.audits import CACHING
from reconciler.endpoints.results.measurements import BOUNDS, REQUESTED, SEEDS, show_field
from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.point import AGENTIC_PATTERN, OFFLINE_PATTERN
from reconciler.endpoints.rules.results import find_performance_dataset, list_datasets
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import CONFIG
from reconciler.resource.kinds import PERFORMANCE
from reconciler.resource.quantities import parse_number
from reconciler.resource.settings import AGENTIC, DEDICATED_OFFLINE, CellSettings
from reconciler.storage.documents import ResultDocument
from reconciler.storage.git import find_head

_PATIENCE = 300  # seconds in which the client's own processes must start, before anything is measured
PERFORMANCE_DATASET, ACCURACY_DATASET = "performance", "accuracy"
PARAMETERS, _COLUMNS, _ACCURACY_COLUMNS = "client.parameters.", "client.columns.", "client.accuracy.columns."
EXTRAS = "client.accuracy.extras."
SERVICE = "client.accuracy.service"  # the SWE-bench service used by an agentic benchmark's accuracy run
SWE_BENCH = "swe_bench"  # the client's name for that dataset
_INLINE = "agentic_inference_inline"  # the client's scorer of a performance run
_TURN_SECONDS = 86400  # maximum for one turn, as by default in the client
_SHARED = (
    *("point.concurrency", DEDICATED_OFFLINE, AGENTIC, "client.api", "client.workers"),
    *(*reversed(SEEDS), "seed_set"),
)
_AUDIT = ("samples", "audit_samples", "sample_index")
_TIMED = (
    *(*REQUESTED, "client.warmup"),
    *("point.least_duration", keys.PERFORMANCE_SAMPLE_COUNT, "client.steady_state"),
    *(f"client.audit.{name}" for name in _AUDIT),
    *("point.least_inline", "point.least_turn_tokens", "point.most_turn_tokens"),
)
_SCORED = (
    *(f"client.accuracy.{name}" for name in ("name", "method", "ground_truth", "extractor")),
    *(keys.ACCURACY_SAMPLE_COUNT, "point.least_accuracy_samples"),
)
# Groups of free names: every declared one counts.
_FREE = (PARAMETERS, _COLUMNS, "endpoint.stack.")
_PLACES = (("report_dir",), ("endpoint_config", "endpoints"), ("model_params", "tokenizer_name"))
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class ClientPlaces(Struct, frozen=True):
    """Local paths and names, none of which is part of the identity. ``dataset`` and ``accuracy``: files; ``report``:
    the empty folder for the client's results; ``key_variable``: its environment variable with the endpoint's key;
    ``service``: the address of a SWE-bench service."""

    url: str
    report: str
    dataset: str
    accuracy: str = ""
    tokenizer: str = ""
    key_variable: str = ""
    service: str = ""


_REPOSITORY = "https://github.com/mlcommons/endpoints"
_MAIN = "src/inference_endpoint/main.py"


def examine_client(locations: Mapping[str, str], root: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield (text, whether it is missing, fix) for the client that a run starts. No package index has it: it is a
    checkout with its own environment. ``locations``: those of the run, relative to ``root``."""
    code, tried = root / locations.get("client.code", ""), load_endpoints_rules().client
    make = "python3.12 -m venv .venv && .venv/bin/pip install ."
    if not (code / _MAIN).is_file():
        clone = f"git clone {_REPOSITORY} && cd endpoints && git checkout {tried} && {make}"
        fix = f"{clone} && export MLPERF_ENDPOINTS_CLIENT=$PWD, for client.code"
        yield f"official client not found in {locations.get('client.code')}", True, fix
        return
    python = root / locations.get("client.python", "")
    if not python.is_file():
        yield f"the client's interpreter is missing: {python}", True, f"cd {code} && {make}, or set client.python"
    head = find_head(code) or ""
    text = f"the official client is commit {head[:7] or 'unknown'}; this release was tested with {tried}"
    fix = "" if head.startswith(tried) else f"git -C {code} checkout {tried}, if it rejects its configuration"
    yield text, False, fix


def list_client_settings(mode: str, declared: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the declared settings that a point's run reads."""
    own, groups = (_TIMED, _FREE) if mode == PERFORMANCE else (_SCORED, (*_FREE, _ACCURACY_COLUMNS, EXTRAS))
    free = sorted(name for name in declared if name.startswith(groups))
    return (*_SHARED, *own, *free)


def place_client_config(
    settings: CellSettings, asked: Mapping[str, Any], values: Mapping[str, str], find_place: Callable[[str], str]
) -> dict[str, Any]:
    """Return the configuration of a run on this machine. ``values``: the values of placeholders, including ``report``;
    ``find_place``: maps a location in the settings to its path."""
    places = ClientPlaces(
        url=settings.get_text("endpoint.url") or values["service_url"],
        report=values["report"],
        dataset=values["dataset"],
        accuracy=find_place("client.accuracy.dataset"),
        tokenizer=find_place("client.tokenizer"),
        key_variable=settings.api_key_env,
        service=settings.get_text(SERVICE),
    )
    return build_client_config(asked, places)


def build_client_config(asked: Mapping[str, Any], places: ClientPlaces) -> dict[str, Any]:
    """Build the configuration for ``places``. ``asked``: the identity inputs of a run, by their names in specs. What is
    measured never depends on a default of the client."""
    timed = asked["mode"] == PERFORMANCE
    config = _collect_asked(asked)
    config["model_params"] |= {"tokenizer_name": places.tokenizer} if places.tokenizer else {}
    config["datasets"] = [_build_performance(asked, places.dataset)]
    if not timed and asked.get(AGENTIC):
        config["datasets"].append(_build_swe_bench(asked, places.service))
    elif not timed:
        config["datasets"].append(_build_accuracy(asked, places.accuracy))
    key = places.key_variable
    config["endpoint_config"] |= {"endpoints": [places.url], **({"api_key": f"${{{key}}}"} if key else {})}
    config["report_dir"] = places.report
    return config


def find_config_differences(
    config: ResultDocument, asked: Mapping[str, Any], *, foreign: bool = False
) -> Iterator[str]:
    """Yield every value of config.yaml, as resolved by the client, that differs from the request. ``foreign``: it ran
    elsewhere, so settings that only this project makes are not required."""
    pairs = [
        (path, wanted, config.get_nested(*path))
        for path, wanted in _list_leaves(_collect_foreign(asked) if foreign else _collect_asked(asked), ())
    ]
    if asked.get(AGENTIC):
        entry = ResultDocument(find_performance_dataset(config))
        played = _build_conversations(asked)
        if foreign:
            del played["agentic_inference"]["turn_timeout_s"]  # the user's own timeout for an answer
        pairs += [(("datasets", *path), wanted, entry.get_nested(*path)) for path, wanted in _list_leaves(played, ())]
    for path, wanted, found in pairs:
        if not is_same(wanted, found):
            line = config.lines.get(path[-1], 0)
            where = f" (line {line})" if line else ""
            yield f"{'.'.join(path)}: expected {wanted}, {CONFIG} says {show_field(found)}{where}"


def find_place_differences(config: ResultDocument, reported: ResultDocument) -> Iterator[str]:
    """Yield every place in config.yaml that does not belong to this run: the report folder, the endpoint, the datasets
    and the tokenizer. ``reported``: the configuration that the client was started with."""
    for path in _PLACES:
        wanted, found = reported.get_nested(*path), config.get_nested(*path)
        if wanted is not None and wanted != found:
            yield f"{'.'.join(path)}: expected {show_field(wanted, 160)}, {CONFIG} says {show_field(found, 160)}"
    wanted, found = (_list_datasets(document) for document in (reported, config))
    if wanted != found:
        yield f"datasets: expected {show_field(wanted, 160)}, {CONFIG} says {show_field(found, 160)}"


def _list_datasets(config: ResultDocument) -> list[tuple[str, ...]]:
    return [tuple(str(entry.get(name)) for name in ("name", "type", "path")) for entry in list_datasets(config)]


def _collect_asked(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Collect all of the configuration except places."""
    timed = asked["mode"] == PERFORMANCE
    seeds = {field: int(asked[name]) for name, field in reversed(SEEDS.items())}
    bounds = {field: asked.get(name) for name, field in BOUNDS.items()}
    if not timed:
        # In its score-only mode, the client sends one request at a time. Requesting both modes, with a performance
        # phase of one sample, makes it send as many at a time as the point does.
        bounds = {"min_duration_ms": 0, "n_samples_to_issue": 1}
    offline, agentic = bool(asked.get(DEDICATED_OFFLINE)), bool(asked.get(AGENTIC))
    load: dict[str, Any] = {"type": "concurrency", "target_concurrency": int(asked["point.concurrency"])}
    if agentic:  # counts conversations, not requests; without a performance run, the client sends one at a time
        bounds.pop("n_samples_to_issue")
        load = {"type": AGENTIC_PATTERN, "target_concurrency": load["target_concurrency"] if timed else 1}
    if offline:  # sends everything at once; the rules do not require streaming here
        load = {"type": OFFLINE_PATTERN}
    if timed and not agentic and asked.get(keys.TARGET_QPS) is not None:
        load[keys.TARGET_QPS] = float(asked[keys.TARGET_QPS])
    client: dict[str, Any] = {"stream_all_chunks": True, "worker_initialization_timeout": _PATIENCE}
    if asked.get("client.workers") is not None:
        client["num_workers"] = int(asked["client.workers"])
    if agentic:  # as in the client's own examples: no connection stays open while a tool runs
        client |= {"warmup_connections": 0, "max_idle_time": 0.5}
    if agentic and not timed:
        client |= {"num_workers": 1, "max_connections": 1}
    looks = asked.get("client.steady_state")  # written only if declared, since older clients reject it
    return {
        "type": "offline" if offline else "online",
        "model_params": {
            "name": asked["harness.model_name"],
            "streaming": "off" if offline else "on",
            **_collect_below(asked, PARAMETERS),
        },
        "settings": {
            "runtime": {**seeds, **_select_integers(bounds)},
            "load_pattern": load,
            "client": client,
            "warmup": _build_warmup(asked) if timed else {"enabled": False},
            **({"steady_state": {"enabled": bool(looks)}} if timed and looks is not None else {}),
            "service_ready_timeout_s": _PATIENCE,
        },
        "endpoint_config": {"api_type": asked.get("client.api") or "openai"},
        **(_build_audit(asked) if timed else {}),
    }


def _collect_foreign(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the settings that a run made elsewhere must have had: the model, the seeds, the load, and the declared
    limits. A submission has one configuration for both runs of a point, that of the performance run."""
    whole = _collect_asked(asked)
    runtime = whole["settings"]["runtime"]
    if asked["mode"] != PERFORMANCE:
        runtime = {name: value for name, value in runtime.items() if name.endswith("_seed")}
    model = {name: value for name, value in whole["model_params"].items() if name != "streaming"}
    load = whole["settings"]["load_pattern"]
    if asked.get(AGENTIC):
        load["target_concurrency"] = int(asked["point.concurrency"])
    settings = {"runtime": runtime, "load_pattern": load}
    if count := int(asked.get("client.warmup") or 0):
        settings["warmup"] = {"enabled": True, "n_requests": count}
    api = {"endpoint_config": whole["endpoint_config"]} if asked.get("client.api") else {}
    return {"model_params": model, "settings": settings, **api}


def _build_warmup(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Configure a warm-up. It is salted, since the client uses samples of the performance dataset for it, and it is
    drained, so that no warm-up request is answered during the timed run."""
    count = int(asked.get("client.warmup") or 0)
    if not count:
        return {"enabled": False}
    seed = int(asked[keys.SAMPLE_INDEX_RNG_SEED])
    return {"enabled": True, "n_requests": count, "salt": True, "drain": True, "warmup_random_seed": seed}


def _build_audit(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Configure the audit, after performance runs only, with the tolerance of the rules."""
    declared = {name: asked.get(f"client.audit.{name}") for name in _AUDIT}
    if declared["samples"] is None:
        return {}
    return {"audit": {"test": CACHING, "only": False, **_select_integers(declared)}}


def _build_performance(asked: Mapping[str, Any], path: str) -> dict[str, Any]:
    named = {"name": PERFORMANCE_DATASET, "type": "performance", "path": path}
    return {**named, **(_build_conversations(asked) if asked.get(AGENTIC) else _build_parser(asked, _COLUMNS))}


def _build_conversations(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Configure how conversations are played, as the rules for agentic benchmarks require: salted, with the delays of
    their tools, and to the end. ``min_query_count`` counts conversations; by default, one pass covers the dataset."""
    played = {
        "turn_timeout_s": _TURN_SECONDS,
        "enable_salt": True,
        "inject_tool_delay": True,
        "stop_issuing_on_first_user_complete": False,
    }
    count = asked.get(keys.MIN_QUERY_COUNT) or asked.get(keys.PERFORMANCE_SAMPLE_COUNT)
    return {
        "accuracy_config": {"eval_method": _INLINE},
        "agentic_inference": {**played, **_select_integers({"num_trajectories_to_issue": count})},
    }


def _build_swe_bench(asked: Mapping[str, Any], service: str) -> dict[str, Any]:
    """Configure SWE-bench: the service plays as many agents at a time as the point has users, and itself calls the
    endpoint."""
    count = asked.get(keys.ACCURACY_SAMPLE_COUNT) or asked.get("point.least_accuracy_samples")
    extras = {
        "swebench_service_url": service,
        **_select_integers({"num_instances": count, "workers": asked["point.concurrency"]}),
        **_collect_below(asked, EXTRAS),
    }
    scorer = {"eval_method": "swe_bench_scorer", "num_repeats": 1, "extras": extras}
    return {"name": SWE_BENCH, "type": "accuracy", "accuracy_config": scorer}


def _build_accuracy(asked: Mapping[str, Any], path: str) -> dict[str, Any]:
    names = {"method": "eval_method", "ground_truth": "ground_truth", "extractor": "extractor"}
    declared = {theirs: asked.get(f"client.accuracy.{name}") for name, theirs in names.items()}
    own = {name: value for name, value in declared.items() if value is not None}
    return {
        "name": asked.get("client.accuracy.name") or ACCURACY_DATASET,
        "type": "accuracy",
        "path": path,
        **_build_parser(asked, _ACCURACY_COLUMNS),
        "accuracy_config": {**own, "num_repeats": 1},
    }


def _build_parser(asked: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    columns = _collect_below(asked, prefix)
    return {"parser": columns} if columns else {}


def _collect_below(asked: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Nest a name with a dot below its group, such as chat_template_kwargs.preserve_thinking."""
    found: dict[str, Any] = {}
    for name in sorted(name for name in asked if name.startswith(prefix)):
        *groups, own = name.removeprefix(prefix).split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[own] = _convert_decimal(asked[name])
    return found


def _convert_decimal(value: Any) -> Any:
    """Convert decimals, which a spec stores as text, to the numbers that the client reads."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)


def _select_integers(values: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in values.items() if value is not None}


def _list_leaves(group: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from _list_leaves(value, (*above, name))
        else:
            yield (*above, name), value


def is_same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float):
        return parse_number(found) == Decimal(str(wanted))
    return str(wanted) == str(found)
