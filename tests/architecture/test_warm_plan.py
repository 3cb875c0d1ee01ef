"""``plan`` on a warm cache starts fast because it loads none of the libraries that only a changed spec needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from reconciler.resource.programs import PROGRAMS
from reconciler.storage.packaged_files import find_shipped

SLOW_TO_IMPORT = frozenset({"pydantic", "pydantic_core", "ruamel", "jsonschema", "git", "rich"})

_PLAN = "import sys; sys.argv[0] = 'reconcile'; from reconciler.cli.main import main; sys.exit(main())"


def test_a_warm_plan_imports_no_slow_library(tmp_path: Path) -> None:
    _repository(tmp_path)
    cold, warm = _libraries_of_a_plan(tmp_path), _libraries_of_a_plan(tmp_path)
    assert "pydantic" in cold, "the first plan reads the spec: otherwise this test shows nothing"
    assert not warm & SLOW_TO_IMPORT
    packages = tuple(f"{entry.program.partition(':')[0].rpartition('.')[0]}." for entry in PROGRAMS.values())
    assert any(name.startswith(packages) for name in cold), "reading a spec loads the fields that programs add"
    assert not [name for name in warm if name.startswith(packages)]


def _repository(folder: Path) -> None:
    (folder / "specs").mkdir()
    (folder / "state" / "records").mkdir(parents=True)
    shutil.copy(find_shipped("specs/quickstart.yaml"), folder / "specs" / "quickstart.yaml")
    (folder / ".gitignore").write_text(".reconcile/\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Declare a submission"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def _libraries_of_a_plan(folder: Path) -> set[str]:
    """The modules that a whole `reconcile plan` process imports, and the packages that they are in."""
    ended = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-c", _PLAN, "plan"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    names = {line.rpartition("|")[2].strip() for line in lines}
    return names | {name.partition(".")[0] for name in names}
