"""Plans as JSON: printed for machines, saved for later, refused when the spec or the records moved on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reconciler.diff.change import Action, Change, Drift, Finding, InputChange, Reason, Work
from reconciler.errors import ReconcilerError, StalePlanError
from reconciler.files import write_output
from reconciler.plan.plan import Plan, Step
from reconciler.resource.decisions import (
    AcceptanceStatus,
    decode_acceptance,
    decode_freeze,
    encode_acceptance,
    encode_freeze,
)
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, find_upstream

VERSION = 2


def encode_plan(plan: Plan) -> dict[str, Any]:
    return {
        "version": VERSION,
        "name": plan.name,
        "in_sync": plan.in_sync,
        "desired": plan.desired,
        "recorded": plan.recorded,
        "steps": [_step(step) for step in plan.steps],
        "unchanged": plan.unchanged,
        "excluded": plan.excluded,
        "drifts": [[str(d.address), d.what, d.presence, d.repair] for d in plan.drifts],
        "findings": [[f.kind, f.where, f.message, f.fix] for f in plan.findings],
        "undeclared": [str(address) for address in plan.undeclared],
        "acceptances": [
            {"file": path, "stands": str(stand), **encode_acceptance(item)} for path, item, stand in plan.acceptances
        ],
        "frozen": [encode_freeze(freeze) for freeze in plan.frozen],
    }


def _step(step: Step) -> dict[str, Any]:
    change = step.change
    return {
        "address": str(change.address),
        "key": change.key,
        "action": str(change.action),
        "reason": str(change.reason),
        "how": str(change.how),
        "previous": change.previous,
        "note": change.note,
        "restore": [list(item) for item in change.restore],
        "shared": [str(address) for address in step.shared],
        "because": [str(address) for address in step.because],
        "inputs": [
            {
                "name": i.name,
                "before": i.before,
                "after": i.after,
                "origin": [i.origin.file, i.origin.line, i.origin.column],
                "before_origin": i.before_origin,
            }
            for i in step.explained
        ],
        "seconds": step.seconds,
        "basis": step.basis,
        "blocked": step.blocked,
        "fix": step.fix,
    }


def save(plan: Plan, path: Path) -> None:
    write_output(path, json.dumps(encode_plan(plan), indent=1).encode() + b"\n")


def load(path: Path) -> Plan:
    """Raises ReconcilerError when the file is not a plan of this version."""
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != VERSION:
            raise ReconcilerError(f"{path}: plan version {document['version']}", fix="make it again: reconcile plan -o")
        return _decode(document)
    except OSError as error:
        raise ReconcilerError(f"{path}: {error.strerror}", fix="make one: reconcile plan -o FILE") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ReconcilerError(f"{path}: not a saved plan ({error})", fix="make one: reconcile plan -o FILE") from error


def _decode(document: dict[str, Any]) -> Plan:
    return Plan(
        name=document["name"],
        desired=document["desired"],
        recorded=document["recorded"],
        steps=tuple(_decode_step(step) for step in document["steps"]),
        unchanged=document["unchanged"],
        excluded=document["excluded"],
        drifts=tuple(Drift(Address.parse(d[0]), *d[1:]) for d in document["drifts"]),
        findings=tuple(Finding(*f) for f in document["findings"]),
        undeclared=tuple(map(Address.parse, document["undeclared"])),
        acceptances=tuple(
            (a["file"], decode_acceptance(a), AcceptanceStatus(a["stands"])) for a in document["acceptances"]
        ),
        frozen=tuple(map(decode_freeze, document["frozen"])),
    )


def _decode_step(step: dict[str, Any]) -> Step:
    change = Change(
        Address.parse(step["address"]),
        step["key"],
        Action(step["action"]),
        Reason(step["reason"]),
        Work(step["how"]),
        step["previous"],
        step["note"],
        tuple((place, sha256) for place, sha256 in step["restore"]),
    )
    return Step(
        change=change,
        shared=tuple(map(Address.parse, step["shared"])),
        because=tuple(map(Address.parse, step["because"])),
        explained=tuple(map(_decode_input, step["inputs"])),
        seconds=step["seconds"],
        basis=step["basis"],
        blocked=step["blocked"],
        fix=step["fix"],
    )


def _decode_input(item: dict[str, Any]) -> InputChange:
    """The origin of what is made from another resource is its address: the one there is, else the one there was."""
    origin, then = Origin(*item["origin"]), item["before_origin"]
    upstream = find_upstream(origin.file) or (find_upstream(then) if item["after"] is None else None)
    return InputChange(item["name"], item["before"], item["after"], origin, then, upstream)


def refuse_stale(saved: Plan, fresh: Plan) -> None:
    """Raises StalePlanError when the saved plan was made from another spec or another set of records."""
    if saved.desired != fresh.desired:
        raise StalePlanError("the saved plan was made from another spec", fix="plan again: reconcile plan -o FILE")
    if saved.recorded != fresh.recorded:
        raise StalePlanError(
            "records were added or removed, or decisions made, since the plan was saved",
            fix="plan again: reconcile plan -o FILE",
        )
