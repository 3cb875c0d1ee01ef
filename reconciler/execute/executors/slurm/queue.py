"""Slurm: submitit writes the batch script and submits it. One query returns the state of all jobs.

submitit's own program on the node is not used: a request already leaves its results in files, the output of a run can
be long, and a preempted job must not be requeued without this program's knowledge.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import WAITING, FileMessage, LaunchRequest, WaitingAttempt, show_install
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import read_placement
from reconciler.execute.executors.executor import Handle, Interruption, Progressing, State, Submission
from reconciler.execute.executors.job_script import find_interpreter, make_script
from reconciler.execute.executors.queue_executor import LastAnswer, QueueSilentError
from reconciler.execute.request_parts import list_secrets
from reconciler.resource.quantities import read_count
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import hash_bytes
from reconciler.storage.files import replace as replace_file
from reconciler.storage.json_files import read_json
from reconciler.storage.process import ALLOWED, CHOSEN_DEVICES, LAUNCHERS, ask
from reconciler.storage.storage_errors import refuse_storage_error

# A submission as a batch job: its script, and the options that the system declares for it.

SLURM = f"{EXECUTOR}.slurm"  # prefix of the settings of a system whose steps are Slurm jobs
_MINUTE = 60
_ARRAY = "SLURM_ARRAY_"  # variables of an array task: here of the job in which this pass itself runs
_TEXTS = ("partition", "account", "qos", "constraint")


def make_job_script(submission: Submission, module: Sequence[str] = ("harness",)) -> str:
    hosts = 'scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null || echo "$SLURM_JOB_NODELIST"'
    number = "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"
    return make_script(submission, f'echo "slurm {number}"; {hosts}', module=module)


def choose_options(settings: CellSettings, *, alone: bool) -> dict[str, object]:
    """Return the arguments of submitit's executor. ``alone``: the job needs its nodes to itself."""
    own = f"{SLURM}."
    chosen: dict[str, object] = {name: settings.get_text(own + name) for name in _TEXTS if own + name in settings}
    limit = settings.get_seconds(f"{own}time")
    chosen["time"] = max(1, -(-int(limit) // _MINUTE)) if limit else None
    chosen["nodes"] = settings.get_number(f"{own}nodes") or settings.hardware.nodes or 1
    if alone or settings.get(f"{own}exclusive") is not False:
        chosen["exclusive"] = True
    return chosen


def choose_more_options(settings: CellSettings, *, travels: bool = False) -> dict[str, object]:
    """Return further options of sbatch. Slurm must never restart a job, because its attempt is over by then.
    ``travels``: the job's node has no folder of ours, in which two jobs of one attempt could see each other. There may
    be two jobs after a lost answer, so Slurm runs them one after the other."""
    declared = {name: value for name, value in settings.get_below(f"{SLURM}.options.").items() if value is not False}
    away = {"chdir": "/", "output": "/dev/null", "dependency": "singleton"} if travels else {}
    return {"no-requeue": True, "wckey": "mlperf-reconciler", **away, **declared}


def list_hidden(
    request: FileMessage, environment: Mapping[str, str] = os.environ, also: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the names of the variables that a job does not get: all except those that every child has, those that
    Slurm reads, the secrets that the spec requests, and those in ``also``."""
    seen = {*ALLOWED, *list_secrets(request).values()}.difference(CHOSEN_DEVICES).union(also)
    kept = (name for name in environment if name.startswith(LAUNCHERS) and not name.startswith(_ARRAY))
    return tuple(sorted(environment.keys() - seen.union(kept)))


# A Slurm job that has ended its attempt takes over waiting attempts, since a short run takes less time than starting
# another job. ``harness/child/slurm_job.py`` is the program of such a job.

LONGEST = 600.0  # seconds for which a job takes over further attempts, if the spec does not say
_OWN_NUMBER = "queued"  # in the folder of an attempt: the number of its own job


class Takeover(Struct, frozen=True):
    """Rules for taking over attempts. ``group``: attempts that may replace each other; ``seconds``: limit from the
    start of a job."""

    group: str
    seconds: float

    @property
    def words(self) -> tuple[str, ...]:
        """Return the first words of a job that takes over attempts, instead of ``harness``."""
        return "harness.child.slurm_job", self.group, f"{self.seconds:g}"


def choose_takeover(submission: Submission, options: object, token: str) -> Takeover | None:
    """Return the rules for taking over an attempt. Return None for an attempt that is sent to its node, or that takes
    at least as long as a job may take over attempts. ``options``: all options of its job; ``token``: of one pass, whose
    jobs all have the same environment."""
    settings = submission.attempt.intent.settings
    seconds = settings.get_seconds(f"{SLURM}.take_over", LONGEST)
    if submission.ticket is not None or (submission.seconds or 0.0) >= seconds:
        return None
    alike = (settings.system, find_interpreter(submission.attempt), options)
    return Takeover(f"{token}-{hash_bytes(repr(alike).encode())[:8]}", seconds)


def note_queued(submission: Submission, handle: Handle, number: str, takeover: Takeover | None) -> None:
    """Save the ``number`` of the job that Slurm accepted. Another job may begin the attempt only after that."""
    attempt, request, seconds = submission.attempt, submission.request, submission.seconds
    with suppress(FileNotFoundError):  # it has already ended
        replace_file(handle.folder / _OWN_NUMBER, number.encode())
        if takeover is not None and seconds is not None:
            path = attempt.launch if isinstance(request, LaunchRequest) else attempt.request
            arguments = (request.verb, str(path), str(submission.result))
            waiting = WaitingAttempt(arguments=arguments, log=str(attempt.log), seconds=seconds)
            waiting.write(handle.folder / WAITING.format(takeover.group))


def read_queued(handle: Handle) -> str:
    """Return the number of the attempt's own job; "" if unknown."""
    try:
        return (handle.folder / _OWN_NUMBER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def read_taker(handle: Handle) -> str:
    """Return the number of the job that took the attempt over; "" if none did."""
    begun = handle.folder / "begun"
    return read_placement(begun).job.removeprefix("slurm ") if begun.is_file() else ""


# Job arrays: steps of one kind that arrive while Slurm accepts another are submitted together as one array.
#
# No job waits for others: the first is submitted by itself, and those that arrive after it are the next array.

LARGEST = 100  # tasks of one array; Slurm takes 1001 by default
_MEMBER = "array.json"  # in the folder of an attempt that is a task of an array


class Waiting(Struct):
    """An attempt that waits for submission. ``taken``: another thread is submitting it, or has; ``error``: the failure,
    if any."""

    submission: Submission
    handle: Handle
    taken: bool = False
    error: Exception | None = None


class Gathering(Struct):
    """Collects attempts for submission as an array. ``hand_over``: submits several members with one key, or raises for
    all of them. ``turn``: lock of the member that does so."""

    hand_over: Callable[[Sequence[Waiting]], None]
    waiting: dict[str, list[Waiting]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, key: str, submission: Submission, handle: Handle) -> None:
        """Submit an attempt, and return once it is done. ``key``: equal for steps that may be tasks of one array."""
        own = Waiting(submission, handle)
        with self.guard:
            self.waiting.setdefault(key, []).append(own)
        with self.turn:
            group = self._take(key, own)
            if group:
                try:
                    self.hand_over(group)
                except Exception as error:
                    for each in group:
                        each.error = error
        if own.error is not None:
            raise own.error

    def _take(self, key: str, own: Waiting) -> list[Waiting]:
        """Take the members to submit now, including this one; none if another thread has taken this one."""
        with self.guard:
            if own.taken:
                return []
            waiting = self.waiting.pop(key)
            others = [each for each in waiting if each is not own]
            group, rest = [own, *others[: LARGEST - 1]], others[LARGEST - 1 :]
            if rest:
                self.waiting[key] = rest
            for each in group:
                each.taken = True
            return group


class Member(Struct, frozen=True):
    """A task of an array: the array's name and the task's number."""

    name: str
    index: int

    def matches(self, job: str) -> bool:
        """Return True if Slurm's ``12_3`` is this task."""
        return job.rpartition("_")[2] == str(self.index)


def write_members(group: Sequence[Waiting]) -> str:
    """Return the array's name, which each task finds through its folder. Another array that begins with the same step,
    as after a lost answer, gets another name because its numbers belong to other steps."""
    names = "\n".join(each.handle.name for each in group)
    name = f"{group[0].handle.name}-array-{hash_bytes(names.encode())[:8]}"
    for index, each in enumerate(group):
        replace_file(each.handle.folder / _MEMBER, json.dumps({"name": name, "index": index}).encode())
    return name


def read_member(folder: Path) -> Member | None:
    """Return None for a job outside an array."""
    try:
        document = read_json(folder / _MEMBER)
        return Member(str(document["name"]), int(document["index"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        refuse_storage_error(error, folder)
        return None


def make_array_script(scripts: Sequence[str]) -> str:
    cases = "\n".join(f"{index})\n{script}\n;;" for index, script in enumerate(scripts))
    return f'case "$SLURM_ARRAY_TASK_ID" in\n{cases}\nesac'


_QUESTION = ("squeue", "--noheader", "--me", "--array", "--states=all", "--format=%i|%j|%T|%r|%N")
_LIMIT = 30.0  # seconds that Slurm may take to answer

_QUEUED = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"})

# Final state → its class, the message, and the fix.
_ENDS: Mapping[str, tuple[str, str, str]] = {
    "PREEMPTED": ("preempted", "was preempted", "it is queued again up to executor.slurm.retries times"),
    "NODE_FAIL": ("node-failure", "lost its node", "see `scontrol show node`; it is queued again automatically"),
    "BOOT_FAIL": ("node-failure", "got a node that did not boot", "see `scontrol show node`"),
    "TIMEOUT": ("time-limit", "reached its time limit", "raise executor.slurm.time of the system"),
    "DEADLINE": ("time-limit", "reached its deadline", "raise the deadline among executor.slurm.options"),
    "CANCELLED": ("cancelled", "was cancelled in the queue", "pass again to queue it again"),
    "REVOKED": ("cancelled", "was revoked by its cluster", "pass again to queue it again"),
    "OUT_OF_MEMORY": ("resources", "ran out of memory", "give it more: options: {mem: 64G}"),
}
_LAUNCH_FAILED = "JobLaunchFailure"  # of a job whose node did not start it, or failed just then


class SlurmJob(Struct, frozen=True):
    """The status of a Slurm job. ``nodes``: in Slurm's notation, such as n[1-4]; "" before placement. ``reason``: why
    it waits, or why it ended. ``taken``: the status describes a step that the job took over; ``for_another``: it was
    cancelled for another step."""

    id: str
    state: str
    reason: str
    nodes: str
    taken: bool = False
    for_another: bool = False

    @property
    def goes_on(self) -> bool:
        return self.state in _QUEUED or self.state in _RUNNING

    @property
    def gave_up(self) -> bool:
        return False

    def describe(self) -> Progressing:
        if self.state in _QUEUED:
            why = f" ({self.reason})" if self.reason not in ("", "None") else ""
            return Progressing(State.QUEUED, note=f"job {self.id}{why}")
        if self.state in _RUNNING:
            return Progressing(State.RUNNING, note=f"job {self.id} on {self.nodes}")
        return Progressing(State.ENDED, why=self.explain())

    def explain(self) -> Interruption | None:
        """Explain why a job ended without a result; None if Slurm gives no reason."""
        kind, said, fix = _ENDS.get(self.state, ("", "", ""))
        if not kind and self.reason == _LAUNCH_FAILED:
            kind, said, fix = _ENDS["NODE_FAIL"]
        if (self.taken and kind == "time-limit") or (self.for_another and kind == "cancelled"):
            kind, said, fix = "lost", f"{said} with a step that it had taken over", "it is queued again automatically"
        where = f" on {self.nodes}" if self.nodes else ""
        return Interruption(kind, f"job {self.id} of Slurm{where} {said}", fix) if kind else None


def _ask_squeue() -> dict[str, tuple[SlurmJob, ...]]:
    """Return jobs by name, which several may share, and by number."""
    ended = ask(_QUESTION, _LIMIT)
    if ended.status:
        raise QueueSilentError(ended.error.strip() or f"squeue ended with {ended.status}")
    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    for line in ended.out.decode(errors="replace").splitlines():
        parts = line.split("|")
        if len(parts) == 5:
            job = SlurmJob(parts[0], parts[2], parts[3], parts[4])
            jobs[parts[1]] = (*jobs.get(parts[1], ()), job)
            jobs[_name_number(job.id)] = (job,)
    return jobs


class SlurmQueue(Struct, dict=True):
    """Slurm's queue of jobs. ``answer``: name → its jobs. ``members``: folder of a submission → its array task;
    ``taken``: folder → monotonic time when its takeover was first seen. ``cancelled``: number of a job → the folder for
    which it was cancelled. ``token``: of this process's submissions."""

    answer: LastAnswer[tuple[SlurmJob, ...]] = field(default_factory=lambda: LastAnswer(_ask_squeue))
    members: dict[Path, Member | None] = field(default_factory=dict)
    taken: dict[Path, float] = field(default_factory=dict)
    cancelled: dict[str, Path] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        self.gathering = Gathering(self._submit_group)

    def submit(self, submission: Submission, handle: Handle) -> None:
        """Submit an attempt. Attempts that are sent to nodes are submitted one by one, under names of which Slurm runs
        only one job at a time."""
        self.members.pop(handle.folder, None)
        if submission.ticket is not None:
            self._submit_alone(Waiting(submission, handle))
            return
        address, options = submission.attempt.intent.address, _list_options(submission)
        self.gathering.submit(repr((address.kind, address.mode, options)), submission, handle)

    def find(self, handle: Handle, since: float) -> SlurmJob | None:
        """Find the job. If several share its name, as after a lost answer, the running one counts, or else the one that
        took the attempt over. Takeovers are looked up after Slurm was queried, since one may end the attempt's own
        job."""
        own = max(self._list_jobs(handle, since), key=_rank, default=None)
        if own is not None and own.state in _RUNNING:
            return own
        taker = read_taker(handle)
        return self._find_taker(handle, taker, since) if taker else own

    def _find_taker(self, handle: Handle, number: str, since: float) -> SlurmJob | None:
        """Find the job that took over the attempt. It may be newer than the last answer about the attempt's own job."""
        seen = self.taken.setdefault(handle.folder, time.monotonic())
        name = _name_number(number)
        jobs = self.answer.find(name, since) or self.answer.find(name, seen) or ()
        another = self.cancelled.get(number, handle.folder) != handle.folder
        return next((replace(job, taken=True, for_another=another) for job in jobs), None)

    def _list_jobs(self, handle: Handle, since: float) -> tuple[SlurmJob, ...]:
        member = self._find_member(handle)
        alone = self.answer.find(handle.name, since) or ()
        if member is None:
            return alone
        return (*alone, *(job for job in self.answer.find(member.name, since) or () if member.matches(job.id)))

    def _find_member(self, handle: Handle) -> Member | None:
        """Find the array task, which another process may have submitted."""
        if handle.folder not in self.members:
            self.members[handle.folder] = read_member(handle.folder)
        return self.members[handle.folder]

    def cancel(self, handle: Handle) -> None:
        if number := read_taker(handle) or read_queued(handle):
            self.cancelled.setdefault(number, handle.folder)
        if taker := read_taker(handle):
            ask(("scancel", taker), _LIMIT)
        if self._find_member(handle) is None:
            ask(("scancel", f"--name={handle.name}", "--me"), _LIMIT)
            return
        for job in self._list_jobs(handle, time.monotonic()):
            ask(("scancel", job.id), _LIMIT)

    def forget(self, handle: Handle) -> None:
        self.members.pop(handle.folder, None)
        self.taken.pop(handle.folder, None)
        if read_taker(handle) and (number := read_queued(handle)):
            ask(("scancel", number), _LIMIT)

    def _submit_group(self, group: Sequence[Waiting]) -> None:
        if len(group) == 1:
            self._submit_alone(group[0])
            return
        options, more, hidden = _list_options(group[0].submission)
        name = write_members(group)
        script = make_array_script([self._make_script(each) for each in group])
        # The first task's folder may be removed before the last begins; each task prints to its own log.
        more = {**more, "array": f"0-{len(group) - 1}", "output": "/dev/null"}
        try:
            number = _submit(group[0].handle, script, {**options, "job_name": name}, more, hidden)
        except ReconcilerError:  # Slurm refuses arrays, or this one: each member gets the reason
            for each in group:
                try:
                    self._submit_alone(each)
                except (ReconcilerError, QueueSilentError) as error:
                    each.error = error
            return
        for index, each in enumerate(group):
            self._note(each, f"{number}_{index}")

    def _submit_alone(self, waiting: Waiting) -> None:
        options, more, hidden = _list_options(waiting.submission)
        options = {**options, "job_name": waiting.handle.name}
        self._note(waiting, _submit(waiting.handle, self._make_script(waiting), options, more, hidden))

    def _make_script(self, waiting: Waiting) -> str:
        takeover = self._choose_takeover(waiting.submission)
        return make_job_script(waiting.submission, takeover.words if takeover is not None else ("harness",))

    def _note(self, waiting: Waiting, number: str) -> None:
        note_queued(waiting.submission, waiting.handle, number, self._choose_takeover(waiting.submission))

    def _choose_takeover(self, submission: Submission) -> Takeover | None:
        return choose_takeover(submission, _list_options(submission), self.token)


def _list_options(submission: Submission) -> tuple[dict[str, object], dict[str, object], tuple[str, ...]]:
    """Return the arguments of submitit, further options of sbatch, and the variables that the job does not get."""
    settings, ticket = submission.attempt.intent.settings, submission.ticket
    return (
        choose_options(settings, alone=submission.attempt.intent.address.is_timed),  # regardless of the spec
        choose_more_options(settings, travels=ticket is not None),
        list_hidden(submission.request, also=ticket.variables if ticket is not None else ()),
    )


def _submit(
    handle: Handle, script: str, options: dict[str, object], more: dict[str, object], hidden: tuple[str, ...]
) -> str:
    """Submit a job and return its number."""
    try:
        from reconciler.execute.executors.slurm.submission import submit_job
    except ImportError as error:
        raise ReconcilerError("submitit is not installed here", fix=show_install("slurm")) from error
    return submit_job(handle.folder / handle.executor, script, options, more, hidden)


def _name_number(number: str) -> str:
    """Return a name that no user gives a job."""
    return f"job {number}"


def _rank(job: SlurmJob) -> tuple[bool, bool, int]:
    return job.state in _RUNNING, job.goes_on, read_count(job.id.split("_")[0], 0)
