"""What a record may say of its outcome, and what no pass has ever recorded."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.record.codec import check_plausible
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedInput

PLAIN = Record(Address(Kind.RUN, "a/b/c/d/performance"), "0" * 64, 1, Ended.DONE, "2026-01-01", 1.0, "a", {})


def refuses(why: str) -> AbstractContextManager[object]:
    """``why``: "" where the record is one."""
    return pytest.raises(ValueError, match=why) if why else nullcontext()


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (0, ""),
        (999_999_999.0, ""),
        (1e9, "seconds is not a duration"),
        (-0.001, "seconds is not a duration"),
        (float("nan"), "seconds is not a duration"),
        (float("inf"), "seconds is not a duration"),
    ],
)
def test_a_duration_is_one_that_a_pass_can_have_measured(seconds: float, why: str) -> None:
    with refuses(why):
        check_plausible(replace(PLAIN, seconds=seconds))


@pytest.mark.parametrize(
    ("size", "why"),
    [(0, ""), ((1 << 62) - 1, ""), (1 << 62, "an artifact has no size"), (-1, "an artifact has no size")],
)
def test_each_artifact_has_a_size_that_a_file_can_have(size: int, why: str) -> None:
    sound = Artifact("a", "0" * 64, 1)
    for artifacts in ((sound, Artifact("b", "1" * 64, size)), (Artifact("b", "1" * 64, size), sound)):
        with refuses(why):
            check_plausible(replace(PLAIN, artifacts=artifacts))


@pytest.mark.parametrize(
    ("value", "keyed"),
    [
        ("fp8", True),
        (8, True),
        (True, True),
        (None, True),
        (["a", ["b", {"c": 1}]], True),
        ({"a": [1, None]}, True),
        (0.5, False),
        ([1, 0.5], False),
        ([0.5, 1], False),
        ({"a": {"b": 0.5}}, False),
        (b"a", False),
    ],
    ids=repr,
)
def test_an_input_is_a_value_that_a_key_was_made_of(value: Any, keyed: bool) -> None:
    sound = RecordedInput("Server", "spec.yaml:1")
    with refuses("" if keyed else "input 'engine.x' has a value that no key was made of"):
        check_plausible(replace(PLAIN, inputs={"a": sound, "engine.x": RecordedInput(value, "spec.yaml:2")}))


RATE = {"value": "20.5", "unit": "tokens/s"}
MARGIN = {"name": "p99", "measured": "3", "limit": "4", "unit": "ms", "met": True, "headroom": "+25"}
SUGGESTION = {"setting": "target_qps", "value": "40", "unit": "queries/s", "why": "it was too fast"}
BAR = {"metric": "accuracy", "measured": "76.1", "met": True, "least": "75.7", "most": "80"}
SHOWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "metric": (RATE, "value", "value"),
    **{f"margin's {name}": (MARGIN, name, name) for name in ("measured", "limit", "headroom")},
    **{f"bar's {name}": (BAR, name, name) for name in ("measured", "least", "most")},
    "suggestion": (SUGGESTION, "value", "suggestion"),
    "efficiency": (RATE, "value", "value"),
    "inferred": (RATE, "value", "value"),
}


def place(what: str, item: dict[str, Any]) -> dict[str, Any]:
    """The values of a record with one number in its place, behind one that is sound where there may be several."""
    match what.partition("'")[0]:
        case "metric" | "suggestion" as name:
            return {name: item}
        case "margin":
            return {"margins": [MARGIN, item]}
        case "bar":
            return {"bars": [BAR, item]}
        case "inferred":
            return {"inferred": {"MultiStream": RATE, "SingleStream": item}}
    return {"power": {"efficiency": item}}


@pytest.mark.parametrize("what", SHOWN)
def test_each_number_that_is_shown_was_measured(what: str) -> None:
    whole, field, name = SHOWN[what]
    for sound in ("1", "-9.5e40", "1e-40", "0", "0e-99", ""):  # nothing measured is no number at all
        check_plausible(replace(PLAIN, values=place(what, {**whole, field: sound})))
    for odd in ("fast", "nan", "1e41", "-1e41", "9e-41"):
        with pytest.raises(ValueError, match=f"^{name} is '{odd}', and not a number that was measured$"):
            check_plausible(replace(PLAIN, values=place(what, {**whole, field: odd})))
