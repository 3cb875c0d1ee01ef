"""Readers of single values: each function accepts a YAML value, and raises ``UnfitError`` with the fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from msgspec import Struct
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS, read_slices, write_slices
from reconciler.resource.canonical import show_decimal
from reconciler.resource.programs import BUILT_IN, PROGRAMS
from reconciler.spec.locations import Variables
from reconciler.spec.names import give_advice
from reconciler.spec.nodes import Number
from reconciler.spec.quantities import UnfitError, parse_count, show_quantity
from reconciler.storage.launch.adapters import find_unfit as unfit_launcher

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
ROUND = re.compile(r"v[0-9]{1,3}\.[0-9]{1,3}")
PROFILE = re.compile(r"([1-9]c\.)?[1-9]g\.[1-9][0-9]*gb([+-][a-z.]+)*")  # NVIDIA's name of a slice's profile
_DIGEST = re.compile(r"[0-9a-f]{64}")
_COUNTED = re.compile(r"([1-9][0-9]*) ?[xX\u00d7] ?([A-Z][A-Za-z]{2}.*)")  # "8x NVIDIA H200"
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")

# Fields of systems/<name>.json that are derived from other parts of the spec, so that they cannot contradict it.
_SET_ELSEWHERE = {
    "division": "the cell's position in spec.divisions",
    "submitter": "spec.submitter",
    "status": "the system's status",
    "system_type": "the system's category",
}

CATEGORIES = ("datacenter", "edge", "datacenter,edge")
HARNESS_RESULTS = ("loadgen", *(name for entry in PROGRAMS.values() for name in entry.declared))
PROGRAM_NAMES = (BUILT_IN, *PROGRAMS)
PRECISIONS = tuple(sorted({precision for facts in BACKENDS.values() for precision in facts.precisions}))


class FieldReader(Struct, frozen=True):
    """Reader of a field, and its schema for editors, None for the schema of its type. ``parse`` raises UnfitError.

    ``expands``: ``parse`` also gets the environment, as Variables, to replace ``${NAME}``.
    """

    parse: Callable[..., Any]
    schema: Mapping[str, Any] | None = None
    expands: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(schema) if self.schema is None else dict(self.schema)

    def _read(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        variables = info.context if isinstance(info.context, Variables) else Variables({})
        try:
            return self.parse(value, variables) if self.expands else self.parse(value)
        except UnfitError as error:  # shown to the user with its fix
            raise PydanticCustomError("unfit", "{message}", {"message": error.message, "fix": error.fix}) from error


def choose_from(valid: Iterable[str], noun: str) -> FieldReader:
    names = tuple(valid)
    return FieldReader(parse_one_of(names, noun), {"type": "string", "enum": list(names)})


def parse_text(value: Any) -> str:
    """Parse text; an unquoted number is accepted as text."""
    if not isinstance(value, str):
        raise UnfitError(f"expected text, not {show_quantity(value)}", _advise_text(value))
    if not value.strip():
        raise UnfitError("the text is empty", 'write the text, or "N/A"')
    return str(value)


def _advise_text(value: Any) -> str:
    if value is None:
        return "add a value after the ':', or remove the line"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return f"write {value[0]} without the brackets"
    return 'write the text in quotes, such as "No"'


def parse_name(value: Any) -> str:
    """Parse a name that can be a folder of the submission tree."""
    written = parse_text(value)
    if not NAME.fullmatch(written):
        fixed = re.sub(r"[^A-Za-z0-9._+-]+", "_", written).strip("_.-") or "name"
        problem = f"{show_quantity(written)} is not a valid folder name"
        raise UnfitError(problem, f"use letters, digits and . _ + -, such as {fixed[:100]}")
    return written


def parse_one_of(valid: Iterable[str], noun: str) -> Callable[[Any], str]:
    names = tuple(valid)

    def parse(value: Any) -> str:
        if value is None and "null" in names:
            raise UnfitError(f"expected a {noun}, found nothing", 'write the name; quote "null" to use it as a name')
        if not isinstance(value, str):
            raise UnfitError(f"expected a {noun}, not {show_quantity(value)}", f"write one of {', '.join(names)}")
        if value not in names:
            raise UnfitError(f"{show_quantity(value)} is not a valid {noun}", give_advice(value, names))
        return str(value)

    return parse


def parse_category(value: Any) -> str:
    parts = sorted(part.strip() for part in value.split(",")) if isinstance(value, str) else ()
    joined = ",".join(parts)
    return joined if joined in CATEGORIES else parse_one_of(CATEGORIES, "category")(value)


def parse_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UnfitError(f"expected true or false, not {show_quantity(value)}", "write true or false, without quotes")
    return value


def parse_matching(pattern: str, noun: str, fix: str) -> Callable[[Any], str]:
    """Return a parser for text that matches a pattern completely."""

    def parse(value: Any) -> str:
        written = parse_text(value)
        if not re.fullmatch(pattern, written):
            raise UnfitError(f"{show_quantity(written)} is not a {noun}", fix)
        return written

    return parse


parse_round_name = parse_matching(ROUND.pattern, "round", "use the form v6.1")
parse_test_name = parse_matching("TEST[0-9]{2}", "compliance test", "use the form TEST01")
parse_variable_name = parse_matching(
    "[A-Za-z_][A-Za-z0-9_]*", "valid environment variable name", "use letters, digits and _"
)


def parse_sha256(value: Any) -> str:
    written = parse_text(value).lower().removeprefix("sha256:")
    if not _DIGEST.fullmatch(written):
        raise UnfitError(
            f"{show_quantity(value)} is not a SHA-256 digest ({len(written)} characters; expected 64 of 0-9 a-f)",
            "use the output of 'sha256sum FILE'",
        )
    return written


def parse_free_value(value: Any) -> str | int | bool:
    """Parse text, true or false, an integer, or another number as decimal text."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise UnfitError(f"expected a single value, not {show_quantity(value)}", "write text, a number, true or false")
    if isinstance(value, Number):
        is_plain = len(value) <= 24 and "e" not in value.lower()
        return int(value) if _WHOLE.fullmatch(value) else show_decimal(value) if is_plain else str(value)
    return str(value)


