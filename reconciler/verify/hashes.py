"""The hash in accuracy.txt is that of one log: where two cells state the same, their logs have the same ends. A copied
accuracy.txt claims the accuracy of another run, though its own log is truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.loadgen.log_files import ACCURACY_TEXT
from reconciler.resource.rules import Severity, applies
from reconciler.rules.accuracy import is_digest, list_digests, parse_accuracy
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.log_cache import CachedAnswers
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About
from reconciler.verify.verdicts import verify_hashes

_END = 2000  # bytes at each end of a log, fewer than truncation leaves
_SMALL = 1 << 20  # bytes of a whole log


class StatedHash(Struct, frozen=True):
    """Hash of its log in an accuracy.txt. ``ends``: digest of this log's ends, in this process."""

    submitter: str
    cell: str
    run: str
    digest: str
    ends: int
    place: Place


def list_stated_hashes(view: CellView) -> Iterator[StatedHash]:
    """List the hashes of the accuracy run and of each test; nothing of a file with several hashes, since it is not
    known which of them is whose, nor of a whole log that is not the one its hash names, which is reported already."""
    folders = {"accuracy": view.files.accuracy.folder}
    folders |= {test: folder / "accuracy" for test, folder in view.files.tests.items()}
    for run, folder in folders.items():
        read = view.files.read_text(folder, ACCURACY_TEXT)
        report = parse_accuracy(read.value, (), read.file) if read.value else None
        answers = view.files.read_answers(folder) if report and is_digest(report.hash) else None
        if report is None or answers is None or not _is_named(answers, report.hash.lower()):
            continue
        text = read.value or ""
        if text.count("hash=") > 1 and list_digests(text) != (report.hash.lower(),):
            continue
        yield StatedHash(
            view.files.submitter.submitter,
            str(view.cell),
            run,
            report.hash.lower(),
            hash((_plain(answers.data[: 2 * _END])[:_END], _plain(answers.data[-2 * _END :])[-_END:])),
            Place(read.file, report.hash_line),
        )


def _is_named(answers: CachedAnswers, digest: str) -> bool:
    """True where the log may be the one that the hash is of: cut, or whole and hashed already."""
    if answers.truncated:
        return len(answers.data) >= 2 * _END
    return len(answers.data) <= _SMALL and digest in answers.own_hashes()


def _plain(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


@applies(verify_hashes.rule)
def verify_stated_hashes(hashes: Iterable[StatedHash]) -> Iterator[tuple[About, Complaint]]:
    """Each log that is not as most of those with its hash; all of them where none is. It is not known which file was
    copied, so that it is a warning. Within a cell the runs are compared elsewhere."""
    by_digest: dict[str, list[StatedHash]] = {}
    for item in hashes:
        by_digest.setdefault(item.digest, []).append(item)
    for same in by_digest.values():
        (usual, often), *others = Counter(item.ends for item in same).most_common()
        alone = bool(others) and others[0][1] < often
        for item in same if others else ():
            if alone and item.ends == usual:
                continue
            other = next(each for each in same if each.ends != item.ends and (not alone or each.ends == usual))
            if (item.submitter, item.cell) != (other.submitter, other.cell):
                yield About(item.submitter, item.cell), _complain(item, other)


def _complain(item: StatedHash, other: StatedHash) -> Complaint:
    whose = other.cell if other.submitter == item.submitter else f"{other.submitter} {other.cell}"
    return Complaint(
        item.place,
        f"hash={item.digest[:12]}…, as of the {other.run} log of {whose}, which has other answers",
        "the hash of one log",
        cause="one of the two files is not of its log",
        other=other.place,
        severity=Severity.WARNING,
        mechanism="accuracy-of-another-run",
    )
