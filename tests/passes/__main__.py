"""``python -m tests.passes [CASE…]`` writes the golden texts of the cases. Read them before they are committed."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.passes.cases import case_names, prepare, read_case
from tests.passes.repository import HERE, Repository, make_repository
from tests.passes.text import pass_lines, plan_lines


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RECONCILE_LOCKS"] = f"{folder}/locks"

        @cache
        def passed(spec: str) -> Repository:
            repository = make_repository(Path(tempfile.mkdtemp(dir=folder)) / "repository", spec)
            repository.reconcile()
            return repository

        for name in names or case_names():
            case = read_case(HERE / name)
            environment = dict(os.environ)
            repository = prepare(case, passed, Path(folder) / name)
            plan = plan_lines(repository.look(**case.options).plan, str(repository.root))
            done = pass_lines(repository.reconcile(**case.options), str(repository.root))
            for golden, text in (("plan.txt", plan), ("pass.txt", done)):
                case.golden(golden).write_text(text, encoding="utf-8")
            print(f"== {name}\n{plan}-- pass\n{done}")
            os.environ.clear()
            os.environ.update(environment)


if __name__ == "__main__":
    main(sys.argv[1:])
