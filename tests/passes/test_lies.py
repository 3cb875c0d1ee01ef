"""A lie about each key, shown to all that believe logs: the record of a run, an audit of it, a tree's verification.

Tests of LoadGen's logs judge every lie of the table by the function that all of them ask.

In one real repository honest logs are exchanged for those of another honest run, and for that run's forged ones. What
is checked against the forged logs, and not against the honest ones, must name the lie.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.diff.claims import Proof
from reconciler.history.runs import verify_runs
from reconciler.history.snapshot import Snapshot, read_snapshot
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY
from reconciler.resource.kinds import Cell
from reconciler.resource.records import Artifact, Record
from reconciler.rules.results import loadgen_logs
from reconciler.rules.results.format import Kept, RunFiles
from reconciler.storage import git
from reconciler.tree.findings import TreeFinding
from reconciler.verify.engine import verify_tree
from tests.passes.repository import Repository, make_repository
from tests.unit.loadgen.conftest import Run, loadgen_run
from tests.unit.loadgen.lies import LIES, Lie

__all__ = ["loadgen_run"]
from tests.shared import make_once, need

need("mlperf_loadgen")

Runs = Callable[[str], Run]
LIE_OF_KEY = {lie.key: lie for lie in reversed(LIES)}
OPEN, CLOSED = "open/box/tiny", "closed/box/tiny/Offline"
CELLS = """\
          Server: {target_qps: 1000, target_latency: 5 s, min_query_count: 700}
          SingleStream: {target_latency: 1 ms, min_query_count: 100}
          MultiStream: {target_latency: 1 ms, min_query_count: 700}
    closed:
      box:
        tiny:
          Offline: {target_qps: 100, min_query_count: 320}
