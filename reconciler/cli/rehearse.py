"""`reconcile rehearse [BENCHMARK…]`: a whole submission of generated data, in a repository of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, structs

from harness.catalog import BACKENDS, installing
from harness.contract import BENCHMARKS, Progress
from reconciler.check.engine import check_tree
from reconciler.cli.shared.new_repository import (
    SCHEMA,
    WORKFLOW_FILE,
    explain_unwritable,
    propose_this_machine,
    write_repository,
)
from reconciler.cli.shared.options import busy_option, complete_rounds, json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_root
from reconciler.cli.shared.run_pass import carry_out, choose_pass_code, render_pass_part, say_pass
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from reconciler.history.packaging import find_refusals, load_packed_submission
from reconciler.observed.installed_backends import find_backend_version, find_missing_libraries, list_installed
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.reconcile.run import PassReport
from reconciler.rehearse.generated_data import FOLDER, Generated, Moved, Size, generate
from reconciler.rehearse.rehearsal_spec import (
    CALIBRATION,
    CALIBRATION_TEXT,
    CATEGORY,
    Rehearsed,
    choose_round,
    find_rehearsed,
    has_earlier,
    render_rehearsal_spec,
)
from reconciler.render.documents import render_document
from reconciler.render.findings import LIMIT, render_findings_part, render_findings_text
from reconciler.resource.quantities import join_listing, show_count
from reconciler.rules.benchmark_facts import BenchmarkFacts, load_benchmark_facts
from reconciler.rules.rounds import load_ruleset
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.tree.findings import TreeReport

# Findings in the check of a rehearsal's tree: those that must be there, because a rehearsal is short, and those that
# must not.

# A rehearsal has neither the round's durations nor its number of samples, nor answers as long as those of its model.
SHORT = frozenset(
    {
        "run.duration",
        "run.samples",
        "run.samples-per-query",
        "run.early-stopping",
        "accuracy.samples",
        "accuracy.extra-samples",
        "accuracy.lengths",
    }
)


class RehearsalCheck(Struct, frozen=True):
    """``expected``: rule → how often it was broken, by nature. ``unexpected``: the report without those."""

    expected: Mapping[str, int]
    unexpected: TreeReport


def judge_rehearsal(report: TreeReport, *, earlier: bool = False) -> RehearsalCheck:
    """``earlier``: it has benchmarks that the round has no more, as it says when it plans."""
    natural = SHORT | {"benchmark.known"} if earlier else SHORT
    short = Counter(finding.rule.id for finding in report.findings if finding.rule.id in natural)
    others = tuple(finding for finding in report.findings if finding.rule.id not in natural)
    return RehearsalCheck(dict(sorted(short.items())), structs.replace(report, findings=others))


_NAME = "rehearsal"
_REPORT_EVERY = 5.0  # seconds between two lines of progress
_BENCHMARKS = click.Argument(["benchmarks"], nargs=-1, metavar="[BENCHMARK[,BENCHMARK…]]...")
_OUTPUT = click.Option(
    ["--output"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The repository of the rehearsal; by default a folder in .reconcile/rehearsals.",
)
_SIZE = click.Option(
    ["--size"],
    type=click.Choice(("small", "full")),
    default="small",
    help="Networks that answer in milliseconds, or as deep as the published ones.",
)
_ROUND = click.Option(
    ["--round", "round_name"],
    shell_complete=complete_rounds,
    default="",
    help="Default: the newest round; benchmarks that it no longer has go to the open division.",
)
_DIVISION = click.Option(["--division"], type=click.Choice(("closed", "open")), default="closed", show_default=True)
_CATEGORY = click.Option(
    ["--category"],
    type=click.Choice(("datacenter", "edge", CATEGORY)),
    default=CATEGORY,
    show_default=True,
    help="The category of the system, which decides the scenarios.",
)
_SAMPLES = click.Option(
    ["--samples"],
    type=click.IntRange(min=1),
    help="How many samples to generate for each, instead of its own number.",
)
_SEED = click.Option(
    ["--seed"], type=click.IntRange(min=0), default=1, help="The seed of everything that is generated."
)


@click.command("rehearse")
@takes([_BENCHMARKS, _OUTPUT, _SIZE, _ROUND, _DIVISION, _CATEGORY, _SAMPLES, _SEED, busy_option(), json_option()])
def command(
    benchmarks: tuple[str, ...],
    output: Path | None,
    size: Size,
    round_name: str,
    division: str,
    category: str,
    samples: int | None,
    seed: int,
    busy: bool,
    as_json: bool,
) -> int:
    """Rehearse the submission of BENCHMARK, or of all whose libraries are installed, without any data.

    Makes datasets and networks of the published formats, and drives engines, all scenarios of the round, compliance
    tests, the tree and its check. Interrupted or repeated, it continues where it stopped. None of it can be packed.
    """
    chosen = _choose(benchmarks, as_json=as_json)
    round_name = load_ruleset(round_name or choose_round(chosen)).round  # before anything is generated
    root = (output or _default_folder(chosen)).resolve()
    with explain_unwritable(root, "reconcile rehearse --output DIR"):
        generated = make_rehearsal(
            root,
            chosen,
            round_name=round_name,
            division=division,
            category=category,
            size=size,
            seed=seed,
            samples=samples or 0,
            moved=_Teller(as_json),
        )
        _report_generated(root, generated, as_json=as_json)
    options = Options(commit=True, busy=busy)
    pass_report = carry_out(PlanCache.of(RepositoryPaths(root)), options, as_json=as_json)
    if pass_report is None:
        return INTERRUPTED
    return _report(pass_report, options, generated, chosen, round_name, as_json=as_json)


def make_rehearsal(
    root: Path,
    chosen: Sequence[Rehearsed],
    *,
    round_name: str,
    division: str,
    category: str = CATEGORY,
    size: Size = "small",
    seed: int = 1,
    samples: int = 0,
    moved: Moved,
    change: Callable[[str], str] = str,
) -> dict[str, Generated]:
    """Generate what is not there yet, and write a repository that declares it. ``change``: of the spec's text."""
    root.mkdir(parents=True, exist_ok=True)
    generated = {
        item.facts.code: generate(root, item.facts, size=size, seed=seed, samples=samples, moved=moved)
        for item in chosen
    }
    spec = render_rehearsal_spec(
        round_name=round_name,
        division=division,
        category=category,
        benchmarks=chosen,
        generated=generated,
        machine=propose_this_machine(),
        schema=f"../{SCHEMA}",
    )
    _write(root, change(spec))
    return generated


