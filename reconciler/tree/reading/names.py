"""Benchmark folders and their official benchmarks."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.rules.ruleset import Ruleset

# The official checker also guesses from a part of the name, in this order (submission checker: model mapping).
_GUESSES = (
    # For rounds that had small detectors.
    ("ssdlite", "ssd-small"),
    ("ssd-inception", "ssd-small"),
    ("ssd-mobilenet", "ssd-small"),
    ("ssd-resnet50", "ssd-small"),
    ("yolo", "ssd-small"),
    ("mobilenet", "resnet"),
    ("efficientnet", "resnet"),
    ("resnet50", "resnet"),
    ("bert-99.9", "bert-99.9"),
    ("bert-99", "bert-99"),
    ("llama3_1-405b", "llama3.1-405b"),
)


def find_official_name(folder: str, ruleset: Ruleset, mapping: Mapping[str, object]) -> str:
    """The official benchmark of a folder, "" for none. ``mapping``: the submitter's model_mapping.json, in open."""
    if folder in ruleset.benchmarks:
        return folder
    mapped = mapping.get(folder)
    if isinstance(mapped, str):
        return mapped if mapped in ruleset.benchmarks else ""
    guesses = (ruleset.find_official_name(name) for part, name in _GUESSES if part in folder)
    return ruleset.find_official_name(folder) or next(filter(None, guesses), "")
