"""Layout of an Endpoints submission (rules §8.1), and the names of its files."""

from __future__ import annotations

import re

POINT, CONFIG, SUMMARY = "point.yaml", "config.yaml", "result_summary.json"
ACCURACY, DESCRIPTION, POWER = "accuracy_results.json", "system_desc.json", "system_power.json"
README, DISCLOSURE = "README.md", "software_disclosure.md"
RESULTS, SOURCES, DOCUMENTS = "results", "src", "docs"

_POINT_FOLDER = re.compile(r"r(\d+)")
_NOT_IN_MODEL = re.compile(r"[^\w-]+")
_LONGEST_MODEL = 64

ROOT = "{submitter}/{submission}"
SOURCE_FILE = f"{ROOT}/{SOURCES}/{{implementation}}/{{file}}"
DOCUMENT_FILE = f"{ROOT}/{DOCUMENTS}/{{file}}"
SYSTEM_FILE = f"{ROOT}/{RESULTS}/{{system}}/{{file}}"
POINT_FILE = f"{ROOT}/{RESULTS}/{{system}}/{{model}}/{{point}}/{{file}}"


def name_point(concurrency: int) -> str:
    return f"r{concurrency}"


def parse_point_name(name: str) -> int | None:
    """Return the concurrency in the name of a point's folder, None for another folder."""
    match = _POINT_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def canonicalise_model(name: str) -> str:
    """Return the model's name for its folder and for point.yaml: without the organisation, and with _ for every
    character other than letters, digits, _ and -."""
    return re.sub("_+", "_", _NOT_IN_MODEL.sub("_", name.rpartition("/")[2].strip())).strip("_")[:_LONGEST_MODEL]
