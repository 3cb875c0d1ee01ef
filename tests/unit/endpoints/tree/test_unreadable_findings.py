"""A folder of a submission that cannot be listed is one finding, and the rest is checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reconciler.endpoints.check.engine import check_endpoints, verify_endpoints
from tests.unit.endpoints.tree.curves import make_curve, make_submission, write_submission
from tests.unit.tree.test_unreadable_findings import Shut, find, shut

__all__ = ["shut"]


@pytest.mark.parametrize(
    "name", ["results/{system}", "results/{system}/{model}", "results/{system}/{model}/{point}", "src"]
)
def test_closed_folder_is_one_finding(tmp_path: Path, name: str, shut: Shut) -> None:
    curve = make_curve()
    root = write_submission(tmp_path, make_submission(curve))
    point = next(path for path in sorted(root.glob("results/*/*/r*")))
    names = {"system": point.parts[-3], "model": point.parts[-2], "point": point.name}
    folder = root / name.format(**names)
    other = tmp_path / "Other" / "one"
    shutil.copytree(root, other)
    before = find(check_endpoints(tmp_path).findings)
    shut(folder)
    report = check_endpoints(tmp_path)
    (reported,) = [f for f in report.findings if f.rule.id == "tree.readable"]
    assert str(reported.complaint.place) == str(folder.relative_to(tmp_path))
    assert not find(report.findings) - before - find((reported,))
    if name != "src":
        assert [f.rule.id for f in verify_endpoints(tmp_path).findings] == ["tree.readable"]
