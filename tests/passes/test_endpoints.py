"""Results of the endpoints harness: as good as LoadGen's logs, and believed as little."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.engine import check_tree
from reconciler.cli.main import main
from reconciler.diff.claims import Proof
from reconciler.diff.conditions import summarise_cells
from reconciler.errors import SpecError
from reconciler.execute.outcome import Status
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.reconcile.planning import PlanResult
from reconciler.record.judgements import judge_record
from reconciler.resource.conditions import CellStatus, ConditionStatus
from reconciler.resource.kinds import Address
from reconciler.resource.records import Ended, Record
from reconciler.verify.engine import verify_tree
from tests.passes.endpoints import with_endpoints
from tests.passes.repository import SPEC, Repository
from tests.shared import make_once

CELL = "open/box/llama3.1-8b/Offline"
RUN, ACCURACY = f"Run:{CELL}/performance", f"Run:{CELL}/accuracy"
SUMMARY = "result_summary.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """After a first pass with an honest command."""
    return make_once(tmp_path_factory, "endpoints", _measure)


def _measure(folder: Path) -> Repository:
    repository = with_endpoints(folder / "repository")
    outcomes = repository.reconcile().outcomes
    assert {o.status for o in outcomes} == {Status.DONE}, [o.message for o in outcomes]
    return repository


def record_of(repository: Repository, address: str, ended: Ended = Ended.DONE) -> Record:
    return next(r for r in repository.records().values() if str(r.address) == address and r.ended is ended)


def summary_of(repository: Repository) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(repository.log_of(RUN, SUMMARY).read_bytes())
    return found


def test_the_metric_is_that_of_the_counts(made: Repository) -> None:
    values, stated = record_of(made, RUN).values, summary_of(made)
    assert values["validity"] == "VALID"
    rate = stated["output_sequence_lengths"]["total"] * 1e9 / stated["duration_ns"]
    assert values["metric"]["unit"] == "tokens/s"
    assert float(values["metric"]["value"]) == pytest.approx(rate)


def test_its_score_is_compared_with_the_bars_of_its_name(made: Repository) -> None:
    values = record_of(made, f"Score:{CELL}").values
    assert values["metric"] == {"value": "39.1", "unit": "ROUGE1"}
    assert {bar["metric"] for bar in values["bars"]} == {"ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM"}
    assert values["accuracy_met"]


def test_the_length_of_all_answers_binds_what_is_no_rehearsal(made: Repository, tmp_path: Path) -> None:
    """It is that of the whole dataset, which a rehearsal does not have."""
    real = made.copy(tmp_path / "real")
    real.edit(SPEC, "rehearsal: true", "rehearsal: false")
    real.edit(SPEC, "min_duration: 0", "min_duration: 600 s")
    score = Address.parse(f"Score:{CELL}")
    bars = [{bar.metric for bar in r.look().desired.detail(score).ruling.bars} for r in (made, real)]
    assert bars[1] - bars[0] == {"GEN_LEN"}


def test_the_tree_has_the_harness_files_and_none_of_loadgen(made: Repository) -> None:
    top = f"open/ACME/results/box/{CELL.partition('box/')[2]}/"
    own = {path.removeprefix(top) for path in made.tree() if path.startswith(top)}
    files = {"config.yaml", f"performance/{SUMMARY}", "accuracy/accuracy_results.json"}
    assert own == {*files, "measurements.json", "README.md"}
    shown = made.paths.tree / top / "performance" / SUMMARY
    assert shown.read_bytes() == made.log_of(RUN, SUMMARY).read_bytes()
    assert "user.conf" not in (made.paths.tree / top / "README.md").read_text(encoding="utf-8")


def test_an_accuracy_run_is_given_what_the_performance_run_is(made: Repository) -> None:
    """Nothing hangs on it there, but the harness reads it of its configuration."""
    asked = [made.log_of(address, "config.yaml").read_text(encoding="utf-8") for address in (RUN, ACCURACY)]
    for line in ("target_qps: 100.0", "min_duration_ms: 0", "n_samples_to_issue: 40"):
        assert all(line in text for text in asked), line


def test_check_and_verify_tree_know_it(made: Repository) -> None:
    report = check_tree(made.paths.tree, round_name="v6.1")
    found = {finding.rule.id for finding in report.findings if finding.rule.id.startswith("endpoints.")}
    assert found == {"endpoints.duration"}, "a rehearsal is shorter than the round asks"
    stated = summary_of(made)
    (facts,) = report.facts
    assert (facts.harness, facts.unit) == ("endpoints", "tokens/s")
    assert facts.metric == pytest.approx(stated["tps"])
    contradictions = {finding.rule.id for finding in verify_tree(made.paths.tree, round_name="v6.1").findings}
    assert contradictions == {"measurements.rehearsal"}, "it says what it is, and nothing else is wrong"


def test_a_second_pass_does_nothing(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    assert not repository.reconcile().outcomes
    assert not repository.look().plan.steps
    assert not repository.damage()


def test_one_line_of_its_code_makes_exactly_its_runs_stale(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    repository.edit("ours/serve.py", "all is well", "all is very well")
    due = {str(step.change.address) for step in repository.look().plan.steps}
    assert due == {RUN, ACCURACY, f"Score:{CELL}", f"Result:{CELL}"}


def test_the_target_is_the_performance_runs_alone(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.edit(SPEC, "target_qps: 100}", "target_qps: 120}")
    due = {str(step.change.address) for step in repository.look().plan.steps if step.change.address.cell}
    assert due == {RUN, f"Result:{CELL}"}


def test_token_limits_make_a_server_run_invalid(tmp_path: Path) -> None:
    repository = with_endpoints(tmp_path)
    repository.edit(SPEC, "Offline: {target_qps: 100}", "Server: {target_qps: 100}")
    slow = '"tpot": series([l // TOKENS + 200_000_000 for l in latencies])'
    repository.edit("ours/serve.py", '"tpot": series([l // TOKENS for l in latencies])', slow)
    repository.reconcile()
    values = record_of(repository, RUN.replace("Offline", "Server")).values
    assert values["validity"] == "INVALID"
    assert [reason.partition(":")[0] for reason in values["reasons"]] == ["p99 tpot"]
    assert values["metric"]["unit"] == "tokens/s"


# The field of the run that a refusal names.
LIES = {
    "old results": "start",
    "stated start": "start",
    "other scenario": "scenario",
    "other mode": "mode",
    "other model": "model",
    "other target": "target_qps",
    "wrong seeds": "sample_index_rng_seed",
    "two sets": "result sets",
    "no results": "result sets",
    "interrupted": "end",
    "broken": "result_summary.json",
}
WRONG = {
    "old results, new times": ("run.duration",),
    "faster than it was": ("summary.counts",),
    "samples lost": ("summary.counts",),
}


def lie_in(made: Repository, tmp_path: Path, lie: str) -> Repository:
    """A copy whose performance run is due, by a command that lies."""
    repository = made.copy(tmp_path / "copy")
    for path in repository.record_paths(RUN):
        path.unlink()
    old = tmp_path / "old"
    for name, text in (("config.yaml", "config.yaml"), (f"performance/{SUMMARY}", SUMMARY)):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        data = made.log_of(RUN, text).read_text(encoding="utf-8")
        # As a run of a full length would have left it.
        stated = summary_of(made)
        long = {"duration_ns": 600 * 10**9, "qps": 40 / 600, "tps": stated["output_sequence_lengths"]["total"] / 600}
        (old / name).write_text(data if name == text else json.dumps({**json.loads(data), **long}), encoding="utf-8")
    reported = f'        env: {{LIE: "{lie}", OLD: "{old}"}}\n        code: ours\n'
    repository.edit(SPEC, "        code: ours\n", reported)
    return repository


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_by_name_and_its_results_are_kept(made: Repository, tmp_path: Path, lie: str) -> None:
    repository = lie_in(made, tmp_path, lie)
    failed = {str(o.step.change.address): o for o in repository.reconcile().outcomes if o.status is Status.FAILED}
    assert f"{LIES[lie]}:" in failed[RUN].message
    kept = [a for a in record_of(repository, RUN, Ended.FAILED).artifacts if a.name.endswith("config.yaml")]
    assert len(kept) == {"no results": 0, "two sets": 2}.get(lie, 1)
    assert all(repository.object_path(artifact.sha256).is_file() for artifact in kept)
    assert not repository.damage()


@pytest.mark.parametrize("lie", WRONG)
def test_contradictory_results_are_recorded_with_a_finding(made: Repository, tmp_path: Path, lie: str) -> None:
    repository = lie_in(made, tmp_path, lie)
    report = repository.reconcile()
    ((identity, record),) = repository.records_of(RUN).items()
    assert record.ended is Ended.DONE
    judgement = judge_record(repository.paths, identity)
    assert {item.rule for item in judgement.findings} >= set(WRONG[lie])
    assert standing(report.after).ready is ConditionStatus.FALSE


def standing(seen: PlanResult) -> CellStatus:
    cells = summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference)
    return next(cell for cell in cells if str(cell.cell) == CELL)


def test_an_audit_of_a_commit_derives_it_again(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.write(".gitignore", "/.reconcile/\n")
    repository.commit()
    report = audit(repository.root, read_snapshot(repository.root, "HEAD"))
    claims = {(claim.what, claim.proof) for claim in report.claims}
    proven = {what for what, proof in claims if proof is Proof.PROVEN}
    assert {"performance: settings", "performance: metric", "performance: validity", "accuracy: settings"} <= proven
    assert "rendered tree" in proven
    assert ("accuracy", Proof.ATTESTED) in claims
    assert not {what for what, proof in claims if proof in (Proof.MISSING, Proof.CONTRADICTED)}


def elsewhere(root: Path) -> Repository:
    """A repository whose cell is measured by somebody else's endpoints harness."""
    repository = with_endpoints(root)
    spec = (root / SPEC).read_text(encoding="utf-8")
    start, end = spec.index("      harness:\n"), spec.index("      model:")
    own = "      code: external\n      engine: {backend: external}\n"
    own += "      harness: {results: endpoints, model_name: tiny-llm}\n"
    repository.write(SPEC, spec[:start] + own + spec[end:])
    repository.write(".gitignore", "/.reconcile/\n")
    repository.commit()
    return repository


