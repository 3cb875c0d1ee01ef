"""Each rule of a performance run, on logs of a few lines: what it finds, what it wants, and at which line."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check import limits, runs
from reconciler.loadgen.log import parse_detail
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.findings import Complaint, Place, Severity

FILE = "detail.txt"
DEMANDS = {
    "least_min_duration": 600_000,
    "least_performance_sample_count": 1024,
    "least_samples_per_query": 24_576,
    "least_query_count": 270_336,
}
Told = tuple[str, str, int, str, str]


def run(
    *lines: tuple[str, object],
    folder: str = "Server",
    ran: str = "Server",
    division: str = "closed",
    category: str = "edge",
    exempt: tuple[str, ...] = (),
) -> Any:
    """The lines stand from the second on. ``exempt``: demands that do not bind."""
    entries = [("effective_scenario", ran), *lines]
    text = "".join(f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': 1.0})}\n" for key, value in entries)
    metric = SimpleNamespace(key="result_number")
    rules = SimpleNamespace(
        value=lambda name, _: DEMANDS.get(name), ruled=lambda name, _: name, metric=lambda _: metric
    )
    cell = SimpleNamespace(
        cell=SimpleNamespace(scenario=folder),
        division=division,
        system=SimpleNamespace(category=category),
        ruleset=load_ruleset("v6.1"),
        rules=rules,
        binds=lambda demand: demand not in exempt,
    )
    inferred = folder != ran
    seeds = {"qsl_rng_seed": 1, "schedule_rng_seed": 2}
    log = parse_detail(text.encode(), FILE)
    return SimpleNamespace(log=log, cell=cell, inferred=inferred, scenario=ran if inferred else folder, seeds=seeds)


def tell(rule: str, of: Any) -> list[Told]:
    """Found, wanted, line, cause, and what to do."""
    found: list[Complaint] = list(getattr(runs, f"check_{rule}")(of))
    assert {told.place.file for told in found} <= {FILE}
    return [(told.found, told.wanted, told.place.line, told.cause, told.fix) for told in found]


def test_run_without_a_result_did_not_end() -> None:
    (told,) = tell("run_ended", run(("a", 1), ("b", 2)))
    assert told[:3] == ("the log ends without a result", "the log of a run that came to its end", 3)
    assert tell("run_ended", run(("result_validity", "INVALID"))) == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([("result_validity", "VALID")], ""),
        ([], ""),
        ([("result_validity", "INVALID")], "INVALID"),
        ([("result_validity", "INVALID"), ("result_invalid_reason", "too short")], "INVALID: too short"),
    ],
)
def test_invalid_run_is_told_with_its_reason(lines: list[tuple[str, object]], found: str) -> None:
    fix = "repeat the run with a target that the system keeps"
    assert tell("validity", run(*lines)) == ([(found, "VALID", 2, "", fix)] if found else [])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], []),
        ([("num_errors", 0)], []),
        ([("num_errors", 1)], [("1 error counted", "no error", 2, "", "")]),
        ([("num_errors", 2)], [("2 errors counted", "no error", 2, "", "")]),
        ([("error_runtime", "no memory")], [("no memory", "no ERROR line", 2, "", "")]),
        (
            [("a", 1), ("error_runtime", "no memory"), ("error_invalid_config", "x"), ("num_errors", 2)],
            [("no memory and 1 more", "no ERROR line", 3, "", "")],
        ),
    ],
)
def test_errors_are_told_by_the_first_and_their_number(lines: list[tuple[str, object]], told: list[Told]) -> None:
    log = run(*lines)
    text = "".join(
        f":::MLLOG {json.dumps({'key': key, 'value': value, 'metadata': {'is_error': key.startswith('error')}})}\n"
        for key, value in [("effective_scenario", "Server"), *lines]
    )
    log.log = parse_detail(text.encode(), FILE)
    assert tell("error_lines", log) == told


@pytest.mark.parametrize(
    ("mode", "found", "cause"),
    [
        ("PerformanceOnly", "", ""),
        ("AccuracyOnly", "AccuracyOnly", "the log of an accuracy run was copied here"),
        ("FindPeakPerformance", "FindPeakPerformance", ""),
        ("SubmissionRun", "", ""),  # of releases that measured and answered at once
        (None, "nothing", ""),
    ],
)
def test_performance_run_is_one(mode: str | None, found: str, cause: str) -> None:
    lines = [("a", 1), *([("effective_test_mode", mode)] if mode else [])]
    line = 3 if mode else 0
    assert tell("mode", run(*lines)) == ([(found, "PerformanceOnly", line, cause, "")] if found else [])


@pytest.mark.parametrize(
    ("folder", "ran", "category", "told"),
    [
        ("Offline", "Offline", "edge", []),
        ("Offline", "SingleStream", "edge", []),
        ("Offline", "SingleStream", "", []),
        (
            "Offline",
            "SingleStream",
            "datacenter",
            [
                (
                    "Offline inferred from SingleStream in category datacenter",
                    "a run of Offline: only edge systems may infer it",
                    1,
                    "",
                    "run Offline",
                )
            ],
        ),
        ("Offline", "Server", "edge", [("Server", "a run of Offline", 1, "the logs of another scenario's folder", "")]),
        ("Server", "Offline", "", [("Offline", "a run of Server", 1, "the logs of another scenario's folder", "")]),
    ],
)
def test_folder_holds_the_logs_of_its_scenario_or_of_one_that_it_is_inferred_from(
    folder: str, ran: str, category: str, told: list[Told]
) -> None:
    assert tell("scenario", run(folder=folder, ran=ran, category=category)) == told


def test_scenario_is_inferred_from_an_estimate() -> None:
    key, wanted = "early_stopping_latency_ms", "a value to infer MultiStream from, which takes 662 queries"
    cause, fix = "the SingleStream run was too short", "repeat the SingleStream run with min_query_count = 662"

    def find(*lines: tuple[str, object], folder: str = "MultiStream", category: str = "edge") -> list[Told]:
        return tell("inferred_metric", run(*lines, folder=folder, ran="SingleStream", category=category))

    assert find((key, 5)) == find(category="datacenter") == find(category="") == []
    assert find() == [(f"{key} nothing", wanted, 0, cause, fix)]
    assert find((key, 0)) == [(f"{key} 0", wanted, 2, cause, fix)]
    rate = "result_qps_without_loadgen_overhead"
    assert find((rate, 5), folder="Offline") == []
    plain = "a value to infer Offline from", 0, "", "repeat the SingleStream run"
    assert find(folder="Offline") == [(f"{rate} nothing", *plain)]
    assert tell("inferred_metric", run()) == []


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (1, 2, None),
        (3, 2, ("qsl_rng_seed 3", "1, the seed of v6.1", 2, "a seed was set by hand")),
        (1, None, ("schedule_rng_seed nothing", "2, the seed of v6.1", 3, "a seed was set by hand")),
        (0, 0, ("qsl_rng_seed 0", "1, the seed of v6.1", 2, "a LoadGen of another round")),
    ],
)
def test_seeds_are_those_of_the_round(first: object, second: object, told: tuple[str, str, int, str] | None) -> None:
    fix = "use a LoadGen that carries the seeds of the round"
    seen = run(("effective_qsl_rng_seed", first), ("effective_schedule_rng_seed", second))
    assert tell("seeds", seen) == ([(*told, fix)] if told else [])


@pytest.mark.parametrize(
    ("rule", "key", "least", "unit"),
    [
        ("least_duration", "effective_min_duration_ms", 600_000, " ms"),
        ("least_samples", "effective_performance_sample_count", 1024, " samples"),
        ("samples_per_query", "effective_samples_per_query", 24_576, " samples"),
        ("early_stopping", "effective_min_query_count", 270_336, " queries"),
    ],
)
def test_counts_are_at_least_what_the_round_demands(rule: str, key: str, least: int, unit: str) -> None:
    scenario, exempt = ("Offline" if rule == "samples_per_query" else "Server"), ("early_stopping",)

    def find(*lines: tuple[str, object]) -> list[Told]:
        return tell(rule, run(*lines, folder=scenario, ran=scenario, exempt=exempt))

    wanted = f"at least {least}{unit}"
    assert find((key, least)) == find((key, least + 1)) == []
    assert find((key, least - 1)) == [(f"{least - 1}{unit}", wanted, 2, "", "")]
    assert find() == [("nothing", wanted, 0, "", "")]
    assert find((key, "many")) == [("many", wanted, 2, "", "")]


def test_samples_of_a_query_are_noted_where_only_the_older_checker_asks_for_them() -> None:
    few = ("effective_samples_per_query", 1)
    told = [
        list(runs.check_samples_per_query(run(few, folder="Offline", ran="Offline", exempt=exempt)))
        for exempt in ((), ("least_samples_per_query",))
    ]
    assert [[complaint.severity for complaint in found] for found in told] == [[None], [Severity.NOTE]]
    assert list(runs.check_samples_per_query(run(few))) == []


VALIDITY = ("result_validity", "VALID")


@pytest.mark.parametrize(
    ("scenario", "lines", "found", "line"),
    [
        ("Server", [("early_stopping_met", True), VALIDITY], "", 0),
        ("Server", [VALIDITY], "no early_stopping_met", 0),
        ("Server", [], "", 0),
        ("Server", [("early_stopping_met", False), VALIDITY], "early stopping not met", 2),
        ("Server", [("early_stopping_met", "yes"), VALIDITY], "early stopping yes", 2),
        (
            "Server",
            [("early_stopping_result", "run longer"), ("early_stopping_met", False), VALIDITY],
            "early stopping not met: run longer",
            3,
        ),
        (
            "Server",
            [("early_stopping_ttft_result", "first"), ("early_stopping_met", False), VALIDITY],
            "early stopping not met: first",
            3,
        ),
        (
            "Server",
            [("early_stopping_tpot_result", "each"), ("early_stopping_met", False), VALIDITY],
            "early stopping not met: each",
            3,
        ),
        ("Offline", [VALIDITY], "", 0),
        ("Offline", [("early_stopping_met", False)], "early stopping not met", 2),
        ("Offline", [("early_stopping_met", "yes"), VALIDITY], "", 0),
    ],
)
def test_early_stopping_is_met(scenario: str, lines: list[tuple[str, object]], found: str, line: int) -> None:
    wanted, fix = "met: enough queries to prove the percentile", "run longer, or with a larger min_query_count"
    told = tell("early_stopping", run(*lines, folder=scenario, ran=scenario))
    assert told == ([(found, wanted, line, "", fix)] if found else [])


@pytest.mark.parametrize(("value", "shown"), [(5, ""), (0, "0"), (-1, "-1"), ("fast", "fast"), (None, "nothing")])
def test_result_has_its_number(value: object, shown: str) -> None:
    lines = [("result_number", value)] if value is not None else []
    line = 3 if lines else 0
    wanted = [(f"result_number {shown}", "a number above 0", line, "", "")]
    assert tell("metric", run(VALIDITY, *lines)) == (wanted if shown else [])
    assert tell("metric", run(*lines)) == []
    assert tell("metric", run(VALIDITY, *lines, folder="Offline")) == []


@pytest.mark.parametrize(
    ("division", "name", "told"),
    [
        ("network", "Network SUT", False),
        ("network", "our SUT", True),
        ("network", None, True),
        ("closed", "our", False),
    ],
)
def test_system_of_the_network_division_says_so(division: str, name: str | None, told: bool) -> None:
    lines = [("sut_name", name)] if name else []
    wanted = load_ruleset("v6.1").network.sut_name
    found = [(f"sut_name {name or 'nothing'}", f'a name that holds "{wanted}"', 2 if name else 0, "", "")]
    assert tell("network_name", run(*lines, division=division)) == (found if told else [])


def test_run_with_the_settings_of_an_audit_is_told_at_its_line() -> None:
    marker = {
        "key": "warning_generic",
        "value": "Found Audit Config file (audit.config)",
        "metadata": {"is_warning": True},
    }
    audited = run()
    text = f':::MLLOG {{"key": "effective_scenario", "value": "Server"}}\n:::MLLOG {json.dumps(marker)}\n'
    audited.log = parse_detail(text.encode(), FILE)
    (told,) = runs.check_audit_absent(audited)
    assert (told.place, told.found) == (Place(FILE, 2), "LoadGen took settings from an audit.config")
    assert not list(runs.check_audit_absent(run()))


def test_rules_of_a_performance_run_by_their_ids() -> None:
    found = [(rule.id, check.__name__) for rule, check in runs.PERFORMANCE_RULES if rule.id not in LIMITED]
    assert found == [
        ("run.ended", "check_run_ended"),
        ("run.valid", "check_validity"),
        ("run.errors", "check_error_lines"),
        ("run.mode", "check_mode"),
        ("run.scenario", "check_scenario"),
        ("run.inferred", "check_inferred_metric"),
        ("run.seeds", "check_seeds"),
        ("run.duration", "check_least_duration"),
        ("run.samples", "check_least_samples"),
        ("run.samples-per-query", "check_samples_per_query"),
        ("run.early-stopping", "check_early_stopping"),
        ("run.metric", "check_metric"),
        ("run.network", "check_network_name"),
        ("run.audit", "check_audit_absent"),
    ]
    assert {rule.severity for rule, _ in runs.PERFORMANCE_RULES} == {Severity.ERROR}


LIMITED = {rule.id for rule, _ in limits.LIMIT_RULES}
