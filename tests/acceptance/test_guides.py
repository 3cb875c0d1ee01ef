"""Every row of the guides is as the table says, tried in a shell; most take seconds, the rehearsal that they share
minutes. ``REHEARSAL`` names the folder of one that was carried out, ``INFERENCE_CHECKOUT`` a checkout of
mlcommons/inference.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.guides import STATES, read_guides, try_rows
from tests.shared import make_once, need

GUIDES = read_guides()
MOST = {"partly": 5, "absent": 2}


def test_the_table_has_every_row_once_with_its_reason() -> None:
    assert len(GUIDES.rows) >= 180
    assert [name for name, count in Counter(row.name for row in GUIDES.rows).items() if count > 1] == []
    assert {row.state for row in GUIDES.rows} == set(STATES)
    assert [row.name for row in GUIDES.rows if (row.state == "works") != (not row.because)] == []
    counts = Counter(row.state for row in GUIDES.rows)
    assert all(counts[state] <= most for state, most in MOST.items()), counts


def test_every_guide_has_rows_and_no_command_serves_many() -> None:
    assert {name for row in GUIDES.rows for name in row.guides} == {"w", "o", "r2", "r5", "s"}
    commands = Counter((row.place, " ".join(row.run.split())) for row in GUIDES.rows)
    assert [command for command, count in commands.items() if count > 3] == []


def test_a_pattern_is_not_matched_by_any_output() -> None:
    assert [
        row.name for row in GUIDES.rows if re.search(row.shows, "", re.M) or re.search(row.shows, "error: x\n", re.M)
    ] == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("place", GUIDES.places)
def test_rows_are_as_the_table_says(place: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    need("mlperf_loadgen", "onnxruntime", "onnx", "cv2", "tokenizers")
    folder = make_once(tmp_path_factory, "guides", lambda folder: folder)
    assert [one.fault for one in try_rows(GUIDES, place, Path(folder)) if one.fault] == []
