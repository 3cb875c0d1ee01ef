"""What a reviewer is given of decisions that a pull request makes, ends or breaks, and of frozen cells that change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.change import Chosen
from reconciler.diff.impact import CellEffect, Effect, Remark
from reconciler.errors import RepositoryError
from reconciler.history.pull_request import review_decisions
from reconciler.history.snapshot import read_decisions
from reconciler.record.decisions import write
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Decisions, Freeze
from reconciler.resource.kinds import Cell
from reconciler.storage.files import RepositoryPaths
from tests.unit.cli.conftest import git

CELL, OTHER = Cell("open", "box", "net", "Offline"), Cell("open", "box", "net", "Server")


TODAY = date(2026, 3, 15)


ACCEPTED = Acceptance(CELL, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", ())


FROZEN = Freeze(CELL, "over", "Ada <a@b>", "2026-03-01", None, "")


ALL = Freeze(None, "over", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "")


ENDED = Freeze(CELL, "over", "Ada <a@b>", "2026-03-01", TODAY, "")


OWN = "a new revision of our own code"


def snapshot(
    accepted: Mapping[str, AcceptanceStatus] | None = None,
    frozen: Mapping[str, Freeze] | None = None,
    damaged: Mapping[str, str] | None = None,
    published: str = "Run/1",
) -> Any:
    retained = dict.fromkeys(accepted or {}, ACCEPTED)
    return SimpleNamespace(
        decisions=Decisions(retained, frozen or {}, damaged or {}, TODAY),
        difference=SimpleNamespace(
            acceptances=[(path, ACCEPTED, status) for path, status in (accepted or {}).items()],
            chosen={CELL: Chosen(performance=published)},
        ),
    )


def review(base: Any, head: Any, *cells: CellEffect) -> list[Remark]:
    return list(review_decisions(base, head, cells))


def test_a_decision_that_is_damaged_is_an_error() -> None:
    fix = "restore it, or remove it and repeat the decision"
    found = review(snapshot({"a": AcceptanceStatus.IN_FORCE}), snapshot(damaged={"a": "no JSON", "b": "no file"}))
    assert found == [
        Remark("error", "a", 0, "the decision is damaged: no JSON", fix),
        Remark("error", "b", 0, "the decision is damaged: no file", fix),
    ]


IN_FORCE = f"{CELL}: accepts {OWN}, until 2026-04-01, by Ada: why"


EXPIRED = f"{CELL}: accepts {OWN}: expired since 2026-04-01, so it has no effect"


CHANGED = f"{CELL}: accepts {OWN}: no longer fits, so it has no effect"


NEW, AGAIN = "merge it only if the recorded results may count for these inputs", "measure the cell, or accept again"


@pytest.mark.parametrize(
    ("before", "after", "remarks"),
    [
        ({}, {"a": AcceptanceStatus.IN_FORCE}, [Remark("warning", "a", 0, IN_FORCE, NEW)]),
        ({}, {"a": AcceptanceStatus.EXPIRED}, [Remark("warning", "a", 0, EXPIRED, NEW)]),
        ({"a": AcceptanceStatus.IN_FORCE}, {"a": AcceptanceStatus.IN_FORCE}, []),
        ({"a": AcceptanceStatus.IN_FORCE}, {"a": AcceptanceStatus.MEASURED}, []),
        ({"a": AcceptanceStatus.IN_FORCE}, {"a": AcceptanceStatus.EXPIRED}, [Remark("notice", "a", 0, EXPIRED, AGAIN)]),
        ({"a": AcceptanceStatus.IN_FORCE}, {"a": AcceptanceStatus.CHANGED}, [Remark("notice", "a", 0, CHANGED, AGAIN)]),
        ({"a": AcceptanceStatus.EXPIRED}, {}, [Remark("notice", "a", 0, f"{CELL}: its acceptance is revoked")]),
    ],
    ids=["new", "new and expired", "kept", "measured", "expired", "changed", "revoked"],
)
def test_what_is_accepted_is_reported_where_it_is_new_or_ends(
    before: dict[str, AcceptanceStatus], after: dict[str, AcceptanceStatus], remarks: list[Remark]
) -> None:
    assert review(snapshot(before), snapshot(after)) == remarks


@pytest.mark.parametrize(
    ("before", "after", "level", "said"),
    [
        ({}, {"a": FROZEN}, "notice", f"{CELL} is to be frozen since 2026-03-01 by Ada: over"),
        ({}, {"a": ALL}, "notice", "the whole submission is to be frozen until 2026-04-01 by Ada: over"),
        ({"a": FROZEN}, {"a": FROZEN}, "", ""),
        ({"a": FROZEN}, {}, "warning", f"{CELL} is to be unfrozen; it is frozen since 2026-03-01 by Ada: over"),
        (
            {"a": ALL},
            {},
            "warning",
            "the whole submission is to be unfrozen; it is frozen until 2026-04-01 by Ada: over",
        ),
        ({"a": ENDED}, {}, "", ""),
    ],
    ids=["new", "all", "kept", "ended by it", "all ended by it", "over already"],
)
def test_freezes_are_reported(before: dict[str, Freeze], after: dict[str, Freeze], level: str, said: str) -> None:
    fix = "merge it only if the frozen results may change again" if level == "warning" else ""
    assert review(snapshot(frozen=before), snapshot(frozen=after)) == (
        [Remark(level, "a", 0, said, fix)] if said else []
    )


WHAT = f"{CELL} is frozen since 2026-03-01 by Ada: over; merging makes it "


LEAVE = f"do not change it, or: reconcile unfreeze {CELL}"


@pytest.mark.parametrize(
    ("effect", "published", "what"),
    [
        (Effect.STALE, "Run/1", "stale"),
        (Effect.REMOVED, "Run/1", "removed"),
        (Effect.RENDERED, "Run/1", "rendered again"),
        (Effect.UNAFFECTED, "Run/2", "one with other published records"),
        (Effect.UNAFFECTED, "Run/1", ""),
        (Effect.WAS_STALE, "Run/2", ""),
        (Effect.NEVER, "Run/2", ""),
    ],
)
def test_a_frozen_cell_that_changes_is_reported(effect: Effect, published: str, what: str) -> None:
    frozen = {"a": FROZEN}
    base, head = snapshot(frozen=frozen), snapshot(frozen=frozen, published=published)
    found = review(base, head, CellEffect(OTHER, Effect.STALE), CellEffect(CELL, effect))
    assert found == ([Remark("warning", "", 0, WHAT + what, LEAVE)] if what else [])


TODAY_DECISIONS_OF_COMMITS = date(2026, 3, 1)


def freeze(benchmark: str) -> Freeze:
    cell = Cell("open", "box", benchmark, "Offline")
    return Freeze(cell, "why", "Ann <ann@lab>", "2026-02-01T00:00:00Z", date(2026, 4, 1), "")


def test_decisions_are_those_of_the_commit_and_none_of_them_is_lost_silently(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    kept, lost = (write(RepositoryPaths(tmp_path), freeze(name)) for name in ("net", "other"))
    folder = (tmp_path / kept).parent
    (folder / "notes.txt").write_text("no decision")
    (folder / "broken.json").write_text("{")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Freeze")
    (tmp_path / kept).unlink()
    write(RepositoryPaths(tmp_path), freeze("later"))
    found = read_decisions(tmp_path, "HEAD", TODAY_DECISIONS_OF_COMMITS)
    assert found.freezes == {kept: freeze("net"), lost: freeze("other")}
    assert ([*found.damaged], found.today) == (
        [f"{folder.relative_to(tmp_path)}/broken.json"],
        TODAY_DECISIONS_OF_COMMITS,
    )
    blob = git(tmp_path, "rev-parse", f"HEAD:{lost}")
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError, match=f"^commit HEAD is incomplete here: missing {lost}"):
        read_decisions(tmp_path, "HEAD", TODAY_DECISIONS_OF_COMMITS)
