"""Which process runs which tests, and when: the long ones first, so that none is left alone with one at the end."""

from __future__ import annotations

from functools import cache

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
    "tests/unit/controller",
    "tests/unit/tree/check/test_damage.py",
    "tests/unit/tree/verify/test_hostile.py",
    "tests/unit/harness/test_quantization.py",
    "tests/unit/cli/test_signing.py",
    "tests/unit/cli/test_package.py",
    "tests/passes/test_launchers.py",
    "tests/passes/test_services.py",
    "tests/passes/test_command_files.py",
    "tests/passes",
    "tests/unit/cli",
    "tests/unit/tree/verify",
    "tests/unit/harness",
    "tests/unit/execute",
    "tests/unit/tree/curve",
    "tests/unit/reconcile/test_journal.py",
    "tests/architecture",
    "tests/power",
    "tests/unit/diff/test_difference.py",
    "tests/unit/history/test_commit_records.py",
    "tests/unit/tuning",
)
# Made of long tests; what their modules begin with is made once for all processes.
_APART = ("tests/passes/", "tests/acceptance/", "tests/unit/controller/")


def rank(nodeid: str) -> int:
    return _rank_module(nodeid.partition("::")[0])


@cache
def _rank_module(path: str) -> int:
    return next((number for number, name in enumerate(LONG) if f"{path}/".startswith(f"{name}/")), len(LONG))


class LongFirst(LoadScopeScheduling):
    """A module at a time; of the long ones a test at a time, those of one case together."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        if not module.startswith(_APART):
            return module
        return f"{module}{test[test.index('[') :]}" if "[" in test else nodeid
