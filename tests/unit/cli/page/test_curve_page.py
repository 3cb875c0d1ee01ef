"""A curve on the page and as a plot, of a repository that has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError
from reconciler.page.links import Links
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.site import Site
from reconciler.reconcile.planning import Options
from reconciler.storage.files import RepositoryPaths
from tests.shared import need
from tests.unit.cli.adopted import adopt_curve
from tests.unit.cli.conftest import Reconcile

CURVE = "standardized/box/vllm"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt_curve(tmp_path_factory.mktemp("curve"))


def test_the_page_shows_a_curve_its_row_and_its_points(root: Path) -> None:
    need("jinja2")
    site, links = Site(RepositoryPage(RepositoryPaths(root), Options())), Links()
    matrix = site.show_matrix(links)
    assert "MLPerf Endpoints v1.0" in matrix
    assert f'href="curve/{CURVE}"' in matrix
    assert "7 of 7 points" in matrix
    curve = site.show_curve(CURVE, Links("../../../"))
    assert "Medium Concurrency" in curve
    assert f'href="../../../cell/{CURVE}/c64"' in curve
    assert curve.count("<figure") == 3
    assert f'href="../../../cell/{CURVE}/c192"' in curve
    point = site.show_cell(f"{CURVE}/c10", Links("../../../../"))
    assert "Point of the curve" in point
    assert "med concurrency" in point
    with pytest.raises(ReconcilerError, match="no curve is named 'standardized/box/other'") as caught:
        site.show_curve("standardized/box/other", links)
    assert CURVE in caught.value.fix


def test_a_curve_is_plotted_next_to_itself_at_another_commit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    need("vl_convert")
    monkeypatch.chdir(root)
    drawn = tmp_path / "curve.svg"
    assert "  Dedicated Offline run of 192 samples: " in reconcile.succeed("status")
    assert f"{CURVE}: 7 points" in reconcile.succeed("plot", CURVE, "-o", str(drawn))
    said = reconcile.succeed("plot", CURVE, "-o", str(drawn), "--of", "ttft", "--with", "HEAD")
    now, then = said.partition(f"{CURVE}, now: ")[2].split(f". {CURVE}, HEAD: ")
    assert then.rstrip(".\n") == now
    assert now.startswith("7 points")
    assert "Offline" in now
    sent = root.parent / "sent/ACME"
    compared = reconcile.report("compare", "HEAD", str(sent), ends=0)
    assert {pair["ratio"] for pair in compared["pairs"]} == {1.0}
    assert len(compared["pairs"]) == 8
    assert [pair["points"][0] for pair in compared["curves"]] == [compared["curves"][0]["points"][1]]
    assert "latency is a plot for cells" in reconcile.refuse("plot", CURVE, "-o", str(drawn), "--of", "latency")


def test_a_point_is_neither_moved_nor_tried_by_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(root)
    assert "all points of a curve are in one division" in reconcile.refuse("move", "c10", "--to", "open")
    assert "is a point of a curve" in reconcile.refuse("try", "c10", "min_query_count=400")
