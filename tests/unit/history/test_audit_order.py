"""What an audit asks, in which order, and what it counts; what proves each claim stands in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen, Finding
from reconciler.diff.claims import Claim, Proof
from reconciler.history import audit as module
from reconciler.history.audit import audit, audit_cell
from reconciler.resource.kinds import Kind
from reconciler.resource.records import Artifact
from tests.unit.diff.simulated import Wish, World, desire

POINTS = [Wish(scenario=f"c{number}") for number in (10, 2, 1)]
OF_A_COMMIT = ("find_copies", "find_missing_runs", "find_rewritten_decisions", "find_wrong_dates", "tell_shallow")
OF_A_COMMIT = (*OF_A_COMMIT[:4], "find_wrong_commits", OF_A_COMMIT[4], "verify_tree_files")


class Logs:
    def __init__(self) -> None:
        self.checked: dict[str, Proof] = {}
        self.asked: list[set[str]] = []

    def read(self, artifacts: Iterable[Artifact]) -> dict[str, bytes]:
        found = {artifact.sha256 for artifact in artifacts}
        self.asked.append(found)
        self.checked |= dict.fromkeys(found, Proof.PROVEN)
        return {}


class NoChecks:
    """In place of what records say of each other."""

    def __init__(self, *_: object) -> None:
        pass

    def verify(self, *_: object) -> list[Claim]:
        return []

    verify_others = verify_code = verify_roles = verify


def commit(*wishes: Wish, damaged: dict[str, str] | None = None, target: int = 1) -> Any:
    """Measured; each record has a log in git and a file in the store, and marks."""
    world = World()
    world.settle(desire(wishes))
    marks = {Kind.RUN: ("synthetic", "alpha"), Kind.SCORE: ("zeta", "rehearsal", "alpha")}
    for number, summary in enumerate(world.summaries):
        kept = (Artifact("log", f"log {summary.id}", 1, "logs"), Artifact("file", f"file {summary.id}", 1))
        own = marks.get(summary.address.kind, ())
        world.summaries[number] = replace(summary, artifacts=kept, marks=own)
    desired = desire([replace(wish, target=target) for wish in wishes])
    return SimpleNamespace(
        commit="c0ffee",
        desired=desired,
        difference=world.compare(desired),
        records={
            s.id: SimpleNamespace(marks=s.marks, address=s.address, artifacts=s.artifacts) for s in world.summaries
        },
        committed=SimpleNamespace(summaries={s.id: s for s in world.summaries}),
        damaged=damaged or {},
    )


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    found = Logs()
    monkeypatch.setattr(module, "open_logs", lambda *_: contextlib.nullcontext(found))
    monkeypatch.setattr(module, "find_appearances", lambda *_: {})
    monkeypatch.setattr(module, "RecordChecks", NoChecks)
    for name in OF_A_COMMIT:
        monkeypatch.setattr(module, name, lambda *_, name=name: [Claim("commit", name, Proof.PROVEN)])
    return found


def test_an_audit_asks_of_damage_of_each_cell_and_of_the_commit_in_this_order(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_cell(cell: object, *_: object, published: bool, checks: object) -> list[Claim]:
        return [Claim(str(cell), f"published {published}", Proof.PROVEN)]

    monkeypatch.setattr(module, "audit_cell", of_cell)
    at = commit(*POINTS, damaged={"state/records/b": "no JSON", "state/records/a": "no file"})
    lacking = at.difference.chosen[POINTS[1].cell]
    at.difference.chosen[POINTS[1].cell] = replace(lacking, score="")
    found = audit(Path(), at)
    assert [(claim.where, claim.what) for claim in found.claims] == [
        ("state/records/a", "record"),
        ("state/records/b", "record"),
        ("open/box/net/c1", "published True"),
        ("open/box/net/c2", "published False"),
        ("open/box/net/c10", "published True"),
        *(("commit", name) for name in OF_A_COMMIT),
    ]
    assert [(claim.proof, claim.detail) for claim in found.claims[:2]] == [
        (Proof.CONTRADICTED, "no file"),
        (Proof.CONTRADICTED, "no JSON"),
    ]
    assert found.commit == "c0ffee"
    assert list(found.marks) == [f"open/box/net/c{number}" for number in (1, 2, 10)]
    assert found.marks["open/box/net/c10"] == ("alpha", "rehearsal", "synthetic", "zeta")
    assert found.marks["open/box/net/c2"] == ("alpha", "synthetic")


def test_an_audit_counts_the_records_and_the_logs_in_git_that_it_asked_for(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "audit_cell", lambda *_, **__: [])
    at = commit(*POINTS)
    found = audit(Path(), at)
    published = {identity for chosen in at.difference.chosen.values() for identity in chosen.all}
    assert set(logs.checked) == {f"log {identity}" for identity in published}
    assert (found.records, found.logs) == (len(at.records), len(published))


def test_a_cell_without_marks_has_no_line_of_them(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "audit_cell", lambda *_, **__: [])
    at = commit(*POINTS[:2])
    at.difference.chosen[POINTS[0].cell] = Chosen()
    assert list(audit(Path(), at).marks) == [str(POINTS[1].cell)]


@pytest.mark.parametrize(
    ("target", "finding", "said"),
    [
        (1, False, "nothing is recorded for it"),
        (2, False, "Run performance: an input changed; Result: not recorded yet"),
        (1, True, "too slow"),
        (2, True, "too slow; Run performance: an input changed; Result: not recorded yet"),
    ],
)
def test_a_result_that_is_not_published_says_what_is_wrong_and_due(
    logs: Logs, target: int, finding: bool, said: str
) -> None:
    at = commit(*POINTS, target=target)
    cell, other = POINTS[0].cell, POINTS[1].cell
    own = (Finding("Invalid", str(cell), "too slow"),) if finding else ()
    findings = (Finding("Invalid", str(other), "of another"), *own)
    at.difference = replace(at.difference, findings=findings, chosen={cell: Chosen()})
    found = list(audit_cell(cell, at, logs, published=False))  # type: ignore[arg-type]
    assert found == [Claim(str(cell), "result", Proof.MISSING, said)]
    assert list(audit_cell(cell, at, logs, published=True)) == []  # type: ignore[arg-type]
