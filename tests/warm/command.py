"""What a fork does that is to be ``reconcile``: the command line, whose children are forks as well.

They are forked from a process that ends with this one, however that ends, so that they end with it too.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys

from harness.orphan import die_with_parent
from reconciler import process
from reconciler.cli import main as cli
from reconciler.mlperf.benchmark_facts import load_benchmark_facts
from reconciler.mlperf.rules.rounds import load_ruleset
from tests.warm.children import Warm
from tests.warm.server import CHILD, serve

# What is loaded late by passes, looks and the watch.
LOADED = (
    "reconciler.cli.pass_",
    "reconciler.cli.shared.plan_options",
    "reconciler.cli.watch",
    "reconciler.desired.compile",
    "reconciler.git_index",
    "reconciler.publishing.rendered_tree",
    "reconciler.result_formats.durations",
    "reconciler.spec.cell_edit",
    "reconciler.spec.loading",
    "reconciler.tree.assemble",
    "reconciler.tree.curves",
    "reconciler.tree.render",
)

load_ruleset("v6.1")  # that of most specs of tests
load_benchmark_facts()


def main(words: list[str]) -> None:
    del os.environ["RECONCILE_PARENT"]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process.subprocess = fork_server().stand_in()
    status = cli.main(words)
    atexit._run_exitfuncs()
    sys.exit(status)


def fork_server() -> Warm:
    warm = Warm()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.environ["RECONCILE_PARENT"] = str(os.getpid())
    if os.fork() == 0:
        ours.close()
        _serve(theirs)
    del os.environ["RECONCILE_PARENT"]
    theirs.close()
    warm.use(ours)
    return warm


def _serve(asked: socket.socket) -> None:
    try:
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        serve(asked, CHILD)
    finally:
        os._exit(0)
