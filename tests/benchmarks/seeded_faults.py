"""How many planted faults ``verify-tree`` finds: ``python -m tests.benchmarks.seeded_faults TREE... [--program DIR]``.

From each published tree some small benchmarks of which nothing is said are copied, each alone with its system. Each
fault is planted into a copy by itself: all lies of ``tests.unit.mlperf.loadgen.lies`` into the logs of their scenario
and mode, and faults of the other files. What is said of the copy and not of the original counts, by its severity.
``--program``: another version of the program, a folder with its ``reconciler``, that is asked the same; ``--json``
prints each answer.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, VERIFY_ACCURACY
from tests.unit.mlperf.loadgen.lies import LIES, Lie

_ASK = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from reconciler.verify.engine import verify_tree
for line in sys.stdin:
    found = verify_tree(Path(json.loads(line))).findings
    rows = [[f.severity, f.rule.id, f.cell, f.complaint.found, f.complaint.wanted] for f in found]
    print(json.dumps(rows), flush=True)
"""
_AREAS = ("results", "measurements", "compliance")
_LEVELS = ("error", "warning", "note")
_MOST = 6 << 20  # bytes of a benchmark's folder
_SCENARIOS = {"server": "Server", "offline": "Offline", "single": "SingleStream", "multi": "MultiStream"}

Found = set[tuple[str, ...]]


class NotApplicableError(Exception):
    """A copy has nothing that a fault could be planted in."""


class Program:
    """A version of the program in a process of its own, which imports nothing of another."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-P", "-c", _ASK, str(root)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")

    def verify(self, tree: Path) -> Found:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(str(tree)) + "\n")
        self._child.stdin.flush()
        return {tuple(item) for item in json.loads(self._child.stdout.readline())}

    def close(self) -> None:
        self._child.communicate()


@dataclass(frozen=True)
class Copy:
    """One benchmark of a system in a tree of the older layout: ``top`` is the submitter's folder."""

    top: Path
    system: str
    benchmark: str

    def area(self, area: str, scenario: str = "") -> Path:
        folder = self.top / area / self.system / self.benchmark
        if not scenario:
            return folder
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        found = next((name for name in names if name.lower() == scenario.lower()), None)
        if found is None:
            raise NotApplicableError(scenario)
        return folder / found

    @property
    def scenarios(self) -> list[str]:
        return sorted(each.name for each in self.area("results").iterdir() if each.is_dir())

    def find(self, pattern: str, area: str = "results") -> Path:
        """The first file, in the order of names, that is there."""
        found = next(iter(sorted(self.area(area).glob(pattern))), None)
        if found is None:
            raise NotApplicableError(pattern)
        return found


Fault = Callable[[Copy], None]


def choose_copies(tree: Path, count: int, program: Program, scratch: Path, chance: random.Random) -> Iterator[Copy]:
    """Benchmarks with two scenarios at least, of which the program says nothing; those with power sessions first."""
    places = [each for each in tree.glob("closed/*/results/*/*") if each.is_dir()]
    chance.shuffle(places)
    places.sort(key=lambda place: not any(place.glob("*/performance/power")))
    chosen: Counter[bool] = Counter()
    for place in places:
        powered = any(place.glob("*/performance/power"))
        wanted = (count + 2) // 3 if powered else count
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        if chosen[powered] == wanted or size > _MOST or len([each for each in place.iterdir() if each.is_dir()]) < 2:
            continue
        copy = _copy(place, scratch / f"{tree.name}-{sum(chosen.values())}")
        if any(severity != "note" for severity, *_ in program.verify(copy.top.parents[1])):
            shutil.rmtree(copy.top.parents[1])
            continue
        chosen[powered] += 1
        yield copy


def _copy(place: Path, target: Path) -> Copy:
    division, submitter, _, system, benchmark = place.parts[-5:]
    source, top = place.parents[2], target / division / submitter
    for area in _AREAS:
        folder = source / area / system / benchmark
        if folder.is_dir():
            shutil.copytree(folder, top / area / system / benchmark, symlinks=True)
    (top / "systems").mkdir()
    shutil.copy(source / "systems" / f"{system}.json", top / "systems")
    return Copy(top, system, benchmark)


