"""Commands behind Slurm's `srun`, with or without pyxis containers: the added options, and the options that are
identity."""

from __future__ import annotations

from reconciler.storage.launch.launcher import (
    BareLaunch,
    Launch,
    Launcher,
    Problem,
    Started,
    drop_options,
    find_values,
    is_pinned,
)

# Options that set where, when and for whom a command runs, or which paths a container sees; none changes a result.
_PLACE = (
    *("-A", "--account", "-p", "--partition", "-q", "--qos", "-w", "--nodelist", "-x", "--exclude", "-t", "--time"),
    *("-J", "--job-name", "-D", "--chdir", "-W", "--wait", "-o", "--output", "-e", "--error", "-b", "--begin"),
    *("--reservation", "--jobid", "--comment", "--mail-type", "--mail-user", "--nice", "--deadline", "--time-min"),
    *("--container-mounts", "--container-name", "--container-workdir", "--container-save"),
)
_FILES = (".sqsh", ".squashfs")  # pyxis takes a registry's image, or a file that enroot imported


def build(launch: Launch) -> Started:
    """Build the command. Every task starts, so that every node is reserved; all but the first end at once, and the
    first has no time limit."""
    program, *words = launch.launcher.words
    if not enters_container(launch.launcher):
        return Started((program, "--wait=0", *words, *launch.command))
    mounts = [*(f"{path}:{path}" for path in launch.seen), *find_values(words, "--container-mounts")]
    kept = drop_options(words, ("--container-mounts",))
    ours = ("--wait=0", f"--container-mounts={','.join(mounts)}")
    return Started((program, *ours, *kept, *launch.command))


def start_bare(_launch: BareLaunch) -> Started | None:
    return None


def find_unfit(launcher: Launcher) -> Problem | None:
    image = next(find_values(launcher.words, "--container-image"), "")
    if not image or is_pinned(image) or image.endswith(_FILES):
        return None
    return (
        f"{image} does not pin an image: tags can change",
        "write name@sha256:…, or the .sqsh file that enroot imported it into",
    )


def select_identity(launcher: Launcher) -> tuple[str, ...]:
    return (launcher.program, *drop_options(launcher.words[1:], _PLACE))


def enters_container(launcher: Launcher) -> bool:
    return any(word.startswith("--container-image") for word in launcher.words)


def reaches_own_machine(_launcher: Launcher) -> bool:
    return False
