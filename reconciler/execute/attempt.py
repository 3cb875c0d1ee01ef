"""An attempt on disk: a folder with everything that its record will contain, written before its child starts.

So a killed pass leaves a folder without a result, which loses only that attempt, or a complete folder, from which the
next pass writes exactly the record that this pass would have written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.contract import OWN_CODE, TELEMETRY
from reconciler.desired.detail import Detail
from reconciler.loadgen import keys
from reconciler.resource.codec import encode_canonical, make_versioned, read_document
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address
from reconciler.resource.records import CODE_ARCHIVE, REQUIREMENTS, SERVICE_LOG, Record, RecordedFact
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import RuleContext
from reconciler.storage.files import PathIn, replace
from reconciler.storage.json_files import read_json
from reconciler.storage.storage_errors import refuse_storage_error

FORMAT = 2


class MachineFacts(Struct, frozen=True):
    """Facts about a run's machines from before it began. ``nodes``: those that its launcher reached, None without a
    launcher; ``drivers``: of their GPUs. ``shared_with``: other users of the machine."""

    nodes: tuple[Mapping[str, Any], ...] | None = None
    drivers: tuple[str, ...] = ()
    shared_with: str = ""

    def collect_facts(self) -> dict[str, RecordedFact]:
        """Return the facts for a record: all runs of a cell must have used the same drivers."""
        found: dict[str, RecordedFact] = {}
        if self.nodes is not None:
            found["machine.nodes"] = RecordedFact([dict(node) for node in self.nodes], Role.NOTE)
        if self.drivers:
            found["nodes.drivers"] = RecordedFact(list(self.drivers), Role.EVIDENCE)
        if self.shared_with:
            found["machine.shared_with"] = RecordedFact(self.shared_with, Role.NOTE)
        return found


class ServerAccess(Struct, frozen=True):
    """The address of the server that a run queries, on this machine. ``log``: the folder of the server's output."""

    port: int
    log: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Intent(Struct, frozen=True):
    """The purpose of an attempt, known before it starts. ``upstream``: input name → record id; ``made_from``:
    "engine.model.onnx" → sha256 of each upstream file that was really used. ``started``: UTC, later than every recorded
    time of the cell; ``clock``: this machine's clock at that time.

    ``rules``: the round's rules for its cell. For a verdict, ``known_answers``: an earlier verdict's comparison of the
    answers, and ``response_dtype``: the type of the answers.
    """

    id: str
    address: Address
    key: str
    revision: int
    started: str
    inputs: Mapping[str, tuple[Any, str]]
    settings: CellSettings = field(default_factory=CellSettings)
    locations: Mapping[str, str] = field(default_factory=dict)
    upstream: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, str] = field(default_factory=dict)
    dirty: bool = False
    marks: tuple[str, ...] = ()
    supersedes: str = ""
    shared: tuple[Address, ...] = ()
    tool: str = ""
    clock: str = ""
    rules: RuleContext | None = None
    machine: MachineFacts = field(default_factory=MachineFacts)
    server: ServerAccess | None = None
    known_answers: Mapping[str, Any] | None = None
    response_dtype: str = ""

    @property
    def ruling(self) -> RuleContext:
        """Return the rules of a run, a score or a test, each of which belongs to a benchmark of the round."""
        assert self.rules is not None
        return self.rules


class Attempt(Struct, frozen=True):
    """An attempt's folder and its files."""

    folder: Path
    intent: Intent

    request = PathIn("folder", "request.json")
    launch = PathIn("folder", "launch.json")  # for the child that starts a launcher, which then runs `request`
    answer = PathIn("folder", "answer.json")  # the result written behind a launcher; `result` is derived from it
    result = PathIn("folder", "result.json")
    log = PathIn("folder", "child.log")
    counter = PathIn("folder", "counter")
    last_line = PathIn("folder", "last-line")  # the last line that a harness command printed, for people
    session = PathIn("folder", "session")  # the power kit's session for a measured run: power/, ranging/, run_1/
    power_check = PathIn("folder", "check.txt")  # the output of the power kit's own check
    # A folder that a queue's job creates when it begins. A job that finds the folder is too late.
    begun = PathIn("folder", "begun")
    twice = PathIn("folder", "twice")  # written by a job that found `begun`
    placed = PathIn("folder", "placed")  # the nodes on which the queue's job runs
    code = PathIn("folder", CODE_ARCHIVE)  # the code of a performance run when it began
    # The harness of a child behind a launcher, which may differ from this one.
    launched_code = PathIn("folder", OWN_CODE)
    requirements = PathIn("folder", REQUIREMENTS)  # the packages installed where that code ran, in pip's format
    inputs = PathIn("folder", "inputs")
    output = PathIn("folder", "output")
    run_dir = PathIn("folder", "run")  # the work folder of a harness command; its files are examined before they count
    # Never audit.config: a file of that name could turn another run into a test.
    audit_file = PathIn("folder", "audit-settings.conf")
    user_conf = PathIn("folder", "user.conf")
    service_log = PathIn("folder", SERVICE_LOG)  # the server's output until the command that queried it ended
    server_log = PathIn("folder", "log")  # the folder of a running service's output, in the parts of ``LOG_PARTS``
    telemetry = PathIn("folder", TELEMETRY)  # readings of the machine during the run

    def list_inputs(self) -> dict[str, str]:
        """Return the folder of each upstream resource's files, by input name."""
        return {folder.name: str(folder) for folder in sorted(self.inputs.glob("*")) if folder.is_dir()}

    def read_last_line(self) -> str:
        """Return the last line that a harness command printed; "" if there is none."""
        try:
            return self.last_line.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def settle(self) -> None:
        """Mark its record as written although its folder is still in use: it must not be harvested."""
        (self.folder / "attempt.json").unlink(missing_ok=True)


