"""Commands in a container: the additions to `docker run`, `docker exec` and `podman run` (mounts, user, name), the
options that are part of the identity or refused, and the removal of a container."""

from __future__ import annotations

import os

from reconciler.storage.launch.launcher import (
    Adapter,
    BareLaunch,
    Launch,
    Launcher,
    Problem,
    Started,
    Words,
    drop_options,
    is_pinned,
)

_PLACE = (
    *("-v", "--volume", "--mount", "-w", "--workdir", "-u", "--user", "-h", "--hostname", "-l", "--label"),
    *("--context", "-H", "--host", "--connection", "--userns"),
)
_FOLDER = ("-w", "--workdir")
_ELSEWHERE = ("--context", "-H", "--host", "-c", "--connection", "--url", "-r", "--remote")
_MARK = "RECONCILE_COMMAND"
# Works in every shell, no matter how it treats the zeros.
_KILL = (
    "for p in /proc/[0-9]*; do "
    'case "$(cat $p/environ)" in *{mark}*) kill -9 ${{p#/proc/}};; esac; done 2>/dev/null; true'
)
PROGRAMS = ("docker", "podman")
_AT_ONCE = ("--stop-timeout", "0")  # `podman rm --force` first sends a signal and waits
_FLAGS = ("--rm", "-i", "--interactive", "--init")
# A detached container outlives its client, and one with a terminal cannot notice the end of its standard input.
_UNFIT = ("-d", "--detach", "-t", "--tty", "-it", "-ti", "-id", "-di", "--name")


class Container(Adapter):
    """`docker run`, `docker exec` and `podman run`."""

    def build(self, launch: Launch) -> Started:
        """Build the command. Our options come first, so that the user's wins if an option is repeated."""
        words, at = launch.launcher.words, _find_verb(launch.launcher)
        if at is None:
            return Started((*words, *launch.command))
        before, verb, after = words[:at], words[at], words[at + 1 :]
        if verb == "exec":
            return Started((*before, verb, "--interactive", *after, *launch.command))
        ours = ("--rm", "--interactive", "--name", launch.name, *_list_options(launch))
        return Started((*before, verb, *ours, *after, *launch.command), (*before, "rm", "--force", launch.name))

    def start_bare(self, launch: BareLaunch) -> Started | None:
        """Start a bare command. If the container keeps running, what is left of the command there is found by a
        variable."""
        words, at = launch.launcher.words, _find_verb(launch.launcher)
        if at is None or any(word.partition("=")[0] in _ELSEWHERE for word in words[:at]):
            return None
        before, verb, after = words[:at], words[at], words[at + 1 :]
        image = next((place for place, word in enumerate(after) if is_pinned(word)), len(after) - 1)
        theirs = (*drop_options(after[:image], _FOLDER), *after[image:])
        environment = {**launch.environment, **({_MARK: launch.name} if verb == "exec" else {})}
        setting = [*(f"{name}={value}" for name, value in sorted(environment.items())), *launch.passed]
        ours = ["--workdir", launch.cwd, *(word for each in setting for word in ("--env", each))]
        if verb == "exec":
            ending = (*before, verb, *after, "sh", "-c", _KILL.format(mark=f"{_MARK}={launch.name}"))
            return Started((*before, verb, *ours, *theirs, *launch.command), ending)
        ours = ["--rm", "--name", launch.name, *_list_options(launch), *ours]
        return Started((*before, verb, *ours, *theirs, *launch.command), (*before, "rm", "--force", launch.name))

    def find_unfit(self, launcher: Launcher) -> Problem | None:
        at = _find_verb(launcher)
        if at is None:
            return f"{launcher.program} starts no container here", f"write [{launcher.program}, run, …, name@sha256:…]"
        wrong = next((word for word in launcher.words if word.partition("=")[0] in _UNFIT), None)
        if wrong is not None:
            return (
                f"{wrong} prevents monitoring and stopping a run",
                "remove it: reconcile sets the name, and the container needs its input",
            )
        if launcher.words[at] == "run" and not any(map(is_pinned, launcher.words)):
            return (
                "the launcher does not pin its image: tags can change",
                "write the image as name@sha256:…, as 'docker image inspect --format {{.RepoDigests}}' prints it",
            )
        return None

    def select_identity(self, launcher: Launcher) -> tuple[str, ...]:
        return tuple(word for word in drop_options(launcher.words[1:], _PLACE) if word not in _FLAGS)

    def enters_container(self, _launcher: Launcher) -> bool:
        return True


def _list_options(launch: Launch | BareLaunch) -> list[str]:
    """List the options. A user without an entry in the image's /etc/passwd has no writable home."""
    podman = launch.launcher.program == "podman"
    rootless = podman and os.getuid() != 0  # only rootless podman has its own user mapping
    user = ("--userns=keep-id",) if rootless else ("--user", f"{os.getuid()}:{os.getgid()}")
    ending = _AT_ONCE if podman else ()
    mounts = [word for path in launch.seen for word in ("--volume", f"{path}:{path}")]
    return [*user, *ending, "--env", "HOME=/tmp", *mounts]


def name_container(command: Words, name: str) -> Started | None:
    """Add a name to a user's command that starts a container, so that the container can be ended. None for any other
    command."""
    launcher = Launcher(tuple(command))
    at = _find_verb(launcher) if launcher.program in PROGRAMS else None
    if at is None or command[at] != "run" or any(word.partition("=")[0] == "--name" for word in command):
        return None
    ours = ("--name", name, *(_AT_ONCE if launcher.program == "podman" else ()))
    words = (*command[: at + 1], *ours, *command[at + 1 :])
    return Started(words, (*command[:at], "rm", "--force", name))


def _find_verb(launcher: Launcher) -> int | None:
    """Find the position of run or exec, after global options and ``container``."""
    return next((at for at, word in enumerate(launcher.words) if at and word in ("run", "exec")), None)
