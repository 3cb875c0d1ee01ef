"""Audits one commit from git's objects alone: no artifact, no library of a backend, no network.

Every record is checked against its name and its key, every log against its digest; metric and verdict are derived
again from the logs, and the tree is rendered again from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from reconciler import git
from reconciler.diff.change import Chosen
from reconciler.diff.choose import differing
from reconciler.diff.claims import Audit, Claim, Proof
from reconciler.diff.difference import ALLOWED_TO_DIFFER, published_cells
from reconciler.errors import LogError, ReconcilerError
from reconciler.execute.finish import asked, judge_text, performance_values
from reconciler.files import sha256_bytes
from reconciler.history.snapshot import Snapshot
from reconciler.mlperf.contradictions import contradictions
from reconciler.mlperf.log import parse_detail
from reconciler.mlperf.log_names import DETAIL
from reconciler.mlperf.rounds import load_ruleset
from reconciler.record.codec import summarize
from reconciler.render.decisions import acceptance_text
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Record
from reconciler.tree.content import LogRef
from reconciler.tree.gather import gather
from reconciler.tree.manifest import manifest
from reconciler.tree.render import render

_LOGS = "state/logs"


@dataclass(slots=True)
class Logs:
    """The logs of a commit by digest. Each is checked once; ``wrong`` names those whose bytes are not what their
    name says."""

    root: Path
    blobs: Mapping[str, str]
    checked: dict[str, Proof] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, commit: str) -> Logs:
        files = git.files_at(root, commit, [_LOGS])
        return cls(root, {path.rpartition("/")[2]: blob for path, (blob, _) in files.items()})

    def read(self, artifacts: list[Artifact]) -> dict[str, bytes]:
        """Contents by digest, of those that are there and are what their name says; one call of git."""
        wanted = {a.sha256: self.blobs[a.sha256] for a in artifacts if a.sha256 in self.blobs}
        contents = git.read_blobs(self.root, wanted.values())
        good = {}
        for artifact in artifacts:
            sha256 = artifact.sha256
            data = contents.get(wanted.get(sha256, ""))
            fits = data is not None and sha256_bytes(data) == sha256
            self.checked[sha256] = Proof.MISSING if data is None else Proof.PROVEN if fits else Proof.CONTRADICTED
            if data is not None and fits:
                good[sha256] = data
        return good


def audit(root: Path, at: Snapshot) -> Audit:
    """Every claim that the commit makes, in a fixed order."""
    logs = Logs.of(root, at.commit)
    claims = [Claim(path, "record", Proof.CONTRADICTED, why) for path, why in sorted(at.damaged.items())]
    published = published_cells(at.difference.chosen)
    for cell in sorted(at.difference.chosen):
        claims += _cell(cell, at, logs, published=str(cell) in published)
    claims.append(_tree(root, at, logs))
    return Audit(at.commit, tuple(claims), len(at.records), len(logs.checked))


def _cell(cell: Cell, at: Snapshot, logs: Logs, *, published: bool) -> Iterator[Claim]:
    chosen = at.difference.chosen[cell]
    if not published:
        yield Claim(str(cell), "result", Proof.MISSING, _why_missing(cell, at))
    parts = (
        ("performance", chosen.performance),
        ("accuracy", chosen.accuracy),
        ("score", chosen.score),
        *chosen.tests,
        *((f"{name} verdict", identity) for name, identity in chosen.verdicts),
    )
    records = [(name, at.records[i]) for name, i in parts if i in at.records]
    needed = [artifact for _, record in records for artifact in record.artifacts if artifact.place == "logs"]
    good = logs.read(needed)
    for name, record in records:
        yield _inputs(cell, name, record, at)
        yield from _digests(cell, name, record, logs)
        yield from _derived(cell, name, record, at, good)
    yield from _evidence(cell, chosen, at)


def _why_missing(cell: Cell, at: Snapshot) -> str:
    findings = [f.message for f in at.difference.findings if f.where == str(cell)]
    due = [f"{c.address.label}: {c.reason}" for c in at.difference.changes if c.address.cell == cell]
    return "; ".join([*findings, *due]) or "nothing is recorded for it"


def _inputs(cell: Cell, name: str, record: Record, at: Snapshot) -> Claim:
    """The record's key follows from the inputs it lists, and the commit's spec asks for that very key."""
    inputs = [Input(n, i.value) for n, i in record.inputs.items()]
    what = f"{name}: inputs"
    if make_key(record.address.kind, inputs) != record.key:
        return Claim(str(cell), what, Proof.CONTRADICTED, "the key is not that of the inputs it lists")
    addresses = (record.address, *record.shared)
    wanted = {at.desired.by_address[a].key for a in addresses if a in at.desired.by_address}
    if record.key not in wanted:
        if accepted := _accepted(record, at):
            return Claim(str(cell), what, Proof.ACCEPTED, accepted)
        return Claim(str(cell), what, Proof.CONTRADICTED, "the spec of this commit asks for other inputs")
    return Claim(str(cell), what, Proof.PROVEN, f"{len(inputs)} inputs give key {record.key[:12]}, as the spec does")


def _accepted(record: Record, at: Snapshot) -> str:
    """By whom, why and until when the record counts for other inputs; "" when nobody decided so."""
    acceptance = at.difference.accepted.get(record.address.cell) if record.address.cell else None
    if acceptance is None or (record.address, record.key) not in {(k.address, k.before) for k in acceptance.keys}:
        return ""
    return f"not those that the spec asks for: {acceptance_text(acceptance)}"


def _digests(cell: Cell, name: str, record: Record, logs: Logs) -> Iterator[Claim]:
    texts = {
        Proof.PROVEN: "SHA-256 {0}",
        Proof.CONTRADICTED: "the bytes are not those that were recorded as {0}",
        Proof.MISSING: "state/logs/{0} is not in this commit",
    }
    for artifact in record.artifacts:
        if artifact.place == "logs":
            proof = logs.checked[artifact.sha256]
            yield Claim(str(cell), f"{name}: {artifact.name}", proof, texts[proof].format(artifact.sha256[:12]))


def _derived(cell: Cell, name: str, record: Record, at: Snapshot, good: Mapping[str, bytes]) -> Iterator[Claim]:
    files = {a.name: good[a.sha256] for a in record.artifacts if a.sha256 in good}
    if record.address.kind is Kind.RUN and DETAIL in files:
        yield from _run(cell, name, record, at, files[DETAIL])
    if record.address.kind is Kind.SCORE and "accuracy.txt" in files:
        settings = at.desired.detail(Address(Kind.SCORE, str(cell))).settings
        again = judge_text(files["accuracy.txt"].decode(errors="replace"), settings, {})
        same = again.values.get("metric") == record.values.get("metric")
        metric = record.values.get("metric") or {}
        shown = f"{metric.get('value', '?')} {metric.get('unit', '')}"
        proof = Proof.ATTESTED if same else Proof.CONTRADICTED
        detail = f"{shown}, as the scorer wrote it" if same else f"recorded {shown}, accuracy.txt says {again.values}"
        yield Claim(str(cell), "accuracy", proof, detail)


def _run(cell: Cell, name: str, record: Record, at: Snapshot, data: bytes) -> Iterator[Claim]:
    values = {n: i.value for n, i in record.inputs.items()}
    mode = str(values.get("mode", "performance"))
    try:
        log = parse_detail(data, DETAIL)
        found = contradictions(log, asked(values, mode))
    except LogError as error:
        yield Claim(str(cell), f"{name}: settings", Proof.CONTRADICTED, str(error))
        return
    proof = Proof.CONTRADICTED if found else Proof.PROVEN
    detail = "; ".join(map(str, found)) or "LoadGen's log shows every setting, and the seeds of the round"
    yield Claim(str(cell), f"{name}: settings", proof, detail)
    if mode != "performance":
        return
    settings = at.desired.detail(Address(Kind.RUN, f"{cell}/performance")).settings
    again = performance_values(log, settings)
    for key in ("validity", "metric"):
        same = again[key] == record.values.get(key)
        shown = _shown(again[key])
        proof = Proof.PROVEN if same else Proof.CONTRADICTED
        detail = (
            f"{shown}, from {DETAIL}" if same else f"recorded {_shown(record.values.get(key))}, the log says {shown}"
        )
        yield Claim(str(cell), f"{name}: {key}", proof, detail)


def _shown(value: object) -> str:
    return f"{value['value']} {value['unit']}" if isinstance(value, dict) else str(value)


def _evidence(cell: Cell, chosen: Chosen, at: Snapshot) -> Iterator[Claim]:
    pair = [at.records.get(chosen.performance), at.records.get(chosen.accuracy)]
    if pair[0] is None or pair[1] is None:
        return
    one, other = summarize(pair[0], chosen.performance), summarize(pair[1], chosen.accuracy)
    unequal = differing(one, other, ALLOWED_TO_DIFFER)
    proof = Proof.CONTRADICTED if unequal else Proof.PROVEN
    names = ", ".join(name for name, _, _ in unequal)
    detail = f"differs: {names}" if unequal else f"{len(one.evidence)} facts equal (engine bytes, code, versions)"
    yield Claim(str(cell), "runs that count together", proof, detail)


def _tree(root: Path, at: Snapshot, logs: Logs) -> Claim:
    """The tree rendered again from the commit. Its logs go in by digest, which is proven or contradicted on its own."""
    names = published_cells(at.difference.chosen)
    chosen = {cell: records for cell, records in at.difference.chosen.items() if str(cell) in names}
    if not chosen:
        return Claim("submission", "rendered tree", Proof.MISSING, "no cell is complete")
    submission = next(r for r in at.desired.resources if r.kind is Kind.SUBMISSION)
    ruleset = load_ruleset(str(at.desired.detail(submission.address).settings["round"]))

    def text(ref: LogRef) -> str:
        return logs.read([Artifact("", ref.sha256, ref.size, "logs")])[ref.sha256].decode("utf-8")

    try:
        with TemporaryDirectory() as folder:
            _checkout(root, at.commit, Path(folder))
            content = gather(at.desired, chosen, at.records.__getitem__, text, Path(folder), at.difference.accepted)
            files = manifest(render(content, ruleset))
    except (ReconcilerError, KeyError, OSError) as error:
        return Claim("submission", "rendered tree", Proof.MISSING, f"cannot be rendered from this commit: {error}")
    whole = sha256_bytes("".join(f"{path}\0{digest}\n" for path, digest in sorted(files.items())).encode())
    return Claim("submission", "rendered tree", Proof.PROVEN, f"{len(files)} files, together SHA-256 {whole[:16]}")


def _checkout(root: Path, commit: str, folder: Path) -> None:
    """The files of a commit that its tree may show (code, documents): everything but the state."""
    files = {p: at for p, at in git.files_at(root, commit).items() if not p.startswith("state/") and at[1] <= 50 << 20}
    contents = git.read_blobs(root, [blob for blob, _ in files.values()])
    for path, (blob, _) in files.items():
        target = folder / path
        if blob in contents and target.resolve().is_relative_to(folder.resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents[blob])
