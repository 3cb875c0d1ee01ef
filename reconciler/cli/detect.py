"""`reconcile detect`: what this machine is, as an edit of the spec."""

from __future__ import annotations

import difflib
import platform
import re
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import click
from msgspec import Struct

from harness.contract import ProbeRequest
from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.repository import find_paths, find_root, show_from_root
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.launch.nodes import Node, find_differences, probe_nodes
from reconciler.observed.machine import find_unlike, list_accelerators
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.render.colour import Tone
from reconciler.render.documents import render_document
from reconciler.resource.launcher import Launcher
from reconciler.resource.quantities import join_listing
from reconciler.resource.settings import Hardware, SystemSettings
from reconciler.spec.edit import EditError
from reconciler.spec.files import read_sources
from reconciler.spec.numa_layout import find_layout_advice
from reconciler.spec.proposal import Proposal, propose
from reconciler.spec.system_proposal import Described, describe, list_required, list_systems, render_block_lines
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.leftovers import open_temporary, sweep_siblings

_SYSTEM = click.Option(["--system"], metavar="NAME", help="The system of the spec that describes this machine.")
_WRITE = click.Option(["--write"], is_flag=True, help="Write what is proposed into the spec.")
_OVERWRITE = click.Option(["--overwrite"], is_flag=True, help="Also replace what the machine contradicts.")
_LAUNCHER = click.Option(
    ["--launcher"],
    default="",
    metavar="WORDS",
    help='Read each node that a launcher starts a process on, such as "srun -N 2"; default: the one that the spec '
    "declares for the system.",
)
_NOT_COMPARED = ("system_name", "number_of_nodes")


class _Target(Struct, frozen=True):
    """The spec file to edit; ``path`` None where there is no spec."""

    path: Path | None
    text: str
    system: str


@click.command("detect")
@takes([_SYSTEM, _WRITE, _OVERWRITE, _LAUNCHER, spec_option(), json_option()])
def command(
    system: str | None, write: bool, overwrite: bool, launcher: str, specs: tuple[str, ...], as_json: bool
) -> int:
    """Read this machine and propose how the spec should describe it; --write changes the spec.

    Keeps what people wrote, comments included. Names the values that cannot be read.
    """
    root = find_root(Path.cwd())
    paths = find_paths(root) if root is not None else None
    target = _target(paths, specs, system)
    through = Launcher(tuple(shlex.split(launcher))) if launcher else _declared(target)
    seen = (paths.root.resolve(),) if paths is not None else ()
    with nullcontext(paths.work) if paths is not None else open_temporary("probe") as shared:
        nodes = probe_nodes(ProbeRequest(hardware=True), through, shared, seen)
    unlike = "" if through.words else _explain_unlike(target)
    if unlike and write and not overwrite:
        fix = "run it there, name the launcher that reaches it, or write all the same: --overwrite"
        raise ReconcilerError(f"this machine is not {target.system}: {unlike}", fix=fix)
    proposal = propose(nodes[0], len(nodes))
    try:
        described = describe(target.text, target.system, proposal, overwrite=overwrite) if target.path else None
    except EditError as error:
        raise ReconcilerError(
            f"{target.path}: {error}", fix="change the spec by hand: reconcile detect --json"
        ) from None
    written = bool(write and described and target.path and described.text != target.text)
    if write and target.path is None:
        raise ReconcilerError("there is no spec to write to", fix="`reconcile init` makes one")
    if written and described and target.path:
        sweep_siblings(target.path)
        replace(target.path, described.text.encode())
    if unlike:
        say(f"Warning: this machine is not {target.system}: {unlike}. What follows is of this machine.", err=True)
    if as_json:
        say_json(_document(target, nodes, proposal, described, written))
    else:
        _say(target, nodes, proposal, described, written)
    return IN_SYNC


def _target(paths: RepositoryPaths | None, specs: tuple[str, ...], system: str | None) -> _Target:
    """The file that declares the system; else, for a new one, the first that declares any."""
    if paths is None or not (specs or (paths.root / "specs").is_dir()):
        return _Target(None, "", system or _own_name())
    spec_paths = list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs])
    sources, problems = read_sources(spec_paths, paths.root)
    if problems:
        raise ReconcilerError(str(problems[0]), fix="reconcile validate")
    declared = {name: source for source in sources for name in list_systems(source.text)}
    if system is None and len(declared) > 1:
        system = _find_own({name: each for source in sources for name, each in list_systems(source.text).items()})
        say(f"This machine is taken for {system}, of the systems that the spec declares.", err=True)
    chosen = system or next(iter(declared), _own_name())
    source = declared.get(chosen) or next(iter(declared.values()), sources[0])
    return _Target(paths.root / source.name, source.text, chosen)


