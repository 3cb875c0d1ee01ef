"""What a commit claims of results of the endpoints harness, derived again from its own bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.desired.state import Detail
from reconciler.diff.claims import Claim, Proof
from reconciler.execute.results import find_result_contradictions, measure_results, parse_left, score_results
from reconciler.mlperf.loadgen.settings import ENDPOINTS, RESULTS
from reconciler.mlperf.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import Record


def is_of_endpoints(record: Record) -> bool:
    """Whether it is a run whose command left results of the endpoints harness."""
    return RESULTS in record.inputs and record.inputs[RESULTS].value == ENDPOINTS


def verify_results(cell: Cell, name: str, record: Record, asked: Detail, files: Mapping[str, bytes]) -> Iterator[Claim]:
    """Of a run: its settings, and what it measured. ``files``: its artifacts that are there, by name."""
    values = {n: i.value for n, i in record.inputs.items()}
    timed = record.address.kind is Kind.RUN and values.get("mode") == "performance"
    own = RESULT_SUMMARY if timed else ACCURACY_RESULTS
    lost = [file for file in (CONFIG, own) if file not in files]
    measured = ("validity", "metric") if timed else ()
    if lost:
        why = f"{', '.join(lost)} is not in this commit as recorded"
        yield from (Claim(str(cell), f"{name}: {what}", Proof.MISSING, why) for what in ("settings", *measured))
        return
    try:
        left = parse_left(files)
        found = find_result_contradictions(left, values)
        again = measure_results(left, asked.ruling, asked.settings.number("min_duration")) if timed else {}
    except ValueError as error:
        yield Claim(str(cell), f"{name}: settings", Proof.CONTRADICTED, str(error))
        return
    detail = "; ".join(found) or f"{CONFIG} shows every setting, and the seeds"
    yield Claim(str(cell), f"{name}: settings", Proof.CONTRADICTED if found else Proof.PROVEN, detail)
    for key in measured:
        yield Claim(str(cell), f"{name}: {key}", *compare_result(record.values.get(key), again[key], own))


def compare_result(recorded: object, again: object, source: str) -> tuple[Proof, str]:
    """A recorded value against what ``source`` says of it."""
    if again == recorded:
        return Proof.PROVEN, f"{_shown(again)}, from {source}"
    return Proof.CONTRADICTED, f"recorded {_shown(recorded)}, {source} says {_shown(again)}"


def verify_score(cell: Cell, record: Record, asked: Detail, files: Mapping[str, bytes]) -> Claim:
    """Of a score: what its accuracy run's ``files`` say. The harness scored it, so that it is attested."""
    if ACCURACY_RESULTS not in files:
        return Claim(str(cell), "accuracy", Proof.MISSING, f"{ACCURACY_RESULTS} is not in this commit as recorded")
    try:
        metric = score_results(parse_left(files), asked.ruling)["metric"]
    except ValueError as error:
        return Claim(str(cell), "accuracy", Proof.CONTRADICTED, str(error))
    proof, detail = compare_result(record.values.get("metric"), metric, ACCURACY_RESULTS)
    if proof is Proof.CONTRADICTED:
        return Claim(str(cell), "accuracy", proof, detail)
    return Claim(str(cell), "accuracy", Proof.ATTESTED, f"{detail}, as the harness scored it")


def _shown(value: object) -> str:
    return f"{value['value']} {value['unit']}" if isinstance(value, dict) else str(value)
