"""Stand-in for docker and podman: run, exec and rm. A container has its own environment and folder, sees only what is
mounted, gets input only when asked to, and lives on without its client until it ends or is removed."""

import os
import signal
import sys
from pathlib import Path

import starting

FLAGS = ("--rm", "-i", "--interactive", "--init", "--privileged")
VALUED = (
    *("--name", "-u", "--user", "--userns", "-e", "--env", "-v", "--volume", "-w", "--workdir", "--gpus", "--ipc"),
    *("--shm-size", "--network", "--ulimit", "--entrypoint", "--stop-timeout"),
)


def main(folder):
    program, words = Path(sys.argv[1]).name, sys.argv[2:]
    starting.note(folder, program, words)
    verb = words[0] if words else ""
    if verb == "rm":
        sys.exit(remove(folder, words[1:]))
    if verb != "run":
        sys.exit(f"{program}: '{verb}' is not a command")
    found, (image, *command) = starting.options(program, words[1:], FLAGS, VALUED)
    assert "@sha256:" in image, image
    mounted = [value.split(":")[0] for name, value in found if name in ("-v", "--volume")]
    unseen = [w for w in command if w.startswith("/") and not any(w.startswith(m) for m in mounted)]
    if unseen:
        sys.exit(f"{unseen[0]}: No such file or directory")
    environment = {"PATH": f"{folder}/image:/usr/bin:/bin"}
    environment |= dict(value.partition("=")[::2] for name, value in found if name in ("-e", "--env"))
    cwd = starting.last(found, "-w", "--workdir", default="/")
    fed = any(name in ("-i", "--interactive") for name, _ in found)
    name = starting.last(found, "--name", default=f"box-{os.getpid()}")
    container = Path(folder) / "containers" / name
    container.touch()
    # The first process of a container takes no signal that it has not asked for: nothing is handed on.
    there = starting.on_node(folder, "n0", environment)
    status = starting.run(folder, [(name, command, there, cwd, fed)], hand_on=False)
    container.unlink(missing_ok=True)
    sys.exit(status)


def remove(folder, words):
    container = Path(folder) / "containers" / words[-1]
    if words[0] != "--force" or not container.exists():
        return 1
    starting.kill(folder, words[-1], signal.SIGKILL)
    container.unlink(missing_ok=True)
    return 0
