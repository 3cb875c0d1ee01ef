"""Draft a round's file from an official checker and mlperf.conf: the values that differ from the previous round, each
with its file and line. Values that these sources do not state are copied from the previous round and listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.settings import SETTINGS, find_settings
from reconciler.loadgen.user_conf import UserConf, read_conf_value
from reconciler.resource.canonical import show_decimal
from reconciler.resource.kinds import SCENARIOS
from reconciler.rules.checker_tables import CheckerTables, Constant, Table
from reconciler.rules.comparison import CATEGORIES, RoundsDiff, RulePlace, diff_rounds
from reconciler.rules.rounds import list_rounds, order_round, read_file, read_round
from reconciler.rules.ruled_value import SETTING_FIELDS, RoundFileError, RuledValue, choose_strict_side
from reconciler.rules.ruleset import BenchmarkRules, Ruleset

_CONF = "mlperf.conf"
_SOURCES = ("checker", _CONF, "old checker")  # if none is stricter, the first one with a value counts
_TODO = "TODO"
_WORDS = ("true", "false", "null", "yes", "no", "on", "off")  # texts that YAML would read as another type
_TABLES = {  # names in MODEL_CONFIG: benchmark → value, or scenario → value
    "performance-sample-count": "least_performance_sample_count",
    "dataset-size": "dataset_size",
    "latency-constraint": "most_target_latency",
    "min-queries": "least_query_count",
}
_GENERAL = {"TEST_DURATION_MS": "least_min_duration", "REQUIRED_MEASURE_FILES": "cell_documents"}
_CATEGORY = {"datacenter": "datacenter", "edge": "edge", "datacenter-edge": "datacenter,edge"}
_ONE_OF = ("Interactive", "Server")
_UNIT = re.compile(r"Latency \((\w+)\)")
_DIVISORS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}  # LoadGen's latencies are in ns
_SECTIONS = {  # optional section of a round → the checker's table with its values
    "network": "SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE",
    "power_fields": "SYSTEM_DESC_REQUIRED_FIELDS_POWER",
    "endpoints": "ENDPOINTS_ALLOWED_MODELS",
}
_NEVER_READ = (
    "layout, divisions, inferences, files of compliance tests, exact_use_token_latencies: the checker's code",
    "policy: the rules' texts; generation: how tokens are chosen; audit.config: the settings of compliance tests",
)


class Said(Struct, frozen=True):
    """A value stated by a source, and where."""

    value: Any
    where: str


Statements = dict[RulePlace, dict[str, Said]]
Reading = tuple[RulePlace, Constant]


class Draft(Struct, frozen=True):
    """A draft of a round. ``changed``: place → values that differ from the previous round; ``removed``: paths of the
    previous round and the table that the checker no longer has, "" if one of its lists removed them; ``kept``: places
    whose sources stated them in the previous round but not in this one; ``missing``: values that a new benchmark or
    scenario needs and no source states; ``unread``: entries of the tables that were not understood."""

    round: str
    base: Ruleset
    changed: Statements
    removed: Mapping[str, str]
    kept: tuple[RulePlace, ...]
    missing: tuple[str, ...]
    unread: tuple[str, ...]


def choose_round(checkers: Sequence[CheckerTables]) -> str:
    """Return the newest round in the tables."""
    return max(checkers[0].list_rounds(), key=order_round)


def choose_base(round_name: str) -> str:
    """Return the newest known round before this one, or the oldest known round."""
    return next((name for name in reversed(list_rounds()) if order_round(name) < order_round(round_name)), "v0.7")


def draft_round(round_name: str, base: Ruleset, checkers: Sequence[CheckerTables], conf: UserConf | None) -> Draft:
    statements: Statements = {}
    unread: list[str] = []
    models = checkers[0].find_models(round_name)
    named = tuple(map(str, models.value)) if models is not None else tuple(base.benchmarks)
    for checker in checkers:
        if round_name not in checker.list_rounds():
            unread.append(f"{checker.file}: no values for {round_name}")
            continue
        for table, readings in _read_checker(checker, round_name, base, named):
            try:
                for place, cell in readings:
                    if choose_strict_side(place.name) and not cell.unread:
                        Decimal(str(cell.value))  # sources are compared as decimals
                    if not cell.unread:
                        where = f"{checker.file}:{cell.line}"
                        _add_statement(statements, place, checker.source, Said(_convert_exact(cell.value), where))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                unread.append(f"{checker.file}: {table}: unknown format")
        unread += [f"{checker.file}:{cell.line}: {at}: {cell.unread}" for at, cell in checker.list_unread(round_name)]
    _drop_older_metrics(statements)
    if conf is not None:
        unread += _read_conf(statements, conf, base, named)
    missing = [*_leave_out_tests(statements, base), *_list_missing(base, statements, named)]
    _complete_new(statements, base, named)
    changed = {place: said for place, said in statements.items() if not _is_known(place, said, _find_base(base, place))}
    return Draft(
        round=round_name,
        base=base,
        changed=changed,
        removed=dict(_list_removed(checkers[0], round_name, base, named)),
        missing=tuple(missing),
        kept=tuple(_list_kept(base, statements, named)),
        unread=tuple(unread),
    )


def _drop_older_metrics(statements: Statements) -> None:
    """Drop a metric of the older checker if the newer checker uses another one for the benchmark."""
    bars = [(p, p.benchmark, p.name.split(".")[1]) for p in statements if p.name.startswith("accuracy.")]
    newer = {(benchmark, metric) for place, benchmark, metric in bars if "checker" in statements[place]}
    for place, benchmark, metric in bars:
        if benchmark in {name for name, _ in newer} and (benchmark, metric) not in newer:
            del statements[place]


def _add_statement(statements: Statements, place: RulePlace, source: str, said: Said) -> None:
    statements.setdefault(place, {}).setdefault(source, said)


def _convert_exact(value: Any) -> Any:
    """Return the value as round files write it, without decimals that could be read as floats."""
    if isinstance(value, Decimal):
        return show_decimal(value)
    if isinstance(value, Mapping):
        return {key: _convert_exact(item) for key, item in value.items()}
    return tuple(_convert_exact(item) for item in value) if isinstance(value, tuple) else value


# Values in a checker's tables.


def _read_checker(
    checker: CheckerTables, round_name: str, base: Ruleset, named: Sequence[str]
) -> Iterator[tuple[str, Iterator[Reading]]]:
    """Yield each table's values for the ``named`` benchmarks and for all benchmarks."""
    models = partial(checker.find_model_table, round_name)
    yield "values of all benchmarks", _read_general(checker, round_name, base)
    yield "model_mapping", _read_aliases(models("model_mapping"), base, named)
    yield "fields of descriptions", _read_fields(checker, base)
    yield "endpoints", _read_endpoints(checker, round_name, base)
    for benchmark in named:
        yield "scenarios", _read_categories(checker, round_name, benchmark)
        for name, rule in _TABLES.items():
            yield name, _read_cells(models(name), benchmark, rule)
        counted = benchmark in models("accuracy-sample-count")
        counts = "accuracy-sample-count" if counted else "dataset-size"
        yield counts, _read_cells(models(counts), benchmark, "exact_accuracy_sample_count")
        yield "accuracy-target", _read_bars(models("accuracy-target"), benchmark, "least")
        yield "accuracy-upper-limit", _read_bars(models("accuracy-upper-limit"), benchmark, "most")
        yield "accuracy-delta-perc", _read_changes(models("accuracy-delta-perc"), benchmark)
        yield "models_TEST*", _read_tests(checker, round_name, benchmark)
        yield "limits", _read_limits(checker, benchmark)
        yield "metrics", _read_metrics(checker, round_name, benchmark)
        files = checker.find("REQUIRED_ACC_BENCHMARK", benchmark, round_name)
        yield "REQUIRED_ACC_BENCHMARK", _read_files(files, benchmark)


