"""Judges an attempt whose command left results of the endpoints harness: what LoadGen's logs are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from reconciler.mlperf.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.mlperf.endpoints import AskedResults, Results, find_differences, measure_performance
from reconciler.mlperf.endpoints_accuracy import judge_accuracy_scores
from reconciler.mlperf.endpoints_audits import Audits, collect_audit_values, find_missing_audits, find_wrong_audits
from reconciler.mlperf.loadgen.settings import ENDPOINTS, ENDPOINTS_SEEDS, RESULTS
from reconciler.mlperf.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.mlperf.rules.context import RuleContext
from reconciler.resource.settings import Settings

AUDIT = "audit"  # folder of the tests that the harness ran behind the performance run


def has_results(settings: Settings) -> bool:
    """Whether a cell's settings name the endpoints harness."""
    return settings.get(RESULTS) == ENDPOINTS


@dataclass(frozen=True, slots=True)
class Left:
    """The results of one run, and of the compliance tests that the harness ran behind it."""

    results: Results
    audits: Audits


def read_left(folder: Path) -> Left:
    """Of a folder in which the files have the names of a record's artifacts. ValueError as ``parse_left``."""
    paths = (folder / name for name in (CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS))
    found = [*(path for path in paths if path.is_file()), *(folder / AUDIT).rglob("*.json")]
    try:
        return parse_left({path.relative_to(folder).as_posix(): path.read_bytes() for path in found})
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}") from error


def parse_left(files: Mapping[str, bytes]) -> Left:
    """``files``: artifacts by name. ValueError names a file that is not there or cannot be read."""
    if CONFIG not in files:
        raise ValueError(f"there is no {CONFIG}")
    read = {name: _document(name, data) for name, data in files.items() if name.endswith((".json", CONFIG))}
    audits = {PurePosixPath(name): document for name, document in read.items() if name.startswith(f"{AUDIT}/")}
    stated = {n.stem.removeprefix("audit_"): d for n, d in audits.items() if n.name.startswith("audit_")}
    phases = {n.parts[1]: d for n, d in audits.items() if n.name == RESULT_SUMMARY and len(n.parts) > 2}
    return Left(Results(read[CONFIG], read.get(RESULT_SUMMARY), read.get(ACCURACY_RESULTS)), Audits(stated, phases))


def _document(name: str, data: bytes) -> ResultDocument:
    try:
        return parse_yaml_mapping(data) if name == CONFIG else parse_json_object(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {' '.join(str(error).split())}") from error


def collect_asked_results(values: Mapping[str, Any], seconds: float = 0.0) -> AskedResults:
    """What a run's identity inputs ask of the harness."""
    return AskedResults(
        scenario=str(values["scenario"]),
        mode=str(values["mode"]),
        model=str(values.get("harness.model_name", "")),
        settings=values,
        seeds={name: int(values[name]) for name in ENDPOINTS_SEEDS if values.get(name) is not None},
        seconds=seconds,
    )


def find_result_contradictions(left: Left, values: Mapping[str, Any], seconds: float = 0.0) -> list[str]:
    """Every field in which the results are not those of the run that was asked. ``seconds``: the command took them."""
    return [
        *map(str, find_differences(left.results, collect_asked_results(values, seconds))),
        *find_wrong_audits(left.audits),
    ]


def measure_results(left: Left, rules: RuleContext, min_duration: int) -> dict[str, Any]:
    """What a performance run's record says of its results. ``min_duration``: in ms, as asked of the run."""
    summary, audits = left.results.summary, left.audits
    assert summary is not None
    assert rules.endpoints is not None
    values = measure_performance(summary, rules.metric, rules.endpoints.limits, min_duration)
    reasons = [*values["reasons"], *find_missing_audits(audits, rules.endpoints.audits)]
    reasons += _output_length(summary, rules.endpoints.mean_tokens)
    found = {"audits": collect_audit_values(audits)} if audits.stated else {}
    return {**values, "reasons": reasons, "validity": "INVALID" if reasons else "VALID", **found}


def _output_length(summary: ResultDocument, bounds: tuple[Decimal, Decimal] | None) -> Iterator[str]:
    if bounds is None:
        return
    least, most = bounds
    mean = summary.within("output_sequence_lengths", "avg")
    if not isinstance(mean, (int, float)) or not least <= Decimal(str(mean)) <= most:
        yield f"TEST09: a mean of {mean} output tokens, between {least} and {most} is required"


def score_results(left: Left, rules: RuleContext) -> dict[str, Any]:
    """What a score's record says. ValueError: not every dataset has a score."""
    if left.results.scores is None:
        raise ValueError(f"there is no {ACCURACY_RESULTS}")
    assert rules.endpoints is not None
    single = rules.endpoints.single_score
    return judge_accuracy_scores(left.results.scores, list(rules.bars), single=single, binds=rules.bars_bind)


def list_result_files(folder: Path, mode: str) -> Iterator[Path]:
    """What the tree and a later judgement need of a run, in a fixed order."""
    own = RESULT_SUMMARY if mode == "performance" else ACCURACY_RESULTS
    yield from (path for name in (CONFIG, own) if (path := folder / name).is_file())
    if mode == "performance":
        yield from sorted(path for path in (folder / AUDIT).rglob("*.json") if path.is_file())
