"""A copy of the checkout in which one mutant at a time is tested."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.benchmarks import mutant_server
from tests.benchmarks.mutation import Mutant
from tests.benchmarks.related import ROOT, related_tests

_PATIENCE = 20  # a machine that does much else gives a process so much less of its time


class Copy:
    """The copy, and an interpreter that takes it for the installed project."""

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._root = scratch, scratch / "checkout"
        self._sound: set[str] = set()  # tests seen to pass without a mutant
        self._broken: list[str] = []  # options that leave out those that fail without one, too
        self._changes = 0

    def __enter__(self) -> Self:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\0")
        for file in filter(None, listed):
            if (ROOT / file).is_file():
                (self._root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, self._root / file)
        venv.create(self._scratch / "venv", symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(self._scratch / "venv")}))
        # The .pth files of a folder that is itself named in a .pth file are not read: the original stays out of sight.
        named = f"{self._root}\n{sysconfig.get_path('purelib')}\n"
        (packages / "mutants.pth").write_text(named, encoding="utf-8")
        self._server = subprocess.Popen(
            [self._scratch / "venv" / "bin" / "python", "-P", mutant_server.__file__, self._root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:
            self._server.terminate()

    def find_killer(self, mutant: Mutant, seconds: int) -> str:
        """The first test that fails with the mutant and passes without it; "" where there is none."""
        tests = related_tests(mutant.file)
        # Most are killed by the likeliest files, and collecting the others costs more than running those.
        for part in (tests[:2], tests[2:8], tests[8:]):
            if part and (killer := self._killer_in(part, mutant, seconds)):
                return killer
        return ""

    def _killer_in(self, tests: Sequence[str], mutant: Mutant, seconds: int) -> str:
        path = self._root / mutant.file
        original, before = path.read_bytes(), path.stat()
        while True:
            self._write(path, mutant.applied_to(original), before)
            try:
                failed = self._first_failure([*tests, *self._broken], seconds)
            finally:
                path.write_bytes(original)
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            if not failed or failed in self._sound:
                return failed
            if not self._first_failure([failed], seconds):
                self._sound.add(failed)
                return failed
            if "::" not in failed:
                output = (self._scratch / "output").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{failed} cannot be run without a mutant:\n{output}")
            self._broken.append(f"--deselect={failed}")

    def _write(self, path: Path, data: bytes, before: os.stat_result) -> None:
        """Bytecode is believed by time and size: each mutant gets a time of its own."""
        self._changes += 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + self._changes * 10**9))

    def _first_failure(self, tests: Sequence[str], seconds: int) -> str:
        """The test that fails; "" where all pass, or pass until the time is up."""
        output = self._scratch / "output"
        options = [
            "-x",
            "-q",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            "--tb=no",
            "-rfE",
        ]
        options += [f"--timeout={seconds}", f"--basetemp={self._scratch / 'tests'}"]
        status = self._ask(
            {"tests": [*options, *tests], "seconds": seconds, "output": str(output)}, seconds * _PATIENCE
        )
        lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
        failed = [line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        if failed:
            return failed[0]
        ended = os.waitstatus_to_exitcode(status)
        # All passed, none was chosen, or the time was up; else pytest itself stopped, as where an import fails.
        return "" if ended in (0, 5, -signal.SIGXCPU, -signal.SIGKILL) else tests[0]

    def _ask(self, request: dict[str, object], patience: float) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        group = int(self._server.stdout.readline())
        alarm = threading.Timer(patience, _kill, (group,))
        alarm.start()
        status = int(self._server.stdout.readline())
        alarm.cancel()
        _kill(group)
        return status


def _kill(group: int) -> None:
    """The fork and the children that it left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
