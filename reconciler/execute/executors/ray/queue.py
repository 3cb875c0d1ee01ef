"""Ray: each step is a job of its job submission API, under a name assigned before submission.

Ray starts a job's command on a node that has the resources that the job reserves. So a step has a machine of its system
to itself.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field, structs

from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import read_placement
from reconciler.execute.executors.executor import Handle, Interruption, Progressing, State, Submission
from reconciler.execute.executors.job_script import make_script
from reconciler.execute.executors.queue_executor import LastAnswer
from reconciler.execute.request_parts import list_secrets, select_slices
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import replace
from reconciler.storage.json_files import read_json
from reconciler.storage.process import ALLOWED

RAY = f"{EXECUTOR}.ray"
_JOB, _SCRIPT = "ray.json", "ray.sh"  # in the folder of an attempt
_LONGEST = 300  # characters of Ray's message that a record keeps
_STOPPED = ("cancelled", "was stopped", "pass again to queue it again")

# Ray's error type of a failed job → its class, the message, and the fix. Errors of a job's command are in the child's
# log.
_ENDS: Mapping[str, tuple[str, str, str]] = {
    "RUNTIME_ENV_SETUP_FAILURE": (
        "missing",
        "got no runtime environment",
        "see the log of the runtime environment's agent on the node",
    ),
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": (
        "requeued",
        "found no place within Ray's limit",
        "see `ray status` for the nodes' resources; RAY_JOB_START_TIMEOUT_SECONDS on the head is the limit",
    ),
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": (
        "input",
        "fits no node",
        "set the system's executor.ray to resources that `ray status` lists",
    ),
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": ("input", "could not be started", "see executor.ray of the system"),
    "JOB_SUPERVISOR_ACTOR_DIED": (
        "node-failure",
        "lost its node",
        "see `ray list nodes`; it is queued again automatically",
    ),
    "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE": ("lost", "was lost by Ray", "pass again"),
}
_NODE_LOST = _ENDS["JOB_SUPERVISOR_ACTOR_DIED"]
_NO_MEMORY = ("resources", "ran out of memory", "lower batch_size or streams, or give the system larger nodes")


class RayJob(Struct, frozen=True):
    """The status of a Ray job. ``error``: Ray's error type; ``message``: its description. ``placed``: it had a node;
    ``nodes``: as the job itself wrote them."""

    id: str
    status: str
    error: str = ""
    message: str = ""
    placed: bool = False
    nodes: tuple[str, ...] = ()

    @property
    def gave_up(self) -> bool:
        return self.status == "FAILED" and self.error == "JOB_SUPERVISOR_ACTOR_START_TIMEOUT" and not self.placed

    @property
    def where(self) -> str:
        return f" on {', '.join(self.nodes)}" if self.nodes else ""

    def describe(self) -> Progressing:
        if self.status == "PENDING":
            return Progressing(State.QUEUED, note=f"job {self.id} (waits for a node that is free)")
        if self.status == "RUNNING":
            return Progressing(State.RUNNING, note=f"job {self.id}{self.where}")
        return Progressing(State.ENDED, why=self.explain())

    def explain(self) -> Interruption | None:
        """Explain why a job ended without a result; None if Ray gives no reason."""
        found = _STOPPED if self.status == "STOPPED" else _ENDS.get(self.error)
        if found is None or self.status == "SUCCEEDED":
            return None
        if self.placed and self.error == "JOB_SUPERVISOR_ACTOR_START_FAILURE":
            found = _NODE_LOST  # Ray no longer found its process
        if found is _NODE_LOST and "OutOfMemory" in self.message:
            found = _NO_MEMORY
        kind, said, fix = found
        why = " ".join(self.message.split())[:_LONGEST] if self.status != "STOPPED" else ""
        return Interruption(kind, f"job {self.id} of Ray{self.where} {said}{f': {why}' if why else ''}", fix)


class RayQueue(Struct):
    """Ray's queue of jobs. ``answers``: address of a dashboard → its last answer. ``addresses``: folder of a submission
    → address of its dashboard."""

    answers: dict[str, LastAnswer[RayJob]] = field(default_factory=dict)
    addresses: dict[Path, str] = field(default_factory=dict)

    def submit(self, submission: Submission, handle: Handle) -> None:
        from reconciler.execute.executors.ray.dashboard import delete_job, find_address, submit_job

        settings = submission.attempt.intent.settings
        address = find_address(settings.get_text(f"{RAY}.address"))
        script = make_job_script(submission, handle.name)
        travels = submission.ticket is not None  # then its node has no script of ours
        started = f"-c {shlex.quote(script)}" if travels else shlex.quote(str(handle.folder / _SCRIPT))
        job = {
            "entrypoint": f"exec sh {started}",
            "submission_id": handle.name,
            "metadata": {"mlperf-reconciler": str(submission.attempt.intent.address)},
            **choose_resources(settings),
        }
        replace(handle.folder / _SCRIPT, script.encode())
        replace(handle.folder / _JOB, json.dumps({"address": address, "job": job}, sort_keys=True).encode())
        self.addresses[handle.folder] = address
        if not submit_job(address, job):  # an earlier job waited too long, or its answer was lost
            delete_job(address, handle.name)
            submit_job(address, job)

    def find(self, handle: Handle, since: float) -> RayJob | None:
        address = self._find_address(handle)
        answer = self.answers.setdefault(address, LastAnswer(partial(_list_jobs, address)))
        job = answer.find(handle.name, since)
        return None if job is None else structs.replace(job, nodes=read_placement(handle.folder / "placed").nodes)

    def cancel(self, handle: Handle) -> None:
        from reconciler.execute.executors.ray.dashboard import stop_job

        stop_job(self._find_address(handle), handle.name)

    def forget(self, handle: Handle) -> None:
        self.addresses.pop(handle.folder, None)

    def _find_address(self, handle: Handle) -> str:
        """Find the dashboard's address for a job that another process may have submitted."""
        if handle.folder not in self.addresses:
            from reconciler.execute.executors.ray.dashboard import find_address

            try:
                kept = str(read_json(handle.folder / _JOB)["address"])
            except (OSError, ValueError, KeyError, TypeError):
                kept = ""  # it ended before submission
            self.addresses[handle.folder] = find_address(kept)
        return self.addresses[handle.folder]


