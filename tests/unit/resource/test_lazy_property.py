"""A kept property is made once for each instance, and is in its class as it was written."""

from __future__ import annotations

from msgspec import Struct

from reconciler.resource.lazy_property import lazy_property


class Made(Struct, frozen=True, dict=True):
    name: str

    @lazy_property
    def letters(self) -> list[str]:
        """Of its name."""
        return list(self.name)


def test_a_value_is_made_once_for_each_instance_until_it_is_let_go() -> None:
    one, other = Made("ab"), Made("ab")
    first = one.letters
    assert one.letters is first == other.letters
    assert other.letters is not first
    del vars(one)["letters"]
    assert one.letters is not first


def test_a_class_shows_the_property_itself() -> None:
    assert isinstance(Made.letters, lazy_property)
    assert Made.letters.__doc__ == "Of its name."
