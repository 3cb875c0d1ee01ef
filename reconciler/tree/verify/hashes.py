"""The hash in accuracy.txt is that of one log: where two cells state the same, the logs beside them have the same
ends. A copied accuracy.txt claims the accuracy of another run, though its own log is truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.mlperf.accuracy import is_digest, list_digests, parse_accuracy
from reconciler.mlperf.log_files import ACCURACY_TEXT
from reconciler.tree.findings import Complaint, Place, TreeFinding
from reconciler.tree.reading.recent import HeldAnswers
from reconciler.tree.reading.view import CellView
from reconciler.tree.verify.verdicts import HASH

_END = 2000  # bytes at each end of a log, fewer than truncation leaves
_SMALL = 1 << 20  # bytes of a whole log


class StatedHash(Struct, frozen=True):
    """What accuracy.txt says of the log beside it. ``ends``: what tells this log from others, in this process."""

    submitter: str
    cell: str
    run: str
    digest: str
    ends: int
    place: Place


def list_stated_hashes(view: CellView) -> Iterator[StatedHash]:
    """Of the accuracy run and of each test; nothing of a file with several hashes, since it is not known which of them
    is whose, nor of a whole log that is not the one its hash names, which is told already."""
    folders = {"accuracy": view.files.accuracy.folder}
    folders |= {test: folder / "accuracy" for test, folder in view.files.tests.items()}
    for run, folder in folders.items():
        read = view.files.text(folder, ACCURACY_TEXT)
        report = parse_accuracy(read.value, (), read.file) if read.value else None
        answers = view.files.answers(folder) if report and is_digest(report.hash) else None
        if report is None or answers is None or not _is_named(answers, report.hash.lower()):
            continue
        if list_digests(read.value or "") != (report.hash.lower(),):
            continue
        yield StatedHash(
            view.files.submitter.submitter,
            str(view.cell),
            run,
            report.hash.lower(),
            hash((_plain(answers.data[: 2 * _END])[:_END], _plain(answers.data[-2 * _END :])[-_END:])),
            Place(read.file, report.hash_line),
        )


def _is_named(answers: HeldAnswers, digest: str) -> bool:
    """Whether the log may be the one that the hash is of: cut, or whole and hashed already."""
    if answers.truncated:
        return len(answers.data) >= 2 * _END
    return len(answers.data) <= _SMALL and digest in answers.own_hashes()


def _plain(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def verify_stated_hashes(hashes: Iterable[StatedHash]) -> Iterator[TreeFinding]:
    """Each log that is not as most of those with its hash; of two that are equally many, what came first is taken for
    right. Within a cell the runs are compared elsewhere."""
    by_digest: dict[str, list[StatedHash]] = {}
    for item in hashes:
        by_digest.setdefault(item.digest, []).append(item)
    for digest, same in by_digest.items():
        (usual, _), *others = Counter(item.ends for item in same).most_common()
        model = next(item for item in same if item.ends == usual)
        for item in same if others else ():
            if item.ends != usual and (item.submitter, item.cell) != (model.submitter, model.cell):
                whose = model.cell if model.submitter == item.submitter else f"{model.submitter} {model.cell}"
                complaint = Complaint(
                    item.place,
                    f"hash={digest[:12]}…, that of the {model.run} log of {whose}",
                    "the hash of the log beside it, which has other answers",
                    cause="accuracy.txt was copied from another result",
                    other=model.place,
                    mechanism="accuracy-of-another-run",
                )
                yield TreeFinding(HASH, item.submitter, item.cell, complaint)
