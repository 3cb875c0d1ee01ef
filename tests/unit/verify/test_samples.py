"""Watts of samples that all have the same channels are read with them, to the values that are read of them alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.verify.power_readings import read_samples, read_watts

FOUR = "Watts,{},Volts,230.100000,Amps,0.963000,PF,0.949950"


def make(channels: int, watts: list[str]) -> bytes:
    several = "".join(f",Ch{number},{FOUR.format('70.2')}" for number in range(1, channels + 1))
    lines = (f"Time,07-28-2025 08:09:{at:02}.507,{FOUR.format(w)},Mark,testing{several}" for at, w in enumerate(watts))
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_watts_are_read_with_the_samples(channels: int) -> None:
    data = make(channels, ["210.5", "-1.000000", "0", "007.25"])
    assert read_samples(data).watts == read_watts(data) == [210.5, -1.0, 0.0, 7.25]


PIECES = st.sampled_from(
    [b"", b"\n", b"\r", b",", b",Watts,", b",Watts,9,Volts,9,Amps,9,PF,9", b",Ch4", b"Time,x", b"-", b".", b"1e3", b"x"]
)


@given(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9), PIECES), max_size=3))
def test_damaged_samples_have_the_same_watts_or_are_read_alone(
    channels: int, damages: list[tuple[int, int, bytes]]
) -> None:
    data = make(channels, ["210.5", "31", "210.5"])
    for at, count, piece in damages:
        data = data[:at] + piece + data[at + count :]
    assert read_samples(data).watts in (None, read_watts(data))


@pytest.mark.parametrize(
    "mark", [b"", b",Mark", b",Mark,", b",Mark,a,b", b",Mark,Ch7", b",Other,testing", b",Mark,a,Mark,b"]
)
def test_whatever_comes_before_the_first_channel_is_passed_over(mark: bytes) -> None:
    data = make(2, ["210.5", "31"]).replace(b",Mark,testing", mark)
    assert read_samples(data).watts == [210.5, 31]
