"""One hash of two logs: accuracy.txt was copied from another result."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.resource.rules import Severity
from reconciler.tree.findings import Place, TreeFinding
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.cross_cell import StatedHash, list_stated_hashes, verify_stated_hashes
from reconciler.verify.engine import Revision, verify_revisions, verify_tree
from tests.unit.tree.small_cells import small_cell

LOG, TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
CUT = "\n\n...\n\n"
DIGEST = "ab" * 32


def cut(head: str = "a", tail: str = "b", middle: int = 3000) -> str:
    return f"{head * middle}{CUT}{tail * middle}\n"


def listed(root: Path, log: str, digest: str = DIGEST, folder: str = "accuracy") -> list[StatedHash]:
    files = {f"{folder}/{LOG}": log, f"{folder}/{TEXT}": f"accuracy=1%\nhash={digest}\n"}
    return list(list_stated_hashes(small_cell(root, files)))


def test_the_ends_distinguish_truncated_logs(tmp_path: Path) -> None:
    (own,) = listed(tmp_path / "a", cut())
    assert (own.submitter, own.cell, own.run) == ("Acme", "closed/sys1/resnet/Offline", "accuracy")
    assert (own.digest, own.place.line) == (DIGEST, 2)
    same = [
        *listed(tmp_path / "b", cut()),
        *listed(tmp_path / "c", cut(middle=2500)),  # cut by another script
        *listed(tmp_path / "d", cut(), digest=DIGEST.upper()),
    ]
    assert [item.ends for item in same] == [own.ends] * 3
    assert {item.digest for item in same} == {DIGEST}
    others = [*listed(tmp_path / "e", cut(head="x")), *listed(tmp_path / "f", cut(tail="x"))]
    assert own.ends not in {item.ends for item in others}
    (test,) = listed(tmp_path / "g", cut(), folder="TEST01/accuracy")
    assert (test.run, test.ends) == ("TEST01", own.ends)


def test_line_ends_are_those_of_any_system(tmp_path: Path) -> None:
    lines = "answer\n" * 1000
    one, other = (
        listed(tmp_path / name, f"{text}{CUT}{text}")
        for name, text in (("a", lines), ("b", lines.replace("\n", "\r\n")))
    )
    assert [item.ends for item in one] == [item.ends for item in other]
    assert len(one) == 1


def test_a_log_says_nothing_where_its_hash_is_none_or_of_another(tmp_path: Path) -> None:
    assert listed(tmp_path / "a", cut(), digest="ab") == []
    assert listed(tmp_path / "b", cut(middle=10)) == []
    assert listed(tmp_path / "c", "whole\n") == []  # reported elsewhere
    own = hashlib.sha256(b"whole\n").hexdigest()
    assert [item.digest for item in listed(tmp_path / "d", "whole\n", digest=own)] == [own]
    assert list(list_stated_hashes(small_cell(tmp_path / "e", {f"accuracy/{LOG}": cut()}))) == []
    assert listed(tmp_path / "f", cut(), digest=f"{DIGEST}\nhash={'cd' * 32}") == []  # whose is which is not known
    assert len(listed(tmp_path / "g", cut(), digest=f"{DIGEST}\n")) == 1


def state(cell: str, ends: int, submitter: str = "Acme", digest: str = DIGEST) -> StatedHash:
    return StatedHash(submitter, cell, "accuracy", digest, ends, Place(f"{submitter}/{cell}", 2))


ONE, TWO, THREE = state("a", 1), state("b", 2), state("c", 1)


@pytest.mark.parametrize(
    ("hashes", "reported"),
    [
        ([ONE, THREE], []),
        ([ONE, TWO], ["a", "b"]),  # of two no one knows which is right
        ([TWO, ONE, THREE], ["b"]),  # most have the other
        ([ONE, state("b", 2, digest="cd" * 32)], []),
        ([ONE, replace(TWO, cell="a", run="TEST01")], []),  # of one cell: compared elsewhere
        ([ONE, replace(TWO, cell="a", submitter="Bcme")], ["a", "a"]),
    ],
)
def test_one_hash_is_of_one_log(hashes: list[StatedHash], reported: list[str]) -> None:
    assert [finding.cell for finding in compare_cells(verify_stated_hashes, hashes)] == reported


CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"


def find(root: Path, rule: str) -> list[TreeFinding]:
    return [f for f in verify_tree(root).findings if f.rule.id == rule]


def change(root: Path, key: str, old: str, new: str, below: str = CELL) -> None:
    """In every detail log below a folder."""
    for path in (root / below).rglob(DETAIL):
        text, count = re.subn(rf'("key": "{key}", "value": "){old}', rf"\g<1>{new}", path.read_text())
        assert count == 1
        path.write_text(text)


def test_another_version_of_one_commit_is_asked_about_wherever_it_is_stated(tree: Path) -> None:
    assert not find(tree, "runs.revision")
    change(tree, "loadgen_version", r"[\d.]+ @", "9.9.9 @")
    found = find(tree, "runs.revision")
    assert {(f.cell, f.severity) for f in found} == {("closed/sys1/resnet/Offline", Severity.WARNING)}
    assert len(found) == len(list((tree / CELL).rglob(DETAIL)))
    assert all(re.match(r"version 9\.9\.9 of LoadGen's commit [0-9a-f]{10}$", f.complaint.found) for f in found)
    assert all(re.search(r"^\d\S+, .*\d+ other logs", f.complaint.wanted) for f in found)


DATE, OTHER = "2026-01-05T10:00:00+01:00", "2026-01-06T10:00:00+01:00"


def built(cell: str, version: str = "5.1", date: str = DATE, commit: str = "a") -> Revision:
    return Revision("Acme", cell, commit, (version, date), (Place(cell, 1), Place(cell, 2)))


def differing(*revisions: Revision) -> list[tuple[str, str, str, Place, Place | None, Severity]]:
    return [
        (
            f.cell,
            f.complaint.found,
            f.complaint.wanted.partition(",")[0],
            f.complaint.place,
            f.complaint.other,
            f.severity,
        )
        for f in compare_cells(verify_revisions, revisions)
    ]


def cells(*revisions: Revision) -> list[str]:
    return [row[0] for row in differing(*revisions)]


def test_utc_is_one_date_however_git_writes_it() -> None:
    first, later = "2026-01-29T23:59:01", "2026-01-29T23:59:02+00:00"
    assert differing(built("a", date=f"{first}+00:00"), built("b", date=f"{first}Z")) == []
    (found,) = differing(built("a", date=f"{first}Z"), built("b", date=later))
    assert found[1] == f"date {later} of LoadGen's commit a"


def test_letters_of_a_format_that_git_does_not_know_are_no_date() -> None:
    old = [built(cell, date="%cI") for cell in ("a", "b", "c")]
    assert differing(*old) == differing(*old, built("d"), built("e")) == []
    assert cells(*old, built("d"), built("e"), built("f", date=OTHER)) == ["f"]


def test_logs_of_different_commits_state_different_things() -> None:
    others = built("b", "5.0", commit="b"), built("c", date=OTHER, commit="c")
    assert differing(built("a"), *others, built("d")) == []
