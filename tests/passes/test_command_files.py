"""What a harness command is handed and what is taken from it: user.conf, audit.config, further files, the score."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.execute.outcome import Outcome, Status
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE
from reconciler.resource.records import Ended, Record
from reconciler.storage.files import Lock
from tests.passes.crashing import processes_in
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import Repository
from tests.passes.standin import with_command
from tests.passes.test_commands import RUN, gone, wait_for
from tests.shared import need

need("mlperf_loadgen")
TEST, VERDICT = "ComplianceTest:open/box/tiny/Offline/TEST01", "Verdict:open/box/tiny/Offline/TEST01"


def script(repository: Repository, old: str, new: str) -> None:
    repository.edit("ours/run.py", old, new)


def record_of(repository: Repository, address: str) -> Record:
    return next(r for r in repository.records().values() if str(r.address) == address and r.ended is Ended.DONE)


def failed(repository: Repository) -> dict[str, Outcome]:
    return {str(o.step.change.address): o for o in repository.reconcile().outcomes if o.status is Status.FAILED}


def test_a_conf_of_its_own_is_taken_before_the_next_run_replaces_it(tmp_path: Path) -> None:
    repository = with_command(tmp_path, more="        user_conf: harvested\n        user_conf_at: ../user.conf\n")
    own = 'conf = "../user.conf"\nopen(conf, "w").write(f"resnet50.Offline.target_qps = {100}\\n*.*.min_duration = 0\\n'
    own += '*.*.min_query_count = 100\\n*.*.performance_sample_count_override = 16\\n# " + mode + "\\n")\n'
    script(repository, "folder = Path(logs)\n", f"folder = Path(logs)\n{own}")
    assert not failed(repository)
    kept = repository.log_of(RUN, "user.conf").read_text(encoding="utf-8")
    assert kept.endswith("# performance\n")
    assert repository.matching(".reconcile/**/tiny/Offline/user.conf")[0].read_text(encoding="utf-8") == kept


def test_a_conf_that_is_not_that_of_the_run_is_a_finding(tmp_path: Path) -> None:
    repository = with_command(tmp_path, more="        user_conf: harvested\n        user_conf_at: ../user.conf\n")
    repository.write("user.conf", "*.Offline.target_qps = 50\n")
    assert not failed(repository)
    contradicted = [f for f in repository.look().plan.findings if f.kind == "LogContradicted"]
    assert {finding.where for finding in contradicted} == {RUN, RUN.replace("performance", "accuracy")}
    assert "target_qps" in contradicted[0].message


def test_further_files_are_kept(tmp_path: Path) -> None:
    repository = with_command(tmp_path, more='        outputs: ["{run_dir}/*.csv"]\n')
    script(repository, "folder = Path(logs)\n", 'folder = Path(logs)\n(folder / "power.csv").write_text("1,2\\n")\n')
    assert not failed(repository)
    (kept,) = [a for a in record_of(repository, RUN).artifacts if a.name == "outputs/power.csv"]
    assert repository.object_path(kept.sha256).read_text(encoding="utf-8") == "1,2\n"
    assert not repository.damage()


LEFT = {
    "pipe": "import os; path.unlink(); os.mkfifo(path)",
    "device": "path.unlink(); path.symlink_to('/dev/zero')",
    "hole": "stream = open(path, 'r+b'); stream.truncate(1 << 36); stream.close()",
}


@pytest.mark.parametrize(
    ("accuracy", "performance"),
    [
        (("mlperf_log_accuracy.json", "hole"), ("mlperf_log_detail.txt", "pipe")),
        (("mlperf_log_summary.txt", "device"), ("mlperf_log_summary.txt", "hole")),
    ],
)
def test_what_a_command_leaves_in_place_of_its_files_is_refused(
    tmp_path: Path, accuracy: tuple[str, str], performance: tuple[str, str]
) -> None:
    """It is named, and neither waited for nor read without end."""
    repository = with_command(tmp_path, more='        outputs: ["{run_dir}/*.csv"]\n')
    lines = ""
    for mode, (name, how) in {"accuracy": accuracy, "performance": performance}.items():
        lines += f"if mode == {mode!r}:\n    path = folder / {name!r}\n    path.touch()\n    {LEFT[how]}\n"
    script(repository, "sys.exit(0 if", f"{lines}sys.exit(0 if")
    reported = {address: outcome.message for address, outcome in failed(repository).items()}
    assert accuracy[0] in reported[RUN.replace("performance", "accuracy")], reported
    assert performance[0] in reported[RUN], reported
    assert not repository.damage()


def test_a_benchmark_without_code_here_is_scored_by_a_command(tmp_path: Path) -> None:
    score = '        score: {command: ["' + sys.executable + '", score.py, "{accuracy_log}"]}\n'
    repository = with_command(tmp_path, more=score)
    repository.edit("specs/spec.yaml", "      code: benchmarks/tiny.py\n", "")
    show = "import json, sys\nn = len(json.load(open(sys.argv[1])))\nprint(f'accuracy=76.{n}%')\n"
    repository.write("ours/score.py", show)
    assert not failed(repository)
    assert record_of(repository, "Score:open/box/tiny/Offline").values["metric"]["value"] == "76.16"
    assert not repository.look().plan.steps
    repository.edit("ours/score.py", "accuracy=76", "accuracy=77")
    assert "Score:open/box/tiny/Offline" in {str(s.change.address) for s in repository.look().plan.steps}


@pytest.mark.parametrize(
    ("scorer", "kept"),
    [
        ("sys.stderr.write('warning: slow\\n')\nprint('accuracy=76.1%')\n", "accuracy=76.1%\n"),
        ("sys.stderr.write('accuracy=76.1%\\n')\n", "accuracy=76.1%\n"),
    ],
    ids=["next to its result", "with its result"],
)
def test_warnings_of_a_scorer_are_published_where_it_says_nothing_else(tmp_path: Path, scorer: str, kept: str) -> None:
    score = '        score: {command: ["' + sys.executable + '", score.py, "{accuracy_log}"]}\n'
    repository = with_command(tmp_path, more=score)
    repository.edit("specs/spec.yaml", "      code: benchmarks/tiny.py\n", "")
    repository.write("ours/score.py", f"import sys\n{scorer}")
    assert not failed(repository)
    found = record_of(repository, "Score:open/box/tiny/Offline")
    texts = {a.name: a.sha256 for a in found.artifacts}
    assert (repository.paths.logs / texts["accuracy.txt"]).read_text(encoding="utf-8") == kept
    log = repository.object_path(texts["child.log"]).read_text(encoding="utf-8")
    assert "76.1%" in log
    assert ("warning" in log) is ("warning" in scorer)


def test_videos_that_the_round_wants_go_from_the_scores_folder_into_the_tree(tmp_path: Path) -> None:
    score = '        score: {command: ["' + sys.executable + '", score.py, "{run_dir}"]}\n'
    repository = with_command(tmp_path, more=score)
    repository.edit("specs/spec.yaml", "category: edge", "category: datacenter")
    repository.edit("specs/spec.yaml", "as: resnet", "as: wan-2.2-t2v-a14b")
    script(repository, '"resnet50", scenario', '"wan-2.2-t2v-a14b", scenario')
    show = "import sys\nfrom pathlib import Path\nfolder = Path(sys.argv[1], 'videos')\nfolder.mkdir()\n"
    show += "(folder / '130.mp4').write_bytes(b'a video')\nprint({'vbench_score': 70.5})\n"
    repository.write("ours/score.py", show)
    assert not failed(repository)
    score_record = record_of(repository, "Score:open/box/tiny/Offline")
    (kept,) = [artifact for artifact in score_record.artifacts if artifact.name == "videos/130.mp4"]
    assert repository.object_path(kept.sha256).read_bytes() == b"a video"
    (shown,) = repository.matching(".reconcile/**/Offline/accuracy/videos/130.mp4")
    assert shown.read_bytes() == b"a video"
    assert not repository.look().plan.steps


def test_a_command_scores_the_answers_that_a_test_finds_different(tmp_path: Path) -> None:
    score = '        score: {command: ["' + sys.executable + '", score.py, "{accuracy_log}"]}\n'
    repository = with_command(tmp_path, more=score)
    repository.edit("specs/spec.yaml", "      code: benchmarks/tiny.py\n", "")
    repository.edit("specs/spec.yaml", "min_query_count: 100}", "min_query_count: 100, compliance: [TEST01]}")
    show = "import json, sys\nn = len(json.load(open(sys.argv[1])))\nprint(f'accuracy=76.1%, of {n}')\n"
    repository.write("ours/score.py", show)
    script(repository, 'array.array("i", [0])', 'array.array("i", [bool(audit)])')
    assert not failed(repository)
    verdict = record_of(repository, VERDICT)
    assert verdict.values["notes"][0].startswith("compared by accuracy, because ")
    assert verdict.values["figures"]["fallback.acc"] == "76.1 baseline, 76.1 compliance, 1 % allowed"
    reports = {a.name: a for a in verdict.artifacts if a.name in (BASELINE, COMPLIANCE)}
    text = (repository.paths.logs / reports[BASELINE].sha256).read_text(encoding="utf-8")
    assert text == "accuracy=76.1%, of 16\n"
    repository.edit("ours/score.py", "76.1", "76.2")
    assert VERDICT in {str(s.change.address) for s in repository.look().plan.steps}


def audited(root: Path) -> Repository:
    repository = with_command(root, more="        audit_config: placed\n")
    repository.edit("specs/spec.yaml", "min_query_count: 100}", "min_query_count: 100, compliance: [TEST01]}")
    took = "scenario, mode, conf, logs, audit = sys.argv[1:6]"
    script(repository, took, "scenario, mode, conf, logs = sys.argv[1:5]\naudit = 'audit.config'")
    return repository


def test_audit_settings_stand_in_its_folder_only_during_the_test(tmp_path: Path) -> None:
    repository = audited(tmp_path)
    repository.reconcile()
    assert record_of(repository, TEST)
    assert not list(tmp_path.rglob("audit.config"))


def test_somebody_elses_audit_settings_stop_every_run(tmp_path: Path) -> None:
    repository = audited(tmp_path)
    repository.write("ours/audit.config", "*.*.accuracy_log_rng_seed = 7\n")
    outcome = failed(repository)[RUN]
    assert outcome.message.startswith("audit: ")
    assert (tmp_path / "ours/audit.config").exists()


def in_the_test(repository: Repository) -> subprocess.Popen[bytes]:
    """A pass that stays in its compliance test."""
    sleep = 'if os.path.exists("audit.config"):\n    open("../pid.partial", "w").write(str(os.getpid()))\n'
    sleep += '    os.rename("../pid.partial", "../pid")\n    time.sleep(600)\n'
    script(repository, "folder = Path(logs)\n", f"{sleep}folder = Path(logs)\n")
    started = start_doomed_pass(repository)
    wait_for(repository.root / "pid")
    assert (repository.root / "ours/audit.config").exists()
    return started


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_audit_settings_stay_behind_a_killed_pass(tmp_path: Path, number: signal.Signals) -> None:
    repository = audited(tmp_path)
    started = in_the_test(repository)
    started.send_signal(number)
    started.wait(120)
    assert gone([int((tmp_path / "pid").read_text(encoding="utf-8"))])
    with Lock(repository.paths.pass_lock, purpose="a test").acquire(wait=10):  # the keeper holds it to its end
        assert not (tmp_path / "ours/audit.config").exists()


def test_placed_audit_settings_are_no_code_of_the_command(tmp_path: Path) -> None:
    """Neither while the test runs nor after a loss of power, which leaves them; then the next pass takes them away."""
    repository = audited(tmp_path)
    started = in_the_test(repository)
    due = {str(step.change.address) for step in repository.look().plan.steps}
    assert TEST in due
    assert not [name for name in due if name.startswith(("Run:", "Score:"))]
    running = [started.pid, int((tmp_path / "pid").read_text(encoding="utf-8")), *processes_in(tmp_path)]
    for number in running:
        os.kill(number, signal.SIGSTOP)  # all at once, so that no one sees another's end
    for number in running:
        os.kill(number, signal.SIGKILL)
    started.wait(120)
    assert (tmp_path / "ours/audit.config").exists()
    assert {str(step.change.address) for step in repository.look().plan.steps} == due
    script(repository, "    time.sleep(600)\n", "    pass\n")
    repository.reconcile()
    assert record_of(repository, TEST)
    assert not (tmp_path / "ours/audit.config").exists()


def test_outputs_of_one_name_are_all_kept_whatever_bytes_their_names_hold(tmp_path: Path) -> None:
    outputs = '["{run_dir}/*/*.csv", "{run_dir}/*.bin", "{run_dir}/one", "{run_dir}/one/power.csv"]'
    repository = with_command(tmp_path / "a place ü", more=f"        outputs: {outputs}\n")
    script(
        repository,
        "sys.exit(",
        """for name in ("one", "two"):
    (folder / name).mkdir()
    (folder / name / "power.csv").write_text(name)
(folder / "\\udcff.bin").write_text("undecodable")
sys.exit(""",
    )
    assert not failed(repository)
    kept = {
        a.name: repository.object_path(a.sha256).read_text()
        for a in record_of(repository, RUN).artifacts
        if "outputs" in a.name
    }
    assert kept == {"outputs/power.csv": "one", "outputs/two/power.csv": "two", "outputs/\\xff.bin": "undecodable"}
    assert not repository.reconcile().outcomes


def test_specs_and_records_next_to_the_code_are_no_code(tmp_path: Path) -> None:
    repository = with_command(tmp_path)
    repository.edit("specs/spec.yaml", "code: ours", "code: .\n        cwd: ours")
    assert {outcome.status for outcome in repository.reconcile().outcomes} == {Status.DONE}
    assert "code.written" not in record_of(repository, RUN).facts
    assert not repository.reconcile().outcomes
