"""`reconcile pr`: what merging one commit into another would cause."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.cli.shared.options import complete_refs, reporting_options, takes
from reconciler.cli.shared.output import choose_paint, say, say_commands, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import ERROR, IN_SYNC, NOT_IN_SYNC
from reconciler.history.merging import compare_commits
from reconciler.render import pull_request as views
from reconciler.storage import git
from reconciler.storage.collector import pause_collector
from reconciler.storage.leftovers import write_output

_BASE = click.Option(
    ["--base"],
    required=True,
    metavar="REF",
    shell_complete=complete_refs,
    help="The branch or commit that would be merged into.",
)
_HEAD = click.Option(
    ["--head"], default="HEAD", metavar="REF", shell_complete=complete_refs, help="The commit to merge. Default: HEAD."
)
_MARKDOWN = click.Option(
    ["--markdown"], type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a comment as Markdown."
)
_ANNOTATE = click.Option(
    ["--annotate/--no-annotate"], default=None, help="Print GitHub annotations. Default: inside a GitHub workflow."
)
_FAIL_ON = click.Option(
    ["--fail-on"],
    type=click.Choice(["errors", "work"]),
    default="work",
    show_default=True,
    help="Exit with 2 when merging makes work, or only with 1 on errors.",
)


@click.command("pr")
@takes([_BASE, _HEAD, _MARKDOWN, _ANNOTATE, _FAIL_ON, *reporting_options()])
def command(
    base: str,
    head: str,
    markdown: Path | None,
    annotate: bool | None,
    fail_on: str,
    as_json: bool,
    show_all: bool,
) -> int:
    """Compare two commits: cells added, removed, made stale or unaffected, what merging makes due, and what is wrong.

    Needs no GPU, no backend library and no artifact. A commit that only adds records makes nothing due. Under an
    embargo that does not allow the repository's address, nothing measured is published.
    """
    paths = find_repository(())
    with pause_collector():
        compared = compare_commits(paths, base, head)
    # Output of a workflow is on its page, too.
    found = compared.outside if os.environ.get("CI") else compared.impact
    if markdown is not None:
        write_output(markdown.absolute(), views.render_markdown(compared.outside).encode())
    if as_json:
        say_json(views.render_document(found))
    else:
        say(views.render_text(found, paint=choose_paint(), limit=None if show_all else views.LIMIT))
    if annotate if annotate is not None else os.environ.get("GITHUB_ACTIONS") == "true" and not as_json:
        say_commands(views.render_annotation_lines(compared.outside, git.find_prefix(paths.root)))
    if found.errors:
        return ERROR
    return NOT_IN_SYNC if found.adds_work and fail_on == "work" else IN_SYNC
