"""No lie accepted: every edit of an honest log is refused by name, and no honest log is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reconciler.loadgen.answers import find_wrong_answers
from reconciler.loadgen.compare import Asked, find_contradictions
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import Inconsistency
from reconciler.loadgen.log import DetailLog, parse_detail
from tests.unit.loadgen.conftest import RUNS, Run
from tests.unit.loadgen.lies import LIES, Lie, setting

Runs = Callable[[str], Run]
_AUDITED = {"accuracy_log_sampling_target": 64}


def judge(run: Run, detail: bytes, answers: bytes) -> list[str | Inconsistency]:
    """What the record of the run, an audit and a tree's verification look at."""
    log = parse_detail(detail)
    return [*_settings(run, log), *find_inconsistencies(log), *_answers(run, log, answers)]


def _settings(run: Run, log: DetailLog) -> Iterator[str]:
    mode = "accuracy" if run.case.mode == "AccuracyOnly" else "performance"
    bound = {"max_query_count": 50} if "max_query_count" in run.case.conf else {}
    audited = _AUDITED if run.case.audit else {}
    asked = Asked(run.case.scenario, mode, bound, audit=bool(run.case.audit), audited=audited, whole=True)
    yield from map(str, find_contradictions(log, asked))


def _answers(run: Run, log: DetailLog, answers: bytes) -> Iterator[str]:
    if run.case.mode == "AccuracyOnly" or run.case.audit:
        yield from find_wrong_answers(answers.splitlines(), log)


@pytest.mark.parametrize("name", RUNS)
def test_an_honest_log_is_believed(name: str, loadgen_run: Runs) -> None:
    run = loadgen_run(name)
    assert judge(run, run.bytes("detail.txt"), run.bytes("accuracy.json")) == []


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_is_refused_by_name(lie: Lie, loadgen_run: Runs) -> None:
    run = loadgen_run(lie.run)
    detail, answers = run.bytes("detail.txt").decode(), run.bytes("accuracy.json").decode()
    for edit in lie.detail:
        detail = edit(detail)
    for edit in lie.answers:
        answers = edit(answers)
    found = judge(run, detail.encode(), answers.encode())
    named = [item for item in found if str(item).startswith(lie.key)]
    assert {isinstance(item, Inconsistency) and bool(item.premise) for item in named} == {lie.dated}, found


@pytest.mark.parametrize(("seconds", "wrong"), [("593.97", True), ("593.99", False)])
def test_a_run_may_miss_its_duration_by_what_clocks_differ(seconds: str, wrong: bool, loadgen_run: Runs) -> None:
    """1 % of 600 s, and 20 ms."""
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    for key, value in {"effective_min_duration_ms": "600000", "result_max_latency_ns": f"{seconds}e9"}.items():
        detail = setting(key, value)(detail)
    found = [item.key for item in find_inconsistencies(parse_detail(detail.encode()))]
    assert ("result_min_duration_met" in found) is wrong


@pytest.mark.parametrize(
    ("run", "key", "rank", "kind"),
    [
        ("single-stream-valid", "early_stopping_latency_ss", "90.00", "latency_ns"),
        ("multi-stream-valid", "early_stopping_latency_ms", "99.00", "query_latency_ns"),
    ],
)
@pytest.mark.parametrize("tokens", [False, True], ids=["of queries", "of tokens"])
def test_an_estimate_is_between_its_percentile_and_the_slowest(
    run: str, key: str, rank: str, kind: str, tokens: bool, loadgen_run: Runs
) -> None:
    """Where token latencies count, it is one of those."""
    detail = loadgen_run(run).bytes("detail.txt").decode()
    if tokens:  # LoadGen has no such line where they do not count
        switch, other = "requested_use_token_latencies", "requested_min_duration_ms"
        (line,) = (line for line in detail.splitlines(keepends=True) if f'"{other}"' in line)
        detail = detail.replace(line, line + setting(switch, "true")(line.replace(other, switch)))
    log = parse_detail(detail.encode())
    seen = log.get(f"result_{rank}_percentile_{'per_' * kind.startswith('query')}{kind}")
    slowest = log.get(f"result_max_{kind}")
    assert seen < slowest
    early, late = f"the {rank} percentile is {seen}", f"the slowest took {slowest}"
    for estimate, said in ((seen - 1, [early]), (seen, []), (slowest, []), (slowest + 1, [late])):
        found = find_inconsistencies(parse_detail(setting(key, str(estimate))(detail).encode()))
        derived = [item.derived for item in found if item.key == key and item.derived in (early, late)]
        assert derived == ([] if tokens else said)
