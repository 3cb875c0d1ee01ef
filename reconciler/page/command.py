"""`reconcile page`: show the submission in a browser, or write the page as files."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, complete_refs, spec_option, takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import stop_cleanly
from reconciler.cli.shared.tree_options import show_progress
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.history.pull_request import list_page_addresses
from reconciler.page.export import export_site
from reconciler.page.guard import LOOPBACK
from reconciler.page.links import Links
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.server import make_application, open_socket, serve
from reconciler.page.site import Site
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.resource.quantities import show_count

_NICE = 19  # a timed run on the same machine takes precedence
_HOST = click.Option(["--host"], default=LOOPBACK[0], metavar="ADDRESS", show_default=True, help="Where to listen.")
_PORT = click.Option(
    ["--port"],
    type=click.IntRange(0, 65535),
    default=8765,
    metavar="PORT",
    show_default=True,
    help="Port to listen on; 0 takes any free one.",
)
_TOKEN = click.Option(
    ["--token/--no-token"],
    default=None,
    help="Require the token that only the printed address contains. Default: yes, except on the loopback interface.",
)
_OPEN = click.Option(["--open", "browse"], is_flag=True, help="Open it in a browser.")
_TREE = click.Option(
    ["--tree", "trees"],
    multiple=True,
    type=ExistingPath(file_okay=False, path_type=Path),
    metavar="PATH",
    help="Another submission tree to compare with and to verify. May be repeated.",
)


_EXPORT = click.Option(
    ["--export"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write it as files that need no server.",
)
_BASE = click.Option(
    ["--base"],
    default="",
    metavar="REF",
    shell_complete=complete_refs,
    help="In an export: also show what merging HEAD into REF would do.",
)
_COMPARE = click.Option(
    ["--compare", "compared"],
    type=(str, str),
    default=None,
    metavar="A B",
    help="In an export: also compare two commits, systems or trees of --tree.",
)


@click.command("page")
@takes([spec_option(), _HOST, _PORT, _TOKEN, _OPEN, _TREE, _EXPORT, _BASE, _COMPARE])
def command(
    specs: tuple[str, ...],
    host: str,
    port: int,
    token: bool | None,
    browse: bool,
    trees: tuple[Path, ...],
    export: Path | None,
    base: str,
    compared: tuple[str, str] | None,
) -> int:
    """Serve the submission as a page: matrix, live pass, cells, plan, history, findings.

    It only reads, and may run during a pass or `watch`. Ctrl-C ends it.
    """
    if export is None and (base or compared):
        raise click.UsageError("--base and --compare go with --export: the live page has fields for them")
    paths, options = find_asked_cells(specs)
    page = RepositoryPage(paths, options, {str(tree): tree for tree in trees})
    if export is None:
        _serve(page, host, port, token, browse)
    else:
        _export(page, export, base, compared)
    return IN_SYNC


def _export(page: RepositoryPage, folder: Path, base: str, compared: tuple[str, str] | None) -> None:
    """Export the page. Files on this machine are not published; a workflow's files are."""
    if os.environ.get("CI"):
        for address in list_page_addresses(page.paths.root):
            _refuse_embargoed(page, address, "wait for that day, or name the address if it is private")
    with show_progress(quiet=False) as report:
        count = len(page.read_matrix()["cells"])
        counter = itertools.count(1)
        made = export_site(
            Site(page, files=True),
            folder.absolute(),
            base=base,
            compared=compared,
            on_cell=lambda cell: report(next(counter), count, cell) if report else None,
        )
    say(f"Wrote {show_count(made.cells, 'cell')} in {show_count(made.files, 'file')}: {folder / 'index.html'}")
    if not made.drawn:
        say("Without plots: vl-convert draws them, which is not installed. Fix: pip install 'mlperf-reconciler[page]'")


def _serve(page: RepositoryPage, host: str, port: int, token: bool | None, browse: bool) -> None:
    loopback = _is_loopback(host)
    if token is False and not loopback:
        fix = "leave --no-token out, or listen on 127.0.0.1 and forward the port through ssh"
        raise ReconcilerError(f"anyone who can reach {host} could read everything", fix=fix)
    site = Site(page)
    application = make_application(site)
    if not loopback:
        fix = f"serve on 127.0.0.1, or name http://{host} in spec.embargo.allow if only your own people reach it"
        _refuse_embargoed(page, f"http://{host}", fix)
    site.show_matrix(Links())
    listening = open_socket(host, port)
    secret = secrets.token_urlsafe(24) if token or not loopback else ""
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={secret}" if secret else "")
    say(f"Serving {page.name} at {address} (Ctrl-C ends it)")
    if browse:
        import webbrowser

        webbrowser.open(address)
    os.nice(_NICE - os.nice(0))
    with contextlib.suppress(KeyboardInterrupt), stop_cleanly():  # the usual end
        serve(application, listening, secret, LOOPBACK if loopback else ())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_embargoed(page: RepositoryPage, address: str, fix: str) -> None:
    embargo = make_embargo(page.look().seen.desired.submission)
    if why := explain_refusal(embargo, address, datetime.now(UTC).date()):
        raise ReconcilerError(why, fix=fix)
