"""Measure whether tests detect mistakes: plant one small mistake at a time and run the tests that are likely to detect
it.

``python -m tests.benchmarks.mutants [--sample 200] [--seed 1] [--only PART] [--tests PATH...] [--json]``; ``--list``
prints the sample and runs nothing. A mutant is killed if a test fails or takes too long. Read survivors before you add
a test, since some behave like the original.

Works in a copy of the checkout. Child processes with another environment import the installed project, not the copy.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from tests.benchmarks.mutation import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.9
# Folders and files whose mistakes would let something false be believed.
TARGETS = (
    "reconciler/rules",
    "reconciler/loadgen",
    "reconciler/desired",
    "reconciler/diff",
    "reconciler/plan",
    "reconciler/execute",
    "reconciler/record",
    "reconciler/history",
    "reconciler/check",
    "reconciler/verify",
    "harness/run/loadgen.py",
    "harness/child/group.py",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``by``: the first test that failed; "" for a survivor."""

    file: str
    line: int
    before: str
    after: str
    by: str
    seconds: float


def main() -> int:
    options = _arguments()
    mutants = sample_mutants(options.sample, options.seed, options.only)
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copied = _copy_checkout(Path(scratch) / "checkout")
        for number, mutant in enumerate(mutants, start=1):
            verdict = _judge(mutant, copied, options.tests or find_tests(mutant.file), options.seconds)
            verdicts.append(verdict)
            print(f"{number}/{len(mutants)} {verdict.by or 'survived'}: {mutant}", file=sys.stderr, flush=True)
    return _report(verdicts, as_json=options.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="how many mutants (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default %(default)s)")
    parser.add_argument("--only", default="", metavar="PART", help="modules whose path contains this")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these instead of the likeliest ones")
    parser.add_argument("--seconds", type=int, default=300, help="for the tests of one mutant (default %(default)s)")
    return parser.parse_args()


def sample_mutants(count: int, seed: int, only: str = "") -> list[Mutant]:
    files: set[Path] = set()
    for target in TARGETS:
        path = ROOT / target
        assert path.exists(), f"{target}: no such module"
        files.update([path] if path.is_file() else path.rglob("*.py"))
    names = sorted(path.relative_to(ROOT).as_posix() for path in files)
    mutants = [m for name in names if only in name for m in mutants_of(name, (ROOT / name).read_text(encoding="utf-8"))]
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


@cache
def find_tests(file: str) -> list[str]:
    """Find the test files named after the module, then those that import it, or, if there are none, the unit tests of
    its package."""
    stem, module = PurePosixPath(file).stem, ".".join(PurePosixPath(file).with_suffix("").parts)
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    named = [path for path in texts if path.stem == f"test_{stem}"]
    importing = [path for path, text in texts.items() if f"{module} import" in text and path not in named]
    package = f"{module.rpartition('.')[0]}."
    chosen = [*named, *importing] or [path for path, text in texts.items() if package in text and "unit" in path.parts]
    return [path.relative_to(ROOT).as_posix() for path in chosen]


def _copy_checkout(target: Path) -> Path:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in filter(None, listed.split("\0")):
        if (ROOT / file).is_file():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, target / file)
    return target


def _judge(mutant: Mutant, copied: Path, tests: list[str], seconds: int) -> Verdict:
    path, began = copied / mutant.file, time.monotonic()
    original = path.read_bytes()
    path.write_bytes(mutant.applied_to(original))
    try:
        by = _first_failure(copied, tests, seconds)
    finally:
        path.write_bytes(original)
    return Verdict(mutant.file, mutant.line, mutant.before, mutant.after, by, round(time.monotonic() - began, 1))


def _first_failure(copied: Path, tests: list[str], seconds: int) -> str:
    options = ["-x", "-n", "0", "-q", "--tb=no", "-p", "no:cacheprovider", f"--timeout={max(1, seconds // 3)}"]
    # A mutant has another size or another time than the original only by chance: no byte code is kept.
    environment = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copied,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "time"
    failed = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "" if ended.returncode in (0, 5) else "pytest"


def _report(verdicts: list[Verdict], *, as_json: bool) -> int:
    survivors = [verdict for verdict in verdicts if not verdict.by]
    share = 1 - len(survivors) / len(verdicts) if verdicts else 1.0
    if as_json:
        rows = [asdict(verdict) for verdict in verdicts]
        print(json.dumps({"benchmark": "mutants", "killed": round(share, 4), "limit": LIMIT, "mutants": rows}))
    else:
        for verdict in survivors:
            print(f"{verdict.file}:{verdict.line}\n  - {verdict.before}\n  + {verdict.after}")
        print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} killed ({share:.1%})")
    return 0 if share >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