def _read_changes(table: Table, benchmark: str) -> Iterator[Reading]:
    for metric, cell in _list_cells(table, benchmark):
        name = f"tests.TEST01.limits.most_accuracy_change_{metric}"
        yield RulePlace(benchmark, "", name), Constant(show_decimal(Decimal(cell.value)), cell.line)


def _read_tests(checker: CheckerTables, round_name: str, benchmark: str) -> Iterator[Reading]:
    tests = {
        name.removeprefix("models_"): listed
        for name in checker.find("MODEL_CONFIG", round_name)
        if name.startswith("models_TEST") and (listed := checker.find_models(round_name, name)) is not None
    }
    if tests:
        asked = sorted(test for test, cell in tests.items() if benchmark in cell.value)
        line = min((tests[test].line for test in asked), default=min(cell.line for cell in tests.values()))
        yield RulePlace(benchmark, "", "compliance_tests"), Constant(tuple(asked), line)


def _read_limits(checker: CheckerTables, benchmark: str) -> Iterator[Reading]:
    for scenario, limits in checker.find("LLM_LATENCY_LIMITS", benchmark).items():
        for name, cell in limits.items():
            yield RulePlace(benchmark, scenario, f"most_{name}_latency"), cell
    for scenario, cell in _list_cells(checker.find("OFFLINE_MIN_SPQ_SINCE_V4"), benchmark):
        yield RulePlace(benchmark, scenario or "Offline", "least_samples_per_query"), cell


