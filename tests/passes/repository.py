"""A repository of a user's, in a temporary folder: what tests do to it, and what they read from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.execute.outcome import Status
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.record.codec import decode
from reconciler.resource.records import REDUNDANT_LOGS, Ended, Record
from reconciler.storage.files import RepositoryPaths, hash_bytes, hash_file
from tests.shared import copy_folder, make_once

HERE = Path(__file__).parent
SPEC = "specs/spec.yaml"


@dataclass(frozen=True, slots=True)
class Repository:
    root: Path

    @property
    def paths(self) -> RepositoryPaths:
        return RepositoryPaths(self.root)

    def look(self, **options: Any) -> PlanResult:
        return compute_plan(self.paths, Options(**options))

    def reconcile(self, **options: Any) -> PassReport:
        return run_pass(self.paths, Options(**options), report=lambda _: None)

    def copy(self, root: Path) -> Repository:
        return Repository(copy_folder(self.root, root))

    # -- what a person or an accident does ----------------------------------------------------------------------

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {path}"
        self.write(path, text.replace(old, new))

    def git(self, *arguments: str) -> None:
        """As a person does, again when another git is at work just then."""
        give_up = time.monotonic() + 30
        while True:
            done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True)
            if "index.lock" not in done.stderr or time.monotonic() > give_up:
                break
            time.sleep(0.02)
        assert done.returncode == 0, done.stderr

    def commit(self) -> None:
        if not (self.root / ".git").exists():
            self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "State")

    def flip(self, path: Path, *, restore_times: bool = False) -> None:
        """Change one byte, as a failing disk would; the size stays, and the times too when asked."""
        before = path.stat()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
        stamp = before.st_mtime_ns if restore_times else before.st_mtime_ns + 10**9
        os.utime(path, ns=(stamp, stamp))

    # -- what is there ------------------------------------------------------------------------------------------

    def matching(self, pattern: str) -> list[Path]:
        found = sorted(path for path in self.root.glob(pattern) if path.is_file())
        assert found, f"nothing matches {pattern}"
        return found

    def records(self) -> dict[str, Record]:
        """Record id → record, of every record file; each must be whole."""
        folder = self.paths.records
        paths = sorted(folder.glob("*/*.json"))
        return {f"{p.parent.name}/{p.stem}": decode(p.read_bytes(), p.name) for p in paths}

    def record_paths(self, address: str) -> list[Path]:
        return [self.paths.records / f"{identity}.json" for identity in self.records_of(address)]

    def records_of(self, address: str) -> dict[str, Record]:
        """Those of an address, also where it only shares the outcome of another."""
        records = self.records().items()
        found = {i: r for i, r in records if address in map(str, (r.address, *r.shared))}
        assert found, f"nothing is recorded of {address}"
        return found

    def done(self) -> Counter[str]:
        """Key → how many outcomes are recorded as Done."""
        return Counter(record.key for record in self.records().values() if record.ended is Ended.DONE)

    def objects_of(self, address: str, name: str = "") -> list[Path]:
        """Stored files of the records at an address, spare logs left out."""
        artifacts = [a for r in self.records_of(address).values() for a in r.artifacts]
        digests = {a.sha256 for a in artifacts if (a.name == name if name else a.name not in REDUNDANT_LOGS)}
        return [path for digest in sorted(digests) if (path := self.object_path(digest)).exists()]

    def object_path(self, digest: str) -> Path:
        return self.paths.objects / digest[:2] / digest

    def log_of(self, address: str, name: str) -> Path:
        artifacts = [a for r in self.records_of(address).values() for a in r.artifacts]
        return self.paths.logs / next(a.sha256 for a in artifacts if a.name == name)

    def tree(self) -> dict[str, str]:
        """Path → digest of every file in the rendered tree."""
        top = self.paths.tree
        return {p.relative_to(top).as_posix(): hash_file(p) for p in sorted(top.rglob("*")) if p.is_file()}

    def whole_records(self) -> list[str]:
        """Ids of the record files whose bytes are what their name says."""
        paths = self.paths.records.glob("*/*.json")
        whole = [p for p in paths if hash_file(p).startswith(p.stem.rpartition("-")[2])]
        return [f"{p.parent.name}/{p.stem}" for p in whole]

    def leftovers(self) -> list[str]:
        """Unfinished files and attempts, which no finished pass leaves."""
        found = [str(p) for p in self.root.rglob("*") if p.name.endswith((".partial", ".gone"))]
        return found + [str(p) for p in self.paths.attempts.glob("*")]

    def damage(self) -> list[str]:
        """Leftovers, files that are unlike their names, and artifacts that no file holds."""
        found = self.leftovers()
        named = [*self.paths.objects.glob("*/*"), *self.paths.logs.glob("*")]
        found += [str(p) for p in named if hash_file(p) != p.name]
        for identity, record in self.records().items():
            for artifact in record.artifacts:
                folder = self.paths.logs if artifact.place == "logs" else self.paths.objects / artifact.sha256[:2]
                if not (folder / artifact.sha256).is_file():
                    found.append(f"{identity} names {artifact.name}, which is not there")
        return found


def make_passed(factory: pytest.TempPathFactory, spec: str | None = None) -> Repository:
    """The same after one undisturbed pass, made once in a session: not to be changed, nor to be looked at in its place,
    since a look leaves notes too."""
    name = f"passed-{hash_bytes((spec or '').encode())[:12]}"

    def make(folder: Path) -> Repository:
        repository = make_repository(folder / "repository", spec)
        repository.reconcile()
        return repository

    return make_once(factory, name, make)


def make_repository(root: Path, spec: str | None = None) -> Repository:
    """A repository with the small benchmark and its spec."""
    repository = Repository(root)
    shutil.copytree(HERE / "benchmarks", root / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    repository.write(SPEC, spec if spec is not None else (HERE / "spec.yaml").read_text(encoding="utf-8"))
    return repository


def declare_command(repository: Repository, harness: str) -> None:
    """Have a command run the small benchmark. ``harness``: what its entry says of it."""
    repository.edit(SPEC, "      code: benchmarks/tiny.py\n", f"      code: benchmarks/tiny.py{harness}")
    repository.edit(SPEC, 'engine: {backend: "null", precision: fp32, batch_size: 4}', "min_query_count: 100")


def unfinished(report: PassReport) -> list[str]:
    return [f"{o.step.change.address}: {o.message}" for o in report.outcomes if o.status is not Status.DONE]


def make_whole(folder: Path, make: Callable[[Path], Repository]) -> Repository:
    """A repository after one pass in which every step was done."""
    repository = make(folder / "repository")
    assert unfinished(repository.reconcile()) == []
    return repository
