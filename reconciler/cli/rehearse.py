"""`reconcile rehearse [BENCHMARK…]`: make a complete submission from generated data, in a separate repository."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from harness.contract import Progress
from reconciler.check.engine import check_tree
from reconciler.cli.shared.options import busy_option, complete_rounds, json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_root
from reconciler.cli.shared.run_pass import carry_out, choose_pass_code, render_pass_part, say_pass
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from reconciler.history.packaging import find_refusals, load_packed_submission
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.reconcile.run import PassReport
from reconciler.rehearse.rehearsal import (
    Rehearsal,
    RehearsalCheck,
    RehearsalRequest,
    choose_benchmarks,
    judge_rehearsal,
    prepare_rehearsal,
)
from reconciler.rehearse.rehearsal_spec import CATEGORY, Rehearsed, Size
from reconciler.render.documents import render_document
from reconciler.render.findings import LIMIT, render_findings_part, render_findings_text
from reconciler.resource.quantities import show_count
from reconciler.storage.files import RepositoryPaths

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
    metavar="ROUND",
    help="Default: the newest round; benchmarks that it has dropped go to the open division.",
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
    metavar="N",
    help="How many samples to generate for each benchmark. Default: its own number.",
)
_SEED = click.Option(
    ["--seed"], type=click.IntRange(min=0), default=1, metavar="N", help="The seed of everything that is generated."
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
    """Rehearse the submission of BENCHMARK, or of all benchmarks with installed libraries, without any data.

    Generates datasets and networks in the published formats, and tries engines, all scenarios of the round, compliance
    tests, the tree and its check. If interrupted or repeated, it continues where it stopped. None of it can be packed.
    """
    choice = choose_benchmarks(benchmarks)
    chosen = choice.benchmarks
    if choice.left_out:
        say(f"Left out, since packages are missing: {choice.left_out}.\n    fix: {choice.fix}", err=as_json)
    asked = RehearsalRequest(
        round_name=round_name, division=division, category=category, size=size, samples=samples or 0, seed=seed
    )
    root = (output or _choose_folder(chosen)).resolve()
    reported = time.monotonic()

    def say_generated(name: str, progress: Progress) -> None:
        nonlocal reported
        if time.monotonic() - reported >= _REPORT_EVERY:
            reported = time.monotonic()
            say(f"{name}: generating, {progress.done:,} of {progress.expected:,} samples", err=as_json)

    rehearsal = prepare_rehearsal(root, chosen, asked, say_generated)
    for item in rehearsal.generated:
        how = "generated" if item.made else "there already"
        say(f"{item.name}: {show_count(item.samples, 'sample')} and a network, {how}: {root / item.data}", err=as_json)
    options = Options(commit=True, busy=busy)
    pass_report = carry_out(PlanCache.of(RepositoryPaths(root)), options, as_json=as_json)
    if pass_report is None:
        return INTERRUPTED
    code = choose_pass_code(pass_report)
    checked = _check_rehearsal(pass_report, rehearsal)
    if as_json:
        say_json(
            render_document(
                "rehearse",
                generated=rehearsal.generated,
                **{"pass": render_pass_part(pass_report, options)},
                check=render_findings_part(checked.unexpected, "submitter") if checked else None,
                expected_findings=checked.expected if checked else {},
                refused=[{"where": r.where, "reason": r.reason} for r in checked.refused] if checked else [],
            )
        )
    else:
        say_pass(pass_report, options, None)
        if checked is not None:
            _say_check(checked)
    if checked is None:
        return code
    if not checked.refused:
        raise ReconcilerError("nothing marks this submission as a rehearsal", fix="report this as a bug")
    return code if code != IN_SYNC or checked.unexpected.clean else NOT_IN_SYNC


def _choose_folder(chosen: Sequence[Rehearsed]) -> Path:
    root = find_root(Path.cwd()) or Path.cwd()
    return RepositoryPaths(root).work / "rehearsals" / "+".join(item.name for item in chosen)


def _check_rehearsal(pass_report: PassReport, rehearsal: Rehearsal) -> RehearsalCheck | None:
    """Return None if every cell failed: there is nothing to check or to package."""
    if not any(pass_report.tree.glob("*/*/results")):
        return None
    report = check_tree(pass_report.tree, round_name=rehearsal.round_name)
    refusals = find_refusals(load_packed_submission(pass_report.after), despite_embargo=False)
    return judge_rehearsal(report, refusals, earlier=rehearsal.has_earlier)


def _say_check(checked: RehearsalCheck) -> None:
    by_nature = show_count(sum(checked.expected.values()), "finding")
    say(f"Check: {by_nature} because a rehearsal is short ({', '.join(checked.expected)}); also:")
    say(render_findings_text(checked.unexpected, by="submitter", limit=LIMIT, paint=choose_paint()))
    say(f"`package` refuses it: {checked.refused[0].reason}." if checked.refused else "`package` would take it!")
