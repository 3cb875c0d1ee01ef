"""Inputs of a harness command's runs and scores: its words before placeholders are filled in, and its code.

No run's own path is in there, and no secret: a variable that is taken from the environment counts by its name.
"""

from __future__ import annotations

from reconciler.desired.inputs import SettingsReader, collect_launcher_inputs
from reconciler.resource.inputs import Input
from reconciler.resource.pins import CODE, Pin, make_source_pin
from reconciler.resource.settings import CLIENT_SOURCES, COMMAND, RESULTS, SCORE_COMMAND, USUAL
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
