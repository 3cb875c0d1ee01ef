"""Templates and styles of all HTML that this program writes: the page, and standalone reports."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from reconciler.resource.quantities import show_count, show_duration, show_rate, show_size

_PACKAGE = "reconciler.page"


def make_environment() -> Environment:
    """Everything that a template shows is escaped, and nothing is left out in silence."""
    environment = Environment(
        loader=PackageLoader(_PACKAGE), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "duration": lambda value: show_duration(value) if value is not None else "",
        "size": show_size,
        "rate": lambda value: show_rate(value) if value is not None else "",
        "count": show_count,
        "moment": lambda text: f"{text[:16].replace('T', ' ')} UTC" if text else "",
    }
    return environment


def read_static(name: str) -> bytes:
    return (files(_PACKAGE) / "static" / name).read_bytes()