def edit(path: Path, shape: str, change: str | Callable[[re.Match[str]], str], *, most: int = 1) -> None:
    """Replace what a shape finds; nothing else of the file changes."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    changed, count = re.subn(shape, change, text, count=most, flags=re.MULTILINE)
    if not count or changed == text:
        raise NotApplicableError(f"{path}: {shape}")
    path.write_bytes(changed.encode("utf-8", "surrogateescape"))


def put(path: Path, key: str, value: str) -> None:
    """Another value of a key in a detail log."""
    edit(path, rf'("key": "{key}", "value": )("[^"]*"|[^,]+)', rf"\g<1>{value}")


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def _run(copy: Copy, number: int = 0) -> Path:
    return copy.area("results", copy.scenarios[number]) / "performance/run_1"


def _accuracy(copy: Copy) -> Path:
    return copy.find(f"*/accuracy/{DETAIL}").parent


def _test(copy: Copy, name: str) -> Path:
    return copy.find(f"*/{name}/performance/run_1/{DETAIL}", "compliance").parent


def conf(line: str) -> Fault:
    def plant(copy: Copy) -> None:
        name = next(iter(sorted(each.name for each in copy.area("measurements").iterdir() if each.is_dir())), "")
        path = copy.area("measurements", name) / "user.conf"
        if not path.exists():
            raise NotApplicableError("user.conf")
        _append(path, "\n" + line.format(scenario={"server": "Server", "offline": "Offline"}.get(name.lower(), "*")))

    return plant


def copy_log(changed: bool) -> Fault:
    """One scenario's log in the place of another's of the same kind, or of another benchmark's name."""

    def plant(copy: Copy) -> None:
        other = copy.area("results").with_name("resnet50" if copy.benchmark != "resnet50" else "retinanet")
        shutil.copytree(copy.area("results"), other)
        for area in ("measurements", "compliance"):
            if copy.area(area).is_dir():
                shutil.copytree(copy.area(area), copy.area(area).with_name(other.name))
        for detail in other.rglob(DETAIL) if changed else ():
            edit(detail, r'("key": "power_(?:begin|end)", "value": ")(\d\d)-(\d\d)', r"\g<1>\2-27", most=0)

    return plant


def move(source: Callable[[Copy], Path], target: Callable[[Copy], Path]) -> Fault:
    def plant(copy: Copy) -> None:
        for name in (DETAIL, SUMMARY):
            shutil.copyfile(source(copy) / name, target(copy) / name)

    return plant


def verdict(pattern: str, shape: str, change: str) -> Fault:
    return lambda copy: edit(copy.find(pattern, "compliance"), shape, change)


def scale_test(name: str, factor: float) -> Fault:
    """The test's own score, wherever its logs state it."""

    def plant(copy: Copy) -> None:
        folder = _test(copy, name)
        for key in ("result_samples_per_second", "result_completed_samples_per_sec", "result_tokens_per_second"):
            shape = rf'("key": "{key}", "value": )([\d.e+]+)'
            try:
                edit(folder / DETAIL, shape, lambda found: f"{found[1]}{float(found[2]) * factor:.6g}")
            except NotApplicableError:
                continue
        for shape in (r"^((?:Samples|Completed samples|Tokens) per second\s*: )([\d.]+)",):
            edit(folder / SUMMARY, shape, lambda found: f"{found[1]}{float(found[2]) * factor:.6g}", most=0)

    return plant


def power(name: str, shape: str, change: str | Callable[[re.Match[str]], str], most: int = 1) -> Fault:
    return lambda copy: edit(copy.find(f"*/performance/{name}"), shape, change, most=most)


def _exchange_sessions(copy: Copy) -> None:
    sessions = sorted(copy.area("results").glob("*/performance/power/server.json"))
    if len(sessions) < 2:
        raise NotApplicableError("two sessions")
    shutil.copyfile(sessions[1], sessions[0])


def _repeat_answer(copy: Copy) -> None:
    edit(copy.find(f"*/accuracy/{ACCURACY_LOG}"), r"^(\{.*\},)$", r"\1\n\1")


def _take_hash(copy: Copy) -> None:
    """The accuracy run's accuracy.txt in the place of the test's."""
    shutil.copyfile(copy.find(f"*/accuracy/{ACCURACY_TEXT}"), copy.find(f"*/*/accuracy/{ACCURACY_TEXT}", "compliance"))


def _describe(field: str, value: str) -> Fault:
    return lambda copy: edit(
        copy.top / f"systems/{copy.system}.json", rf'("{field}"\s*:\s*)"[^"]*"', rf'\g<1>"{value}"'
    )


def _measure(copy: Copy) -> Path:
    found = sorted(copy.area("measurements").glob(f"*/{copy.system}*.json"))
    if not found:
        raise NotApplicableError("measurements")
    return found[0]