def parse_description_value(value: Any) -> str | int:
    """Parse a value of systems/<name>.json: text as written, or an integer."""
    if isinstance(value, bool) or value is None:
        problem = f"expected text or a number, not {show_quantity(value)}"
        raise UnfitError(problem, 'write text in quotes; "N/A" if it does not apply')
    found = parse_free_value(value)
    return str(value) if isinstance(value, Number) and not isinstance(found, int) else found


def parse_description_name(value: Any) -> str:
    """Parse the name of a field of systems/<name>.json, unless the spec sets that field elsewhere."""
    written = parse_text(value)
    if written in _SET_ELSEWHERE:
        problem = f"{written} is not a field of the description"
        raise UnfitError(problem, f"it follows from {_SET_ELSEWHERE[written]}: remove it here")
    return written


def parse_location(value: Any, variables: Variables) -> str:
    """Parse a path, and replace ``${NAME}`` from the environment."""
    return variables.expand(parse_text(value))


def parse_locations(value: Any, variables: Variables) -> tuple[str, ...]:
    """Parse one path, or a list of paths."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise UnfitError("the list of paths is empty", "add a file or folder, or remove it")
    return tuple(parse_location(item, variables) for item in items)


def parse_store_url(value: Any, variables: Variables) -> str:
    """Parse the URL of an object store, as fsspec defines them."""
    url = variables.expand(parse_text(value), sent=True)
    protocol, mark, rest = url.partition("://")
    if not mark or not re.fullmatch("[a-z0-9+]+", protocol) or not rest.strip("/"):
        problem = f"{show_quantity(url)} is not a store url"
        raise UnfitError(problem, "use a url such as s3://bucket/folder or file:///mnt/share")
    return url


def parse_store_option(value: Any) -> str | int | bool | tuple[str, str]:
    """Parse a plain value, or a reference to a variable of the caller's environment."""
    if isinstance(value, dict) and list(value) == ["from_env"]:
        return "from_env", parse_variable_name(value["from_env"])
    if isinstance(value, (str, bool, int)):
        return str(value) if isinstance(value, str) else value
    problem = f"{show_quantity(value)} is not a valid store option"
    raise UnfitError(problem, "write a value, or {from_env: NAME} for a secret")


def parse_code(value: Any, variables: Variables) -> str:
    """Parse a built-in benchmark's name, or the path of a user's own benchmark file."""
    path = parse_location(value, variables)
    if path.endswith(".py") or path in BENCHMARKS:
        return path
    if "/" in path:
        fix = "use the benchmark's Python file, such as benchmarks/mine.py"
        raise UnfitError(f"{show_quantity(path)} does not end in .py", fix)
    fix = f"{give_advice(path, BENCHMARKS)}, or the path of your own benchmark file, such as benchmarks/{path}.py"
    raise UnfitError(f"{show_quantity(path)} is not a built-in benchmark", fix)


def parse_day(value: Any) -> str:
    """Parse a day in ISO form."""
    written = parse_text(value)
    try:
        return date.fromisoformat(written).isoformat()
    except ValueError as error:
        raise UnfitError(f"{show_quantity(written)} is not a date", "use the form 2026-04-01") from error


def parse_list_of(noun: str, fix: str) -> Callable[[Any], tuple[str, ...]]:
    """Return a parser for a list of names or patterns; a single item needs no brackets."""

    def parse(value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item for item in items):
            raise UnfitError(f"expected a list of {noun}, not {show_quantity(value)}", fix)
        return tuple(map(str, items))

    return parse


