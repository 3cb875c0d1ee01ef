"""Write the goldens anew, all or those that are named."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.goldens import FOLDER, GOLDENS, SETTINGS, make, show
from tests.passes.repository import Repository


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(SETTINGS, RECONCILE_LOCKS=f"{folder}/locks", GIT_CONFIG_GLOBAL=os.devnull)

        @cache
        def of(state: str) -> Repository:
            return make(state, Path(folder) / state)

        for name in names or GOLDENS:
            (FOLDER / f"{name}.txt").write_text(show(GOLDENS[name], of(GOLDENS[name].state)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
