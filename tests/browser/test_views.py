"""Every view in a browser: on a desktop and a phone, light and dark, with a keyboard, from a server and from files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from reconciler.page.export import export_site
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.site import Site
from reconciler.reconcile.planning import Options
from reconciler.storage.files import RepositoryPaths
from tests.browser.conftest import Seen, check_view, draw_plots
from tests.unit.cli.conftest import CELL, SPEC, edit

VIEWS = (
    "/",
    "/live",
    f"/cell/{CELL}",
    "/plan?base=HEAD~1&head=HEAD",
    "/history",
    f"/history?cell={quote(CELL)}&one=HEAD&other=theirs",
    "/findings",
    "/findings?tree=theirs&command=verify-tree",
    f"/log?cell={quote(CELL)}&name=performance/mlperf_log_summary.txt",
    "/spec?file=specs/one.yaml#L3",
    "/cell/nothing",
)


@pytest.fixture
def source(recorded: Path) -> RepositoryPage:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")  # so that something is due, too
    return RepositoryPage(RepositoryPaths(recorded), Options(), {"theirs": recorded / ".reconcile/tree"})


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("desktop", "dark"), ("phone", "light")])
def test_every_view_is_quiet_and_accessible(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen], screen: str, scheme: str
) -> None:
    seen, origin = open_tab(screen, scheme), serve(source)
    for view in VIEWS:
        check_view(seen, origin, view, scheme)


def test_filters_stand_in_the_address(recorded: Path, serve: Callable[..., str], open_tab: Callable[..., Seen]) -> None:
    spec = SPEC.replace("          Offline:", "          Server: {target_qps: 100}\n          Offline:")
    (recorded / "specs/one.yaml").write_text(spec)
    seen, origin = open_tab(), serve(RepositoryPage(RepositoryPaths(recorded), Options()))
    rows = seen.tab.locator("li[data-row]:visible")
    seen.tab.goto(origin + "/")
    assert rows.count() == 2
    seen.tab.get_by_label("Scenario").select_option("Offline")
    assert rows.count() == 1
    assert seen.tab.evaluate("location.search") == "?scenario=Offline"
    seen.tab.get_by_label("Find").fill("digits off")
    assert "q=digits+off" in seen.tab.evaluate("location.search")
    assert seen.tab.locator("output").text_content() == "1 cell shown"
    seen.tab.reload()
    assert rows.count() == 1
    assert seen.tab.get_by_label("Find").input_value() == "digits off"
    seen.tab.goto(origin + "/?state=stale&q=nothing-fits")
    assert rows.count() == 0
    assert seen.tab.locator("details[data-group]:visible").count() == 0
    assert seen.is_quiet(origin)


def test_the_keyboard_is_enough(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    seen, origin = open_tab(), serve(source)
    seen.tab.goto(origin + "/")
    seen.tab.keyboard.press("Tab")
    assert seen.tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen.tab.keyboard.press("/")
    assert seen.tab.evaluate("document.activeElement.name") == "q"
    seen.tab.keyboard.type("off/")
    assert seen.tab.get_by_label("Find").input_value() == "off/", "in a field it is a letter"
    seen.tab.keyboard.press("Backspace")
    seen.tab.keyboard.press("ArrowDown")
    assert seen.tab.evaluate("document.activeElement.textContent").startswith("Offline")
    seen.tab.keyboard.press("Enter")
    seen.tab.wait_for_url(f"**/cell/{CELL}")


def test_an_export_opens_without_a_server(
    source: RepositoryPage, tmp_path: Path, open_tab: Callable[..., Seen]
) -> None:
    seen = open_tab()
    export_site(Site(source, files=True), tmp_path / "out", base="HEAD~1", on_cell=lambda _: None)
    origin = (tmp_path / "out").as_uri()
    seen.tab.goto(f"{origin}/index.html?q=nothing-fits")
    assert seen.tab.locator("li[data-row]:visible").count() == 0
    seen.tab.get_by_label("Find").fill("offline")
    assert seen.tab.locator("li[data-row]:visible").count() == 1
    seen.tab.get_by_role("link", name="Offline").click()
    seen.tab.wait_for_selector("h1")
    assert re.search(r"cell/open/box/digits/Offline\.html$", seen.tab.url)
    draw_plots(seen.tab)
    for view in ("Live", "Plan", "History", "Findings", "Matrix"):
        seen.tab.get_by_role("navigation").get_by_role("link", name=view).click()
        seen.tab.wait_for_selector(f"nav a[aria-current]:has-text('{view}')")
    assert seen.is_quiet(origin)


def test_a_wide_matrix_says_so_and_keeps_its_benchmarks_in_view(
    recorded: Path, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    path = recorded / "specs/one.yaml"
    plain = path.read_text(encoding="utf-8")
    cells = plain[plain.index("      box:\n        digits:") :]
    systems = "".join(f"    box{number}: {{extends: box}}\n" for number in range(8))
    text = plain.replace("  benchmarks:\n", f"{systems}  benchmarks:\n", 1)
    path.write_text(text + "".join(cells.replace("box:", f"box{number}:", 1) for number in range(8)), encoding="utf-8")
    seen, origin = open_tab(), serve(RepositoryPage(RepositoryPaths(recorded), Options()))
    seen.tab.goto(origin + "/")
    assert seen.tab.locator("[data-sideways]:visible").count() == 1
    name = seen.tab.locator(".matrix tbody th").first
    corner = seen.tab.locator(".matrix thead th").first
    before = name.bounding_box()["x"], corner.bounding_box()["x"]
    seen.tab.evaluate("document.querySelector('.grid').scrollLeft = 400")
    assert (name.bounding_box()["x"], corner.bounding_box()["x"]) == before
    assert seen.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "only the box scrolls"
    path.write_text(plain, encoding="utf-8")
    seen.tab.goto(origin + "/?again")
    seen.tab.wait_for_selector("[data-sideways]", state="hidden")
    assert seen.is_quiet(origin)


def test_findings_fold_by_cell_and_a_filter_hides_empty_groups(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    seen, origin = open_tab(), serve(source)
    seen.tab.goto(origin + "/findings")
    rules = seen.tab.locator("tr[data-row]").evaluate_all("rows => rows.map(row => row.dataset.rule)")
    assert len(set(rules)) > 1
    seen.tab.get_by_label("Rule").select_option(rules[0])
    assert seen.tab.locator("tr[data-row]:visible").count() == rules.count(rules[0])
    seen.tab.locator("details[data-unlisted] > summary").first.click()
    assert "closed" not in seen.tab.evaluate("location.search")
    seen.tab.get_by_role("searchbox").fill("nothing-fits")
    assert seen.tab.locator("details[data-unlisted]:visible").count() == 0
    assert seen.is_quiet(origin)


def test_the_columns_that_matter_are_on_a_phone(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    seen, origin = open_tab("phone"), serve(source)
    wanted = {
        f"/cell/{CELL}": {"Demand", "Met", "Measured", "Limit", "What", "Result", "Validity"},
        "/history": {"Cell", "Result", "Change", "Validity"},
        f"/history?cell={quote(CELL)}&one=HEAD&other=theirs": {"What", "Result", "Validity", "HEAD", "theirs", "Ratio"},
    }
    for view, names in wanted.items():
        seen.tab.goto(origin + view)
        ends = seen.tab.locator("thead th:visible").evaluate_all(
            "heads => heads.map(head => [head.textContent, head.getBoundingClientRect().right])"
        )
        assert names <= {name for name, end in ends if end <= 390}, view


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_a_long_name_of_a_finding_is_legible_to_its_end(
    source: RepositoryPage, serve: Callable[..., str], open_tab: Callable[..., Seen], screen: str
) -> None:
    seen, origin = open_tab(screen), serve(source)
    seen.tab.goto(origin + "/findings")
    named = seen.tab.locator("details.group > summary").first
    named.evaluate("element => { element.append('closed/' + 'XE9685L_B200_SXM_180GBx8_'.repeat(9) + '/llama') }")
    cut = named.evaluate("element => element.scrollWidth - element.clientWidth")
    assert cut <= 0
