"""`reconcile mig [create|destroy]`: partition the GPUs of this machine into the declared slices, or remove them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial

import click

from harness.catalog import write_slices
from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_commands, say_json
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.mig.cutting import (
    SliceCutter,
    find_slice_journal,
    list_cuts,
    list_joins,
    list_privileges,
    look_here,
    read_slice_journal,
    run_tool,
    write_cut,
    write_switch,
)
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.settings import Hardware, SystemSettings
from reconciler.spec.loading import load
from reconciler.storage.machine_locks import make_machine_lock

_SYSTEM = click.Argument(["system"], required=False, metavar="[SYSTEM]")
_RUN = click.Option(["--run"], is_flag=True, help="Run the commands, as root or through `sudo -n`.")


@click.group("mig", invoke_without_command=True)
@takes([json_option()])
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """Show the GPUs of this machine and their slices (MIG); make the slices that a system declares, and remove them.

    A pass never makes slices: cells whose slices are missing are Blocked.
    """
    return IN_SYNC if context.invoked_subcommand is not None else _show(as_json)


@command.command("create", short_help="Make the missing slices of a system.")
@takes([_SYSTEM, _RUN, spec_option(), json_option()])
def create(system: str | None, run: bool, specs: tuple[str, ...], as_json: bool) -> int:
    """Print the commands that make the missing slices of SYSTEM; --run executes them."""
    hardware = _find_hardware(system, specs)
    if run:
        with make_machine_lock("quiet").acquire():
            made = _make_cutter(as_json).create(hardware)
        there = f"{write_slices(hardware.slices)}: already there."
        return _conclude("create", made, f"{show_count(made, 'slice')} made." if made else there, as_json)
    cuts = list_cuts(hardware, look_here())
    switches = [write_switch(gpu, on=True) for gpu in dict.fromkeys(cut.gpu for cut in cuts) if not gpu.mig]
    return _print([*switches, *(write_cut(cut) for cut in cuts)], "create", as_json)


@command.command("destroy", short_help="Remove the slices that `create --run` made.")
@takes([_RUN, json_option()])
def destroy(run: bool, as_json: bool) -> int:
    """Print the commands that remove the slices that `create --run` made on this machine; --run carries them out.

    Nothing else is touched, even if either command was killed halfway.
    """
    if run:
        with make_machine_lock("quiet").acquire():
            gone = _make_cutter(as_json).destroy()
        return _conclude("destroy", gone, f"{show_count(gone, 'slice')} removed.", as_json)
    return _print(list_joins(read_slice_journal(find_slice_journal()), look_here()), "destroy", as_json)


def _find_hardware(system: str | None, specs: tuple[str, ...]) -> Hardware:
    """Find the hardware of the system, or of the only system that declares slices."""
    paths = find_repository(specs)
    declared = load(list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs]), paths.root, os.environ)
    found = {
        name: SystemSettings({n: value.value for n, value in each.settings.items()}).hardware
        for name, each in declared.systems.items()
    }
    cut = {name: hardware for name, hardware in found.items() if hardware.slices}
    if system is not None and system not in found:
        raise ReconcilerError(f"no system {system!r}", fix=f"use one of {', '.join(found)}")
    if not cut or (system is not None and system not in cut):
        who = f"{system} declares no" if system is not None else "no system declares"
        fix = "add `mig: {profile: 1g.10gb, count: 7}` in `hardware` of the system"
        raise ReconcilerError(f"{who} slices of GPUs", fix=fix)
    if system is None and len(cut) > 1:
        raise ReconcilerError(
            f"{join_listing(list(cut))} declare slices", fix="set `system` to the name of this machine"
        )
    return cut[system or next(iter(cut))]


def _print(commands: Sequence[Sequence[str]], action: str, as_json: bool) -> int:
    """Print the remaining steps."""
    lines = [shlex.join([*list_privileges(), *words]) for words in commands]
    if as_json:
        say_json(render_document(f"mig {action}", commands=lines, slices=0))
    elif lines:
        say_commands(lines)
        say(f"Nothing changed yet. To apply: `reconcile mig {action} --run`.")
    else:
        say("Nothing to do.")
    return NOT_IN_SYNC if lines else IN_SYNC


def _conclude(action: str, slices: int, text: str, as_json: bool) -> int:
    """``slices``: how many were created or destroyed."""
    if as_json:
        say_json(render_document(f"mig {action}", commands=[], slices=slices))
    else:
        say(text)
    return IN_SYNC


def _show(as_json: bool) -> int:
    ours = {entry.uuid for entry in read_slice_journal(find_slice_journal()).made}
    gpus = look_here()
    if as_json:
        rows = [
            {
                **convert_plain_value(gpu),
                "slices": [{**convert_plain_value(part), "made_here": part.uuid in ours} for part in gpu.slices],
            }
            for gpu in gpus
        ]
        say_json(render_document("mig", gpus=rows))
        return IN_SYNC
    if not gpus:
        say("NVML reports no NVIDIA GPU here.")
    for gpu in gpus:
        mode = {True: "cut", False: "undivided, supports MIG", None: "does not support MIG"}[gpu.mig]
        say(f"GPU {gpu.index}  {gpu.name}  {mode}")
        for part in gpu.slices:
            say(f"  {part.profile}  {part.uuid}{'  made by reconcile' if part.uuid in ours else ''}")
    return IN_SYNC


def _make_cutter(as_json: bool) -> SliceCutter:
    """For a report as JSON, send progress to standard error."""
    return SliceCutter(find_slice_journal(), look_here, run_tool, partial(say, err=as_json))