def make_job_script(submission: Submission, name: str) -> str:
    """Make the script of a job. The job starts in the environment in which Ray was started on its node, and keeps the
    variables that every child gets, the devices that Ray chose, the address of its cluster, and the secrets that the
    spec lists."""
    secrets = [*list_secrets(submission.request).values()]
    secrets += submission.ticket.variables if submission.ticket is not None else ()
    kept = [f'${{{name}+"{name}=${name}"}}' for name in (*ALLOWED, "RAY_ADDRESS", *secrets)]
    return make_script(submission, f"echo {shlex.quote(f'ray {name}')}; uname -n", ("-i", *kept))


def choose_resources(settings: CellSettings) -> dict[str, object]:
    """Return the resources that a job reserves on its node, as the API names them. By default, it reserves one unit of
    the custom resource with the system's name, so that steps never share a machine, and the GPUs that the system
    declares. Ray counts whole GPUs, including partitioned ones: a job reserves them and takes its slices from them.
    Raises ReconcilerError if it would reserve nothing."""
    hardware = settings.hardware
    gpus = settings.get_number(f"{RAY}.gpus", hardware.count or 1 if hardware.accelerator else 0)
    if not gpus and select_slices(settings):
        fix = "remove it: the job then reserves the GPUs of its slices"
        raise ReconcilerError("executor.ray.gpus is 0: Ray hides every GPU from its jobs, and every slice", fix=fix)
    resources = settings.get_below(f"{RAY}.resources.") or {settings.system: 1}
    chosen: dict[str, object] = {
        "entrypoint_num_cpus": settings.get_number(f"{RAY}.cpus"),
        "entrypoint_num_gpus": gpus,
        "entrypoint_resources": {name: int(str(count)) for name, count in resources.items()},
    }
    if labels := settings.get_below(f"{RAY}.labels."):  # a Ray version without labels rejects the field itself
        chosen["entrypoint_label_selector"] = {name: str(value) for name, value in labels.items()}
    return chosen


def _list_jobs(address: str) -> dict[str, RayJob]:
    from reconciler.execute.executors.ray.dashboard import list_jobs

    return {str(job["submission_id"]): _read(job) for job in list_jobs(address) if job.get("submission_id")}


def _read(job: Mapping[str, object]) -> RayJob:
    id_, status, error, message = (
        str(job.get(name) or "") for name in ("submission_id", "status", "error_type", "message")
    )
    return RayJob(id_, status, error, message, bool(job.get("driver_node_id")))
