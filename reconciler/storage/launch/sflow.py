"""NVIDIA's sflow: a workflow of servers, probes and clients on this machine, Slurm or Kubernetes, from YAML files.

It takes no command: the workflow declares a variable and a task that evaluates it. So our command starts where, and
after whatever, the workflow says.
"""

from __future__ import annotations

import shlex

from reconciler.storage.launch.launcher import BareLaunch, Launch, Launcher, Problem, Started, drop_options

VARIABLE = "RECONCILE_COMMAND"
_PLACE = (
    *("--workspace-dir", "--output-dir", "--log-level", "--kubeconfig", "--kube-context", "--kube-namespace"),
    *("--include-nodes", "--exclude-nodes", "--tui-refresh"),
)
_FLAGS = ("--verbose", "-v", "--offload-task-logs", "--no-offload-task-logs", "--wait-for-gpus")
# Options that start nothing, need a terminal, return early, or resume another workflow.
_UNFIT = ("--dry-run", "--tui", "--task", "-t", "--resume", "--kube-handoff")


def build(launch: Launch) -> Started:
    """Build the command; the last of two values of a variable wins."""
    return Started((*launch.launcher.words, "--set", f"{VARIABLE}={shlex.join(launch.command)}"))


def start_bare(_launch: BareLaunch) -> Started | None:
    return None


def find_unfit(launcher: Launcher) -> Problem | None:
    if launcher.words[1:2] != ("run",):
        return "sflow starts nothing to monitor", "write [sflow, run, -f, workflow.yaml]"
    wrong = next((word for word in launcher.words if word.partition("=")[0] in _UNFIT), None)
    if wrong is not None:
        return f"{wrong} prevents sflow from completing the workflow", "remove it"
    return None


def select_identity(launcher: Launcher) -> tuple[str, ...]:
    """Return the names of its files and the values set on the command line; the files' contents are not read."""
    words = drop_options(launcher.words[1:], _PLACE)
    return (launcher.program, *(word for word in words if word not in _FLAGS))


def enters_container(_launcher: Launcher) -> bool:
    """Return False. Only its files would show a container; the system's `python` declares it."""
    return False


def reaches_own_machine(_launcher: Launcher) -> bool:
    return False
