"""A submission as a batch job: its script, and the options that the system declares for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from harness.contract import FileMessage
from reconciler.execute.executors.executor import Submission
from reconciler.execute.executors.job_script import make_script
from reconciler.execute.request_parts import list_secrets
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.settings import CellSettings
from reconciler.storage.process import ALLOWED, CHOSEN_DEVICES, LAUNCHERS

SLURM = f"{EXECUTOR}.slurm"  # before the settings of a system whose steps are jobs of it
_MINUTE = 60
_ARRAY = "SLURM_ARRAY_"  # variables of a task of an array: here of the job in which this pass runs itself
_TEXTS = ("partition", "account", "qos", "constraint")


def make_job_script(submission: Submission, module: Sequence[str] = ("harness",)) -> str:
    hosts = 'scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null || echo "$SLURM_JOB_NODELIST"'
    number = "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"
    return make_script(submission, f'echo "slurm {number}"; {hosts}', module=module)


def choose_options(settings: CellSettings, *, alone: bool) -> dict[str, object]:
    """Arguments of submitit's executor. ``alone``: the job must have its nodes for itself."""
    own = f"{SLURM}."
    chosen: dict[str, object] = {name: settings.get_text(own + name) for name in _TEXTS if own + name in settings}
    limit = settings.get_seconds(f"{own}time")
    chosen["time"] = max(1, -(-int(limit) // _MINUTE)) if limit else None
    chosen["nodes"] = settings.get_number(f"{own}nodes") or settings.hardware.nodes or 1
    if alone or settings.get(f"{own}exclusive") is not False:
        chosen["exclusive"] = True
    return chosen


def choose_more_options(settings: CellSettings, *, travels: bool = False) -> dict[str, object]:
    """Further options of sbatch. Slurm never starts a job again by itself: the attempt that it was for is over then.
    ``travels``: its node has no folder of ours to begin or to write in, so that two jobs of one attempt, which happens
    where an answer was lost, could not see each other; Slurm lets one begin after the other."""
    declared = {name: value for name, value in settings.get_below(f"{SLURM}.options.").items() if value is not False}
    away = {"chdir": "/", "output": "/dev/null", "dependency": "singleton"} if travels else {}
    return {"no-requeue": True, "wckey": "mlperf-reconciler", **away, **declared}


def list_hidden(
    request: FileMessage, environment: Mapping[str, str] = os.environ, also: Iterable[str] = ()
) -> tuple[str, ...]:
    """Names of the variables of this process that a job does not get: all but those that any child has, those that
    Slurm reads, the secrets that the spec asks for, and what is needed ``also``."""
    seen = {*ALLOWED, *list_secrets(request).values()}.difference(CHOSEN_DEVICES).union(also)
    kept = (name for name in environment if name.startswith(LAUNCHERS) and not name.startswith(_ARRAY))
    return tuple(sorted(environment.keys() - seen.union(kept)))
