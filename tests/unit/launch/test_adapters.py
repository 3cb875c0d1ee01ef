"""What a launcher's words become, what of them is identity, and which words are refused."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from reconciler.storage.launch.adapters import (
    build_launch,
    choose_interpreter,
    find_outermost,
    find_unfit,
    select_identity,
)
from reconciler.storage.launch.launcher import Launcher

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
        (["docker", "run", "-d", IMAGE], "-d keeps a run from being followed"),
        (["docker", "run", "-it", IMAGE], "-it keeps a run from being followed"),
        (["podman", "run", "--name=mine", IMAGE], "--name=mine keeps a run from being followed"),
        (["docker", "ps"], "docker starts nothing here"),
        (["srun", "--container-image=nvcr.io/x:1"], "nvcr.io/x:1 does not pin an image"),
        (["sflow", "batch", "-f", "a.yaml", "--submit"], "sflow starts nothing that could be followed"),
        (["sflow", "run", "a.yaml", "--tui"], "--tui keeps sflow from running"),
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
