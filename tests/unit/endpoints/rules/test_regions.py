from __future__ import annotations

import pytest

from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.regions import (
    BANDS,
    HIGH,
    LOW,
    MEDIUM,
    ULTRA_LOW,
    choose_accuracy_points,
    compute_regions,
    derive_regions,
    find_gaps,
    place_denser,
    place_points,
)
from reconciler.errors import ReconcilerError

_RULES = load_endpoints_rules()


# As the reference implementation of the rules computes them (low, medium, high).
@pytest.mark.parametrize(
    ("c_max", "c_min", "ends"),
    [
        (33, 1, (4, 11, 33)),
        (33, 32, (33, 33, 33)),
        (64, 1, (5, 17, 64)),
        (256, 1, (7, 41, 256)),
        (1000, 7, (17, 107, 1000)),
        (1024, 16, (26, 117, 1024)),
        (4096, 1, (17, 257, 4096)),
        (8192, 32, (52, 437, 8192)),
        (100001, 5, (51, 2159, 100001)),
    ],
)
def test_regions_are_equal_in_log_2_space(c_max: int, c_min: int, ends: tuple[int, int, int]) -> None:
    regions = compute_regions(c_max, c_min, _RULES)
    assert tuple(regions.get(band).last for band in (LOW, MEDIUM, HIGH)) == ends
    assert regions.get(LOW).first == c_min + 1


@pytest.mark.parametrize(("c_max", "last"), [(100, 110), (256, 282), (1024, 1127)])
def test_the_margin_is_ten_percent_above_the_maximum(c_max: int, last: int) -> None:
    regions = compute_regions(c_max, 1, _RULES)
    assert regions.find(last) == "margin"
    assert regions.find(last + 1) == ""
    below = [regions.get(band).first for band in (LOW, MEDIUM)]
    assert find_gaps([1, *below, last], regions, _RULES) == (regions.get(HIGH),)


@pytest.mark.parametrize(("c_max", "c_min"), [(32, 1), (256, 0), (256, 33)])
def test_a_curve_without_regions_is_refused(c_max: int, c_min: int) -> None:
    with pytest.raises(ReconcilerError):
        compute_regions(c_max, c_min, _RULES)


@pytest.mark.parametrize("c_max", [33, 40, 64, 100, 257, 1024, 8192, 200_000])
def test_placed_points_cover_every_region_and_end_at_the_maximum(c_max: int) -> None:
    points = place_points(c_max, _RULES)
    assert len(points) == len(set(points)) == 7
    assert points == tuple(sorted(points))
    assert (points[0], points[-1]) == (1, c_max)
    assert not find_gaps(points, derive_regions(points, c_max, _RULES), _RULES)


@pytest.mark.parametrize("count", [6, 33])
def test_a_count_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(ReconcilerError, match=f"{count} points"):
        place_points(256, _RULES, count=count)


def test_there_may_be_no_room_for_as_many_points() -> None:
    with pytest.raises(ReconcilerError, match="32 points"):
        place_points(33, _RULES, count=32, min_concurrency=20)


def test_a_declared_minimum_needs_its_point() -> None:
    regions = derive_regions([4, 8, 20, 256], 256, _RULES, c_min=8)
    assert regions.ultra_low.last == 8
    with pytest.raises(ReconcilerError, match="no point is at the declared minimum"):
        derive_regions([4, 20, 256], 256, _RULES, c_min=8)


def test_the_lowest_point_bounds_the_regions_up_to_32() -> None:
    assert derive_regions([50, 60, 900], 1024, _RULES).get(LOW).first == 1 + 32
    assert derive_regions([9, 60, 900], 1024, _RULES).get(LOW).first == 1 + 9


def test_accuracy_goes_to_one_point_of_each_band_and_to_the_elected_one() -> None:
    points = place_points(256, _RULES)
    regions = derive_regions(points, 256, _RULES)
    chosen = choose_accuracy_points(points, regions, _RULES, elected=256)
    assert set(chosen) == set(BANDS)
    assert len(set(chosen.values())) == 4
    assert chosen[HIGH] == 256
    assert chosen[ULTRA_LOW] == 1


