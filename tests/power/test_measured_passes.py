"""Performance runs under a power meter: two runs in one session, its files in the record and in the tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.execute import attempt_record
from reconciler.execute.outcome import Status
from reconciler.execute.perform import Finished
from reconciler.loadgen.compare import Asked, Contradiction, find_contradictions
from reconciler.loadgen.log import DetailLog
from reconciler.reconcile.planning import list_cells
from reconciler.reconcile.worker import take_up_refused
from reconciler.resource.records import POWER_CHECK, SESSION, Ended, Record
from tests.passes.repository import SPEC, Repository, make_repository
from tests.processes import wait_for
from tests.shared import need

need("mlperf_loadgen")
HERE = Path(__file__).parent
RUN = "Run:open/box/tiny/Offline/performance"


@pytest.fixture
def director(tmp_path: Path) -> Iterator[str]:
    port = tmp_path / "port"
    with subprocess.Popen([sys.executable, HERE / "director.py", port]) as process:
        wait_for(port.exists)
        yield f"127.0.0.1:{port.read_text()}"
        process.terminate()


def make_metered(root: Path, director: str, analyzer: str = "WT310") -> Repository:
    repository = make_repository(root)
    shutil.copytree(HERE / "kit", root / "kit")
    meter = f'{{director: "{director}", ntp: 127.0.0.1, kit: kit, analyzer: {analyzer}}}'
    repository.edit(
        SPEC,
        "      status: available\n",
        f"      status: available\n      power: {meter}\n      nameplate: supplies.yaml\n",
    )
    repository.write("supplies.yaml", "Box: {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 550}]}\n")
    return repository


def measured(repository: Repository) -> Record:
    (record,) = repository.records_of(RUN).values()
    return record


def test_session_is_recorded_rendered_and_in_sync_afterwards(tmp_path: Path, director: str) -> None:
    repository = make_metered(tmp_path / "lab", director)
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    record = measured(repository)
    power = record.values["power"]
    assert (power["watts"], power["check"]) == ("200", "passed")
    assert power["samples"] > 0
    (reported,) = [o.message for o in report.outcomes if str(o.step.change.address) == RUN]
    assert "200 W" in reported
    efficiency = power["efficiency"]
    assert float(efficiency["value"]) == pytest.approx(float(record.values["metric"]["value"]) / 200, rel=1e-4)
    assert f"{efficiency['value']} samples/J" in reported
    (cell,) = [cell for cell in list_cells(repository.look()) if cell.efficiency]
    assert cell.efficiency == (efficiency["value"], "samples/J")
    names = {artifact.name for artifact in record.artifacts}
    assert "power-check.txt" in names
    assert {"session/power/client.json", "session/ranging/spl.txt", "session/run_1/spl.txt"} <= names
    tree = {path: digest for path, digest in repository.tree().items() if "/performance/" in path}
    ends = {path.partition("/performance/")[2] for path in tree}
    assert {"power/client.json", "power/server.json", "ranging/spl.txt", "ranging/mlperf_log_detail.txt"} <= ends
    assert "run_1/spl.txt" in ends
    assert any(path.endswith("/systems/box_power.yaml") for path in repository.tree())
    assert repository.reconcile().outcomes == ()


def test_ranging_and_measured_run_are_two_in_one_power_state(tmp_path: Path, director: str) -> None:
    """MaxQ under a meter: the state is set once for the whole session, and once for each run without the meter."""
    repository = make_metered(tmp_path / "lab", director)
    watts, log = tmp_path / "watts", tmp_path / "log"
    watts.write_text("700 W\n")
    commands = {
        name: ["sh", "-c", f"echo {value} W > {watts}; echo {value} >> {log}"]
        for name, value in (("set", 400), ("restore", 700))
    }
    state = json.dumps({**commands, "read": ["cat", str(watts)], "expect": "400 W"})
    repository.edit(SPEC, "      nameplate: ", f"      power_state: {state}\n      nameplate: ")
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    assert log.read_text().split() == ["400", "700"] * 2
    assert watts.read_text() == "700 W\n"
    record = measured(repository)
    assert (record.facts["power.state"].value, record.values["power"]["watts"]) == ("400 W", "200")
    digests = {a.name: a.sha256 for a in measured(repository).artifacts}
    assert digests["session/ranging/mlperf_log_detail.txt"] != digests["mlperf_log_detail.txt"]
    assert digests["session/run_1/mlperf_log_detail.txt"] == digests["mlperf_log_detail.txt"]


def test_meter_makes_performance_runs_stale_and_its_place_does_not(tmp_path: Path, director: str) -> None:
    repository = make_repository(tmp_path / "lab")
    repository.reconcile()
    before = {str(step.change.address) for step in repository.look().plan.steps}
    assert before == set()
    shutil.copytree(HERE / "kit", repository.root / "kit")
    meter = f'      power: {{director: "{director}", ntp: 127.0.0.1, kit: kit}}\n'
    repository.edit(SPEC, "      status: available\n", f"      status: available\n{meter}")
    stale = {str(step.change.address) for step in repository.look().plan.steps}
    assert RUN in stale
    assert not any("accuracy" in address for address in stale)
    assert repository.reconcile().after.plan.in_sync
    repository.edit(SPEC, director, "192.0.2.1:4950")
    assert repository.look().plan.in_sync


def test_director_that_is_gone_fails_the_run_and_says_so(tmp_path: Path) -> None:
    repository = make_metered(tmp_path / "lab", "127.0.0.1:9")
    report = repository.reconcile()
    (failed,) = [outcome for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert str(failed.step.change.address) == RUN
    assert "Connection refused" in failed.log


def test_kit_that_is_not_there_is_named(tmp_path: Path, director: str) -> None:
    repository = make_metered(tmp_path / "lab", director)
    shutil.rmtree(repository.root / "kit")
    report = repository.reconcile()
    assert any("has no ptd_client_server/client.py" in outcome.message for outcome in report.outcomes)


def test_command_cannot_be_metered(tmp_path: Path) -> None:
    repository = make_metered(tmp_path / "lab", "127.0.0.1:9")
    repository.edit(
        SPEC,
        "      as: resnet\n",
        '      as: resnet\n      harness: {command: ["true", "{run_dir}", "{user_conf}"], cwd: "."}\n',
    )
    with pytest.raises(SpecError, match="cannot measure the power of a harness command"):
        repository.look()


@pytest.mark.parametrize("kept", [True, False])
def test_a_measured_run_that_was_refused_is_taken_up_with_its_session(
    tmp_path: Path, director: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rules that find a contradiction where there is none. Without its session it is due still."""
    repository = make_metered(tmp_path / "lab", director)
    with monkeypatch.context() as stricter:

        def refuse(log: DetailLog, asked: Asked) -> tuple[Contradiction, ...]:
            found = (Contradiction("mode", "another", "this", 1),) if asked.mode == "performance" else ()
            return (*find_contradictions(log, asked), *found)

        stricter.setattr("reconciler.rules.results.loadgen_logs.find_contradictions", refuse)
        if not kept:
            stricter.setattr(attempt_record, "_list_session", lambda _, *, in_git: iter(()))
        repository.reconcile()
    ((before, refused),) = repository.records_of(RUN).items()
    assert (refused.ended, refused.problem_class) == (Ended.FAILED, "contradiction")
    session = {a.name: a.sha256 for a in refused.artifacts if a.name.startswith(SESSION)}
    assert bool(session) is kept
    seen = repository.look()
    taken: list[Finished] = []
    addresses = list(take_up_refused(repository.paths, seen, taken.append))
    assert addresses == ([RUN] if kept else [])
    for finished in taken:
        shutil.rmtree(finished.attempt.folder)
    if not kept:
        return
    report = repository.reconcile()
    assert RUN not in {str(o.step.change.address) for o in report.outcomes}
    assert report.after.plan.in_sync
    (record,) = [record for identity, record in repository.records_of(RUN).items() if identity != before]
    assert (record.supersedes, record.ended) == (before, Ended.DONE)
    assert record.values["power"] == {**refused.values["power"], "efficiency": record.values["power"]["efficiency"]}
    assert {a.name: a.sha256 for a in record.artifacts if a.name.startswith(SESSION)} == session
    assert {a.name for a in record.artifacts} >= {POWER_CHECK}
    ends = {path.partition("/performance/")[2] for path in repository.tree()}
    assert {"power/client.json", "run_1/spl.txt", "ranging/spl.txt"} <= ends
