"""What a launcher's words become, what of them is identity, which are refused; progress by another machine's clock."""

from __future__ import annotations

import os
import shlex
import struct
from pathlib import Path

import pytest

from harness.contract import STAGES, CounterCopy, read_progress
from reconciler.storage.launch.adapters import (
    build_launch,
    choose_interpreter,
    find_outermost,
    find_unfit,
    name_container,
    select_identity,
    start_bare,
)
from reconciler.storage.launch.launcher import BareLaunch, Launcher, Started

IMAGE = f"nvcr.io/lab/mlperf@sha256:{'a' * 64}"
CHILD = ["python", "-m", "harness", "run", "/lab/it's/request.json"]
SEEN = (Path("/lab"), Path("/data"))


def words(*launcher: str) -> list[str]:
    return list(build_launch(Launcher(launcher), CHILD, {"TZ": "UTC"}, "reconcile-1", SEEN).command)


TAIL = ["env", "TZ=UTC", *CHILD]


def test_unknown_launcher_is_a_prefix() -> None:
    assert words("mpirun", "-np", "2") == ["mpirun", "-np", "2", *TAIL]


def test_ssh_gets_one_word_that_a_shell_takes_apart_again() -> None:
    *before, text = words("ssh", "-p", "2222", "n1")
    assert before == ["ssh", "-T", "-o", "BatchMode=yes", "-p", "2222", "n1"]
    assert shlex.split(text) == TAIL


def test_sflow_gets_the_command_as_a_variable_of_its_workflow() -> None:
    *before, text = words("sflow", "run", "-f", "serving.yaml")
    assert before == ["sflow", "run", "-f", "serving.yaml", "--set"]
    name, _, value = text.partition("=")
    assert (name, shlex.split(value)) == ("RECONCILE_COMMAND", TAIL)


def test_srun_waits_for_the_task_that_runs() -> None:
    assert words("srun", "-N", "9") == ["srun", "--wait=0", "-N", "9", *TAIL]


def test_srun_with_a_container_mounts_ours_next_to_the_users() -> None:
    found = words("/opt/bin/srun", f"--container-image={IMAGE}", "--container-mounts", "/a:/b", "-N", "2")
    mounts = "--container-mounts=/lab:/lab,/data:/data,/a:/b"
    assert found == ["/opt/bin/srun", "--wait=0", mounts, f"--container-image={IMAGE}", "-N", "2", *TAIL]


@pytest.mark.parametrize("before", [["docker"], ["docker", "--context", "lab"], ["docker", "container"]])
def test_docker_gets_ours_before_the_users(before: list[str]) -> None:
    started = build_launch(
        Launcher((*before, "run", "--gpus", "all", IMAGE)), CHILD, {"TZ": "UTC"}, "reconcile-1", SEEN
    )
    mounts = ["--volume", "/lab:/lab", "--volume", "/data:/data"]
    user = ["--user", f"{os.getuid()}:{os.getgid()}", "--env", "HOME=/tmp"]
    ours = ["--rm", "--interactive", "--name", "reconcile-1", *user, *mounts]
    assert list(started.command) == [*before, "run", *ours, "--gpus", "all", IMAGE, *TAIL]
    assert list(started.ending) == [*before, "rm", "--force", "reconcile-1"]


def test_podman_maps_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert "--userns=keep-id" in words("podman", "run", IMAGE)
    assert "--user" not in words("podman", "run", IMAGE)


def test_podman_of_root_has_no_users_to_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    found = words("podman", "run", IMAGE)
    assert "--userns=keep-id" not in found
    assert found[found.index("--user") + 1].startswith("0:")


def test_running_container_is_only_entered() -> None:
    started = build_launch(Launcher(("docker", "exec", "-w", "/x", "box")), CHILD, {"TZ": "UTC"}, "n", SEEN)
    assert list(started.command) == ["docker", "exec", "--interactive", "-w", "/x", "box", *TAIL]
    assert started.ending == ()


def start(*launcher: str) -> Started | None:
    """A declared command in an image that has nothing of ours."""
    command = ("run", "it's")
    return start_bare(BareLaunch(Launcher(launcher), command, "reconcile-1", SEEN, "/lab/own", {"A": "b c"}, ("KEY",)))


def test_a_command_alone_gets_its_folder_and_its_variables_from_docker() -> None:
    started = start("docker", "run", "-w", "/elsewhere", "--gpus", "all", IMAGE, "wrap", "-w")
    assert started is not None
    ours = ["--rm", "--name", "reconcile-1", "--user", f"{os.getuid()}:{os.getgid()}", "--env", "HOME=/tmp"]
    ours += ["--volume", "/lab:/lab", "--volume", "/data:/data", "--workdir", "/lab/own"]
    theirs = ["--gpus", "all", IMAGE, "wrap", "-w", "run", "it's"]
    assert list(started.command) == ["docker", "run", *ours, "--env", "A=b c", "--env", "KEY", *theirs]
    assert list(started.ending) == ["docker", "rm", "--force", "reconcile-1"]


def test_a_command_alone_in_a_running_container_is_found_again() -> None:
    started = start("docker", "exec", "--workdir=/x", "-u", "me", "box")
    assert started is not None
    marks = ["--env", "A=b c", "--env", "RECONCILE_COMMAND=reconcile-1", "--env", "KEY"]
    assert list(started.command) == [
        *("docker", "exec", "--workdir", "/lab/own", *marks, "-u", "me", "box", "run", "it's")
    ]
    assert list(started.ending[:-1]) == ["docker", "exec", "--workdir=/x", "-u", "me", "box", "sh", "-c"]
    assert "RECONCILE_COMMAND=reconcile-1" in started.ending[-1]


