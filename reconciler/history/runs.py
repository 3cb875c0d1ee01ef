"""What a commit says of its runs and scores, derived again from LoadGen's logs or the endpoints harness's results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reconciler.desired.state import Detail
from reconciler.diff.claims import Claim, Proof
from reconciler.errors import LogError
from reconciler.execute.attempt_record import collect_asked, judge_text, measure_performance
from reconciler.history.logs import Good, Logs, read_record_files
from reconciler.history.results import compare_result, is_of_endpoints, verify_results, verify_score
from reconciler.history.snapshot import Snapshot
from reconciler.importing.run_import import find_asked_elsewhere
from reconciler.mlperf.loadgen.compare import find_contradictions
from reconciler.mlperf.loadgen.consistency import find_inconsistencies
from reconciler.mlperf.loadgen.log import parse_detail
from reconciler.mlperf.log_files import ACCURACY_TEXT, DETAIL
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import IMPORTED, Record


def verify_runs(cell: Cell, name: str, record: Record, at: Snapshot, logs: Good) -> Iterator[Claim]:
    """Settings of a run or a test, the result of the performance run, accuracy of a score; nothing of other records."""
    files = read_record_files(record, logs)
    accuracy = at.records.get(at.difference.chosen[cell].accuracy)
    if record.address.kind is Kind.SCORE and accuracy is not None and is_of_endpoints(accuracy):
        yield verify_score(cell, record, _detail(record, at), read_record_files(accuracy, logs))
    elif is_of_endpoints(record):
        yield from verify_results(cell, name, record, _detail(record, at), files)
    elif record.address.kind is Kind.SCORE:
        yield _score(cell, record, _detail(record, at), files.get(ACCURACY_TEXT))
    elif "mode" in record.inputs:
        yield from _run(cell, name, record, _detail(record, at), files.get(DETAIL))


def verify_candidates(cell: Cell, published: Record, at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Of the performance runs that the policy passed over: whether their logs say what their records say. A worse run
    whose record calls it INVALID would make room for a better one."""
    own = at.difference.chosen[cell].performance
    for summary in at.recorded.done(published.key):
        record = at.records[summary.id]
        if summary.id == own or record.address.kind is not Kind.RUN:
            continue
        good = logs.read(a for a in record.artifacts if a.place == "logs")
        for claim in verify_runs(cell, f"performance of {record.started}, not published", record, at, good):
            if not claim.what.endswith(": settings"):
                yield claim


def _detail(record: Record, at: Snapshot) -> Detail:
    """Of the resource it is chosen for; of an inferred cell's records that is another cell's."""
    declared = at.declared(record)
    return at.desired.detail(declared.address) if declared else Detail(())


def _run(cell: Cell, name: str, record: Record, asked: Detail, data: bytes | None) -> Iterator[Claim]:
    values = {n: i.value for n, i in record.inputs.items()}
    mode, claim = str(values["mode"]), partial(Claim, str(cell))
    measured = ("validity", "metric") if record.address.kind is Kind.RUN and mode == "performance" else ()
    if data is None:
        lost = f"{DETAIL} is not in this commit as recorded"
        yield from (claim(f"{name}: {what}", Proof.MISSING, lost) for what in ("settings", *measured))
        return
    wanted = find_asked_elsewhere(values, mode) if IMPORTED in record.marks else collect_asked(values, mode)
    try:
        log = parse_detail(data, DETAIL)
        found = [*map(str, find_contradictions(log, wanted)), *map(str, find_inconsistencies(log))]
    except LogError as error:
        yield claim(f"{name}: settings", Proof.CONTRADICTED, str(error))
        return
    detail = "; ".join(found) or f"LoadGen's log shows every setting{', and the seeds' * bool(wanted.seeds)}"
    yield claim(f"{name}: settings", Proof.CONTRADICTED if found else Proof.PROVEN, detail)
    again = measure_performance(log, asked.ruling.metric) if measured else {}
    for key in measured:
        yield claim(f"{name}: {key}", *compare_result(record.values.get(key), again[key], DETAIL))


def _score(cell: Cell, record: Record, asked: Detail, text: bytes | None) -> Claim:
    claim = partial(Claim, str(cell), "accuracy")
    if text is None:
        return claim(Proof.MISSING, f"{ACCURACY_TEXT} is not in this commit as recorded")
    again = judge_text(text.decode(errors="replace"), asked.ruling, {})
    proof, detail = compare_result(record.values.get("metric"), again.values.get("metric"), ACCURACY_TEXT)
    if proof is Proof.CONTRADICTED:
        return claim(proof, f"{detail}{f': {again.problem}' * bool(again.problem)}")
    return claim(Proof.ATTESTED, f"{detail}, as the scorer wrote it")
