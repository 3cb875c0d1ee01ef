"""An audit.config that is placed for a command, or that the command places itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.verbs.command import audit_config


@pytest.mark.parametrize("settings", ["*.*.mode = 2\n", ""], ids=["a test", "another run"])
@pytest.mark.parametrize("left", ["# its own\n*.*.mode = 2\n", None], ids=["replaced", "removed"])
def test_nothing_stays_behind_where_files_are_placed(settings: str, left: str | None, tmp_path: Path) -> None:
    (given := tmp_path / "settings").write_text(settings)
    (cwd := tmp_path / "code").mkdir()
    placed = cwd / "audit.config"
    with audit_config(str(given) if settings else "", cwd, str(tmp_path / "lock")) as clear:
        assert placed.exists() is bool(settings)
        placed.unlink(missing_ok=True)
        if left is not None:
            placed.write_text(left)
        clear()
        assert not placed.exists()
    assert not placed.exists()


def test_a_file_of_a_command_that_is_given_a_path_is_its_own(tmp_path: Path) -> None:
    placed = tmp_path / "audit.config"
    with audit_config("", tmp_path, ""):
        placed.write_text("*.*.mode = 2\n")
    assert placed.exists()
    with pytest.raises(HarnessError) as caught, audit_config("", tmp_path, ""):
        pytest.fail("the run began with it")
    assert str(placed) in caught.value.problem
