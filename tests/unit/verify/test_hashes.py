"""One hash of two logs: accuracy.txt was copied from another result."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.tree.findings import Place
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.hashes import StatedHash, list_stated_hashes, verify_stated_hashes
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
