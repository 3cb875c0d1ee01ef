"""An Endpoints submission for MLCommons' own command line: a folder for each run, and the commands to type.

Nothing is registered or sent from here, and no key is requested: the commands are printed for the user.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from reconciler.endpoints.tree.collecting import name_point_folders
from reconciler.endpoints.tree.content import ACCURACY, DOCUMENTS, PENDING, POWER, RESULTS, SOURCES, SUMMARY
from reconciler.resource.kinds import rank_cell
from reconciler.tree.content import Content, SubmissionContent

CLIENT = "endpoints-submission-cli"
KEY = "PRISM_USER_API_TOKEN"  # the environment variable with the user's key, which the command line reads
RUNS = "runs"
_IN_RUN = {SUMMARY: f"performance/{SUMMARY}", ACCURACY: f"accuracy/{ACCURACY}"}  # where the client itself writes them
_TARGET_DATE = "target_availability_date"


def arrange_runs(files: Iterable[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
    """Arrange the files of a rendered submission for the command line: src/, docs/ and a folder
    runs/<system>/<model>/r<N>/ for each point, with the results as the client leaves them and the system's power
    descriptor."""
    below = {name.partition(f"/{PENDING}/")[2]: content for name, content in files}
    powers = {parts[1]: content for name, content in below.items() if (parts := name.split("/"))[2:] == [POWER]}
    for name, content in below.items():
        top, _, rest = name.partition("/")
        if top in (SOURCES, DOCUMENTS):
            yield name, content
        elif top == RESULTS and rest.count("/") >= 3:
            system, model, point, file = rest.split("/", 3)
            folder = f"{RUNS}/{system}/{model}/{point}"
            yield f"{folder}/{_IN_RUN.get(file, file)}", content
            if file == SUMMARY and system in powers:
                yield f"{folder}/{POWER}", powers[system]


def list_commands(
    content: SubmissionContent, names: Iterable[str], folder: Path, organisation: Path, embargo: str
) -> list[str]:
    """List the commands in the order of execution, with one submission for each division and availability. ``names``:
    the files from ``arrange_runs``, in ``folder``; ``organisation``: from the rendered tree; ``embargo``: the day on
    which it ends, "" for none."""
    systems = {(system.division, system.name): system for system in content.systems}
    submissions: dict[tuple[str, str, str], list[str]] = {}
    for cell in sorted(content.cells, key=lambda item: rank_cell(item.cell)):
        system = systems[cell.cell.division, cell.cell.system]
        group = cell.cell.division, system.status, str(system.description.get(_TARGET_DATE, ""))
        submissions.setdefault(group, []).append(RUNS + name_point_folders(cell).rstrip("/"))
    tops = {name.partition("/")[0] for name in names}
    lines = [shlex.join([CLIENT, "check-submission", str(organisation)])]
    for (division, availability, target_date), runs in submissions.items():
        lines += [shlex.join([CLIENT, RUNS, "create", "--path", str(folder / run)]) for run in runs]
        words = [CLIENT, "submissions", "create", "--division", division, "--scenario", "SCENARIO"]
        words += ["--availability", availability]
        if availability == "preview":
            words += ["--target-availability-date", target_date]
        if embargo:
            words += ["--embargo-date", f"{embargo}T00:00:00Z"]
        for name in (SOURCES, DOCUMENTS):
            words += [f"--shared-{name}", str(folder / name)] if name in tops else []
        for run in runs:
            words += ["--run-ids", f"ID-OF-{run.rpartition('/')[2]}"]
        lines.append(shlex.join(words))
    return lines


def explain(commands: list[str]) -> str:
    """Render the commands with the values to fill in."""
    said = (
        f"To register it, with {CLIENT} and your key in {KEY}, type:",
        *(f"  {command}" for command in commands),
        "SCENARIO is cop where the client runs on the premises of the system, con where it comes over a network.",
        "An ID is what `runs create` printed for that run. `--dry-run` with either only shows what would be sent.",
    )
    return "\n".join(said)