def report_of(made: Repository, folder: Path) -> Path:
    """The folder that the harness reported into, with both runs."""
    names = {
        "config.yaml": (RUN, "config.yaml"),
        f"performance/{SUMMARY}": (RUN, SUMMARY),
        "accuracy/accuracy_results.json": (ACCURACY, "accuracy_results.json"),
    }
    for name, (address, artifact) in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(made.log_of(address, artifact).read_bytes())
    return folder


def test_foreign_results_are_imported(made: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository, report = elsewhere(tmp_path / "mine"), report_of(made, tmp_path / "report")
    assert main(["-C", str(repository.root), "import", str(report), "--cell", "Offline", "--json"]) == 0
    taken = json.loads(capsys.readouterr().out)["records"]
    assert [item["address"] for item in taken] == [ACCURACY, f"Score:{CELL}", RUN]
    assert record_of(repository, RUN).values["metric"] == record_of(made, RUN).values["metric"]
    assert main(["-C", str(repository.root), "apply"]) == 0
    assert not repository.look().plan.steps
    top = f"open/ACME/results/box/{CELL.partition('box/')[2]}/"
    for name in ("config.yaml", f"performance/{SUMMARY}", "accuracy/accuracy_results.json"):
        assert repository.tree()[top + name] == made.tree()[top + name]


def test_results_of_others_are_not(made: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository, report = elsewhere(tmp_path / "mine"), report_of(made, tmp_path / "report")
    repository.edit(SPEC, "target_qps: 100}", "target_qps: 120}")
    assert main(["-C", str(repository.root), "import", str(report), "--cell", "Offline"]) == 1
    assert "target_qps: expected 120, config.yaml says 100.0 (line 6)" in capsys.readouterr().err
    repository.edit(SPEC, "harness: {results: endpoints, model_name: tiny-llm}", "run: {}")
    assert main(["-C", str(repository.root), "import", str(report), "--cell", "Offline"]) == 1
    assert "needs LoadGen's logs" in capsys.readouterr().err


def test_a_tree_of_results_is_adopted(made: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = tmp_path / "sent"
    shutil.copytree(made.paths.tree, sent)
    system = sent / "open/ACME/systems/box.json"
    values = json.loads(system.read_text(encoding="utf-8"))
    system.write_text(json.dumps({name: value or "stated" for name, value in values.items()}), encoding="utf-8")
    mine = Repository(tmp_path / "mine")
    mine.write(".gitignore", "/.reconcile/\n")
    mine.commit()
    assert main(["-C", str(mine.root), "adopt", str(sent), "--rehearsal", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["cells"], len(report["records"]), report["left_out"]) == (1, 3, {})
    same = {Path(path).name for path in report["reproduced"]["same"]}
    assert {"config.yaml", SUMMARY, "accuracy_results.json", "measurements.json"} <= same
    assert main(["-C", str(mine.root), "plan"]) == 0


WAN = "closed/box/wan-2.2-t2v-a14b/"


def with_audit(root: Path, environment: str) -> Repository:
    """A benchmark of which the round wants TEST04 in the closed division."""
    repository = with_endpoints(root)
    spec = (root / SPEC).read_text(encoding="utf-8")
    for old, new in (
        *(("llama3.1-8b", "wan-2.2-t2v-a14b"), ("tiny-llm", "wan22"), ("    open:", "    closed:")),
        ("Offline: {target_qps: 100}", "Offline: {target_qps: 100}\n          SingleStream: {}"),
        ("        code: ours\n", f"        env: {{{environment}}}\n        code: ours\n"),
    ):
        spec = spec.replace(old, new)
    repository.write(SPEC, spec)
    return repository


def test_a_compliance_test_comes_with_its_run(tmp_path: Path) -> None:
    repository = with_audit(tmp_path, "AUDIT: honest, ALONE: 1")
    assert {o.status for o in repository.reconcile().outcomes} == {Status.DONE}
    for scenario, unit in (("Offline", "samples/s"), ("SingleStream", "s")):
        values = record_of(repository, f"Run:{WAN}{scenario}/performance").values
        assert (values["validity"], values["reasons"], values["metric"]["unit"]) == ("VALID", [], unit)
        assert values["audits"] == {"output_caching_test": True}
        top = f"closed/ACME/results/{WAN.removeprefix('closed/')}{scenario}/"
        audits = {path.removeprefix(top) for path in repository.tree() if path.startswith(f"{top}audit/")}
        assert audits == {"audit/audit_output_caching_test.json"}
    findings = check_tree(repository.paths.tree, round_name="v6.1").findings
    assert not [f for f in findings if f.rule.id in ("endpoints.audits", "endpoints.scenario", "endpoints.metric")]
    assert not repository.look().plan.steps


@pytest.mark.parametrize(
    ("environment", "reason"),
    [("ALONE: 1", "TEST04: the round asks for audit/audit_output_caching_test.json"),
     ("AUDIT: cached, ALONE: 1", "TEST04: output_caching_test failed")],
)  # fmt: skip
def test_a_run_without_a_passing_compliance_test_is_invalid(tmp_path: Path, environment: str, reason: str) -> None:
    repository = with_audit(tmp_path, environment)
    repository.reconcile()
    values = record_of(repository, f"Run:{WAN}Offline/performance").values
    assert values["validity"] == "INVALID"
    assert values["reasons"][0].startswith(reason)


def test_a_compliance_test_is_judged_from_its_phases(tmp_path: Path) -> None:
    repository = with_audit(tmp_path, "AUDIT: cached, ALONE: 1, LIE: said to pass")
    repository.reconcile()
    (identity,) = repository.records_of(f"Run:{WAN}Offline/performance")
    assert {item.rule for item in judge_record(repository.paths, identity).findings} == {"audit.phases"}


OFFLINE = "Offline: {target_qps: 100}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("        model_name: tiny-llm\n", "", "model of the results is not declared", id="no model"),
        pytest.param(
            "  benchmarks:\n    llama3.1-8b:\n",
            "  benchmarks:\n    llama3.1-8b:\n      as: resnet\n",
            "does not accept results of the endpoints harness for resnet",
            id="another benchmark",
        ),
        pytest.param(
            OFFLINE,
            "Offline: {target_qps: 100, compliance: [TEST06]}",
            "TEST06 is part of the endpoints harness",
            id="a test",
        ),
        pytest.param(
            OFFLINE,
            "Offline: {target_qps: 100, power: measured}",
            "a power measurement needs LoadGen's logs",
            id="power",
        ),
        pytest.param(
            OFFLINE,
            "SingleStream: {}\n          Offline: {infer_from: SingleStream}",
            "cannot be used to infer another scenario",
            id="inferred",
        ),
    ],
)
def test_a_spec_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    repository = with_endpoints(tmp_path)
    repository.edit(SPEC, old, new)
    with pytest.raises(SpecError) as raised:
        repository.look()
    assert message in "\n".join(map(str, raised.value.problems))


def test_the_length_of_answers_is_a_test_of_its_own(tmp_path: Path) -> None:
    """TEST09, which the checker takes from the performance run."""
    repository = with_endpoints(tmp_path)
    spec = (tmp_path / SPEC).read_text(encoding="utf-8")
    repository.write(SPEC, spec.replace("llama3.1-8b", "gpt-oss-120b").replace("    open:", "    closed:"))
    repository.reconcile()
    values = record_of(repository, "Run:closed/box/gpt-oss-120b/Offline/performance").values
    assert values["validity"] == "INVALID"
    assert values["reasons"] == ["TEST09: a mean of 7.0 output tokens, between 1150.38 and 1406.02 is required"]
