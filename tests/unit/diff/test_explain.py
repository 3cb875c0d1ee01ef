"""Which inputs differ from the last record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.diff.change import InputChange
from reconciler.diff.explain import list_input_changes
from reconciler.resource.inputs import DEFAULT, Input, Origin, make_key
from reconciler.resource.kinds import Kind
from reconciler.resource.records import RecordedInput

names = st.sampled_from(["batch", "engine", "dataset", "scenario", "target_qps", "version"])
values = st.dictionaries(names, st.none() | st.integers(0, 3) | st.text("ab", max_size=2), max_size=6)
HERE = Origin("specs/a.yaml", 3, 5)


def inputs(found: dict[str, object]) -> tuple[Input, ...]:
    return tuple(Input(name, value, HERE) for name, value in found.items())


def recorded(found: dict[str, object]) -> dict[str, RecordedInput]:
    return {name: RecordedInput(value, "before:1") for name, value in found.items() if value is not None}


@settings(max_examples=80)
@given(values, values)
def test_nothing_differs_exactly_when_the_keys_are_equal(now: dict[str, object], before: dict[str, object]) -> None:
    changes = list_input_changes(inputs(now), recorded(before))
    keys = make_key(Kind.ENGINE, inputs(now)), make_key(Kind.ENGINE, inputs(before))
    assert (changes == ()) == (keys[0] == keys[1])


def test_an_input_that_is_gone_is_told_where_the_spec_speaks_of_the_rest() -> None:
    before = recorded({"batch": 1})
    implied, declared = Input("dataset", None, DEFAULT), Input("engine", None, HERE)
    assert [c.origin for c in list_input_changes((implied, declared), before)] == [HERE]
    assert [c.origin for c in list_input_changes((implied,), before)] == [DEFAULT]
    assert [c.origin for c in list_input_changes((), before)] == [DEFAULT]


@settings(max_examples=80)
@given(values, values)
def test_own_inputs_come_first_each_set_in_order(now: dict[str, object], before: dict[str, object]) -> None:
    changes = list_input_changes(inputs(now), recorded(before))
    assert list(changes) == sorted(changes, key=lambda c: (c.upstream is not None, c.name))
    assert [c.name for c in changes if c.before == c.after] == []


def test_change_says_where_it_was_set_and_where_it_was_set_before() -> None:
    changes = list_input_changes(inputs({"batch": 8}), recorded({"batch": 4}))
    assert changes == (InputChange("batch", 4, 8, HERE, "before:1"),)
