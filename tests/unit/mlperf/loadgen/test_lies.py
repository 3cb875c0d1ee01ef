"""No lie accepted: every edit of an honest log is refused by name, and no honest log is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from reconciler.loadgen.answers import find_wrong_answers
from reconciler.loadgen.compare import Asked, find_contradictions
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import Inconsistency
from reconciler.loadgen.log import DetailLog, parse_detail
from tests.unit.mlperf.conftest import RUNS, Run
from tests.unit.mlperf.loadgen.lies import LIES, Lie, setting, within

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
    assert {isinstance(item, Inconsistency) and item.is_doubt for item in named} == {lie.dated}, found


def test_a_small_library_is_a_lie_but_where_it_is_allowed(loadgen_run: Runs) -> None:
    (lie,) = (lie for lie in LIES if lie.name == "a library of one sample")
    detail = loadgen_run(lie.run).bytes("detail.txt").decode()
    for edit in lie.detail:
        detail = edit(detail)
    log = parse_detail(detail.encode())
    judged, allowed = find_inconsistencies(log), find_inconsistencies(log, judge_library=False)
    assert [item.key for item in judged if item not in allowed] == ["effective_performance_sample_count"]


@pytest.mark.parametrize(("seconds", "wrong"), [("593.97", True), ("593.99", False)])
def test_a_run_may_miss_its_duration_by_what_clocks_differ(seconds: str, wrong: bool, loadgen_run: Runs) -> None:
    """1 % of 600 s, and 20 ms."""
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    for key, value in {"effective_min_duration_ms": "600000", "result_max_latency_ns": f"{seconds}e9"}.items():
        detail = setting(key, value)(detail)
    found = [item.key for item in find_inconsistencies(parse_detail(detail.encode()))]
    assert ("result_min_duration_met" in found) is wrong


def test_a_run_that_issued_fewer_samples_than_it_had_to_names_both_counts(loadgen_run: Runs) -> None:
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    issued = parse_detail(detail.encode()).get("generated_samples_per_query")
    for least, wrong in ((issued, False), (issued + 1, True)):
        log = parse_detail(setting("effective_min_sample_count", str(least))(detail).encode())
        derived = [item.derived for item in find_inconsistencies(log)]
        assert (f"{issued} of {least} samples were issued" in derived) is wrong


def test_a_run_before_its_loadgen_was_built_is_named_with_both_lines(loadgen_run: Runs) -> None:
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    log = parse_detail(setting("loadgen_build_date_utc", '"2999-01-02T03:04:05Z"')(detail).encode())
    (found,) = [item for item in find_inconsistencies(log) if item.derived == "LoadGen was built on 2999-01-02"]
    assert (found.key, found.stated) == ("power_begin", log.get("power_begin"))
    assert (found.line, found.other) == (log.number("power_begin"), log.number("loadgen_build_date_utc"))


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        ("min_duration_ms", "0 was requested"),
        ("max_duration_ms", "0 was requested"),
        ("min_query_count", None),  # LoadGen makes one query of Offline's samples
        ("max_query_count", None),  # and bounds their number where each is issued once
    ],
)
def test_a_setting_is_used_as_requested_unless_loadgen_makes_it_of_others(
    name: str, requested: str | None, loadgen_run: Runs
) -> None:
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    log = parse_detail(setting(f"effective_{name}", "999")(detail).encode())
    found = [item for item in find_inconsistencies(log) if item.derived.endswith("was requested")]
    lines = (log.number(f"effective_{name}"), log.number(f"requested_{name}"))
    expected = [] if requested is None else [(f"effective_{name}", "999", requested, *lines)]
    assert [(item.key, item.stated, item.derived, item.line, item.other) for item in found] == expected


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


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, False), (9, False), (3600, False), (27 * 3600, True), (-(10**7), True)]
)
def test_the_date_of_a_run_may_be_of_any_time_zone_and_logs_may_take_any_time_to_write(
    seconds: int, told: bool, loadgen_run: Runs
) -> None:
    detail = loadgen_run("offline-valid").bytes("detail.txt")
    log = parse_detail(detail)
    ended, counted = log.ended, log.index.ended_at
    assert ended is not None
    assert counted is not None
    began = ended - timedelta(seconds=float(counted) / 1000 + seconds)
    written = setting("test_datetime", f'"{began:%Y-%m-%dT%H:%M:%S}Z"')(detail.decode())
    found = find_inconsistencies(parse_detail(written.encode()))
    assert [(item.rule, item.is_doubt) for item in found] == [("log.dates", True)] * told


def test_a_log_without_a_least_number_of_queries_is_judged_by_the_rest(loadgen_run: Runs) -> None:
    lines = loadgen_run("offline-valid").bytes("detail.txt").splitlines()
    log = parse_detail(b"\n".join(line for line in lines if b"effective_min_query_count" not in line))
    assert "result_min_queries_met" not in [item.key for item in find_inconsistencies(log)]


@pytest.mark.parametrize(("slowest", "wrong"), [(3_000_000, True), (4_000_000, False)])
def test_queries_of_a_stream_may_be_apart_by_the_slowest_answer(slowest: int, wrong: bool, loadgen_run: Runs) -> None:
    """1,000 queries of 1 ms in 6.9 s: 2 s at the end, 1 % of the clock, and a quarter of the latency are free."""
    detail = loadgen_run("multi-stream-valid").bytes("detail.txt").decode()
    began = parse_detail(detail.encode()).started
    assert began is not None
    ended = f"{began + timedelta(seconds=6.9):%m-%d-%Y %H:%M:%S.%f}"[:-3]
    detail = within("power_end", "time_ms", "7000.0")(detail)
    values = {"result_query_count": 1000, "result_mean_query_latency_ns": 1_000_000, "power_end": f'"{ended}"'}
    for key, value in {**values, "result_max_query_latency_ns": slowest}.items():
        detail = setting(key, str(value))(detail)
    found = [item.key for item in find_inconsistencies(parse_detail(detail.encode()))]
    assert ("result_mean_query_latency_ns" in found) is wrong


@pytest.mark.parametrize(
    ("run", "part", "ranked"),
    [
        ("single-stream-valid", "latency_ns", "percentile_latency_ns"),
        ("multi-stream-valid", "latency_ns", "percentile_latency_ns"),
        ("multi-stream-valid", "query_latency_ns", "percentile_per_query_latency_ns"),
    ],
)
def test_no_latency_is_below_the_one_of_the_rank_before(run: str, part: str, ranked: str, loadgen_run: Runs) -> None:
    detail = loadgen_run(run).bytes("detail.txt").decode()
    ranks = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
    keys = [f"result_min_{part}", *(f"result_{rank}_{ranked}" for rank in ranks), f"result_max_{part}"]
    for before, key in pairwise(keys):
        least = parse_detail(detail.encode()).get(before)
        for value, wrong in ((least, False), (least - 1, True)):
            log = parse_detail(setting(key, str(value))(detail).encode())
            found = [item for item in find_inconsistencies(log) if item.key == key and item.derived.startswith(before)]
            told = (str(value), f"{before} is {least}", log.number(key), log.number(before))
            assert [(each.stated, each.derived, each.line, each.other) for each in found] == [told] * wrong


@pytest.mark.parametrize("run", ["single-stream-valid", "multi-stream-valid"])
def test_a_mean_latency_is_between_the_least_and_the_greatest(run: str, loadgen_run: Runs) -> None:
    detail = loadgen_run(run).bytes("detail.txt").decode()
    log = parse_detail(detail.encode())
    for part in ("latency_ns", *(["query_latency_ns"] if run == "multi-stream-valid" else [])):
        key, least, most = f"result_mean_{part}", log.get(f"result_min_{part}"), log.get(f"result_max_{part}")
        for mean, wrong in ((least - 1, True), (least, False), (most, False), (most + 1, True)):
            found = find_inconsistencies(parse_detail(setting(key, str(mean))(detail).encode()))
            told = (str(mean), f"latencies are from {least} to {most}", log.number(key))
            named = [(each.stated, each.derived, each.line) for each in found if each.derived == told[1]]
            assert named == [told] * wrong


@pytest.mark.parametrize(
    ("version", "digest", "wrong"),
    [
        ('"5.0.1"', hashlib.sha1(b"5.0.1\n").hexdigest(), False),
        ('"5.0.1"', hashlib.sha1(b"5.0.1").hexdigest(), False),
        ('"5.0.1"', hashlib.sha1(b"5.0.1\r\n").hexdigest(), False),
        ('"5.0.1@0123456789"', hashlib.sha1(b"5.0.1\n").hexdigest(), False),
        ('"5.0.2"', hashlib.sha1(b"5.0.1\n").hexdigest(), True),
        ('"5.0.1"', hashlib.sha1(b"5.0.1\n\n").hexdigest(), True),
        ("5", hashlib.sha1(b"5.0.1\n").hexdigest(), False),  # of another form, which other rules judge
        ("null", hashlib.sha1(b"5.0.1\n").hexdigest(), False),
        ('"5.0.1"', None, False),
    ],
)
def test_the_version_of_loadgen_is_that_of_its_sources(
    version: str, digest: str | None, wrong: bool, loadgen_run: Runs
) -> None:
    written = f'"{digest}"' if digest else "7"
    detail = loadgen_run("offline-valid").bytes("detail.txt").decode()
    sources, count = re.subn(
        r'("key": "loadgen_file_sha1", "value": )\{[^}]*\}', rf'\1{{"/VERSION.txt": {written}}}', detail
    )
    assert count == 1
    log = parse_detail(setting("loadgen_version", version)(sources).encode())
    found = [item for item in find_inconsistencies(log) if item.derived == "VERSION.txt of its sources states another"]
    lines = [(log.number("loadgen_version"), log.number("loadgen_file_sha1"))]
    assert [(item.line, item.other) for item in found] == lines * wrong
