"""Do the tests notice a mistake? Samples mutants of the modules that decide what is true, and runs each one's tests.

``--sample 200 --seed 1``; ``--only PART`` for some modules, ``--list`` to see what would run, ``--again REPORT`` for
the survivors of an earlier ``--json`` report. ``--results FILE`` keeps each verdict as soon as it is known, and takes
those that are there already: with ``--minutes`` a large sample is done in parts, and with ``--survivors`` and more
``--files`` the survivors of the likeliest tests meet others. ``--begin N`` and ``--end M`` leave
out those before the Nth and after the Mth.

A mutant is killed when a test fails or hangs that passes without it, and survives when all tests that it meets pass, or
their time is up. Some survivors behave as the original does: read them before you add a test.

Each meets the likeliest test files. With ``--reach MAP`` it first meets the tests that reach its block of code, the
cheapest first: also whole passes, and tests whose child processes reach it. The map is made where it is missing, by one
run of these tests. Blocks keep their names when other code changes, so that an older one serves too.

Works in a copy, under an interpreter that finds that copy first: the tests' child processes see the mutant too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.mutant_copy import Copy
from tests.benchmarks.mutation import Mutant, mutants_of
from tests.benchmarks.related import ROOT

LIMIT = 0.9
# Folders and files whose mistakes would let something false be believed.
TARGETS = (
    "reconciler/rules",
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
    """``fate``: killed or survived. ``by``: the first test that failed."""

    file: str
    line: int
    start: int
    before: str
    after: str
    fate: str
    by: str
    seconds: float


def main() -> int:
    options = _arguments()
    mutants = _again(options.again) if options.again else _sample(options.sample, options.seed, options.only)
    mutants = mutants[options.begin - 1 : options.end]
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    verdicts = _read_verdicts(options.results, mutants) if options.results else {}
    if options.survivors:
        verdicts = {mutant: verdict for mutant, verdict in verdicts.items() if verdict.fate != "survived"}
    end = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch, Copy(Path(scratch), options.files) as copied:
        if options.reach:
            if not options.reach.exists():
                copied.write_reach(options.reach, sorted({mutant.file for mutant in _all_mutants()}))
            copied.read_reach(options.reach)
        new = [mutant for mutant in mutants if mutant not in verdicts]
        for mutant, verdict in _judge_all(new, copied, options.seconds, end):
            verdicts[mutant] = verdict
            if options.results:
                _keep(options.results, verdict)
    return _report(list(verdicts.values()), as_json=options.json)


def _judge_all(mutants: list[Mutant], copied: Copy, seconds: int, end: float) -> Iterator[tuple[Mutant, Verdict]]:
    for number, mutant in enumerate(mutants, start=1):
        if time.monotonic() > end:
            print(f"the time is up: {len(mutants) - number + 1} are left", file=sys.stderr, flush=True)
            return
        verdict = _judge(mutant, copied, seconds)
        print(
            f"{number}/{len(mutants)} {verdict.fate:9} {verdict.seconds:5.1f} s {mutant}", file=sys.stderr, flush=True
        )
        yield mutant, verdict


def _keep(path: Path, verdict: Verdict) -> None:
    with path.open("a", encoding="utf-8") as stream:
        print(json.dumps(asdict(verdict)), file=stream)


def _read_verdicts(path: Path, mutants: list[Mutant]) -> dict[Mutant, Verdict]:
    """The last verdict of each mutant; one of an older text of its file is none."""
    if not path.exists():
        return {}
    rows = [Verdict(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = {(row.file, row.start, row.before, row.after): row for row in rows}
    keys = {mutant: (mutant.file, mutant.start, mutant.before, mutant.after) for mutant in mutants}
    return {mutant: kept[key] for mutant, key in keys.items() if key in kept}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="how many mutants (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default %(default)s)")
    parser.add_argument(
        "--begin", type=int, default=1, metavar="N", help="of the sample, where others are judged already"
    )
    parser.add_argument("--only", default="", metavar="PART", help="modules whose path contains this")
    parser.add_argument("--end", type=int, metavar="M", help="the last one of the sample")
    parser.add_argument("--seconds", type=int, default=60, help="of the processor for one mutant (default %(default)s)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where each verdict is kept, a line of JSON each")
    parser.add_argument("--survivors", action="store_true", help="judge those of --results anew")
    parser.add_argument("--files", type=int, default=3, help="of the likeliest tests (default %(default)s)")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no other mutant after this time")
    parser.add_argument("--reach", type=Path, metavar="MAP", help="which tests reach what; made where it is missing")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--again", type=Path, metavar="REPORT", help="the survivors of this JSON report")
    return parser.parse_args()


def _all_mutants(only: str = "") -> list[Mutant]:
    paths: set[Path] = set()
    for target in TARGETS:
        found = [ROOT / target] if target.endswith(".py") else list((ROOT / target).rglob("*.py"))
        assert all(path.is_file() for path in found), f"{target}: no such module"
        assert found, f"{target}: no module in it"
        paths.update(found)
    files = sorted(path.relative_to(ROOT).as_posix() for path in paths)
    return [m for file in files if only in file for m in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))]


def _sample(count: int, seed: int, only: str) -> list[Mutant]:
    mutants = _all_mutants(only)
    chosen = random.Random(seed).sample(range(len(mutants)), min(count, len(mutants)))
    return list(dict.fromkeys(mutants[index] for index in chosen))


def _again(report: Path) -> list[Mutant]:
    """The survivors of a report, found by their text: lines may have moved since."""
    wanted = {
        (row["file"], row["before"], row["after"])
        for row in json.loads(report.read_text(encoding="utf-8"))["mutants"]
        if row["fate"] == "survived"
    }
    return [m for m in _all_mutants() if (m.file, m.before, m.after) in wanted]


def _judge(mutant: Mutant, copied: Copy, seconds: int) -> Verdict:
    began = time.monotonic()
    by = copied.find_killer(mutant, seconds)
    fate, took = "killed" if by else "survived", time.monotonic() - began
    return Verdict(mutant.file, mutant.line, mutant.start, mutant.before, mutant.after, fate, by, round(took, 1))


def _report(verdicts: list[Verdict], *, as_json: bool) -> int:
    killed = sum(verdict.fate == "killed" for verdict in verdicts)
    share = killed / len(verdicts) if verdicts else 1.0
    if as_json:
        rows = [asdict(verdict) for verdict in verdicts]
        print(
            json.dumps({"benchmark": "mutants", "killed": round(share, 4), "limit": LIMIT, "mutants": rows}, indent=1)
        )
    else:
        for verdict in verdicts:
            if verdict.fate == "survived":
                print(f"{verdict.file}:{verdict.line}\n  - {verdict.before}\n  + {verdict.after}")
        print(f"{killed} of {len(verdicts)} killed ({share:.1%})")
    return 0 if share >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
