from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.goldens import FOLDER, GOLDENS, SETTINGS, make, show
from tests.passes.repository import Repository
from tests.shared import make_once

Of = Callable[[str], Repository]


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Of]:
    """Repositories by the names of their states, not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        yield lambda state: make_once(tmp_path_factory, f"golden-{state}", partial(make, state))


@pytest.mark.parametrize("name", GOLDENS)
def test_a_command_prints_its_golden(name: str, of: Of) -> None:
    found = show(GOLDENS[name], of(GOLDENS[name].state))
    assert found == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), "read it, then: python -m tests.goldens"


def test_every_file_is_a_golden() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GOLDENS)
    assert len(GOLDENS) <= 30
