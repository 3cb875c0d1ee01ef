"""What runs under way print, as somebody sees it who looks on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.child.output import RotatedOutput
from harness.contract import LOG_PARTS, Counter
from reconciler.cli.logs import print_progress
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, create
from reconciler.execute.log_follower import LogFollower
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress

CELL = Cell.parse("open/box/digits/Offline")
RUN = RunAddress(CELL, PERFORMANCE).address


def begin(
    folder: Path,
    number: int,
    address: Address = RUN,
    shared: tuple[Address, ...] = (),
    server: ServerAccess | None = None,
) -> Attempt:
    return create(folder, Intent(f"2026-{number}", address, "k" * 64, 1, "2026", {}, shared=shared, server=server))


def write(attempt: Attempt, text: str) -> None:
    with attempt.log.open("a") as stream:
        stream.write(text)


def look(follower: LogFollower) -> list[tuple[str, bool, bytes]]:
    return [(printed.log.parent.name, printed.began, printed.data) for printed in follower.look()]


def make_follower(folder: Path) -> LogFollower:
    return LogFollower((folder,), lambda address: address.cell == CELL)


def test_lines_are_seen_once_and_whole(tmp_path: Path) -> None:
    attempt, follower = begin(tmp_path, 1), make_follower(tmp_path)
    assert look(follower) == [("2026-1", True, b"")]
    write(attempt, "loading\nwarm")
    assert look(follower) == [("2026-1", False, b"loading\n")]
    write(attempt, "ing up\n")
    assert look(follower) == [("2026-1", False, b"warming up\n")]
    assert look(follower) == [("2026-1", False, b"")]
    follower.close()


def test_the_end_of_a_log_is_seen_though_its_attempt_was_recorded_and_removed(tmp_path: Path) -> None:
    attempt, follower = begin(tmp_path, 1), make_follower(tmp_path)
    write(attempt, "a\n")
    look(follower)
    write(attempt, "b\nno end of line")
    shutil.rmtree(attempt.folder)
    assert look(follower) == [("2026-1", False, b"b\nno end of line")]
    assert look(follower) == []


def test_other_cells_are_left_out_and_what_is_shared_with_this_one_is_not(tmp_path: Path) -> None:
    other = Address(Kind.ENGINE, "open/box/digits/Server")
    begin(tmp_path, 1, other)
    begin(tmp_path, 2, other, shared=(Address(Kind.ENGINE, str(CELL)),))
    follower = make_follower(tmp_path)
    assert [name for name, _, _ in look(follower)] == ["2026-2"]
    assert [name for name, _, _ in look(follower)] == ["2026-2"]
    follower.close()


def test_a_folder_whose_intent_is_written_later_is_found_then(tmp_path: Path) -> None:
    follower = make_follower(tmp_path)
    (tmp_path / "2026-1").mkdir()
    assert look(follower) == []
    shutil.rmtree(tmp_path / "2026-1")
    begin(tmp_path, 1)
    assert look(follower) == [("2026-1", True, b"")]
    follower.close()


def test_what_a_server_prints_is_seen_once_for_all_runs_that_ask_it(tmp_path: Path) -> None:
    log, attempts = tmp_path / "server", tmp_path / "attempts"
    asked = ServerAccess(8000, str(log))
    begin(attempts, 1, server=asked)
    follower = make_follower(attempts)
    assert look(follower) == [("2026-1", True, b"")]
    output = RotatedOutput(log, tmp_path / "last-line", head=8, tail=16)
    output.take(b"weights\nloaded\n")
    begin(attempts, 2, server=asked)
    assert look(follower) == [("2026-1", False, b""), ("server", True, b"weights\nloaded\n"), ("2026-2", True, b"")]
    for number in range(3):  # each fills a part, which makes way for the next
        output.take(b"request %d\n" % number)
        assert (log / LOG_PARTS[1]).read_bytes().endswith(b"request %d\n" % number)
        assert ("server", False, b"request %d\n" % number) in look(follower)
    output.close()
    follower.close()


def test_the_last_of_a_server_is_seen_though_its_folder_was_removed(tmp_path: Path) -> None:
    log, attempts = tmp_path / "server", tmp_path / "attempts"
    log.mkdir()
    (log / LOG_PARTS[0]).write_text("a\n")
    begin(attempts, 1, server=ServerAccess(8000, str(log)))
    follower = make_follower(attempts)
    assert ("server", True, b"a\n") in look(follower)
    with (log / LOG_PARTS[0]).open("a") as stream:
        stream.write("no end of line")
    assert ("server", False, b"") not in look(follower)
    shutil.rmtree(log)
    assert ("server", False, b"no end of line") in look(follower)
    assert [name for name, _, _ in look(follower)] == ["2026-1"]
    follower.close()


def test_attempts_of_several_repositories_are_followed_the_oldest_first(tmp_path: Path) -> None:
    for folder, number in (("a", 2), ("a", 1), ("b", 0)):
        begin(tmp_path / folder, number)
    follower = LogFollower((tmp_path / "a", tmp_path / "b"), lambda _: True)
    assert [name for name, _, _ in look(follower)] == ["2026-1", "2026-2", "2026-0"]
    follower.close()
    assert [began for _, began, _ in look(follower)] == [True] * 3  # closed, it has seen nothing
    follower.close()


def test_what_is_reported_ends_with_the_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempt = begin(tmp_path, 1)
    write(attempt, "loading \x1b[2Jweights\n")
    counter = Counter(attempt.counter)
    counter.stage("running", 1000)
    now = [0.0]

    def pause() -> None:
        now[0] += 6.0

    states = iter(["A pass is under way."] * 4 + [""])
    print_progress(make_follower(tmp_path), lambda: next(states), pause, lambda: now[0])
    captured = capsys.readouterr()
    assert captured.out.startswith("loading ")
    assert "\x1b[2J" not in captured.out  # a log does not steer the terminal
    first, *between, last = captured.err.splitlines()
    assert first == f"Run performance: {attempt.log}"
    assert between == ["Run performance: running, 0 of 1,000"] * 2
    assert last == "No pass is running any more."
