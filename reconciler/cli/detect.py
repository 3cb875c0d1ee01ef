"""`reconcile detect`: describe this machine as an edit of the spec."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_paths, find_root, show_from_root
from reconciler.errors import IN_SYNC
from reconciler.reconcile.machine_description import Detection, detect_system
from reconciler.render.colour import Tone
from reconciler.render.documents import render_document
from reconciler.spec.edit import render_group_lines
from reconciler.spec.system_proposal import Described, list_required

_SYSTEM = click.Option(["--system"], metavar="NAME", help="The system of the spec that describes this machine.")
_WRITE = click.Option(["--write"], is_flag=True, help="Write the proposed values into the spec.")
_OVERWRITE = click.Option(["--overwrite"], is_flag=True, help="Also replace values that the machine contradicts.")
_LAUNCHER = click.Option(
    ["--launcher"],
    default="",
    metavar="WORDS",
    help='Read each node that a launcher starts a process on, such as "srun -N 2"; default: the one that the spec '
    "declares for the system.",
)


@click.command("detect")
@takes([_SYSTEM, _WRITE, _OVERWRITE, _LAUNCHER, spec_option(), json_option()])
def command(
    system: str | None, write: bool, overwrite: bool, launcher: str, specs: tuple[str, ...], as_json: bool
) -> int:
    """Read this machine and propose how the spec should describe it; --write changes the spec.

    Keeps declared values and comments. Lists the values that cannot be read.
    """
    root = find_root(Path.cwd())
    paths = find_paths(root) if root is not None else None
    found = detect_system(
        paths,
        [show_from_root(paths, spec) for spec in specs] if paths is not None else [],
        system,
        launcher=launcher,
        write=write,
        overwrite=overwrite,
    )
    if found.is_assumed:
        say(f"This machine matches {found.system}, one of the systems in the spec.", err=True)
    if found.unlike:
        say(f"Warning: this machine is not {found.system}: {found.unlike}. The values below are its own.", err=True)
    if as_json:
        say_json(_render_detection(found))
    else:
        _say_detection(found)
    return IN_SYNC


def _render_detection(found: Detection) -> dict[str, object]:
    kept = found.described.kept if found.described else {}
    return render_document(
        "detect",
        system=found.system,
        spec=found.path,
        hardware=found.proposal.hardware,
        description=found.proposal.description,
        unread=found.proposal.unread,
        kept={name: {"spec": was, "read": now} for name, (was, now) in kept.items()},
        differences=found.differences,
        advice=found.advice,
        nodes=found.nodes,
        changed=found.changed,
        written=found.written,
    )


def _say_detection(found: Detection) -> None:
    described, proposal = found.described, found.proposal
    if described is None or found.path is None:
        block = {"hardware": dict(proposal.hardware), "description": dict(proposal.description)}
        say("\n".join(render_group_lines(found.system, block)))
    else:
        _say_edit(found, found.path, described)
    for line in found.differences:
        say(f"Differs: {line}")
    for line in found.advice:
        say(f"Advice: {line}")
    for name, (was, now) in (described.kept if described else {}).items():
        say(f"Kept: {name}: {was} (read: {now}; --overwrite replaces it)")
    missing = described.missing if described else list_required(proposal.unread)
    if missing:
        say(f"Not readable, for you to fill in: {', '.join(missing)}")


def _say_edit(found: Detection, path: Path, described: Described) -> None:
    name = path.name
    if not found.changed:
        say(f"{name} already has every readable value of {found.system}.")
        return
    before, after = found.before.splitlines(), described.text.splitlines()
    tones = {"+": Tone.GOOD, "-": Tone.BAD}
    for line in difflib.unified_diff(before, after, name, name, n=2, lineterm=""):
        say(choose_paint()(line, tones[line[0]]) if line[0] in tones else line)
    say(f"Written to {path}." if found.written else "Nothing written yet: use --write.")
