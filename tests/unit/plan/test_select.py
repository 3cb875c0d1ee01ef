"""Selectors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import ReconcilerError
from reconciler.plan.select import FIELDS, Selector, parse, parse_repeated
from reconciler.resource.kinds import Address, Cell, Kind

CELLS = [Cell(d, s, b, n) for d in ("open", "closed") for s in ("box", "h200x8") for b in ("net-99", "llama")
         for n in ("Offline", "Server")]  # fmt: skip
RUNS = [Address(Kind.RUN, f"{cell}/{mode}") for cell in CELLS for mode in ("accuracy", "performance")]
ALL = [*RUNS, *(Address(Kind.ENGINE, str(cell)) for cell in CELLS), Address(Kind.DATASET, "llama")]
few = settings(max_examples=60)
words = st.lists(
    st.sampled_from([
        "benchmark=net-99", "benchmark=llama,net*", "scenario=offline", "scenario=Server,Offline", "system=h200*",
        "division=closed", "kind=Engine", "kind=run", "mode=accuracy", "net", "cell=open/box/*",
    ]),
    max_size=4,
)  # fmt: skip


def chosen(found: Selector) -> set[Address]:
    return {address for address in ALL if found.matches(address)}


def test_nothing_selects_everything() -> None:
    assert chosen(parse([])) == set(ALL)


def field(word: str) -> str:
    return word.partition("=")[0] if "=" in word else "cell"


@few
@given(words)
def test_terms_of_one_field_widen_and_of_different_fields_narrow(found: list[str]) -> None:
    expected = set(ALL)
    for name in map(field, found):
        expected &= set.union(*(chosen(parse([word])) for word in found if field(word) == name))
    assert chosen(parse(found)) == expected


@few
@given(st.lists(words.filter(bool), max_size=3))
def test_a_repeated_option_adds_up(options: list[list[str]]) -> None:
    texts = [" ".join(sorted(terms, key=lambda word: "=" in word)) for terms in options if "net" not in terms]
    found = parse_repeated(texts)
    assert {a for a in ALL if found.matches(a)} == set().union(
        *(chosen(parse(terms)) for terms in options if "net" not in terms)
    )


def test_a_cell_is_chosen_as_it_is_printed() -> None:
    cell = CELLS[0]
    printed = f"{cell.division} / {cell.system} / {cell.benchmark} / {cell.scenario}"
    assert chosen(parse([printed])) == {address for address in ALL if address.cell in (cell, None)}


@few
@given(words, st.randoms())
def test_order_of_terms_does_not_matter(found: list[str], draw: object) -> None:
    shuffled = list(found)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert chosen(parse(shuffled)) == chosen(parse(found))


@pytest.mark.parametrize(
    ("word", "address", "expected"),
    [
        ("scenario=SERVER", RUNS[2], True),
        ("kind=run performance", RUNS[1], True),
        ("mode=accuracy", RUNS[1], False),
        ("mode=accuracy", Address(Kind.ENGINE, str(CELLS[0])), True),
        ("benchmark=llama", Address(Kind.DATASET, "llama"), True),
        ("benchmark=net-99", Address(Kind.DATASET, "llama"), False),
        ("system=box", Address(Kind.DATASET, "llama"), True),
        ("benchmark=net*", Address(Kind.SUBMISSION, "all"), True),
        ("kind=run", RUNS[1], True),
        ("kind=verdict", RUNS[1], False),
        ("kind=verdict", Address(Kind.VERDICT, f"{CELLS[0]}/TEST01"), True),
        ("kind=test01 verdict", Address(Kind.VERDICT, f"{CELLS[0]}/TEST01"), True),
        ("mode=performance", RUNS[1], True),
        ("open/box/net-99", RUNS[0], True),
        ("/open/box/net-99/", RUNS[0], True),
        ("open/net-99", RUNS[0], True),
        ("cell=open/net-99", RUNS[0], True),
        ("net-99/open", RUNS[0], False),
        ("cell=net", RUNS[0], False),
        ("cell=net*/offline", RUNS[0], True),
        ("h200", Address(Kind.ENGINE, str(CELLS[4])), CELLS[4].system == "h200x8"),
    ],
)
def test_word_matches(word: str, address: Address, expected: bool) -> None:
    assert parse([word]).matches(address) is expected


@pytest.mark.parametrize(("word", "hint"), [("benchmrk=x", "'benchmark'"), ("zzz=1", ", ".join(FIELDS))])
def test_unknown_field_names_the_nearest(word: str, hint: str) -> None:
    with pytest.raises(ReconcilerError) as caught:
        parse([word])
    assert hint in caught.value.fix


@pytest.mark.parametrize("word", ["kind=Score,cell=x", "kind=Score cell=x", "scenario==Offline"])
def test_two_terms_in_one_word_are_refused(word: str) -> None:
    with pytest.raises(ReconcilerError, match="contains another '='") as caught:
        parse([word])
    assert "separate terms" in caught.value.fix


def test_of_a_selection_those_that_choose_whole_cells_are_kept() -> None:
    whole, part = "benchmark=net-99 scenario=Server", "benchmark=llama kind=Run"
    assert parse_repeated([part, f" {whole} "]).drop_resource_terms() == parse_repeated([whole])
    assert parse_repeated([]).drop_resource_terms().selectors == ()
    assert parse_repeated([whole]).selectors == (parse(["benchmark=net-99", "scenario=Server"]),)
    run = RUNS[0]
    assert [parse_repeated(texts).matches(run) for texts in ([], ["llama"], ["llama", "net"])] == [False, False, True]