def parse_tests(value: Any) -> Any:
    """Convert a list of names to a mapping in which none has settings."""
    if isinstance(value, str):
        raise UnfitError(f"expected a list of tests, not {show_quantity(value)}", f"write [{value}]")
    return dict.fromkeys(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


def parse_command(value: Any) -> tuple[str, ...]:
    """Parse a program and its arguments, one list item each; no shell interprets them."""
    fix = 'write a list such as ["python", "run.py", "--logs", "{run_dir}"]'
    if not isinstance(value, list) or not value:
        raise UnfitError(f"expected a command, not {show_quantity(value)}", fix)
    wrong = next((item for item in value if not isinstance(item, str) or "\0" in item), None)
    if isinstance(wrong, dict) and len(wrong) == 1 and None in wrong.values():
        (name,) = wrong
        raise UnfitError(f"{{{name}}} without quotes is a YAML mapping", f'write "{{{name}}}" in quotes')
    if wrong is not None or not value[0].strip():
        raise UnfitError(f"{show_quantity(wrong)} is not a valid command argument", fix)
    return tuple(map(str, value))


def parse_slices(value: Any) -> str:
    """Parse slices of GPUs (MIG), {profile: …, count: …} or a list of these, to the text of ``write_slices``."""
    fix = "write 'mig: {profile: 1g.10gb, count: 7}', or a list of these; `nvidia-smi mig -lgip` lists profiles"
    items = value if isinstance(value, list) else [value]
    found: list[str] = []
    for item in items:
        if not isinstance(item, dict) or not {"profile"} <= item.keys() <= {"profile", "count"}:
            raise UnfitError(f"expected slices of a GPU, not {show_quantity(item)}", fix)
        profile = parse_text(item["profile"]).lower()
        if not PROFILE.fullmatch(profile):
            raise UnfitError(f"{show_quantity(item['profile'])} is not a MIG profile", fix)
        if profile in found:
            raise UnfitError(f"{profile} is listed twice", "list each profile once, with its count")
        found += [profile] * (parse_count(item.get("count", Number("1")), most=1024) or 0)
    if not found:
        raise UnfitError("the list of slices is empty", fix)
    return write_slices(found)


def explain_wrong_slices(slices: str, accelerator: str) -> str:
    """Explain why a GPU cannot have slices of a declared size; "" if it can. A slice of one or two sevenths has at most
    a quarter or half of the memory."""
    words = accelerator.upper().replace("-", " ").split()
    name, memory = next(((chip, gb) for chip, gb in _MEMORY.items() if chip in words), ("", max(_MEMORY.values())))
    for profile in read_slices(slices):
        width, size = map(int, re.findall(r"([1-9][0-9]*)g", profile)[:2])
        most = {1: memory // 4, 2: memory // 2, 3: memory // 2}.get(width, memory)
        if size > most:
            return f"no such slice: {profile}: one of {width}g has at most {most} GB{f' of {name}' if name else ''}"
    return ""


# Gigabytes of the largest version of each GPU that supports MIG (NVIDIA's MIG User Guide, supported profiles).
_MEMORY = {
    "A30": 24,
    "A100": 80,
    "H100": 96,
    "H20": 141,
    "H200": 144,
    "H800": 80,
    "GH200": 144,
    "B200": 192,
    "B300": 288,
    "GB200": 192,
    "GB300": 288,
}


def parse_launcher(value: Any) -> tuple[str, ...]:
    """Parse the words that start a command elsewhere, one list item each."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise UnfitError(f"expected a list of launcher arguments, not {show_quantity(value)}", 'write [srun, -N, "2"]')
    words = parse_command(value)
    if wrong := unfit_launcher(words):
        raise UnfitError(*wrong)
    return words


def parse_accelerator(value: Any) -> str:
    """Parse one accelerator's model; the number of accelerators is a separate field."""
    written = parse_text(value)
    if counted := _COUNTED.fullmatch(written):
        message = f"{show_quantity(written)} contains a count"
        raise UnfitError(message, f"write 'accelerator: {counted[2]}, count: {counted[1]}'")
    return written


def parse_variable(value: Any) -> str | tuple[str, str]:
    """Parse a variable's text, or a reference to a variable of the caller's environment, whose value is never
    stored."""
    if isinstance(value, dict) and list(value) == ["from_env"]:
        return "from_env", parse_variable_name(value["from_env"])
    if not isinstance(value, str) or "\0" in value:
        problem = f"{show_quantity(value)} is not a valid environment variable value"
        raise UnfitError(problem, "write text, or {from_env: NAME} for a secret")
    return str(value)


def parse_image(value: Any) -> str:
    """Parse a container image with a digest, since a tag may later refer to another image."""
    written = parse_text(value)
    if not re.search(r"@sha256:[0-9a-f]{64}$", written):
        fix = "write name@sha256:…, as 'docker image inspect --format {{.RepoDigests}}' prints it"
        raise UnfitError(f"{show_quantity(written)} does not pin an image", fix)
    return written
