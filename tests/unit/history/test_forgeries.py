"""Which cells and files of a pull request are read again, and what is told of them; what reads them stands in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Claim, Proof
from reconciler.diff.impact import Remark
from reconciler.errors import ReconcilerError
from reconciler.history import forgeries
from reconciler.history.forgeries import find_forgeries
from reconciler.resource.kinds import Address, Cell, Kind
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.history.test_audit_order import NoChecks

NET, SERVER = Wish(), Wish(scenario="Server")
MEASURE = "restore the records and logs as the pass left them, or measure again; `reconcile audit` shows every claim"
RENDER = "render the tree again (`reconcile`), and commit what it wrote"


class Review:
    """``at``: a commit with two measured cells; what was asked is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.desired = World(), desire([NET, SERVER])
        self.world.settle(self.desired)
        for number, summary in enumerate(self.world.summaries):
            if summary.address.kind is Kind.RUN:
                kept = tuple(a._replace(place="logs") for a in summary.artifacts)
                self.world.summaries[number] = replace(summary, artifacts=kept)
        self.fetched: set[str] = set()
        self.audited: list[tuple[str, bool]] = []
        self.claims: dict[Cell, list[Claim]] = {}
        self.copies: list[Claim] = []
        self.redated: list[Claim] = []
        self.unlike: list[tuple[str, str, str]] = []
        self.committed: object = {"a": 1}
        self.fails: Exception | None = None
        monkeypatch.setattr(forgeries, "open_logs", lambda *_: contextlib.nullcontext("logs"))
        monkeypatch.setattr("reconciler.history.audit.audit_cell", self.audit)
        monkeypatch.setattr("reconciler.history.records.RecordChecks", NoChecks)
        monkeypatch.setattr("reconciler.history.dates.find_wrong_commits", lambda *_: self.redated)
        monkeypatch.setattr(forgeries, "find_appearances", lambda *_: {})
        monkeypatch.setattr("reconciler.history.copies.find_copies", lambda *_: self.copies)
        monkeypatch.setattr("reconciler.history.rendered.find_committed_tree", lambda *_: self.committed)
        monkeypatch.setattr("reconciler.history.rendered.render_commit", self.render)
        monkeypatch.setattr("reconciler.history.rendered.find_unlike_files", lambda *_: self.unlike)
        self.monkeypatch = monkeypatch

    def audit(self, cell: Cell, *_: object, published: bool, checks: object) -> Iterator[Claim]:
        self.audited.append((cell.scenario, published))
        yield from self.claims.get(cell, ())

    def render(self, *_: object) -> str:
        if self.fails:
            raise self.fails
        return "files"

    def find(self, *changed: str, tree: str = "tree/", withheld: bool = False) -> list[Remark]:
        self.monkeypatch.setattr(forgeries.git, "list_changed_files", lambda *_: set(changed))
        at: Any = SimpleNamespace(
            commit="c0ffee",
            desired=SimpleNamespace(submission=SimpleNamespace(tree=tree)),
            difference=self.world.compare(self.desired),
            committed=SimpleNamespace(summaries={s.id: s for s in self.world.summaries}),
            records=SimpleNamespace(fetch=self.fetched.update),
        )
        return list(find_forgeries(Path(), "base", at, withheld=withheld))

    def id_of(self, kind: Kind, wish: Wish, part: str = "") -> str:
        address = Address(kind, f"{wish.cell}{part}")
        return next(s.id for s in self.world.summaries if s.address == address)

    def log_of(self, kind: Kind, wish: Wish, part: str = "") -> str:
        identity = self.id_of(kind, wish, part)
        return next(s.artifacts[0].sha256 for s in self.world.summaries if s.id == identity)


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch) -> Review:
    return Review(monkeypatch)


def record(identity: str) -> str:
    return f"state/records/{identity}.json"


def test_only_cells_whose_results_rest_on_what_is_new_are_read_again(review: Review) -> None:
    performance, score = review.id_of(Kind.RUN, SERVER, "/performance"), review.id_of(Kind.SCORE, NET)
    engine = next(s.id for s in review.world.summaries if s.address.kind is Kind.ENGINE)
    log, spare = review.log_of(Kind.RUN, NET, "/accuracy"), review.log_of(Kind.SCORE, SERVER)
    for changed, cells in (
        ([record(performance)], ["Server"]),
        ([record(score)], ["Offline"]),
        ([f"state/logs/{log}"], ["Offline"]),
        ([record(performance), record(score)], ["Offline", "Server"]),
        ([record(engine)], ["Offline", "Server"]),
        ([f"state/logs/{spare}"], []),
        ([f"state/logs/{'0' * 64}", f"state/records/{log}", f"{performance}.json"], []),
        (["specs/a.yaml"], []),
    ):
        review.audited.clear()
        assert review.find(*changed) == []
        assert [scenario for scenario, _ in review.audited] == cells, changed
        assert all(published for _, published in review.audited)


