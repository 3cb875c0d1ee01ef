"""Finds the rounds: YAML files that ship beside this module, one per round. The newest explains their form.

A round that ``extends`` another is that one with its own values in place of those that changed; ``removed`` names what
is gone. The rest is parsed in ``rounds_parsing.py``.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from reconciler.errors import ReconcilerError
from reconciler.mlperf.rounds_parsing import merge_fields, parse_ruleset
from reconciler.mlperf.ruled_value import RoundFileError, parse_ruled_value
from reconciler.mlperf.ruleset import Ruleset

__all__ = ["RoundFileError", "extend_round", "list_rounds", "load_ruleset", "parse_ruled_value", "parse_ruleset"]

_FOLDER = importlib.resources.files("reconciler.mlperf") / "rounds"


def list_rounds() -> tuple[str, ...]:
    """Every round that ships, oldest first."""
    names = (entry.name for entry in _FOLDER.iterdir())
    rounds = (name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))
    return tuple(sorted(rounds, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]))


@functools.cache
def load_ruleset(name: str) -> Ruleset:
    """The rules of a round such as "v6.1". ReconcilerError names the nearest round and lists all when there is none."""
    rounds = list_rounds()
    if name not in rounds:
        nearest = difflib.get_close_matches(name, rounds, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise ReconcilerError(f"unknown round {name!r}", fix=f"{hint}known rounds: {', '.join(rounds)}")
    return parse_ruleset(_document(name))


def _document(name: str) -> Mapping[str, Any]:
    own = YAML(typ="safe").load((_FOLDER / f"{name}.yaml").read_bytes())
    return extend_round(_document(own["extends"]), own) if "extends" in own else own


def extend_round(base: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """A round's document over that of the round it extends. A ruled value is replaced whole, never merged.

    ``removed`` names places of ``base`` as paths with slashes; RoundFileError when there is nothing at one.
    """
    kept = base
    for path in own.get("removed", ()):
        kept = _without(kept, path.split("/"), path)
    return merge_fields(kept, {key: value for key, value in own.items() if key not in ("extends", "removed")})


def _without(group: Mapping[str, Any], parts: list[str], path: str) -> dict[str, Any]:
    head, *rest = parts
    if head not in group:
        raise RoundFileError(f"removed: there is no {path}")
    if not rest:
        return {key: value for key, value in group.items() if key != head}
    return {**group, head: _without(group[head], rest, path)}