def _choose(words: Sequence[str], *, as_json: bool) -> list[Rehearsed]:
    """By any name of the benchmarks; where none is named, all that have a rehearsal and what it needs here."""
    facts = [
        found for code, found in load_benchmark_facts().items() if code in BENCHMARKS and BENCHMARKS[code].rehearsed
    ]
    named = [name for word in words for name in word.split(",") if name]
    found = [find_rehearsed(name, facts) for name in named or _list_ready(facts, as_json=as_json)]
    if named and (missing := _find_all_missing([item.facts for item in found], list_installed())):
        absent = _name_missing([item.facts for item in found], missing)
        raise ReconcilerError(f"packages are missing for the rehearsal: {absent}", fix=_install(missing))
    return list({item.entry: item for item in found}.values())


def _list_ready(facts: Sequence[BenchmarkFacts], *, as_json: bool) -> list[str]:
    """List the names of those that are ready and report the others. ReconcilerError where none is left."""
    if missing := _find_all_missing(facts, list_installed()):
        left_out, fix = _name_missing(facts, missing), _install(missing)
        if len(missing) == len(facts):
            raise ReconcilerError(f"no benchmark can be rehearsed here; what is missing: {left_out}", fix=fix)
        say(f"Left out, since packages are missing: {left_out}.\n    fix: {fix}", err=as_json)
    return [next(iter(item.names)) for item in facts if item.code not in missing]


def _find_all_missing(facts: Iterable[BenchmarkFacts], installed: Mapping[str, str]) -> dict[str, list[str]]:
    """Code of a benchmark → its packages that are not here; nothing of one that has all."""
    return {item.code: needed for item in facts if (needed := _find_missing(item, installed))}


def _name_missing(facts: Iterable[BenchmarkFacts], missing: Mapping[str, Sequence[str]]) -> str:
    names = {item.code: next(iter(item.names)) for item in facts}
    return ", ".join(f"{names[code]} ({join_listing(needed)})" for code, needed in missing.items())


def _install(missing: Mapping[str, Sequence[str]]) -> str:
    """Install the missing packages of a benchmark, and of the backend that it is rehearsed with."""
    extras: list[str] = []
    for code, needed in missing.items():
        backend = BACKENDS[_find_backend(load_benchmark_facts()[code])]
        of_backend = backend.distributions[0] in needed
        extras += [BENCHMARKS[code].extra or code] if len(needed) > of_backend else []
        extras += [backend.extra] if of_backend else []
    return installing(",".join(dict.fromkeys(extras)))


