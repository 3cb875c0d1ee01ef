"""Views of a curve in a browser: the matrix with its row, the curve, and one of its points."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.page.export import export_site
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.site import Site
from reconciler.reconcile.planning import Options
from reconciler.storage.files import RepositoryPaths
from tests.browser.conftest import Seen, check_view, draw_plots
from tests.unit.cli.adopted import adopt_curve

CURVE = "standardized/box/vllm"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt_curve(tmp_path_factory.mktemp("curve"))


@pytest.fixture
def source(root: Path) -> RepositoryPage:
    return RepositoryPage(RepositoryPaths(root), Options())


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("desktop", "dark"), ("phone", "light")])
def test_every_view_of_a_curve_is_quiet_and_accessible(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen], screen: str, scheme: str
) -> None:
    seen, origin = open_tab(screen, scheme), serve(source)
    for view in ("/", f"/curve/{CURVE}", f"/cell/{CURVE}/c10", "/curve/nothing"):
        check_view(seen, origin, view, scheme)


def test_a_curve_is_found_from_the_matrix_and_leads_to_its_points(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    seen, origin = open_tab(), serve(source)
    seen.tab.goto(origin + "/")
    assert seen.tab.locator("li[data-curve]:visible").count() == 1
    seen.tab.get_by_label("Find").fill("nothing-fits")
    assert seen.tab.locator("li[data-curve]:visible").count() == 0
    seen.tab.get_by_label("Find").fill("c25")
    assert seen.tab.locator("li[data-curve]:visible").count() == 1
    assert seen.tab.locator("output").text_content() == "1 cell shown"
    seen.tab.get_by_label("Find").press("ArrowDown")
    assert seen.tab.evaluate("document.activeElement.textContent").startswith("curve")
    seen.tab.keyboard.press("Enter")
    seen.tab.wait_for_url(f"**/curve/{CURVE}")
    seen.tab.get_by_role("link", name="25", exact=True).click()
    seen.tab.wait_for_url(f"**/cell/{CURVE}/c25")
    seen.tab.get_by_role("link", name="Curve", exact=True).click()
    seen.tab.wait_for_url(f"**/curve/{CURVE}")
    assert seen.is_quiet(origin)


def test_an_exported_curve_opens_without_a_server(
    source: RepositoryPage, tmp_path: Path, open_tab: Callable[..., Seen]
) -> None:
    seen = open_tab()
    export_site(Site(source, files=True), tmp_path / "out", on_cell=lambda _: None)
    origin = (tmp_path / "out").as_uri()
    seen.tab.goto(f"{origin}/index.html")
    seen.tab.get_by_role("link", name=re.compile("^curve")).click()
    seen.tab.wait_for_selector("h1")
    assert draw_plots(seen.tab)
    seen.tab.get_by_role("link", name="64", exact=True).click()
    seen.tab.wait_for_selector("h1:has-text('c64')")
    assert seen.is_quiet(origin)
