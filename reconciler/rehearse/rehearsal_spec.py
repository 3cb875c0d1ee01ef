"""The spec of a rehearsal: every scenario of the round, with runs of minutes, permanently marked as a rehearsal.

Settings of a benchmark, such as its batch size and its Offline streams, are in its ``benchmark.yaml``. Benchmarks that
the round no longer has are rehearsed in the open division, which still accepts them.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.contract import Benchmark, Progress, RehearseRequest, Result, read_progress
from reconciler.errors import ReconcilerError, suggest_nearest
from reconciler.loadgen import keys
from reconciler.rules.benchmark_facts import BenchmarkFacts, RehearsalFacts
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.edit import render_value
from reconciler.spec.proposal import Proposal
from reconciler.spec.starter import MODELINE, render_description, render_hardware
from reconciler.storage.json_files import read_json
from reconciler.storage.process import Child, build_child_environment, build_harness_command

CATEGORY = "datacenter,edge"
OPEN = "open"
SYSTEM = "this-machine"
CALIBRATION = "calibration.md"
CALIBRATION_TEXT = (
    "# Calibration\n\nA rehearsal: networks of random weights, in the precision in which they were generated.\n"
)
_FRAMEWORKS = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "openvino-genai": "OpenVINO GenAI",
    "pytorch": "PyTorch",
    "diffusers": "Diffusers",
    "vllm": "vLLM",
    "openai": "a server that speaks OpenAI's protocol",
}
_ATTEMPTS = 6  # of runs and tests, in turn, because a rehearsing machine is also used for other work


class Rehearsed(Struct, frozen=True, kw_only=True):
    """A benchmark under the name that the user chose; ``official``: its name in rounds, and its folder's name in the
    tree."""

    name: str
    facts: BenchmarkFacts

    @property
    def official(self) -> str:
        return self.facts.find_official_name(self.name)

    @property
    def entry(self) -> str:
        """Return its name in the spec: the official name, or its own if rounds use the official one for another
        benchmark."""
        return self.name if self.facts.until else self.official

    @property
    def rehearsal(self) -> RehearsalFacts:
        assert self.facts.rehearsal is not None, f"{self.name} has no rehearsal"
        return self.facts.rehearsal


def find_rehearsed(name: str, facts: Sequence[BenchmarkFacts]) -> Rehearsed:
    """Find a benchmark by name. Raises ReconcilerError that suggests the nearest name if there is none."""
    found = next((item for item in facts if name in item.names), None)
    if found is None:
        known = [known for item in facts for known in item.names if "_" not in known]
        fix = f"{suggest_nearest(name, known, most=3)}`reconcile benchmarks` lists them"
        raise ReconcilerError(f"no rehearsal for {name}", fix=fix)
    return Rehearsed(name=name, facts=found)


def choose_round(benchmarks: Sequence[Rehearsed]) -> str:
    """Choose the newest round that has all benchmarks, in open if only earlier rounds had them. Its seeds are LoadGen's
    own. Raises ReconcilerError if there is none."""
    officials = {item.official for item in benchmarks}
    for name in reversed(list_rounds()):
        ruleset = load_ruleset(name)
        if all(list_scenarios(ruleset, official) for official in officials):
            return name
    without = ", ".join(sorted(officials))
    raise ReconcilerError(f"no known round has all of {without}", fix="rehearse them one at a time")


def has_earlier(round_name: str, benchmarks: Sequence[Rehearsed]) -> bool:
    """Return True if the round no longer has one of the benchmarks."""
    ruleset = load_ruleset(round_name)
    return any(ruleset.find_benchmark(item.official) is None for item in benchmarks)


def choose_division(ruleset: Ruleset, item: Rehearsed, asked: str) -> str:
    """Return the requested division, or open if the round has no such benchmark, has another by that name, or has a
    compliance test that generated answers cannot pass."""
    closed = ruleset.find_benchmark(item.official) and not item.facts.until and not item.rehearsal.tests
    return asked if closed else OPEN


def list_scenarios(ruleset: Ruleset, official: str, category: str = CATEGORY) -> tuple[str, ...]:
    """List the scenarios in which a round lets a system of the category, or of any, enter the benchmark."""
    rules = ruleset.find_rules(OPEN, official)
    if rules is None:
        return ()
    table = rules.tables.get(category)
    tables = [table] if table else list(rules.tables.values())
    return tuple(dict.fromkeys(name for table in tables for name in (*table.required, *table.optional)))


def choose_category(ruleset: Ruleset, official: str, asked: str) -> str:
    """Return the requested category, or one for which the round allows the benchmark."""
    rules = ruleset.find_rules(OPEN, official)
    known = list(rules.tables) if rules is not None else []
    if asked in known or not known:
        return asked
    return next((category for category in known if asked in category.split(",")), known[0])


def render_rehearsal_spec(
    *,
    round_name: str,
    division: str,
    category: str = CATEGORY,
    benchmarks: Sequence[Rehearsed],
    generated: Mapping[str, Generated],
    machine: Proposal,
) -> str:
    """Render a spec that loads unchanged. ``generated``: by the code name of each benchmark."""
    ruleset = load_ruleset(round_name)
    blocks: list[str] = []
    cells: dict[str, dict[str, list[str]]] = {}
    categories = {item.entry: choose_category(ruleset, item.official, category) for item in benchmarks}
    systems = _name_systems(sorted(set(categories.values()), key=lambda name: (name != category, name)))
    machines: list[str] = []
    for own, name in systems.items():
        machines += _render_system(name, own, machine, [each for each in benchmarks if categories[each.entry] == own])
    for item in benchmarks:
        made = generated[item.facts.code]
        rules = ruleset.find_rules(OPEN, item.official)
        tests = rules.compliance_tests if rules and ruleset.binds(division, "compliance_tests") else ()
        blocks += _render_benchmark(item, made, tests)
        entered = cells.setdefault(choose_division(ruleset, item, division), {})
        own = categories[item.entry]
        entered.setdefault(systems[own], []).extend(_render_cells(item, ruleset, own))
    divisions: list[str] = []
    for name, entered in cells.items():
        divisions.append(f"    {name}:")
        for system, lines in entered.items():
            divisions += [f"      {system}:", *lines]
    return "\n".join(
        [
            MODELINE,
            "# Made by `reconcile rehearse`: generated data and networks in the formats of the published ones.",
            "apiVersion: mlperf-reconciler/v1",
            "kind: Submission",
            "metadata: {name: rehearsal}",
            "spec:",
            f"  round: {round_name}",
            "  submitter: Rehearsal",
            *([f"  documents: {{calibration: {CALIBRATION}}}"] if "closed" in cells else []),
            "  rehearsal: true  # every record says so for ever, and none of it can be packed",
            "  systems:",
            *machines,
            "  benchmarks:",
            *blocks,
            "  divisions:",
            *divisions,
            "",
        ]
    )


def _name_systems(categories: Sequence[str]) -> dict[str, str]:
    """Map each category to a system: this machine in the requested category, and once more in each other category that
    benchmarks need."""
    names = (category.replace(",", "+") for category in categories)
    return dict(zip(categories, [SYSTEM, *(f"{SYSTEM}-{name}" for name in [*names][1:])], strict=True))


def _render_system(name: str, category: str, machine: Proposal, entered: Sequence[Rehearsed]) -> Iterator[str]:
    """Render a system. ``entered``: the benchmarks on it, whose backends determine the framework that it names."""
    backends = dict.fromkeys(str(item.rehearsal.benchmark["engine"]["backend"]) for item in entered)
    framework = ", ".join(_FRAMEWORKS.get(backend, backend) for backend in backends)
    described = replace(machine, description={**machine.description, "framework": framework})
    yield f"    {name}:"
    yield f'      category: "{category}"'
    yield "      status: available"
    yield "      hardware:"
    yield from (f"        {line}" for line in render_hardware(machine))
    yield "      description:"
    yield from (f"        {line}" for line in render_description(described))


def _fill(said: Any, data: str) -> Any:
    """Insert the path of the generated data, and the interpreter that has this project."""
    if isinstance(said, Mapping):
        return {name: _fill(value, data) for name, value in said.items()}
    if isinstance(said, Sequence) and not isinstance(said, str):
        return [_fill(value, data) for value in said]
    return said.replace("{data}", data).replace("{python}", sys.executable) if isinstance(said, str) else said


def _render_benchmark(item: Rehearsed, made: Generated, tests: Sequence[str]) -> Iterator[str]:
    yield f"    {item.entry}:"
    yield f"      dataset: {{path: {render_value(made.data)}}}"
    yield f"      model: {{path: {render_value(made.model)}}}"
    own = item.rehearsal.tests
    said = {name: settings for name, settings in own.items() if name in tests} if own else {name: {} for name in tests}
    if asked := {name: {"attempts": _ATTEMPTS, **_fill(settings, made.data)} for name, settings in said.items()}:
        yield f"      compliance: {_render_flow(asked)}"
    for name, value in item.rehearsal.benchmark.items():
        yield f"      {name}: {_render_flow(_fill(value, made.data))}"


def _render_cells(item: Rehearsed, ruleset: Ruleset, category: str) -> Iterator[str]:
    yield f"        {item.entry}:"
    for scenario in list_scenarios(ruleset, item.official, category):
        short = {keys.MIN_DURATION: 0, "attempts": _ATTEMPTS}
        yield f"          {scenario}: {_render_flow({**short, **item.rehearsal.scenarios.get(scenario, {})})}"


def _render_flow(value: Any) -> str:
    """Render YAML on one line, as JSON."""
    return json.dumps(value, ensure_ascii=False)


# Generated datasets and networks. A child process makes each of them once, below the rehearsal's folder.

FOLDER = "generated"  # below the rehearsal's folder
_MARK = "data/rehearsal.json"
_LOOK = 0.5

Size = Literal["small", "full"]
Moved = Callable[[str, Progress], None]


class Generated(Struct, frozen=True, kw_only=True):
    """Folders of one benchmark's data and model, relative to the rehearsal's folder; ``made``: whether this call made
    them. ``name``: the benchmark's first name in a spec."""

    name: str
    code: str
    data: str
    model: str
    samples: int
    made: bool


