"""A command's processes end with it, however it, its keeper or this process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import wait_for
from tests.unit.harness.children import ROOT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux only")

# What it starts leaves its session and its parent, and tells its number.
COMMAND = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("left.partial", "w") as file:
            print(os.getpid(), file=file)
        os.rename("left.partial", "left")
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("go"):
    time.sleep(0.01)
"""
PASS = """
import sys
from pathlib import Path
from harness.errors import HarnessError
from harness.group import Command, run_group
from harness.output import BoundedOutput

try:
    command = Command([sys.executable, "command.py"], Path.cwd(), {})
    with open("output", "wb") as output:
        bounded = BoundedOutput(output.fileno(), Path("last_line"))
        ended = run_group(command, bounded, lambda: Path("afterwards").touch())
    print("ended", ended.status)
except HarnessError as error:
    print("refused", error)
"""


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A process that runs a command in a group, and what the command left behind."""
    (tmp_path / "command.py").write_text(COMMAND)
    running = subprocess.Popen(
        [sys.executable, "-c", PASS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with running:
        wait_for(lambda: (tmp_path / "left").exists() or running.poll() is not None)
        left = psutil.Process(int((tmp_path / "left").read_text()))
        yield running, left
        running.kill()
    if not has_ended(left):
        left.kill()


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_what_a_command_leaves_behind_ends_with_it(
    begun: tuple[subprocess.Popen[str], psutil.Process], tmp_path: Path
) -> None:
    running, left = begun
    (tmp_path / "go").touch()
    assert running.communicate(timeout=60)[0] == "ended 0\n"
    assert has_ended(left)
    assert (tmp_path / "afterwards").exists()


def test_what_a_command_leaves_behind_ends_when_the_keeper_is_killed(
    begun: tuple[subprocess.Popen[str], psutil.Process], tmp_path: Path
) -> None:
    running, left = begun
    (keeper,) = psutil.Process(running.pid).children()
    keeper.send_signal(signal.SIGKILL)
    assert running.communicate(timeout=60)[0] == "refused the command's keeper was killed\n"
    assert has_ended(left)
    assert (tmp_path / "afterwards").exists()


def test_what_a_command_leaves_behind_ends_when_the_pass_is_killed(
    begun: tuple[subprocess.Popen[str], psutil.Process], tmp_path: Path
) -> None:
    running, left = begun
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: has_ended(left) and (tmp_path / "afterwards").exists())


def test_all_that_a_command_printed_is_passed_on(tmp_path: Path) -> None:
    """More than a pipe holds, and the last of it just before the end."""
    (tmp_path / "command.py").write_text("print('line\\n' * 40_000 + 'the end')")
    ended = subprocess.run(
        [sys.executable, "-c", PASS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == "ended 0\n", ended.stderr
    assert (tmp_path / "output").read_text() == "line\n" * 40_000 + "the end\n"
