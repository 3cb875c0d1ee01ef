"""The page of a real repository with one recorded cell, asked over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import urlopen

import pytest

from harness.contract import Counter
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Intent, create
from reconciler.execute.outcome import QueuedStep
from reconciler.page.cell_report import parse_series
from reconciler.page.cell_view import arrange_cell
from reconciler.page.guard import RequestGuard
from reconciler.page.links import Links
from reconciler.page.live_report import is_timed, report_live
from reconciler.page.plots import can_draw
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.server import make_application
from reconciler.page.site import Site
from reconciler.reconcile.planning import Options
from reconciler.resource.kinds import Cell, RunAddress
from reconciler.storage.files import RepositoryPaths
from tests.processes import find_free_ports, wait_for
from tests.shared import need
from tests.unit.cli.conftest import CELL, Reconcile, edit, git


class Page(HTMLParser):
    """Its text, and its elements with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.found = "", list[tuple[str, dict[str, str | None]]]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def scripts(self) -> list[str | None]:
        """Where each script is; those that a browser does not run are data."""
        return [script["src"] for script in self.all("script") if script.get("type") != "application/json"]


def open_page(root: Path, **trees: Path) -> RepositoryPage:
    return RepositoryPage(RepositoryPaths(root), Options(), trees)


@pytest.fixture
def client(recorded: Path) -> Any:
    need("starlette", "httpx2")
    from starlette.testclient import TestClient

    application = RequestGuard(make_application(Site(open_page(recorded))))
    return TestClient(application, base_url="http://localhost:8765")


def test_the_matrix_shows_every_cell_with_its_state(recorded: Path) -> None:
    page = Page(Site(open_page(recorded)).show_matrix(Links()))
    (row,) = [attributes for attributes in page.all("li") if "data-row" in attributes]
    assert (row["data-benchmark"], row["data-scenario"], row["data-state"]) == ("digits", "Offline", "ready")
    assert "1 of 1 cell ready" in page.text


