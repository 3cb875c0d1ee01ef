"""Which process runs which tests, and when: the long ones first, so that none is left alone with one at the end, and
those that wait beside those that compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from xdist.scheduler import LoadScopeScheduling

# Those of a few long tests, most of them in processes of their own, then the folders of whole passes. Whatever is not
# named comes last.
LONG = (
    "tests/passes/test_tutorial.py",
    "tests/passes/test_crashes.py",
    "tests/passes/test_one_box.py",
    "tests/acceptance",
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
)
# Made of long tests; what their modules begin with is made once for all processes.
_APART = ("tests/passes/", "tests/acceptance/", "tests/unit/controller/")
_SPREAD = 0.75


def rank(nodeid: str) -> int:
    path = PurePosixPath(nodeid.partition("::")[0])
    return next((number for number, name in enumerate(LONG) if path.is_relative_to(name)), len(LONG))


class _HasNodeId(Protocol):
    @property
    def nodeid(self) -> str: ...


_Item = TypeVar("_Item", bound=_HasNodeId)


def arrange(items: Sequence[_Item]) -> list[_Item]:
    """Whole passes mostly wait (for children, locks, least durations), the rest mostly computes: the passes are spread
    over the first three quarters of the rest."""
    ranked = sorted(items, key=lambda item: rank(item.nodeid))
    waiting = [item for item in ranked if item.nodeid.startswith(_APART)]
    computing = [item for item in ranked if not item.nodeid.startswith(_APART)]
    modules = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in computing))
    when = {module: number / len(modules) for number, module in enumerate(modules)}
    turns = [(_SPREAD * number / len(waiting), item) for number, item in enumerate(waiting)]
    turns += [(when[item.nodeid.partition("::")[0]], item) for item in computing]
    return [item for _, item in sorted(turns, key=lambda turn: turn[0])]


class LongFirst(LoadScopeScheduling):
    """A module at a time; of the long ones a test at a time, those of one case together."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        if not module.startswith(_APART):
            return module
        return f"{module}{test[test.index('[') :]}" if "[" in test else nodeid
