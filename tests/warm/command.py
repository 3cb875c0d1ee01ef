"""What a fork does that is to be ``reconcile``: the command line, whose children are forks as well.

They are forked from a process that ends with this one, however that ends, so that they end with it too.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

from reconciler.cli import main as cli
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.rules.rounds import load_ruleset
from reconciler.storage import process
from tests.warm.children import Warm
from tests.warm.server import CHILD, fork_server

# What is loaded late by passes, looks and the watch.
LOADED = (
    "reconciler.cli.pass_",
    "reconciler.cli.shared.plan_options",
    "reconciler.cli.watch",
    "reconciler.desired.compile",
    "reconciler.storage.git_index",
    "reconciler.publish.rendered_tree",
    "reconciler.loadgen.duration",
    "reconciler.spec.cell_edit",
    "reconciler.spec.loading",
    "reconciler.tree.assemble",
    "reconciler.tree.render",
)

load_ruleset("v6.1")  # that of most specs of tests
load_benchmark_facts()


def main(words: list[str]) -> None:
    del os.environ["RECONCILE_PARENT"]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warm = Warm()
    warm.use(fork_server(CHILD))
    process.subprocess = warm.stand_in()
    status = cli.main(words)
    atexit._run_exitfuncs()
    sys.exit(status)
