"""Every lie of the table through a whole pass: a harness command runs LoadGen, and then edits what it left.

Each lie is a benchmark of one repository, and so is the honest run of each case; one pass runs them all.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from reconciler.diff.change import CONTRADICTED
from reconciler.diff.conditions import summarise_cells
from reconciler.record.judgements import judge_record
from reconciler.resource.conditions import ConditionStatus
from reconciler.resource.records import Ended, Record
from tests.passes.repository import SPEC as SPEC_FILE
from tests.passes.repository import Repository, unfinished
from tests.passes.standin import with_command
from tests.shared import make_once, need
from tests.unit.loadgen.conftest import LOADED, RUNS, TOTAL, RunCase
from tests.unit.loadgen.lies import LIES, Lie

need("mlperf_loadgen")

TOP = Path(__file__).parents[2]
SCRIPT = """\
import json, subprocess, sys
from pathlib import Path

benchmark, scenario, mode, conf, folder, audit = sys.argv[1:]
sys.path.insert(0, {top!r})
from tests.unit.loadgen.lies import LIES

cases = json.loads({cases!r})
case = cases[benchmark]
if case["mode"] != mode:
    sys.exit("not this one")
folder = Path(folder)
request = {{
    "user_conf": conf, "model": "resnet50", "scenario": scenario, "log_dir": str(folder), "audit": "",
    "mode": "AccuracyOnly" if mode == "accuracy" else "PerformanceOnly",
    "total": {total}, "loaded": {loaded}, "delay": case["delay"],
}}
(folder.parent / "request.json").write_text(json.dumps(request))
subprocess.run([sys.executable, {child!r}, "run", str(folder.parent / "request.json")], check=True)
lie = next((lie for lie in LIES if lie.name == case["lie"]), None)
for name, edits in (("detail.txt", lie.detail), ("accuracy.json", lie.answers)) if lie else ():
    path = folder / f"mlperf_log_{{name}}"
    text = path.read_text()
    for edit in edits:
        text = edit(text)
    path.write_text(text)
"""
SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: lies}}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems:
    box: {{category: edge, status: available, hardware: {{count: 0}}}}
  benchmarks:
{benchmarks}
  divisions:
    open:
      box:
{cells}
"""
BENCHMARK = """\
    {name}:
      as: resnet
      code: benchmarks/tiny.py
      model: {{retraining: "No", starting_weights_filename: none, weight_transformations: none}}
      measurements: {{input_data_types: fp32}}
      performance_sample_count: {loaded}
      harness:
        command: ["{python}", run.py, {name}, "{{scenario}}", "{{mode}}", "{{user_conf}}", "{{run_dir}}",
          "{{audit_config}}"]
        code: ours
"""
# A pass makes none of them: no spec says how many queries are enough, no test of the open division samples answers, and
# the images of this one have no tokens.
ELSEWHERE = ("single-stream-max-count", "offline-audit", "server-tokens", "offline-tokens")
GIVEN = [lie for lie in LIES if lie.run not in ELSEWHERE]
# Reported in every run of the tests; the others in the slow ones.
NEWEST = 8


def make_settings(case: RunCase) -> str:
    """What a spec says for a case's user.conf."""
    found = dict(re.findall(r"\*\.\w+\*?\.?(\w+) = ([\d.]+)|$", case.conf.replace("*.*.", "*.any.")))
    units = {"target_latency": " ms", "min_duration": " ms"}
    kept = {name: f"{value}{units.get(name, '')}" for name, value in found.items() if name and "override" not in name}
    return ", ".join(f"{name}: {value}" for name, value in {"min_duration": 0, **kept}.items())


def name_lie(lie: Lie) -> str:
    return f"lie{LIES.index(lie)}"


