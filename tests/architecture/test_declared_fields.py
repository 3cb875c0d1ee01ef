"""What is declared once, as an attribute with its type and default, is read as that attribute."""

from __future__ import annotations

import re

from reconciler.resource import settings
from tests.architecture.source import modules

_BY_NAME = re.compile(r"get_(?:text|words|seconds)\([\"']([a-z_.]+)[\"']")
_OPTION = re.compile(r"\boptions(?:\.get\(|\[)[\"']")


def test_fields_that_settings_declare_are_read_as_attributes() -> None:
    parts = (settings.CellFields, settings.CellSettings, settings.SystemSettings, settings.SubmissionSettings)
    fields = (field for part in parts for field in vars(part).values())
    names = {field.name for field in fields if isinstance(field, settings.SpecField)}
    assert "engine.backend" in names, "the declarations are not found"
    by_name = ((module.file, name) for module in modules().values() for name in _BY_NAME.findall(module.text))
    assert not [(file, name) for file, name in by_name if name in names]


def test_backends_read_their_options_as_attributes() -> None:
    backends = {
        name: module for name, module in modules().items() if name.startswith(("harness.backends", "harness.cuda"))
    }
    assert len(backends) > 10
    assert not [name for name, module in backends.items() if _OPTION.search(module.text)]