"""


@dataclass(frozen=True)
class Reported:
    """The logs of one run, and where in the repository they stand: in which cell, as which of its runs."""

    cell: Cell
    name: str
    files: dict[str, bytes]

    @property
    def folder(self) -> str:
        return {"performance": "performance/run_1", "accuracy": "accuracy"}.get(
            self.name, f"{self.name}/performance/run_1"
        )


@dataclass(frozen=True)
class Believers:
    """Who believes logs, in a repository with a recorded run of each kind."""

    repository: Repository
    honest: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # what they hold against honest runs

    @cached_property
    def snapshot(self) -> Snapshot:
        return read_snapshot(self.repository.root, git.resolve(self.repository.root, "HEAD"))

    def _record(self, reported: Reported) -> tuple[Record, Detail]:
        kind = "ComplianceTest" if reported.name.startswith("TEST") else "Run"
        address = f"{kind}:{reported.cell}/{reported.name}"
        record = next(r for r in self.snapshot.records.values() if address in map(str, (r.address, *r.shared)))
        declared = self.snapshot.list_declared(record)
        assert declared is not None
        return record, self.snapshot.desired.detail(declared.address)

    def show(self, reported: Reported, scratch: Path) -> dict[str, set[str]]:
        return {
            "record": self.report_record(reported, scratch / "record"),
            "audit": self.report_audit(reported),
            "tree": self.report_tree(reported, scratch / "tree"),
        }

    def report_record(self, reported: Reported, scratch: Path) -> set[str]:
        """As a pass judges what its child left."""
        record, asked = self._record(reported)
        output = scratch / "output"
        output.mkdir(parents=True, exist_ok=True)
        for name, data in reported.files.items():
            (output / name).write_bytes(data)
        inputs = {name: item.value for name, item in record.inputs.items()}
        run = RunFiles(output, inputs, asked.ruling, {}, scratch / "user.conf", scratch)
        files = {name: output / name for name in reported.files}
        kept = loadgen_logs.judge_kept(Kept(inputs, 3600.0, 0.0, files, rehearsal=False))
        return {*loadgen_logs.judge_run(run).values.get("contradictions", ()), *(item.text for item in kept)}

    def report_audit(self, reported: Reported) -> set[str]:
        """As an audit of a commit that holds these logs, and a record that names them."""
        record, _ = self._record(reported)
        logs = {hashlib.sha256(data).hexdigest(): data for data in reported.files.values()}
        named = {name: hashlib.sha256(data).hexdigest() for name, data in reported.files.items()}
        kept = tuple(a for a in record.artifacts if a.name not in named and not a.name.startswith("mlperf_log_acc"))
        new = tuple(Artifact(name, sha256, len(logs[sha256]), "logs") for name, sha256 in named.items())
        forged = replace(record, artifacts=kept + new)
        claims = list(verify_runs(reported.cell, reported.name, forged, self.snapshot, logs))
        return {text for c in claims if c.proof is Proof.CONTRADICTED for text in c.detail.split("; ")}

    def report_tree(self, reported: Reported, scratch: Path) -> set[str]:
        """As the verification of a tree that shows these logs, next to an archive of whole accuracy logs."""
        root = scratch
        cell = root / f"open/ACME/results/box/tiny/{reported.cell.scenario}"
        shutil.copytree(self.repository.paths.tree, root)
        for name, data in reported.files.items():
            audited = reported.name.startswith("TEST") and name == ACCURACY_LOG
            folder = cell / (f"{reported.name}/accuracy" if audited else reported.folder)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        answers = cell / "accuracy" / ACCURACY_LOG
        digest = hashlib.sha256(answers.read_bytes()).hexdigest()
        (cell / "accuracy" / ACCURACY_TEXT).write_text(f"accuracy=0.000%, good=0, total=1000\n\nhash={digest}\n")
        report = verify_tree(root, round_name="v6.1", original={digest: answers}.get)
        return {
            f"{finding.rule.id}: {finding.complaint.found}; {finding.complaint.wanted}; {_lines(root, finding)}"
            for finding in report.findings
            # Anyone who forges a detail log forges the summary next to it.
            if finding.rule.id != "summary.contradicts"
        }


def _lines(root: Path, finding: TreeFinding) -> str:
    """What is where the finding points."""
    named = {"log.duration": "result_min_duration_met"}.get(finding.rule.id, "")  # it points at the least duration
    places = (place for place in (finding.complaint.place, finding.complaint.other) if place is not None and place.line)
    lines = [(root / place.file).read_text().splitlines()[place.line - 1] for place in places]
    return "; ".join([named, *lines])


@pytest.fixture(scope="session")
def believers(tmp_path_factory: pytest.TempPathFactory) -> Believers:
    return Believers(make_once(tmp_path_factory, "believers", _make))


def _make(folder: Path) -> Repository:
    repository = make_repository(folder / "repository")
    text = (repository.root / "specs/spec.yaml").read_text(encoding="utf-8")
    repository.write("specs/spec.yaml", text + CELLS)
    repository.write(".gitignore", ".reconcile/\n__pycache__/\n")
    repository.reconcile()
    repository.commit()
    return repository


def place(run: Run, detail: bytes, answers: bytes) -> Reported:
    """Where the run would stand: each scenario has a cell, and one has an accuracy run whose whole log is in git."""
    files = {DETAIL: detail, SUMMARY: run.bytes("summary.txt")}
    if run.case.audit:
        return Reported(Cell.parse(CLOSED), "TEST01", {**files, ACCURACY_LOG: answers})
    if run.case.mode == "AccuracyOnly":
        return Reported(Cell.parse(CLOSED), "accuracy", {**files, ACCURACY_LOG: answers})
    return Reported(Cell.parse(f"{OPEN}/{run.case.scenario}"), "performance", files)


def forge(lie: Lie, run: Run) -> tuple[bytes, bytes]:
    detail, answers = run.bytes("detail.txt").decode(), run.bytes("accuracy.json").decode()
    for edit in lie.detail:
        detail = edit(detail)
    for edit in lie.answers:
        answers = edit(answers)
    return detail.encode(), answers.encode()


@pytest.mark.parametrize("lie", LIE_OF_KEY.values(), ids=lambda lie: lie.name)
def test_a_lie_is_refused_everywhere(lie: Lie, loadgen_run: Runs, believers: Believers, tmp_path: Path) -> None:
    run = loadgen_run(lie.run)
    if lie.run not in believers.honest:
        honest = place(run, run.bytes("detail.txt"), run.bytes("accuracy.json"))
        believers.honest[lie.run] = believers.show(honest, tmp_path / "honest")
    reported = believers.show(place(run, *forge(lie, run)), tmp_path / "forged")
    found = {level: against - believers.honest[lie.run][level] for level, against in reported.items()}
    # Clocks are no claim of a commit, and what a tree's verification asks about them is its own.
    levels = {"record"} if lie.dated else set(found)
    assert not {level: new for level, new in found.items() if not any(lie.key in text for text in new)}.keys() & levels
