"""Generate a large repository that is in sync without running anything: generated outcomes, recorded by the real code.

Systems x benchmarks x four scenarios, each cell with an engine, two runs, a score and a result. One system matches any
machine; the others declare accelerators that no machine has, so that their pinned values come from records. Records,
logs, objects, the rendered tree and its note are written by the functions of a pass. ``python -m
tests.benchmarks.made_up FOLDER SYSTEMS BENCHMARKS`` generates one and prints its number of resources.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from reconciler.desired.detail import Detail
from reconciler.diff.change import Work
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.run import run_pass
from reconciler.reconcile.worker import TOOL
from reconciler.record.codec import summarize
from reconciler.record.store import keep, write_record
from reconciler.resource.canonical import canonicalise
from reconciler.resource.inputs import REVISIONS, Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import CHILD_LOG, Artifact, Ended, Record, RecordedFact, RecordedInput, Summary
from reconciler.storage.files import RepositoryPaths

SPEC = Path("specs") / "made-up.yaml"
_TARGET = 10_000  # of the first Offline cell; each further one has one more, so the text appears once in the spec
_BEGAN = datetime(2026, 1, 5, tzinfo=UTC)

# What each kind leaves: (name, whether the tree needs it).
_FILES: Mapping[str, tuple[tuple[str, bool], ...]] = {
    "Dataset": (("samples.npy", False), ("labels.npy", False)),
    "Model": (("model.onnx", False),),
    "Engine": (("model.onnx", False),),
    "performance": (("user.conf", True), ("mlperf_log_summary.txt", True), ("mlperf_log_detail.txt", True)),
    "accuracy": (
        ("user.conf", True),
        ("mlperf_log_summary.txt", True),
        ("mlperf_log_detail.txt", True),
        ("mlperf_log_accuracy.truncated.json", True),
        ("mlperf_log_accuracy.json", False),
    ),
    "Score": (("accuracy.txt", True),),
}
_EVIDENCE = {"code.digest": "a" * 64, "loadgen.version": "6.0.16", "backend.version": "1.22.0", "driver": "none"}
_NOTES = {"machine.host": "nowhere", "machine.cores.usable": 64, "python.version": "3.12.1", "machine.os": "Linux"}


def make_repository(root: Path, systems: int, benchmarks: int) -> PlanResult:
    """Return the state observed by the last pass, which was in sync and started no child process."""
    with mock.patch("os.fsync"), _any_machine():  # nothing here needs to outlive a power cut
        _declare(root, systems, benchmarks)
        paths = RepositoryPaths(root)
        _record(paths, compute_plan(paths, Options()))
        report = run_pass(paths, Options(commit=True), report=lambda _: None)
    assert report.after.plan.in_sync, report.after.plan
    assert not report.child_seconds
    return report.after


def change_target(root: Path) -> str:
    """Raise the target of one Offline cell. Return the cell."""
    path = root / SPEC
    text = path.read_text()
    assert text.count(f"target_qps: {_TARGET}}}") == 1
    path.write_text(text.replace(f"target_qps: {_TARGET}}}", "target_qps: 99}"))
    return "open/system-000/benchmark-000/Offline"


@contextlib.contextmanager
def _any_machine() -> Iterator[None]:
    """Replace the machine: each system's outcomes were made on its own."""
    with mock.patch("reconciler.observed.observe.find_unlike", return_value=None):
        yield


def _declare(root: Path, systems: int, benchmarks: int) -> None:
    (root / "specs").mkdir(parents=True)
    (root / "models").mkdir()
    (root / SPEC).write_text("\n".join(_spec(systems, benchmarks)) + "\n")
    (root / ".gitignore").write_text(".reconcile/\n")
    for number in range(benchmarks):
        (root / "models" / f"{number:03}.onnx").write_text(f"model {number}\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Declare a submission"]):
        subprocess.run(["git", *command], cwd=root, check=True)


