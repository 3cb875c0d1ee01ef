"""Verifies a commit's claims of performance by repeating the measurement from that commit, on a machine like the
original.

The repeat uses a temporary repository, so that it never becomes a result: only a report with the whole record is kept,
in ``state/audits``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from harness.contract import ProbeRequest
from reconciler.diff.change import Work
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.diff.run_selection import find_differing_evidence, select_valid
from reconciler.errors import LogError, ReconcilerError
from reconciler.execute.attempt import create, repeat_intent
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import Watch, run_child
from reconciler.execute.executors.executor import PATIENCE, open_transport
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Event, Message, Status
from reconciler.execute.requests import make_request
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL
from reconciler.observed.node_probe import probe_machines
from reconciler.plan.select import parse_repeated
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.run import run_pass
from reconciler.record.codec import encode, summarize
from reconciler.record.store import find_artifact, find_object
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.quantities import join_listing
from reconciler.resource.records import CHILD_LOG, IMPORTED, Artifact, Record
from reconciler.resource.settings import SCORE_COMMAND, CellSettings
from reconciler.rules.compliance.scores import Scored, Slack, read_from_detail
from reconciler.rules.compliance.test01 import find_slack
from reconciler.rules.results.table import find_format
from reconciler.rules.rounds import load_ruleset
from reconciler.storage import git
from reconciler.storage.files import LOGS, RepositoryLock, RepositoryPaths, hash_bytes, hash_file, ignore_work, offer
from reconciler.storage.files import replace as write
from reconciler.storage.git import clone_at
from reconciler.storage.launch.nodes import Node, probe_nodes
from reconciler.storage.leftovers import open_temporary

FEWEST = 3
# 99 % quantiles of Student's t for 1, 2, … degrees of freedom; the value for 30 is used for more, which is lenient.
_T99 = (
    *(31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650, 2.624, 2.602),
    *(2.583, 2.567, 2.552, 2.539, 2.528, 2.518, 2.508, 2.500, 2.492, 2.485, 2.479, 2.473, 2.467, 2.462, 2.457),
)


class Bound(Struct, frozen=True):
    """The worst value allowed for a repeat, in the unit of the values; ``source``: its origin."""

    value: float
    source: str

    def allows(self, repeat: float, *, lower: bool) -> bool:
        return repeat <= self.value if lower else repeat >= self.value


def compute_bound(recorded: Sequence[float], published: float, score: Scored, slack: Slack, *, lower: bool) -> Bound:
    """Compute how far a repeat may be from the published run: no further than TEST01 allows between a published and an
    audit run of one system (compliance/TEST01/run_verification.py of mlcommons/inference). Three or more runs with
    equal inputs and evidence narrow it by their own spread, to the bound that 99 of 100 further runs satisfy (Student's
    t, one-sided). It only ever narrows, so that recording noisy runs gains nothing.

    ``recorded``: every such valid run, including the published one. ``score``: the published run's, as TEST01 reads it;
    ``slack``: the difference that the round allows for that test. ``lower``: a lower value is better.
    """
    side = 1 if lower else -1
    allowed = slack.find_allowed(score.scenario, score.score or 0.0)
    ruled = Bound(published * (1 + side * allowed), f"{allowed:.0%}, as TEST01 allows between two runs of a system")
    count = len(recorded)
    if count < FEWEST:
        return ruled
    quantile = _T99[min(count - 1, len(_T99)) - 1]
    half = quantile * stdev(recorded) * math.sqrt(1 + 1 / count)
    own = Bound(fmean(recorded) + side * half, f"the spread of {count} recorded runs, 99 % bound")
    return min(own, ruled, key=lambda bound: side * bound.value)


VERSION = 1
WHAT = "performance: repeated"
# Facts of a run that a probe can read beforehand: they must be equal for a repeat to be meaningful.
_MACHINE = ("machine.architecture", "machine.cpu", "machine.cores.physical")


class Repeats(Struct, frozen=True):
    """The results of repeated measurements. ``audit``: with a claim for each repeat. ``kept``: the completed repeats,
    each with its report file."""

    audit: AuditReport
    kept: tuple[tuple[Claim, Path], ...]


def repeat_runs(
    paths: RepositoryPaths,
    at: Snapshot,
    audited: AuditReport,
    words: tuple[str, ...],
    report: Callable[[Event], None],
    *,
    busy: bool,
) -> Repeats:
    """Measure the published cells that ``words`` select once more. Raises ReconcilerError if they select none, if
    another pass is running here, or if this machine cannot be probed."""
    selection, published = parse_repeated(words), list_published_cells(at.difference.chosen)
    cells = [c for c in sorted(at.difference.chosen) if str(c) in published and selection.matches(_make_address(c))]
    if not cells:
        fix = f"published at this commit: {join_listing(sorted(published)) or 'none'}"
        raise ReconcilerError(f"no published cell matches {' '.join(words)}", fix=fix)
    ignore_work(paths)
    # Both write objects, and a pass removes files that look like leftovers.
    with RepositoryLock(paths, purpose="repeat of a measurement").acquire(), _clone_commit(paths, at.commit) as there:
        found = [_repeat_cell(cell, at, there, paths, report, busy=busy) for cell in cells]
    claims = tuple(claim for claim, _ in found)
    kept = tuple((claim, path) for claim, path in found if path is not None)
    return Repeats(audited.with_claims([*audited.claims, *claims]), kept)


def _make_address(cell: Cell) -> Address:
    return Address(Kind.RESULT, str(cell))


@contextlib.contextmanager
def _clone_commit(paths: RepositoryPaths, commit: str) -> Iterator[RepositoryPaths]:
    """Yield the commit with its own state, and the objects and caches of this repository."""
    with open_temporary("rerun", paths.work) as folder:
        there = RepositoryPaths(clone_at(paths.root, commit, folder / "tree"))
        there.work.mkdir(exist_ok=True)
        for shared, here in ((there.objects, paths.objects), (there.caches, paths.caches)):
            here.mkdir(parents=True, exist_ok=True)
            shared.symlink_to(here.resolve())
        yield there


def _repeat_cell(
    cell: Cell,
    at: Snapshot,
    there: RepositoryPaths,
    paths: RepositoryPaths,
    report: Callable[[Event], None],
    *,
    busy: bool,
) -> tuple[Claim, Path | None]:
    identity = at.difference.chosen[cell].performance
    record = at.records[identity]
    declared = at.list_declared(record)
    address = declared.address if declared else record.address
    own = address.cell or cell  # another cell's, if the result is inferred
    choice = (f"cell={own}", "mode=performance")
    options = Options(select=choice, only=(str(Kind.RUN),), rerun=(*choice, f"kind={Kind.RUN}"), busy=busy, sign=False)
    if at.desired.submission.systems[own.system].is_queued:
        return _report_not_repeated(cell, "its run is a job of a queue: repeat it there with `reconcile --rerun`"), None
    probe_machines(there, at.desired.submission.systems, {own.system}, lambda text: report(Message(text)))
    settings = at.desired.detail(address).settings
    machine = probe_nodes(ProbeRequest(), settings.launcher, paths.work, (paths.root.resolve(),))[0]
    unlike = _list_differences(record, machine)
    if IMPORTED in record.marks:
        unlike += _find_other_version(settings, machine)
    if unlike:
        return _report_not_repeated(cell, f"this machine differs from the record's: {'; '.join(unlike)}"), None
    if why := _explain_obstacle(own, compute_plan(there, replace(options, rerun=())), compute_plan(there, options)):
        return _report_not_repeated(cell, why), None
    outcomes = [o for o in run_pass(there, options, report=report).outcomes if o.step.change.address == address]
    ended = outcomes[-1] if outcomes else None
    if ended is None or ended.record is None or ended.status is not Status.DONE:
        said = f"{ended.message}; {ended.fix}".rstrip("; ") if ended else "the pass did not run it"
        return _report_not_repeated(cell, said), None
    claim, facts = _judge_repeat(cell, at, paths, identity, ended.record)
    return claim, _save_repeat(paths, at, claim, identity, ended.record, facts)


def _report_not_repeated(cell: Cell, why: str) -> Claim:
    return Claim(str(cell), WHAT, Proof.MISSING, f"not repeated: {why}")


def _list_differences(record: Record, machine: Node) -> list[str]:
    """List the differences from the record's machine and measuring code."""
    gpus = machine["accelerators"]
    here: dict[str, Any] = {
        **{name: machine["machine"].get(name) for name in _MACHINE},
        "gpu.name": sorted({str(gpu.get("name", "")) for gpu in gpus}),
        "gpu.driver": str(gpus[0].get("driver", "")) if gpus else "",
        "harness.code": machine["harness.code"],
    }
    then = {name: record.facts[name].value for name in here if name in record.facts}
    unequal = [name for name in then if then[name] != here[name]]
    found = [f"{name} was {_show_fact(then[name])}, here it is {_show_fact(here[name])}" for name in unequal]
    return [*found, *([f"the record was made by {record.tool}"] if "harness.code" in unequal else ())]


