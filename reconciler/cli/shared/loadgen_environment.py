"""A LoadGen of another round in an environment of its own: one repository serves several rounds side by side.

It lies over the environment that is running: everything but LoadGen is found there, so that nothing else is installed
twice, or in another version.
"""

from __future__ import annotations

import os
import shutil
import sys
import venv
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.observed.loadgen_library import (
    RELEASES,
    find_loadgen_library,
    read_seeds,
)
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.process import run_pip

_LIMIT = 600  # seconds for a package of a few megabytes
_BENEATH = "beneath.pth"  # site reads it when an interpreter starts


def locate_environment(paths: RepositoryPaths, round_name: str) -> Path:
    return paths.work / "environments" / round_name


def find_python(paths: RepositoryPaths, round_name: str) -> Path | None:
    """The interpreter of a round's environment; None where there is none that carries the round's seeds."""
    environment = locate_environment(paths, round_name)
    library = find_loadgen_library([str(_locate_packages(environment))])
    fits = library is not None and read_seeds(library) == load_ruleset(round_name).seeds()
    return environment / "bin" / "python" if fits else None


def install_loadgen(paths: RepositoryPaths, round_name: str) -> Path:
    """The interpreter of the round's environment, made now; the round is one of ``RELEASES``. ReconcilerError where pip
    does not bring it; nothing is left of an environment that did not get whole."""
    environment = locate_environment(paths, round_name)
    _refuse_place(environment)
    shutil.rmtree(environment, ignore_errors=True)
    try:
        venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
        packages = _locate_packages(environment)
        wanted = f"mlcommons-loadgen=={RELEASES[round_name]}"
        # First, so that an environment that has LoadGen has everything, wherever this was killed.
        lines = [f"import site; site.addsitedir({folder!r})" for folder in _list_packages_here()]
        (packages / _BENEATH).write_text("\n".join(lines) + "\n")
        ended = run_pip(["install", "--quiet", "--no-deps", "--target", str(packages), wanted], _LIMIT)
        if ended.status:
            said = ended.error.splitlines()[-1:] or ["it says nothing"]
            fix = "see that a package index can be reached, and that there is a compiler where it has no wheel"
            raise ReconcilerError(f"pip does not install {wanted}: {said[0]}", fix=fix)
        python = find_python(paths, round_name)
        if python is None:
            raise ReconcilerError(
                f"{wanted} does not carry the seeds of round {round_name}", fix="install the LoadGen of the round"
            )
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    return python


def _refuse_place(environment: Path) -> None:
    """A link would lead to a folder of somebody else's, which is removed or written into."""
    for path in (environment.parent, environment):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            fix = "see who put it there, and move it away; an environment is made in a folder of this repository"
            raise ReconcilerError(f"{path} is a link or no folder", fix=fix)
    try:
        str(environment).encode()
    except UnicodeEncodeError:
        unfit = "is no text"
    else:
        unfit = f"holds {os.pathsep!r}" if os.pathsep in str(environment) else ""
    if unfit:
        problem = f"no Python environment can be in {environment}: its name {unfit}"
        raise ReconcilerError(problem, fix="give the folder of the repository another name")


def _locate_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _list_packages_here() -> list[str]:
    """The folders of packages that this interpreter reads, in its order."""
    return [folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")]
