"""What the reporting commands say of a real repository with one recorded cell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest

from reconciler.execute.executors.executor import Handle, write_handle
from reconciler.resource.queues import QUEUES
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.packaged_files import read_shipped
from tests.unit.cli.conftest import CELL, Reconcile, commit, edit, git
from tests.warm.commands import start_command


def check_plan(text: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(text)
    jsonschema.validate(document, json.loads(read_shipped("schemas/plan.schema.json")))
    return document


def test_plan_as_json_fits_its_schema(recorded: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("plan", "--json")
    document = check_plan(out)
    assert (code, document["in_sync"], document["steps"]) == (0, True, [])
    assert [cell["cell"] for cell in document["cells"]] == [CELL]  # type: ignore[attr-defined]
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    code, out, _ = reconcile("plan", "--json")
    assert code == 2
    steps = check_plan(out)["steps"]
    changed = [item for step in steps for item in step["inputs"] if item["name"] == "target_qps"]  # type: ignore[attr-defined]
    assert {(item["before"], item["after"]) for item in changed} == {(1000, 2000)}


def test_a_damaged_record_that_no_cell_uses_is_shown_by_status(recorded: Path, reconcile: Reconcile) -> None:
    path = next((recorded / "state/records/Run").iterdir())
    path.with_stem("0" * len(path.stem)).write_text("junk")
    code, out, _ = reconcile("status")
    assert (code, "1 cell ready." in out) == (2, True)
    assert out.splitlines()[-1].startswith("      fix: the next pass restores it")
    assert out.splitlines()[-2] in reconcile("plan")[1].splitlines()
    assert reconcile()[0] == 0
    assert reconcile("status")[0] == 0


def test_check_says_that_the_tree_is_from_before_an_edit(recorded: Path, reconcile: Reconcile) -> None:
    before = reconcile("check")[1]
    assert "not in sync" not in before
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    assert "not in sync" in reconcile("check")[1]


def test_plan_is_saved_applied_once_and_then_stale(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    code, out, _ = reconcile("plan", "-o", "p.json")
    assert (code, "reconcile apply p.json" in out) == (2, True)
    check_plan((recorded / "p.json").read_text())
    report = reconcile.report("apply", "p.json", ends=0)
    assert (report["version"], report["in_sync"], report["remaining"]) == (1, True, [])
    assert {outcome["status"] for outcome in report["outcomes"]} == {"Done"}
    assert "fix: plan again" in reconcile.refuse("apply", "p.json")


def test_apply_refuses_what_is_no_plan(recorded: Path, reconcile: Reconcile) -> None:
    for name in ("none.json", "plans/none.plan"):
        assert f"no such plan file: {name}\n" in reconcile.refuse("apply", name)
    assert "no cell matches 'open/zzz'\n" in reconcile.refuse("apply", "open/zzz")
    (recorded / "odd.json").write_text("{}")
    assert "not a saved plan" in reconcile.refuse("apply", "odd.json")


def test_selectors(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    assert "left out by the selection" in reconcile.succeed("plan", "--exclude", "scenario=Offline")
    out = reconcile.succeed("plan", "--exclude", "scenario=Offline", "--exclude", "scenario=Server")
    assert "left out by the selection" in out
    assert reconcile("plan", "--exclude", "scenario=Offline system=other")[0] == 2
    assert reconcile("plan", CELL)[0] == reconcile("why", CELL)[0] == 2
    assert reconcile("plan", "scenario=Server", "scenario=off*")[0] == 2
    assert reconcile("plan", "scenario=off*")[0] == 2
    assert "benchmark: digits" in reconcile.refuse("plan", "benchmark=dgits")
    assert "did you mean 'benchmark'?" in reconcile.refuse("plan", "benchmarc=digits")


def test_status(recorded: Path, reconcile: Reconcile) -> None:
    cell = reconcile.report("status", ends=0)["cells"][0]
    assert (cell["ready"], cell["validity"], cell["marks"]) == (True, "VALID", ["rehearsal", "synthetic"])
    assert cell["metric"]["unit"] == "samples/s"


def test_why_begins_with_what_was_edited_not_with_what_it_needs(recorded: Path, reconcile: Reconcile) -> None:
    for folder in ("objects", "scratch"):
        shutil.rmtree(recorded / ".reconcile" / folder, ignore_errors=True)
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    report = reconcile.report("why", "offline")
    assert report["causes"] == [f"Run:{CELL}/performance"]
    assert "Dataset" in report["chain"]


def test_why_names_every_edit_of_one_commit(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 2000")
    edit(recorded, "epochs: 1", "epochs: 2")
    made = commit(recorded, "Edit both")
    _, text, _ = reconcile("why", "offline")
    report = reconcile.report("why", "offline")
    assert report["causes"] == ["Model:digits", f"Run:{CELL}/performance"]
    head, _, _ = text.partition("To do:")
    assert "epochs 1 → 2" in head
    assert "target_qps 1000 → 2000" in head
    assert head.count(made[:7]) == 2


@pytest.mark.parametrize("name", ["target_qps", "min_query_count"])
def test_a_change_is_of_one_value_not_of_its_line(recorded: Path, reconcile: Reconcile, name: str) -> None:
    text = (recorded / "specs/one.yaml").read_text()
    (recorded / "specs/one.yaml").write_text(text.replace(f"{name}: ", f"{name}: 1"))
    made = commit(recorded)
    edit(recorded, "Offline: {", "Offline:  {", "Move the values of the line")
    links = {link["address"]: link for link in reconcile.report("why", "digits")["links"]}
    line = links[f"Run:{CELL}/performance"]["line"]
    assert (line["name"], line["changed_by"]["commit"]) == (name, made)
    first = git(recorded, "rev-list", "--max-parents=0", "HEAD")
    assert links[f"Run:{CELL}/accuracy"]["line"]["changed_by"]["commit"] == first


def test_show(recorded: Path, reconcile: Reconcile) -> None:
    report = reconcile.report("show", CELL, ends=0)
    places = [report["settings"][name]["origin"] for name in ("engine.batch_size", "submitter", "system.name")]
    assert places == ["specs/one.yaml:19", "specs/one.yaml:7", "specs/one.yaml:10"]
    paths = [file["path"] for resource in report["resources"] for file in resource["files"] if file["present"]]
    assert paths
    assert all((recorded / path).is_file() for path in paths)
    assert all(
        (recorded / "state/records" / f"{r['record']}.json").is_file() for r in report["resources"] if r["record"]
    )


def test_show_lists_no_key_of_what_a_resource_is_made_from(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "min_query_count: 512", "min_query_count: 512, compliance: {TEST01: {}, TEST04: {}}")
    report = reconcile.report("show", CELL)
    assert {r["address"].partition(":")[0] for r in report["resources"]} >= {"ComplianceTest", "Verdict"}
    keys = {resource["key"] for resource in report["resources"]}
    listed = report["settings"]
    assert not [name for name, setting in listed.items() if setting["value"] in keys]
    assert not {"audit", "verdict.TEST01", "verdict.TEST04"} & listed.keys()
    assert listed["target_qps"]["value"] == 1000


def test_logs(recorded: Path, reconcile: Reconcile) -> None:
    assert "performance/mlperf_log_summary.txt" in reconcile.succeed("logs", CELL)
    code, out, err = reconcile("logs", CELL, "--print", "mlperf_log_summary.txt")
    assert (code, "MLPerf Results Summary" in out) == (0, True)
    assert err.startswith("performance/mlperf_log_summary.txt of record Run/")
    assert "did you mean" in reconcile.refuse("logs", CELL, "--print", "mlperf_summary.txt")


def test_gc_leaves_alone_what_a_queue_was_given(recorded: Path, reconcile: Reconcile) -> None:
    """A pass that was interrupted leaves its jobs to their queue, which need their folders for hours yet."""
    attempts = [recorded / ".reconcile" / below for below in ("attempts", "trials/attempts")]
    for folder in attempts:
        for name, executor in (("queued", next(iter(QUEUES))), ("lost", "local")):
            (folder / name).mkdir(parents=True)
            (folder / name / "request.json").write_text("{}")
            write_handle(Handle(executor, folder / name, name))
    (recorded / ".reconcile/trials/notes").mkdir()
    assert "2 lost attempts" in reconcile("gc")[1]
    reconcile("gc", "--trials")
    left = [sorted(path.name for path in folder.glob("*/*")) for folder in attempts]
    assert left == [["handle.json", "request.json"]] * 2
    assert [path.name for path in (recorded / ".reconcile/trials").iterdir()] == ["attempts"]


def test_gc_keeps_what_another_branch_names(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "checkout", "--quiet", "-b", "without", "HEAD~1")
    assert reconcile("gc")[1].startswith("Nothing to remove")


@pytest.mark.parametrize("arguments", [(), ("specs/one.yaml",), ("benchmark=digits",)])
def test_validate_and_status_at_the_start(declared: Path, arguments: tuple[str, ...], reconcile: Reconcile) -> None:
    code, out, _ = reconcile("status", *arguments)
    assert (code, out.splitlines()[1].split()[1:7]) == (2, ["no", "?", "no", "?", "no", "no"])


def test_commands_work_from_below_the_root(declared: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("-C", "specs", "validate", "one.yaml")
    assert (code, out.startswith("Valid: specs/one.yaml (1 cell, 7 resources, round v6.1).")) == (0, True)


def test_a_broken_spec_exits_1_with_every_line(declared: Path, reconcile: Reconcile) -> None:
    edit(declared, "status: available", "status: avialable")
    edit(declared, "target_qps: 1000", "target_qbs: 1000")
    for command in ("validate", "plan", "status"):
        err = reconcile.refuse(command)
        assert "specs/one.yaml:12:15:" in err
        assert "specs/one.yaml:24:" in err
        assert "problems in the spec" in err
    report = reconcile.report("validate", ends=1)
    assert (report["valid"], {p["line"] for p in report["problems"]}) == (False, {12, 24})


@pytest.mark.parametrize("command", ["validate", "plan", "why x", "apply", ""])
def test_a_broken_spec_is_a_document_too(command: str, declared: Path, reconcile: Reconcile) -> None:
    edit(declared, "status: available", "status: avialable")
    report = reconcile.report(*command.split(), ends=1)
    assert (report["report"], report["valid"]) == ((command or "pass").split()[0], False)
    (problem,) = report["problems"]
    assert (problem["file"], problem["line"], bool(problem["fix"])) == ("specs/one.yaml", 12, True)


def test_a_plan_on_standard_output_can_be_applied(declared: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("plan", "--only", "Dataset", "-o", "-")
    assert (code, (declared / "-").exists()) == (2, False)
    (declared / "plan.json").write_text(out)
    assert [step["address"] for step in json.loads(out)["steps"]] == ["Dataset:digits"]
    assert reconcile("apply", "plan.json", "--only", "Dataset")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_signal_stops_and_the_next_pass_goes_on(declared: Path, reconcile: Reconcile, number: signal.Signals) -> None:
    words = ["--only", "Dataset", "--only", "Model"]
    with start_command(words, declared, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "Model: create" in line:
                child.send_signal(number)
        assert child.stderr is not None
        said = child.stderr.read()
    assert child.returncode == 130
    assert "1 step done and kept" in said
    code, out, _ = reconcile("plan", "--only", "Dataset", "--only", "Model")
    assert code == 2
    assert "Dataset" not in out


def test_two_passes_at_once(declared: Path, reconcile: Reconcile) -> None:
    here = f"is running (process {os.getpid()})\n"
    with Lock(RepositoryPaths(declared).pass_lock, purpose="pass over this repository").acquire():
        fix = "fix: wait for it with `reconcile --wait 600`, or try again when it has ended\n"
        assert reconcile() == (1, "", f"error: cannot start: another pass over this repository {here}{fix}")
        assert "wait for it with `reconcile apply --wait 600`" in reconcile.refuse("apply")
        fix = "fix: try again when it has ended\n"
        assert reconcile("gc") == (1, "", f"error: cannot start: a pass over this repository {here}{fix}")


def test_why_names_commit_author_and_line_at_each_step_of_the_chain(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    git(recorded, "commit", "--quiet", "--all", "--author=Ada <ada@acme.com>", "--message", "Ask for more")
    asked = git(recorded, "rev-parse", "HEAD")
    assert reconcile("--commit")[0] == 0
    made = git(recorded, "rev-parse", "HEAD")
    links = {link["address"]: link for link in reconcile.report("why", "digits")["links"]}
    kinds = [address.partition(":")[0] for address in links]
    assert kinds == ["Submission", "Result", "Score", "Run", "Run", "Model", "Dataset"]
    assert links["Submission:one"]["made_from"] == [f"Result:{CELL}"]
    run = links[f"Run:{CELL}/performance"]
    assert run["recorded_by"]["commit"] == made
    assert (run["line"]["name"], run["line"]["value"]) == ("target_qps", 1100)
    assert (run["line"]["changed_by"]["author"], run["line"]["changed_by"]["commit"]) == ("Ada", asked)
    assert "target_qps: 1100" in (recorded / run["line"]["file"]).read_text().splitlines()[run["line"]["line"] - 1]
    model = links["Model:digits"]
    assert model["recorded_by"]["commit"] == git(recorded, "rev-parse", "HEAD~2")
    assert model["line"]["changed_by"]["commit"] == git(recorded, "rev-parse", "HEAD~3")
    out = reconcile("why", "digits")[1]
    assert f"committed in {made[:7]}, " in out
    assert f"{asked[:7]}, Ada, " in out
    assert "shallow" not in out


def test_why_of_what_is_not_committed_says_so(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    links = reconcile.report("why", "digits")["links"]
    run = next(link for link in links if link["address"].endswith("/performance"))
    assert run["due"] == "InputChanged"
    assert run["line"]["name"] == "target_qps"
    assert run["line"]["changed_by"] is None
    assert run["recorded_by"]["commit"] == git(recorded, "rev-parse", "HEAD")


def test_status_and_plan_report_the_pass_that_is_under_way(recorded: Path, reconcile: Reconcile) -> None:
    paths = RepositoryPaths(recorded)
    paths.log.mkdir(parents=True, exist_ok=True)
    lines = [
        {"time": "2026-01-02T10:11:12.000+00:00", "message": "pass began"},
        {"message": "planned", "steps": 30},
        {"message": "steps due", "due": [["a", 1.0], ["b", None], ["c", None]]},
        {"message": "step started", "resource": f"Run:{CELL}/accuracy"},
        {"message": "step ended", "resource": f"Run:{CELL}/accuracy"},
        {"message": "step started", "resource": f"Run:{CELL}/performance"},
    ]
    log = paths.log / f"20990102T101112.000000-{os.getpid()}.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"message": "st')
    with Lock(paths.pass_lock, purpose="pass over this repository").acquire():
        for command in ("status", "plan"):
            out = reconcile(command)[1]
            assert f"A pass is under way (process {os.getpid()}, since 10:11:12 UTC): 1 of 3 steps ended" in out
            assert f"now Run:{CELL}/performance" in out
    assert "under way" not in reconcile("status")[1]
    with Lock(paths.pass_lock, purpose="collection of unnamed files").acquire():
        assert "A pass is under way" not in reconcile("status")[1]


@pytest.mark.parametrize(
    "words",
    [("plan", "-q"), ("-q", "plan"), ("--quiet",), ("status", "--quiet"), ("show", "-q", "digits")],
    ids=" ".join,
)
@pytest.mark.usefixtures("recorded")
def test_where_all_is_well_nothing_is_said(words: tuple[str, ...], reconcile: Reconcile) -> None:
    assert reconcile(*words) == (0, "", "")


def test_what_is_not_in_sync_is_reported_as_ever(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "batch_size: 8", "batch_size: 16")
    assert reconcile("plan", "-q") == reconcile("plan")
    assert reconcile("plan", "-q")[0] == 2


@pytest.mark.usefixtures("recorded")
def test_what_was_asked_for_is_written(reconcile: Reconcile) -> None:
    code, out, err = reconcile("-q", "plan", "--json")
    assert (code, json.loads(out)["in_sync"], err) == (0, True, "")
    _, out, _ = reconcile("logs", "digits", "-q", "--print", "performance/mlperf_log_summary.txt")
    assert "MLPerf Results Summary" in out


@pytest.mark.usefixtures("recorded")
def test_one_quiet_command_leaves_the_next_as_it_is(reconcile: Reconcile) -> None:
    reconcile("-q", "status")
    assert CELL.split("/")[-1] in reconcile("status")[1]
