"""All of reconciler/ and every --help work where no benchmark or accelerator library is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.rules import read_contract
from tests.architecture.source import ROOT, modules

Python = Callable[..., "subprocess.CompletedProcess[str]"]

HEAVY = read_contract("A heavy library", "forbidden_modules")

_ABSENT = f"""
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(HEAVY)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

_IMPORT_ALL = """
import importlib, sys, traceback
failed = 0
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception:
        failed = 1
        print(name, traceback.format_exc(limit=-2), sep=": ", file=sys.stderr)
sys.exit(failed)
"""

# Prints those that are not there.
_TRY_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name
        print(name)
"""

_COMMAND = "import sys; sys.argv[0] = 'reconcile'; from reconciler.cli.main import main; sys.exit(main())"

# In one process: most of the time of each would be spent in starting it.
_EVERY_HELP = """
import sys
from reconciler.cli.main import main
for name in sys.argv[1:]:
    print("==", name, main([name, "--help"]))
"""


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs ``python -c`` as on a machine that has none of the heavy libraries."""
    (tmp_path / "sitecustomize.py").write_text(_ABSENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_libraries_are_really_absent(python: Python) -> None:
    ended = python(_TRY_EACH, *HEAVY)
    assert ended.stdout.split() == [*HEAVY], ended.stderr


def test_every_module_imports(python: Python) -> None:
    names = [name for name in modules() if name.startswith("reconciler")]
    ended = python(_IMPORT_ALL, "harness.contract", *names)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_commands_about_the_program_load_no_codec(option: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "reconciler.cli.main", option]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "reconciler.cli.command_table" in ended.stderr
    assert "msgspec" not in ended.stderr


def test_every_help_is_shown(python: Python) -> None:
    shown = python(_COMMAND, "--help")
    assert shown.returncode == 0, shown.stderr
    commands = re.findall(r"^  ([a-z][a-z-]*)(?:\s|$)", shown.stdout.partition("Get started:")[2], re.MULTILINE)
    assert {"plan", "validate", "status"} <= set(commands)
    helped = python(_EVERY_HELP, *commands)
    assert helped.returncode == 0, helped.stderr
    texts = re.split(r"^== ([a-z-]+) 0$\n?", helped.stdout, flags=re.MULTILINE)
    assert texts[1::2] == commands, helped.stderr
    for command, text in zip(commands, texts[::2], strict=False):
        assert f"Usage: reconcile {command}" in text
