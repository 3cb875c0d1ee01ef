"""`reconcile [SPEC…]`, `apply` and `attach`: run one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli.command_table import WITHOUT_NAME
from reconciler.cli.shared.options import pass_options, reporting_options, split_words, takes
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import run
from reconciler.errors import LockedError
from reconciler.plan import saved
from reconciler.plan.plan import Plan
from reconciler.reconcile.planning import WAIT_IDLE


@click.command("pass")
@takes([split_words(), *pass_options()])
def command(words: tuple[str, ...], **given: Any) -> int:
    """Run one pass: build, run, score and render everything that differs from the spec."""
    return _run_pass(words, None, **given)


@click.command("apply")
@takes([split_words("[PLAN] [SPEC|SELECTOR]..."), *pass_options()])
def apply_command(words: tuple[str, ...], **given: Any) -> int:
    """Execute PLAN, a file that `reconcile plan -o` saved; without one, the part of a new plan that the selectors
    choose.

    A saved plan is refused if the spec or the records changed since.
    """
    plans = [word for word in words if _is_plan(word)]
    if len(plans) > 1:
        raise click.UsageError("one plan at a time")
    others = tuple(word for word in words if word not in plans)
    return _run_pass(others, saved.load(Path(plans[0])) if plans else None, **given)


def _run_pass(
    words: tuple[str, ...],
    plan: Plan | None,
    *,
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    rerun: tuple[str, ...],
    commit: bool,
    busy: bool,
    wait_idle: float | None,
    wait: float,
    jobs: int,
    detach: bool,
    quick: float,
    as_json: bool,
    show_all: bool,
) -> int:
    """The arguments are the options of ``pass_options``."""
    paths, options = find_asked_cells(
        words, exclude=exclude, only=only, rerun=rerun, deep=deep, commit=commit, busy=busy, wait=wait
    )
    options = replace(options, jobs=jobs, detach=detach, wait_idle=WAIT_IDLE if wait_idle is None else wait_idle)
    try:
        return run(paths, options, saved=plan, as_json=as_json, show_all=show_all, quick=quick)
    except LockedError as error:
        typed = click.get_current_context().command_path.removesuffix(f" {WITHOUT_NAME}")
        raise LockedError(error.message, fix=f"wait for it with `{typed} --wait 600`, or {error.fix}") from error


def _is_plan(word: str) -> bool:
    """Return True for any file that is not a spec: `apply` reports its problems."""
    path = Path(word)
    if path.suffix in (".yaml", ".yml") or path.is_dir():
        return False
    return path.is_file() or (path.suffix in (".json", ".plan") and "=" not in word)


@click.command("attach")
@takes([split_words("[SPEC]..."), *reporting_options()])
def attach_command(words: tuple[str, ...], as_json: bool, show_all: bool) -> int:
    """Follow the jobs that an earlier pass left in a queue, and record their results. Starts nothing new; Ctrl-C does
    not cancel the jobs."""
    paths, options = find_asked_cells(words)
    return run(paths, replace(options, attach=True, detach=True), as_json=as_json, show_all=show_all)
