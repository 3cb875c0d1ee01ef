"""A harness that clears, places and leaves its own audit.config, and writes into its own code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reconciler.diff.change import CONTRADICTED
from reconciler.reconcile.planning import list_cells
from reconciler.resource.conditions import ConditionStatus
from reconciler.resource.records import Ended, Record
from tests.acceptance.conftest import console
from tests.passes.miniature import ADAPTED, with_miniature
from tests.passes.repository import Repository
from tests.shared import need

need("mlperf_loadgen")
CELL = "open/box/tiny/Offline"
RUNS = (f"Run:{CELL}/performance", f"Run:{CELL}/accuracy")


def only_of(repository: Repository, address: str) -> Record:
    (found,) = repository.records_of(address).values()
    return found


def only(repository: Repository, address: str) -> Record:
    found = only_of(repository, address)
    assert found.ended is Ended.DONE, found.problem
    return found


def script(repository: Repository, old: str, new: str) -> None:
    repository.edit("theirs/main.py", old, new)


def gaps(repository: Repository) -> list[str]:
    return [gap.path for gap in repository.look().desired.gaps if gap.path.endswith(".compliance")]


def test_every_run_of_it_is_made_once(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    repository.reconcile()
    assert only(repository, f"ComplianceTest:{CELL}/TEST01")
    assert only(repository, f"Verdict:{CELL}/TEST01").values["passed"] is True
    found = [fact for run in RUNS if (fact := only(repository, run).facts.get("code.written")) is not None]
    assert [fact.value["names"] for fact in found] == [["tuned/"]]  # of the first one
    assert not (tmp_path / "theirs/audit.config").exists()
    assert not repository.reconcile().outcomes
    repository.write("theirs/build/tool.py", "made by the build\n")
    assert not repository.look().plan.steps
    repository.write("theirs/helper.py", "of the harness\n")
    script(repository, "# what is added", "# What is added")
    (tmp_path / "theirs/audits/TEST01.config").unlink()
    plan = repository.look().plan
    due = {str(step.change.address): step for step in plan.steps}
    assert set(RUNS) <= due.keys()
    for run in RUNS:
        (change,) = due[run].explained
        assert change.files == ("audits/TEST01.config removed", "helper.py added", "main.py changed")


BEFORE = "settings = lg.TestSettings()\n"


def prepend(repository: Repository, lines: str) -> None:
    """Let every run of the harness begin with these lines."""
    script(repository, BEFORE, lines + BEFORE)


def list_made(repository: Repository) -> list[str]:
    outcomes = repository.reconcile().outcomes
    return [str(outcome.step.change.address) for outcome in outcomes if outcome.record is not None]


@pytest.mark.parametrize("text", ["# constant", "# {time.time_ns()}"])
@pytest.mark.parametrize("git", [True, False])
def test_sources_that_a_run_creates_are_no_code(tmp_path: Path, text: str, git: bool) -> None:
    """Not until git tracks them, and `show --code` says why."""
    repository = with_miniature(tmp_path, "TEST01")
    writing = f'for name in ("gen_pb2.py", f"kernels/{{time.time_ns()}}.cu"):\n    Path(name).write_text(f"{text}")\n'
    prepend(repository, f'Path("kernels").mkdir(exist_ok=True)\n{writing}')
    if git:
        repository.commit()
    made = list_made(repository)
    assert len(made) == len(set(made)) == 7
    (cell,) = list_cells(repository.look())
    assert cell.ready is ConditionStatus.TRUE
    assert not repository.reconcile().outcomes
    (part,) = json.loads(console(tmp_path, "show", CELL, "--code", "--json").out)["code"]
    assert part["left_out"]["gen_pb2.py"] == "created by a run, and git does not track it"
    if git:
        repository.commit()
        repository.write("theirs/gen_pb2.py", "# mine\n")
        (change,) = next(s.explained for s in repository.look().plan.steps if str(s.change.address) == RUNS[0])
        assert "gen_pb2.py added" in change.files


def find_state(repository: Repository, address: str) -> tuple[str, str]:
    """What the plan says of a step: why it is blocked, and what its last attempt was."""
    (step,) = [step for step in repository.look().plan.steps if str(step.change.address) == address]
    return step.blocked, step.change.note


@pytest.mark.parametrize("name", ["generated.py", "score.py"])
@pytest.mark.parametrize("git", [True, False])
def test_a_run_that_changes_its_own_code_fails_and_is_not_repeated(tmp_path: Path, name: str, git: bool) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    writing = f'with open("{name}", "a") as file:\n    file.write(f"# {{time.time_ns()}}\\n")\n'
    prepend(repository, writing)
    (tmp_path / "theirs" / name).touch()
    if git:
        repository.commit()
    made = list_made(repository)
    assert len(made) == len(set(made))
    assert set(RUNS) <= set(made)
    for run in RUNS:
        record = only_of(repository, run)
        assert record.ended is Ended.FAILED
        assert record.problem == f"files of the command's own code changed during the run: {name}"
        assert record.facts["code.changed"].value["names"] == [name]
        assert find_state(repository, run)[0] == record.problem
    assert not list_made(repository)
    if git:  # none of its runs counts, though the folder is as before
        repository.git("checkout", "theirs")
        (cell,) = list_cells(repository.look())
        assert cell.ready is not ConditionStatus.TRUE
        blocked, note = find_state(repository, RUNS[1])
        assert blocked == ""
        assert note.endswith(f": {name}")
    if name == "score.py":  # a change of the user's own
        repository.edit("theirs/main.py", writing, "")
    elif git:
        repository.git("rm", "--quiet", "--cached", f"theirs/{name}")
        repository.write("theirs/.gitignore", f"{name}\n")
    else:  # it makes it anew
        (tmp_path / "theirs" / name).unlink()
    repository.reconcile()
    (cell,) = list_cells(repository.look())
    assert cell.ready is ConditionStatus.TRUE
    assert not repository.look().plan.steps


def test_an_edit_during_a_run_makes_the_next_pass_repeat_it(tmp_path: Path) -> None:
    """It is one of a user: no second run changes the code. Later runs of the pass start with the edited code."""
    repository = with_miniature(tmp_path, "TEST01")
    mine = "if not os.path.exists('../edited'):\n    open('../edited', 'w')\n    open('README', 'a').write('more')\n"
    repository.write("theirs/README", "of the user\n")
    prepend(repository, mine)
    repository.reconcile()
    accuracy, run = (only_of(repository, run) for run in reversed(RUNS))
    assert (accuracy.ended, run.ended) == (Ended.FAILED, Ended.DONE)
    assert find_state(repository, RUNS[1])[0] == ""
    assert RUNS[0] not in list_made(repository)
    (cell,) = list_cells(repository.look())
    assert cell.ready is ConditionStatus.TRUE
    assert not repository.reconcile().outcomes
    (done,) = [r for r in repository.records_of(RUNS[1]).values() if r.ended is Ended.DONE]
    assert done.inputs["harness.code.sha256"] == run.inputs["harness.code.sha256"]


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "f"), ("int32", "i"), ("int64", "q")])
def test_answers_that_all_differ_fail_the_test(tmp_path: Path, dtype: str, kind: str) -> None:
    """Class numbers that begin with the same byte: those of another class in every performance run."""
    repository = with_miniature(tmp_path, "TEST01")
    script(repository, 'KIND = "f"', f'KIND = "{kind}"')
    script(repository, "ALTERED = 0", "ALTERED = 256")
    repository.edit("specs/spec.yaml", "--dtype, float32", f"--dtype, {dtype}")
    assert gaps(repository) == []
    repository.reconcile()
    verdict = only(repository, f"Verdict:{CELL}/TEST01")
    figures = verdict.values["figures"]
    assert verdict.values["passed"] is False
    assert figures["accuracy.compared as"].startswith(dtype)
    assert figures["accuracy.differing"] == figures["accuracy.found in the accuracy run"] != "0"


@pytest.mark.parametrize("altered", [0, 256])
def test_answers_of_no_known_type_must_agree_as_any(tmp_path: Path, altered: int) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    script(repository, "ALTERED = 0", f"ALTERED = {altered}")
    repository.edit("specs/spec.yaml", '"{accuracy_log}", --dtype, float32', '"{accuracy_log}", as, float32')
    assert len(gaps(repository)) == 1
    repository.reconcile()
    assert only(repository, f"Verdict:{CELL}/TEST01").values["passed"] is (altered == 0)


def test_a_test_has_its_own_duration_where_the_command_writes_the_conf(tmp_path: Path) -> None:
    """TEST06's audit.config sets least duration and count, which LoadGen reads after the user.conf."""
    repository = with_miniature(tmp_path, "TEST06", official="llama3.1-8b", key="llama3_1-8b")
    script(repository, "TOKENS = 0", "TOKENS = 5")
    repository.reconcile()
    assert only(repository, f"ComplianceTest:{CELL}/TEST06")
    assert only(repository, f"Verdict:{CELL}/TEST06").values["passed"] is True
    left = [str(step.change.address) for step in repository.look().plan.steps]
    assert not [name for name in left if name.startswith(("Run:", "ComplianceTest:"))]