def _find_other_version(settings: CellSettings, machine: Node) -> list[str]:
    """Report a backend whose version differs from the one that the spec pins, since an imported run has no fact about
    it."""
    name, pinned = settings.backend, settings.backend_version
    here = str(machine["backends"].get(name) or "")
    return [f"{name} was {pinned}, here it is {here}"] if pinned and here and here != pinned else []


def _show_fact(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return (text if len(text) < 64 else text[:12]) or "none"  # the beginning of a digest is enough to recognise it


def _explain_obstacle(cell: Cell, still: PlanResult, forced: PlanResult) -> str:
    """Explain why a run made here and now would differ from the published one; "" if it would not."""
    obstacle = still.observed.systems.get(cell.system)
    if obstacle is not None:
        return obstacle.message
    for step in still.plan.steps:
        if step.change.how is Work.MAKE:
            changes = [f"{c.name} {c.before} → {c.after}" for c in step.explained]
            return f"{step.change.address.label} would be another: {join_listing(changes) or step.change.reason}"
    blocked = next((step for step in forced.plan.steps if step.blocked), None)
    return f"{blocked.blocked}; {blocked.fix}".rstrip("; ") if blocked else ""


def _judge_repeat(
    cell: Cell, at: Snapshot, paths: RepositoryPaths, identity: str, repeat: Record
) -> tuple[Claim, Mapping[str, object]]:
    record = at.records[identity]
    published, again = summarize(record, identity), summarize(repeat, "")
    names = [name for name, _, _ in find_differing_evidence(published, again)]
    incomparable = partial(Claim, str(cell), WHAT, Proof.MISSING)
    if unequal := [name for name in names if not name.startswith("engine.")]:
        return incomparable(f"repeated, but not comparable: {join_listing(unequal)} differ"), {}
    if again.validity != "VALID" or not again.metric or not published.metric:
        return Claim(str(cell), WHAT, Proof.CONTRADICTED, f"the repeat is {again.validity}: {again.problem}"), {}
    declared = at.list_declared(record)
    lower = at.desired.detail(declared.address if declared else record.address).ruling.metric.lower_is_better
    runs = select_valid(at.recorded.list_done(published.key))
    recorded = [float(run.metric[0]) for run in runs if run.metric and not find_differing_evidence(published, run)]
    try:
        score = read_from_detail(parse_detail(_read_published_log(paths, at, record), DETAIL))
    except LogError as error:
        return incomparable(f"repeated, but not comparable: {error}"), {}
    then, now = float(published.metric[0]), float(again.metric[0])
    limit = compute_bound(recorded, then, score, _find_slack(cell, at), lower=lower)
    proof = Proof.PROVEN if limit.allows(now, lower=lower) else Proof.CONTRADICTED
    word = "at most" if lower else "at least"
    detail = (
        f"published {published.metric[0]} {published.metric[1]}, repeated {again.metric[0]} ({now / then - 1:+.2%}); "
        f"{word} {limit.value:.6g} bears it out ({limit.source})"
    )
    if IMPORTED in record.marks:
        detail += "; its run was imported, and no log shows its machine and code"
    if unequal != names:
        detail += "; the engine was built again; `reconcile pull` first to repeat with the same one"
    return Claim(str(cell), WHAT, proof, detail), {
        "published": then,
        "repeated": now,
        "unit": again.metric[1],
        "recorded": recorded,
        "bound": limit.value,
        "source": limit.source,
    }


def _find_slack(cell: Cell, at: Snapshot) -> Slack:
    """Return the difference that the commit's round allows between two runs of a system."""
    settings = at.desired.detail(_make_address(cell)).settings
    ruleset = load_ruleset(at.desired.submission.round)
    rules = ruleset.find_rules(cell.division, settings.official or cell.benchmark)
    return find_slack(rules, cell.scenario)


def _read_published_log(paths: RepositoryPaths, at: Snapshot, record: Record) -> bytes:
    sha256 = next((a.sha256 for a in record.artifacts if a.name == DETAIL), "")
    found = git.read_file_at(paths.root, f"{LOGS}/{sha256}", at.commit, refuse=True)
    if found is None or hash_bytes(found) != sha256:
        raise LogError(f"{DETAIL} of the published run is not in this commit", fix=f"commit {LOGS}")
    return found


def _save_repeat(
    paths: RepositoryPaths, at: Snapshot, claim: Claim, identity: str, repeat: Record, facts: Mapping[str, object]
) -> Path:
    document = {
        "version": VERSION,
        "commit": at.commit,
        "cell": claim.where,
        "proof": str(claim.proof),
        "detail": claim.detail,
        "of": identity,
        **facts,
        "record": json.loads(encode(repeat)),
    }
    data = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    path = paths.audits / f"{hash_bytes(data)[:20]}.json"
    write(path, data)
    return path


# Verifies a commit's claims of accuracy: runs its own scorer again on the kept accuracy log and the labels.
#
# Only this audit needs artifacts and a scorer's libraries; `reconcile pull` fetches the artifacts.

_ACCURACY = "accuracy"  # the claim that an audit from git can only attest


def rescore_runs(paths: RepositoryPaths, at: Snapshot, audited: AuditReport) -> AuditReport:
    """Return the audit with each attested accuracy claim proven, contradicted or missing. An imported score whose
    benchmark has no scorer here stays attested. Raises RepositoryError if the commit cannot be checked out."""
    paths.work.mkdir(parents=True, exist_ok=True)
    with open_temporary("rescore", paths.work) as folder:
        root = clone_at(paths.root, at.commit, folder / "tree")
        claims = [_rescore_cell(cell, at, paths, root, folder / "attempts") for cell in sorted(at.difference.chosen)]
    found = {claim.where: claim for claim in claims if claim is not None}
    attested = [c for c in audited.claims if c.what == _ACCURACY and c.proof is Proof.ATTESTED and c.where in found]
    return audited.with_claims([*(claim for claim in audited.claims if claim not in attested), *found.values()])


def _rescore_cell(cell: Cell, at: Snapshot, paths: RepositoryPaths, root: Path, attempts: Path) -> Claim | None:
    record = at.records.get(at.difference.chosen[cell].score)
    if record is None:
        return None  # the audit already reports it
    detail = at.desired.detail(Address(Kind.SCORE, str(cell)))
    settings, code = detail.settings, BENCHMARKS.get(detail.locations.get("benchmark.code", ""))
    if find_format(settings).SCORES_ITSELF or (code is not None and code.elsewhere and SCORE_COMMAND not in settings):
        return None
    inputs = dict(_list_inputs(record, at))
    if missing := _find_missing_files(inputs, paths):
        return Claim(str(cell), _ACCURACY, Proof.MISSING, f"cannot be scored again: {missing}")
    attempt = create(attempts, repeat_intent(str(cell).replace("/", "-"), record, detail))
    for (name, file), artifact in inputs.items():
        path = _find_file(paths, artifact)
        if path is not None:
            offer(path, attempt.inputs / name / file)
    clone = RepositoryPaths(root)
    transport = open_transport(clone)
    if transport is not None:
        transport.declare(at.desired.submission, datetime.now(UTC).date())
    watch, executors = Watch(lambda _: None, PATIENCE), Executors.make(clone, transport)
    run_child(attempt, make_request(attempt, clone), watch, executors)
    again, _ = build_record(attempt)
    return _compare_scores(cell, record, again)


def _list_inputs(record: Record, at: Snapshot) -> Iterator[tuple[tuple[str, str], Artifact]]:
    """Yield (input, file name) → artifact for everything from which the score was made."""
    for name, identity in record.upstream.items():
        upstream = at.records.get(identity)
        for artifact in upstream.artifacts if upstream else ():
            if artifact.name != CHILD_LOG:
                yield (name, artifact.name), artifact


def _find_file(paths: RepositoryPaths, artifact: Artifact) -> Path | None:
    """Return a file with exactly these bytes."""
    candidates = (find_artifact(paths, artifact.place, artifact.sha256), find_object(paths, artifact.sha256))
    return next((path for path in candidates if path.is_file() and hash_file(path) == artifact.sha256), None)


def _find_missing_files(inputs: Mapping[tuple[str, str], Artifact], paths: RepositoryPaths) -> str:
    """List a scorer's inputs that are missing here, or not as recorded; "" if there are none."""
    if ("run", ACCURACY_LOG) not in inputs:
        return f"its record has no {ACCURACY_LOG}"
    needed = {at: artifact for at, artifact in inputs.items() if at[0] != "run" or at[1] == ACCURACY_LOG}
    gone = sorted(f"{name} {file}" for (name, file), item in needed.items() if _find_file(paths, item) is None)
    return f"missing or changed here: {join_listing(gone)}; `reconcile pull --deep` fetches them" if gone else ""


def _compare_scores(cell: Cell, record: Record, again: Record) -> Claim:
    if again.problem:
        detail = f"cannot be scored again: {again.problem}" + (f" ({again.fix})" if again.fix else "")
        return Claim(str(cell), _ACCURACY, Proof.MISSING, detail)
    unequal = [name for name in ("metric", "bars") if again.values.get(name) != record.values.get(name)]
    if unequal:
        code = "" if _list_code(record) == _list_code(again) else "; the installed scorer differs from the recorded one"
        detail = f"recorded {_show_bars(record)}, scored again it is {_show_bars(again)}{code}"
        return Claim(str(cell), _ACCURACY, Proof.CONTRADICTED, detail)
    same = {a.sha256 for a in again.artifacts if a.name == "accuracy.txt"} & {a.sha256 for a in record.artifacts}
    how = "accuracy.txt byte for byte" if same else "the same score, in other words"
    return Claim(str(cell), _ACCURACY, Proof.PROVEN, f"{_show_bars(record)}, scored again from {ACCURACY_LOG}: {how}")


def _list_code(record: Record) -> dict[str, Any]:
    return {name: fact.value for name, fact in record.facts.items() if name.endswith(".code")}


def _show_bars(record: Record) -> str:
    bars = record.values.get("bars") or ()
    return ", ".join(f"{bar['measured']} {bar['metric']}" for bar in bars) or str(record.values.get("metric"))
