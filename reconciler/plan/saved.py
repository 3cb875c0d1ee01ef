"""Plans as JSON: printed for machines, saved for later, and refused if the spec or the records changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reconciler.diff.change import Drift, Finding
from reconciler.errors import ReconcilerError, StalePlanError
from reconciler.plan.plan import Plan
from reconciler.resource.codec import make_document, read_document
from reconciler.resource.decisions import FORMAT
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import find_upstream
from reconciler.storage.json_files import read_json
from reconciler.storage.leftovers import write_output
from reconciler.storage.untrusted_files import LARGEST

VERSION = 2
_CREATE = "create one: reconcile plan -o FILE"
# Encoded as lists, with fields in their order.
_ROWS: dict[str, type[Drift | Finding]] = {"drifts": Drift, "findings": Finding}


def encode_plan(plan: Plan) -> dict[str, Any]:
    """Encode a plan and its contents as defined by ``schemas/plan.schema.json``."""
    document = make_document(plan)
    return {
        "version": VERSION,
        "in_sync": plan.in_sync,
        **document,
        "steps": [_flatten_step(step) for step in document["steps"]],
        **{name: [list(row.values()) for row in document[name]] for name in _ROWS},
        "acceptances": [
            {"file": path, "stands": status, "format": FORMAT, **item} for path, item, status in document["acceptances"]
        ],
        "frozen": [{"format": FORMAT, **freeze} for freeze in document["frozen"]],
    }


def _flatten_step(step: dict[str, Any]) -> dict[str, Any]:
    """Merge a step and its change into one object. An input's upstream is omitted, since its origin contains it."""
    change, explained = step.pop("change"), step.pop("explained")
    for item in explained:
        del item["upstream"]
        item["origin"] = list(item["origin"].values())
        if not item["files"]:
            del item["files"]
    return {**change, **step, "inputs": explained}


def save(plan: Plan, path: Path) -> None:
    write_output(path, json.dumps(encode_plan(plan), indent=1).encode() + b"\n")


def load(path: Path) -> Plan:
    """Load a plan. Raises ReconcilerError if the file is not a plan of this version."""
    try:
        document = read_json(path, LARGEST)
        if document["version"] != VERSION:
            problem = f"{path}: plan version {document['version']}"
            raise ReconcilerError(problem, fix="create a new plan: reconcile plan -o")
        return _decode(document)
    except FileNotFoundError as error:
        raise ReconcilerError(f"no such plan file: {path}", fix=_CREATE) from error
    except OSError as error:
        raise ReconcilerError(f"{path}: {error.strerror}", fix=_CREATE) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ReconcilerError(f"{path}: not a saved plan ({error})", fix=_CREATE) from error


def _decode(document: dict[str, Any]) -> Plan:
    fields_of = {
        **document,
        "steps": [
            {**step, "change": step, "explained": [_restore_input(item) for item in step["inputs"]]}
            for step in document["steps"]
        ],
        **{name: [_restore_row(row, of) for row in document[name]] for name, of in _ROWS.items()},
        "acceptances": [[item["file"], item, item["stands"]] for item in document["acceptances"]],
    }
    return read_document(fields_of, Plan)


def _restore_input(item: dict[str, Any]) -> dict[str, Any]:
    """Restore an input's upstream from its origin, or from the origin it had before it was removed."""
    origin, then = _restore_row(item["origin"], Origin), item["before_origin"]
    upstream = find_upstream(origin["file"]) or (find_upstream(then) if item["after"] is None else None)
    return {**item, "origin": origin, "upstream": upstream and str(upstream)}


def _restore_row(row: list[Any], of: type[Drift | Finding | Origin]) -> dict[str, Any]:
    return dict(zip(of.__struct_fields__, row, strict=False))


def refuse_stale(saved: Plan, fresh: Plan) -> None:
    """Raise StalePlanError if the saved plan was made from another spec or another set of records."""
    if saved.desired != fresh.desired:
        raise StalePlanError("the spec changed since the plan was saved", fix="plan again: reconcile plan -o FILE")
    if saved.recorded != fresh.recorded:
        problem = "records or decisions changed since the plan was saved"
        raise StalePlanError(problem, fix="plan again: reconcile plan -o FILE")
