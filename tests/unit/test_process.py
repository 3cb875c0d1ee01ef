"""Child processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from reconciler.process import Child, build_child_environment, build_harness_command, build_launcher_environment


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