def _find_backend(facts: BenchmarkFacts) -> str:
    assert facts.rehearsal is not None, f"{facts.code} has no rehearsal"
    return str(facts.rehearsal.benchmark["engine"]["backend"])


def _find_missing(facts: BenchmarkFacts, installed: Mapping[str, str]) -> list[str]:
    """Packages that its rehearsal needs and this interpreter does not have, each by its usual name."""
    backend = _find_backend(facts)
    missing = find_missing_libraries(BENCHMARKS[facts.code], installed)
    if find_backend_version(backend, installed) is None:
        missing.append(BACKENDS[backend].distributions[0])
    return list(dict.fromkeys(missing))


def _default_folder(chosen: Sequence[Rehearsed]) -> Path:
    root = find_root(Path.cwd()) or Path.cwd()
    return RepositoryPaths(root).work / "rehearsals" / "+".join(item.name for item in chosen)


class _Teller:
    """A line every few seconds while data is generated."""

    def __init__(self, as_json: bool) -> None:
        self._err, self._reported = as_json, time.monotonic()

    def __call__(self, code: str, progress: Progress) -> None:
        if time.monotonic() - self._reported >= _REPORT_EVERY:
            self._reported = time.monotonic()
            say(f"{code}: generating, {progress.done:,} of {progress.expected:,} samples", err=self._err)


def _report_generated(root: Path, generated: dict[str, Generated], *, as_json: bool) -> None:
    for item in generated.values():
        how = "generated" if item.made else "there already"
        say(f"{item.code}: {show_count(item.samples, 'sample')} and a network, {how}: {root / item.data}", err=as_json)


def _write(root: Path, spec: str) -> None:
    """The repository, and its spec as a commit of its own."""
    git.initialise(root, own=True)
    write_repository(root, _NAME, spec)
    replace(root / CALIBRATION, CALIBRATION_TEXT.encode())
    ignored = root / FOLDER / ".gitignore"
    if not ignored.exists():
        replace(ignored, b"*\n")
    paths = (f"specs/{_NAME}.yaml", SCHEMA, CALIBRATION, ".gitignore", ".gitattributes", "README.md", WORKFLOW_FILE)
    if git.is_dirty(root, paths):
        git.commit(root, paths, "Declare the rehearsal")


def _report(
    pass_report: PassReport,
    options: Options,
    generated: dict[str, Generated],
    chosen: Sequence[Rehearsed],
    round_name: str,
    *,
    as_json: bool,
) -> int:
    if not any(pass_report.tree.glob("*/*/results")):  # every cell failed: there is nothing to check or to pack
        if as_json:
            parts: dict[str, Any] = {"pass": render_pass_part(pass_report, options), "check": None, "refused": []}
            say_json(render_document("rehearse", generated=list(generated.values()), expected_findings={}, **parts))
        else:
            say_pass(pass_report, options, None)
        return choose_pass_code(pass_report)
    report = check_tree(pass_report.tree, round_name=round_name)
    checked = judge_rehearsal(report, earlier=has_earlier(round_name, chosen))
    refusals = find_refusals(load_packed_submission(pass_report.after), despite_embargo=False)
    marked = [refusal for refusal in refusals if refusal.reason.startswith(("it is a rehearsal", "its data"))]
    if as_json:
        say_json(
            render_document(
                "rehearse",
                generated=list(generated.values()),
                **{"pass": render_pass_part(pass_report, options)},
                check=render_findings_part(checked.unexpected, "submitter"),
                expected_findings=checked.expected,
                refused=[{"where": r.where, "reason": r.reason} for r in marked],
            )
        )
    else:
        say_pass(pass_report, options, None)
        _say_check(checked)
        say(f"`package` refuses it: {marked[0].reason}." if marked else "`package` would take it!")
    if not marked:
        raise ReconcilerError("nothing marks this submission as a rehearsal", fix="report this as a bug")
    code = choose_pass_code(pass_report)
    return code if code != IN_SYNC or checked.unexpected.clean else NOT_IN_SYNC


def _say_check(checked: RehearsalCheck) -> None:
    by_nature = show_count(sum(checked.expected.values()), "finding")
    say(f"Check: {by_nature} on what is short because it is a rehearsal ({', '.join(checked.expected)}); in addition:")
    say(render_findings_text(checked.unexpected, by="submitter", limit=LIMIT, paint=choose_paint()))
