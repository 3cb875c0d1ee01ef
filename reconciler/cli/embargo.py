"""`reconcile embargo [ADDRESS]`: report whether results may be sent to an address; also git's pre-push hook."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_report
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, ReconcilerError, RepositoryError
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.render.documents import render_document
from reconciler.resource.embargo import Embargo, explain_refusal, make_embargo, show_embargo
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.leftovers import sweep_siblings

_ADDRESS = click.Argument(["address"], required=False, metavar="[ADDRESS]", envvar="PRE_COMMIT_REMOTE_URL")
_INSTALL = click.Option(["--install"], is_flag=True, help="Make git check it before each push from this clone.")
_HOOK = """\
#!/bin/sh
# Written by `reconcile embargo --install`: no push to a place that the spec's embargo does not allow.
exec {command} "$2"
"""


@click.command("embargo")
@takes([_ADDRESS, _INSTALL, json_option()])
def command(address: str | None, install: bool, as_json: bool) -> int:
    """Show whether results may be sent to ADDRESS today, and exit with 1 if not. Default: each remote.

    ADDRESS is what git pushes to, the URL of a store, or exec:COMMAND. The specs of the work tree decide.
    """
    paths = find_repository()
    if install:
        return _install_hook(paths)
    embargo, today = make_embargo(PlanCache.of(paths).load_desired(Options()).submission), datetime.now(UTC).date()
    if address is not None:
        if why := explain_refusal(embargo, address, today):
            raise ReconcilerError(why, fix="name it in spec.embargo.allow if it is private, or wait for that day")
        shown = show_embargo(address)
        say_report(render_document("embargo", address=shown, allowed=True), f"{shown}: allowed", as_json=as_json)
        return IN_SYNC
    remotes = [(name, url, explain_refusal(embargo, url, today)) for name, url in git.list_remotes(paths.root)]
    rows = [{"remote": name, "address": show_embargo(url), "allowed": not why} for name, url, why in remotes]
    parts = {"until": embargo.until, "allow": embargo.allow} if embargo else {}
    lines = [f"  {row['remote']} {row['address']}: {'allowed' if row['allowed'] else 'refused'}" for row in rows]
    document = render_document("embargo", declared=embargo is not None, **parts, remotes=rows)
    say_report(document, "\n".join([_describe_embargo(embargo), *lines]), as_json=as_json)
    return IN_SYNC


def _describe_embargo(embargo: Embargo | None) -> str:
    if embargo is None:
        return "No embargo is declared: results may go anywhere."
    if not embargo.is_in_force(datetime.now(UTC).date()):
        return f"The embargo ended on {embargo.until}: results may go anywhere."
    where = f"only to {', '.join(embargo.allow)}" if embargo.allow else "nowhere"
    return f"An {embargo}: results may go {where}."


def _install_hook(paths: RepositoryPaths) -> int:
    path = git.find_hook_path(paths.root, "pre-push")
    words = [sys.executable, "-P", "-m", "reconciler.cli.main", "-C", str(paths.root), "embargo"]
    text = _HOOK.format(command=shlex.join(words))
    if path.exists() and "reconcile embargo" not in path.read_text(errors="replace"):
        raise RepositoryError(f"{path} already exists", fix=f'add this line to it: {shlex.join(words)} "$2" || exit 1')
    sweep_siblings(path)
    replace(path, text.encode())
    Path(path).chmod(0o755)
    say(f"Wrote {path}: git checks the embargo before each push.")
    return IN_SYNC
