"""Every command, on disks that refuse at random; ``python -m tests.crash.faults`` makes more such tries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.faults import TRIED
from tests.shared import need

need("mlperf_loadgen")

TOP = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_disk_that_refuses_is_reported_and_the_next_run_finishes_by_itself() -> None:
    command = [sys.executable, "-m", "tests.crash.faults", "--count", str(4 * len(TRIED)), "--seed", "5"]
    ended = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
