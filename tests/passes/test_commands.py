"""Harness commands: a stand-in of a user's own runs the cell as our harness does, and is believed nothing."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from reconciler.execute.outcome import Status
from reconciler.resource.records import Ended
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import hash_file
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import Repository, make_passed
from tests.passes.standin import with_command
from tests.shared import make_once, need

need("mlperf_loadgen")
RUN = "Run:open/box/tiny/Offline/performance"
RUNS = {"Run:open/box/tiny/Offline/accuracy", RUN}
SRC = "open/ACME/src/tiny/"
SCORE, RESULT = "Score:open/box/tiny/Offline", "Result:open/box/tiny/Offline"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """After a first pass with an honest command."""
    return make_once(tmp_path_factory, "commanded", _run)


def _run(folder: Path) -> Repository:
    repository = with_command(folder / "repository")
    repository.reconcile()
    return repository


def kinds(repository: Repository) -> Counter[str]:
    return Counter(str(record.address) for record in repository.records().values())


def due(repository: Repository) -> set[str]:
    return {str(step.change.address) for step in repository.look().plan.steps}


def test_a_command_is_recorded_and_rendered_as_ours(made: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    own = make_passed(tmp_path_factory)
    assert kinds(made) == kinds(own)
    assert all(record.ended is Ended.DONE for record in made.records().values())
    one, other = made.tree(), own.tree()
    both = [path for path in one if not path.startswith(SRC)]
    assert both == [path for path in other if not path.startswith(SRC)]
    differing = {Path(path).name for path in both if one[path] != other[path]}
    assert differing <= {"README.md", "measurements.json", "mlperf_log_detail.txt", "mlperf_log_summary.txt"}
    assert all(Path(path).name != "user.conf" or one[path] == other[path] for path in both)


def test_the_code_of_the_command_is_published_with_how_it_was_started(made: Repository) -> None:
    tree = made.tree()
    published = {path.removeprefix(SRC) for path in tree if path.startswith(SRC)}
    assert published == {"run.py", "README", "tiny.py", "README.md", "REPRODUCE.md"}
    assert tree[f"{SRC}run.py"] == hash_file(made.root / "ours/run.py")
    how = (made.paths.tree / f"{SRC}REPRODUCE.md").read_text()
    assert "run.py" in how
    assert "{user_conf}" in how


def test_a_clone_without_the_code_publishes_what_ran(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    expected = repository.tree()
    (repository.root / "ours").rename(tmp_path / "elsewhere")
    shutil.rmtree(repository.root / ".reconcile")
    repository.reconcile()
    assert not due(repository)
    assert repository.tree() == expected


def test_a_second_pass_does_nothing(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    assert not repository.reconcile().outcomes
    assert not repository.look().plan.steps


def test_one_line_of_its_code_makes_exactly_its_runs_stale(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    assert not due(repository)
    repository.edit("ours/run.py", "all is well", "all is very well")
    assert due(repository) == {*RUNS, SCORE, RESULT}
    steps = {str(step.change.address): step for step in repository.look().plan.steps}
    explained = [(change.name, change.files) for change in steps[RUN].explained]
    assert explained == [("harness.code.sha256", ("run.py changed",))]


def test_what_git_ignores_is_no_code_and_a_commit_is_no_edit(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.write(".gitignore", "*.log\n/.reconcile/\n")
    repository.commit()
    repository.reconcile()
    assert not due(repository)
    repository.write("ours/build.log", "made by the command")
    assert not due(repository)
    repository.write("ours/more.py", "pass\n")
    assert RUN in due(repository)
    repository.commit()
    assert RUN in due(repository)


def test_without_its_code_the_records_stand(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    (repository.root / "ours").rename(tmp_path / "elsewhere")
    assert not due(repository)
    blocked = {str(s.change.address): s.blocked for s in repository.look(rerun=("tiny",)).plan.steps}
    assert blocked[RUN] == "ours is not on this machine"


# The field of the run that a refusal names.
LIES = {
    "old logs": "summary",
    "other scenario": "scenario",
    "other target": "target_qps",
    "other mode": "mode",
    "audit left on": "audit",
    "two sets": "log sets",
    "no logs": "log sets",
    "exit 0": "end",
    "wrong seeds": "qsl_rng_seed",
    "another round": "qsl_rng_seed",
}
FIXES = {
    "wrong seeds": "check that the command gives {user_conf}",
    "another round": "install the LoadGen of round v6.1, such as mlcommons-loadgen 6.0.17",
}


@pytest.fixture(scope="session")
def lied_to(made: Repository, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The performance run of the cell is due; its accuracy run is not."""
    repository = made.copy(tmp_path_factory.mktemp("lies") / "copy")
    for path in repository.record_paths(RUN):
        path.unlink()
    old = repository.root / "old"
    old.mkdir()
    (old / "mlperf_log_detail.txt").write_bytes(made.log_of(RUN, "mlperf_log_detail.txt").read_bytes())
    return repository


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_by_name_and_its_logs_are_kept(lied_to: Repository, tmp_path: Path, lie: str) -> None:
    repository = lied_to.copy(tmp_path / "copy")
    spec = (repository.root / "specs/spec.yaml").read_text(encoding="utf-8")
    seeds = " ".join(str(seed) for seed in load_ruleset("v6.0").seeds().values())
    given = f'LIE: "{lie}", OLD: "{repository.root / "old"}", SEEDS: "{seeds}"'
    reported = f"        env: {{{given}}}\n        code: ours\n"
    repository.write("specs/spec.yaml", spec.replace("        code: ours\n", reported))
    failed = {str(o.step.change.address): o for o in repository.reconcile().outcomes if o.status is Status.FAILED}
    assert f"{LIES[lie]}: " in failed[RUN].message
    record = next(r for r in repository.records().values() if str(r.address) == RUN and r.ended is Ended.FAILED)
    assert FIXES.get(lie, "") in record.fix
    logs = [artifact for artifact in record.artifacts if artifact.name.endswith("mlperf_log_detail.txt")]
    assert len(logs) == {"no logs": 0, "two sets": 2}.get(lie, 1)
    assert all(repository.object_path(log.sha256).is_file() for log in logs)
    assert not repository.damage()


