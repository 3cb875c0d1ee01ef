"""``--official`` of an Endpoints submission: by a stand-in of the interpreter, and by the package if it is there."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.endpoints.check.engine import check_endpoints
from reconciler.endpoints.check.official import run_official_checker
from reconciler.errors import ReconcilerError
from reconciler.resource.rules import Severity
from reconciler.rules.programs import PublishedLists
from tests.benchmarks.endpoints_checker import agrees, compare
from tests.unit.endpoints.tree.curves import write_submission

_INSTALLED = importlib.util.find_spec("submission_checker") is not None


def stand_in(folder: Path, text: str) -> Path:
    """An environment whose python runs ``text`` with the arguments of the real one."""
    python = folder / "environment/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!{sys.executable}\n{text}")
    python.chmod(0o755)
    return python.parent.parent


def result(root: Path, severity: str, place: str) -> dict[str, Any]:
    return {
        "rule": "point-count",
        "severity": severity,
        "message": "too\nfew",
        "path": str(root / place),
        "fix": "more",
    }


def test_errors_and_warnings_become_findings_of_their_curve(tmp_path: Path) -> None:
    root = write_submission(tmp_path / "tree").resolve()
    places = ("results/box/gpt-oss-120b", "results/box/gpt-oss-120b/r5/point.yaml", "docs")
    listed = [result(root, kind, place) for kind, place in zip(("error", "warning", "info"), places, strict=True)]
    written = json.dumps({"results": listed})
    environment = stand_in(tmp_path, f"import sys\nprint('1.5.3.0')\nopen(sys.argv[4], 'w').write({written!r})\n")
    report = run_official_checker(check_endpoints(root), root, environment, tmp_path / "output", PublishedLists())
    (run,) = report.official
    assert (run.commit, run.verdict) == ("1.5.3.0", "has errors")
    found = [item for item in report.findings if item.rule.id == "official.endpoints"]
    assert [(item.severity, item.cell) for item in found] == [
        (Severity.ERROR, "box/gpt-oss-120b"),
        (Severity.WARNING, "box/gpt-oss-120b/r5"),
    ]
    assert found[0].complaint.found == "point-count: too few"
    assert found[1].complaint.place.file == "results/box/gpt-oss-120b/r5/point.yaml"


def test_a_checker_that_dies_is_no_pass(tmp_path: Path) -> None:
    root = write_submission(tmp_path / "tree")
    environment = stand_in(tmp_path, "raise SystemExit('no memory')\n")
    report = run_official_checker(check_endpoints(root), root, environment, tmp_path / "output", PublishedLists())
    assert (report.official[0].verdict, report.official[0].cause) == ("crashed", "no memory")
    assert not report.clean


def test_without_the_package_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    root = write_submission(tmp_path / "tree")
    environment = stand_in(tmp_path, "import submission_checker_of_nobody\n".replace("_of_nobody", ""))
    if _INSTALLED:
        pytest.skip("the package is installed here")
    with pytest.raises(ReconcilerError, match="endpoints-submission-cli is not installed"):
        run_official_checker(check_endpoints(root), root, environment, tmp_path / "output", PublishedLists())


@pytest.mark.slow
@pytest.mark.skipif(not _INSTALLED, reason="needs the package endpoints-submission-cli")
def test_the_official_checker_refuses_what_ours_refuses_by_the_same_rule(tmp_path: Path) -> None:
    compared = compare(Path(sys.executable), tmp_path)
    assert not [mutation.name for mutation, ours, official in compared if not agrees(mutation, ours, official)]


@pytest.mark.slow
@pytest.mark.skipif(not _INSTALLED, reason="needs the package endpoints-submission-cli")
def test_the_official_checker_accepts_what_is_rendered(tmp_path: Path) -> None:
    root = write_submission(tmp_path / "tree")
    report = run_official_checker(check_endpoints(root), root, Path(), tmp_path / "output", PublishedLists())
    assert report.official[0].verdict == "looks OK"
