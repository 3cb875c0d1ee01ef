"""A command's processes end with it, however it, its keeper or this process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import wait_for
from tests.unit.harness.children import ROOT, run_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux only")

# What it starts leaves its session and its parent, and reports its number.
COMMAND = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").close())
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
from harness.child.group import Command, run_group
from harness.child.output import BoundedOutput

try:
    command = Command([sys.executable, "command.py"], Path.cwd(), {})
    with open("output", "wb") as output:
        bounded = BoundedOutput(output.fileno(), Path("last_line"))
        ended = run_group(command, bounded, lambda: Path("afterwards").touch())
    print("ended", ended.status)
except HarnessError as error:
    print("refused", error)
"""

# Asks for the command's end once it is "ready", ``asks`` times.
ENDING = """
import contextlib, json, os, signal, sys, threading, time
from pathlib import Path
from harness.errors import HarnessError
from harness.child.group import Command, StopRequest, run_group
from harness.child.output import BoundedOutput

words, own = json.loads(sys.argv[1])
asks = own.pop("asks", 1)
stop = StopRequest()

def ask():
    while not Path("ready").exists():
        time.sleep(0.01)
    for _ in range(asks):
        stop.ask()
        time.sleep(0.1)

@contextlib.contextmanager
def during():
    threading.Thread(target=ask, daemon=True).start()
    yield

for name in own.keys() & {"stdin"}:
    own[name] = own[name].encode()
for name in own.keys() & {"stop_signal"}:
    own[name] = signal.Signals[own[name]]
command = Command(words, Path.cwd(), {"PATH": os.environ["PATH"]}, **own)
try:
    with open("output", "wb") as output:
        ended = run_group(command, BoundedOutput(output.fileno(), Path("last_line")), lambda: None, during(), stop)
    print(ended.status, "timed out" if ended.timed_out else "")
except HarnessError as error:
    print("refused:", error)
"""
LOOP = "touch ready; while :; do sleep 0.02; done"


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


def test_what_is_left_ends_with_it(begun: tuple[subprocess.Popen[str], psutil.Process], tmp_path: Path) -> None:
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
    assert running.communicate(timeout=60)[0] == "refused the command's supervisor was killed\n"
    assert has_ended(left)
    assert (tmp_path / "afterwards").exists()


def test_what_a_command_leaves_behind_ends_when_the_pass_is_killed(
    begun: tuple[subprocess.Popen[str], psutil.Process], tmp_path: Path
) -> None:
    running, left = begun
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: has_ended(left) and (tmp_path / "afterwards").exists())
    assert not (tmp_path / "asked").exists()  # no one is left who would wait for it


def test_all_that_a_command_printed_is_passed_on(tmp_path: Path) -> None:
    """More than a pipe holds, and the last of it just before the end."""
    (tmp_path / "command.py").write_text("print('line\\n' * 40_000 + 'the end')")
    assert run_python(tmp_path, "-c", PASS) == "ended 0\n"
    assert (tmp_path / "output").read_text() == "line\n" * 40_000 + "the end\n"


@pytest.mark.parametrize(
    ("words", "own", "reported"),
    [
        ("exit 0", {}, "0"),
        ("exit 3", {"timeout": 60}, "3"),
        ("kill -USR1 $$", {}, f"-{signal.SIGUSR1.value}"),
        ("sleep 20", {"timeout": 0.2}, "-15 timed out"),
        (f"{LOOP}", {"timeout": 60}, "-15"),
        (f"trap 'exit 7' TERM; {LOOP}", {}, "7"),
        (f"trap 'exit 8' INT; {LOOP}", {"stop_signal": "SIGINT"}, "8"),
        ("trap '' TERM; touch ready; sleep 20", {"stop_grace": 0.2}, "-9"),
        (f"trap 'n=$((n+1)); test $n = 2 && exit 9' TERM; {LOOP}", {"stop_grace": 0.2, "grace": 0.2}, "9"),
        (f"trap 'n=$((n+1)); test $n = 2 && exit 9' TERM; {LOOP}", {"stop_grace": 0.5, "asks": 9}, "-9"),
        (f"trap 'touch ready' TERM; {LOOP.partition(';')[2]}", {"timeout": 0.2, "stop_grace": 0.5}, "-9 timed out"),
        ("cat; exit 5", {"timeout": 0.2, "stdin": "all"}, "5 timed out"),
        ("read line; test $line = all && exit 6", {"stdin": "all\n", "timeout": 60}, "6"),
    ],
    ids=[
        "by itself",
        "with a status",
        "by its own signal",
        "too late",
        "asked",
        "asked, in order",
        "asked by another signal",
        "asked, and deaf",
        "asked once more",
        "asked again and again",
        "asked when it is late already",
        "its input ends",
        "told what it reads",
    ],
)
def test_how_a_command_ended_is_reported(words: str, own: dict[str, object], reported: str, tmp_path: Path) -> None:
    assert run_python(tmp_path, "-c", ENDING, json.dumps([["sh", "-c", words], own])).strip() == reported


def test_a_command_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    reported = run_python(tmp_path, "-c", ENDING, json.dumps([["/no/such/command"], {}]))
    assert reported == "refused: /no/such/command failed to start: No such file or directory\n"