@pytest.mark.parametrize("altered", [0, 1])
def test_the_adapter_of_published_code_runs_it(tmp_path: Path, altered: int) -> None:
    """Also where answers of one token less than the accuracy run's log come back: a pass of TEST06 needs them whole."""
    repository = with_miniature(tmp_path, "TEST06", official="llama3.1-8b", key="llama3_1-8b", spec=ADAPTED)
    script(repository, "TOKENS = 0", "TOKENS = 5")
    if altered:
        script(repository, "* (TOKENS - 1) + [2]", "* (TOKENS - 1 - (given.audit_test is not None)) + [2]")
    repository.reconcile()
    run = only(repository, RUNS[0])
    assert run.inputs["harness.command"].value[:2] == ["make", "run_harness"]
    assert only(repository, f"Verdict:{CELL}/TEST06").values["passed"] is (altered == 0)
    left = [str(step.change.address) for step in repository.look().plan.steps]
    assert not [name for name in left if name.startswith(("Run:", "ComplianceTest:")) and not altered]


AFTER = '(logs / "metadata.json").write_text("{}")\n'
CHEATS = {
    # name: (line of the script, what it becomes, what names file and line)
    "answers altered": ("ALTERED = 0", "ALTERED = 256", r"\(mlperf_log_accuracy\.json:2\)"),
    "logs swapped": (
        AFTER,
        f"""{AFTER}
here, best = logs / "mlperf_log_detail.txt", Path("build/best.txt")
if given.test_mode == "AccuracyOnly":
    best.write_text(here.read_text())
elif not given.audit_test:
    here.write_text(best.read_text())
""",
        r"mlperf_log_detail\.txt shows: mode: .*\(line \d+\)",
    ),
    "target in the conf edited": (
        AFTER,
        f"""{AFTER}
conf.write_text(conf.read_text().replace("target_qps = 100", "target_qps = 900"))
""",
        r"user\.conf:1: target_qps: expected 900[.0]*, LoadGen logged 100 \(line \d+\)",
    ),
    "another target run": (
        "settings = lg.TestSettings()\n",
        'conf.write_text(conf.read_text().replace("_qps = 100", "_qps = 50"))\nsettings = lg.TestSettings()\n',
        r"mlperf_log_detail\.txt shows: target_qps: expected 100, LoadGen logged 50 \(line \d+\)",
    ),
}


