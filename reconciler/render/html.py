"""Templates and styles of all HTML that this program writes: the page, and standalone reports."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from reconciler.resource.quantities import show_count, show_duration, show_rate, show_size

_PACKAGE = "reconciler.render"


def make_environment(*packages: str) -> Environment:
    """Make an environment that escapes all values and reports undefined ones. ``packages``: other packages with a
    folder of templates."""
    loader = ChoiceLoader([PackageLoader(package) for package in (*packages, _PACKAGE)])
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "duration": lambda value: show_duration(value) if value is not None else "",
        "size": show_size,
        "rate": lambda value: show_rate(value) if value is not None else "",
        "count": show_count,
        "moment": lambda text: f"{text[:16].replace('T', ' ')} UTC" if text else "",
    }
    return environment


def read_static(name: str, *packages: str) -> bytes:
    """Read a static file. ``packages``: other packages with a folder of such files."""
    places = (files(package) / "static" / name for package in (*packages, _PACKAGE))
    return next(place for place in places if place.is_file()).read_bytes()
