"""Layout of a submission, as data chosen by the ruleset's ``layout``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Cell
from reconciler.rules.ruleset import Ruleset

CHECKER_LOG = "submission_checker_log.txt"  # in results/: the output of the official checker
# Valid folder names: no separators, spaces or leading dots (the submission rules forbid the last two).
_NAME = re.compile(r"[A-Za-z0-9_+=,@#%~-][A-Za-z0-9_.+=,@#%~-]*")


class Layout(Struct, frozen=True):
    """Path templates below the tree's root. {division} and {submitter} are always available; cells add {system},
    {benchmark} and {scenario}; {test} is a compliance test, {file} a path below the place. ``cell_file``: a file of a
    scenario folder, for results without run_1."""

    name: str
    system: str
    nameplate: str
    model_mapping: str
    source: str
    document: str
    measurements: str
    user_conf: str
    built_in_conf: str
    readme: str
    performance: str
    accuracy: str
    compliance: str
    power: str
    cell_file: str


_CELL = "{division}/{submitter}/results/{system}/{benchmark}/{scenario}"
_MEASUREMENTS = "{division}/{submitter}/measurements/{system}/{benchmark}/{scenario}"

# Rounds from v6.0 on: all files of a cell in one folder, code in src.
_V6 = Layout(
    name="v6",
    system="{division}/{submitter}/systems/{system}.json",
    nameplate="{division}/{submitter}/systems/{system}_power.yaml",
    model_mapping="{division}/{submitter}/model_mapping.json",
    source="{division}/{submitter}/src/{benchmark}/{file}",
    document="{division}/{submitter}/{file}",
    measurements=f"{_CELL}/measurements.json",
    user_conf=f"{_CELL}/user.conf",
    built_in_conf=f"{_CELL}/mlperf.conf",
    readme=f"{_CELL}/README.md",
    performance=f"{_CELL}/performance/run_1/{{file}}",
    accuracy=f"{_CELL}/accuracy/{{file}}",
    compliance=f"{_CELL}/{{test}}/{{file}}",
    power=f"{_CELL}/performance/{{file}}",
    cell_file=f"{_CELL}/{{file}}",
)
# Rounds up to v5.1: separate folders for results, measurements, compliance and code.
_LEGACY = replace(
    _V6,
    name="legacy",
    source="{division}/{submitter}/code/{benchmark}/{file}",
    measurements=f"{_MEASUREMENTS}/{{system}}_{{scenario}}.json",
    user_conf=f"{_MEASUREMENTS}/user.conf",
    built_in_conf=f"{_MEASUREMENTS}/mlperf.conf",
    readme=f"{_MEASUREMENTS}/README.md",
    compliance="{division}/{submitter}/compliance/{system}/{benchmark}/{scenario}/{test}/{file}",
)
LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (_V6, _LEGACY)}


# The path of a cell by a layout's template, with values for the template's additional names.
MakePath = Callable[..., str]


def name_folders(cell: Cell, official: str, ruleset: Ruleset) -> Cell:
    """Return the cell with its folder names. In divisions without model_mapping.json, which would explain another name,
    the benchmark's folder has the round's name."""
    return cell if ruleset.binds(cell.division, "model_mapping") else replace(cell, benchmark=official)


@lru_cache(maxsize=4096)
def is_portable(name: str) -> bool:
    """Return True for a name allowed in a submission tree. Cached, since thousands of paths consist of the same few
    names."""
    return _NAME.fullmatch(name) is not None


def make_path(template: str, **names: str) -> str:
    """Fill in a template. Every name must be allowed in a submission tree; {file} may contain folders."""
    for kind, name in names.items():
        parts = name.split("/") if kind == "file" else [name]
        for part in parts:
            if not is_portable(part):
                raise ReconcilerError(
                    f"{kind} {name!r} cannot be a name in a submission tree",
                    fix="use letters, digits and . _ - + = , @ # % ~ only, no blank, and no dot in front",
                )
    return template.format_map(names)