def make_lying(folder: Path, lies: list[Lie]) -> Repository:
    runs = sorted({lie.run for lie in lies})
    names = {name_lie(lie): (lie.run, lie.name) for lie in lies} | {f"honest{runs.index(r)}": (r, "") for r in runs}
    cases = {
        name: {"mode": "accuracy" if "accuracy" in run else "performance", "delay": RUNS[run].delay, "lie": lie}
        for name, (run, lie) in names.items()
    }
    repository = Repository(folder / "repository")
    benchmarks = "".join(BENCHMARK.format(name=name, loaded=LOADED, python=sys.executable) for name in names)
    cells = "".join(
        f"        {name}: {{{RUNS[run].scenario}: {{{make_settings(RUNS[run])}}}}}\n"
        for name, (run, _) in names.items()
    )
    repository.write("specs/spec.yaml", SPEC.format(benchmarks=benchmarks, cells=cells))
    tiny = (Path(__file__).parent / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write(
        "benchmarks/tiny.py", tiny.replace("(16, 4)", f"({TOTAL}, 4)").replace("zeros(16", f"zeros({TOTAL}")
    )
    child = TOP / "tests/unit/loadgen/loadgen_child.py"
    text = SCRIPT.format(top=str(TOP), cases=json.dumps(cases), total=TOTAL, loaded=LOADED, child=str(child))
    repository.write("ours/run.py", text)
    return repository


def find_run(repository: Repository, name: str, run: str) -> Record:
    mode = "accuracy" if "accuracy" in run else "performance"
    address = f"Run:open/box/{name}/{RUNS[run].scenario}/{mode}"
    (record,) = repository.records_of(address).values()
    return record


def make_passed_lies(factory: pytest.TempPathFactory, name: str, lies: list[Lie]) -> Repository:
    def make(folder: Path) -> Repository:
        repository = make_lying(folder, lies)
        repository.reconcile(only=("Run",))
        return repository

    return make_once(factory, name, make)


def assert_reported(lie: Lie, repository: Repository) -> None:
    """Another run's log fails its run. What contradicts itself is recorded, and found in the kept log: an error, or a
    note where only clocks contradict it."""
    mode = "accuracy" if "accuracy" in lie.run else "performance"
    address = f"Run:open/box/{name_lie(lie)}/{RUNS[lie.run].scenario}/{mode}"
    ((identity, record),) = repository.records_of(address).items()
    if record.ended is Ended.FAILED:
        # By a setting, or by a date before the attempt: nothing else of such logs is looked at.
        assert record.problem_class == "contradiction"
        return
    judgement = judge_record(repository.paths, identity)
    found = judgement.notes if lie.dated else judgement.findings
    assert any(lie.key in item.text for item in found), judgement


@pytest.mark.parametrize("lie", GIVEN[-NEWEST:], ids=lambda lie: lie.name)
def test_a_lie_is_found_in_its_run(lie: Lie, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert_reported(lie, make_passed_lies(tmp_path_factory, "newest-lies", GIVEN[-NEWEST:]))


@pytest.mark.slow
@pytest.mark.parametrize("lie", GIVEN[:-NEWEST], ids=lambda lie: lie.name)
def test_an_older_lie_is_found_in_its_run(lie: Lie, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert_reported(lie, make_passed_lies(tmp_path_factory, "older-lies", GIVEN[:-NEWEST]))


def test_the_honest_runs_alongside_them_are_believed(tmp_path_factory: pytest.TempPathFactory) -> None:
    lying = make_passed_lies(tmp_path_factory, "newest-lies", GIVEN[-NEWEST:])
    runs = sorted({lie.run for lie in GIVEN[-NEWEST:]})
    for number, run in enumerate(runs):
        record = find_run(lying, f"honest{number}", run)
        assert (record.ended, record.problem) == (Ended.DONE, ""), (run, record.problem)


SECONDS = 6  # a copy takes much less, also on a busy machine
CELL = "closed/box/tiny/Offline"
RUN_OF = {
    "performance": f"Run:{CELL}/performance",
    "accuracy": f"Run:{CELL}/accuracy",
    "performanceTEST01": f"ComplianceTest:{CELL}/TEST01",
    "performanceTEST04": f"ComplianceTest:{CELL}/TEST04",
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    def make(folder: Path) -> Repository:
        repository = with_command(folder / "repository", more=f"        env: {{DELAY: '{SECONDS}'}}\n")
        repository.edit(SPEC_FILE, "    open:", "    closed:")
        repository.edit(SPEC_FILE, "min_query_count: 100}", "min_query_count: 320}")
        assert unfinished(repository.reconcile()) == []
        return repository

    return make_once(tmp_path_factory, "copied-logs", make)


@pytest.mark.parametrize(
    ("copied", "recorded", "seconds", "rule"),
    [
        (["performance"], True, 0, "run.copied"),
        (["performance"], False, 0, "run.duration"),
        (list(RUN_OF), True, 0, "run.copied"),
        (list(RUN_OF), True, SECONDS, "run.copied"),
        (list(RUN_OF), False, 0, "run.duration"),
    ],
    ids=["performance", "performance from elsewhere", "all", "all, and sleeps", "all from elsewhere"],
)
def test_a_command_that_copies_logs_of_earlier_runs_makes_no_cell_ready(
    honest: Repository, tmp_path: Path, copied: list[str], recorded: bool, seconds: int, rule: str
) -> None:
    repository, earlier = honest.copy(tmp_path / "copy"), {}
    for name in copied:
        ((earlier[name], record),) = honest.records_of(RUN_OF[name]).items()
        for artifact in record.artifacts:
            if artifact.name.startswith("mlperf_log_"):
                target = tmp_path / "old" / name / artifact.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(honest.object_path(artifact.sha256), target)
    if not recorded:
        for path in (path for address in RUN_OF.values() for path in repository.record_paths(address)):
            path.unlink()
    given = f'LIE: old logs, OLD: "{tmp_path}/old/{{mode}}{{test}}", WAIT: "{seconds}"'
    repository.edit(SPEC_FILE, f"env: {{DELAY: '{SECONDS}'}}", f"env: {{{given}}}")
    report = repository.reconcile()
    assert unfinished(report) == []
    found = {f.where: f.message for f in report.after.difference.findings if f.kind == CONTRADICTED}
    judged = {"ComplianceTest", "Run"}
    assert {where for where in found if where.partition(":")[0] in judged} == {RUN_OF[name] for name in copied}
    for name in copied:
        assert found[RUN_OF[name]].startswith(f"{rule}: ")
        assert not recorded or earlier[name] in found[RUN_OF[name]]
    (standing,) = summarise_cells(
        report.after.desired, report.after.recorded, report.after.observed, report.after.difference
    )
    assert standing.ready is ConditionStatus.FALSE
    assert CELL not in report.after.observed.rendered