def _spec(systems: int, benchmarks: int) -> Iterator[str]:
    yield from ("apiVersion: mlperf-reconciler/v1", "kind: Submission", "metadata: {name: made-up}", "spec:")
    yield from ("  round: v6.1", "  submitter: Nobody", "  rehearsal: true", "  systems:")
    for number in range(systems):
        hardware = f"{{accelerator: Imagined Accelerator {number}, count: 8}}" if number else "{count: 0}"
        yield f"    system-{number:03}:"
        yield f"      {{category: edge, status: available, hardware: {hardware}, description: {{cooling: air}}}}"
    yield "  benchmarks:"
    for number in range(benchmarks):
        yield from (f"    benchmark-{number:03}:", "      as: resnet", "      code: digits", "      min_duration: 0")
        yield f"      model: {{path: models/{number:03}.onnx}}"
        yield f"      dataset: {{settings: {{part: {number}}}}}"
        yield "      engine: {backend: onnxruntime, precision: fp32}"
    yield from ("  divisions:", "    open:")
    for system in range(systems):
        yield f"      system-{system:03}:"
        for benchmark in range(benchmarks):
            yield f"        benchmark-{benchmark:03}:"
            yield from _scenarios(_TARGET + system * benchmarks + benchmark)


def _scenarios(rate: int) -> Iterator[str]:
    """Give each scenario another batch size, since equal engines would be one resource."""
    yield "          SingleStream: {engine: {batch_size: 1}}"
    yield "          MultiStream: {engine: {batch_size: 8}}"
    yield f"          Server: {{target_qps: {rate // 10}, target_latency: 100 ms, engine: {{batch_size: 16}}}}"
    yield f"          Offline: {{engine: {{batch_size: 32}}, target_qps: {rate}}}"


# -- outcomes -----------------------------------------------------------------------------------------------------


def _record(paths: RepositoryPaths, seen: PlanResult) -> None:
    """Write one record per step of the plan, in its order, each made from earlier ones."""
    used: dict[Address, Summary] = {}
    with tempfile.TemporaryDirectory(dir=paths.root) as folder:
        for number, step in enumerate(s for s in seen.plan.steps if s.change.how is Work.MAKE):
            address = step.change.address
            detail = seen.desired.detail(address)
            upstream = {
                name: used[up]
                for name, up in (
                    (i.name, Address.parse(i.origin.file))
                    for i in detail.inputs
                    if ":" in i.origin.file and not i.origin.line
                )
                if up in used
            }
            artifacts = tuple(_keep(paths, Path(folder), address))
            record = _outcome(step, detail, upstream, artifacts, _BEGAN + timedelta(seconds=number), seen.spec)
            summary = summarize(record, write_record(paths, record))
            used.update(dict.fromkeys((address, *step.shared), summary))


def _keep(paths: RepositoryPaths, folder: Path, address: Address) -> Iterator[Artifact]:
    kind = address.name.rpartition("/")[2] if address.kind is Kind.RUN else str(address.kind)
    for name, in_git in (*_FILES[kind], (CHILD_LOG, False)):
        path = folder / "file"
        path.write_text(f"{name} of {address}\n")
        yield keep(paths, path, name, in_git=in_git)
        path.unlink()


def _outcome(
    step: Step,
    detail: Detail,
    upstream: Mapping[str, Summary],
    artifacts: tuple[Artifact, ...],
    when: datetime,
    blobs: Mapping[str, str],
) -> Record:
    address = step.change.address
    made_from = {
        f"{name}.{a.name}": a.sha256 for name, s in upstream.items() for a in s.artifacts if a.name != CHILD_LOG
    }
    evidence = {name: RecordedFact(value, Role.EVIDENCE) for name, value in {**_EVIDENCE, **made_from}.items()}
    return Record(
        address=address,
        key=step.change.key,
        revision=REVISIONS[address.kind],
        ended=Ended.DONE,
        started=when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        seconds=1.5,
        attempt=f"{when:%Y%m%dT%H%M%S.%f}-{os.getpid()}",
        inputs={
            i.name: RecordedInput(canonicalise(i.value), str(i.origin)) for i in detail.inputs if i.value is not None
        },
        facts={**evidence, **{name: RecordedFact(value, Role.NOTE) for name, value in _NOTES.items()}},
        artifacts=artifacts,
        values=_values(address),
        upstream={name: summary.id for name, summary in upstream.items()},
        spec=blobs,
        marks=detail.marks,
        shared=step.shared,
        tool=TOOL,
    )


def _values(address: Address) -> dict[str, Any]:
    if address.name.endswith("/performance"):
        return {"validity": "VALID", "reasons": [], "metric": {"value": "1234.5", "unit": "samples/s"}, "margins": []}
    if address.kind is Kind.SCORE:
        return {"metric": {"value": "98.5", "unit": "acc"}, "bars": [], "accuracy_met": True}
    return {}


if __name__ == "__main__":
    print(len(make_repository(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])).desired.resources))