@pytest.mark.parametrize(
    ("points", "elected", "chosen"),
    [
        ((1, 2, 4, 7, 8, 18, 41, 50, 104, 256), None, (1, 4, 18, 104)),
        ((1, 2, 4, 7, 8, 18, 41, 50, 104, 256), 256, (1, 4, 18, 256)),
        ((1, 2, 7, 10, 30, 80, 256), None, (1, 7, 30, 80)),  # in log-2 space
        ((1, 2, 7, 10, 30, 256, 280), 280, (1, 7, 30, 256)),  # beyond the maximum nothing is covered
        ((1, 4, 5, 256), None, (1, 4, None, 256)),
        ((1, 4, 18, 104, 283), 283, (1, 4, 18, 104)),
    ],
    ids=["nearest to the middle", "the elected one", "by ratios", "the margin", "a band without a point", "beyond"],
)
def test_accuracy_is_measured_nearest_to_the_middle_of_each_band(
    points: tuple[int, ...], elected: int | None, chosen: tuple[int | None, ...]
) -> None:
    regions = compute_regions(256, 1, _RULES)  # up to 7, 41 and 256
    found = choose_accuracy_points(points, regions, _RULES, elected=elected)
    assert tuple(found.get(band) for band in BANDS) == chosen


def test_denser_points_go_next_to_the_bend() -> None:
    # Throughput rises up to 64 and then stays, while each user gets ever less.
    measured = [(1, 100.0, 100.0), (8, 95.0, 700.0), (64, 90.0, 5000.0), (256, 30.0, 5200.0), (1024, 8.0, 5250.0)]
    denser = place_denser(measured, 2)
    assert len(denser) == 2
    assert all(8 < concurrency < 256 for concurrency in denser)
    assert not set(denser) & {8, 64, 256}


@pytest.mark.parametrize(
    ("users", "systems", "places"),
    [
        ((100, 90, 80, 45, 5), (1300, 1500, 3100, 3500, 4600), {1: (23,), 2: (23, 128), 9: (3, 23, 128, 512)}),
        ((90, 80, 65, 40, 25), (1000, 2500, 3400, 4100, 4800), {1: (3,), 2: (3, 128), 9: (3, 23, 128, 512)}),
    ],
)
def test_denser_points_are_where_a_bend_and_its_sides_are_largest_in_whatever_units(
    users: tuple[int, ...], systems: tuple[int, ...], places: dict[int, tuple[int, ...]]
) -> None:
    points = (1, 8, 64, 256, 1024)
    for user, system in ((1.0, 1.0), (7.0, 0.001), (0.01, 50.0)):
        measured = [(at, x * user, y * system) for at, x, y in zip(points, users, systems, strict=True)]
        assert {count: place_denser(measured[::-1], count) for count in places} == places
        first = places[1][0]
        assert first not in place_denser(measured, 9, taken=[first])


def test_a_straight_line_or_two_points_need_no_more() -> None:
    assert place_denser([(1, 10.0, 1.0), (8, 5.0, 5.0)], 3) == ()
    assert place_denser([(1, 3.0, 1.0), (2, 2.0, 2.0), (3, 1.0, 3.0)], 3) == ()


@pytest.mark.parametrize(
    ("c_max", "count", "c_min", "points"),
    [
        (33, 0, 1, (1, 2, 3, 5, 7, 15, 33)),
        (256, 0, 1, (1, 2, 4, 8, 18, 68, 256)),
        (1024, 8, 32, (32, 37, 53, 75, 144, 277, 533, 1024)),
    ],
)
def test_points_are_placed_at_the_middles_and_in_the_widest_gaps(
    c_max: int, count: int, c_min: int, points: tuple[int, ...]
) -> None:
    assert place_points(c_max, _RULES, count=count, min_concurrency=c_min) == points