FAULTS: dict[str, Fault] = {
    "user.conf: half the target": conf("*.{scenario}.target_qps = 0.5\n"),
    "user.conf: a minute": conf("*.*.min_duration = 59000\n"),
    "user.conf: one query": conf("*.*.min_query_count = 3\n"),
    "user.conf: not LoadGen's": conf("*.*.x = 5 # five\n"),
    "logs of another benchmark": copy_log(changed=False),
    "logs of another benchmark, with other dates": copy_log(changed=True),
    "performance log of the accuracy run": move(_accuracy, _run),
    "accuracy log of the performance run": move(_run, _accuracy),
    "performance log of another scenario": move(lambda copy: _run(copy, 1), _run),
    "performance log of TEST01": move(lambda copy: _test(copy, "TEST01"), _run),
    "TEST01 of the performance run": move(_run, lambda copy: _test(copy, "TEST01")),
    "TEST04 of TEST01": move(lambda copy: _test(copy, "TEST01"), lambda copy: _test(copy, "TEST04")),
    "TEST01 slower": scale_test("TEST01", 0.7),
    "TEST04 faster": scale_test("TEST04", 1.5),
    "pass with mismatches": verdict(f"*/TEST01/{VERIFY_ACCURACY}", r"(num_perf_log_data_mismatch = )0", r"\g<1>7"),
    "pass over other entries": verdict(f"*/TEST01/{VERIFY_ACCURACY}", r"(num_acc_log_entries = )\d+", r"\g<1>20"),
    "counts that do not add up": verdict(f"*/TEST01/{VERIFY_ACCURACY}", r"(num_perf_log_entries = )\d+", r"\g<1>3"),
    "pass by a word": lambda copy: _overwrite(copy.find(f"*/TEST01/{VERIFY_ACCURACY}", "compliance")),
    "score over other samples": lambda copy: edit(
        copy.find(f"*/accuracy/{ACCURACY_TEXT}"), r"(total=|'gen_num': |queries=)\d+", r"\g<1>17"
    ),
    "accuracy above 100 %": lambda copy: edit(
        copy.find(f"*/accuracy/{ACCURACY_TEXT}"), r"(accuracy=|'rouge1': '|\"f1\": )[\d.]+", r"\g<1>187.5"
    ),
    "hash of the accuracy run in a test": _take_hash,
    "an answer twice": _repeat_answer,
    "summary of another scenario": lambda copy: _copy_summary(copy),
    "summary says INVALID": lambda copy: edit(_run(copy) / SUMMARY, r"Result is : VALID", "Result is : INVALID"),
    "VALID against a condition": lambda copy: put(_run(copy) / DETAIL, "result_min_queries_met", "false"),
    "another commit date": lambda copy: put(
        _run(copy) / DETAIL, "loadgen_git_commit_date", '"2019-01-01T00:00:00+00:00"'
    ),
    "another seed": lambda copy: put(_accuracy(copy) / DETAIL, "effective_qsl_rng_seed", "5"),
    "another percentile": lambda copy: _change_percentile(copy),
    "another submitter": _describe("submitter", "Nobody"),
    "another division": _describe("division", "open"),
    "no description": lambda copy: (copy.top / f"systems/{copy.system}.json").unlink(),
    "retraining": lambda copy: edit(_measure(copy), r'("retraining"\s*:\s*)"[^"]*"', r'\g<1>"Yes"'),
    "measurements that do not parse": lambda copy: _overwrite(_measure(copy), "{"),
    "a log cut in its middle": lambda copy: edit(_run(copy) / DETAIL, r"^(:::MLLOG .{40}).*(?=\n(?:.*\n){9})", r"\1"),
    "power: a lower watt": power("run_1/spl.txt", r"(,Watts,)(\d)(\d+)", r"\g<1>1\3"),
    "power: half of all watts": power(
        "run_1/spl.txt", r"(,Watts,)([\d.]+)", lambda found: f"{found[1]}{float(found[2]) / 2:.6f}", 0
    ),
    "power: samples of another time": power("run_1/spl.txt", r"^(Time,\d\d)-\d\d-(\d{4})", r"\1-28-\2", 0),
    "power: samples three hours off": power(
        "run_1/spl.txt", r" (\d\d):(\d\d):", lambda found: f" {(int(found[1]) + 3) % 24:02}:{found[2]}:", 0
    ),
    "power: samples of another session": power("run_1/spl.txt", r"(,Mark,)[^,\n]*", r"\1other_testing", 0),
    "power: no samples": lambda copy: copy.find("*/performance/run_1/spl.txt").unlink(),
    "power: an edited log of the client": power("power/client.log", r"\d", "8"),
    "power: an edited log of the daemon": power("power/ptd_logs.txt", r"\d", "8"),
    "power: an edited log of LoadGen": lambda copy: edit(
        copy.find(f"*/performance/power/../ranging/{SUMMARY}"), r"VALID", "valid"
    ),
    "power: another session's file": _exchange_sessions,
    "power: a phase 1,000 s later": power(
        "power/client.json", r'("(?:cmd|reply)_time": )([\d.]+)', lambda found: f"{found[1]}{float(found[2]) + 1000}", 0
    ),
    "power: another mean": power("power/server.json", r"(Watts,)(\d+)(\.\d+,)", r"\g<1>1\3", 0),
}


