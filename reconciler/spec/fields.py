"""The types of single fields: how each is read (``scalars``, ``quantities``), and its schema for an editor.

An optional field is None only when it is absent: an explicit null is refused by its reader.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS
from reconciler.spec import scalars
from reconciler.spec.quantities import parse_count, parse_duration, parse_power, parse_rate
from reconciler.spec.scalars import (
    AUDIT_CONFIGS,
    CATEGORIES,
    DTYPES,
    HARNESS_RESULTS,
    PRECISIONS,
    PROGRAM_NAMES,
    PUBLISH,
    STATUSES,
    STOP_SIGNALS,
    USER_CONFS,
    check_fitting,
    parse_one_of,
)
from reconciler.storage.packaged_files import UNIT

MAY_NAME_VARIABLES = "may name environment variables"  # marks a type: ${NAME} is expanded, or left to a shell
_NUMBER = r"[0-9][0-9_.]*([eE][-+]?[0-9]+)?"


def _duration_schema(unit: str, *examples: str, zero: bool = False) -> dict[str, Any]:
    """``unit``: in which its value is kept, by which it is shown."""
    timed = {"type": "string", "pattern": f"^{_NUMBER} ?(ns|us|µs|ms|s|min|h)$", "examples": list(examples)}
    return {**({"oneOf": [timed, {"const": 0}]} if zero else timed), UNIT: unit}


def _count_schema(least: int, most: int | None = None) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    return {"oneOf": [whole, {"type": "string", "pattern": "^[0-9][0-9_]*$"}]}


_TEXT = WithJsonSchema({"type": ["string", "number"]})
_FOLDER = WithJsonSchema({"type": ["string", "number"], "pattern": f"^{scalars.NAME.pattern}$"})
_PER_SECOND = f"^{_NUMBER}( ?(/s|qps|queries/s|samples/s))?( per accelerator)?$"

Text = Annotated[str, check_fitting(scalars.parse_text), _TEXT]
OptionalText = Annotated[str | None, check_fitting(scalars.parse_text), _TEXT]
Accelerator = Annotated[str | None, check_fitting(scalars.parse_accelerator), _TEXT]
Name = Annotated[str, check_fitting(scalars.parse_name), _FOLDER]
OptionalName = Annotated[str | None, check_fitting(scalars.parse_name), _FOLDER]
Round = Annotated[
    str,
    check_fitting(scalars.parse_round_name),
    WithJsonSchema({"type": "string", "pattern": f"^{scalars.ROUND.pattern}$"}),
]
Flag = Annotated[bool | None, check_fitting(scalars.parse_flag), WithJsonSchema({"type": "boolean"})]
Rate = Annotated[
    str | None,
    check_fitting(parse_rate),
    WithJsonSchema({"oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _PER_SECOND}]}),
]
Latency = Annotated[
    int | None,
    check_fitting(lambda value: parse_duration(value, "ns", zero=False)),
    WithJsonSchema(_duration_schema("ns", "15 ms", "130 ms", "2 s")),
]
Milliseconds = Annotated[
    int | None,
    check_fitting(lambda value: parse_duration(value, "ms")),
    WithJsonSchema(_duration_schema("ms", "600 s", "10 min", zero=True)),
]
Microseconds = Annotated[
    int | None,
    check_fitting(lambda value: parse_duration(value, "us")),
    WithJsonSchema(_duration_schema("us", "500 us", "2 ms", zero=True)),
]
Count = Annotated[int | None, check_fitting(parse_count), WithJsonSchema(_count_schema(1))]
CountOrNone = Annotated[
    int | None, check_fitting(lambda value: parse_count(value, least=0)), WithJsonSchema(_count_schema(0))
]
Streams = Annotated[
    int | None, check_fitting(lambda value: parse_count(value, most=1024)), WithJsonSchema(_count_schema(1, 1024))
]
Threads = Annotated[
    int | None,
    check_fitting(lambda value: parse_count(value, least=0, most=4096)),
    WithJsonSchema(_count_schema(0, 4096)),
]
Attempts = Annotated[
    int | None, check_fitting(lambda value: parse_count(value, most=10)), WithJsonSchema(_count_schema(1, 10))
]
Power = Annotated[
    int | None,
    check_fitting(parse_power),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_NUMBER} ?(mW|W|kW)$", "examples": ["300 W", "1.2 kW"], UNIT: "mW"}
    ),
]
_SLICES = {
    "type": "object",
    "properties": {
        "profile": {"type": "string", "pattern": f"^{scalars.PROFILE.pattern}$", "description": "Such as 1g.10gb."},
        "count": {**_count_schema(1, 1024), "description": "Slices of this profile on each node; default: 1."},
    },
    "required": ["profile"],
    "additionalProperties": False,
}
Slices = Annotated[
    str | None,
    check_fitting(scalars.parse_slices),
    WithJsonSchema({"oneOf": [_SLICES, {"type": "array", "items": _SLICES, "minItems": 1}]}),
]
Digest = Annotated[
    str | None,
    check_fitting(scalars.parse_sha256),
    WithJsonSchema({"type": "string", "pattern": "^(sha256:)?[0-9a-fA-F]{64}$"}),
]
Location = Annotated[
    str | None,
    BeforeValidator(scalars.parse_location),
    WithJsonSchema({"type": "string", "minLength": 1}),
    MAY_NAME_VARIABLES,
]
Locations = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(scalars.parse_locations),
    WithJsonSchema(
        {"oneOf": [{"type": "array", "items": {"type": "string", "minLength": 1}}, {"type": "string", "minLength": 1}]}
    ),
    MAY_NAME_VARIABLES,
]
StoreUrl = Annotated[
    str,
    BeforeValidator(scalars.parse_store_url),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"(^[a-z0-9+]+|\})://.|^\$\{",
            "examples": ["s3://bucket/folder", "file:///mnt/share"],
        }
    ),
    MAY_NAME_VARIABLES,
]
StoreOption = Annotated[
    str | int | bool | tuple[str, str],
    check_fitting(scalars.parse_store_option),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": ["string", "integer", "boolean"]},
                {
                    "type": "object",
                    "properties": {"from_env": {"type": "string", "description": "Variable of your environment."}},
                    "required": ["from_env"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Code = Annotated[
    str | None,
    BeforeValidator(scalars.parse_code),
    WithJsonSchema({"anyOf": [{"enum": list(BENCHMARKS)}, {"type": "string", "pattern": r"(\.py|\})$"}]}),
    MAY_NAME_VARIABLES,
]
Names = Annotated[
    tuple[str, ...] | None,
    check_fitting(scalars.parse_names),
    WithJsonSchema({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Patterns = Annotated[
    tuple[str, ...] | None,
    check_fitting(scalars.parse_patterns),
    WithJsonSchema({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Command = Annotated[
    tuple[str, ...] | None,
    check_fitting(scalars.parse_command),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}),
]
CommandOfHarness = Annotated[Command, MAY_NAME_VARIABLES]
Launcher = Annotated[
    tuple[str, ...] | None,
    check_fitting(scalars.parse_launcher),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}),
]
VariableName = Annotated[str, check_fitting(scalars.parse_variable_name), WithJsonSchema({"type": "string"})]
Variable = Annotated[
    str | tuple[str, str],
    check_fitting(scalars.parse_variable),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": ["string", "number"]},
                {
                    "type": "object",
                    "properties": {"from_env": {"type": "string", "description": "Variable of your environment."}},
                    "required": ["from_env"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
    MAY_NAME_VARIABLES,
]
Image = Annotated[
    str | None,
    check_fitting(scalars.parse_image),
    WithJsonSchema({"type": "string", "pattern": "@sha256:[0-9a-f]{64}$"}),
]
UserConf = Annotated[
    str | None,
    check_fitting(parse_one_of(USER_CONFS, "way to settle user.conf")),
    WithJsonSchema({"type": "string", "enum": list(USER_CONFS)}),
]
HarnessResults = Annotated[
    str | None,
    check_fitting(parse_one_of(HARNESS_RESULTS, "form of results")),
    WithJsonSchema({"type": "string", "enum": list(HARNESS_RESULTS)}),
]
Program = Annotated[
    str | None,
    check_fitting(parse_one_of(PROGRAM_NAMES, "program")),
    WithJsonSchema({"type": "string", "enum": list(PROGRAM_NAMES)}),
]
StopSignal = Annotated[
    str | None,
    check_fitting(parse_one_of(STOP_SIGNALS, "signal to stop a service with")),
    WithJsonSchema({"type": "string", "enum": list(STOP_SIGNALS)}),
]
AuditConfig = Annotated[
    str | None,
    check_fitting(parse_one_of(AUDIT_CONFIGS, "way to hand over audit settings")),
    WithJsonSchema({"type": "string", "enum": list(AUDIT_CONFIGS)}),
]
Day = Annotated[
    str | None,
    check_fitting(scalars.parse_day),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
]
FreeValue = Annotated[
    str | int | bool, check_fitting(scalars.parse_free_value), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
LabelName = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9./_-]*$"})]
DescriptionName = Annotated[str, check_fitting(scalars.parse_description_name), WithJsonSchema({"type": "string"})]
DescriptionValue = Annotated[
    str | int, check_fitting(scalars.parse_description_value), WithJsonSchema({"type": ["string", "number"]})
]
Backend = Annotated[
    str | None,
    check_fitting(parse_one_of(BACKENDS, "backend")),
    WithJsonSchema({"type": "string", "enum": list(BACKENDS)}),
]
Precision = Annotated[
    str | None,
    check_fitting(parse_one_of(PRECISIONS, "precision")),
    WithJsonSchema({"type": "string", "enum": list(PRECISIONS)}),
]
Dtype = Annotated[
    str | None,
    check_fitting(parse_one_of(DTYPES, "data type")),
    WithJsonSchema({"type": "string", "enum": list(DTYPES)}),
]
TestName = Annotated[
    str, check_fitting(scalars.parse_test_name), WithJsonSchema({"type": "string", "pattern": "^TEST[0-9]{2}$"})
]
Publish = Annotated[
    str | None,
    check_fitting(parse_one_of(PUBLISH, "choice of the published run")),
    WithJsonSchema({"type": "string", "enum": list(PUBLISH)}),
]
Category = Annotated[
    str | None,
    check_fitting(scalars.parse_category),
    WithJsonSchema({"type": "string", "enum": [*CATEGORIES, "edge,datacenter"]}),
]
Status = Annotated[
    str | None,
    check_fitting(parse_one_of(STATUSES, "status")),
    WithJsonSchema({"type": "string", "enum": list(STATUSES)}),
]