def generate(root: Path, facts: BenchmarkFacts, *, size: Size, seed: int, samples: int, moved: Moved) -> Generated:
    """Generate data and model; matching data is reused, other data is replaced. Raises ReconcilerError with the child's
    fix."""
    assert facts.rehearsal is not None, f"{facts.code} has no rehearsal"
    count = samples or facts.rehearsal.samples
    asked = {"benchmark": facts.code, "count": count, "seed": seed, "size": size}
    folder = root / FOLDER / facts.code
    found = False
    with suppress(OSError, ValueError):
        found = read_json(folder / _MARK) == asked
    if not found:
        request = RehearseRequest(
            benchmark=Benchmark(name=facts.code),
            output=str(folder),
            counter=str(folder.with_name(f"{facts.code}.counter")),
            count=count,
            seed=seed,
            size=size,
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run(request, folder, facts, moved)
    place = f"{FOLDER}/{facts.code}"
    model = f"{place}/models/{facts.rehearsal.model or facts.model.file}"
    name, data = next(iter(facts.names)), f"{place}/data"
    return Generated(name=name, code=facts.code, data=data, model=model, samples=count, made=not found)


def _run(request: RehearseRequest, folder: Path, facts: BenchmarkFacts, moved: Moved) -> None:
    work = folder.with_name(f"{facts.code}.child")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    asked, answer, log = work / "request.json", work / "result.json", work / "log"
    request.write(asked)
    command = build_harness_command("rehearse", asked, answer)
    with Child(command, folder=work, log=log, environment=build_child_environment()) as child:
        while child.wait(_LOOK) is None:
            if (progress := read_progress(request.counter)) is not None:
                moved(next(iter(facts.names)), progress)
    result = Result.read(answer) if answer.is_file() else None
    if result is None or not result.done:
        problem = result.problem if result else f"the child ended without a result; its log is {log}"
        fix = result.fix if result else ""
        raise ReconcilerError(f"the rehearsal of {next(iter(facts.names))} cannot be generated: {problem}", fix=fix)
    shutil.rmtree(work)
    Path(request.counter).unlink(missing_ok=True)
