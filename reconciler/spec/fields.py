"""The types of single fields: how each is read (``scalars``, ``quantities``), and what an editor is told about it.

An optional field is None only when it is absent: an explicit null is refused by its reader.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from harness.contract import BACKENDS, BENCHMARKS
from reconciler.spec import scalars
from reconciler.spec.quantities import count, duration, power, rate
from reconciler.spec.scalars import (
    AUDIT_CONFIGS,
    CATEGORIES,
    DTYPES,
    HARNESS_RESULTS,
    PRECISIONS,
    PUBLISH,
    STATUSES,
    STOP_SIGNALS,
    USER_CONFS,
    fitting,
    one_of,
)

_NUMBER = r"[0-9][0-9_.]*([eE][-+]?[0-9]+)?"


def _duration_schema(*examples: str, zero: bool = False) -> dict[str, Any]:
    timed = {"type": "string", "pattern": f"^{_NUMBER} ?(ns|us|µs|ms|s|min|h)$", "examples": list(examples)}
    return {"oneOf": [timed, {"const": 0}]} if zero else timed


def _count_schema(least: int, most: int | None = None) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    return {"oneOf": [whole, {"type": "string", "pattern": "^[0-9][0-9_]*$"}]}


_TEXT = WithJsonSchema({"type": ["string", "number"]})
_FOLDER = WithJsonSchema({"type": ["string", "number"], "pattern": f"^{scalars.NAME.pattern}$"})
_PER_SECOND = f"^{_NUMBER}( ?(/s|qps|queries/s|samples/s))?$"

Text = Annotated[str, fitting(scalars.text), _TEXT]
OptionalText = Annotated[str | None, fitting(scalars.text), _TEXT]
Name = Annotated[str, fitting(scalars.name), _FOLDER]
OptionalName = Annotated[str | None, fitting(scalars.name), _FOLDER]
Round = Annotated[
    str,
    fitting(scalars.round_name),
    WithJsonSchema({"type": "string", "pattern": f"^{scalars.ROUND.pattern}$"}),
]
Flag = Annotated[bool | None, fitting(scalars.flag), WithJsonSchema({"type": "boolean"})]
Rate = Annotated[
    str | None,
    fitting(rate),
    WithJsonSchema({"oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _PER_SECOND}]}),
]
Latency = Annotated[
    int | None,
    fitting(lambda value: duration(value, "ns", zero=False)),
    WithJsonSchema(_duration_schema("15 ms", "130 ms", "2 s")),
]
Milliseconds = Annotated[
    int | None,
    fitting(lambda value: duration(value, "ms")),
    WithJsonSchema(_duration_schema("600 s", "10 min", zero=True)),
]
Microseconds = Annotated[
    int | None,
    fitting(lambda value: duration(value, "us")),
    WithJsonSchema(_duration_schema("500 us", "2 ms", zero=True)),
]
Count = Annotated[int | None, fitting(count), WithJsonSchema(_count_schema(1))]
CountOrNone = Annotated[int | None, fitting(lambda value: count(value, least=0)), WithJsonSchema(_count_schema(0))]
Streams = Annotated[int | None, fitting(lambda value: count(value, most=1024)), WithJsonSchema(_count_schema(1, 1024))]
Threads = Annotated[
    int | None, fitting(lambda value: count(value, least=0, most=4096)), WithJsonSchema(_count_schema(0, 4096))
]
Attempts = Annotated[int | None, fitting(lambda value: count(value, most=10)), WithJsonSchema(_count_schema(1, 10))]
Power = Annotated[
    int | None,
    fitting(power),
    WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER} ?(mW|W|kW)$", "examples": ["300 W", "1.2 kW"]}),
]
Digest = Annotated[
    str | None, fitting(scalars.sha256), WithJsonSchema({"type": "string", "pattern": "^(sha256:)?[0-9a-fA-F]{64}$"})
]
Location = Annotated[str | None, BeforeValidator(scalars.location), WithJsonSchema({"type": "string", "minLength": 1})]
Locations = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(scalars.locations),
    WithJsonSchema(
        {"oneOf": [{"type": "array", "items": {"type": "string", "minLength": 1}}, {"type": "string", "minLength": 1}]}
    ),
]
StoreUrl = Annotated[
    str,
    BeforeValidator(scalars.store_url),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"(^[a-z0-9+]+|\})://.|^\$\{",
            "examples": ["s3://bucket/folder", "file:///mnt/share"],
        }
    ),
]
StoreOption = Annotated[
    str | int | bool | tuple[str, str],
    fitting(scalars.store_option),
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
    BeforeValidator(scalars.code),
    WithJsonSchema({"anyOf": [{"enum": list(BENCHMARKS)}, {"type": "string", "pattern": r"(\.py|\})$"}]}),
]
Names = Annotated[
    tuple[str, ...] | None,
    fitting(scalars.names),
    WithJsonSchema({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Patterns = Annotated[
    tuple[str, ...] | None,
    fitting(scalars.patterns),
    WithJsonSchema({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Command = Annotated[
    tuple[str, ...] | None,
    fitting(scalars.command),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}),
]
Launcher = Annotated[
    tuple[str, ...] | None,
    fitting(scalars.launcher),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}),
]
VariableName = Annotated[str, fitting(scalars.variable_name), WithJsonSchema({"type": "string"})]
Variable = Annotated[
    str | tuple[str, str],
    fitting(scalars.variable),
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
]
Image = Annotated[
    str | None,
    fitting(scalars.image),
    WithJsonSchema({"type": "string", "pattern": "@sha256:[0-9a-f]{64}$"}),
]
UserConf = Annotated[
    str | None,
    fitting(one_of(USER_CONFS, "way to settle user.conf")),
    WithJsonSchema({"type": "string", "enum": list(USER_CONFS)}),
]
HarnessResults = Annotated[
    str | None,
    fitting(one_of(HARNESS_RESULTS, "form of results")),
    WithJsonSchema({"type": "string", "enum": list(HARNESS_RESULTS)}),
]
StopSignal = Annotated[
    str | None,
    fitting(one_of(STOP_SIGNALS, "signal to stop a service with")),
    WithJsonSchema({"type": "string", "enum": list(STOP_SIGNALS)}),
]
AuditConfig = Annotated[
    str | None,
    fitting(one_of(AUDIT_CONFIGS, "way to hand over audit settings")),
    WithJsonSchema({"type": "string", "enum": list(AUDIT_CONFIGS)}),
]
Day = Annotated[
    str | None, fitting(scalars.day), WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})
]
FreeValue = Annotated[
    str | int | bool, fitting(scalars.free_value), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
DescriptionName = Annotated[str, fitting(scalars.description_name), WithJsonSchema({"type": "string"})]
DescriptionValue = Annotated[
    str | int, fitting(scalars.description_value), WithJsonSchema({"type": ["string", "number"]})
]
Backend = Annotated[
    str | None, fitting(one_of(BACKENDS, "backend")), WithJsonSchema({"type": "string", "enum": list(BACKENDS)})
]
Precision = Annotated[
    str | None,
    fitting(one_of(PRECISIONS, "precision")),
    WithJsonSchema({"type": "string", "enum": list(PRECISIONS)}),
]
Dtype = Annotated[
    str | None,
    fitting(one_of(DTYPES, "data type")),
    WithJsonSchema({"type": "string", "enum": list(DTYPES)}),
]
TestName = Annotated[str, fitting(scalars.test_name), WithJsonSchema({"type": "string", "pattern": "^TEST[0-9]{2}$"})]
Publish = Annotated[
    str | None,
    fitting(one_of(PUBLISH, "choice of the published run")),
    WithJsonSchema({"type": "string", "enum": list(PUBLISH)}),
]
Category = Annotated[
    str, fitting(scalars.category), WithJsonSchema({"type": "string", "enum": [*CATEGORIES, "edge,datacenter"]})
]
Status = Annotated[str, fitting(one_of(STATUSES, "status")), WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
