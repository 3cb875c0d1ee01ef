"""`reconcile mig [create|destroy]`: cut the GPUs of this machine into the declared slices, and join them again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click

from reconciler.cli.shared.options import spec_option, takes
from reconciler.cli.shared.output import say, say_commands
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.desired_cache import list_spec_paths
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.files import make_machine_lock
from reconciler.quantities import join_listing, show_count
from reconciler.resource.settings import Hardware, SystemSettings, write_slices
from reconciler.slicing.cutting import Cutter, list_privileges, look_here, run_tool
from reconciler.slicing.journal import GpuHere, SliceJournal, find_slice_journal, read_slice_journal
from reconciler.slicing.steps import find_made, list_cuts, write_cut, write_joins, write_switch
from reconciler.spec.loading import load

_SYSTEM = click.Argument(["system"], required=False, metavar="[SYSTEM]")
_RUN = click.Option(["--run"], is_flag=True, help="Carry the commands out, as root or through `sudo -n`.")


@click.group("mig", invoke_without_command=True)
@takes([])
@click.pass_context
def command(context: click.Context) -> int:
    """Show the GPUs of this machine and their slices (MIG); make the slices that a system declares, and take them away.

    No pass makes a slice: where one is missing, cells are Blocked.
    """
    return IN_SYNC if context.invoked_subcommand is not None else _show()


@command.command("create")
@takes([_SYSTEM, _RUN, spec_option()])
def create(system: str | None, run: bool, specs: tuple[str, ...]) -> int:
    """Print the commands that make what is missing of the slices that SYSTEM declares; --run carries them out."""
    hardware = _find_hardware(system, specs)
    if run:
        with make_machine_lock("quiet").acquire():
            made = _make_cutter().create(hardware)
        say(f"{show_count(made, 'slice')} made." if made else f"{write_slices(hardware.slices)}: already there.")
        return IN_SYNC
    cuts = list_cuts(hardware, look_here())
    switches = [write_switch(gpu, on=True) for gpu in dict.fromkeys(cut.gpu for cut in cuts) if not gpu.mig]
    return _print([*switches, *(write_cut(cut) for cut in cuts)], "create")


@command.command("destroy")
@takes([_RUN])
def destroy(run: bool) -> int:
    """Print the commands that take away what `create --run` made on this machine; --run carries them out.

    Nothing else is touched, also after either command was killed.
    """
    if run:
        with make_machine_lock("quiet").acquire():
            gone = _make_cutter().destroy()
        say(f"{show_count(gone, 'slice')} taken away.")
        return IN_SYNC
    return _print(_list_joins(read_slice_journal(find_slice_journal()), look_here()), "destroy")


def _find_hardware(system: str | None, specs: tuple[str, ...]) -> Hardware:
    """Of the system, or of the only one that declares slices."""
    paths = find_repository(specs)
    declared = load(list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs]), paths.root, os.environ)
    found = {
        name: SystemSettings({n: value.value for n, value in each.settings.items()}).hardware
        for name, each in declared.systems.items()
    }
    cut = {name: hardware for name, hardware in found.items() if hardware.slices}
    if system is not None and system not in found:
        raise ReconcilerError(f"no system {system!r}", fix=f"name one of {', '.join(found)}")
    if not cut or (system is not None and system not in cut):
        who = f"{system} declares no" if system is not None else "no system declares"
        fix = "write `mig: {profile: 1g.10gb, count: 7}` in `hardware` of the system"
        raise ReconcilerError(f"{who} slices of GPUs", fix=fix)
    if system is None and len(cut) > 1:
        raise ReconcilerError(f"{join_listing(list(cut))} declare slices", fix="name the one that this machine is")
    return cut[system or next(iter(cut))]


def _list_joins(journal: SliceJournal, gpus: Sequence[GpuHere]) -> list[list[str]]:
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    commands, left = [], {gpu.uuid: len(gpu.slices) for gpu in gpus}
    for entry in journal.made:
        gpu = by_uuid.get(entry.gpu)
        others = [each.uuid for each in journal.made if each != entry]
        made = find_made(entry, gpu, others) if gpu is not None else None
        if gpu is not None and made is not None:
            commands += write_joins(gpu, made.instance)
            left[gpu.uuid] -= 1
    switched = [by_uuid[uuid] for uuid in journal.enabled if uuid in by_uuid and not left[uuid]]
    return [*commands, *(write_switch(gpu, on=False) for gpu in switched if gpu.mig)]


def _print(commands: Sequence[Sequence[str]], action: str) -> int:
    if not commands:
        say("Nothing to do.")
        return IN_SYNC
    say_commands(shlex.join([*list_privileges(), *words]) for words in commands)
    say(f"Nothing is done yet: `reconcile mig {action} --run` does it.")
    return NOT_IN_SYNC


def _show() -> int:
    journal = read_slice_journal(find_slice_journal())
    ours = {entry.uuid for entry in journal.made}
    gpus = look_here()
    if not gpus:
        say("NVML reports no NVIDIA GPU here.")
    for gpu in gpus:
        mode = {True: "cut", False: "whole, can be cut", None: "cannot be cut"}[gpu.mig]
        say(f"GPU {gpu.index}  {gpu.name}  {mode}")
        for part in gpu.slices:
            say(f"  {part.profile}  {part.uuid}{'  made by reconcile' if part.uuid in ours else ''}")
    return IN_SYNC


def _make_cutter() -> Cutter:
    return Cutter(find_slice_journal(), look_here, run_tool, say)