def test_a_command_alone_behind_another_program() -> None:
    started = start("bwrap", "--bind", "/i", "/")
    assert started == Started(("bwrap", "--bind", "/i", "/", "env", "A=b c", "run", "it's"))


@pytest.mark.parametrize(
    "launcher",
    [
        ["ssh", "n1"],
        ["srun", "-N", "1"],
        ["sflow", "run", "f"],
        ["docker", "ps"],
        ["docker", "--context", "lab", "run", IMAGE],
        ["podman", "--connection=lab", "run", IMAGE],
    ],
)
def test_no_command_starts_alone_on_another_machine(launcher: list[str]) -> None:
    assert start(*launcher) is None


def test_a_users_own_container_is_given_a_name() -> None:
    found = name_container(("docker", "run", "-v", "/a:/b", IMAGE, "run"), "reconcile-1")
    assert found == Started(
        ("docker", "run", "--name", "reconcile-1", "-v", "/a:/b", IMAGE, "run"),
        ("docker", "rm", "--force", "reconcile-1"),
    )
    for other in (("docker", "run", "--name=x", IMAGE), ("docker", "exec", "x", "run"), ("python", "run"), ()):
        assert name_container(other, "reconcile-1") is None


@pytest.mark.parametrize(
    ("launcher", "python"),
    [
        (Launcher(("srun", "-N", "2")), "/here/python"),
        (Launcher(("srun", "--container-image", IMAGE)), "python3"),
        (Launcher(("docker", "run", IMAGE)), "python3"),
        (Launcher(("ssh", "n1")), "/here/python"),
        (Launcher(("docker", "run", IMAGE), "/opt/venv/bin/python"), "/opt/venv/bin/python"),
    ],
)
def test_interpreter_there(launcher: Launcher, python: str) -> None:
    assert choose_interpreter(launcher, "/here/python") == python


@pytest.mark.parametrize(
    ("launcher", "kept"),
    [
        (["ssh", "-p", "22", "n1"], []),
        (["srun", "-N", "9", "-p", "gpu", "-Aours", "--time=1:00", "--account", "x"], ["srun", "-N", "9"]),
        (["srun", f"--container-image={IMAGE}", "-t5", "--container-mounts=/a:/b"], ["srun", None]),
        (
            ["docker", "run", "--gpus", "all", "-v", "/a:/b", "--rm", "--mount=x", IMAGE],
            ["run", "--gpus", "all", IMAGE],
        ),
        (["podman", "--connection", "lab", "run", "--volume=/a:/b", "--ipc=host", IMAGE], ["run", "--ipc=host", IMAGE]),
        (["sflow", "run", "-f", "a.yaml", "--output-dir", "/x", "-v"], ["sflow", "run", "-f", "a.yaml"]),
        (["/home/ann/launch.sh", "-x", "1"], ["launch.sh", "-x", "1"]),
    ],
)
def test_identity_is_what_runs_and_not_where(launcher: list[str], kept: list[str | None]) -> None:
    assert list(select_identity(launcher)) == [f"--container-image={IMAGE}" if word is None else word for word in kept]


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (["docker", "run", "mlperf:latest"], "does not pin its image"),
        (["docker", "run", "-d", IMAGE], "-d prevents monitoring"),
        (["docker", "run", "-it", IMAGE], "-it prevents monitoring"),
        (["podman", "run", "--name=mine", IMAGE], "--name=mine prevents monitoring"),
        (["docker", "ps"], "docker starts no container here"),
        (["srun", "--container-image=nvcr.io/x:1"], "nvcr.io/x:1 does not pin an image"),
        (["sflow", "batch", "-f", "a.yaml", "--submit"], "sflow starts nothing to monitor"),
        (["sflow", "run", "a.yaml", "--tui"], "--tui prevents sflow"),
        (["sflow", "run", "a.yaml"], ""),
        (["docker", "run", IMAGE], ""),
        (["docker", "exec", "box"], ""),
        (["srun", "--container-image", "/images/mlperf.sqsh"], ""),
        (["srun", "-N", "2"], ""),
    ],
)
def test_words_that_cannot_work_are_refused(launcher: list[str], said: str) -> None:
    found = find_unfit(launcher)
    assert (found is None) == (said == "")
    if found is not None:
        assert said in found[0]
        assert found[1]


def test_folders_below_others_are_not_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    found = find_outermost([tmp_path / "a/b", tmp_path / "ab", tmp_path / "a", tmp_path / "nowhere"])
    assert found == ((tmp_path / "a").resolve(), (tmp_path / "ab").resolve())


def write(path: Path, stage: str, done: int, expected: int) -> None:
    """As a machine that started long ago, and one whose clock is behind ours, would."""
    path.write_bytes(struct.pack("=IIQQQQ", STAGES.index(stage), 0, done, expected, 1, 2))


def test_progress_is_dated_by_our_own_clock(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    copied = CounterCopy(there, here)
    copied.copy()
    for stage, done in (("loading", 0), ("running", 5), ("running", 9), ("completing", 0), ("running", 2)):
        write(there, stage, done, 10)
        copied.copy()
        found = read_progress(here)
        assert found is not None
        assert (found.stage, found.done, found.expected) == (stage, done, 10)
        assert 0 <= found.idle <= found.seconds < 300


def test_standstill_there_is_idle_here(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    copied = CounterCopy(there, here)
    write(there, "running", 5, 10)
    copied.copy()
    before = here.read_bytes()
    write(there, "running", 5, 10)
    copied.copy()
    assert here.read_bytes() == before
