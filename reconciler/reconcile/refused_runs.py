"""Takes up runs that an older version refused because their logs contradicted themselves: the logs are kept, and the
rules of today record them. Each becomes an attempt again, as if it had just ended, so that nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from harness.contract import Fact, Result
from reconciler.desired.detail import Detail
from reconciler.diff.change import Reason, Work
from reconciler.errors import RecordError
from reconciler.execute.attempt import create, repeat_intent
from reconciler.execute.attempt_record import build_record
from reconciler.execute.perform import Finished, keep_code
from reconciler.execute.requests import write_confs
from reconciler.loadgen.log_files import DETAIL
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import PERFORMANCE, Kind
from reconciler.resource.records import CHILD_LOG, POWER_CHECK, SESSION, Ended, Record
from reconciler.resource.settings import DIRECTOR
from reconciler.storage.files import RepositoryPaths, hash_file, offer, remove

_REFUSED = frozenset({"contradiction", "clock"})  # classes of problems
_LOGS = "mlperf_log_"  # begins the names of LoadGen's files


def take_up_refused(paths: RepositoryPaths, seen: PlanResult, store: Callable[[Finished], object]) -> Iterator[str]:
    """Records what is due and what such a run answers; gives the addresses."""
    written = seen.recorded.find_written()
    for step in seen.plan.steps:
        for record, identity in _find_refused(paths, seen, step):
            detail = seen.desired.detail(step.change.address)
            finished = _judge_again(paths, record, identity, detail, written)
            if finished is not None:
                store(finished)
                yield str(step.change.address)
                break


def _find_refused(paths: RepositoryPaths, seen: PlanResult, step: Step) -> Iterator[tuple[Record, str]]:
    """Newest first, each with its id; none that was taken up already."""
    change = step.change
    runs = change.address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST) and change.how is Work.MAKE
    if not runs or change.reason is Reason.FORCED or seen.plan.withholds(step):
        return
    known = seen.recorded.by_key.get(change.key, ())
    done = {summary.started for summary in known if summary.ended is Ended.DONE}
    for summary in reversed(known):
        if summary.ended is Ended.FAILED and summary.started not in done:
            try:
                record = load_record(paths, summary.id)
            except RecordError:
                continue
            if record.problem_class in _REFUSED and "contradictions" in record.values:
                yield record, summary.id


def _judge_again(
    paths: RepositoryPaths, record: Record, identity: str, detail: Detail, written: Mapping[str, Collection[str]]
) -> Finished | None:
    """None where the logs are not here as recorded, or are no whole run of what is asked. Where its power was measured
    the session of the meters is needed, too, which older versions did not keep."""
    files = {
        item.name: (item, find_readable(paths, item))
        for item in record.artifacts
        if "/" not in item.name or item.name.startswith(SESSION)
    }
    whole = all(path.is_file() and hash_file(path) == item.sha256 for item, path in files.values())
    measured = record.address.mode == PERFORMANCE and DIRECTOR in detail.settings
    session = "power" in record.values and any(name.startswith(SESSION) for name in files)
    if DETAIL not in files or not whole or (measured and not session):
        return None
    attempt = create(paths.attempts, replace(repeat_intent(record.attempt, record, detail), supersedes=identity))
    write_confs(attempt)
    for name, (_, path) in files.items():
        if name == attempt.user_conf.name:
            attempt.user_conf.unlink(missing_ok=True)
            offer(path, attempt.user_conf)
        elif name == CHILD_LOG:
            offer(path, attempt.log)
        elif name == POWER_CHECK:
            offer(path, attempt.power_check)
        elif name.startswith(SESSION):
            offer(path, attempt.session / name.removeprefix(SESSION))
        elif name.startswith(_LOGS):
            offer(path, attempt.output / name)
    if record.address.mode == PERFORMANCE:
        keep_code(attempt, paths.root, written)
    noted = {name: fact.role is Role.NOTE for name, fact in record.facts.items()}
    facts = {n: Fact(value=f.value, role="note" if noted[n] else "evidence") for n, f in record.facts.items()}
    power = {"power": record.values["power"]} if "power" in record.values else {}
    Result(done=True, seconds=record.seconds, values=power, facts=facts).write(attempt.result)
    again, artifacts = build_record(attempt)
    if again.problem:
        remove(attempt.folder)
        return None
    return Finished(attempt, again, artifacts)