def _read_files(table: Table, benchmark: str) -> Iterator[Reading]:
    for folder, cell in table.items():
        files = {"folder": folder, "stems": cell.value}
        yield RulePlace(benchmark, "", "accuracy_files"), Constant(files, cell.line)


def _read_general(checker: CheckerTables, round_name: str, base: Ruleset) -> Iterator[Reading]:
    for name, cell in checker.find_model_table(round_name, "seeds").items():
        yield RulePlace("", "", name), cell
    for name, cell in checker.find_model_table(round_name, "test05_seeds").items():
        if (place := _find_general_place(base, f"test05_{name}")) is not None:
            yield place, cell
    for constant, name in _GENERAL.items():
        if (cell := checker.find_cell(constant)) is not None:
            yield RulePlace("", "", name), cell
    limit, unit = checker.find_cell("FILE_SIZE_LIMIT_MB"), checker.find_cell("MB_TO_BYTES")
    if limit is not None and unit is not None:
        yield RulePlace("", "", "most_file_bytes"), Constant(limit.value * unit.value, limit.line)
    for scenario, cell in checker.find("RESULT_FIELD_NEW", round_name).items():
        yield RulePlace("", scenario, "metric_key"), cell


def _read_aliases(mapping: Table, base: Ruleset, named: Sequence[str]) -> Iterator[Reading]:
    """Read the aliases. Those of benchmarks that left the round remain."""
    if aliases := {name: cell.value for name, cell in mapping.items() if cell.value in named}:
        earlier = {name: official for name, official in base.aliases.items() if official not in named}
        line = min(mapping[name].line for name in aliases)
        yield RulePlace("", "", "aliases"), Constant({**earlier, **aliases}, line)


def _read_fields(checker: CheckerTables, base: Ruleset) -> Iterator[Reading]:
    """Read a section as one value: the checker's list, with the previous round's values for the rest."""
    find, stated = checker.find_cell, {name: ruled.value for name, ruled in base.sections.items()}
    lists = {"measurements_fields": "SYSTEM_IMP_REQUIRED_FILES", "power_fields": "SYSTEM_DESC_REQUIRED_FIELDS_POWER"}
    for name, table in lists.items():
        if (cell := find(table)) is not None:
            yield RulePlace("", "", name), cell
    fields = find("SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE")
    sut = find("NETWORK_MODE_REQUIRED_SUBSTRING_IN_SUT_NAME")
    if fields is not None and sut is not None:
        yield RulePlace("", "", "network"), Constant({"fields": fields.value, "sut_name": sut.value}, fields.line)
    if (limit := find("MAX_ACCURACY_LOG_SIZE")) is not None:
        yield RulePlace("", "", "accuracy_log"), Constant({**stated["accuracy_log"], "limit": limit.value}, limit.line)
    filled = find("SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS")
    integer = find("SYSTEM_DESC_NUMERIC_RESPONSE_REQUIRED_FIELDS")
    named = [name for name in checker.tables if re.fullmatch(r"SYSTEM_DESC_REQUIR?ED_FIELDS(_SINCE_\w+)?", name)]
    required = [cell for name in named if (cell := find(name)) is not None]
    if required and filled is not None:
        known = {entry["name"]: entry for entry in stated["system_fields"]}
        names = [name for cell in required for name in cell.value]
        listed = [*(name for name in known if name in names), *(name for name in names if name not in known)]
        flags = {"filled": filled.value, **({"integer": integer.value} if integer and integer.value else {})}
        entries = [
            {key: item for key, item in known.get(name, {"name": name}).items() if key not in flags}
            | {flag: True for flag, those in flags.items() if name in those}
            for name in listed
        ]
        yield RulePlace("", "", "system_fields"), Constant(tuple(entries), required[0].line)