def test_a_cell_that_is_not_ready_says_why(recorded: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    site = Site(open_page(recorded))
    matrix = Page(site.show_matrix(Links()))
    assert [a["data-state"] for a in matrix.all("li") if "data-row" in a] == ["stale"]
    assert any("input changed" in (cell.get("title") or "") for cell in matrix.all("a"))
    cell = Page(site.show_cell(CELL, Links()))
    assert "specs/one.yaml:" in cell.text
    assert "1000" in cell.text
    assert "1100" in cell.text
    assert "not committed yet" in cell.text


def test_a_cell_shows_settings_runs_logs_and_files_of_the_tree(recorded: Path) -> None:
    page = Page(Site(open_page(recorded)).show_cell(CELL, Links()))
    said = ["target_qps", "specs/one.yaml:", "Declare one cell", "Run performance", "samples/s"]
    assert [text for text in (*said, "performance/mlperf_log_summary.txt") if text not in page.text] == []
    assert re.search(r"open/Tester/results/box/digits/Offline/performance/run_1/\S+", page.text)
    assert "Latency by percentile, the numbers" in {region.get("aria-label") for region in page.all("div")}


def test_a_setting_leads_to_its_line_and_the_line_to_its_commit(recorded: Path, client: Any) -> None:
    cell = Page(client.get(f"/cell/{CELL}").text)
    text = (recorded / "specs/one.yaml").read_text().splitlines()
    number = next(n for n, line in enumerate(text, 1) if "target_qps: 1000" in line)
    links = [a["href"] or "" for a in cell.all("a")]
    assert f"../../../../spec?file=specs%2Fone.yaml#L{number}" in links
    spec = Page(client.get("/spec?file=specs/one.yaml").text)
    assert [row["id"] for row in spec.all("tr") if "id" in row] == [f"L{n}" for n in range(1, len(text) + 1)]
    assert all(line.strip() in spec.text for line in text)
    assert "Declare one cell" in spec.text
    commit = git(recorded, "log", "-1", "--format=%H", "--", "specs/one.yaml").strip()
    assert f"history?one={commit}&other=HEAD" in [a["href"] for a in spec.all("a")]
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert "not committed yet" in client.get("/spec?file=specs/one.yaml").text


def test_only_files_that_set_values_are_shown(recorded: Path, client: Any) -> None:
    (recorded / "specs/notes.yaml.txt").write_text("secret")
    for file in ("specs/notes.yaml.txt", "../etc/passwd", "/etc/passwd", ".git/config", ""):
        answer = client.get("/spec", params={"file": file})
        assert answer.status_code == 404, file
        assert "secret" not in answer.text


def test_every_view_and_every_link_answers(client: Any) -> None:
    ahead, seen = ["/"], set[str]()
    while ahead:
        path = ahead.pop()
        answer = client.get(path)
        assert answer.status_code == 200, path
        seen.add(path)
        if "html" in answer.headers["content-type"]:
            page = Page(answer.text)
            linked = [a["href"] for a in page.all("a")] + page.scripts
            linked += [a["data-vega"] for a in page.all("div") if "data-vega" in a]
            for link in linked:
                assert link is not None
                found = str(client.base_url.join(path).join(link).raw_path, "ascii").partition("#")[0]
                ahead += [found] if found not in seen and found not in ahead else []
    assert {"/", "/live", "/plan", "/history", "/findings", f"/cell/{CELL}", "/static/page.js"} <= seen
    assert any(path.startswith("/history?cell=") for path in seen)
    assert any("verify-tree" in path for path in seen)
    assert any(path.startswith("/log?") for path in seen)
    assert "/spec?file=specs%2Fone.yaml" in seen
    assert ("/static/vega.js" in seen) is can_draw()


def test_what_is_not_there_is_said_and_not_found(client: Any) -> None:
    strange = ["/cell/..%2f..%2fetc/passwd", "/static/..%2fguard.py", f"/plot/%2e%2e/runs.svg?cell={CELL}"]
    for path in ("/cell/nothing", "/nowhere", "/log?cell=x&name=y", f"/plot/light/nothing.svg?cell={CELL}", *strange):
        assert client.get(path).status_code == 404, path
    assert "did you mean" in client.get(f"/log?cell={CELL}&name=performance/mlperf_log_sumary.txt").text


def test_no_script_and_no_style_is_in_a_page(client: Any) -> None:
    for path in ("/", "/live", f"/cell/{CELL}", "/nowhere"):
        page = Page(client.get(path).text)
        assert not page.all("style")
        assert page.scripts == [f"{'../' * (path.count('/') - 1)}static/page.js"]
        attributes = {name for _, named in page.found for name in named}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_the_matrix_follows_the_spec(recorded: Path) -> None:
    page = open_page(recorded)
    before = page.read_matrix()
    assert page.read_matrix() is before, "nothing changed"
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert page.read_matrix()["cells"][0]["ready"] != before["cells"][0]["ready"]


def test_the_plan_and_what_a_merge_would_do(recorded: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    page = Page(Site(open_page(recorded)).show_plan(Links(), "HEAD~1"))
    assert "to replace" in page.text
    assert "target_qps 1000 → 1100" in page.text
    assert "Due after merging: 1 x Run performance" in page.text
    assert "specs/one.yaml:" in page.text


def test_history_opens_with_the_newest_results(recorded: Path, declared: Path) -> None:
    shown = Page(Site(open_page(recorded)).show_history(Links()))
    assert "Newest results" in shown.text
    assert f"history?cell={quote(CELL, safe='')}" in [a["href"] for a in shown.all("a")]
    rows = open_page(recorded).read_recent()["results"]
    assert [(row["cell"], row["what"], row["change"]) for row in rows] == [(CELL, "Run performance", None)]
    assert "Newest results" not in Page(Site(open_page(declared)).show_history(Links())).text


def test_another_run_of_a_cell_lies_over_the_one_that_counts(recorded: Path) -> None:
    site = Site(open_page(recorded))
    runs = site.source.read_cell(CELL)["runs"]
    record = next(run["record"] for run in runs if run["performance"])
    assert site.source.read_run(CELL, record)["series"] == site.source.read_cell(CELL)["performance"]["series"]
    alone = Page(site.show_cell(CELL, Links()))
    assert not [a for a in alone.all("a") if "other=" in (a["href"] or "")], "there is no other"
    for other in (next(run["record"] for run in runs if not run["performance"]), "Run/none", "../../etc/passwd"):
        with pytest.raises(ReconcilerError, match="no performance run"):
            site.show_cell(CELL, Links(), other)


def test_a_stale_cell_says_what_changed_and_shows_its_last_run(recorded: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    shown = Page(Site(open_page(recorded)).show_cell(CELL, Links())).text
    head, _, rest = shown.partition("The last run, which does not count")
    assert "target_qps" in head
    assert re.search(r"1000 → 1100\s+specs/one.yaml:\d+", head)
    assert "stale" in head
    assert "Latency by percentile" in rest


def test_late_queries_of_a_run_are_counted(recorded: Path) -> None:
    document = open_page(recorded).read_cell(CELL)
    late = {"name": "early stopping", "measured": "1979", "limit": "9", "unit": "queries over", "met": False}
    margins = [{**late, "headroom": "-21888.9"}, {**late, "measured": "7", "met": True, "headroom": "+22.2"}]
    shown = arrange_cell({**document, "performance": {**document["performance"], "margins": margins}})["margins"]
    assert [(row["measured"], row["limit"], row["room"]) for row in shown] == [
        ("1,979 late", "9 late", "1,970 too many"),
        ("7 late", "9 late", "2 to spare"),
    ]


def test_a_stale_cell_whose_last_run_is_invalid_says_so_next_to_its_number(recorded: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    document = open_page(recorded).read_cell(CELL)
    shown = arrange_cell(document)
    assert (shown["state"], shown["metric"], shown["validity"]) == ("stale", "", "VALID")
    invalid = arrange_cell({**document, "performance": {**document["performance"], "validity": "INVALID"}})
    assert (invalid["last"], invalid["validity"]) == (shown["last"], "INVALID")
    assert open_page(recorded).read_matrix()["cells"][0]["last"]["validity"] == "VALID"


def test_history_compares_commits_systems_and_named_trees_only(recorded: Path) -> None:
    tree = recorded / ".reconcile/tree"
    site = Site(open_page(recorded, theirs=tree))
    shown = Page(site.show_history(Links(), CELL, "HEAD", "theirs")).text
    assert "Record 5 outcomes" in shown or re.search(r"Record \d+ outcomes", shown)
    assert re.search(r"Ratio.*1\.0", shown, re.DOTALL)
    compared = Page(site.show_history(Links(), "", "box", "HEAD"))
    assert "box" in compared.text
    assert f"cell/{CELL}" in [a["href"] for a in compared.all("a")]
    for path in (str(tree), "..", "/etc", "--upload-pack=x", "theirs/open"):
        with pytest.raises(ReconcilerError):
            site.show_history(Links(), "", "HEAD", path)
        with pytest.raises(ReconcilerError, match="there is no tree"):
            site.show_findings(Links(), path)


def test_findings_of_each_tree_and_command_have_a_view(recorded: Path) -> None:
    site = Site(open_page(recorded))
    page = Page(site.show_findings(Links()))
    rows = [attributes for attributes in page.all("tr") if "data-row" in attributes]
    document = open_page(recorded).read_findings("the rendered tree", "check")
    assert len(rows) == len(document["findings"]) > 0
    assert {row["data-rule"] for row in rows} == {finding["rule"] for finding in document["findings"]}
    assert "1 result of v6.1" in Page(site.show_findings(Links(), "the rendered tree", "verify-tree")).text


def test_what_takes_long_waits_for_a_timed_run(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page(recorded)
    before = page.read_matrix()
    monkeypatch.setattr(RepositoryPage, "is_timed", lambda _: True)
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert page.read_matrix() is before, "no new look is taken"
    for ask in (lambda: page.read_findings("the rendered tree", "check"), lambda: page.read_impact("HEAD", "HEAD")):
        with pytest.raises(ReconcilerError, match="a run is being timed"):
            ask()


def test_an_export_needs_no_server(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("page", "--export", "out", "--base", "HEAD~1", "--compare", "HEAD", "HEAD")[0] == 0
    out = recorded / "out"
    pages = sorted(out.rglob("*.html"))
    assert out / f"cell/{CELL}.html" in pages
    for path in pages:
        page = Page(path.read_text())
        linked = [a["href"] for a in page.all("a")] + page.scripts
        linked += [a["data-vega"] for a in page.all("div") if "data-vega" in a]
        linked += [a["href"] for a in page.all("link")]
        for link in linked:
            assert link is not None
            assert not urlsplit(link).scheme
            assert (path.parent / unquote(urlsplit(link).path or path.name)).is_file(), f"{path}: {link}"
        assert not page.all("form") or "data-filters" in page.all("form")[0], "nothing asks a server"
    assert "Merging adds no work" in (out / "plan.html").read_text()
    assert "HEAD against HEAD" in (out / "history.html").read_text()


@pytest.mark.parametrize("asked", [("--base", "nonsense"), ("--compare", "HEAD", "bxo")])
def test_an_export_of_something_unknown_writes_nothing(
    recorded: Path, reconcile: Reconcile, asked: tuple[str, ...]
) -> None:
    assert asked[-1] in reconcile.refuse("page", "--export", "out", *asked)
    assert not (recorded / "out").exists()


def test_a_side_of_a_comparison_that_is_unknown_gets_the_nearest_system_or_tree(
    recorded: Path, reconcile: Reconcile
) -> None:
    page = open_page(recorded, theirs=recorded / ".reconcile/tree")
    for wrong, nearest in (("bxo", "box"), ("their", "theirs")):
        with pytest.raises(ReconcilerError) as raised:
            page.read_comparison("HEAD", wrong)
        assert f"did you mean {nearest}?" in raised.value.fix
        assert "--tree" in raised.value.fix
    assert "did you mean box?" in reconcile.refuse("compare", "HEAD", "bxo")


def test_an_export_draws_another_run_over_the_one_that_counts(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert reconcile("--busy")[0] == 0
    assert reconcile("page", "--export", "out")[0] == 0
    shown = recorded / f"out/cell/{CELL}.html"
    runs = [run["record"] for run in open_page(recorded).read_cell(CELL)["runs"] if run["performance"]]
    (other,) = (a["href"] or "" for a in Page(shown.read_text()).all("a") if "title" in a)
    assert runs[0].rpartition("/")[2] in other, "the older of two runs"
    over = Page((shown.parent / other).read_text())
    assert f"{shown.name}" in {(a["href"] or "").rpartition("/")[2] for a in over.all("a")}, "leads back"
    if can_draw():
        names = [json.loads(text)["usermeta"]["tones"] for text in re.findall(r"\{.*usermeta.*\}", over.text)]
        assert max(map(len, names)) >= 4, "a line and points of each run"


def test_an_export_goes_over_an_earlier_one_and_over_nothing_else(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("page", "--export", "out")[0] == 0
    (recorded / "out/index.html").write_text("old")
    assert reconcile("page", "--export", "out")[0] == 0
    assert "old" not in (recorded / "out/index.html").read_text()[:9]
    assert "contains files that are not an export" in reconcile.refuse("page", "--export", "specs")
    assert reconcile("page", "--base", "HEAD")[0] == 1


def test_an_export_that_was_killed_at_its_beginning_is_made_by_the_next(recorded: Path, reconcile: Reconcile) -> None:
    (recorded / "out/static").mkdir(parents=True)
    (recorded / "out/static/page.css").touch()
    (recorded / "out/static/.page.js.a1b2c3.partial").touch()
    shutil.copytree(recorded / "out", recorded / "theirs")
    (recorded / "theirs/static/mine.css").touch()
    assert reconcile("page", "--export", "out")[0] == 0
    assert not list((recorded / "out").rglob(".*.partial"))
    assert reconcile("page", "--export", "theirs")[0] == 1
    (recorded / "out/index.html").unlink()
    assert reconcile("page", "--export", "out")[0] == 1


def test_a_workflow_exports_nothing_under_an_embargo(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = datetime.now(UTC).date() + timedelta(days=9)
    edit(recorded, "  submitter: Tester", f'  submitter: Tester\n  embargo: {{until: {until}, allow: ["git.acme/*"]}}')
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("CI_PROJECT_URL", "https://public.example/x")
    assert f"embargo until {until}" in reconcile.refuse("page", "--export", "out")
    assert not (recorded / "out").exists()
    monkeypatch.setenv("CI_PROJECT_URL", "https://git.acme/x")
    assert reconcile("page", "--export", "out")[0] == 0


def test_a_plot_is_written_as_its_name_says(recorded: Path, reconcile: Reconcile) -> None:
    need("vl_convert")
    for name, head in (("a.svg", b"<svg"), ("b.png", b"\x89PNG")):
        assert f"Wrote {name}: runs over time. One valid run" in reconcile.succeed("plot", "digits", "-o", name)
        assert (recorded / name).read_bytes().startswith(head)
    assert reconcile("plot", "digits", "--of", "latency", "-o", "l.svg")[0] == 0
    assert reconcile("plot", "digits", "--of", "history", "--theme", "dark", "-o", "h.svg")[0] == 0
    assert "-o a.svg" in reconcile.refuse("plot", "digits", "-o", "a.pdf")
    assert "nothing to plot as 'power'" in reconcile.refuse("plot", "digits", "--of", "power", "-o", "p.svg")


def test_reading_changes_nothing_but_caches(recorded: Path) -> None:
    def files() -> dict[str, bytes]:
        ours = (path for path in recorded.rglob("*") if path.is_file() and ".reconcile" not in path.parts)
        return {str(path): path.read_bytes() for path in ours}

    before = files()
    site = Site(open_page(recorded))
    site.show_matrix(Links())
    site.show_cell(CELL, Links())
    site.show_live(Links())
    assert files() == before


def test_no_pass_is_live_when_none_runs(recorded: Path) -> None:
    document = report_live(RepositoryPaths(recorded))
    assert not document["running"]
    assert document["outcome"] == "pass ended"
    assert document["done"] == document["steps"] > 0
    assert not report_live(RepositoryPaths(recorded / "specs"))["id"]


def test_ended_steps_lead_to_their_cells(recorded: Path) -> None:
    log = recorded / f".reconcile/log/99991231T000001.000000-{os.getpid()}.jsonl"
    gone = "open/box/digits/Server"
    resources = ["Model:digits", f"Run:{CELL}/performance", f"ComplianceTest:{CELL}/TEST01", f"Score:{gone}", "Odd:x"]
    began = {"message": "pass began", "time": "9999-12-31T00:00:00", "reconcile": "x"}
    ended = [{"message": "step ended", "resource": name, "status": "Failed", "problem": "no"} for name in resources]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in [began, *ended]))
    for files in (False, True):
        shown = Page(Site(open_page(recorded), files=files).show_live(Links(files=files)))
        links = [a["href"] for a in shown.all("a") if "cell/" in (a["href"] or "")]
        whole = ([Links(files=files).cell(gone)] if not files else []) + [Links(files=files).cell(CELL)] * 2
        assert sorted(links) == sorted(whole * 2), "twice; an export has no page of the other"
        for said in ("Run performance", "TEST01", "Model:digits", "Odd:x", "open / box / digits / Server Score"):
            assert said in shown.text
        assert "ComplianceTest:" not in shown.text


def test_a_pass_that_left_off_is_not_live(recorded: Path) -> None:
    """Its process is gone, though no one wrote that it ended."""
    log = recorded / ".reconcile/log/99991231T000000.000000-999999999.jsonl"
    log.write_text(json.dumps({"message": "pass began", "time": "9999-12-31T00:00:00", "reconcile": "x"}) + "\n")
    assert not report_live(RepositoryPaths(recorded))["running"]
    ours = log.with_name(f"99991231T000001.000000-{os.getpid()}.jsonl")
    due = [["Dataset:digits", 1.0], ["Model:digits", None], 7, [None, 1]]
    events = [
        {"message": "planned", "steps": 30},
        {"message": "steps due", "due": due},
        {"message": "step started", "resource": "Dataset:digits"},
        {"message": "steps due", "due": "strange"},
    ]
    ours.write_text(log.read_text() + "".join(f"{json.dumps(event)}\n" for event in events) + '{"message": "step st')
    document = report_live(RepositoryPaths(recorded))
    assert document["running"]
    assert (document["steps"], document["done"]) == (2, 0), "of those that the pass makes"
    assert document["next"] == [{"address": "Model:digits", "label": "Model", "cell": "", "seconds": None}]


def test_a_job_that_no_pass_follows_is_live(recorded: Path) -> None:
    address = RunAddress(Cell.parse(CELL), "performance").address
    job = QueuedStep(address, "running", "job 4711 on n3", ("n3",), 1200, 5000)

    class WithJobs(RepositoryPage):
        def read_live(self) -> dict[str, Any]:
            return {**report_live(self.paths, [job]), "looked": ""}

    shown = Page(Site(WithJobs(RepositoryPaths(recorded), Options())).show_live(Links()))
    assert "No pass is running" in shown.text
    assert "Run performance: running, 1,200 of 5,000, job 4711 on n3" in shown.text
    assert f"cell/{CELL}" in [a["href"] for a in shown.all("a")]


def begin_pass(root: Path) -> RepositoryPaths:
    """As a pass of this process does."""
    paths = RepositoryPaths(root)
    log = paths.log / f"99991231T000001.000000-{os.getpid()}.jsonl"
    log.write_text('{"message": "pass began", "time": "", "reconcile": "x"}\n')
    return paths


def test_a_job_that_a_pass_follows_is_reported_once(recorded: Path) -> None:
    paths = begin_pass(recorded)
    address = RunAddress(Cell.parse(CELL), "performance").address
    identity = f"99991231T000002.123456-{os.getpid()}"
    create(paths.attempts, Intent(identity, address, "0" * 64, 1, started="9999-12-31T00:00:02Z", inputs={}))
    document = report_live(paths, [QueuedStep(address, "running", "job 4711", (), 0, 0)])
    assert [attempt["address"] for attempt in document["attempts"]] == [str(address)]
    assert document["jobs"] == []


def test_a_run_in_progress_is_shown_by_its_counter_and_readings(recorded: Path) -> None:
    paths = begin_pass(recorded)
    intent = Intent(
        id=f"99991231T000002.123456-{os.getpid()}",
        address=RunAddress(Cell.parse(CELL), "performance").address,
        key="0" * 64,
        revision=1,
        started="9999-12-31T00:00:02Z",
        inputs={"min_duration": (600_000, "specs/one.yaml:1")},
    )
    attempt = create(paths.attempts, intent)
    assert [found["stage"] for found in report_live(paths)["attempts"]] == ["starting"]
    assert not is_timed(paths)
    counter = Counter(attempt.counter)
    counter.stage("running", 5000)
    counter.bump(1200)
    attempt.telemetry.write_text('{"seconds": 1.0, "done": 600, "gpu.power_watts": 650.0}\n{"seconds": 2.0, "do')
    attempt.log.write_text("".join(f"line {number}\n" for number in range(100)))
    (found,) = report_live(paths)["attempts"]
    assert (found["stage"], found["done"], found["expected"], found["timed"]) == ("running", 1200, 5000, True)
    assert found["left"] > 590, "LoadGen's minimum counts where the samples would be done before"
    assert found["readings"] == [{"seconds": 1.0, "done": 600.0, "gpu.power_watts": 650.0}]
    assert found["log"][-1] == "line 99"
    assert is_timed(paths)
    shown = Page(Site(open_page(recorded)).show_live(Links())).text
    for said in ("a run is being timed", "1,200 of 5,000", "left", "LoadGen's minimum: 10 min", "GPU power", "650 W"):
        assert said in shown
    counter.close()
    attempt.result.write_text("{}")
    assert not is_timed(paths)
    assert report_live(paths)["attempts"] == []


def test_elsewhere_than_on_loopback_a_token_and_no_embargo_are_asked_for(recorded: Path, reconcile: Reconcile) -> None:
    need("starlette")
    assert "anyone who can reach 192.0.2.1" in reconcile.refuse("page", "--host", "192.0.2.1", "--no-token")
    until = datetime.now(UTC).date() + timedelta(days=9)
    edit(recorded, "  submitter: Tester", f"  submitter: Tester\n  embargo: {{until: {until}}}")
    err = reconcile.refuse("page", "--host", "192.0.2.1")
    assert f"embargo until {until}" in err
    assert "spec.embargo.allow" in err


@pytest.mark.parametrize(
    ("library", "words"), [("starlette.applications", ("page",)), ("vl_convert", ("plot", CELL, "-o", "a.svg"))]
)
def test_without_the_extra_it_is_named(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, library: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert "pip install 'mlperf-reconciler[page]'" in reconcile.refuse(*words)


def test_a_port_in_use_is_named(recorded: Path, reconcile: Reconcile) -> None:
    need("starlette")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = reconcile("page", "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "--port 0" in err


def test_lines_of_telemetry_that_say_nothing_hide_no_others() -> None:
    lines = b"[" * 200_000 + b'\n[1]\n{"watts": 7, "of": 1e400, "n": ' + b"9" * 4000 + b"}\n{"
    assert parse_series(lines) == [{"watts": 7.0}]


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_a_served_page_that_is_stopped_ends_without_an_error(declared: Path, ended_by: signal.Signals) -> None:
    need("starlette", "jinja2", "uvicorn")
    (port,) = find_free_ports(1)
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", "page", "--port", str(port)]
    with subprocess.Popen(command, cwd=declared, stdout=subprocess.DEVNULL) as serving:

        def is_serving() -> bool:
            with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/"):
                return True
            return False

        wait_for(is_serving)
        serving.send_signal(ended_by)
        assert serving.wait(timeout=60) == 0
