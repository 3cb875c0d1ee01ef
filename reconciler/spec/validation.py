"""Check the merged tree against the models, and explain pydantic's errors in a performance engineer's words.

A wrong value must not hide other problems. It is reported and removed, and the rest is validated again, so that checks
across values (references, layers, backends) still run for everything valid.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any

from pydantic import ValidationError

from reconciler.errors import Problem
from reconciler.loadgen import keys
from reconciler.loadgen.settings import RULED, SETTINGS
from reconciler.resource.inputs import Origin
from reconciler.spec import executor_models, models, settings_models
from reconciler.spec.fields import MAY_NAME_VARIABLES
from reconciler.spec.groups import Group
from reconciler.spec.locations import Variables
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.nodes import MapNode, Node, ScalarNode, convert_plain
from reconciler.spec.quantities import show_quantity
from reconciler.spec.syntax import replace_lookalikes

# Foreign names, from LoadGen, user.conf, mlperf.conf and other submitters' code, with their equivalents in a spec,
# which a list of valid names would not show.

# Settings that only the round or the harness decides. A spec that sets one would be refused at the end.
_FIXED: Mapping[str, str] = {
    **dict.fromkeys((*keys.SEEDS, "accuracy_log_rng_seed"), "is fixed by the round, as are all seeds"),
    **dict.fromkeys(RULED, "is fixed by the round"),
    "model_key": "follows from the benchmark",
    "mode": "is set by the pass, which runs accuracy and performance of each cell",
    "scenario": "is the cell's name in spec.divisions",
    "performance_issue_unique": "is set only by compliance tests",
    "performance_issue_same": "is set only by compliance tests",
}
_FIXED_FIX = "remove it; `reconcile rounds show` prints the round's rules"

# Foreign name → what to write instead.
_RENAMED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "target_latency_ns",
            "single_stream_expected_latency_ns",
            "multi_stream_expected_latency_ns",
            "server_target_latency_ns",
            "expected_latency",
        ),
        "'target_latency: 15 ms': durations need a unit",
    ),
    "min_duration_ms": "'min_duration: 600 s': durations need a unit",
    "max_duration_ms": "'max_duration: 20 min': durations need a unit",
    **dict.fromkeys(
        ("offline_expected_qps", "gpu_offline_expected_qps", "server_target_qps", "expected_qps", "qps"),
        "'target_qps: …', for each scenario",
    ),
    "min_sample_count": "'min_query_count: …', which counts samples in Offline",
    **{setting.conf_name: setting.name for setting in SETTINGS if setting.conf_name},
    **dict.fromkeys(("gpu_batch_size", "max_batch_size"), "'engine: {batch_size: …}'"),
    **dict.fromkeys(
        ("gpu_inference_streams", "num_streams", "inference_streams", "instance_group_count"), "'run: {streams: …}'"
    ),
    "preferred_batch_size": "'run: {batch_size: …}'",
    **dict.fromkeys(("deque_timeout_usec", "max_queue_delay_usec"), "'run: {queue_delay: … us}'"),
    "request_timeout_usec": "'run: {stall_timeout: … s}'",
    "gpu_copy_streams": "'run: {options: {lanes: …}}'",
    **dict.fromkeys(("use_graphs", "use_cuda_graphs", "graph_specs"), "'run: {options: {cuda_graphs: true}}'"),
    "use_spin_wait": "'run: {options: {spin: true}}'",
    "workspace_size": "'engine: {options: {workspace_mib: …}}', in MiB instead of bytes",
    **dict.fromkeys(
        ("bert_opt_seqlen", "graphs_max_seqlen"),
        "'engine: {options: {sequence_lengths: \"128,384\"}}' to tune for each",
    ),
    "input_dtype": "'measurements: {input_data_types: …}'",
    "weight_data_type": "'measurements: {weight_data_types: …}'",
    **dict.fromkeys(("checkpoint", "model_path"), "'model: {path: …}'"),
    **dict.fromkeys(("tensor_path", "map_path", "val_map_path"), "'dataset: {path: …}', which a pass prepares"),
    "cache_file": "'model: {settings: {precision: int8}}', which calibrates",
    **dict.fromkeys(("config_ver", "accuracy_target"), "a separate benchmark, such as bert-99.9"),
    **dict.fromkeys(("harness_type", "use_triton"), "'engine: {backend: triton}'"),
    **dict.fromkeys(("gpu", "gpus", "gpu_model", "device"), "'hardware: {accelerator: …}'"),
    **dict.fromkeys(("num_gpus", "gpu_count"), "'hardware: {count: …}'"),
}


# Foreign name → why it has no equivalent.
_UNNEEDED: Mapping[str, str] = {
    **dict.fromkeys(("numa_config", "numa_conf"), "workers are placed near their GPUs and memory automatically"),
    "active_sms": "a batch uses the complete GPU, or its slice: hardware.mig",
    "use_jemalloc": "a command of your own may set LD_PRELOAD in `harness: {env: …}`",
    **dict.fromkeys(("coalesced_tensor", "run_infer_on_copy_streams"), "the backend lays out and copies its batches"),
    **dict.fromkeys(
        ("buffer_manager_thread_count", "server_num_issue_query_threads"),
        "the harness starts its threads automatically",
    ),
    **dict.fromkeys(
        ("soft_drop", "use_small_tile_gemm_plugin", "gemm_plugin_fairshare_cache_size"),
        "it belongs to NVIDIA's harness, which `harness: {adapter: nvidia-v5.1}` runs",
    ),
}


def explain_foreign(name: str) -> tuple[str, str] | None:
    """Return (message, fix) for a foreign name; None for any other."""
    if name in _UNNEEDED:
        return f"{name} is not supported", f"remove it: {_UNNEEDED[name]}"
    if name in _FIXED:
        return f"{name} {_FIXED[name]}", _FIXED_FIX
    if name in _RENAMED:
        return f"{name} has another name here", f"write {_RENAMED[name]}"
    return None


Location = tuple[str, ...]

# Placeholders for missing required values while the rest is checked; also the examples in fixes.
_EXAMPLES: dict[str, Any] = {
    "apiVersion": "mlperf-reconciler/v1",
    "kind": "Submission",
    "metadata": {"name": "acme"},
    "name": "acme",
    "spec": {"round": "v6.1", "submitter": "ACME"},
    "round": "v6.1",
    "submitter": "ACME",
    "category": "edge",
    "status": "available",
}
_NOUNS: dict[type[Group], str] = {models.Scenarios: "scenario", models.Divisions: "division"}
_HOMES: dict[str, type[Group]] = {
    "engine": settings_models.Engine,
    "run": settings_models.Run,
    "harness": settings_models.Harness,
    "model": models.Model,
    "dataset": settings_models.Dataset,
    "measurements": settings_models.Measurements,
    "hardware": executor_models.HardwareGroup,
    **executor_models.list_queue_groups(),
}


def validate(root: MapNode, variables: Variables, *, complete: bool) -> tuple[models.Document | None, list[Problem]]:
    """Return the valid part of the document, and all problems. If ``complete`` is False, some files could not be read,
    and missing values are not reported, since those files may contain them."""
    document = convert_plain(root)
    problems: list[Problem] = []
    for attempt in range(8):
        try:
            return models.Document.model_validate(document, context=variables), problems
        except ValidationError as error:
            for finding in error.errors(include_url=False):
                where = tuple(str(part) for part in finding["loc"] if part != "[key]")
                is_reported = complete or finding["type"] != "missing"
                there = finding["type"] == "missing" and is_misspelt(where, root)
                if attempt == 0 and is_reported and where[0] not in _HEADER and not there:
                    problems.append(_explain_finding(finding, where, root))
                _repair_document(document, where, missing=finding["type"] == "missing")
    return None, problems


def is_misspelt(where: Location, root: MapNode) -> bool:
    """Return True if a missing name is present under a spelling that is reported as wrong."""
    holder, group = find_node(root, where[:-1]), find_group(where[:-1])
    if not isinstance(holder, MapNode) or group is None:
        return False
    valid = group.list_names()
    return any(name not in valid and find_nearest(name, valid) == where[-1] for name in holder.items)


_HEADER = ("apiVersion", "kind")  # checked for each file, see ``loading``


def _repair_document(document: Any, where: Location, *, missing: bool) -> None:
    for part in where[:-1]:
        document[part] = {} if document.get(part) is None else document[part]
        document = document[part]
        if not isinstance(document, dict):
            return
    if missing or (where[-1] in _EXAMPLES and len(where) <= 2):
        document[where[-1]] = _EXAMPLES.get(where[-1], {})
    else:
        document.pop(where[-1], None)


def find_position(root: MapNode, where: Location) -> tuple[Origin, Origin]:
    """Find the positions of the last name of ``where`` and of its value; if it is missing, those of the enclosing
    name."""
    name = value = Origin(root.origin.file, 1, 1)
    node: Node = root
    for part in where:
        if not isinstance(node, MapNode) or part not in node.items:
            return name, name
        name, node = node.keys[part], node.items[part]
        value = node.origin
    return name, value


def find_node(root: MapNode, where: Location) -> Node | None:
    node: Node | None = root
    for part in where:
        node = node.items.get(part) if isinstance(node, MapNode) else None
    return node


def _explain_finding(finding: Mapping[str, Any], where: Location, root: MapNode) -> Problem:
    kind, context = finding["type"], finding.get("ctx", {})
    name_origin, origin = find_position(root, where)
    if kind == "extra_forbidden" and (cut := _find_cut_number(root, where)) is not None:
        origin, message, fix = cut
    elif kind == "extra_forbidden":
        message, fix = _explain_unknown(where)
        origin = name_origin
    elif kind == "missing":
        message, fix = f"{where[-1]} is missing", f"write {show_example(where[-1])}"
    elif kind == "unfit":
        message, fix = str(context["message"]), str(context["fix"])
        origin = name_origin if "[key]" in finding["loc"] else origin
    elif kind in ("model_type", "dict_type", "model_attributes_type"):
        message = f"expected a group of settings, not {show_quantity(finding['input'])}"
        fix = _suggest_group(where, finding["input"])
    else:
        message, fix = str(finding["msg"]), "see schemas/submission.schema.json"
    return origin.make_problem(".".join(where), message, fix)


def _find_cut_number(root: MapNode, where: Location) -> tuple[Origin, str, str] | None:
    """Explain a comma between thousands, as in {target_qps: 1,000}: YAML ends the value there, and reads a name."""
    holder = find_node(root, where[:-1])
    if not where[-1].isdecimal() or not isinstance(holder, MapNode):
        return None
    names = list(holder.items)
    before = names[names.index(where[-1]) - 1]
    number, rest = holder.items[before], holder.items[where[-1]]
    if not isinstance(number, ScalarNode) or not str(number.value).isdecimal() or convert_plain(rest) is not None:
        return None
    message = f"the comma splits the value: {before} is {number.value} here, and {where[-1]} has no value"
    return number.origin, message, f"write {before}: {number.value}{where[-1]}"


def show_example(name: str) -> str:
    """Return an example of a setting."""
    example = _EXAMPLES.get(name, "…")
    inner = ", ".join(f"{key}: {value}" for key, value in example.items()) if isinstance(example, dict) else ""
    return f"'{name}: {{{inner}}}'" if inner else f"'{name}: {example}'"


def _suggest_group(where: Location, value: Any) -> str:
    group = find_group(where)
    names = group.list_names() if group is not None else []
    if isinstance(value, str) and value.partition(" ")[0] in names and " " in value:
        return f"write '{value.replace(' ', ': ', 1)}', with a ':'"
    if isinstance(value, str) and "path" in names:
        return f"write '{where[-1]}: {{path: {value}}}'"
    if isinstance(value, str) and value.replace(".", "").isdecimal():
        if where[-1] in (keys.SINGLE_STREAM, keys.MULTI_STREAM):
            return f"write '{where[-1]}: {{target_latency: {value} ms}}'"
        if "target_qps" in names:
            return f"write '{where[-1]}: {{target_qps: {value}}}'"
    if isinstance(value, list) and "command" in names:
        return f"write '{where[-1]}: {{command: […]}}'"
    listed = value if isinstance(value, list) else [value]
    if listed and all(isinstance(item, str) and item in names for item in listed):
        return f"write '{listed[0]}: {{…}}' on its own line below it, indented"
    if group is None:
        return "write 'name: value' pairs below it, indented"
    return f"write 'name: value' pairs below it, indented; names: {', '.join(group.list_names())}"


def _explain_unknown(where: Location) -> tuple[str, str]:
    """Return the message and fix for a name that its group does not define."""
    name = where[-1]
    group = find_group(where[:-1])
    valid = group.list_names() if group is not None else []
    noun = _NOUNS.get(group, "setting") if group is not None else "setting"
    holder = f" of {where[-2]}" if len(where) > 1 and noun == "setting" else ""
    message = f"{name} is not a {noun}{holder}"
    if (foreign := explain_foreign(name)) is not None:
        return foreign
    plain = replace_lookalikes(name)
    if plain != name and plain in valid:
        odd = next(character for character in name if not character.isascii())
        return f"{message}: it contains {odd!r} (U+{ord(odd):04X})", f"retype it: {plain}"
    if "{" in name:
        written = name.partition("{")[0].strip()
        return f"missing ':' after {written}", f"write '{written}: {{…}}'"
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and all(part in valid for part in several):
        return f"{name}: names are not joined by ','", f"write {' and '.join(f'{part}: …' for part in several)}"
    written, space, rest = name.partition(" ")
    if space and written in valid:
        return f"missing ':' after {written}", f"write '{written}: {rest.strip()}'"
    start, colon, value = name.partition(":")
    if colon and value and start.strip() in valid:
        return f"missing space after '{start}:'", f"write '{start}: {value.strip()}'"
    at_home = any(name in inner.list_names() and home in valid for home, inner in _HOMES.items())
    if at_home or find_nearest(name, valid) is None:
        for depth in range(len(where) - 2, -1, -1):
            above = find_group(where[:depth])
            if above is not None and depth and name in above.list_names():
                return message, f"indent it less: it belongs to {where[depth - 1]}"
        parent = find_group(where[:-2]) if len(where) > 1 else None
        for home, inner in _HOMES.items():
            if name in inner.list_names() and home in valid:
                return message, f"write it inside {home}, as '{home}: {{{name}: …}}'"
            if name in inner.list_names() and parent is not None and home in parent.list_names():
                return message, f"write it next to {where[-2]}, as '{home}: {{{name}: …}}'"
    return message, give_advice(name, valid)


def refuses_variables(where: Location) -> bool:
    """Return True for a field whose type does not accept environment variables. A value instead of a group, or below
    an unknown name, is reported elsewhere."""
    kind, marks = _find_type(where)
    return kind is not None and not _is_group(kind) and MAY_NAME_VARIABLES not in marks


def find_group(where: Sequence[str], root: type[Group] = models.Document) -> type[Group] | None:
    """Return the model for the group at ``where``; None if no group with fixed names is there."""
    kind, _ = _find_type(where, root)
    return kind if _is_group(kind) else None


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Group)


def _find_type(where: Sequence[str], root: type[Group] = models.Document) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of the field at ``where``, and the marks in its declaration; None if there is no such field."""
    kind: Any = root
    marks: tuple[Any, ...] = ()
    for part in where:
        if _is_group(kind):
            found = [field for name, field in kind.model_fields.items() if (field.alias or name) == part]
            kind, marks = (found[0].annotation, tuple(found[0].metadata)) if found else (None, ())
        elif typing.get_origin(kind) is dict:
            kind, marks = typing.get_args(kind)[1], ()
        else:
            return None, ()
        if typing.get_origin(kind) is typing.Annotated:
            kind, marks = typing.get_args(kind)[0], (*marks, *kind.__metadata__)
        kind = next(filter(_is_group, typing.get_args(kind)), kind) if isinstance(kind, UnionType) else kind
    return kind, marks
