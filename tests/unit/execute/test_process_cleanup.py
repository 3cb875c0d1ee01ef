"""What a child started and left ends with it, and nothing else does: real processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from reconciler.execute.executors.local import MARK, end_leftovers

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux only")

_PR_GET_CHILD_SUBREAPER = 37


def adopts() -> bool:
    """Whether orphans of this process become its children."""
    found = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """With the mark of another child."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "another"}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_orphans_are_adopted_for_as_long_as_a_child_may_leave_some() -> None:
    with end_leftovers():
        assert adopts()
    assert not adopts()
    with pytest.raises(KeyboardInterrupt), end_leftovers():
        raise KeyboardInterrupt
    assert not adopts()


def test_what_carries_the_mark_ends_with_all_that_it_started(bystander: subprocess.Popen[bytes]) -> None:
    """The second has a session, a parent and an environment of its own."""
    script = "setsid sleep 600 & echo $!; setsid env -i /bin/sh -c 'sleep 600 & echo $!; wait' & echo $!; wait"
    with end_leftovers() as marked:
        process = subprocess.Popen(
            ["sh", "-c", script], env={**os.environ, **marked}, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        left = [int(process.stdout.readline()) for _ in range(3)]
        assert all(map(psutil.pid_exists, left))
    assert [pid for pid in (process.pid, *left) if psutil.pid_exists(pid)] == []
    assert bystander.poll() is None
    process.stdout.close()
    process.wait()  # it is reaped already
