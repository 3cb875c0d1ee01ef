"""A machine with two GPUs, one of which can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HARDWARE = "hardware: {accelerator: NVIDIA A100, count: 1, mig: {profile: 1g.10gb, count: 2}}"
GPUS = """\
gpu GPU-1a7e 00000000:01:00.0 0 NVIDIA A100-SXM4-80GB
gpu GPU-2b8f 00000000:02:00.0 -1 NVIDIA T4
"""


@dataclass(frozen=True, slots=True)
class CutMachine:
    """``folder`` holds the driver's library, which reads its devices next to itself, and the tool that changes them."""

    folder: Path

    @property
    def devices(self) -> Path:
        return self.folder / "devices.txt"

    def slices(self) -> list[str]:
        return [line for line in self.devices.read_text().splitlines() if line.startswith("slice")]

    def smi(self, *words: str) -> None:
        """As somebody else at the machine."""
        subprocess.run([self.folder / "nvidia-smi", *words], check=True)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in of the driver's library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("driver") / "libnvidia-ml.so.1"
    words = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(made), str(HERE / "driver.c"), "-ldl"]
    subprocess.run([compiler, *words], check=True)
    return made


@pytest.fixture
def machine(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CutMachine:
    """This machine, as what the test starts sees it. It never asks through sudo."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(driver, folder)
    (folder / "devices.txt").write_text(GPUS)
    shutil.copy(HERE / "nvidia_smi.py", folder)
    tool = folder / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/nvidia_smi.py "$@"\n')
    tool.chmod(0o755)
    sudo = folder / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    return CutMachine(folder)
