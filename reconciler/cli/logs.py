"""`reconcile logs CELL`: list a cell's logs, or print one."""

from __future__ import annotations

import difflib
import os
import sys
import time
from collections.abc import Callable, Iterator

import click
from msgspec import Struct

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_at_once, say_report
from reconciler.cli.shared.plan_options import find_asked_cell
from reconciler.cli.show import describe_file
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.execute.log_follower import LogFollower, Printed
from reconciler.execute.queue_status import watch_jobs
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.reconcile.planning import PlanResult
from reconciler.record.store import find_readable
from reconciler.render.cell import render_file_row
from reconciler.render.colour import Tone
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.progress import EVERY, render_progress_text
from reconciler.render.table import render_table
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import CHILD_LOG, Artifact, Ended, Summary
from reconciler.resource.resources import Resource
from reconciler.storage.files import RepositoryPaths, TrialPaths
from reconciler.tune.records import list_summaries

# `reconcile logs CELL --follow`: print the output of a cell's runs as they proceed.

_PAUSE = 0.5  # seconds between two checks


def follow(paths: RepositoryPaths, cell: Cell, *, trials: bool) -> None:
    """Continue until no pass is running and no job of the cell is queued. Ctrl-C ends it at any time."""
    trial_paths = TrialPaths(paths.root, paths.apart)
    folders = (trial_paths.attempts,) if trials else (paths.attempts, trial_paths.attempts)
    list_jobs = watch_jobs(paths)

    def describe_state() -> str:
        running = find_pass_in_progress(paths)
        if running is not None:
            return str(running)
        return "In a queue." if any(item.address.cell == cell for item in list_jobs()) else ""

    print_progress(
        LogFollower(folders, lambda address: address.cell == cell), describe_state, lambda: time.sleep(_PAUSE)
    )


