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
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.benchmarks import mutant_server
from tests.benchmarks.mutation import Mutant
from tests.benchmarks.reach import NOTES, NOTES_TEXT, Reach, find_place, name_places, with_notes
from tests.benchmarks.related import ROOT, related_tests

_MAPPED = ("tests/unit", "tests/passes", "tests/launchers", "tests/power", "tests/mig")
_LONG, _LONG_TEST = 3600, 300  # seconds
_PATIENCE = 20  # a machine that does much else gives a process so much less of its time


class Copy:
    """The copy, and an interpreter that takes it for the installed project."""

    def __init__(self, scratch: Path, files: int) -> None:
        """``files``: how many test files a mutant meets at first."""
        self._scratch, self._root, self._files = scratch, scratch / "checkout", files
        self._sound: set[str] = set()  # tests seen to pass without a mutant
        self._reach: Reach | None = None
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
        self._packages = packages = Path(sysconfig.get_path("purelib", vars={"base": str(self._scratch / "venv")}))
        # The .pth files of a folder that is itself named in a .pth file are not read: the original stays out of sight.
        named = f"{self._root}\n{sysconfig.get_path('purelib')}\n"
        (packages / "mutants.pth").write_text(named, encoding="utf-8")
        self._server = subprocess.Popen(
            [self._scratch / "venv" / "bin" / "python", "-P", mutant_server.__file__, self._root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:
            self._server.terminate()

    def read_reach(self, path: Path) -> None:
        """Which tests a mutant meets; a test in it passes without one."""
        self._reach = Reach(path)
        self._sound.update(self._reach.tests)

    def write_reach(self, path: Path, files: Iterable[str]) -> None:
        """Run the tests once, noting what each reaches in these modules. Each test's line is there once it has run."""
        originals = {file: (self._root / file).read_bytes() for file in files}
        places = dict.fromkeys(place for file, data in originals.items() for place in name_places(file, data.decode()))
        numbers = {place: number for number, place in enumerate(places)}
        path.write_text(json.dumps({"places": list(places)}) + "\n", encoding="utf-8")
        notes = NOTES_TEXT.format(path=str(self._scratch / "notes"))
        (self._packages / f"{NOTES}.py").write_text(notes, encoding="utf-8")
        for file, data in originals.items():
            self._write(self._root / file, with_notes(file, data.decode(), numbers).encode())
        try:
            self._run(_MAPPED, _LONG, path.resolve())
        finally:
            for file, data in originals.items():
                self._write(self._root / file, data)

    def find_killer(self, mutant: Mutant, seconds: int) -> str:
        """The first test that fails with the mutant and passes without it; "" where there is none.

        Asks those that reach it, where a map says which, and the likeliest files.
        """
        path = self._root / mutant.file
        original = path.read_bytes()
        place = find_place(mutant.file, original.decode(), mutant.start)
        reaching = list(self._reach.find_tests(place, seconds)) if self._reach else []
        likeliest = related_tests(mutant.file)[: self._files]
        reaching.sort(key=lambda test: test.partition("::")[0] not in likeliest)
        self._write(path, mutant.applied_to(original))
        try:
            failed = self._failing_twice(reaching, seconds) if reaching else ""
            failed = failed or self._failing_twice(likeliest, seconds)  # whose tests may be younger than the map
        finally:
            self._write(path, original)
        return failed if failed and self._is_sound(failed, seconds) else ""

    def _failing_twice(self, tests: Sequence[str], seconds: int) -> str:
        """As ``_first_failure``: on a busy machine a test may fail once by itself."""
        failed = self._first_failure(tests, seconds)
        return self._first_failure([failed], seconds) if failed else ""

    def _is_sound(self, test: str, seconds: int) -> bool:
        """Whether the test passes without a mutant."""
        if test not in self._sound and not self._first_failure([test], seconds):
            self._sound.add(test)
        return test in self._sound

    def _write(self, path: Path, data: bytes) -> None:
        """Bytecode is believed by time and size: whatever is written gets a time of its own."""
        self._changes += 1
        path.write_bytes(data)
        os.utime(path, (self._changes, self._changes))

    def _first_failure(self, tests: Sequence[str], seconds: int) -> str:
        """The test or file that fails; "" where all pass, or pass until the time is up."""
        status = self._run(["-x", *tests], seconds)
        if failed := (self._scratch / "failed").read_text(encoding="utf-8"):
            return failed.splitlines()[0]
        ended = os.waitstatus_to_exitcode(status)
        if ended == pytest.ExitCode.USAGE_ERROR and "::" in tests[0]:  # an older map names a test that is no more
            return ""
        # All passed, none was chosen, or the time was up; else pytest itself stopped, as where a hang is ended.
        return "" if ended in (0, 5, -signal.SIGXCPU, -signal.SIGKILL) else tests[0]

    def _run(self, tests: Sequence[str], seconds: int, reach: Path | None = None) -> int:
        options = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "-n", "0"]
        options += [
            "--tb=no",
            f"--timeout={min(seconds * 2 // 3, _LONG_TEST)}",
            f"--basetemp={self._scratch / 'tests'}",
        ]
        files = {name: str(self._scratch / name) for name in ("output", "failed")}
        request = {"tests": [*options, *tests], "seconds": seconds, "reach": str(reach or ""), **files}
        return self._ask(request, seconds * _PATIENCE)

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
