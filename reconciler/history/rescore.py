"""Proves what a commit says of accuracy: its own scorer, run again on the kept accuracy log and the labels.

Only here does an audit need artifacts and a scorer's libraries; `reconcile pull` brings the former.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.execute.attempt import create, repeat_intent
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import Watch, run_child
from reconciler.execute.executors.attempt_transport import open_transport
from reconciler.execute.executors.executor import PATIENCE
from reconciler.execute.executors.table import Executors
from reconciler.execute.requests import make_request
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.record.store import find_artifact, find_object
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.quantities import join_listing
from reconciler.resource.records import CHILD_LOG, Artifact, Record
from reconciler.resource.settings import SCORE_COMMAND
from reconciler.rules.results.table import find_format
from reconciler.storage.files import RepositoryPaths, hash_file, offer
from reconciler.storage.git import clone_at
from reconciler.storage.leftovers import open_temporary

WHAT = "accuracy"  # the claim that an audit from git alone can only attest


def rescore_runs(paths: RepositoryPaths, at: Snapshot, audited: AuditReport) -> AuditReport:
    """The audit with each attested accuracy claim proven, contradicted or missing. An imported score whose benchmark
    has no scorer here stays attested. Raises RepositoryError when the commit cannot be checked out."""
    paths.work.mkdir(parents=True, exist_ok=True)
    with open_temporary("rescore", paths.work) as folder:
        root = clone_at(paths.root, at.commit, folder / "tree")
        claims = [_claim(cell, at, paths, root, folder / "attempts") for cell in sorted(at.difference.chosen)]
    found = {claim.where: claim for claim in claims if claim is not None}
    kept = [claim for claim in audited.claims if not (_is_attested(claim) and claim.where in found)]
    return replace(audited, claims=tuple(sorted([*kept, *found.values()], key=_order(audited))))


def _is_attested(claim: Claim) -> bool:
    return claim.what == WHAT and claim.proof is Proof.ATTESTED


def _order(audited: AuditReport) -> Any:
    """Each cell's claims stay together, where the audit has them."""
    position = {where: index for index, where in enumerate(dict.fromkeys(claim.where for claim in audited.claims))}
    return lambda claim: position.get(claim.where, len(position))


def _claim(cell: Cell, at: Snapshot, paths: RepositoryPaths, root: Path, attempts: Path) -> Claim | None:
    record = at.records.get(at.difference.chosen[cell].score)
    if record is None:
        return None  # the audit says so already
    detail = at.desired.detail(Address(Kind.SCORE, str(cell)))
    settings, code = detail.settings, BENCHMARKS.get(detail.locations.get("benchmark.code", ""))
    if find_format(settings).SCORES_ITSELF or (code is not None and code.elsewhere and SCORE_COMMAND not in settings):
        return None
    inputs = dict(_inputs(record, at))
    if missing := _find_missing_files(inputs, paths):
        return Claim(str(cell), WHAT, Proof.MISSING, f"cannot be scored again: {missing}")
    attempt = create(attempts, repeat_intent(str(cell).replace("/", "-"), record, detail))
    for (name, file), artifact in inputs.items():
        path = _readable(paths, artifact)
        if path is not None:
            offer(path, attempt.inputs / name / file)
    clone = RepositoryPaths(root)
    carrier = open_transport(clone)
    if carrier is not None:
        carrier.declare(at.desired.submission, datetime.now(UTC).date())
    watch, executors = Watch(lambda _: None, PATIENCE), Executors.for_paths(clone, carrier)
    run_child(attempt, make_request(attempt, clone), watch, executors)
    again, _ = build_record(attempt)
    return _compared(cell, record, again)


def _inputs(record: Record, at: Snapshot) -> Iterator[tuple[tuple[str, str], Artifact]]:
    """(input, file name) → artifact, of everything that the score was made from."""
    for name, identity in record.upstream.items():
        upstream = at.records.get(identity)
        for artifact in upstream.artifacts if upstream else ():
            if artifact.name != CHILD_LOG:
                yield (name, artifact.name), artifact


def _readable(paths: RepositoryPaths, artifact: Artifact) -> Path | None:
    """Find a file with these very bytes."""
    candidates = (find_artifact(paths, artifact.place, artifact.sha256), find_object(paths, artifact.sha256))
    return next((path for path in candidates if path.is_file() and hash_file(path) == artifact.sha256), None)


def _find_missing_files(inputs: Mapping[tuple[str, str], Artifact], paths: RepositoryPaths) -> str:
    """Find inputs of a scorer that are not here, or not as recorded; "" when all are."""
    if ("run", ACCURACY_LOG) not in inputs:
        return f"its record names no {ACCURACY_LOG}"
    needed = {at: artifact for at, artifact in inputs.items() if at[0] != "run" or at[1] == ACCURACY_LOG}
    gone = sorted(f"{name} {file}" for (name, file), item in needed.items() if _readable(paths, item) is None)
    return (
        f"not here as recorded: {join_listing(gone)}; `reconcile pull --deep` fetches what was pushed" if gone else ""
    )


def _compared(cell: Cell, record: Record, again: Record) -> Claim:
    if again.problem:
        detail = f"cannot be scored again: {again.problem}" + (f" ({again.fix})" if again.fix else "")
        return Claim(str(cell), WHAT, Proof.MISSING, detail)
    unequal = [name for name in ("metric", "bars") if again.values.get(name) != record.values.get(name)]
    if unequal:
        code = "" if _scorer(record) == _scorer(again) else "; the scorer here is not the one that was recorded"
        detail = f"recorded {_shown(record)}, scored again it is {_shown(again)}{code}"
        return Claim(str(cell), WHAT, Proof.CONTRADICTED, detail)
    same = {a.sha256 for a in again.artifacts if a.name == "accuracy.txt"} & {a.sha256 for a in record.artifacts}
    how = "accuracy.txt byte for byte" if same else "the same score, in other words"
    return Claim(str(cell), WHAT, Proof.PROVEN, f"{_shown(record)}, scored again from {ACCURACY_LOG}: {how}")


def _scorer(record: Record) -> dict[str, Any]:
    return {name: fact.value for name, fact in record.facts.items() if name.endswith(".code")}


def _shown(record: Record) -> str:
    bars = record.values.get("bars") or ()
    return ", ".join(f"{bar['measured']} {bar['metric']}" for bar in bars) or str(record.values.get("metric"))
