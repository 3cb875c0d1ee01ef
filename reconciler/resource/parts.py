"""Optional parts, each a package with one entry in ``PARTS``; programs are listed in ``reconciler.resource.programs``.

To remove a part, delete its package and its entry.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class OptionalPart(NamedTuple):
    """``commands``: (name, module or module:command, help, the preceding command in ``--help``). ``door``: the module
    or module:function that implements the interface for other packages; "" if there is none."""

    commands: tuple[tuple[str, str, str, str], ...] = ()
    door: str = ""


PARTS: Mapping[str, OptionalPart] = {
    "mig": OptionalPart(
        (
            (
                "mig",
                "reconciler.mig.command",
                "Divide this machine's GPUs into the declared MIG slices, or undo it.",
                "doctor",
            ),
        )
    ),
    "page": OptionalPart(
        (
            (
                "page",
                "reconciler.page.command",
                "Show the submission, the pass in progress and plots in a browser.",
                "status",
            ),
            (
                "plot",
                "reconciler.page.plot_command",
                "Plot a cell's runs, latencies, throughput or telemetry as SVG or PNG.",
                "status",
            ),
        )
    ),
    "power": OptionalPart(door="reconciler.execute.power"),
    "stores": OptionalPart(
        (
            (
                "push",
                "reconciler.stores.command:push_command",
                "Copy objects that are not in git to a remote store.",
                "adopt",
            ),
            (
                "pull",
                "reconciler.stores.command:pull_command",
                "Fetch objects from a remote store, and verify their digests.",
                "adopt",
            ),
        ),
        door="reconciler.stores.sender:StoreTransport",
    ),
    "verify": OptionalPart(
        (
            (
                "verify-tree",
                "reconciler.verify.command:verify_tree_command",
                "Find contradictions in any submission tree.",
                "check",
            ),
            (
                "objections",
                "reconciler.verify.command:objections_command",
                "Draft objections to others' results, one text per submitter.",
                "respond",
            ),
        ),
        door="reconciler.verify.engine",
    ),
}


@functools.cache
def load_part(name: str) -> Any:
    """Load the interface of a part; None if the part was removed."""
    if name not in PARTS:
        return None
    module, _, attribute = PARTS[name].door.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)
