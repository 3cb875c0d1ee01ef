"""`reconcile adopt` of an Endpoints submission: a curve becomes a spec and records, and is rendered again from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from reconciler.endpoints.importing.point_folder import find_runs
from reconciler.storage.documents import parse_yaml_mapping
from tests.unit.cli.conftest import Reconcile, git
from tests.unit.endpoints.tree.curves import make_curve, make_submission, write_submission
from tests.unit.endpoints.tree.mutations import edit_yaml

CELL = "standardized/box/vllm"
POINTS = (1, 2, 3, 5, 10, 25, 64)
FOLDER = "ACME/pending-submission-id/results/box/gpt-oss-120b"
Adopt = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A submission, as a colleague would send it."""
    return write_submission(tmp_path / "sent", make_submission(make_curve()))


@pytest.fixture
def adopt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Adopt:
    """Into an empty repository, which stays the working directory."""

    def run(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
        root = tmp_path / "mine"
        root.mkdir()
        git(root, "init", "--quiet")
        monkeypatch.chdir(root)
        code = main(["adopt", str(folder), "--json", *words])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out.strip() else {"error": said.err}

    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_nothing_is_left_to_run_and_the_rendering_gives_the_folder_again(sent: Path, adopt: Adopt) -> None:
    code, report = adopt(sent)
    assert (code, report["left_out"], report["cells"]) == (0, {}, 7)
    assert len(report["records"]) == 7 + 2 * 4, "seven performance runs, and accuracy in each region"
    assert main(["plan"]) == 0
    assert main([]) == 0
    assert main(["plan"]) == 0
    tree = Path(".reconcile/tree")
    files = [path.relative_to(sent.parents[1]) for path in sent.rglob("*") if path.is_file()]
    assert len(files) == 35
    other = {str(path) for path in files if (tree / path).read_bytes() != (sent.parents[1] / path).read_bytes()}
    assert other == {f"{FOLDER}/r{point}/system_desc.json" for point in POINTS} == set(report["reproduced"]["equal"])


def test_a_point_whose_files_are_of_another_run_is_refused_with_its_reason(sent: Path, adopt: Adopt) -> None:
    """It stays declared, and `plan` shows it as due; the others are adopted."""
    edit(sent / "results/box/gpt-oss-120b/r5/config.yaml", "target_concurrency: 5", "target_concurrency: 6")
    (sent / "results/box/gpt-oss-120b/r2/result_summary.json").write_text("{")
    code, report = adopt(sent)
    assert code == 2
    reasons = report["left_out"]
    assert "target_concurrency: expected 5, config.yaml says 6" in reasons[f"{CELL}/c5 (performance run)"]
    assert set(reasons) == {f"{CELL}/c5 (performance run)", f"{CELL}/c2 (run)"}
    assert len([item for item in report["records"] if "performance" in item["address"]]) == 5
    assert main(["plan"]) == 2


def test_other_seeds_than_those_of_the_bound_set_are_refused(sent: Path, adopt: Adopt) -> None:
    for point in POINTS:
        config = sent / f"results/box/gpt-oss-120b/r{point}/config.yaml"
        edit(config, "scheduler_random_seed: 10487924139932647040", "scheduler_random_seed: 42")
    code, report = adopt(sent)
    assert (code, report["records"]) == (2, [])
    assert all("scheduler_random_seed: expected 10487924139932647040" in why for why in report["left_out"].values())


def test_a_dedicated_offline_run_is_taken_over_as_one(tmp_path: Path, adopt: Adopt) -> None:
    sent = write_submission(tmp_path / "sent", make_submission(make_curve(dedicated=True)))
    code, report = adopt(sent)
    assert (code, report["left_out"], report["reproduced"]["missing"]) == (0, {}, [])
    assert main(["plan"]) == 0
    assert main([]) == 0
    for name in ("point.yaml", "config.yaml", "result_summary.json", "accuracy_results.json"):
        own = (Path(".reconcile/tree") / FOLDER / "r192" / name).read_bytes()
        assert own == (sent / "results/box/gpt-oss-120b/r192" / name).read_bytes()


def test_an_agentic_curve_is_taken_over_with_the_scores_of_both_its_runs(tmp_path: Path, adopt: Adopt) -> None:
    sent = write_submission(tmp_path / "sent", make_submission(make_curve(agentic=True)))
    code, report = adopt(sent)
    assert (code, report["left_out"], report["reproduced"]["missing"]) == (0, {}, [])
    assert len(report["records"]) == 7 + 2 * 4
    assert main(["plan"]) == 0
    assert main([]) == 0
    for point in POINTS:
        for name in ("point.yaml", "accuracy_results.json"):
            place = Path(FOLDER.replace("gpt-oss-120b", "kimi-k3")) / f"r{point}" / name
            assert (Path(".reconcile/tree") / place).read_bytes() == (sent.parents[1] / place).read_bytes()


def test_a_run_without_salt_is_no_point_of_an_agentic_curve(tmp_path: Path, adopt: Adopt) -> None:
    sent = write_submission(tmp_path / "sent", make_submission(make_curve(agentic=True)))
    edit(sent / "results/box/kimi-k3/r2/config.yaml", "enable_salt: true", "enable_salt: false")
    code, report = adopt(sent)
    assert code == 2
    assert set(report["left_out"]) == {f"{CELL}/c2 (performance run)"}


def test_types_of_node_and_what_a_point_uses_of_them(sent: Path, adopt: Adopt) -> None:
    """By the numbers that they had."""
    for point in POINTS:
        path = sent / f"results/box/gpt-oss-120b/r{point}/system_desc.json"
        described = json.loads(path.read_text())
        first = described["node_types"][0]
        second = {**first, "system_node_ensemble_id": 3, "number_of_nodes": 2, "accelerator_info": []}
        del second["accelerator_info"]
        path.write_text(json.dumps({**described, "node_types": [first, second]}))
    edit_yaml(sent, "r5", nodes_used=[{"system_node_ensemble_id": 3, "nodes": 1}])
    edit_yaml(sent, "r5", dp_shortfall={"dp_actual": 1, "dp_formula": 2, "reason": "one is drained"})
    code, report = adopt(sent)
    assert (code, report["left_out"], report["reproduced"]["differing"]) == (0, {}, [])
    assert f"{FOLDER}/r5/point.yaml" in report["reproduced"]["same"]
    assert main([]) == 0
    shown = json.loads((Path(".reconcile/tree") / FOLDER / "r5/system_desc.json").read_text())
    assert [node["system_node_ensemble_id"] for node in shown["node_types"]] == [0, 3]


def test_what_a_point_says_of_its_warm_up_and_its_drafter_is_kept(sent: Path, adopt: Adopt) -> None:
    warmup = {
        "duration_s": 12.5,
        "requests_issued": 64,
        "requests_completed": 63,
        "data_source": "synthetic",
        "concurrency": 5,
        "initialization_steps": ["graphs captured", "caches filled"],
        "logs_retained": True,
        "link_logs": "https://acme.example/logs",
    }
    edit_yaml(sent, "r5", warmup=warmup, speculative_decoding={"model_id": "drafter", "weight_checksum": "ab" * 32})
    code, report = adopt(sent)
    assert (code, report["left_out"], report["reproduced"]["differing"]) == (0, {}, [])
    assert main(["plan"]) == 0
    assert main([]) == 0
    rendered = (Path(".reconcile/tree") / FOLDER / "r5/point.yaml").read_bytes()
    sent_values = parse_yaml_mapping((sent / "results/box/gpt-oss-120b/r5/point.yaml").read_bytes()).values
    assert parse_yaml_mapping(rendered).values == sent_values
    assert f"{FOLDER}/r10/point.yaml" in report["reproduced"]["same"]


def test_a_declared_lowest_concurrency_is_kept(tmp_path: Path, adopt: Adopt) -> None:
    sent = write_submission(tmp_path / "sent", make_submission(make_curve(min_concurrency=2)))
    code, report = adopt(sent)
    assert (code, report["left_out"]) == (0, {})
    assert "min_concurrency: 2" in next(Path("specs").glob("*.yaml")).read_text()
    assert f"{FOLDER}/r5/point.yaml" in report["reproduced"]["same"]
    assert report["reproduced"]["differing"] == []


def test_a_lowest_concurrency_without_its_point_leaves_the_curve_out(sent: Path, adopt: Adopt) -> None:
    for point in POINTS:
        path = sent / f"results/box/gpt-oss-120b/r{point}/system_desc.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "c_min_override": 4}))
    code, report = adopt(sent)
    assert code == 1
    assert "its c_min_override is 4, but this point does not exist" in report["error"]


def test_accuracy_may_be_measured_at_other_points_than_the_rules_would_choose(sent: Path, adopt: Adopt) -> None:
    """Here at the second of its region, too."""
    top = sent / "results/box/gpt-oss-120b"
    shutil.copyfile(top / "r3/accuracy_results.json", top / "r25/accuracy_results.json")
    code, report = adopt(sent)
    assert (code, report["left_out"]) == (0, {})
    assert f"Run:{CELL}/c25/accuracy" in {item["address"] for item in report["records"]}
    assert "accuracy_points: [1, 3, 10, 25, 64]" in next(Path("specs").glob("*.yaml")).read_text()
    assert main(["plan"]) == 0


def test_points_may_differ_in_what_they_disclose(sent: Path, adopt: Adopt) -> None:
    described = sent / "results/box/gpt-oss-120b/r64/system_desc.json"
    edit(described, '"tensor_parallel": 8', '"tensor_parallel": 4')
    edit(sent / "results/box/gpt-oss-120b/r5/point.yaml", "model_precision: FP8", "model_precision: FP4")
    assert adopt(sent)[0] == 0
    assert main([]) == 0
    top = Path(".reconcile/tree") / FOLDER
    assert (top / "r5/point.yaml").read_bytes() == (sent / "results/box/gpt-oss-120b/r5/point.yaml").read_bytes()
    found = {
        name: json.loads((top / name / "system_desc.json").read_text())["tensor_parallel"] for name in ("r25", "r64")
    }
    assert found == {"r25": 8, "r64": 4}


def test_a_rehearsal_stays_one(tmp_path: Path, adopt: Adopt) -> None:
    sent = write_submission(tmp_path / "sent", make_submission(make_curve(rehearsal=True)))
    code, report = adopt(sent)
    assert code == 1
    assert "--rehearsal" in report["error"]
    assert not list(Path("specs").glob("*")) if Path("specs").is_dir() else True
    shutil.rmtree(Path.cwd())
    code, report = adopt(sent, "--rehearsal")
    assert (code, report["left_out"]) == (0, {})
    assert main([]) == 0
    point = (Path(".reconcile/tree") / FOLDER / "r5/point.yaml").read_bytes()
    assert point == (sent / "results/box/gpt-oss-120b/r5/point.yaml").read_bytes()
    assert b"rehearsal: true" in point


def test_there_is_one_version_of_the_rules_to_declare_for(sent: Path, adopt: Adopt) -> None:
    code, report = adopt(sent, "--round", "v6.1")
    assert code == 1
    assert "curves can be declared for v1.0 alone" in report["error"]


def test_of_several_submissions_one_is_named(tmp_path: Path, sent: Path, adopt: Adopt) -> None:
    shutil.copytree(sent.parent, sent.parents[1] / "Other")
    code, report = adopt(sent.parents[1])
    assert code == 1
    assert "2 submissions: ACME (pending-submission-id), Other (pending-submission-id)" in report["error"]
    shutil.rmtree(Path.cwd())
    code, report = adopt(sent.parents[1], "--submitter", "Other")
    assert (code, report["spec"]) == (0, "specs/other.yaml")


def test_what_leads_out_of_the_folder_is_not_read(sent: Path, adopt: Adopt) -> None:
    summary = sent / "results/box/gpt-oss-120b/r5/result_summary.json"
    summary.rename(sent.parents[1] / "elsewhere.json")
    summary.symlink_to(sent.parents[1] / "elsewhere.json")
    code, report = adopt(sent)
    assert code == 2
    assert f"{CELL}/c5 (run)" in report["left_out"]
    assert len([item for item in report["records"] if "performance" in item["address"]]) == 6


def test_a_point_is_imported_from_the_folder_that_the_client_reported_into(
    sent: Path, tmp_path: Path, adopt: Adopt, reconcile: Reconcile
) -> None:
    """A performance phase of one sample, which comes before an accuracy run, is no run of the point."""
    top = sent / "results/box/gpt-oss-120b/r3"
    report = tmp_path / "report"
    for part, name in {"performance": "result_summary.json", "accuracy": "accuracy_results.json"}.items():
        (report / part).mkdir(parents=True)
        shutil.copyfile(top / name, report / part / name)
    shutil.copyfile(top / "config.yaml", report / "config.yaml")
    (top / "result_summary.json").unlink()
    assert adopt(sent)[0] == 2
    assert main(["plan"]) == 2
    records = reconcile.report("import", str(report), "--cell", "c3", ends=0)["records"]
    recorded = [item["address"] for item in records]
    assert recorded == [f"Run:{CELL}/c3/performance", f"Run:{CELL}/c3/accuracy", f"Score:{CELL}/c3"]
    assert main(["plan"]) == 0
    edit(report / "config.yaml", "n_samples_to_issue: 192", "n_samples_to_issue: 1")
    assert [run.mode for run in find_runs(report)] == ["accuracy"]
    err = reconcile.refuse("import", str(top), "--cell", "c1")
    assert "target_concurrency: expected 1, config.yaml says 3" in err
    err = reconcile.refuse("import", str(top), "--cell", "c5")
    assert "c5 uses the accuracy run of another point" in err