def list_complaints(repository: Repository) -> list[str]:
    """Findings, and what is wrong with runs that failed."""
    findings = [f"{finding.where}: {finding.message}" for finding in repository.look().difference.findings]
    return [*findings, *(r.problem for r in repository.records().values() if r.problem)]


def test_an_honest_harness_is_clean(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    repository.reconcile()
    assert list_complaints(repository) == []


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_a_finding_with_file_and_line(tmp_path: Path, cheat: str) -> None:
    before, after, shown = CHEATS[cheat]
    repository = with_miniature(tmp_path, "TEST01")
    script(repository, before, after)
    repository.reconcile()
    assert [said for said in list_complaints(repository) if re.search(shown, said)]
    (cell,) = list_cells(repository.look())
    assert cell.ready is not ConditionStatus.TRUE


def test_show_lists_what_counts_as_its_code(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    repository.write("theirs/build/bin/tool", "made by the build\n")
    repository.reconcile()
    shown = console(tmp_path, "show", CELL, "--code", "--json")
    (part,) = json.loads(shown.out)["code"]
    assert part["location"] == "theirs"
    assert part["counts"] == ["Makefile", "audits/TEST01.config", "main.py", "score.py"]
    assert {name.partition("/")[0] for name in part["left_out"]} == {"build", "tuned", "verify_accuracy.txt"}
    text = console(tmp_path, "show", CELL, "--code").out
    assert "main.py" in text
    assert "build/" in text
    assert "tool" not in text
    for number in range(20):
        repository.write(f"theirs/lib/part{number}.py", "")
    text = console(tmp_path, "show", CELL, "--code").out
    rows = dict(re.findall(r"^  (\S+/) +(\d+) file", text, re.M))
    assert rows == {"./": "3", "audits/": "1", "lib/": "20"}
    text = console(tmp_path, "show", CELL, "--code", "--all").out
    assert {"main.py", "lib/part0.py", "lib/part19.py"} <= set(text.split())
    assert console(tmp_path, "show", CELL, "--all").code == 1


def test_a_test_of_an_invalid_run_is_not_in_sync(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    script(repository, "time.sleep(0.35)", "")
    assert repository.reconcile().after.plan.unchanged == 7  # of 9: without the test and its verdict
    shown = console(tmp_path, "show", CELL, "--json").report["resources"]
    states = {item["address"]: item["state"] for item in shown if not item["record"]}
    left = {f"{kind}:{CELL}/TEST01" for kind in ("ComplianceTest", "Verdict")}
    assert {name for name, state in states.items() if state != "in sync"} == left
    why = console(tmp_path, "why", CELL, "--json").report["resources"]
    assert {item["address"] for item in why if item["unmade"]} == left
    assert "TEST01" not in console(tmp_path, "why", CELL).out.partition("In sync: ")[2].partition("\n")[0]


def read_during_the_run(repository: Repository, which: str = "True") -> None:
    """Read the user.conf again in these runs. Before a test, LoadGen may lose the ERROR that it logs about this, since
    its thread starts shortly before its log is open."""
    again = "settings.FromConfig(str(conf), given.benchmarks, given.scenarios)"
    start = "def issue(samples):\n"
    script(repository, start, f"{start}    if {which}:\n        {again}\n")


def test_a_compliance_run_that_loadgen_refuses_is_not_tried_again(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    read_during_the_run(repository, "given.audit_test")
    repository.edit("specs/spec.yaml", "compliance: [TEST01]", "compliance: {TEST01: {attempts: 3}}")
    report = repository.reconcile()
    assert only(repository, f"ComplianceTest:{CELL}/TEST01").values["lasting"] is True
    assert only(repository, f"Verdict:{CELL}/TEST01").values["passed"] is False
    (finding,) = [f for f in report.after.difference.findings if f.kind == "AuditFails"]
    assert "--rerun" not in finding.fix


def test_a_setup_that_loadgen_refuses_is_not_tried_again(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    read_during_the_run(repository)
    repository.edit("specs/spec.yaml", "min_query_count: 100,", "min_query_count: 100, attempts: 3,")
    report = repository.reconcile()
    run = only(repository, RUNS[0])
    assert (run.values["validity"], run.values["lasting"], run.values["suggestion"]) == ("INVALID", True, None)
    (finding,) = [f for f in report.after.difference.findings if f.kind == "Invalid"]
    assert "Multiple conf files" in finding.message
    assert "--rerun" not in finding.fix
    (other,) = [f for f in report.after.difference.findings if f.kind == CONTRADICTED]
    assert ": ERROR: Multiple conf files" in other.message
    assert other.fix == finding.fix


def test_a_verdict_by_the_first_byte_is_made_again_from_stored_logs(tmp_path: Path) -> None:
    """The type is too short for the answers, so the verdict does not pass, and names it."""
    repository = with_miniature(tmp_path, "TEST01")
    script(repository, "ALTERED = 0", "ALTERED = 256")
    repository.edit("specs/spec.yaml", "compliance: [TEST01]", "compliance: {TEST01: {dtype: byte}}")
    repository.reconcile()
    first = only(repository, f"Verdict:{CELL}/TEST01").values
    assert first["passed"] is False
    assert "type byte compares no more: the answers have 4 bytes; declare dtype: " in "; ".join(first["reasons"])
    repository.edit("specs/spec.yaml", "compliance: {TEST01: {dtype: byte}}", "compliance: [TEST01]")
    made = [str(outcome.step.change.address) for outcome in repository.reconcile().outcomes]
    assert f"Verdict:{CELL}/TEST01" in made
    assert not [name for name in made if name.startswith(("Run:", "ComplianceTest:"))]
    last = max(repository.records_of(f"Verdict:{CELL}/TEST01").values(), key=lambda record: record.started)
    assert last.values["passed"] is False