def _overwrite(path: Path, text: str = "TEST PASS\n") -> None:
    path.write_text(text, encoding="utf-8")


def _copy_summary(copy: Copy) -> None:
    shutil.copyfile(_run(copy, 1) / SUMMARY, _run(copy) / SUMMARY)


def _change_percentile(copy: Copy) -> None:
    for scenario in ("server", "single_stream", "multi_stream"):
        try:
            put(_run(copy) / DETAIL, f"requested_{scenario}_target_latency_percentile", "0.5")
        except NotApplicableError:
            continue
        put(_run(copy) / DETAIL, "effective_target_latency_percentile", "0.5")
        return
    raise NotApplicableError("a percentile")


def tell(lie: Lie) -> Fault:
    """A lie in a published log of its scenario and mode."""

    def plant(copy: Copy) -> None:
        scenario = _SCENARIOS[lie.run.split("-")[0]]
        folder = copy.area("results", scenario)
        folder /= "accuracy" if "accuracy" in lie.run else "performance/run_1"
        if "audit" in lie.run or not (folder / DETAIL).exists():
            raise NotApplicableError(lie.run)
        try:
            for path, edits in ((folder / DETAIL, lie.detail), (folder / ACCURACY_LOG, lie.answers)):
                text = path.read_bytes().decode("utf-8", "surrogateescape") if edits else ""
                for change in edits:
                    text = change(text)
                if edits:
                    path.write_bytes(text.encode("utf-8", "surrogateescape"))
        except (AssertionError, StopIteration, IndexError, ValueError, AttributeError) as error:
            raise NotApplicableError(str(error)) from error

    return plant


def list_faults() -> dict[str, tuple[Fault, bool]]:
    """By name, and whether a summary that is left behind counts: whoever forges a log forges its summary."""
    faults = {name: (fault, True) for name, fault in FAULTS.items()}
    return faults | {f"log: {lie.name}, {lie.run}": (tell(lie), False) for lie in LIES}


def find_level(found: Found, *, summaries: bool) -> str:
    levels = {severity for severity, rule, *_ in found if summaries or rule != "summary.contradicts"}
    return next((level for level in _LEVELS if level in levels), "nothing")


def try_faults(copies: list[Copy], programs: dict[str, Program], scratch: Path) -> Iterator[dict[str, Any]]:
    faults = list_faults()
    for copy in copies:
        root = copy.top.parents[1]
        honest = {name: program.verify(root) for name, program in programs.items()}
        for name, (plant, summaries) in faults.items():
            work = scratch / "work" / root.name
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(root, work, symlinks=True)
            try:
                plant(Copy(work / copy.top.relative_to(root), copy.system, copy.benchmark))
            except (NotApplicableError, IndexError):
                continue
            new = {each: program.verify(work) - honest[each] for each, program in programs.items()}
            yield {
                "fault": name,
                "copy": f"{root.name} {copy.top.name} {copy.system} {copy.benchmark}",
                **{each: find_level(found, summaries=summaries) for each, found in new.items()},
                "rules": {each: sorted({(s, r) for s, r, *_ in found}) for each, found in new.items()},
            }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--copies", type=int, default=3, help="of each tree")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    own = Path(__file__).parents[2]
    programs = {"here": Program(own)} | ({"there": Program(given.program.resolve())} if given.program else {})
    with tempfile.TemporaryDirectory() as folder:
        scratch, chance = Path(folder), random.Random(given.seed)
        judge = list(programs.values())[-1]
        copies = [
            copy for tree in given.trees for copy in choose_copies(tree.resolve(), given.copies, judge, scratch, chance)
        ]
        rows = list(try_faults(copies, programs, scratch))
    for program in programs.values():
        program.close()
    if given.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(f"{len(rows)} faults of {len({row['fault'] for row in rows})} kinds in {len(copies)} copies")
    for name in programs:
        counted = Counter(row[name] for row in rows)
        print(f"{name}: " + ", ".join(f"{counted[level]} {level}" for level in (*_LEVELS, "nothing")))
    for row in rows if len(programs) > 1 else ():
        if row["here"] != row["there"]:
            print(f"{row['fault']}; {row['copy']}: {row['there']} there, {row['here']} here; {row['rules']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
