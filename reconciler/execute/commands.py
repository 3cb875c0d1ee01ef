"""Turn an attempt whose cell has a harness command into its child's request, with the placeholders filled in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.contract import SOURCE_NOTE, CommandRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.request_parts import select_slices
from reconciler.loadgen import keys
from reconciler.loadgen.settings import ACCURACY, LOADGEN_MODE, TARGETS
from reconciler.loadgen.user_conf import select_settings
from reconciler.resource.codec import encode_canonical
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.resource.programs import find_program_of_results
from reconciler.resource.settings import (
    AGENTIC,
    BUILD,
    BUILD_COMMAND,
    CLIENT_CODE,
    COMMAND,
    HARNESS,
    SCORE_COMMAND,
    CellSettings,
    Hardware,
)
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import find_format
from reconciler.storage.files import RepositoryPaths, hash_bytes, hash_file, replace
from reconciler.storage.launch.adapters import choose_interpreter
from reconciler.storage.machine_locks import make_machine_lock

_NAMED = {Kind.ENGINE: BUILD_COMMAND, Kind.RUN: COMMAND, Kind.COMPLIANCE_TEST: COMMAND, Kind.SCORE: SCORE_COMMAND}
# Placeholders whose values only an attempt knows.
_OF_ATTEMPTS = ("run_dir", "user_conf", "accuracy_log", "engine", "port", "service_url", "client_config", "python")


def has_command(attempt: Attempt) -> bool:
    """Return True if this attempt starts a harness command."""
    return _NAMED.get(attempt.intent.address.kind, "") in attempt.intent.settings


def describe_command(
    address: Address, settings: CellSettings, asked: Mapping[str, object], locations: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the words of the command that a step of this address starts, preceded by its variables; () if it starts
    none. Placeholders whose values only an attempt knows remain. ``asked``: the step's inputs by name."""
    named = _NAMED.get(address.kind, "")
    if named not in settings:
        return ()
    scenario = address.cell.scenario if address.cell else ""
    given = {name: locations.get(f"{name}.path", f"{{{name}}}") for name in ("model", "dataset", "client.python")}
    values = {
        **_list_known_values(settings, asked, scenario),
        **{name: f"{{{name}}}" for name in _OF_ATTEMPTS},
        "audit_config": "{audit_config}" if asked.get("test") else "",
        "client_python": given.pop("client.python"),
        **given,
    }
    env, _ = collect_environment(settings, values, BUILD if named.startswith(f"{BUILD}.") else HARNESS)
    variables = ("env", *(f"{name}={value}" for name, value in env.items())) if env else ()
    return (*variables, *fill_words(settings.get_words(named), values))


def make_command_run(attempt: Attempt, paths: RepositoryPaths, inputs: Mapping[str, str]) -> CommandRequest:
    """Make the request, once ``user.conf`` and the audit settings are written."""
    settings = attempt.intent.settings
    attempt.run_dir.mkdir(exist_ok=True)
    values = {**collect_placeholder_values(attempt, paths, inputs), "run_dir": str(attempt.run_dir)}
    cwd = Path(find_folder(settings, HARNESS, values, paths.root) or attempt.run_dir)
    audit = attempt.audit_file.exists()
    placed = settings.audit_config == "placed"
    written = settings.user_conf == "written"
    results = find_format(settings)
    env, secrets = collect_environment(settings, values)
    if (key := settings.api_key_env) and results.TIES_ACCURACY:
        secrets[key] = key
    if results.TIES_ACCURACY:
        write_client_config(attempt, paths.root, values, results.NAME)
    return CommandRequest(
        purpose="run",
        results=results.NAME,  # type: ignore[arg-type]
        command=fill_words(settings.command, values),
        cwd=str(cwd),
        run_dir=str(attempt.run_dir),
        output=str(attempt.output),
        counter=str(attempt.counter),
        env=env,
        secrets=secrets,
        timeout=settings.harness_timeout,
        logs=find_location(settings, "harness.logs", values, cwd) or str(attempt.run_dir),
        since=attempt.intent.clock,
        user_conf=str(attempt.user_conf),
        user_conf_sha256=hash_file(attempt.user_conf) if written and results.READS_CONF else "",
        user_conf_at="" if written else find_location(settings, "harness.user_conf_at", values, cwd),
        outputs=fill_words(settings.harness_outputs, values),
        place_audit=str(attempt.audit_file) if placed and audit else "",
        lock=str(make_machine_lock(f"folder-{hash_bytes(str(cwd).encode())[:16]}").path) if placed else "",
        code=find_location(settings, "harness.code" if "harness.code" in settings else CLIENT_CODE, values, paths.root),
        code_location=settings.harness_code,
        service_log=attempt.intent.server.log if attempt.intent.server else "",
        slices=select_slices(settings) if attempt.intent.server is None else (),  # otherwise the server has them
    )


