from __future__ import annotations

import pytest

from reconciler.resource.quantities import join_listing, show_age, show_count, show_duration, show_rate, show_size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.012, "12 ms"),
        (0.9999, "1 s"),
        (3.44, "3.4 s"),
        (9.97, "10 s"),
        (59.6, "1 min"),
        (130, "2 min 10 s"),
        (600, "10 min"),
        (6600, "1 h 50 min"),
        (3599.9, "1 h"),
        (86400 * 2 + 3600 * 3, "2 d 3 h"),
        (-5, "-5 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "just now"),
        (61, "1 minute ago"),
        (2 * 86400 + 5, "2 days ago"),
        (70 * 86400, "2 months ago"),
        (800 * 86400, "2 years ago"),
    ],
)
def test_age(seconds: float, text: str) -> None:
    assert show_age(seconds) == text


def test_rate_size_count_and_listing() -> None:
    assert [show_rate(r) for r in (0.0421, 8.313, 107.2, 66000.0)] == ["0.0421", "8.31", "107", "66,000"]
    assert [show_size(s) for s in (512, 1 << 20, 1400 << 20, 5 << 40)] == ["512 B", "1 MiB", "1.37 GiB", "5 TiB"]
    assert [show_count(n, "query", "queries") for n in (1, 2000)] == ["1 query", "2,000 queries"]
    assert [join_listing("abc"[:n]) for n in (0, 1, 3)] == ["", "a", "a, b and c"]
    assert join_listing(map(str, range(10)), most=2) == "0, 1 and 8 more"
