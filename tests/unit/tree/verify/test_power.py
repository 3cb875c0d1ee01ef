"""The files of a power session are those that its client and its director list."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.tree.verify.engine import verify_tree

CELL = "closed/Acme/results/sys1/resnet/Offline/performance"
LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")
SAMPLES = "Time,07-23-2026 12:54:22.5,Watts,210.5,Volts,230.1\n" * 20


@pytest.fixture
def session(tree: Path) -> Path:
    """The performance folder of a result whose power was measured, as the kit leaves it."""
    folder = tree / CELL
    shutil.copytree(folder / "run_1", folder / "ranging")
    (folder / "power").mkdir()
    for name in ("run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/client.log", "power/server.log"):
        (folder / name).write_text(f"{SAMPLES}{name}\n")
    logs = [f"{run}/{name}" for run in ("run_1", "ranging") for name in LOGS]
    write_session(folder, "client.json", [*logs, "power/client.log"])
    write_session(folder, "server.json", ["run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/server.log"])
    return folder


def write_session(folder: Path, file: str, names: list[str]) -> None:
    document = {
        "session_name": "2026-07-23_12-54-21",
        "uuid": {"client": "c1", "server": "s1"},
        "results": {name: hashlib.sha1((folder / name).read_bytes()).hexdigest() for name in names},
    }
    (folder / "power" / file).write_text(json.dumps(document, indent=1))


def edit(file: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "power" / file
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=1))

    return apply


def find(folder: Path) -> list[tuple[str, str, str]]:
    """(rule, file, what was found) of what is said of the session."""
    found = verify_tree(folder.parents[6]).findings
    return [
        (f.rule.id, f.complaint.place.file.partition("/performance/")[2], f.complaint.found)
        for f in found
        if f.rule.kind == "power"
    ]


def test_an_honest_session_is_believed(session: Path) -> None:
    assert not verify_tree(session.parents[6]).findings


def test_a_session_whose_line_ends_git_changed_is_believed(session: Path) -> None:
    path = session / "run_1/spl.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not find(session)


@pytest.mark.parametrize(
    ("lie", "file"),
    [
        pytest.param(
            lambda f: (f / "run_1/spl.txt").write_text(SAMPLES.replace("210.5", "21.05")), "run_1/spl.txt", id="watts"
        ),
        pytest.param(
            lambda f: shutil.copyfile(f / "ranging/spl.txt", f / "run_1/spl.txt"), "run_1/spl.txt", id="ranging"
        ),
        pytest.param(lambda f: (f / "run_1/spl.txt").write_text(SAMPLES[:500]), "run_1/spl.txt", id="half"),
        pytest.param(lambda f: (f / "run_1/spl.txt").write_text(""), "run_1/spl.txt", id="empty"),
        pytest.param(lambda f: (f / "power/ptd_logs.txt").write_text("Watts\n"), "power/ptd_logs.txt", id="analyzer"),
        pytest.param(lambda f: (f / "run_1" / LOGS[1]).write_text("VALID\n"), f"run_1/{LOGS[1]}", id="summary"),
    ],
)
def test_a_file_that_the_session_did_not_leave_is_named(
    session: Path, lie: Callable[[Path], object], file: str
) -> None:
    lie(session)
    ((rule, place, found),) = find(session)
    assert (rule, place) == ("power.digests", file)
    assert found.startswith("SHA-1 ")


@pytest.mark.parametrize(
    ("lie", "place", "found"),
    [
        pytest.param(
            edit("client.json", lambda d: d.update(session_name="2026-07-24_01-01-01")),
            "power/server.json",
            "another session_name than client.json",
            id="session",
        ),
        pytest.param(
            edit("server.json", lambda d: d["uuid"].update(client="c2")),
            "power/server.json",
            "another uuid than client.json",
            id="uuid",
        ),
        pytest.param(
            edit("client.json", lambda d: d.clear()),
            "power/server.json",
            "another session_name than client.json",
            id="empty",
        ),
        pytest.param(
            edit("server.json", lambda d: d["results"].pop("run_1/spl.txt")),
            "power/server.json",
            "run_1/spl.txt or the logs are not listed",
            id="unlisted",
        ),
        pytest.param(
            edit("client.json", lambda d: d["results"].clear()),
            "power/server.json",
            "run_1/spl.txt or the logs are not listed",
            id="no-logs",
        ),
    ],
)
def test_a_file_of_another_session_is_named(session: Path, lie: Callable[[Path], None], place: str, found: str) -> None:
    lie(session)
    assert find(session) == [("power.session", place, found)]


@pytest.mark.parametrize(
    "listed", [{"../../secret": "00"}, {"run_1/../../x": "00"}, {"run_1/spl.txt": 7}, "spl.txt", None]
)
def test_what_a_session_lists_leads_nowhere_else(session: Path, listed: object) -> None:
    edit("server.json", lambda d: d.update(results=listed))(session)
    assert [rule for rule, _, _ in find(session)] == ["power.session"]