def write_client_config(attempt: Attempt, root: Path, values: Mapping[str, str], results: str) -> None:
    """Write the configuration of another program's client as JSON, which is also YAML."""
    settings = attempt.intent.settings
    asked = {name: value for name, (value, _) in attempt.intent.inputs.items()}
    own = load_program(find_program_of_results(results)).build_client_config(
        settings,
        asked,
        {**values, "report": str(attempt.run_dir / "report")},
        lambda name: find_location(settings, name, values, root),
    )
    config = {"name": str(attempt.intent.address.cell).replace("/", "-"), **own}
    replace(attempt.user_conf, encode_canonical(config))


def make_command_score(
    attempt: Attempt, paths: RepositoryPaths, inputs: Mapping[str, str], accuracy_log: Path
) -> CommandRequest:
    settings = attempt.intent.settings
    attempt.run_dir.mkdir(exist_ok=True)
    values = collect_placeholder_values(attempt, paths, inputs)
    values |= {"run_dir": str(attempt.run_dir), "accuracy_log": str(accuracy_log), "mode": "accuracy"}
    env, secrets = collect_environment(settings, values)
    shown = attempt.intent.rules.shown if attempt.intent.rules else None
    return CommandRequest(
        purpose="score",
        command=fill_words(settings.score_command, values),
        cwd=find_folder(settings, HARNESS, values, paths.root) or str(attempt.run_dir),
        run_dir=str(attempt.run_dir),
        output=str(attempt.output),
        counter=str(attempt.counter),
        env=env,
        secrets=secrets,
        timeout=settings.harness_timeout,
        outputs=(shown.folder,) if shown else (),
        code=find_location(settings, "harness.code", values, paths.root),
        code_location=settings.harness_code,
    )


def make_command_build(attempt: Attempt, paths: RepositoryPaths, inputs: Mapping[str, str]) -> CommandRequest:
    settings = attempt.intent.settings
    attempt.run_dir.mkdir(exist_ok=True)
    image = settings.get_part_text(BUILD, "image")
    values = {**collect_placeholder_values(attempt, paths, inputs), "run_dir": str(attempt.run_dir), "image": image}
    env, secrets = collect_environment(settings, values, BUILD)
    return CommandRequest(
        purpose="build",
        command=fill_words(settings.build_command, values),
        cwd=find_folder(settings, BUILD, values, paths.root) or str(attempt.run_dir),
        run_dir=str(attempt.run_dir),
        output=str(attempt.output),
        counter=str(attempt.counter),
        env=env,
        secrets=secrets,
        timeout=settings.get_seconds(f"{BUILD}.timeout"),
        since=attempt.intent.clock,
        outputs=fill_words(settings.get_words(f"{BUILD}.outputs"), values),
        code=find_part_location(settings, BUILD, "code", values, paths.root),
        code_location=settings.get_text(f"{BUILD}.code") or settings.harness_code,
        slices=select_slices(settings)[-1:],
    )


def collect_placeholder_values(attempt: Attempt, paths: RepositoryPaths, inputs: Mapping[str, str]) -> dict[str, str]:
    """Collect the values of all placeholders except those with a single purpose."""
    settings, server = attempt.intent.settings, attempt.intent.server
    asked = {name: value for name, (value, _) in attempt.intent.inputs.items()}
    cell = attempt.intent.address.cell
    if not find_format(settings).READS_CONF:
        asked = {**_list_fixed_settings(attempt), **asked}
    return {
        **_list_known_values(settings, asked, cell.scenario if cell else ""),
        "user_conf": str(attempt.user_conf),
        "audit_config": str(attempt.audit_file) if attempt.audit_file.exists() else "",
        "engine": inputs.get("engine", ""),
        "model": _find_made(attempt, paths, inputs, "model"),
        "dataset": _find_made(attempt, paths, inputs, "dataset"),
        "python": choose_interpreter(settings.launcher, sys.executable),
        "client_config": str(attempt.user_conf),
        "client_python": str(paths.root / settings.get_text("client.python")),  # the link selects the environment
        "port": str(server.port) if server else "",
        "service_url": server.url if server else "",
    }


