"""The shell script of a queue's job for a submission."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from harness.contract import LaunchRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import TICKET, Submission, Ticket
from reconciler.storage.process import FIXED, build_harness_command

GONE, TWICE = 74, 73  # exit statuses of a job whose attempt no longer exists, or whose attempt another job has begun


def make_script(
    submission: Submission, place: str, environment: Sequence[str] = (), module: Sequence[str] = ("harness",)
) -> str:
    """Make the script of a job that begins only once. A job that the queue restarts, or that was submitted twice, would
    find the files of the first. If no pass waits for a job any more, its work folder is gone. ``place``: a command that
    prints the queue's name and the job's number, then each node; ``environment``: arguments of ``env`` that select the
    variables that the job keeps; ``module``: the module that runs the request, with its first arguments."""
    attempt = submission.attempt
    folder = shlex.quote(str(attempt.folder))
    if submission.ticket is not None:
        return _make_fetching_script(attempt, submission.ticket, place, environment)
    request = attempt.launch if isinstance(submission.request, LaunchRequest) else attempt.request
    python = find_interpreter(attempt)
    words = build_harness_command(submission.request.verb, request, submission.result, python, module)
    fixed = shlex.join([*_set_variables(), *words])
    return "\n".join(
        (
            f"cd {folder} || exit {GONE}",
            f"mkdir {attempt.begun.name} || {{ [ ! -f {attempt.begun.name} ] || exit 0; "
            f"touch {attempt.twice.name}; exit {TWICE}; }}",
            f"{{ {place}; }} > {attempt.placed.name}.partial",
            f"mv {attempt.placed.name}.partial {attempt.placed.name}",
            f"exec >> {shlex.quote(str(attempt.log))} 2>&1",
            " ".join(("exec env", *environment, fixed)),
        )
    )


def _make_fetching_script(attempt: Attempt, ticket: Ticket, place: str, environment: Sequence[str]) -> str:
    """Make the script for a node that does not see the folder: it creates a folder of that name, and the program that
    it starts fetches the rest."""
    folder, end = shlex.quote(str(attempt.folder)), "END_OF_TICKET"
    words = [find_interpreter(attempt), *ticket.command, str(attempt.folder / TICKET)]
    return "\n".join(
        (
            f"mkdir -p {folder} && cd {folder} || exit {GONE}",
            f"{{ {place}; }} > {attempt.placed.name}",
            f"cat > {TICKET} << '{end}'\n{ticket.text}\n{end}",
            " ".join(("exec env", *environment, shlex.join([*_set_variables(), *words]))),
        )
    )


def _set_variables() -> list[str]:
    return [f"{name}={value}" for name, value in sorted(FIXED.items())]


def find_interpreter(attempt: Attempt) -> str:
    """Find the interpreter on the node; behind a launcher, the one that starts the launcher."""
    settings = attempt.intent.settings
    return sys.executable if settings.launcher.words else settings.launcher.python or sys.executable
