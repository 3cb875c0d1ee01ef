"""Choose what to rehearse, write its repository, and judge its check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from harness.catalog import BACKENDS, show_install
from harness.contract import BENCHMARKS
from reconciler.errors import ReconcilerError
from reconciler.observed.installed_backends import find_backend_version, find_missing_libraries, list_installed
from reconciler.publish.preconditions import Refusal
from reconciler.reconcile.new_repository import explain_unwritable, propose_this_machine, write_repository
from reconciler.rehearse.rehearsal_spec import (
    CALIBRATION,
    CALIBRATION_TEXT,
    CATEGORY,
    FOLDER,
    Generated,
    Moved,
    Rehearsed,
    Size,
    choose_round,
    find_rehearsed,
    generate,
    has_earlier,
    list_scenarios,
    render_rehearsal_spec,
)
from reconciler.resource.quantities import join_listing
from reconciler.rules.benchmark_facts import BenchmarkFacts, load_benchmark_facts
from reconciler.rules.rounds import load_ruleset
from reconciler.storage import git
from reconciler.storage.files import replace
from reconciler.tree.findings import TreeReport

# A rehearsal has neither the round's durations and sample counts, nor answers as long as the real model's.
SHORT = frozenset(
    (
        *("run.duration", "run.samples", "run.samples-per-query", "run.early-stopping"),
        *("accuracy.samples", "accuracy.extra-samples", "accuracy.lengths"),
    )
)


class RehearsalCheck(Struct, frozen=True):
    """``expected``: rule → number of violations that any rehearsal has. ``unexpected``: the report without those.
    ``refused``: the reasons against packaging that follow from its being a rehearsal."""

    expected: Mapping[str, int]
    unexpected: TreeReport
    refused: tuple[Refusal, ...]


def judge_rehearsal(report: TreeReport, refusals: Iterable[Refusal], *, earlier: bool) -> RehearsalCheck:
    """Judge the check. ``earlier``: it has benchmarks that the round no longer has, as its plan reports."""
    natural = SHORT | {"benchmark.known"} if earlier else SHORT
    short = Counter(finding.rule.id for finding in report.findings if finding.rule.id in natural)
    others = tuple(finding for finding in report.findings if finding.rule.id not in natural)
    marked = tuple(item for item in refusals if item.reason.startswith(("it is a rehearsal", "its data")))
    return RehearsalCheck(dict(sorted(short.items())), structs.replace(report, findings=others), marked)


class ChosenBenchmarks(Struct, frozen=True):
    """``left_out``: benchmarks whose packages are missing, with the packages; ``fix``: how to install them."""

    benchmarks: tuple[Rehearsed, ...]
    left_out: str = ""
    fix: str = ""


def choose_benchmarks(words: Sequence[str]) -> ChosenBenchmarks:
    """Choose benchmarks by any of their names; without names, choose all that have a rehearsal whose requirements are
    installed here.

    Raises ReconcilerError if packages are missing for a named one, or for all of them.
    """
    known = load_benchmark_facts()
    facts = [known[code] for code in known if code in BENCHMARKS and BENCHMARKS[code].rehearsed]
    named = [find_rehearsed(name, facts) for word in words for name in word.split(",") if name]
    asked = [item.facts for item in named] or facts
    installed = list_installed()
    missing = {item.code: needed for item in asked if (needed := _find_missing(item, installed))}
    names = {item.code: next(iter(item.names)) for item in asked}
    absent = ", ".join(f"{names[code]} ({join_listing(needed)})" for code, needed in missing.items())
    fix = _install(missing) if missing else ""
    if named:
        if missing:
            raise ReconcilerError(f"packages are missing for the rehearsal: {absent}", fix=fix)
        return ChosenBenchmarks(tuple({item.entry: item for item in named}.values()))
    if len(missing) == len(facts):
        raise ReconcilerError(f"no benchmark can be rehearsed here; missing: {absent}", fix=fix)
    ready = (find_rehearsed(next(iter(item.names)), facts) for item in facts if item.code not in missing)
    return ChosenBenchmarks(tuple({item.entry: item for item in ready}.values()), absent, fix)


def _install(missing: Mapping[str, Sequence[str]]) -> str:
    """Return the command that installs the packages that benchmarks and their rehearsal backends lack."""
    extras: list[str] = []
    for code, needed in missing.items():
        backend = BACKENDS[_find_backend(load_benchmark_facts()[code])]
        of_backend = backend.distributions[0] in needed
        extras += [BENCHMARKS[code].installed_by] if len(needed) > of_backend else []
        extras += [backend.extra] if of_backend else []
    return show_install(",".join(dict.fromkeys(extras)))


def _find_backend(facts: BenchmarkFacts) -> str:
    assert facts.rehearsal is not None, f"{facts.code} has no rehearsal"
    return str(facts.rehearsal.benchmark["engine"]["backend"])


def _find_missing(facts: BenchmarkFacts, installed: Mapping[str, str]) -> list[str]:
    """List the packages that its rehearsal needs and this interpreter does not have, each by its usual name."""
    backend = _find_backend(facts)
    missing = find_missing_libraries(BENCHMARKS[facts.code], installed)
    if find_backend_version(backend, installed) is None:
        missing.append(BACKENDS[backend].distributions[0])
    return list(dict.fromkeys(missing))


class RehearsalRequest(Struct, frozen=True, kw_only=True):
    """``round_name``: "" for the newest that fits. ``samples``: 0 for each benchmark's own number."""

    round_name: str = ""
    division: str = "closed"
    category: str = CATEGORY
    size: Size = "small"
    samples: int = 0
    seed: int = 1


class Rehearsal(Struct, frozen=True):
    """``has_earlier``: the round no longer has one of the benchmarks."""

    round_name: str
    has_earlier: bool
    generated: tuple[Generated, ...]


def prepare_rehearsal(
    root: Path, chosen: Sequence[Rehearsed], asked: RehearsalRequest, moved: Moved, change: Callable[[str], str] = str
) -> Rehearsal:
    """Generate the data and create the repository, committing its spec. Existing files are kept. ``change``: edits the
    spec's text. Raises ReconcilerError, before anything is generated, if the round has no such benchmark."""
    ruleset = load_ruleset(asked.round_name or choose_round(chosen))
    round_name = ruleset.round
    if without := [item.official for item in chosen if not list_scenarios(ruleset, item.official)]:
        raise ReconcilerError(
            f"round {round_name} accepts no results of {join_listing(without)}",
            fix=f"rehearse them in a round that has them: --round {choose_round(chosen)}",
        )
    with explain_unwritable(root, "reconcile rehearse --output DIR"):
        root.mkdir(parents=True, exist_ok=True)
        generated = {
            item.facts.code: generate(
                root, item.facts, size=asked.size, seed=asked.seed, samples=asked.samples, moved=moved
            )
            for item in chosen
        }
        spec = render_rehearsal_spec(
            round_name=round_name,
            division=asked.division,
            category=asked.category,
            benchmarks=chosen,
            generated=generated,
            machine=propose_this_machine(),
        )
        _write(root, change(spec))
    return Rehearsal(round_name, has_earlier(round_name, chosen), tuple(generated.values()))


def _write(root: Path, spec: str) -> None:
    git.initialise(root, own=True)
    paths = (*write_repository(root, "rehearsal", spec), CALIBRATION)
    replace(root / CALIBRATION, CALIBRATION_TEXT.encode())
    ignored = root / FOLDER / ".gitignore"
    if not ignored.exists():
        replace(ignored, b"*\n")
    if git.list_dirty(root, paths):
        git.commit(root, paths, "Declare the rehearsal")
