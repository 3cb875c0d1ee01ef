"""What cases are told is held to the texts beside their tests, but for what each measurement has of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.said import hold, read_sections

WRITE = "RECONCILE_SAID"


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (["took 1.25e+3 s of 600"], True),
        (["took nothing s of 600"], False),
        (["took 12 s of 601"], False),
        (["took 12 s of 600", "and more"], False),
        ([], False),
    ],
)
def test_a_text_is_held_but_for_what_is_measured(
    found: list[str], held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WRITE, raising=False)
    path = tmp_path / "said.txt"
    path.write_text("== other\n== case\ntook {n} s of 600\n")
    if held:
        hold(path, "case", found)
    else:
        with pytest.raises(AssertionError):
            hold(path, "case", found)


def test_writing_twice_leaves_open_what_differs_between_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WRITE, "write")
    path = tmp_path / "said.txt"
    for took, word in ((1.5, "fast"), (22, "slow"), (22, "slow")):
        hold(path, "numbers", [f"took {took} s of 600"])
        hold(path, "words", [f"{word} by {took}"])
    assert read_sections(path) == {"numbers": ["took {n} s of 600"], "words": ["slow by 22"]}