def print_progress(
    follower: LogFollower,
    describe_state: Callable[[], str],
    pause: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Print output to standard output and remarks to standard error. ``describe_state`` returns the state of the pass;
    "" ends the loop."""
    shown_at: dict[Address, float] = {}
    seen, before = False, ""
    while True:
        state = describe_state()  # before reading, so that all output up to the end is printed
        for printed in follower.look():
            seen = True
            _show_printed(printed, shown_at, clock())
        if not state:
            break
        if not seen and state != before:
            say(state, err=True)
            before = state
        pause()
    follower.close()
    say("No pass is running any more." if seen else "No pass is running, and no job of this cell is.", err=True)


def _show_printed(printed: Printed, shown_at: dict[Address, float], now: float) -> None:
    name = printed.address.label
    if printed.began:
        say(f"{name}: {printed.log}", err=True)
        shown_at[printed.address] = now
    if printed.data:
        say_at_once(printed.data.decode("utf-8", "surrogateescape").removesuffix("\n"))
        shown_at[printed.address] = now
    elif printed.progress is not None and now - shown_at.get(printed.address, now) >= EVERY:
        say(f"{name}: {render_progress_text(printed.progress)}", err=True)
        shown_at[printed.address] = now


_PRINT = click.Option(
    ["--print", "name"], metavar="NAME", help='Write that log to standard output: "performance/mlperf_log_summary.txt".'
)
_FOLLOW = click.Option(
    ["-f", "--follow", "follow_runs"], is_flag=True, help="Write what its runs print, until the pass ends."
)
_TRIALS = click.Option(["--trials"], is_flag=True, help="Show the logs of trials of `try` and `tune` instead.")
# If several attempts have a log of that name and no folder is given, prefer the failed attempt, then the published one.
_PREFERRED = ("failed", "performance", "accuracy", "score")


class CellLog(Struct, frozen=True):
    """``folder``: "performance", "accuracy", "score" or "engine", prefixed with "failed " for the last failed
    attempt."""

    folder: str
    artifact: Artifact
    summary: Summary

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.artifact.name}"


@click.command("logs")
@takes([cell_argument(), _PRINT, _FOLLOW, _TRIALS, spec_option(), json_option()])
def command(cell: str, name: str | None, follow_runs: bool, trials: bool, specs: tuple[str, ...], as_json: bool) -> int:
    """List the logs of CELL with their paths, including those of the last failed attempt; --print prints one.

    --follow writes the output of a running pass, trial or job for CELL, and its progress on standard error, until
    Ctrl-C or its end.
    """
    if follow_runs and (name is not None or as_json):
        raise click.UsageError("--follow writes what is printed now; omit --print and --json")
    paths, _, seen, chosen, lineage = find_asked_cell(cell, specs)
    if follow_runs:
        follow(paths, chosen, trials=trials)
        return IN_SYNC
    if trials:
        logs, paths = list_trial_logs(paths, chosen), TrialPaths(paths.root, paths.apart)
    else:
        logs = [log for resource in lineage for log in list_logs(seen, resource)]
    if name is not None:
        _print_log(paths, find_log(name, logs))
    else:
        document = render_document("logs", cell=chosen, logs=[render_log_part(paths, log) for log in logs])
        say_report(document, _render_logs(paths, str(chosen), logs), as_json=as_json)
    return IN_SYNC


def _name_folder(resource: Resource) -> str:
    return resource.address.label.removeprefix("Run ").lower()


def list_logs(seen: PlanResult, resource: Resource) -> Iterator[CellLog]:
    """List the logs of the record that counts, and of the last attempt if it failed."""
    known = seen.recorded.by_address.get(resource.address, ()) or seen.recorded.by_key.get(resource.key, ())
    record = seen.difference.recorded_as.get(resource.address, "")
    chosen = next((s for s in seen.recorded.by_key.get(resource.key, ()) if s.id == record), None)
    if chosen is None:
        chosen = next((s for s in reversed(known) if s.ended is Ended.DONE), None)
    whole = resource.kind in (Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST, Kind.VERDICT)
    if chosen is not None:
        kept = (artifact for artifact in chosen.artifacts if whole or artifact.name == CHILD_LOG)
        yield from (CellLog(_name_folder(resource), artifact, chosen) for artifact in kept)
    if known and known[-1].ended is Ended.FAILED:
        for artifact in known[-1].artifacts:
            yield CellLog(f"failed {_name_folder(resource)}", artifact, known[-1])


def list_trial_logs(paths: RepositoryPaths, cell: Cell) -> list[CellLog]:
    """List the logs newest first, in a folder per trial, named after its ID in `history --trials`."""
    found = reversed(list_summaries(paths, RunAddress(cell, PERFORMANCE).address))
    return [CellLog(f"trial-{s.id.rpartition('-')[2][:8]}", item, s) for s in found for item in s.artifacts]


def find_log(name: str, logs: list[CellLog]) -> CellLog:
    found = [log for log in logs if name in (log.name, log.artifact.name)]
    if not found:
        near = difflib.get_close_matches(name, [log.name for log in logs], 2, 0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`reconcile logs CELL` lists them"
        raise ReconcilerError(f"there is no log {name!r}", fix=hint)
    return min(found, key=lambda log: next((i for i, p in enumerate(_PREFERRED) if log.folder.startswith(p)), 9))


def _print_log(paths: RepositoryPaths, log: CellLog) -> None:
    path = find_readable(paths, log.artifact)
    try:
        data = path.read_bytes()
    except OSError as error:
        fix = "`reconcile` restores it from git or from its other copy"
        raise ReconcilerError(f"{log.name}: {path}: {error.strerror}", fix=fix) from error
    say(f"{log.name} of record {log.summary.id}", err=True)
    if sys.stdout.isatty() or os.environ.get("CI"):
        say_at_once(data.decode("utf-8", "surrogateescape").removesuffix("\n"), is_folded=False)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _render_logs(paths: RepositoryPaths, cell: str, logs: list[CellLog]) -> str:
    paint = choose_paint()
    lines = [paint(cell.replace("/", " / "), Tone.HEADING)]
    if not logs:
        return "\n".join([*lines, "  no logs yet: this cell has not run"])
    rows = [(log.name, *render_file_row(describe_file(paths, log.artifact), paint)[1:]) for log in logs]
    lines += render_table(rows, 2, width=paint.width, is_last_loose=True)
    for problem in dict.fromkeys(f"{log.folder}: {log.summary.problem}" for log in logs if log.summary.problem):
        lines.append(f"  {problem}")
    return "\n".join(lines)


def render_log_part(paths: RepositoryPaths, log: CellLog) -> dict[str, object]:
    file = convert_plain_value(describe_file(paths, log.artifact))
    return {**file, "name": log.name, "record": log.summary.id, "problem": log.summary.problem or None}
