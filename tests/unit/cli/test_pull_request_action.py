"""The action that comments pull requests: its steps as written, in a real repository, against a stub of GitHub."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.architecture.source import ROOT
from tests.unit.cli.conftest import Reconcile, git
from tests.workflows import make_python, read_steps, run_step, select_steps

ACTION = ROOT / ".github/actions/reconcile-pr"
STEPS = read_steps("actions/reconcile-pr/action.yml", "runs")
COMPARE, SUMMARY, COMMENT = select_steps(STEPS, "compare", "summary", "comment")
TOKEN, REPOSITORY, PULL_REQUEST = "t0ken", "acme/results", "7"
MARK = '<!-- reconcile-pr "." -->'


class GitHub(ThreadingHTTPServer):
    """Comments of one pull request, a page at a time as GitHub gives them. ``refuses``: a status for what writes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.refuses = 0

    def add(self, body: str, kind: str = "Bot") -> None:
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"type": kind}})


class Handler(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        size, page = int(asked["per_page"][0]), int(asked["page"][0])
        self._answer(f"issues/{PULL_REQUEST}/comments", self.server.comments[size * (page - 1) : size * page])

    def do_POST(self) -> None:
        body = self._read()
        if self._answer(f"issues/{PULL_REQUEST}/comments", {}):
            self.server.add(body)

    def do_PATCH(self) -> None:
        body, number = self._read(), int(self.path.rpartition("/")[2])
        if self._answer(f"issues/comments/{number}", {}):
            (comment,) = [comment for comment in self.server.comments if comment["id"] == number]
            comment["body"] = body

    def _read(self) -> str:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert document.keys() == {"body"}
        return str(document["body"])

    def _answer(self, path: str, document: Any) -> bool:
        known = urlsplit(self.path).path == f"/repos/{REPOSITORY}/{path}"
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        status = 404 if not known else 401 if not allowed else (self.command != "GET" and self.server.refuses) or 200
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return status == 200

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def checkout(tmp_path: Path, reconcile: Reconcile) -> Path:
    """A branch that asks Server for more, as a pull request's checkout has it."""
    root = tmp_path / "checkout"
    assert reconcile("init", str(root))[0] == 0
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Declare")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    return root


def change(root: Path, before: str, after: str) -> None:
    path = root / "specs/checkout.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    git(root, "commit", "--quiet", "--all", "--message", "Change")


@pytest.fixture
def environment(tmp_path: Path, github: GitHub) -> dict[str, str]:
    (tmp_path / "temp").mkdir()
    commands = make_python(tmp_path / "bin")
    code = "import sys; from reconciler.cli.main import main; sys.exit(main())"
    (commands / "reconcile").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    (commands / "reconcile").chmod(0o755)
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(tmp_path / "temp"),
    }


VALUES = {"ACTION": str(ACTION), "BASE": "origin/main", "FAIL_ON": "errors", "FOLDER": ".", "TOKEN": TOKEN}


def run(step: Mapping[str, Any], at: Path, environment: Mapping[str, str], **given: str) -> tuple[int, str]:
    """With a value for each variable that the step declares."""
    values = {**VALUES, "PULL_REQUEST": PULL_REQUEST, **given}
    ended = run_step(step, at, {**environment, **{name: values[name] for name in step.get("env", {})}})
    return ended.returncode, ended.stdout + ended.stderr


def test_no_step_has_an_expression_in_its_script() -> None:
    """A branch may be named like a command: expressions reach a script as variables only."""
    scripts = [step for step in STEPS if "run" in step]
    assert len(scripts) == 4
    assert not [step for step in scripts if "${{" in step["run"]]
    assert all(step["shell"] == "bash" for step in scripts)


def test_a_pull_request_has_one_comment_that_is_kept_up_to_date(
    checkout: Path, environment: dict[str, str], github: GitHub, tmp_path: Path
) -> None:
    for number in range(120):  # more than a page
        github.add(f"Comment {number}", "User")
    github.add(f"{MARK}\nnot the action's", "User")
    said = []
    for before, after in (("target_qps: 200,", "target_qps: 250,"), ("target_qps: 250,", "target_qps: 300,")):
        change(checkout, before, after)
        for step in (COMPARE, SUMMARY, COMMENT):
            code, out = run(step, checkout, environment)
            assert code == 0, out
        assert len(github.comments) == 122
        said.append(github.comments[-1]["body"])
    assert all(text.startswith(f"{MARK}\n**") for text in said)
    assert said[0] != said[1]
    assert github.comments[-2]["body"] == f"{MARK}\nnot the action's"
    assert said[1].partition("\n")[2] in (tmp_path / "summary.md").read_text()


def test_a_broken_spec_fails_the_step_and_is_still_said(
    checkout: Path, environment: dict[str, str], github: GitHub
) -> None:
    change(checkout, "target_qps: 200,", "target_qbs: 200,")
    assert run(COMPARE, checkout, environment)[0] == 1
    assert run(COMMENT, checkout, environment)[0] == 0
    (comment,) = github.comments
    assert "target\\_qbs" in comment["body"]  # as Markdown wants it


def test_work_fails_where_it_is_asked_to(checkout: Path, environment: dict[str, str]) -> None:
    """Here by a scenario that the base does not have."""
    change(checkout, "          Server:", "          # Server:")
    git(checkout, "update-ref", "refs/remotes/origin/main", "HEAD")
    change(checkout, "          # Server:", "          Server:")
    assert run(COMPARE, checkout, environment, FAIL_ON="work")[0] == 2


@pytest.mark.parametrize(("status", "code"), [(403, 0), (500, 1)])
def test_a_token_that_may_not_comment_is_a_warning(
    status: int, code: int, environment: dict[str, str], github: GitHub, tmp_path: Path
) -> None:
    """As in a pull request from a fork. Any other failure of GitHub is one of the step."""
    github.refuses = status
    (tmp_path / "temp/reconcile-pr.md").write_text("Merging adds no work.\n")
    ended, out = run(COMMENT, tmp_path, environment)
    assert (ended, "::warning::" in out, github.comments) == (code, status == 403, [])
    assert TOKEN not in out


def test_a_long_report_is_cut_at_a_line(environment: dict[str, str], github: GitHub, tmp_path: Path) -> None:
    lines = [f"| line {number} |" for number in range(10_000)]
    (tmp_path / "temp/reconcile-pr.md").write_text("\n".join(lines))
    assert run(COMMENT, tmp_path, environment)[0] == 0
    (comment,) = github.comments
    assert len(comment["body"]) <= 65_536
    kept = comment["body"].splitlines()[1:-2]
    assert kept == lines[: len(kept)]
