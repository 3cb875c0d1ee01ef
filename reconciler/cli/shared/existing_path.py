"""The type of arguments and options for paths that must exist."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import click

from reconciler.storage.storage_errors import explain_storage_error


class ExistingPath(click.Path):
    """A file or folder to read. Click's own type reports every path that it cannot access as missing, even if the disk
    fails or permission is denied: this one raises StorageError with the reason."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True, path_type: type[Any] | None = None) -> None:
        super().__init__(exists=True, file_okay=file_okay, dir_okay=dir_okay, path_type=path_type)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        kind, named = self.name.title(), repr(os.fspath(value))
        try:
            is_folder = stat.S_ISDIR(Path(value).stat().st_mode)
            if not os.access(value, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(value))
        except (FileNotFoundError, NotADirectoryError):
            self.fail(f"{kind} {named} does not exist", param, ctx)
        except OSError as error:
            raise explain_storage_error(error, Path(value), "read") from error
        if is_folder and not self.dir_okay:
            self.fail(f"{kind} {named} is a directory.", param, ctx)
        if not is_folder and not self.file_okay:
            self.fail(f"{kind} {named} is a file.", param, ctx)
        return self.coerce_path_result(value)