def _read_endpoints(checker: CheckerTables, round_name: str, base: Ruleset) -> Iterator[Reading]:
    stated = base.sections["endpoints"].value if "endpoints" in base.sections else {}
    allowed, tests = checker.find_cell("ENDPOINTS_ALLOWED_MODELS"), checker.find("ENDPOINTS_COMPLIANCE_MAPPING")
    metrics = checker.find("RESULT_FIELD_ENDPOINTS", round_name)
    if allowed is None or not metrics:
        return
    names = {scenario.lower(): scenario for scenario in SCENARIOS}
    value = {
        **stated,
        "benchmarks": allowed.value,
        "tests": {test: cell.value for test, cell in tests.items()},
        "metrics": {
            names.get(scenario, scenario): {**stated.get("metrics", {}).get(scenario, {}), "key": cell.value}
            for scenario, cell in metrics.items()
        },
    }
    yield RulePlace("", "", "endpoints"), Constant(value, allowed.line)


def _read_categories(checker: CheckerTables, round_name: str, benchmark: str) -> Iterator[Reading]:
    """Read the scenarios. If two are both optional, the checker's code, not its tables, requires one of them."""
    tables, lines = {}, []
    for name, category in _CATEGORY.items():
        presences = ("required", "optional")
        tabled = {p: checker.find_model_table(round_name, f"{p}-scenarios-{name}").get(benchmark) for p in presences}
        found = {presence: cell for presence, cell in tabled.items() if isinstance(cell, Constant)}
        if any(cell.value for cell in found.values()):
            lines += [cell.line for cell in found.values()]
            tables[category] = {presence: cell.value for presence, cell in found.items() if cell.value}
            if set(_ONE_OF) <= set(tables[category].get("optional", ())):
                tables[category]["one_of"] = (_ONE_OF,)
    if tables:
        yield RulePlace(benchmark, "", CATEGORIES), Constant(tables, min(lines))


def _list_cells(table: Table, benchmark: str) -> list[tuple[str, Constant]]:
    """Return the entries below a benchmark by name, under "" if it has a single value."""
    found = table.get(benchmark, {})
    below = {"": found} if isinstance(found, Constant) else found
    return [(name, cell) for name, cell in below.items() if isinstance(cell, Constant) and not cell.unread]


def _read_cells(table: Table, benchmark: str, rule: str) -> Iterator[Reading]:
    """Yield a single value, or one per scenario."""
    joined = rule == "exact_accuracy_sample_count"
    for scenario, cell in (_join_scenarios if joined else _list_cells)(table, benchmark):
        yield RulePlace(benchmark, scenario, rule), cell


def _join_scenarios(table: Table, benchmark: str) -> list[tuple[str, Constant]]:
    """Use the most frequent value of the scenarios as the benchmark's value."""
    cells = _list_cells(table, benchmark)
    values = [cell.value for name, cell in cells if name]
    common = max(values, key=values.count, default=None)
    return [("" if cell.value == common else scenario, cell) for scenario, cell in cells]


def _read_bars(table: Table, benchmark: str, side: str) -> Iterator[Reading]:
    for scenario, cell in _join_scenarios(table, benchmark):
        for metric, bound in zip(cell.value[::2], cell.value[1::2], strict=True):
            name = f"accuracy.{metric}.{side}"
            yield RulePlace(benchmark, scenario, name), Constant(show_decimal(Decimal(bound)), cell.line)


