"""What a commit's published files say of each other: the rendered tree, held against the rules for anyone's tree.

A record and its log may be forged so that they fit; a summary, a user.conf or another run's log beside them tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from reconciler.diff.claims import Claim, Proof
from reconciler.history.logs import Logs
from reconciler.resource.records import Artifact
from reconciler.tree.content import Content, LogRef
from reconciler.tree.findings import Severity, TreeFinding
from reconciler.tree.verify.engine import verify_tree

WHERE = "submission"
_AT_ONCE = 64 << 20  # bytes of logs in memory


def find_contradictions(
    files: Mapping[str, Content], logs: Logs, round_name: str, cells: Mapping[str, str]
) -> Iterator[Claim]:
    """One claim for each contradiction. A log that is not in the commit as recorded is left out: its own claim says
    so. ``cells``: each as its folders are named -> its name."""
    with TemporaryDirectory() as folder:
        _write(Path(folder), files, logs)
        report = verify_tree(Path(folder), round_name=round_name)
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            where = cells.get(finding.cell, WHERE)
            yield Claim(where, f"published files: {finding.rule.id}", Proof.CONTRADICTED, _text(finding))


def _text(finding: TreeFinding) -> str:
    complaint = finding.complaint
    beside = f" ({complaint.other})" if complaint.other else ""
    return f"{complaint.place}: {complaint.found}; wanted: {complaint.wanted}{beside}"


def _write(folder: Path, files: Mapping[str, Content], logs: Logs) -> None:
    for parent in {path.rpartition("/")[0] for path in files}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for batch in _batches(files):
        good = logs.read(Artifact(path, ref.sha256, ref.size, "logs") for path, ref in batch.items())
        for path, ref in batch.items():
            if ref.sha256 in good:
                _put(f"{folder}/{path}", good[ref.sha256])
    for path, content in files.items():
        if not isinstance(content, LogRef):
            _put(f"{folder}/{path}", content)


def _put(target: str, data: bytes) -> None:
    with open(target, "wb", buffering=0) as stream:  # noqa: PTH123 - tens of thousands of small files
        stream.write(data)


def _batches(files: Mapping[str, Content]) -> Iterator[dict[str, LogRef]]:
    batch, size = dict[str, LogRef](), 0
    for path, content in files.items():
        if isinstance(content, LogRef):
            batch[path] = content
            size += content.size
        if size >= _AT_ONCE:
            yield batch
            batch, size = {}, 0
    yield batch
