"""Sources of a password: a prompt, a file, or an environment variable; never the command line."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.errors import ReconcilerError

_LONGEST = 4096  # bytes of a password and the end of its line


def password_options() -> list[click.Option]:
    return [
        click.Option(
            ["--password-file"],
            metavar="FILE",
            type=ExistingPath(dir_okay=False, path_type=Path),
            help="Read the password from the first line of FILE. By default it is asked for.",
        ),
        click.Option(["--password-env"], metavar="NAME", help="Read the password from this environment variable."),
    ]


def read_password(file: Path | None, variable: str | None, *, confirm: bool) -> str:
    if file is not None and variable is not None:
        raise click.UsageError("--password-file or --password-env, not both")
    if file is not None:
        return _read_first_line(file)
    if variable is not None:
        if not os.environ.get(variable):
            raise ReconcilerError(f"the environment variable {variable} is not set", fix=f"export {variable}=…")
        return os.environ[variable]
    asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    return asked


def _read_first_line(file: Path) -> str:
    """Read a file or a pipe, which a shell makes of `<(pass show mlperf)`."""
    try:
        with file.open("rb") as stream:
            line = stream.readline(_LONGEST + 1)
        word = line.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ReconcilerError(f"{file} cannot be read as a password: {error}", fix="name a text file") from error
    if not word or len(line) > _LONGEST:
        raise ReconcilerError(f"{file} has no password in its first line", fix="write it there")
    return word
