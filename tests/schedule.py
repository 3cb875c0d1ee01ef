"""The order of tests, and their processes: long ones first, so that none runs alone at the end.

Some processes begin with tests that mostly wait (for a run's least duration, for a process to end), the others with
those that compute: together they keep the cores busy, one kind after the other does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Those of a few long tests, most of them in processes of their own, then the folders of whole passes. Whatever is not
# named comes last.
LONG = (
    "tests/passes/test_tutorial.py",
    "tests/passes/test_crashes.py",
    "tests/passes/test_one_box.py",
    "tests/crash",
    "tests/unit/harness/test_unet3d_brats.py",
    "tests/unit/harness/test_language_rows.py",
    "tests/unit/cli/test_disk.py",
    "tests/acceptance",
    "tests/mig",
    "tests/unit/execute/test_child.py",
    "tests/unit/execute/test_ray_jobs.py",
    "tests/unit/stores/test_transfer.py",
    "tests/unit/watch",
    "tests/unit/check/test_damage.py",
    "tests/unit/verify/test_hostile.py",
    "tests/unit/harness/test_quantization.py",
    "tests/unit/cli/test_signing.py",
    "tests/unit/cli/test_package.py",
    "tests/passes/test_launchers.py",
    "tests/passes/test_services.py",
    "tests/passes/test_token_services.py",
    "tests/unit/loadgen/test_log.py",
    "tests/passes/test_command_files.py",
    "tests/passes",
    "tests/unit/cli",
    "tests/unit/verify",
    "tests/unit/harness",
    "tests/unit/execute",
    "tests/unit/endpoints/tree",
    "tests/unit/reconcile/test_journal.py",
    "tests/architecture",
    "tests/power",
    "tests/unit/diff/test_difference.py",
    "tests/unit/history/test_commit_records.py",
    "tests/unit/tune",
)
# Made of long tests; what their modules begin with is made once for all processes.
_APART = ("tests/passes/", "tests/acceptance/", "tests/unit/watch/")
# Seconds pass in them in which nothing is computed.
WAITING = (
    "tests/passes",
    "tests/acceptance",
    "tests/crash",
    "tests/mig",
    "tests/power",
    "tests/unit/watch",
    "tests/unit/execute/test_child.py",
    "tests/unit/execute/test_ray_jobs.py",
    "tests/unit/execute/test_slurm_jobs.py",
    "tests/unit/cli/test_audit_again.py",
    "tests/unit/cli/test_rehearse.py",
    "tests/unit/cli/test_transfer.py",
    "tests/unit/harness/test_failures.py",
    "tests/unit/harness/test_openai.py",
    "tests/unit/harness/test_scenarios.py",
    "tests/unit/loadgen/test_log.py",
    "tests/unit/stores/test_transfer.py",
)


def rank(nodeid: str) -> int:
    return _find_place(nodeid.partition("::")[0], LONG)


def waits(nodeid: str) -> bool:
    return _find_place(nodeid.partition("::")[0].partition("[")[0], WAITING) < len(WAITING)


@cache
def _find_place(path: str, names: tuple[str, ...]) -> int:
    """Return the index of the first name that is this file or a folder above it; the number of names if none is."""
    return next((number for number, name in enumerate(names) if f"{path}/".startswith(f"{name}/")), len(names))


class LongFirst(LoadScopeScheduling):
    """A schedule of one module at a time; of the long ones, one test at a time, those of one case together."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        if not module.startswith(_APART):
            return module
        return f"{module}{test[test.index('[') :]}" if "[" in test else nodeid

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self._places = {nodeid: place for place, nodeid in enumerate(collection)}  # the same in each process

    def _assign_work_unit(self, node: Any) -> None:
        """Give every second process tests that wait, while there are any, the others tests that compute.

        The library looks for each test in the list of all of them.
        """
        wanted = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        scope = next((scope for scope in self.workqueue if waits(scope) == wanted), next(iter(self.workqueue)))
        unit = self.assigned_work[node][scope] = self.workqueue.pop(scope)
        node.send_runtest_some([self._places[nodeid] for nodeid, is_completed in unit.items() if not is_completed])


def send_results_alone(config: pytest.Config) -> None:
    """Send one message instead of five for a passed test, in a process among others.

    The first process counts results. Only ``--durations``, ``--junitxml`` and ``-v`` read more.
    """
    if config.option.verbose > 0 or config.option.durations is not None or config.option.xmlpath:
        return
    (sender,) = (plugin for plugin in config.pluginmanager.get_plugins() if type(plugin).__name__ == "WorkerInteractor")
    send = sender.pytest_runtest_logreport

    @pytest.hookimpl
    def report_result(report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            send(report)

    config.pluginmanager.unregister(sender)
    sender.pytest_runtest_logreport = report_result
    sender.pytest_runtest_logstart = sender.pytest_runtest_logfinish = None
    config.pluginmanager.register(sender)
