"""Benchmark folders and the official benchmarks they stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# The official checker takes these for the official name (submission checker: model mapping).
ALIASES: Mapping[str, str] = {
    "ssd-resnet34": "retinanet",
    "mobilenet": "resnet",
    "resnet50": "resnet",
    "llama3_1-405b": "llama3.1-405b",
    "llama3_1-8b": "llama3.1-8b",
    "llama3_1-8b-edge": "llama3.1-8b-edge",
}
# And a name that contains one of these, in this order.
_GUESSES = (
    ("mobilenet", "resnet"),
    ("efficientnet", "resnet"),
    ("resnet50", "resnet"),
    ("bert-99.9", "bert-99.9"),
    ("bert-99", "bert-99"),
    ("llama3_1-405b", "llama3.1-405b"),
)


def official_name(folder: str, known: Collection[str], mapping: Mapping[str, object]) -> str | None:
    """The official benchmark of a folder; ``mapping`` is the submitter's model_mapping.json, empty but in open."""
    if folder in known:
        return folder
    mapped = mapping.get(folder)
    if isinstance(mapped, str):
        return mapped if mapped in known else None
    alias = ALIASES.get(folder) or next((name for part, name in _GUESSES if part in folder), None)
    return alias if alias in known else None