class Placement(Struct, frozen=True):
    """The placement of a queue's job: ``job`` as in "slurm 4711", and the names of its nodes. Empty until it begins."""

    job: str = ""
    nodes: tuple[str, ...] = ()

    def collect_facts(self) -> dict[str, RecordedFact]:
        if not self.job:
            return {}
        nodes = [{"host": node} for node in self.nodes]
        return {"machine.job": RecordedFact(self.job, Role.NOTE), "machine.nodes": RecordedFact(nodes, Role.NOTE)}


def read_placement(placed: Path) -> Placement:
    """Read the placement as the job wrote it: its own name, then a line for each node."""
    try:
        job, *nodes = placed.read_text(encoding="utf-8").splitlines() or [""]
    except OSError as error:
        refuse_storage_error(error, placed)
        return Placement()
    return Placement(job, tuple(nodes))


def make_attempt_id(now: datetime) -> str:
    """Make an id that sorts by time. The process number separates passes, and microseconds separate attempts."""
    return f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}"


def create(folder: Path, intent: Intent) -> Attempt:
    attempt = Attempt(folder / intent.id, intent)
    attempt.output.mkdir(parents=True)
    replace(attempt.folder / "attempt.json", encode_canonical(make_versioned(FORMAT, intent)))
    return attempt


def repeat_intent(identity: str, record: Record, detail: Detail) -> Intent:
    """Return the intent of the attempt that made a record, with today's settings and rules, which have the same key.
    ``identity``: the new attempt's."""
    return Intent(
        id=identity,
        address=record.address,
        key=record.key,
        revision=record.revision,
        started=record.started,
        inputs={name: (item.value, item.origin) for name, item in record.inputs.items()},
        settings=detail.settings,
        locations=detail.locations,
        rules=detail.rules,
        upstream=record.upstream,
        spec=record.spec,
        dirty=record.dirty,
        marks=record.marks,
        shared=record.shared,
        tool=record.tool,
    )


def read(folder: Path) -> Attempt | None:
    """Read an attempt; None if the folder was never begun or has an unknown version."""
    try:
        document = read_json(folder / "attempt.json")
        version = document.pop("format")
        if version == 1:
            document = _upgrade(document)
        elif version != FORMAT:
            return None
        return Attempt(folder, read_document(document, Intent))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        refuse_storage_error(error, folder)
        return None


def _upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Upgrade from format 1, which stored rules, machine facts and server facts among the settings, by prefix and
    position."""
    settings = dict(document["settings"])
    old = {name: settings.pop(name) for name in list(settings) if name.startswith(_NOT_SETTINGS)}
    server = {"port": old["running.port"], "log": old.get("running.log", "")} if "running.port" in old else None
    return {
        **document,
        "settings": {"values": settings},
        "rules": _upgrade_rules(old) if "ruled.metric" in old else None,
        "machine": {
            "nodes": old.get("noted.machine.nodes"),
            "drivers": old.get("evident.nodes.drivers", []),
            "shared_with": old.get("noted.machine.shared_with", ""),
        },
        "server": server,
        "known_answers": old.get("known_answers"),
        "response_dtype": old.get("response_dtype", ""),
    }


def _upgrade_rules(old: dict[str, Any]) -> dict[str, Any]:
    endpoints = None
    if "ruled.endpoints_limits" in old:
        endpoints = {
            "limits": dict(zip(("ttft", "tpot", "latency"), old["ruled.endpoints_limits"], strict=True)),
            "audits": old["ruled.endpoints_audits"],
            "mean_tokens": old["ruled.endpoints_tokens"] or None,
            "single_score": old["ruled.endpoints_single"],
            keys.MIN_DURATION: old["ruled.min_duration"],
        }
    metric = ("key", "unit", "divisor", "lower_is_better")
    return {
        "metric": dict(zip(metric, old["ruled.metric"], strict=True)),
        "accuracy_log": dict(zip(("limit", "whole_below", "keep"), old["ruled.accuracy_log"], strict=True)),
        "bars": [dict(zip(("metric", "least", "most"), bar, strict=True)) for bar in old["ruled.bars"]],
        "bars_bind": old["ruled.bars_bind"],
        "answers_compared": old.get("ruled.answers_compared", False),
        "performance_checked": old.get("ruled.judged", True),
        "endpoints": endpoints,
    }


_NOT_SETTINGS = ("ruled.", "noted.", "evident.", "running.", "known_answers", "response_dtype")
