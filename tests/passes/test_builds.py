"""Engines that a command of the user's builds: recorded, restored and compared as ours are."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from reconciler.execute.outcome import Outcome, Status
from reconciler.resource.records import Ended
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import Repository
from tests.passes.standin import with_command
from tests.passes.test_commands import RESULT, RUN, RUNS, SCORE, due, gone, wait_for
from tests.shared import make_once, need

need("mlperf_loadgen")
ENGINE = "Engine:open/box/tiny/Offline"
BUILD = """\
import os, pathlib, sys, time
model, batch_size, folder = sys.argv[1:4]
pathlib.Path("builds").open("a").write(f"{os.getpid()}\\n")
print("building for batches of", batch_size, flush=True)
(pathlib.Path(folder) / "layers").mkdir()
(pathlib.Path(folder) / "layers" / "plan").write_text("plan of " + batch_size)
(pathlib.Path(folder) / "engine.bin").write_text("engine of " + batch_size)
"""
SPEC = f"""\
        build:
          command: ["{sys.executable}", build.py, "{{model}}", "{{batch_size}}", "{{run_dir}}"]
          code: builder/build.py
"""


def with_build(root: Path, *, more: str = "", script: str = BUILD) -> Repository:
    repository = with_command(root, more=SPEC + more)
    repository.write("builder/build.py", script)
    repository.edit("specs/spec.yaml", '"{audit_config}"]', '"{audit_config}", "{engine}"]')
    show = 'print("took", (Path(sys.argv[6]) / "engine.bin").read_text())\nfolder = Path(logs)\n'
    repository.edit("ours/run.py", "folder = Path(logs)\n", show)
    repository.edit(
        "specs/spec.yaml", "performance_sample_count: 16", "performance_sample_count: 16\n      engine: {batch_size: 4}"
    )
    return repository


def builds(repository: Repository) -> list[int]:
    path = repository.root / "builder/builds"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def failed(repository: Repository) -> dict[str, Outcome]:
    return {str(o.step.change.address): o for o in repository.reconcile().outcomes if o.status is Status.FAILED}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "built", _build)


def _build(folder: Path) -> Repository:
    repository = with_build(folder / "repository")
    repository.reconcile()
    return repository


def test_it_is_built_once_and_handed_to_the_runs(made: Repository) -> None:
    assert all(record.ended is Ended.DONE for record in made.records().values())
    assert len(builds(made)) == 1
    (record,) = made.records_of(ENGINE).values()
    assert sorted(a.name for a in record.artifacts) == ["child.log", "engine.bin", "layers/plan"]
    (log,) = [a for a in record.artifacts if a.name == "child.log"]
    assert made.object_path(log.sha256).read_text() == "building for batches of 4\n"
    (run,) = made.records_of(RUN).values()
    engine = next(a.sha256 for a in record.artifacts if a.name == "engine.bin")
    assert run.facts["engine.engine.bin"].value == engine
    (took,) = [a for a in run.artifacts if a.name == "child.log"]
    assert "took engine of 4" in made.object_path(took.sha256).read_text()
    assert not made.damage()


def test_a_second_pass_builds_nothing(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    assert not repository.reconcile().outcomes
    assert len(builds(repository)) == 1


def test_its_code_and_what_it_is_given_make_it_stale_not_the_code_of_runs(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    assert not due(repository)
    repository.edit("ours/run.py", "all is well", "all is very well")
    assert ENGINE not in due(repository)
    repository.edit("ours/run.py", "all is very well", "all is well")
    repository.edit("builder/build.py", "building for", "Building for")
    assert due(repository) == {ENGINE, *RUNS, SCORE, RESULT}
    repository.edit("builder/build.py", "Building for", "building for")
    repository.edit("specs/spec.yaml", "batch_size: 4", "batch_size: 8")
    assert due(repository) == {ENGINE, *RUNS, SCORE, RESULT}


def test_other_bytes_under_the_same_key_repeat_runs_that_must_count_together(tmp_path: Path) -> None:
    restless = BUILD.replace('"engine of " + batch_size', '"engine of " + batch_size + str(time.time())')
    repository = with_build(tmp_path, script=restless)
    repository.reconcile()
    first = repository.objects_of(ENGINE, "engine.bin")
    for path in repository.objects_of(ENGINE):
        path.unlink()
    assert not due(repository)  # a lost engine matters to no one until a run is due
    for path in repository.record_paths(RUN):
        path.unlink()
    report = repository.reconcile()
    assert len(builds(repository)) == 2
    done = [str(o.step.change.address) for o in report.outcomes if o.status is Status.DONE]
    assert "Run:open/box/tiny/Offline/accuracy" in done  # made again with the engine of the new performance run
    assert repository.objects_of(ENGINE, "engine.bin") != first
    assert not due(repository)


FAULTS = {
    "missing": (
        "outputs: the build wrote no {run_dir}/nothing.plan",
        '          outputs: ["{run_dir}/nothing.plan"]\n',
        BUILD,
    ),
    "old": ("outputs: ", "          outputs: [old.plan]\n", BUILD),
    "none": ("outputs: the build wrote no {run_dir}/*", "", 'print("all is well")\n'),
    "status": ("the build failed (the command ended with status 3)", "", BUILD + 'print("no memory"); sys.exit(3)\n'),
    "late": ("timeout: the build took longer than 4 s", "          timeout: 4 s\n", BUILD + "time.sleep(600)\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_build_that_leaves_not_what_was_asked_is_refused_by_name(tmp_path: Path, fault: str) -> None:
    problem, more, script = FAULTS[fault]
    repository = with_build(tmp_path, more=more, script=script)
    repository.write("builder/old.plan", "of another day")
    outcome = failed(repository)[ENGINE]
    assert outcome.message.startswith(problem)
    assert outcome.fix
    assert gone(builds(repository))
    assert not [r for r in repository.records().values() if str(r.address) == ENGINE and r.ended is Ended.DONE]
    assert not [r for r in repository.records().values() if str(r.address).startswith("Run:")]
    assert not repository.damage()


def test_a_killed_pass_leaves_no_build_and_no_half_of_an_engine(tmp_path: Path) -> None:
    repository = with_build(tmp_path, script=BUILD + "time.sleep(600)\n")
    process = start_doomed_pass(repository)
    wait_for(tmp_path / "builder/builds")
    process.send_signal(signal.SIGKILL)
    process.wait(120)
    assert gone(builds(repository))
    assert ENGINE in due(repository)
    repository.write("builder/build.py", BUILD)
    assert not failed(repository)
    assert not repository.damage()


def test_sources_that_a_build_creates_in_the_folder_of_the_runs_are_no_code(tmp_path: Path) -> None:
    repository = with_build(tmp_path)
    repository.edit("specs/spec.yaml", "          code: builder/build.py\n", "")
    repository.write("ours/build.py", BUILD + 'pathlib.Path("made.h").write_text("made")\n')
    assert {outcome.status for outcome in repository.reconcile().outcomes} == {Status.DONE}
    assert not repository.reconcile().outcomes