def _find_own(systems: Mapping[str, object]) -> str:
    """The one system whose hardware this machine has, if need be by the number of accelerators. Raises
    ReconcilerError where it is not one."""
    declared = {name: hardware for name, each in systems.items() if (hardware := _read_hardware(each)) is not None}
    here = list_accelerators()
    fitting = [
        name
        for name, hardware in declared.items()
        if find_unlike(hardware) is None and (hardware.accelerator or hardware.cpu or not here)
    ]
    counts = {name: declared[name].count or bool(declared[name].accelerator) for name in fitting}
    exact = [name for name in fitting if counts[name] == len(here)]
    if len(found := exact or fitting) != 1:
        what = f"has the hardware of {join_listing(found)}" if found else f"is none of {join_listing(list(systems))}"
        raise ReconcilerError(f"this machine {what}", fix="say which system this is: --system NAME")
    return found[0]


def _declared(target: _Target) -> Launcher:
    """The launcher that the spec declares for the system; else this machine is meant."""
    system = list_systems(target.text).get(target.system) if target.path else None
    words = system.get("launcher") if isinstance(system, dict) else None
    if not words or not isinstance(system, dict):
        return Launcher()
    if not isinstance(words, list):
        raise ReconcilerError(
            f"{target.path}: {target.system}: launcher is not a list of words", fix="reconcile validate"
        )
    return Launcher(tuple(map(str, words)), str(system.get("python", "")))


def _explain_unlike(target: _Target) -> str:
    """Why this machine is not the one that the spec declares; "" where nothing contradicts it."""
    hardware = _read_hardware(list_systems(target.text).get(target.system)) if target.path else None
    found = find_unlike(hardware) if hardware is not None else None
    return found.message if found is not None else ""


def _read_hardware(system: object) -> Hardware | None:
    """The hardware that a system declares; None where it declares none that can be read."""
    declared = system.get("hardware") if isinstance(system, dict) else None
    if not isinstance(declared, dict):
        return None
    values = {f"hardware.{name}": value for name, value in declared.items() if name in ("accelerator", "cpu", "count")}
    return SystemSettings(values).hardware if str(values.get("hardware.count", 0)).isdecimal() else None


def _own_name() -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", platform.node().lower()).strip("-._") or "this-machine"


def _compared(node: Node) -> Mapping[str, str]:
    found = propose(node).description
    return {name: value for name, value in found.items() if name not in _NOT_COMPARED}


def _advise(nodes: tuple[Node, ...]) -> list[str]:
    """Advise where the firmware's layout contradicts the guides, with the host where there are several."""
    found = [(str(node["hardware"].get("host", "")), find_layout_advice(node["hardware"])) for node in nodes]
    several = len(nodes) > 1
    return [f"{host}: {line}" if several else line for host, lines in found for line in lines]


def _document(
    target: _Target, nodes: tuple[Node, ...], proposal: Proposal, described: Described | None, written: bool
) -> dict[str, object]:
    return render_document(
        "detect",
        system=target.system,
        spec=str(target.path) if target.path else None,
        hardware=dict(proposal.hardware),
        description=dict(proposal.description),
        unread=list(proposal.unread),
        kept={name: {"spec": was, "read": now} for name, (was, now) in (described.kept if described else {}).items()},
        differences=find_differences(nodes, _compared),
        advice=_advise(nodes),
        nodes=[dict(node) for node in nodes],
        changed=bool(described and described.text != target.text),
        written=written,
    )


def _say(
    target: _Target, nodes: tuple[Node, ...], proposal: Proposal, described: Described | None, written: bool
) -> None:
    if described is None:
        block = {"hardware": dict(proposal.hardware), "description": dict(proposal.description)}
        say("\n".join(render_block_lines(target.system, block)))
    else:
        _say_difference(target, described, written)
    for line in find_differences(nodes, _compared):
        say(f"Differs: {line}")
    for line in _advise(nodes):
        say(f"Advice: {line}")
    for name, (was, now) in (described.kept if described else {}).items():
        say(f"Kept: {name}: {was}   (read: {now}; --overwrite takes it)")
    missing = described.missing if described else list_required(proposal.unread)
    if missing:
        say(f"Not readable, for you to fill in: {', '.join(missing)}")


def _say_difference(target: _Target, described: Described, written: bool) -> None:
    name = target.path.name if target.path else ""
    if described.text == target.text:
        say(f"{name} already says all that can be read of {target.system}.")
        return
    before, after = target.text.splitlines(), described.text.splitlines()
    tones = {"+": Tone.GOOD, "-": Tone.BAD}
    for line in difflib.unified_diff(before, after, name, name, n=2, lineterm=""):
        say(choose_paint()(line, tones[line[0]]) if line[0] in tones else line)
    say(f"Written to {target.path}." if written else "Nothing is written yet: --write does it.")