def _read_metrics(checker: CheckerTables, round_name: str, benchmark: str) -> Iterator[Reading]:
    special = checker.find("RESULT_FIELD_BENCHMARK_OVERWRITE")
    of_rounds = round_name in special or all(re.fullmatch(r"v\d+\.\d+", name) for name in special)
    for scenario, cell in (special.get(round_name, {}) if of_rounds else special).get(benchmark, {}).items():
        yield RulePlace(benchmark, scenario, "metric_key"), cell
    for scenario, cell in checker.find("SPECIAL_UNIT_DICT", benchmark).items():
        if scenario in SCENARIOS:
            latency = _UNIT.fullmatch(str(cell.value))
            unit = latency[1] if latency else str(cell.value).lower()
            yield RulePlace(benchmark, scenario, "metric_unit"), Constant(unit, cell.line)
            if latency and unit in _DIVISORS:
                yield RulePlace(benchmark, scenario, "metric_divisor"), Constant(_DIVISORS[unit], cell.line)


# Values in mlperf.conf.


def _find_general_place(base: Ruleset, key: str) -> RulePlace | None:
    """Return the place of a seed or of a key that is not a setting of user.conf, including TEST05's seeds if the
    previous round has the test."""
    if key in (*keys.SEEDS, "infer_token_latencies", "token_latency_scaling_factor"):
        return RulePlace("", "", key)
    seed = key.removeprefix("test05_")
    tested = seed in keys.SEEDS and "tests.TEST05.files" in base.general
    return RulePlace("", "", f"tests.TEST05.settings.{seed}") if tested else None


def _read_conf(statements: Statements, conf: UserConf, base: Ruleset, named: Sequence[str]) -> Iterator[str]:
    """Record the statements of mlperf.conf, and yield those that do not apply to this round. LoadGen treats Interactive
    as Server."""
    strangers: dict[str, list[str]] = {}
    models = {full.rpartition(".")[0].rpartition(".")[0] for full in conf.values}
    owners: dict[str, list[tuple[str, str]]] = {}
    for benchmark in named:
        for key, scenario in _list_model_keys(models, base.find_benchmark(benchmark), benchmark):
            owners.setdefault(key, []).append((benchmark, scenario))
    for key, those in list(owners.items()):
        if (name := f"{key}-interactive") in models and name not in owners:
            owners[name] = [(benchmark, "Interactive") for benchmark, scenario in those if not scenario]
    for full, line in conf.values.items():
        name, _, key = full.rpartition(".")
        model, _, scenario = name.rpartition(".")
        where = f"{_CONF}:{line.line}"
        known = find_settings(scenario) if scenario != "*" else SETTINGS
        setting = next((setting for setting in known if setting.conf_key == key), None)
        value = read_conf_value(setting, line) if setting is not None else line.integer
        general = _find_general_place(base, key) if setting is None else RulePlace("", "", setting.name)
        if general is None:
            yield f"{where}: {full}: not a value of a round"
            continue
        rule = general.name
        if rule == "infer_token_latencies":
            value = bool(value)
        if model == "*":
            _add_statement(statements, RulePlace("", scenario.replace("*", ""), rule), _CONF, Said(value, where))
        elif model not in owners:
            strangers.setdefault(model, []).append(str(line.line))
        for benchmark, of_key in owners.get(model, ()):
            place = RulePlace(benchmark, of_key or scenario.replace("*", ""), rule)
            _add_statement(statements, RulePlace(benchmark, of_key, "model_key"), _CONF, Said(model, where))
            _add_statement(statements, place, _CONF, Said(value, where))
            if rule in ("ttft_latency", "tpot_latency"):
                most = RulePlace(place.benchmark, place.scenario, f"most_{rule}")
                _add_statement(statements, most, _CONF, Said(value, where))
    if "Interactive" not in base.scenarios and any(place.scenario == "Interactive" for place in statements):
        of_server = [place for place in statements if (place.benchmark, place.scenario) == ("", "Server")]
        for place in (place for place in of_server if _CONF in statements[place]):
            _add_statement(statements, RulePlace("", "Interactive", place.name), _CONF, statements[place][_CONF])
    for model, numbers in strangers.items():
        yield f"{_CONF}:{','.join(numbers)}: {model}: not a benchmark of the round"


