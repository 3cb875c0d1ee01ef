"""Stand-in for srun: as many tasks as nodes, each on its own; input goes to all; the environment travels, as does the
folder; a container starts in its own and sees what is mounted."""

import os
import sys
from pathlib import Path

import starting

FLAGS = ("--exclusive", "--overlap", "-u", "--unbuffered", "-l", "--label", "--container-mount-home")
VALUED = (
    *("-N", "--nodes", "-n", "--ntasks", "--ntasks-per-node", "-p", "--partition", "-A", "--account", "-t", "--time"),
    *("-D", "--chdir", "--wait", "-W", "--gpus", "--mpi", "--container-image", "--container-mounts", "--export"),
)


def main(folder):
    words = sys.argv[2:]
    starting.note(folder, "srun", words)
    found, command = starting.options("srun", words, FLAGS, VALUED)
    nodes = int(starting.last(found, "-N", "--nodes", default="1"))
    cwd = starting.last(found, "-D", "--chdir", default=str(Path.cwd()))
    environment = dict(os.environ)
    if starting.last(found, "--container-image"):
        cwd = "/"
        environment["PATH"] = f"{folder}/image:/usr/bin:/bin"
        mounted = [item.split(":")[0] for item in starting.last(found, "--container-mounts").split(",")]
        unseen = [w for w in command if w.startswith("/") and not any(w.startswith(m) for m in mounted)]
        if unseen:
            sys.exit(f"{unseen[0]}: No such file or directory")
    tasks = []
    for number in range(nodes):
        own = {"SLURM_PROCID": str(number), "SLURM_LOCALID": "0", "SLURM_NODEID": str(number)}
        there = starting.on_node(folder, f"n{number}", {**environment, **own})
        tasks.append((f"{os.getpid()}.{number}", command, there, cwd, True))
    sys.exit(starting.run(folder, tasks))
