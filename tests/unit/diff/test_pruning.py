"""What may go, as values alone."""

from __future__ import annotations

from datetime import date

from msgspec.structs import replace

from reconciler.diff.pruning import Prunable, list_prunable
from reconciler.resource.decisions import Acceptance, AcceptedKey, Decisions, Freeze, KeyChange
from reconciler.resource.kinds import Address, Kind

from .simulated import Wish, World, desire

ONE, OTHER = Wish("one"), Wish("other", data=1, weights=1)
BUILT = (Kind.DATASET, Kind.MODEL, Kind.ENGINE)
NOTHING = Decisions({}, {}, {}, date(2026, 3, 15))


def pruned(
    *wishes: Wish, decisions: Decisions = NOTHING, measured: bool = False, cloned: bool = False
) -> tuple[World, Prunable]:
    """Both cells were made, and only these are declared now. ``cloned``: elsewhere, so that only records are here."""
    world = World()
    world.settle(desire([ONE, OTHER]))
    stored = frozenset(a.sha256 for s in world.summaries for a in s.artifacts if not cloned)
    cells = frozenset(str(wish.cell) for wish in (ONE, OTHER) if not cloned)
    return world, list_prunable([desire(wishes)], world.recorded, decisions, cells, stored, measured=measured)


def test_built_files_go_first_and_records_of_measurements_keep_theirs() -> None:
    _, found = pruned(ONE)
    kinds = {summary.address.kind for summary, _ in found.files}
    assert kinds == set(BUILT)
    assert not found.records  # a kept run still says what it was made from
    assert found.cells == (str(OTHER.cell),)


def test_a_clone_has_only_records_to_prune() -> None:
    world, found = pruned(ONE, measured=True, cloned=True)
    assert not found.empty
    assert (found.files, found.cells) == ((), ())
    assert {"other" in s.address.name for s in found.records} == {True}
    (record, file, cell) = found.list_shares()
    assert record == ("record", len(found.records), len(world.summaries))
    assert (file, cell) == (("stored file", 0, 0), ("rendered cell", 0, 0))


def test_what_two_cells_share_stays_while_one_is_frozen() -> None:
    frozen, twin = Wish("one"), Wish("twin")
    world = World()
    world.settle(desire([twin, frozen]))
    shared = {s.id for s in world.summaries if s.shared}
    assert shared
    freeze = Freeze(frozen.cell, "why", "Ada", "2026-03-01", None, "")
    decisions = Decisions({}, {"state/frozen/x": freeze}, {}, date(2026, 3, 15))
    found = list_prunable([desire([])], world.recorded, decisions, frozenset(), frozenset(), measured=True)
    assert shared.isdisjoint(s.id for s in found.records)


def test_what_is_frozen_stays() -> None:
    freeze = Freeze(OTHER.cell, "why", "Ada", "2026-03-01", None, "")
    decisions = Decisions({}, {"state/frozen/x": freeze}, {}, date(2026, 3, 15))
    assert pruned(ONE, decisions=decisions, measured=True)[1].empty


def test_what_an_acceptance_counts_stays_whatever_it_is_called_now() -> None:
    world = World()
    world.settle(desire([ONE, OTHER]))
    run = Address(Kind.RUN, f"{OTHER.cell}/performance")
    key = next(s.key for s in world.summaries if s.address == run)
    keys = (AcceptedKey(Address(Kind.RUN, f"{ONE.cell}/performance"), KeyChange(key, "now")),)
    accepted = Acceptance(ONE.cell, "why", "Ada", "", date(2026, 4, 1), "", keys)
    decisions = Decisions({"a": accepted}, {}, {}, date(2026, 3, 15))
    found = list_prunable([desire([ONE])], world.recorded, decisions, frozenset(), frozenset(), measured=True)
    gone = {s.address.label for s in found.records}
    assert gone == {"Run accuracy", "Score"}  # what the run was made from is still reported


def test_a_record_that_a_declared_cell_shares_stays() -> None:
    world = World()
    world.settle(desire([ONE, OTHER]))
    shared = Address(Kind.RUN, f"{ONE.cell}/performance")
    world.summaries = [
        replace(s, shared=(shared,)) if s.address.name == f"{OTHER.cell}/performance" else s for s in world.summaries
    ]
    found = list_prunable([desire([ONE])], world.recorded, NOTHING, frozenset(), frozenset(), measured=True)
    assert {s.address.label for s in found.records} == {"Run accuracy", "Score"}


def test_a_freeze_of_everything_keeps_what_belongs_to_cells() -> None:
    freeze = Freeze(None, "why", "Ada", "2026-03-01", None, "")
    decisions = Decisions({}, {"state/frozen/x": freeze}, {}, date(2026, 3, 15))
    world, found = pruned(ONE, decisions=decisions, measured=True)
    assert (found.records, found.cells) == ((), ())
    lone = World([replace(s, upstream=()) for s in world.summaries if s.address.kind is Kind.DATASET])
    lone.summaries = [
        replace(s, address=Address(Kind.DATASET, "gone"), key="gone", shared=()) for s in lone.summaries[:1]
    ]
    kept = list_prunable([desire([ONE])], lone.recorded, decisions, frozenset(), frozenset(), measured=True)
    assert kept.records == tuple(lone.summaries)


def test_upstreams_that_are_not_recorded_here_or_name_each_other_end_the_search() -> None:
    world = World()
    world.settle(desire([ONE]))
    world.summaries = [
        replace(s, upstream=(*s.upstream, ("gone", "Model/gone"), ("own", s.id))) for s in world.summaries
    ]
    assert list_prunable([desire([ONE])], world.recorded, NOTHING, frozenset(), frozenset(), measured=True).empty


def test_nothing_is_to_go_where_no_record_file_or_cell_is() -> None:
    record = pruned(ONE)[0].summaries[0]
    artifact = record.artifacts[0]
    empty = Prunable((), (), (), 1, 2, 3)
    assert empty.empty
    for found in (
        replace(empty, records=(record,)),
        replace(empty, files=((record, artifact),)),
        replace(empty, cells=("a",)),
    ):
        assert not found.empty
    assert [total for _, _, total in empty.list_shares()] == [1, 2, 3]
