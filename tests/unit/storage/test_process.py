"""Child processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from reconciler.storage import process
from reconciler.storage.process import (
    Child,
    ChildEnd,
    ask,
    build_child_environment,
    build_harness_command,
    build_launcher_environment,
    explain_signal,
)


def start(folder: Path, code: str) -> Child:
    return Child([sys.executable, "-c", code], folder=folder, log=folder / "log", environment=build_child_environment())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_secrets_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "MLPERF_TOKEN"):
        monkeypatch.setenv(name, "value")
    found = build_child_environment()
    assert "value" not in found.values()
    assert (found["TZ"], found["RECONCILE_PARENT"]) == ("UTC", str(os.getpid()))
    assert build_child_environment({"TZ": "PST8PDT"})["TZ"] == "PST8PDT"


def test_chosen_devices_reach_a_child_here_and_no_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert build_child_environment()["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in build_launcher_environment()


def test_environment_of_a_child_is_just_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_TOKEN", "secret")
    with start(tmp_path, "import os; print(sorted(os.environ))") as child:
        assert child.wait(60) == 0
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert "MLPERF_TOKEN" not in said
    assert "RECONCILE_PARENT" in said


def test_working_folder_cannot_shadow_the_harness() -> None:
    command = build_harness_command("run", Path("request"), Path("result"))
    assert command[:4] == [sys.executable, "-P", "-m", "harness"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "signal 9 usually means that the kernel ran out of memory: use a smaller batch"),
        (signal.SIGSEGV, "signal 11 (SIGSEGV) is a crash in the program"),
        (signal.SIGABRT, "signal 6 (SIGABRT) is a crash in the program"),
        (signal.SIGTERM, "signal 15 (SIGTERM) is a request to stop"),
        (signal.SIGUSR1, "find the sender of signal 10 (SIGUSR1)"),
        (250, "find the sender of signal 250"),
    ],
)
def test_what_ended_a_process_is_identified_by_its_signal(number: int, words: str) -> None:
    assert explain_signal(number, "use a smaller batch").startswith(words)


def test_wait_gives_the_status_or_nothing(tmp_path: Path) -> None:
    with start(tmp_path, "import time; time.sleep(60)") as child:
        assert child.wait(0.01) is None
    with start(tmp_path, "raise SystemExit(7)") as child:
        assert child.wait(60) == 7


def test_leaving_ends_the_child_and_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print(p.pid, flush=True); time.sleep(600)"  # noqa: E501
    with start(tmp_path, code) as child:
        give_up = time.monotonic() + 60
        while not (said := (tmp_path / "log").read_text(encoding="utf-8")) and time.monotonic() < give_up:
            time.sleep(0.01)
        grandchild = int(said)
    give_up = time.monotonic() + 20
    while not gone(grandchild) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert gone(child.pid)
    assert gone(grandchild)


def test_child_that_will_not_end_is_made_to(tmp_path: Path) -> None:
    with start(
        tmp_path,
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)",
    ) as child:
        give_up = time.monotonic() + 60
        while not (tmp_path / "log").read_text(encoding="utf-8") and time.monotonic() < give_up:
            time.sleep(0.01)
        child.stop(grace=0.1)
        assert child.wait(0) == -signal.SIGKILL


def test_a_question_is_answered_with_all_that_was_said() -> None:
    code = "import sys; print('x' * 300_000); print('beside', file=sys.stderr); sys.exit(3)"
    ended = ask([sys.executable, "-c", code], 60)
    assert (ended.status, len(ended.out), ended.error) == (3, 300_001, "beside")
    assert ask(["/no/such/program"], 60) == ChildEnd(127, b"", "/no/such/program: No such file or directory")


@pytest.mark.parametrize("to", ["", " >&2"])
def test_an_answer_without_end_is_none_and_takes_no_room(monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    monkeypatch.setattr(process, "_MOST_SAID", 1 << 20)
    ended = ask(["sh", "-c", f"yes{to}"], 60)
    assert (ended.status, ended.out, ended.error) == (125, b"", "sh: wrote more than 1 MiB")


def test_a_question_that_takes_too_long_ends_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    ended = ask(["sh", "-c", f"sleep 600 & echo $! > {noted}; exit 0"], 2)
    assert (ended.status, ended.error) == (124, "sh: not ended after 2 s")
    give_up = time.monotonic() + 20
    while not gone(int(noted.read_text())) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert gone(int(noted.read_text()))


def test_words_that_are_no_text_are_read(tmp_path: Path) -> None:
    assert ask(["printf", "\\377\\000"], 60).out == b"\xff\x00"
    assert ask(["sh", "-c", "printf '\\377' >&2; exit 1"], 60).error == "\ufffd"


def test_who_does_not_listen_ends_too() -> None:
    assert process.run_signing_program(["true"], b"x" * 1_000_000, 60).status == 0
