"""Real queues on the loopback interface, where they are installed; here Slurm, from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("slurm")
NEEDED = ("slurmctld", "slurmd", "munged", "sbatch")


def find_missing() -> str:
    """Why there is no Slurm to test with here; "" where there is."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: tests/cluster/slurm install"
    return "" if os.geteuid() == 0 else "slurmd starts jobs as root only"


@dataclass(frozen=True, slots=True)
class Slurm:
    """``folder``: what ``tests/cluster/slurm`` keeps."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def do(self, command: str, *words: str) -> str:
        reported = self.folder / "reported"  # daemons keep what they were given open: a pipe would never end
        with reported.open("wb") as out:
            ended = subprocess.run(
                [SCRIPT, command, self.folder, *words], stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False
            )
        said = reported.read_text(errors="replace")
        assert ended.returncode == 0, said
        return said

    def jobs(self) -> list[tuple[str, str, str]]:
        """Name, state and nodes of every job that the controller still knows."""
        said = self.do("run", "squeue", "--noheader", "--states=all", "--format=%j|%T|%N")
        found = [line.split("|") for line in said.splitlines() if line.count("|") == 2]
        return [(name, state, nodes) for name, state, nodes in found]
