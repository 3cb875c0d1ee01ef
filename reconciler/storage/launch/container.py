"""Commands in a container: what is added to `docker run`, `docker exec` and `podman run` (mounts, user, name), which of
their options are identity, which are refused, and how a container is removed."""

from __future__ import annotations

import os

from reconciler.storage.launch.launcher import Launch, Launcher, Problem, Started, drop_options, is_pinned

_PLACE = (
    *("-v", "--volume", "--mount", "-w", "--workdir", "-u", "--user", "-h", "--hostname", "-l", "--label"),
    *("--context", "-H", "--host", "--connection", "--userns"),
)
_FLAGS = ("--rm", "-i", "--interactive", "--init")
# A container that is not attached ends with nothing, and one with a terminal has no standard input to end.
_UNFIT = ("-d", "--detach", "-t", "--tty", "-it", "-ti", "-id", "-di", "--name")


def build(launch: Launch) -> Started:
    """Our options come first: of two options of one name the later wins, which is the user's."""
    words, at = launch.launcher.words, _find_verb(launch.launcher)
    if at is None:
        return Started((*words, *launch.command))
    before, verb, after = words[:at], words[at], words[at + 1 :]
    if verb == "exec":
        return Started((*before, verb, "--interactive", *after, *launch.command))
    rootless = launch.launcher.program == "podman" and os.getuid() != 0  # only that podman has users of its own to map
    user = ("--userns=keep-id",) if rootless else ("--user", f"{os.getuid()}:{os.getgid()}")
    mounts = [word for path in launch.seen for word in ("--volume", f"{path}:{path}")]
    # A user without an entry in the image's /etc/passwd has no home that can be written.
    ours = ("--rm", "--interactive", "--name", launch.name, *user, "--env", "HOME=/tmp", *mounts)
    return Started((*before, verb, *ours, *after, *launch.command), (*before, "rm", "--force", launch.name))


def find_unfit(launcher: Launcher) -> Problem | None:
    at = _find_verb(launcher)
    if at is None:
        return f"{launcher.program} starts nothing here", f"write [{launcher.program}, run, …, name@sha256:…]"
    wrong = next((word for word in launcher.words if word.partition("=")[0] in _UNFIT), None)
    if wrong is not None:
        return (
            f"{wrong} keeps a run from being followed and ended",
            "remove it: reconcile chooses the name, and input must reach the container",
        )
    if launcher.words[at] == "run" and not any(map(is_pinned, launcher.words)):
        return (
            "the launcher does not pin its image: a tag may mean another image tomorrow",
            "write the image as name@sha256:…, as 'docker image inspect --format {{.RepoDigests}}' prints it",
        )
    return None


def select_identity(launcher: Launcher) -> tuple[str, ...]:
    return tuple(word for word in drop_options(launcher.words[1:], _PLACE) if word not in _FLAGS)


def enters_container(_launcher: Launcher) -> bool:
    return True


def reaches_own_machine(_launcher: Launcher) -> bool:
    return False


def _find_verb(launcher: Launcher) -> int | None:
    """Find the place of run or exec: behind global options, and behind ``container``."""
    return next((at for at, word in enumerate(launcher.words) if at and word in ("run", "exec")), None)
