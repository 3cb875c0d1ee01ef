"""Inputs of a harness command's runs and scores: its words before placeholders are filled in, and its code.

No run's own path is in there, and no secret: a variable that is taken from the environment counts by its name.
"""

from __future__ import annotations

from reconciler.desired.inputs import SettingsReader, collect_engine_inputs, collect_launcher_inputs
from reconciler.resource.inputs import Input, Value
from reconciler.resource.pins import CODE, Pin, make_source_pin
from reconciler.resource.settings import BUILD, CLIENT_SOURCES, COMMAND, RESULTS, SCORE_COMMAND, SERVICE, USUAL
from reconciler.rules.results.table import find_declared_format

CONFIG = "harness.config"


def collect_command_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the inputs of a run; nothing where our own harness runs it."""
    results = reader.take(RESULTS, "harness.model_name")
    if find_declared_format(reader.settings).NAME == USUAL:
        results = []  # LoadGen's logs are what there always was
    if not reader.get_text(COMMAND):
        return results
    said = reader.take(COMMAND, "harness.image", "harness.user_conf", "harness.audit_config")
    official = reader.take("benchmark.official")
    return [*said, *results, *official, *reader.take_below("harness.env"), *_sources(reader)]


def collect_scorer_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the inputs of a score; nothing where the benchmark has its own scorer here."""
    if not reader.get_text(SCORE_COMMAND):
        return []
    said = reader.take(SCORE_COMMAND, "harness.image")
    return [*said, *reader.take_below("harness.env"), *_sources(reader), *collect_launcher_inputs(reader)]


def list_command_pins(reader: SettingsReader) -> dict[str, Pin]:
    """Name of the input → pin, of the code and the configuration files of a command."""
    if not reader.get_text(COMMAND) and not reader.get_text(SCORE_COMMAND):
        return {}
    cell = reader.get_text("cell")
    code, configs = reader.get("harness.code"), reader.get("harness.configs")
    found = {CODE: make_source_pin(CODE, cell, str(code.value))} if code is not None else {}
    for number, path in enumerate(configs.value if configs is not None else ()):
        name = f"{CONFIG}.{number}"
        found[name] = make_source_pin(name, cell, str(path))
    for source in CLIENT_SOURCES:
        if (at := reader.get(source)) is not None:
            found[f"{source}.sha256"] = make_source_pin(f"{source}.sha256", cell, str(at.value))
    return found


def _sources(reader: SettingsReader) -> list[Input]:
    """Their digests; where they are is not identity."""
    return reader.pins.list_inputs(list_command_pins(reader))


# Inputs of a harness's service, and of an engine that its build command makes.
#
# As of a run's command: the words before placeholders are filled in, the code, no run's own path, no secret. What a
# part does not say of itself, it has from the harness.

# Placeholders that differ between cells, and the settings that they mean.
_SETTINGS = {
    "benchmark": "benchmark.official",
    "system": "system.name",
    "precision": "engine.precision",
    "batch_size": "engine.batch_size",
    "device": "hardware.count",
}


def collect_service_inputs(reader: SettingsReader, scenario: str, made_from: Input, dataset: Input) -> list[Input]:
    """``made_from``: the engine or the model, which a server loads whatever its words say. Everything else that may
    differ between cells counts only where its words use it: so a server is shared by the cells that need the same."""
    asked = _collect_asked(reader, SERVICE, scenario, dataset)
    machine = [item for item in (*reader.take("system.name"), *reader.take_below("hardware")) if item not in asked]
    return [made_from, *asked, *_said(reader, SERVICE), *machine, *collect_launcher_inputs(reader)]


def collect_built_inputs(reader: SettingsReader, scenario: str, model: Input, dataset: Input) -> list[Input]:
    """Collect the inputs of an engine that a user's command builds: as of any engine, with those of the command's
    words."""
    own = collect_engine_inputs(reader, model)
    known = {item.name for item in own}
    asked = [item for item in _collect_asked(reader, BUILD, scenario, dataset) if item.name not in known]
    return [*own, *asked, *_said(reader, BUILD)]


def _collect_asked(reader: SettingsReader, part: str, scenario: str, dataset: Input) -> list[Input]:
    """Collect the further inputs that its words use."""
    said = " ".join(_texts(reader, part))
    found = [Input("scenario", scenario)] if "{scenario}" in said else []
    found += [dataset] if "{dataset}" in said else []
    for name, setting in _SETTINGS.items():
        found += reader.take(setting) if f"{{{name}}}" in said else []
    return found


def list_part_pins(reader: SettingsReader, part: str) -> dict[str, Pin]:
    """Name of the input → pin, of the code and the configuration files of a service or a build command."""
    if not reader.get_text(f"{part}.command"):
        return {}
    cell = reader.get_text("cell")
    code, configs = _own(reader, part, "code"), _own(reader, part, "configs")
    paths = {f"{part}.code.sha256": str(code.value)} if code is not None else {}
    for number, path in enumerate(configs.value if configs is not None else ()):
        paths[f"{part}.config.{number}"] = str(path)
    return {name: make_source_pin(name, cell, path) for name, path in paths.items()}


def _said(reader: SettingsReader, part: str) -> list[Input]:
    image = _own(reader, part, "image")
    return [
        *reader.take(f"{part}.command"),
        *reader.take_below(f"{part}.env"),
        *([Input(f"{part}.image", image.value, image.origin)] if image is not None else []),
        *reader.pins.list_inputs(list_part_pins(reader, part)),
    ]


def _own(reader: SettingsReader, part: str, name: str) -> Value | None:
    return reader.get(f"{part}.{name}") or reader.get(f"harness.{name}")


def _texts(reader: SettingsReader, part: str) -> list[str]:
    """List the texts where placeholders may be. The folder itself is not identity, so it is not asked of the reader."""
    command, settings = reader.get(f"{part}.command"), reader.settings
    cwd = settings.get(f"{part}.cwd") or settings.get("harness.cwd")
    found = [*(command.value if command else ()), cwd.value if cwd else ""]
    return [str(text) for text in (*found, *(item.value for item in reader.take_below(f"{part}.env")))]
