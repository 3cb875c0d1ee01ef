"""The live view while a real pass of the quickstart runs, and when the server goes and comes back."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.storage.packaged_files import find_shipped
from tests.browser.conftest import Seen
from tests.shared import need
from tests.unit.cli.conftest import git

TOP = Path(__file__).parents[2]


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    need("mlperf_loadgen", "onnxruntime")
    root = tmp_path / "quickstart"
    (root / "specs").mkdir(parents=True)
    shutil.copy(find_shipped("specs/quickstart.yaml"), root / "specs")
    (root / ".gitignore").write_text(".reconcile/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "Declare a submission")
    return root


@contextlib.contextmanager
def start(root: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": str(TOP), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=root, env=environment, text=True, **pipes) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)


@contextlib.contextmanager
def serve_repository(root: Path, port: int = 0) -> Iterator[str]:
    """`reconcile page` as a process of its own; gives the address that it prints."""
    with start(root, "page", "--port", str(port)) as child:
        assert child.stdout is not None
        said = child.stdout.readline()
        found = re.search(r"http://[^ ]+", said)
        assert found is not None, said + child.stdout.read()
        yield found[0].rstrip("/")


def test_a_pass_is_followed_without_a_reload(quickstart: Path, open_tab: Callable[..., Seen]) -> None:
    seen = open_tab()
    with serve_repository(quickstart) as origin:
        seen.tab.goto(f"{origin}/live")
        seen.tab.wait_for_selector("text=No pass has run here yet")
        seen.tab.evaluate("window.same = true")
        stages: set[str] = set()
        with start(quickstart, "--busy") as running:
            seen.tab.wait_for_selector("article.attempt", timeout=120_000)
            seen.tab.wait_for_selector("text=Next", timeout=120_000)
            while running.poll() is None:
                for stage in seen.tab.locator("article.attempt p > b:first-child").all_text_contents():
                    stages.add(stage)
                seen.tab.wait_for_timeout(250)
            assert running.returncode == 0
        seen.tab.wait_for_selector("text=No pass is running", timeout=60_000)
        text = seen.tab.locator("#live").inner_text()
        assert "open / this-machine / digits / Offline Run performance" in text
        assert "Done" in text
        assert "running" in stages, stages
        assert seen.tab.evaluate("window.same"), "the page was loaded once"
        seen.tab.goto(f"{origin}/")
        assert "4 of 4 cells ready" in seen.tab.locator("main").inner_text()
        assert seen.is_quiet(origin)


def test_a_lost_connection_is_said_and_found_again(quickstart: Path, open_tab: Callable[..., Seen]) -> None:
    seen = open_tab()
    status = "state => document.querySelector('[data-stream]').dataset.state === state"
    with serve_repository(quickstart) as origin:
        seen.tab.goto(f"{origin}/live")
        seen.tab.wait_for_function(status, arg="open")
    seen.tab.wait_for_function(status, arg="lost")
    assert "trying again" in seen.tab.locator("[data-stream]").inner_text()
    with serve_repository(quickstart, int(origin.rpartition(":")[2])):
        seen.tab.wait_for_function(status, arg="open", timeout=60_000)