def _list_model_keys(models: set[str], rules: BenchmarkRules | None, benchmark: str) -> list[tuple[str, str]]:
    """List LoadGen's names for a benchmark, each with its scenario, or "" for all scenarios."""
    if rules is not None:
        keyed = {scenario: rules.get_value("model_key", scenario) for scenario in ("", *rules.levels)}
        return [(key, scenario) for scenario, key in keyed.items() if key and (not scenario or key != keyed[""])]
    bare = re.sub(r"-9\d(\.\d)?$", "", benchmark)
    known = (benchmark, bare, benchmark.replace(".", "_"), bare.replace(".", "_"))
    return [(key, "") for key in known if key in models][:1]


# Differences from the previous round.


def _complete_new(statements: Statements, base: Ruleset, named: Sequence[str]) -> None:
    """Add the values that a run of a new benchmark needs: LoadGen's name for it, and the required counts if mlperf.conf
    does not state them."""
    for benchmark in (name for name in named if name not in base.benchmarks):
        own = {place: said for place, said in statements.items() if place.benchmark == benchmark}
        source = next((said[_CONF] for said in own.values() if _CONF in said), None)
        equal = own.get(RulePlace(benchmark, "", "sample_concatenate_permutation"), {}).get(_CONF)
        if equal is not None and equal.value:
            _add_statement(statements, RulePlace(benchmark, "", "exact_sample_concatenate_permutation"), _CONF, equal)
        for scenario, demand, setting in (
            ("", "least_performance_sample_count", keys.PERFORMANCE_SAMPLE_COUNT),
            ("Offline", "least_samples_per_query", keys.MIN_QUERY_COUNT),
        ):
            asked, place = own.get(RulePlace(benchmark, scenario, demand)), RulePlace(benchmark, scenario, setting)
            if asked and place not in own:
                statements[place] = dict([next(iter(asked.items()))])
        if source is None:
            said = Said(benchmark, f"{_TODO}: {_CONF} has no name for it")
            _add_statement(statements, RulePlace(benchmark, "", "model_key"), "loadgen", said)


def _leave_out_tests(statements: Statements, base: Ruleset) -> list[str]:
    """Remove tests that the previous round does not define, because a round that requires them cannot be loaded."""
    new: dict[str, list[str]] = {}
    for place, said in statements.items():
        for source, item in said.items() if place.name == "compliance_tests" else ():
            known = tuple(test for test in item.value if f"tests.{test}.files" in base.general)
            for test in set(item.value) - set(known):
                new.setdefault(test, []).append(place.benchmark)
            said[source] = Said(known, item.where)
    listed = ((test, ", ".join(dict.fromkeys(owners))) for test, owners in sorted(new.items()))
    return [f"{test} of {owners}: a new compliance test; define it and write its judge" for test, owners in listed]


def _list_missing(base: Ruleset, statements: Statements, named: Sequence[str]) -> Iterator[str]:
    stated = {(place.benchmark, place.name) for place in statements}
    for name in (name for name in named if name not in base.benchmarks):
        least = (CATEGORIES, "compliance_tests", "dataset_size", "exact_accuracy_sample_count")
        found = [*(each for each in least if (name, each) not in stated), "generation, if it generates tokens"]
        yield f"{name}: {', '.join(found)}"
    for scenario in sorted({place.scenario for place in statements} - {"", *base.scenarios}):
        yield f"{scenario}: the values for all benchmarks, such as its percentile and metric"


