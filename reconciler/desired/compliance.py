"""The compliance tests of a cell: how they are selected, and the inputs of a test and its verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from harness.catalog import BACKENDS
from reconciler.desired.commands import collect_command_inputs, collect_scorer_inputs
from reconciler.desired.inputs import SettingsReader, collect_run_inputs, find_benchmark_code
from reconciler.loadgen import keys
from reconciler.loadgen.settings import TARGETS
from reconciler.resource.inputs import Input, Origin, Value
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.ruled_values import TestRules
from reconciler.resource.settings import COMMAND, SCORE_COMMAND
from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.results.table import find_declared_format
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.spec.declared import DeclaredCell

ASKED = "compliance."
# Settings that a test may override, with the names of a performance run's settings.
_OWN = (*TARGETS, "attempts")
_DATASET = "dataset."
_VERDICT = ("dtype", "eos_token_id")
_SAYING_TYPE = ("benchmark.code", "benchmark.official", SCORE_COMMAND)
# Type names in scorers' options → names in the tests' scripts.
_TYPES = {**{name: name for name in ("int16", "int32", "int64", "float32", "byte")}, "float": "float32"}
_TYPES |= {"uint8": "byte", "int8": "byte"}


def select_tests(cell: DeclaredCell, rules: BenchmarkRules | None, ruleset: Ruleset) -> tuple[TestRules, ...]:
    """Select the tests that the round requires in the cell's division, then those that the spec requests.

    Return none if the runs are made elsewhere: their tests are imported with them, like those of the endpoints harness.
    """
    if rules is None or _is_made_elsewhere(cell) or find_declared_format(cell.settings).TESTS_ITSELF:
        return ()
    asked = (name for name in list_asked_tests(cell) if has_test(rules, name, cell.cell.scenario))
    names = dict.fromkeys((*_list_required(cell, rules, ruleset), *asked))
    return tuple(rules.find_test(name, cell.cell.scenario) for name in names)


def list_brought_tests(cell: DeclaredCell, rules: BenchmarkRules | None, ruleset: Ruleset) -> tuple[str, ...]:
    """List the required tests that are imported with runs made elsewhere."""
    elsewhere = _is_made_elsewhere(cell) and not find_declared_format(cell.settings).TESTS_ITSELF
    return _list_required(cell, rules, ruleset) if rules is not None and elsewhere else ()


def _list_required(cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> tuple[str, ...]:
    return rules.compliance_tests if ruleset.binds(cell.cell.division, "compliance_tests") else ()


def _is_made_elsewhere(cell: DeclaredCell) -> bool:
    backend = cell.backend
    facts = BACKENDS.get(str(backend.value)) if backend else None
    return facts is not None and facts.elsewhere


def list_asked_tests(cell: DeclaredCell) -> list[str]:
    """List the tests that the spec requests."""
    asked = [name.removeprefix(ASKED) for name in cell.settings if name.startswith(ASKED)]
    return [test for test in asked if "." not in test]


def has_test(rules: BenchmarkRules, test: str, scenario: str) -> bool:
    try:
        rules.find_test(test, scenario)
    except KeyError:
        return False
    return True


def has_own_dataset(reader: SettingsReader, test: str) -> bool:
    """Return True if a test uses other samples than the cell's runs."""
    return any(name.startswith(f"{ASKED}{test}.{_DATASET}") for name in reader.settings)


def use_test_settings(reader: SettingsReader, test: str) -> SettingsReader:
    """Override the cell's settings with the test's. A test with its own dataset keeps all samples in memory: LoadGen
    crashes if it is configured to keep more samples than exist."""
    own = {name: value for name in _OWN if (value := reader.settings.get(f"{ASKED}{test}.{name}")) is not None}
    if has_own_dataset(reader, test):
        own[keys.PERFORMANCE_SAMPLE_COUNT] = Value(0)
    return reader.use_settings({**reader.settings, **own}, reader.noted)


def count_attempts(reader: SettingsReader, address: Address) -> int:
    """Count how often a test may run. A verdict is made for each test run, and for each new run it is compared with."""
    layers = (use_test_settings(reader, address.part).settings, reader.settings)
    found = [int(settings["attempts"].value) if "attempts" in settings else 1 for settings in layers]
    return found[0] if address.kind is Kind.COMPLIANCE_TEST else sum(found)


