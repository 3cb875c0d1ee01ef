"""A full disk, and everything at once: in whatever order things go wrong, the watch ends where a clean pass would."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.passes.repository import SPEC, Repository
from tests.unit.watch.watching import Watching, equals_a_clean_pass

_SIZE = 24 * 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which only root may mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    can_mount = shutil.which("mount") and sys.platform == "linux"
    if not can_mount or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Until not one byte more fits."""
    with path.open("wb", buffering=0) as stream:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """In place, which takes no space."""
    assert len(old) == len(new)
    with path.open("r+b") as stream:
        at = stream.read().index(old)
        stream.seek(at)
        stream.write(new)


def test_watch_when_the_disk_is_full_says_so_and_goes_on_when_there_is_room(
    recorded: Repository, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = recorded.copy(small_disk / "repository")
    repository.reconcile()
    (small_disk / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(small_disk / "tmp"))
    with Watching(repository, "--commit") as watching:
        watching.wait("plan")
        filler = small_disk / "filler"
        fill(filler)
        overwrite(repository.root / SPEC, b"target_qps: 100", b"target_qps: 200")
        assert "No space left" in watching.wait("trouble")["text"]
        assert watching.process.poll() is None
        filler.unlink()
        overwrite(repository.root / SPEC, b"target_qps: 200", b"target_qps: 300")
        watching.wait("recovered")
        assert "next try in" in watching.output.read_text()
        assert watching.stop() == 0
    equals_a_clean_pass(repository)


class Disasters:
    """What people and accidents do to a watched repository, in any order. The targets are few, so that what was
    recorded once is wanted again."""

    def __init__(self, repository: Repository, chance: random.Random, *arguments: str) -> None:
        self.repository, self.chance, self.arguments = repository, chance, arguments
        self.watching = Watching(repository, *arguments)
        self.done: list[str] = []

    def any(self) -> None:
        todo: list[Callable[[], None]] = [
            *(self.edit, self.edit, self.remark, self.break_the_spec, self.commit, self.revert, self.rewrite),
            *(self.change_code, self.spoil_the_tree, self.lose_a_record, self.kill),
        ]
        one = self.chance.choice(todo)
        self.done.append(one.__name__)
        one()

    def spec(self, change: Callable[[str], str]) -> None:
        path = self.repository.root / SPEC
        path.write_text(change(path.read_text()))

    def edit(self) -> None:
        rate = self.chance.choice([100, 200, 300])
        self.spec(lambda text: "\n".join(_with_rate(line, rate) for line in text.splitlines()) + "\n")

    def remark(self) -> None:
        self.spec(lambda text: text + "# a remark\n")

    def break_the_spec(self) -> None:
        self.spec(lambda text: text + "spec: {\n")

    def commit(self) -> None:
        self.git("commit", "--quiet", "--all", "--message", "Edit")

    def revert(self) -> None:
        self.git("checkout", "--quiet", "HEAD~1", "--", "specs")

    def rewrite(self) -> None:
        self.git("reset", "--quiet", "--hard", "HEAD~1")

    def change_code(self) -> None:
        path = self.repository.root / "benchmarks/tiny.py"
        path.write_text(path.read_text() + "\n" * self.chance.choice([0, 1]))

    def spoil_the_tree(self) -> None:
        files = sorted(self.repository.paths.tree.rglob("*.json"))
        if files:
            self.chance.choice(files).write_text("spoiled")

    def lose_a_record(self) -> None:
        records = sorted(self.repository.paths.records.glob("*/*.json"))
        if records:
            self.chance.choice(records).unlink()

    def kill(self) -> None:
        self.watching.process.kill()
        self.watching.process.wait()
        self.watching = Watching(self.repository, *self.arguments)

    def git(self, *arguments: str) -> None:
        """It may have nothing to do, or meet another git at work."""
        subprocess.run(["git", *arguments], cwd=self.repository.root, capture_output=True)

    def fix(self) -> None:
        """The last word is a spec that is right, and a branch without a commit that was begun by who was killed."""
        (self.repository.root / ".git/index.lock").unlink(missing_ok=True)
        self.spec(lambda text: text.replace("spec: {\n", ""))
        self.edit()


def _with_rate(line: str, rate: int) -> str:
    before, key, after = line.partition("Offline: {target_qps: ")
    return before + key + f"{rate}," + after.partition(",")[2] if key else line


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 13))])
def test_watch_after_any_disasters_ends_where_a_clean_pass_would(recorded: Repository, seed: int) -> None:
    chance = random.Random(seed)
    disasters = Disasters(recorded, chance, "--commit", "--in-flight", chance.choice(["finish", "stop"]))
    for _ in range(12):
        disasters.any()
        time.sleep(chance.choice([0.0, 0.05, 0.4, 1.5]))
    disasters.fix()
    watching = disasters.watching
    try:
        settled(watching)
        assert watching.stop(signal.SIGTERM) == 0, watching.output.read_text()
        equals_a_clean_pass(recorded)
    except AssertionError as error:
        raise AssertionError(f"after {disasters.done}:\n{watching.output.read_text()}") from error
    finally:
        watching.process.kill()
        watching.process.wait()


def settled(watching: Watching, quiet: float = 3.0, limit: float = 90.0) -> None:
    """Nothing was reported for a while, no attempt is under way, and the plan reported last is in sync."""
    give_up, count, since = time.monotonic() + limit, -1, time.monotonic()
    while time.monotonic() < give_up:
        reported = watching.reported()
        assert watching.process.poll() is None, watching.output.read_text()
        if len(reported) != count:
            count, since = len(reported), time.monotonic()
        plans = [event for event in reported if event["event"] in ("pass", "plan")]
        if time.monotonic() - since > quiet and plans and plans[-1]["in_sync"]:
            return
        time.sleep(0.1)
    raise AssertionError("it never settled")
