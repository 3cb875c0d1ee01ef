"""The types of single fields: how each is read (``scalars``, ``quantities``), and its schema for editors.

An optional field is None only if it is missing, since its reader refuses an explicit null.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import WithJsonSchema

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS
from reconciler.spec import scalars
from reconciler.spec.quantities import parse_count, parse_duration, parse_power, parse_rate
from reconciler.spec.scalars import FieldReader, choose_from
from reconciler.storage.packaged_files import UNIT

MAY_NAME_VARIABLES = "may name environment variables"  # marks a type whose ${NAME} is expanded, or left to a shell
_NUMBER = r"[0-9][0-9_.]*([eE][-+]?[0-9]+)?"
_PER_SECOND = f"^{_NUMBER}( ?(/s|qps|queries/s|samples/s))?( per accelerator)?$"


def _read_duration(unit: str, *examples: str, zero: bool = True) -> FieldReader:
    """``unit``: the unit in which the value is stored and displayed."""
    timed = {"type": "string", "pattern": f"^{_NUMBER} ?(ns|us|µs|ms|s|min|h)$", "examples": list(examples)}
    schema = {"oneOf": [timed, {"const": 0}]} if zero else timed
    return FieldReader(partial(parse_duration, base=unit, zero=zero), {**schema, UNIT: unit})


def _make_count_schema(least: int, most: int | None = None) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    return {"oneOf": [whole, {"type": "string", "pattern": "^[0-9][0-9_]*$"}]}


def _read_count(least: int, most: int | None = None) -> FieldReader:
    bounds = {"least": least} if most is None else {"least": least, "most": most}
    return FieldReader(partial(parse_count, **bounds), _make_count_schema(least, most))


def _one_or_more(item: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"oneOf": [{"type": "array", "items": item, **bounds}, item]}


_TEXT = {"type": ["string", "number"]}
_WORDS = {"type": "array", "items": _TEXT, "minItems": 1}
_PATH = {"type": "string", "minLength": 1}
_FOLDER = {**_TEXT, "pattern": f"^{scalars.NAME.pattern}$"}
_SLICES = {
    "type": "object",
    "properties": {
        "profile": {"type": "string", "pattern": f"^{scalars.PROFILE.pattern}$", "description": "Such as 1g.10gb."},
        "count": {**_make_count_schema(1, 1024), "description": "Slices of this profile on each node; default: 1."},
    },
    "required": ["profile"],
    "additionalProperties": False,
}
_FROM_ENVIRONMENT = {
    "type": "object",
    "properties": {"from_env": {"type": "string", "description": "Environment variable."}},
    "required": ["from_env"],
    "additionalProperties": False,
}

Text = Annotated[str, FieldReader(scalars.parse_text, _TEXT)]
OptionalText = Annotated[str | None, FieldReader(scalars.parse_text, _TEXT)]
Accelerator = Annotated[str | None, FieldReader(scalars.parse_accelerator, _TEXT)]
Name = Annotated[str, FieldReader(scalars.parse_name, _FOLDER)]
OptionalName = Annotated[str | None, FieldReader(scalars.parse_name, _FOLDER)]
Round = Annotated[
    str, FieldReader(scalars.parse_round_name, {"type": "string", "pattern": f"^{scalars.ROUND.pattern}$"})
]
Flag = Annotated[bool | None, FieldReader(scalars.parse_flag, {"type": "boolean"})]
Rate = Annotated[
    str | None,
    FieldReader(
        parse_rate, {"oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _PER_SECOND}]}
    ),
]
Latency = Annotated[int | None, _read_duration("ns", "15 ms", "130 ms", "2 s", zero=False)]
Milliseconds = Annotated[int | None, _read_duration("ms", "600 s", "10 min")]
Microseconds = Annotated[int | None, _read_duration("us", "500 us", "2 ms")]
Count = Annotated[int | None, _read_count(1)]
CountOrNone = Annotated[int | None, _read_count(0)]
Streams = Annotated[int | None, _read_count(1, 1024)]
Threads = Annotated[int | None, _read_count(0, 4096)]
Attempts = Annotated[int | None, _read_count(1, 10)]
Power = Annotated[
    int | None,
    FieldReader(
        parse_power,
        {"type": "string", "pattern": f"^{_NUMBER} ?(mW|W|kW)$", "examples": ["300 W", "1.2 kW"], UNIT: "mW"},
    ),
]
Slices = Annotated[
    str | None,
    FieldReader(scalars.parse_slices, {"oneOf": [_SLICES, {"type": "array", "items": _SLICES, "minItems": 1}]}),
]
Digest = Annotated[
    str | None, FieldReader(scalars.parse_sha256, {"type": "string", "pattern": "^(sha256:)?[0-9a-fA-F]{64}$"})
]
Location = Annotated[str | None, FieldReader(scalars.parse_location, _PATH, expands=True), MAY_NAME_VARIABLES]
Locations = Annotated[
    tuple[str, ...] | None, FieldReader(scalars.parse_locations, _one_or_more(_PATH), expands=True), MAY_NAME_VARIABLES
]
StoreUrl = Annotated[
    str,
    FieldReader(
        scalars.parse_store_url,
        {
            "type": "string",
            "pattern": r"(^[a-z0-9+]+|\})://.|^\$\{",
            "examples": ["s3://bucket/folder", "file:///mnt/share"],
        },
        expands=True,
    ),
    MAY_NAME_VARIABLES,
]
StoreOption = Annotated[
    str | int | bool | tuple[str, str],
    FieldReader(scalars.parse_store_option, {"oneOf": [{"type": ["string", "integer", "boolean"]}, _FROM_ENVIRONMENT]}),
]
Code = Annotated[
    str | None,
    FieldReader(
        scalars.parse_code,
        {"anyOf": [{"enum": list(BENCHMARKS)}, {"type": "string", "pattern": r"(\.py|\})$"}]},
        expands=True,
    ),
    MAY_NAME_VARIABLES,
]
Names = Annotated[
    tuple[str, ...] | None,
    FieldReader(scalars.parse_list_of("names", "write [name, other], or remove it"), _one_or_more({"type": "string"})),
]
Patterns = Annotated[
    tuple[str, ...] | None,
    FieldReader(scalars.parse_list_of("patterns", 'write ["git@host:*", …]'), _one_or_more({"type": "string"})),
]
Command = Annotated[tuple[str, ...] | None, FieldReader(scalars.parse_command, _WORDS)]
CommandOfHarness = Annotated[Command, MAY_NAME_VARIABLES]
Launcher = Annotated[tuple[str, ...] | None, FieldReader(scalars.parse_launcher, _WORDS)]
VariableName = Annotated[str, FieldReader(scalars.parse_variable_name, {"type": "string"})]
Variable = Annotated[
    str | tuple[str, str],
    FieldReader(scalars.parse_variable, {"oneOf": [_TEXT, _FROM_ENVIRONMENT]}),
    MAY_NAME_VARIABLES,
]
Image = Annotated[str | None, FieldReader(scalars.parse_image, {"type": "string", "pattern": "@sha256:[0-9a-f]{64}$"})]
UserConf = Annotated[str | None, choose_from(("written", "harvested"), "source of user.conf")]
HarnessResults = Annotated[str | None, choose_from(scalars.HARNESS_RESULTS, "form of results")]
Program = Annotated[str | None, choose_from(scalars.PROGRAM_NAMES, "program")]
StopSignal = Annotated[
    str | None,
    choose_from(
        ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"), "signal to stop a service with"
    ),
]
AuditConfig = Annotated[str | None, choose_from(("path", "placed"), "way to pass audit settings")]
Day = Annotated[
    str | None, FieldReader(scalars.parse_day, {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})
]
FreeValue = Annotated[
    str | int | bool, FieldReader(scalars.parse_free_value, {"type": ["string", "number", "boolean"]})
]
LabelName = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9./_-]*$"})]
DescriptionName = Annotated[str, FieldReader(scalars.parse_description_name, {"type": "string"})]
DescriptionValue = Annotated[str | int, FieldReader(scalars.parse_description_value, _TEXT)]
Backend = Annotated[str | None, choose_from(BACKENDS, "backend")]
Precision = Annotated[str | None, choose_from(scalars.PRECISIONS, "precision")]
Dtype = Annotated[str | None, choose_from(("byte", "int16", "int32", "int64", "float32"), "data type")]
TestName = Annotated[str, FieldReader(scalars.parse_test_name, {"type": "string", "pattern": "^TEST[0-9]{2}$"})]
Publish = Annotated[str | None, choose_from(("latest", "median", "best"), "choice of the published run")]
Category = Annotated[
    str | None,
    FieldReader(scalars.parse_category, {"type": "string", "enum": [*scalars.CATEGORIES, "edge,datacenter"]}),
]
Status = Annotated[str | None, choose_from(("available", "preview", "rdi"), "status")]