def use_own_dataset(reader: SettingsReader, test: str) -> SettingsReader:
    """Replace the cell's dataset with the test's: the file is the test's alone; preprocessing is the cell's unless the
    test overrides it."""
    prefix = f"{ASKED}{test}."
    own = {n.removeprefix(prefix): v for n, v in reader.settings.items() if n.startswith(f"{prefix}{_DATASET}")}
    kept = {n: v for n, v in reader.settings.items() if n not in (f"{_DATASET}path", f"{_DATASET}sha256")}
    named = {f"{_DATASET}name": Value(f"{reader.get_text('cell')}/{test}")}
    return reader.use_settings({**kept, **named, **own}, None if reader.noted is None else set())


def collect_test_inputs(
    reader: SettingsReader, scenario: str, rules: TestRules, made_from: Input, dataset: Input
) -> list[Input]:
    """Collect the inputs of the performance run, replacing those that the audit settings override."""
    own = (*_OWN, f"{_DATASET}sha256", f"{_DATASET}settings")
    reader.note(*(f"{ASKED}{name}" for name in own if name != "attempts"))
    run = collect_run_inputs(use_test_settings(reader, rules.name), scenario, "performance", made_from, dataset)
    run += collect_command_inputs(reader)
    return [
        *(item for item in run if item.name == "mode" or item.name not in rules.settings),
        Input("test", rules.name),
        *(Input(f"audit.{name}", value.value, value.origin) for name, value in rules.settings.items()),
    ]


def _take_answer_type(reader: SettingsReader, name: str) -> list[Input]:
    """Return the type of a command's answers if the test does not declare it; nothing if it is the test's default."""
    test = find_test(name)
    if not test.usual_dtype or COMMAND not in reader.settings or f"{ASKED}{name}.dtype" in reader.settings:
        return []
    reader.note(*_SAYING_TYPE)
    dtype, origin = find_answer_type(reader.settings, name)
    dtype = dtype or test.unknown_dtype or test.usual_dtype
    return [Input("dtype", dtype, origin)] if dtype != test.usual_dtype else []


def find_answer_type(settings: Mapping[str, Value], test: str) -> tuple[str, Origin]:
    """Find the type in which a test reads the answers of a cell's command, and its origin; "" if it is unknown.

    Sources in order: the test's own ``dtype``; the type used to score the accuracy run (the --dtype of harness.score,
    the default of an official script, or the benchmark's code here); the only type that the benchmark's official
    scripts read.
    """
    offered = find_test(test).dtypes
    if (declared := settings.get(f"{ASKED}{test}.dtype")) is not None:
        return str(declared.value), declared.origin
    for dtype, origin in _list_said_types(settings):
        named = _TYPES.get(dtype, "")
        return (named if named in offered else ""), origin
    return "", Origin("default")


def _list_said_types(settings: Mapping[str, Value]) -> Iterator[tuple[str, Origin]]:
    naming = (settings.get(name) for name in ("benchmark.code", "benchmark.official", "benchmark.name"))
    facts = list(filter(None, (find_benchmark_facts(str(value.value)) for value in naming if value is not None)))
    score = settings.get(SCORE_COMMAND)
    if score is not None:
        words = " ".join(score.value).split()
        options = re.findall(r"--(?:output[_-])?dtype[ =][\"']?([a-z0-9]+)", " ".join(words))
        yield from ((dtype, score.origin) for dtype in options[-1:])
        names = {word.strip("\"'").rpartition("/")[2] for word in words}
        scripts = [dtype for f in facts for name, dtype in f.answers.scripts.items() if name in names]
        yield from ((dtype, score.origin) for dtype in scripts)
    elif facts and "benchmark.code" in settings and facts[0].code == settings["benchmark.code"].value:
        yield facts[0].answers.dtype, settings["benchmark.code"].origin
    yield from ((dtype, f.origin) for f in facts if f.answers.only for dtype in f.answers.scripts.values())


def collect_verdict_inputs(
    reader: SettingsReader, rules: TestRules, audit: Input, compared: list[Input], dataset: Input
) -> list[Input]:
    """Collect the audit run, the runs it is compared with, the round's limits, and the scorer if the verdict needs
    one."""
    reader.note(*(f"{ASKED}{name}" for name in _VERDICT))
    found = ((name, reader.settings.get(f"{ASKED}{rules.name}.{name}")) for name in _VERDICT)
    return [
        Input("test", rules.name),
        replace(audit, name="audit"),
        *compared,
        dataset,
        *find_benchmark_code(reader),
        *(collect_scorer_inputs(reader) if find_test(rules.name).asks_scorer else ()),
        *(Input(name, value.value, value.origin) for name, value in found if value is not None),
        *_take_answer_type(reader, rules.name),
        *(Input(f"limit.{name}", str(value.value), value.origin) for name, value in rules.limits.items()),
    ]
