"""All logs of one commit of LoadGen state its version and date: one that does not is reported next to one that does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.loadgen.log import parse_detail
from reconciler.resource.rules import Severity
from reconciler.tree.findings import Place
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.engine import Revision, list_revisions, verify_revisions

FIRST = ':::MLLOG {"key": "seen", "value": true}\n'
COMMIT = "0123456789abcdef"
DATE, OTHER = "2026-01-05T10:00:00+01:00", "2026-01-06T10:00:00+01:00"


def read(version: object, date: object) -> list[Revision]:
    lines = [
        f':::MLLOG {{"key": "{key}", "value": {value}}}\n'
        for key, value in (("loadgen_version", version), ("loadgen_git_commit_date", date))
        if value is not None
    ]
    log = parse_detail("".join([FIRST, *lines]).encode(), "detail.txt")
    view: Any = SimpleNamespace(
        performance=SimpleNamespace(log=log),
        accuracy=None,
        test_views={},
        cell="closed/box/net/Offline",
        files=SimpleNamespace(submitter=SimpleNamespace(submitter="Acme")),
    )
    return list(list_revisions(view))


@pytest.mark.parametrize(
    ("version", "date", "stated"),
    [
        (f'"5.1 @ {COMMIT}"', f'"{DATE}"', ("0123456789", ("5.1", DATE))),
        ('"5.1 @ 0123456789"', f'"{DATE}"', ("0123456789", ("5.1", DATE))),
        ('"5.1 @ 012345678"', f'"{DATE}"', None),
        ('"5.1 @ 0123456789X"', f'"{DATE}"', None),
        ('"5.1"', f'"{DATE}"', None),
        ("5.1", f'"{DATE}"', None),
        (None, f'"{DATE}"', None),
        (f'"5.1 @ {COMMIT}"', None, None),
        (f'"5.1 @ {COMMIT}"', "7", None),
    ],
)
def test_commit_version_and_date_are_read_where_a_log_has_them_all(
    version: str | None, date: str | None, stated: tuple[str, tuple[str, str]] | None
) -> None:
    places = Place("detail.txt", 2), Place("detail.txt", 3)
    wanted = [Revision("Acme", "closed/box/net/Offline", *stated, places)] if stated else []
    assert read(version, date) == wanted


def state(cell: str, version: str = "5.1", date: str = DATE, commit: str = "a") -> Revision:
    return Revision("Acme", cell, commit, (version, date), (Place(cell, 1), Place(cell, 2)))


def find(*revisions: Revision) -> list[tuple[str, str, str, Place, Place | None, Severity]]:
    return [
        (f.cell, f.complaint.found, f.complaint.wanted, f.complaint.place, f.complaint.other, f.severity)
        for f in compare_cells(verify_revisions, revisions)
    ]


def test_log_that_states_what_no_other_does_is_reported() -> None:
    common = [state("a"), state("b")]
    version = "version 5.0 of LoadGen's commit a", "5.1, as 2 other logs of this commit"
    assert find(state("c", "5.0"), *common) == [("c", *version, Place("c", 1), Place("a", 1), Severity.WARNING)]
    date = f"date {OTHER} of LoadGen's commit a", f"{DATE}, as 2 other logs of this commit"
    assert find(*common, state("c", date=OTHER)) == [("c", *date, Place("c", 2), Place("a", 2), Severity.ERROR)]
    assert [row[0] for row in find(*common, state("c", "5.0", OTHER), state("d", "4"))] == ["c", "d", "c"]


def test_utc_is_one_date_however_git_writes_it() -> None:
    assert find(state("a", date="2026-01-29T23:59:01+00:00"), state("b", date="2026-01-29T23:59:01Z")) == []
    (found,) = find(state("a", date="2026-01-29T23:59:01Z"), state("b", date="2026-01-29T23:59:02+00:00"))
    assert found[1] == "date 2026-01-29T23:59:02+00:00 of LoadGen's commit a"


def test_letters_of_a_format_that_git_does_not_know_are_no_date() -> None:
    old = [state(cell, date="%cI") for cell in ("a", "b", "c")]
    assert find(*old) == []
    assert find(*old, state("d"), state("e")) == []
    assert [row[0] for row in find(*old, state("d"), state("e"), state("f", date=OTHER))] == ["f"]


def test_logs_of_different_commits_state_different_things() -> None:
    assert find(state("a"), state("b", "5.0", commit="b"), state("c", date=OTHER, commit="c"), state("d")) == []