def _list_known_values(settings: CellSettings, asked: Mapping[str, object], scenario: str) -> dict[str, str]:
    """List the values of placeholders that are the same in every attempt."""
    mode = str(asked.get("mode", "accuracy"))
    texts = select_settings(scenario, {name: asked.get(name) for name in TARGETS})
    ending = f"_{settings.system.rpartition('_')[2]}"
    return {
        **{name: name for name in (mode, scenario, ending) if name},  # conditions, as in {accuracy:+--accuracy}
        "mode": mode,
        "test": str(asked.get("test", "")),
        "loadgen_mode": LOADGEN_MODE[mode],
        "scenario": scenario,
        **{name: texts.get(name, "") for name in TARGETS},
        "device": _format_devices(settings.hardware),
        "benchmark": settings.official,
        "system": settings.system,
        "image": settings.image,
        "precision": settings.precision,
        "batch_size": settings.get_text("engine.batch_size"),
        **_list_endpoints_words(settings, asked, mode, scenario),
    }


def _list_fixed_settings(attempt: Attempt) -> dict[str, Any]:
    """List the settings that the endpoints harness also reads in an accuracy run, although they do nothing there."""
    settings, rules = attempt.intent.settings, attempt.intent.rules
    names = (keys.TARGET_QPS, keys.MAX_DURATION, keys.MIN_QUERY_COUNT)
    least = rules.endpoints.min_duration if rules is not None and rules.endpoints is not None else None
    return {
        **{name: settings.get(name) for name in names},
        keys.MIN_DURATION: settings.get(keys.MIN_DURATION) if keys.MIN_DURATION in settings else least,
    }


def _list_endpoints_words(
    settings: CellSettings, asked: Mapping[str, object], mode: str, scenario: str
) -> dict[str, str]:
    """List the settings that the endpoints harness takes on its command line or in its configuration, in its own
    units."""
    names = {"sample_index_seed": keys.SAMPLE_INDEX_RNG_SEED, "schedule_seed": keys.SCHEDULE_RNG_SEED}
    names |= {name: name for name in (keys.MIN_DURATION, keys.MAX_DURATION, keys.MIN_QUERY_COUNT)}
    scored = "both" if find_format(settings).TIES_ACCURACY and AGENTIC not in settings else "acc"
    return {
        **{name: str(asked[own]) if asked.get(own) is not None else "" for name, own in names.items()},
        "model_name": settings.model_name,
        "endpoints_mode": scored if mode == ACCURACY else "perf",
        "endpoints_type": "offline" if scenario == "Offline" else "online",
    }


def _find_made(attempt: Attempt, paths: RepositoryPaths, inputs: Mapping[str, str], kind: str) -> str:
    """Return the model or dataset that was made here. Return the source itself if a command makes it, or if it is used
    unchanged, such as a language model's checkpoint."""
    path = attempt.intent.locations.get(f"{kind}.path")
    source = str((paths.root / path).resolve()) if path else ""
    if attempt.intent.locations.get("benchmark.code") == "command":
        return source
    made = inputs.get(kind, source)
    return source if source and (Path(made) / SOURCE_NOTE).is_file() else made


def _format_devices(hardware: Hardware) -> str:
    count = len(hardware.slices) or hardware.count or 1
    return ",".join(map(str, range(count))) if hardware.accelerator else "cpu"


def collect_environment(
    settings: CellSettings, values: Mapping[str, str], part: str = HARNESS
) -> tuple[dict[str, str], dict[str, str]]:
    """Return variables with literal values, and variables whose values only the child reads: name → variable that has
    it."""
    declared = list(settings.list_part_environment(part))
    env = {name: fill_placeholders(text, values) for name, text, is_reference in declared if not is_reference}
    return env, {name: variable for name, variable, is_reference in declared if is_reference}


def find_location(settings: CellSettings, name: str, values: Mapping[str, str], base: Path) -> str:
    """Return the location; "" if none is declared, or if a condition leaves it empty."""
    filled = fill_placeholders(settings.get_text(name), values)
    return str((base / filled).resolve()) if filled else ""


def find_part_location(settings: CellSettings, part: str, name: str, values: Mapping[str, str], root: Path) -> str:
    """Find the location of a part of the harness, or else of the harness itself."""
    return find_location(settings, f"{part}.{name}", values, root) or find_location(
        settings, f"harness.{name}", values, root
    )


def find_folder(settings: CellSettings, part: str, values: Mapping[str, str], root: Path) -> str:
    """Find the folder in which the command starts: the declared folder, else the folder of its code, "" for neither."""
    if own := find_part_location(settings, part, "cwd", values, root):
        return own
    code = find_part_location(settings, part, "code", values, root)
    if not code and part == HARNESS:
        code = find_location(settings, CLIENT_CODE, values, root)
    return "" if not code else code if Path(code).is_dir() else str(Path(code).parent)