def test_a_copy_of_its_logs_is_no_second_run(lied_to: Repository, tmp_path: Path) -> None:
    """The whole set is taken, wherever the copy that lacks a file is."""
    repository = lied_to.copy(tmp_path / "copy")
    repository.edit("specs/spec.yaml", "        code: ours\n", "        env: {LIE: copied}\n        code: ours\n")
    report = repository.reconcile(rerun=("mode=accuracy",))
    assert {outcome.status for outcome in report.outcomes} == {Status.DONE}
    for mode in ("performance", "accuracy"):
        record = max(
            repository.records_of(f"Run:open/box/tiny/Offline/{mode}").values(), key=lambda record: record.started
        )
        names = [a.name for a in record.artifacts if a.name.startswith("mlperf_log_")]
        assert sorted(names) == sorted(set(names))
        assert {"mlperf_log_detail.txt", "mlperf_log_summary.txt"} <= set(names)
    assert "mlperf_log_accuracy.json" in names


SLEEPER = """\
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
lost = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("pids.partial", "w").write(f"{os.getpid()} {child.pid} {lost.pid if len(sys.argv) > 2 else child.pid}")
os.rename("pids.partial", "pids")
print("waiting", flush=True)
time.sleep(600)
"""


def sleeping(root: Path, more: str = "") -> Repository:
    repository = with_command(root, more=more)
    repository.write("ours/run.py", SLEEPER)
    return repository


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(what: Path, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not what.exists():
        assert time.monotonic() < give_up, f"{what} never came"
        time.sleep(0.02)


def gone(pids: list[int], seconds: float = 60.0) -> bool:
    give_up = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_its_processes_end_with_the_pass(tmp_path: Path, number: signal.Signals) -> None:
    repository = sleeping(tmp_path)
    started = start_doomed_pass(repository)
    wait_for(tmp_path / "ours/pids")
    pids = [int(pid) for pid in (tmp_path / "ours/pids").read_text(encoding="utf-8").split()]
    started.send_signal(number)
    started.wait(120)
    assert gone(pids)
    assert not [r for r in repository.records().values() if str(r.address).startswith("Run")]


def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    repository = sleeping(tmp_path, more="        timeout: 4 s\n")
    repository.edit("specs/spec.yaml", '"{audit_config}"]', '"{audit_config}", lost]')
    report = repository.reconcile()
    failed = next(o for o in report.outcomes if o.status is Status.FAILED)
    assert failed.message.startswith("timeout: the command took longer than 4 s")
    assert "waiting" in failed.log
    assert gone([int(pid) for pid in (tmp_path / "ours/pids").read_text(encoding="utf-8").split()])


def test_secrets_come_from_the_environment_and_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = with_command(tmp_path, more="        env: {HF_TOKEN: {from_env: MY_VARIABLE}, WHERE: '{scenario}'}\n")
    show = 'import os\nprint(len(os.environ["HF_TOKEN"]), os.environ["WHERE"])\n'
    repository.write("ours/run.py", show + 'assert "MY_VARIABLE" not in os.environ\n')
    monkeypatch.delenv("MY_VARIABLE", raising=False)
    unset = next(o for o in repository.reconcile().outcomes if o.status is Status.FAILED)
    assert unset.message == "the environment variable MY_VARIABLE is not set"
    monkeypatch.setenv("MY_VARIABLE", "sesame-4711")
    seen = next(o for o in repository.reconcile().outcomes if o.status is Status.FAILED)
    assert seen.log.split() == ["11", "Offline"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sesame-4711" in path.read_bytes()]
    inputs = next(r for r in repository.records().values() if str(r.address) == RUN).inputs
    assert inputs["harness.env.HF_TOKEN"].value == ["from_env", "MY_VARIABLE"]
