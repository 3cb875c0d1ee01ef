"""The files of a power session are those that its client and its director list."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.loadgen.log import parse_detail
from reconciler.resource.rules import Severity
from reconciler.verify.engine import verify_tree
from tests.unit.tree.power_sessions import LOGS, add_session, make_samples, write_session


@pytest.fixture
def session(tree: Path) -> Path:
    """The performance folder of a result whose power was measured, as the kit leaves it."""
    return add_session(tree)


def edit(file: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "power" / file
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=1))

    return apply


def find(folder: Path, *, watts: bool = False) -> list[tuple[str, str, str]]:
    """(rule, file, what was found) of what is said of the session; of its watts, or of all else."""
    found = verify_tree(folder.parents[6]).findings
    return [
        (f.rule.id, f.complaint.place.file.partition("/performance/")[2], f.complaint.found)
        for f in found
        if f.rule.kind == "power" and (f.rule.id == "power.watts") is watts
    ]


def test_an_honest_session_is_believed(session: Path) -> None:
    assert not verify_tree(session.parents[6]).findings


def test_a_session_whose_line_ends_git_changed_is_believed(session: Path) -> None:
    path = session / "run_1/spl.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not find(session)


@pytest.mark.parametrize(
    "listed", [{"../../secret": "00"}, {"run_1/../../x": "00"}, {"run_1/spl.txt": 7}, "spl.txt", None]
)
def test_what_a_session_lists_leads_nowhere_else(session: Path, listed: object) -> None:
    edit("server.json", lambda d: d.update(results=listed))(session)
    assert [rule for rule, _, _ in find(session)] == ["power.session"]


def rewrite(folder: Path, samples: str) -> None:
    """With a digest that fits, and the log's."""
    (folder / "run_1/spl.txt").write_text(samples)
    for file in ("client.json", "server.json"):
        listed = json.loads((folder / "power" / file).read_text())["results"]
        write_session(folder, file, list(listed))


@pytest.mark.parametrize("year", ["9999", "0001"])
def test_a_run_beyond_all_times_says_nothing_of_its_samples(session: Path, year: str) -> None:
    path = session / "run_1" / LOGS[0]
    text = path.read_text()
    began = parse_detail(text.encode()).started
    assert began is not None
    path.write_text(text.replace(f"-{began.year} ", f"-{year} "))
    rewrite(session, make_samples(session) if year == "0001" else "Time,01-01-2026 00:00:00.5,Watts,1\n")
    assert "internal.rule" not in [f.rule.id for f in verify_tree(session.parents[6]).findings]


def ask_of_digests(session: Path) -> list[tuple[str, Severity, bool]]:
    found = verify_tree(session.parents[6]).findings
    return [
        (f.complaint.place.file.rpartition("/")[2], f.severity, bool(f.complaint.doubt))
        for f in found
        if f.rule.id == "power.digests"
    ]


def write_daemon_log(session: Path, written: bytes, published: bytes) -> None:
    """The kit lists what the daemon wrote, and the tree has what git made of it."""
    path = session / "power/ptd_logs.txt"
    path.write_bytes(written)
    write_session(session, "server.json", ["run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt"])
    path.write_bytes(published)


MIXED = b"Watts,1\r\nWatts,2\nWatts,3\r\n"


def test_line_ends_of_two_kinds_that_git_made_one_are_asked_about(session: Path) -> None:
    write_daemon_log(session, MIXED, MIXED.replace(b"\r\n", b"\n"))
    assert ask_of_digests(session) == [("ptd_logs.txt", Severity.NOTE, True)]


def test_a_log_that_still_has_line_ends_of_both_kinds_is_as_it_was_written(session: Path) -> None:
    write_daemon_log(session, MIXED, MIXED)
    assert not ask_of_digests(session)
    write_daemon_log(session, MIXED, MIXED.replace(b"2", b"7"))
    assert ask_of_digests(session) == [("ptd_logs.txt", Severity.ERROR, False)]


def test_another_file_of_the_session_shows_that_git_changes_no_line_ends(session: Path) -> None:
    path = session / "power/client.log"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    write_session(session, "client.json", [*(f"run_1/{name}" for name in LOGS), "power/client.log"])
    write_daemon_log(session, b"Watts,1\n", b"Watts,7\n")
    assert ask_of_digests(session) == [("ptd_logs.txt", Severity.ERROR, False)]


def test_another_session_of_the_system_shows_how_its_daemon_writes(session: Path) -> None:
    write_daemon_log(session, b"Watts,1\n", b"Watts,7\n")
    assert ask_of_digests(session) == [("ptd_logs.txt", Severity.NOTE, True)]
    other = session.parents[1] / "SingleStream/performance/power"
    other.mkdir()
    (other / "ptd_logs.txt").write_bytes(b"Watts,2\n")
    digest = hashlib.sha1(b"Watts,2\n").hexdigest()
    (other / "server.json").write_text(json.dumps({"results": {"power/ptd_logs.txt": digest}}))
    assert ("ptd_logs.txt", Severity.ERROR, False) in ask_of_digests(session)


def test_samples_that_a_copy_lacks_with_all_other_large_files_are_asked_about(session: Path) -> None:
    (session / "run_1/spl.txt").unlink()
    accused = [f for f in verify_tree(session.parents[6]).findings if f.rule.id == "power.session"]
    assert [f.severity for f in accused] == [Severity.ERROR]
    for name in ("ranging/spl.txt", "power/ptd_logs.txt"):
        (session / name).unlink()
    asked = [f for f in verify_tree(session.parents[6]).findings if f.rule.id == "power.session"]
    assert [f.severity for f in asked] == [Severity.NOTE]