def _list_removed(
    checker: CheckerTables, round_name: str, base: Ruleset, named: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """List the removed paths of a round's file."""
    for name, rules in base.benchmarks.items():
        files = checker.find("REQUIRED_ACC_BENCHMARK", name)
        if name not in named:
            yield f"benchmarks/{name}", ""
        elif files and round_name not in files and "accuracy_files" in rules.levels[""][0]:
            yield f"benchmarks/{name}/general/accuracy_files", ""
    whole = any(name.startswith("SYSTEM_DESC_") for name in checker.tables)  # it states the required description fields
    for name, table in _SECTIONS.items() if whole else ():
        if name in base.sections and "checker" in base.sections[name].sources and table not in checker.tables:
            yield name, table


def _find_base(base: Ruleset, place: RulePlace) -> RuledValue | None:
    """Find the previous round's value for a place, at any level."""
    if place.benchmark:
        rules = base.find_benchmark(place.benchmark)
        if rules is None:
            return base.scenarios.get(place.scenario, {}).get(place.name) or base.general.get(place.name)
        if place.name == CATEGORIES:
            return rules.tables_ruled
        scenario = place.scenario if place.scenario in rules.levels else ""
        if place.scenario and not scenario:
            return None
        return rules.find_ruled_value(place.name, scenario)
    groups = (base.scenarios.get(place.scenario, {}), base.general, base.sections)
    return next((group[place.name] for group in groups if place.name in group), None)


def _is_known(place: RulePlace, said: Mapping[str, Said], ruled: RuledValue | None) -> bool:
    """Return True if each source states the value that it or another source stated for the previous round."""
    if ruled is None:
        return place.scenario not in ("", *SCENARIOS)
    before = _list_said(ruled)
    return all(
        any(_are_alike(item.value, value) for value in ([before[source]] if source in before else before.values()))
        for source, item in said.items()
    )


def _list_said(ruled: RuledValue) -> dict[str, Any]:
    ignored = {item.source: item.value for item in ruled.ignored}
    return {**ignored, **dict(ruled.overruled), **dict.fromkeys(ruled.sources, ruled.value)}


def _are_alike(one: Any, other: Any) -> bool:
    """Compare lists in any order and decimals in any notation."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_are_alike(one.get(key) or (), other.get(key) or ()) for key in {*one, *other})
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        ordered = [sorted(json.dumps(item, sort_keys=True, default=str) for item in items) for items in (one, other)]
        return ordered[0] == ordered[1]
    try:
        return Decimal(str(one)) == Decimal(str(other))
    except InvalidOperation:
        return bool(one == other)


def _list_kept(base: Ruleset, statements: Statements, named: Sequence[str]) -> Iterator[RulePlace]:
    """List the values copied from the previous round, except settings derived from a checker's requirement and names
    that are not checker rules."""
    rules = {place.name for place in statements} - {"model_key"}
    divided = {(place.benchmark, place.name) for place in statements}
    for benchmark in (found for name in named if (found := base.find_benchmark(name)) is not None):
        for scenario, levels in benchmark.levels.items():
            for name in rules.intersection(levels[0]):
                place, sources = RulePlace(benchmark.name, scenario, name), levels[0][name].sources
                said = _CONF in sources or ("checker" in sources and name not in SETTING_FIELDS)
                if said and place not in statements and (scenario or (benchmark.name, name) not in divided):
                    yield place


# Rendering as a round's file.


def render_draft(draft: Draft) -> str:
    """Render a round's file. Comments give each value's source and the open tasks."""
    base = draft.base.round
    lines = [f"round: {draft.round}", f"extends: {base}"]
    if draft.removed:
        reasons = {path: f"  # the checker has no {table}" if table else "" for path, table in draft.removed.items()}
        lines += ["removed:", *(f"  - {path}{reason}" for path, reason in reasons.items())]
    document: dict[str, Any] = {}
    for place, said in draft.changed.items():
        _insert_value(document, draft, place, said)
    for name in ("general", "scenarios", "benchmarks", *sorted(set(document) - {"general", "scenarios", "benchmarks"})):
        if name in document:
            lines += ["", *_render_node(name, document[name], 0)]
    body = "\n".join(lines) + "\n"
    try:
        stale = list(describe_stale(diff_rounds(draft.base, load_draft(draft.round, body))))
    except RoundFileError as error:
        stale = [f"{_TODO}: it does not load yet: {error}"]
    head = [
        f"# A draft of round {draft.round}: the values of its checker and mlperf.conf that differ from round {base}.",
        f"# {_TODO} marks values that were not read or need a decision.",
        *_render_comment(f"{_TODO}, not read", _NEVER_READ),
        *_render_comment(f"{_TODO}, not in any source", draft.missing),
        *_render_comment("not understood", draft.unread),
        *_render_comment(f"copied from {base}, since these sources no longer state it", map(str, draft.kept)),
        *_render_comment(f"stale if a submission to {base} moves to {draft.round}", stale),
    ]
    return "\n".join(head) + "\n" + body


def _render_comment(title: str, items: Any) -> list[str]:
    listed = [f"#   {item}" for item in items]
    return ["#", f"# {title[0].upper()}{title[1:]}:", *listed] if listed else []


class _Leaf(Struct, frozen=True):
    text: str
    comment: str


def _insert_value(document: dict[str, Any], draft: Draft, place: RulePlace, said: Mapping[str, Said]) -> None:
    sections = draft.base.sections
    dotted = place.name.split(".") if place.name.startswith(("accuracy.", "tests.")) else [place.name]
    level = ("scenarios", place.scenario) if place.scenario else ("general",)
    if place.benchmark and place.name == CATEGORIES:
        path = ["benchmarks", place.benchmark, CATEGORIES]
    elif place.benchmark:
        path = ["benchmarks", place.benchmark, *level, *dotted]
    else:
        is_section = not place.scenario and place.name in (*sections, "endpoints")
        path = [place.name] if is_section else [*level, *dotted]
    at = document
    for part in path[:-1]:
        at = at.setdefault(part, {})
    at[path[-1]] = _make_leaf(draft, place, said)


def _make_leaf(draft: Draft, place: RulePlace, said: Mapping[str, Said]) -> _Leaf:
    """Combine sources with equal values. If neither of two values is stricter, the first source counts. Sources that
    were not read keep their values of the previous round."""
    before = _find_base(draft.base, place)
    new = before is None or (place.benchmark and place.benchmark not in draft.base.benchmarks)
    left = {} if before is None or new or place.name == "accuracy_files" else _list_said(before)
    ordered = {source: said[source] for source in (*_SOURCES, "loadgen") if source in said}
    for source, value in left.items():
        ordered.setdefault(source, Said(value, f"{_TODO}: {source} has the value of {draft.base.round}"))
    first = next(iter(ordered.values())).value
    grouped: dict[str, tuple[list[str], Any]] = {}
    for source, item in ordered.items():
        alike = next((known for known, (_, value) in grouped.items() if _are_alike(value, item.value)), source)
        grouped.setdefault(alike, ([], item.value))[0].append(source)
    comments = list(dict.fromkeys(item.where for item in ordered.values()))
    counted = {"+".join(sources): value for sources, value in grouped.values()}
    parts: dict[str, Any] = dict(counted)
    if len(counted) > 1 and not choose_strict_side(place.name):
        others = {names: value for names, value in counted.items() if not _are_alike(value, first)}
        parts = {names: value for names, value in counted.items() if names not in others}
        parts |= {"ignored": others, "because": f"{_TODO}: why the first source counts"}
    if place.name == CATEGORIES and "one_of" in str(first):
        comments.append(f"{_TODO}: one_of comes from the checker's code")
    return _Leaf(_write_yaml(parts), "; ".join(comments))


def _render_node(name: str, node: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(node, _Leaf):
        yield f"{indent}{_write_yaml(name)}: {node.text}  # {node.comment}"
        return
    yield f"{indent}{_write_yaml(name)}:"
    first = (CATEGORIES, "general")
    for key in sorted(node, key=lambda key: first.index(key) if key in first else len(first)):
        yield from _render_node(key, node[key], depth + 1)


def _write_yaml(value: Any) -> str:
    """Return the value as YAML on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_write_yaml(key)}: {_write_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_write_yaml, value))}]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./+-]*(?: [\w+-]+)*", value)
    return value if plain and value not in _WORDS else json.dumps(value)


def load_draft(round_name: str, text: str) -> Ruleset:
    """Load a draft. Raises RoundFileError if it is invalid. The rounds that it extends may include the drafted
    round."""
    given = iter([text.encode()])
    return read_round(round_name, lambda name: next(given, b"") or read_file(name))


def describe_stale(diff: RoundsDiff) -> Iterator[str]:
    """Describe what the draft would make stale in a submission to the previous round."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for change in diff.changes:
        name = change.place.name
        if name in SETTING_FIELDS or name.startswith("generation."):
            again = "runs"
        else:
            again = "tests" if name.startswith("tests.") and ".settings." in name else "only verdicts and checks"
        found.setdefault(change.place.benchmark, {}).setdefault(again, {})[name] = None
    for benchmark, kinds in found.items():
        parts = (f"{again} ({', '.join(names)})" for again, names in kinds.items())
        yield f"{benchmark or 'all benchmarks'}: {'; '.join(parts)}"