def test_what_they_were_made_from_is_read_at_once(review: Review) -> None:
    review.find(record(review.id_of(Kind.RUN, SERVER, "/performance")))
    own = {s for s in review.world.summaries if s.address.cell in (None, SERVER.cell) or SERVER.cell in
           {a.cell for a in s.shared}}  # fmt: skip
    assert review.fetched == {s.id for s in own}


@pytest.mark.parametrize(("withheld", "said"), [(False, "no such key"), (True, "its logs say otherwise")])
def test_what_logs_deny_is_an_error_and_nothing_else_is(review: Review, withheld: bool, said: str) -> None:
    own, other = str(NET.cell), str(SERVER.cell)
    review.claims[NET.cell] = [Claim(own, f"{proof}: inputs", proof, "no such key") for proof in Proof]
    review.copies = [
        Claim(other, "copied", Proof.CONTRADICTED, "m"),
        Claim(own, "copied", Proof.MISSING, "no such key"),
    ]
    found = review.find(record(review.id_of(Kind.SCORE, NET)), withheld=withheld)
    assert found == [
        Remark("error", "", 0, f"{own}: contradicted: inputs: {said}", MEASURE),
        Remark("error", "", 0, f"{own}: copied: {said}", MEASURE),
    ]


def test_a_commit_that_was_dated_before_its_parent_is_an_error(review: Review) -> None:
    """Where it is by less than a time zone, a question."""
    dated = "commit c0ffee: when it was made"
    review.redated = [Claim("submission", dated, proof, "a clock") for proof in (Proof.CONTRADICTED, Proof.MISSING)]
    found = review.find(record("Run/none"))
    assert [(remark.level, dated in remark.message) for remark in found] == [("error", True), ("warning", True)]


def test_a_result_that_is_no_longer_published_is_read_as_such(review: Review) -> None:
    performance = review.id_of(Kind.RUN, NET, "/performance")
    score = review.id_of(Kind.SCORE, NET)
    review.world.summaries = [s for s in review.world.summaries if s.id != score]
    review.find(record(performance))
    assert review.audited == [("Offline", False)]


@pytest.mark.parametrize(
    ("changed", "tree", "named"),
    [
        (["tree/a", "tree/b/c"], "tree/", ["a", "b/c"]),
        (["tree/a"], "tree", ["a"]),
        (["tree/b/c", "treeb/a", "a"], "tree", ["b/c"]),
        (["specs/a.yaml"], "tree", []),
        (["/a", "a"], "", []),
    ],
)
def test_files_of_the_tree_that_a_pull_request_touches_are_compared(
    review: Review, changed: Iterable[str], tree: str, named: list[str]
) -> None:
    review.unlike = [("a", "", "1 is not 2"), ("b/c", "", "2 is not 3")]
    why = {"a": "1 is not 2", "b/c": "2 is not 3"}
    found = review.find(*changed, tree=tree)
    assert found == [Remark("error", f"tree/{n}", 0, f"a rendered file was edited: {why[n]}", RENDER) for n in named]
    assert review.audited == []


def test_files_are_not_compared_where_there_is_no_tree_or_nothing_in_it(review: Review) -> None:
    review.unlike = [("a", "", "1 is not 2")]
    review.committed = {}
    assert review.find("tree/a") == []
    review.committed = {"a": 1}
    review.world.summaries = [s for s in review.world.summaries if s.address.kind is not Kind.SCORE]
    assert review.find("tree/a") == []


@pytest.mark.parametrize("error", [ReconcilerError("no engine"), KeyError("no engine"), OSError("no engine")])
def test_a_tree_that_cannot_be_rendered_is_a_warning(review: Review, error: Exception) -> None:
    review.fails = error
    said = f"its files cannot be compared: the tree cannot be rendered: {error}"
    assert review.find("tree/a") == [Remark("warning", "tree", 0, said)]
