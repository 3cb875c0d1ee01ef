"""`reconcile doctor`: list what is still missing for real runs and the submission."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.reconcile.readiness import Check, examine, install_missing
from reconciler.render.colour import Paint, Tone
from reconciler.render.documents import render_document
from reconciler.resource.quantities import show_count


@click.command("doctor")
@takes(
    [
        spec_option(),
        click.Option(
            ["--fix"],
            is_flag=True,
            help="If LoadGen here is of another round, install the declared round's in an environment below "
            ".reconcile/environments.",
        ),
        click.Option(
            ["--loadgen", "brought"],
            type=ExistingPath(path_type=Path),
            help="Install this LoadGen there: a wheel, a folder of its sources, or a checkout of mlcommons/inference "
            "at the tag of the round. Rounds before v4.1 need it, with their mlperf.conf in the folder or next to it.",
        ),
        json_option(),
    ]
)
def command(specs: tuple[str, ...], fix: bool, brought: Path | None, as_json: bool) -> int:
    """List what is missing for real runs and the submission: on this machine, in the repository, the spec and its data.

    Runs nothing. Exits 0 when nothing is missing, else 2.
    """
    paths = find_repository(specs)
    if fix or brought is not None:
        install_missing(paths, tuple(show_from_root(paths, spec) for spec in specs), brought)
    found = examine(paths, tuple(show_from_root(paths, spec) for spec in specs))
    missing = sum(check.missing for check in found)
    if as_json:
        say_json(render_document("doctor", ready=not missing, checks=found))
    else:
        say("\n".join(_render_checks(found, choose_paint())))
        say(f"{show_count(missing, 'thing')} missing." if missing else "Ready.")
    return NOT_IN_SYNC if missing else IN_SYNC


def _render_checks(found: list[Check], paint: Paint) -> list[str]:
    lines: list[str] = []
    topic = ""
    for check in found:
        if check.topic != topic:
            topic = check.topic
            lines.append(topic)
        mark = paint("missing", Tone.BAD) if check.missing else paint("ok     ", Tone.GOOD)
        mark = paint("advice ", Tone.DOUBT) if check.advice else mark
        where = f"{check.where}: " if check.where else ""
        lines.append(f"  {mark}  {where}{check.text}")
        if check.fix:
            lines.append(f"           fix: {check.fix}")
    return lines
