"""`history`, `blame`, `diff` and `compare` over a real history: two targets, each measured and committed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.history.compare import read_sides
from reconciler.history.snapshot import read_snapshot
from reconciler.record.store import write_record
from reconciler.resource.inputs import Role
from reconciler.resource.records import RecordedFact
from reconciler.resource.settings import SystemSettings
from reconciler.storage.files import RepositoryPaths
from tests.acceptance.conftest import console as console_here
from tests.shared import copy_folder

from .conftest import CELL, Reconcile, commit, edit, enter_copy, find_record, git, measure, restate


@pytest.fixture(scope="module")
def measured_twice(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_folder(recorded_once, tmp_path_factory.mktemp("twice") / "repository")
    edit(root, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    return measure(root)


@pytest.fixture
def twice(measured_twice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(measured_twice, tmp_path, monkeypatch)


def test_history_lists_each_result_with_the_commit_that_brought_it(twice: Path, reconcile: Reconcile) -> None:
    found = reconcile.report("history", "digits/Offline")
    assert found["cell"] == CELL
    runs = [item for item in found["results"] if item["what"] == "Run performance"]
    commits = git(twice, "log", "--reverse", "--format=%H", "--", "state/records").split()
    assert [run["written"]["commit"] for run in runs] == [commits[0], commits[-1]]
    assert [(run["validity"], run["kept"]) for run in runs] == [("VALID", True)] * 2


def test_history_when_a_record_was_removed_still_knows_it(twice: Path, reconcile: Reconcile) -> None:
    git(twice, "rm", "--quiet", "-r", "state/records/Run")
    git(twice, "commit", "--quiet", "--message", "Remove runs")
    runs = [r for r in reconcile.report("history", "digits")["results"] if r["what"] == "Run performance"]
    assert [run["kept"] for run in runs] == [False, False]
    _, out, _ = reconcile("history", "digits")
    assert "no longer recorded" in out


def test_history_knows_a_record_that_a_branch_dropped_before_its_merge(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "switch", "--quiet", "--create", "try")
    edit(recorded, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    assert reconcile("--commit")[0] == 0
    git(recorded, "revert", "--no-edit", "HEAD")
    git(recorded, "revert", "--no-edit", "HEAD~2")
    git(recorded, "switch", "--quiet", "main")
    git(recorded, "merge", "--quiet", "--no-ff", "--message", "Merge", "try")
    runs = [r for r in reconcile.report("history", "digits")["results"] if r["what"] == "Run performance"]
    assert [run["kept"] for run in runs] == [True, False]


def test_history_and_why_name_the_merge_that_brought_a_record(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "switch", "--quiet", "--create", "side")
    git(recorded, "commit", "--quiet", "--allow-empty", "--message", "Side")
    git(recorded, "switch", "--quiet", "main")
    git(recorded, "merge", "--quiet", "--no-ff", "--no-commit", "side")
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert reconcile()[0] == 0
    commit(recorded, "Merge and measure")
    merge = git(recorded, "rev-parse", "HEAD")
    runs = [r for r in reconcile.report("history", "digits")["results"] if r["what"] == "Run performance"]
    assert runs[-1]["written"]["commit"] == merge
    (step,) = [s for s in reconcile.report("blame", "digits")["steps"] if s["after"]["what"] == "Run performance"]
    assert [(cause["name"], cause["by"]["commit"]) for cause in step["causes"]] == [("target_qps", merge)]
    _, out, _ = reconcile("why", "digits")
    assert "not committed" not in out


def test_history_says_which_records_it_leaves_out(recorded: Path, reconcile: Reconcile) -> None:
    assert all("not committed" not in reconcile(command, "digits")[1] for command in ("history", "blame"))
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert reconcile()[0] == 0
    assert all("1 record in state/ not committed" in reconcile(name, "digits")[1] for name in ("history", "blame"))


@pytest.mark.usefixtures("twice")
def test_history_plots_for_terminals(reconcile: Reconcile) -> None:
    assert "samples/s, oldest to newest" in reconcile.succeed("history", "digits")


def test_blame_names_the_commit_and_the_line_that_changed_an_input(twice: Path, reconcile: Reconcile) -> None:
    (step,) = [s for s in reconcile.report("blame", "digits")["steps"] if s["after"]["what"] == "Run performance"]
    cause = next(cause for cause in step["causes"] if cause["name"] == "target_qps")
    assert (cause["before"], cause["after"]) == (1000, 1100)
    assert cause["by"]["subject"] == "Ask for more"
    assert step["change"] == pytest.approx(float(step["after"]["value"]) / float(step["before"]["value"]) - 1)
    _, out, _ = reconcile("blame", "digits")
    assert "target_qps  1000 → 1100" in out


def test_history_and_blame_of_a_shallow_clone_say_what_is_unknown(
    twice: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{twice}", shallow], check=True)
    for at, unknown in ((twice, False), (shallow, True)):
        monkeypatch.chdir(at)
        for command in ("history", "blame"):
            assert ("git fetch --unshallow" in reconcile.succeed(command, CELL)) == unknown


def test_blame_when_no_input_changed_names_the_evidence_that_did(recorded: Path, reconcile: Reconcile) -> None:
    paths = RepositoryPaths(recorded)
    _, record = find_record(recorded)
    facts = {**record.facts, "machine.driver": RecordedFact("570.1", Role.EVIDENCE)}
    for day, more in (("2999-01-01", {}), ("2999-01-02", facts), ("2999-01-03", facts)):
        write_record(paths, replace(record, started=f"{day}T00:00:00Z", facts=more or record.facts))
    commit(recorded, "Measure again")
    steps = [s for s in reconcile.report("blame", "digits")["steps"] if s["after"]["what"] == "Run performance"]
    assert [[(cause["name"], cause["after"]) for cause in step["causes"]] for step in steps] == [
        [],
        [("machine.driver", "570.1")],
        [],
    ]
    _, out, _ = reconcile("blame", "digits")
    assert "machine.driver  none → 570.1" in out
    assert out.count("the same inputs and evidence, measured again") == 2


def test_blame_when_a_run_is_only_repeated_names_no_output_as_a_cause(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("--rerun", "kind=Run", "--commit")[0] == 0
    steps = reconcile.report("blame", "digits")["steps"]
    assert [(s["after"]["what"], s["causes"]) for s in steps] == [("Run performance", []), ("Score", [])]


def test_blame_of_an_engine_that_follows_from_an_input_names_no_digest(twice: Path, reconcile: Reconcile) -> None:
    edit(twice, "batch_size: 8", "batch_size: 16", "Use larger batches")
    assert reconcile("--commit")[0] == 0
    steps = [s for s in reconcile.report("blame", "digits")["steps"] if s["after"]["what"] == "Run performance"]
    assert {cause["name"] for cause in steps[-1]["causes"]} == {"engine.batch_size"}


def test_diff_shows_inputs_and_results_of_two_commits(twice: Path, reconcile: Reconcile) -> None:
    (cell,) = reconcile.report("diff", "HEAD~2..HEAD", ends=2)["cells"]
    assert [cause["name"] for cause in cell["causes"]] == ["target_qps"]
    assert cell["before"] != cell["after"]
    _, text, _ = reconcile("diff", "HEAD~2..HEAD")
    assert "1 of 1 cells differ." in text
    assert "write HEAD~2..HEAD" in reconcile.refuse("diff", "HEAD~2...HEAD")


def test_diff_when_a_commit_added_records_alone_shows_only_the_result(twice: Path, reconcile: Reconcile) -> None:
    (cell,) = reconcile.report("diff", "HEAD~1..")["cells"]
    assert cell["causes"] == []
    assert cell["before"] is None
    assert reconcile("diff", "HEAD..HEAD")[0] == 0


def test_diff_lists_what_each_cell_has_not_recorded_yet(twice: Path, reconcile: Reconcile) -> None:
    edit(twice, "target_qps: 1100", "target_qps: 1200")
    edit(twice, "          Offline:", "          SingleStream: {target_latency: 1 ms}\n          Offline:")
    git(twice, "commit", "--quiet", "--all", "--message", "Ask for more, and for another scenario")
    cells = {cell["cell"]: cell for cell in reconcile.report("diff", "HEAD~1..HEAD")["cells"]}
    streams = CELL.replace("Offline", "SingleStream")
    assert "Run accuracy" in cells[streams]["due"]
    assert "Run performance" in cells[CELL]["due"]
    assert "Run accuracy" not in cells[CELL]["due"]


def test_compare_commits_a_system_and_a_tree(twice: Path, reconcile: Reconcile) -> None:
    (pair,) = reconcile.report("compare", "HEAD~2", "HEAD")["pairs"]
    assert pair["ratio"] == pytest.approx(float(pair["other"]["value"]) / float(pair["one"]["value"]))
    assert pair["per_accelerator"] is None
    assert reconcile.report("compare", "box", "HEAD")["pairs"][0]["ratio"] == 1.0
    assert reconcile.report("compare", ".reconcile/tree", "HEAD")["pairs"][0]["ratio"] == pytest.approx(1.0, rel=1e-3)


def test_compare_counts_the_accelerators_of_all_nodes(recorded: Path) -> None:
    at = read_snapshot(recorded, git(recorded, "rev-parse", "HEAD"))
    cluster = {"hardware.accelerator": "NVIDIA H200", "hardware.count": 4, "hardware.nodes": 2}
    submission = replace(at.desired.submission, systems={"box": SystemSettings(cluster)})
    (side,) = read_sides(replace(at, desired=replace(at.desired, submission=submission))).values()
    assert (side.accelerator, side.count) == ("NVIDIA H200", 8)


@pytest.mark.parametrize("written", [int, str])
def test_compare_reads_counts_as_number_and_as_text(twice: Path, reconcile: Reconcile, written: type) -> None:
    system = next((twice / ".reconcile/tree").glob("open/*/systems/box.json"))
    found = json.loads(system.read_text())
    counts = {"number_of_nodes": written(2), "accelerators_per_node": written(4)}
    system.write_text(json.dumps({**found, **counts}))
    (pair,) = reconcile.report("compare", ".reconcile/tree", ".reconcile/tree")["pairs"]
    assert (pair["one"]["count"], pair["per_accelerator"]) == (8, 1.0)


def test_compare_shows_the_headroom_of_the_latency_bound(recorded: Path, reconcile: Reconcile) -> None:
    margin = {"name": "p99 latency", "measured": "14.9", "limit": "15", "unit": "ms", "headroom": "+0.7", "met": True}
    restate(recorded, margins=[margin])
    assert reconcile.report("compare", "HEAD", "HEAD")["pairs"][0]["one"]["headroom"] == 0.7
    assert reconcile("compare", "HEAD", "HEAD")[1].splitlines()[1].endswith("headroom +0.7 %"), "once: both are equal"


def test_compare_names_an_invalid_run_and_diff_has_no_result_of_it(recorded: Path, reconcile: Reconcile) -> None:
    restate(recorded, validity="INVALID")
    first = git(recorded, "rev-list", "--max-parents=0", "HEAD")
    (pair,) = reconcile.report("compare", "HEAD~1", "HEAD")["pairs"]
    assert [pair[side]["validity"] for side in ("one", "other")] == ["VALID", "INVALID"]
    assert pair["one"]["value"] == pair["other"]["value"]
    assert "INVALID" in reconcile("compare", "HEAD~1", "HEAD")[1]
    alone = reconcile.report("compare", "HEAD", first)
    assert (alone["alone"]["HEAD"], alone["invalid"]) == ([CELL], [CELL])
    shown = next(line for line in reconcile("compare", "HEAD", first)[1].splitlines() if CELL in line)
    assert shown.endswith("INVALID")
    (cell,) = reconcile.report("diff", "HEAD~1", "HEAD")["cells"]
    assert (cell["before"] is None, cell["after"]) == (False, None)


def test_compare_when_nothing_meets_lists_what_each_side_has(twice: Path, reconcile: Reconcile) -> None:
    first = git(twice, "rev-list", "--max-parents=0", "HEAD")
    found = reconcile.report("compare", "HEAD", first)
    assert found["pairs"] == []
    assert (found["alone"]["HEAD"], found["stale"][first]) == ([CELL], [])


def test_compare_says_that_a_cell_is_stale_on_the_other_side(twice: Path, reconcile: Reconcile) -> None:
    found = reconcile.report("compare", "HEAD", "HEAD~1")
    assert (found["pairs"], found["alone"]) == ([], {"HEAD": [], "HEAD~1": []})
    assert found["stale"] == {"HEAD": [], "HEAD~1": [CELL]}
    assert reconcile.report("compare", "HEAD~1", "HEAD")["stale"] == {"HEAD": [], "HEAD~1": [CELL]}
    assert reconcile.report("compare", "HEAD~1", "HEAD~1")["stale"] == {"HEAD~1": []}


def test_a_cell_that_is_only_declared_is_not_denied(declared: Path, reconcile: Reconcile) -> None:
    git(declared, "init", "--quiet", "--initial-branch=main")
    for command in ("history", "blame"):
        code, _, err = reconcile(command, "digits")
        assert (code, f"{CELL} is declared, but has no committed result" in err) == (1, True), command
        assert "no cell matches 'digist'" in reconcile(command, "digist")[2]


def test_a_line_is_found_though_others_of_its_file_changed_before_the_commit(
    recorded_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    root = copy_folder(recorded_once, tmp_path / "repository")
    edit(root, "target_qps: 1000", "target_qps: 1200")
    assert console_here(root).code == 0
    edit(root, "  submitter: Tester", "  # a line more\n  submitter: Tester", "Ask for more, and record it")
    monkeypatch.chdir(root)
    out = reconcile.succeed("blame", CELL)
    assert "target_qps" in out
    assert "not committed" not in out
    assert "Ask for more, and record it" in out


def test_two_commits_are_named_in_either_form(
    measured_twice: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(measured_twice)
    assert reconcile("diff", "HEAD~1", "HEAD") == reconcile("diff", "HEAD~1..HEAD")
    assert (
        reconcile("compare", "HEAD~1..HEAD")[1].splitlines()[1:]
        == reconcile("compare", "HEAD~1", "HEAD")[1].splitlines()[1:]
    )
    assert "names two commits already" in reconcile("diff", "HEAD~1..HEAD", "HEAD")[2]
