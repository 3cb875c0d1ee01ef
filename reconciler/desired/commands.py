"""Inputs of a harness command's runs and scores: its arguments before placeholders are filled in, and its code.

They contain no path of a single run and no secret: a variable taken from the environment enters by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.desired.inputs import SettingsReader, collect_engine_inputs, collect_launcher_inputs
from reconciler.resource.inputs import Input, Pin, Value, make_source_pin
from reconciler.resource.settings import BUILD, CLIENT_SOURCES, COMMAND, HARNESS, RESULTS, SCORE_COMMAND, SERVICE, USUAL
from reconciler.rules.results.table import find_declared_format


def collect_command_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the inputs of a run; none if our own harness runs it."""
    results = reader.take(RESULTS, "harness.model_name")
    if find_declared_format(reader.settings).NAME == USUAL:
        results = []  # LoadGen's logs are the default and add no input
    if not reader.get_text(COMMAND):
        return results
    said = reader.take(COMMAND, "harness.image", "harness.user_conf", "harness.audit_config")
    official = reader.take("benchmark.official")
    sources = reader.pins.list_inputs(list_command_pins(reader))
    return [*said, *results, *official, *reader.take_below("harness.env"), *sources]


def collect_scorer_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the inputs of a score; none if the benchmark has its own scorer here."""
    if not reader.get_text(SCORE_COMMAND):
        return []
    said = reader.take(SCORE_COMMAND, "harness.image")
    sources = reader.pins.list_inputs(list_command_pins(reader))
    return [*said, *reader.take_below("harness.env"), *sources, *collect_launcher_inputs(reader)]


def list_command_pins(reader: SettingsReader) -> dict[str, Pin]:
    """Return the pins of a command's code and configuration files, by input name; their paths are not part of the
    identity."""
    if not reader.get_text(COMMAND) and not reader.get_text(SCORE_COMMAND):
        return {}
    clients = ((f"{source}.sha256", reader.get(source)) for source in CLIENT_SOURCES)
    paths = {name: str(at.value) for name, at in clients if at is not None}
    return _make_pins(reader, HARNESS, paths)


# Inputs of a harness's service, and of an engine that a build command creates.
#
# Like those of a run's command: the arguments before placeholders are filled in and the code, without paths of a single
# run or secrets. Fields that a part does not set are taken from the harness.

# Placeholders that differ between cells, and the settings that they refer to.
_SETTINGS = {
    "benchmark": "benchmark.official",
    "system": "system.name",
    "precision": "engine.precision",
    "batch_size": "engine.batch_size",
    "device": "hardware.count",
}


def collect_service_inputs(reader: SettingsReader, scenario: str, made_from: Input, dataset: Input) -> list[Input]:
    """Collect the inputs of a server. ``made_from``: the engine or model that it loads. Other values that differ
    between cells count only if its command uses them, so that cells with the same needs share a server."""
    asked = _collect_asked(reader, SERVICE, scenario, dataset)
    machine = [item for item in (*reader.take("system.name"), *reader.take_below("hardware")) if item not in asked]
    return [made_from, *asked, *_list_part_inputs(reader, SERVICE), *machine, *collect_launcher_inputs(reader)]


def collect_built_inputs(reader: SettingsReader, scenario: str, model: Input, dataset: Input) -> list[Input]:
    """Collect the inputs of an engine that a user's command builds: those of any engine, and those that the command
    uses."""
    own = collect_engine_inputs(reader, model)
    known = {item.name for item in own}
    asked = [item for item in _collect_asked(reader, BUILD, scenario, dataset) if item.name not in known]
    return [*own, *asked, *_list_part_inputs(reader, BUILD)]


def _collect_asked(reader: SettingsReader, part: str, scenario: str, dataset: Input) -> list[Input]:
    """Collect the additional inputs that a part's command uses."""
    said = " ".join(_list_texts(reader, part))
    found = [Input("scenario", scenario)] if "{scenario}" in said else []
    found += [dataset] if "{dataset}" in said else []
    for name, setting in _SETTINGS.items():
        found += reader.take(setting) if f"{{{name}}}" in said else []
    return found


def list_part_pins(reader: SettingsReader, part: str) -> dict[str, Pin]:
    """Return the pins of the code and configuration files of a service or build command, by input name."""
    return _make_pins(reader, part, {}) if reader.get_text(f"{part}.command") else {}


def _make_pins(reader: SettingsReader, part: str, more: Mapping[str, str]) -> dict[str, Pin]:
    """Pin the code and configuration files of a part of the harness, and ``more`` paths, by input name."""
    code, configs = _get_part_value(reader, part, "code"), _get_part_value(reader, part, "configs")
    paths = {f"{part}.code.sha256": str(code.value)} if code is not None else {}
    for number, path in enumerate(configs.value if configs is not None else ()):
        paths[f"{part}.config.{number}"] = str(path)
    cell = reader.get_text("cell")
    return {name: make_source_pin(name, cell, path) for name, path in (paths | dict(more)).items()}


def _list_part_inputs(reader: SettingsReader, part: str) -> list[Input]:
    image = _get_part_value(reader, part, "image")
    return [
        *reader.take(f"{part}.command"),
        *reader.take_below(f"{part}.env"),
        *([Input(f"{part}.image", image.value, image.origin)] if image is not None else []),
        *reader.pins.list_inputs(list_part_pins(reader, part)),
    ]


def _get_part_value(reader: SettingsReader, part: str, name: str) -> Value | None:
    return reader.get(f"{part}.{name}") or reader.get(f"harness.{name}")


def _list_texts(reader: SettingsReader, part: str) -> list[str]:
    """List the texts that may contain placeholders. The folder is not part of the identity, so its name is not recorded
    as read."""
    command, settings = reader.get(f"{part}.command"), reader.settings
    cwd = settings.get(f"{part}.cwd") or settings.get("harness.cwd")
    found = [*(command.value if command else ()), cwd.value if cwd else ""]
    return [str(text) for text in (*found, *(item.value for item in reader.take_below(f"{part}.env")))]
