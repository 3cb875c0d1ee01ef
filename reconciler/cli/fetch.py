"""`reconcile fetch`: download the source files of benchmarks into the scratch space."""

from __future__ import annotations

import os
import sys

import click

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import choose_paint, is_quiet, say, say_report, use_colour
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import (
    ERROR,
    IN_SYNC,
    INTERRUPTED,
    NOT_IN_SYNC,
    ReconcilerError,
    RepositoryError,
    suggest_nearest,
)
from reconciler.fetch.download import DownloadLimits, DownloadProgress
from reconciler.fetch.fetch import (
    Due,
    FetchResult,
    FetchStatus,
    Mirror,
    Way,
    check_room,
    decide,
    fetch,
    foresee,
    measure_free,
)
from reconciler.fetch.scratch import Scratch, find_scratch
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.render.fetching import FetchReport, render_fetch_document, render_fetch_text
from reconciler.rules.benchmark_files import BenchmarkFiles, find_benchmark_files, load_benchmark_files
from reconciler.spec.loading import load

_OPTIONS: list[click.Parameter] = [
    click.Argument(["names"], nargs=-1, metavar="[BENCHMARK]..."),
    click.Option(["--scratch"], default="", metavar="DIR", help="Scratch space; default: MLPERF_SCRATCH_PATH."),
    click.Option(
        ["--mirror"],
        default="",
        envvar="RECONCILE_MIRROR",
        metavar="URL|DIR",
        help="Download from this web server or folder instead, laid out like a scratch space.",
    ),
    click.Option(["--optional"], is_flag=True, help="Also fetch optional files, such as calibration images."),
    click.Option(
        ["--parallel"],
        type=click.IntRange(1, 16),
        default=4,
        show_default=True,
        metavar="N",
        help="How many files to download at once.",
    ),
    click.Option(
        ["--timeout"],
        type=click.FloatRange(min=1),
        default=30,
        show_default=True,
        metavar="SECONDS",
        help="Retry a connection on which nothing arrives for this long.",
    ),
    click.Option(["--dry-run"], is_flag=True, help="Only list the downloads, and whether the disk has room."),
    json_option(),
]


@click.command("fetch")
@takes(_OPTIONS)
def command(
    names: tuple[str, ...],
    scratch: str,
    mirror: str,
    optional: bool,
    parallel: int,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Download datasets and models of BENCHMARKs, those of the spec by default, into the scratch space; verify them.

    Files that need a licence or a form are listed with their destination; existing files are checked by their digests.
    Exits with 0 if all files exist, with 2 if some must be downloaded manually, and with 1 if a download failed. Run
    the same command again to continue.
    """
    chosen = _choose_benchmarks(names)
    place = find_scratch(os.environ, scratch)
    read_from = Mirror(mirror) if mirror else None
    if read_from is not None:
        read_from.check()
    due = decide(place, chosen, read_from, optional=optional)
    free = measure_free(place)
    if dry_run:
        ended = [foresee(place, item) for item in due]
    else:
        check_room(place, due)
        try:
            ended = _fetch_files(place, due, DownloadLimits(timeout=timeout), parallel)
        except KeyboardInterrupt:
            say("Interrupted. Downloaded files are kept; run the same command again to continue.", err=True)
            return INTERRUPTED
    report = FetchReport(place, ended, free, dry_run)
    say_report(render_fetch_document(report), render_fetch_text(report, choose_paint()), as_json=as_json)
    if any(item.fate is FetchStatus.FAILED for item in ended):
        return ERROR
    return IN_SYNC if all(item.fate in (FetchStatus.HERE, FetchStatus.FETCHED) for item in ended) else NOT_IN_SYNC


def _choose_benchmarks(names: tuple[str, ...]) -> list[BenchmarkFiles]:
    """Choose the named benchmarks, else those of the local spec. Raises ReconcilerError."""
    known = [name for item in load_benchmark_files().values() for name in item.names]
    for name in names:
        if find_benchmark_files(name) is None:
            fix = f"{suggest_nearest(name, known)}`reconcile benchmarks` lists them"
            raise ReconcilerError(f"no files are listed for {name}", fix=fix)
    found = [find_benchmark_files(name) for name in names or _list_declared()]
    chosen = list({item.name: item for item in found if item is not None}.values())
    if not chosen:
        fix = f"name some: reconcile fetch {' '.join(load_benchmark_files())}"
        raise ReconcilerError("no benchmark was given, and no spec here declares one with known files", fix=fix)
    return chosen


def _list_declared() -> list[str]:
    try:
        paths = find_repository()
    except RepositoryError:
        return []
    declared = load(list_spec_paths(paths, ()), paths.root, os.environ)
    return [str(cell.code.value) for cell in declared.cells if cell.code]


def _fetch_files(scratch: Scratch, due: list[Due], limits: DownloadLimits, parallel: int) -> list[FetchResult]:
    progress = DownloadProgress()
    total = sum(item.coming for item in due)
    if not any(item.way in (Way.DOWNLOAD, Way.COPY) for item in due):
        return fetch(scratch, due, limits, progress, parallel=parallel)
    from reconciler.render.live import open_view

    with open_view(total, colour=use_colour(sys.stderr), quiet=is_quiet()) as view:
        progress.report = view
        return fetch(scratch, due, limits, progress, parallel=parallel)
