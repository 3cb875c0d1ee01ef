"""The files of a power session are those that its client and its director list."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.mlperf.loadgen.log import parse_detail
from reconciler.tree.verify.engine import verify_tree

CELL = "closed/Acme/results/sys1/resnet/Offline/performance"
LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")


@pytest.fixture
def session(tree: Path) -> Path:
    """The performance folder of a result whose power was measured, as the kit leaves it."""
    folder = tree / CELL
    shutil.copytree(folder / "run_1", folder / "ranging")
    (folder / "power").mkdir()
    for name in ("run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/client.log", "power/server.log"):
        (folder / name).write_text(f"{make_samples(folder)}{name}\n")
    logs = [f"{run}/{name}" for run in ("run_1", "ranging") for name in LOGS]
    write_session(folder, "client.json", [*logs, "power/client.log"])
    write_session(folder, "server.json", ["run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/server.log"])
    return folder


def make_samples(folder: Path, watts: str = "210.5", later: timedelta = timedelta(), every: int = 1) -> str:
    """One a second from before the run to after it; of every so many minutes."""
    log = parse_detail((folder / "run_1" / LOGS[0]).read_bytes())
    assert log.started is not None
    assert log.ended is not None
    seconds = int((log.ended - log.started).total_seconds()) + 5
    times = [log.started + timedelta(seconds=at) for at in range(-2, seconds)]
    return "".join(
        f"Time,{at + later:%m-%d-%Y %H:%M:%S}.5,Watts,{watts},Volts,230.1\n" for at in times if at.minute % every == 0
    )


def lengthen(folder: Path, minutes: int) -> None:
    """The run lasts longer by that."""
    path = folder / "run_1" / LOGS[0]
    log = parse_detail(path.read_bytes())
    assert log.ended is not None
    later = f"{log.ended + timedelta(minutes=minutes):%m-%d-%Y %H:%M:%S.%f}"[:-3]
    path.write_text(path.read_text().replace(log.get("power_end"), later))


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
        pytest.param(lambda f: (f / "run_1/spl.txt").write_text(make_samples(f, "21.05")), "run_1/spl.txt", id="watts"),
        pytest.param(
            lambda f: shutil.copyfile(f / "ranging/spl.txt", f / "run_1/spl.txt"), "run_1/spl.txt", id="ranging"
        ),
        pytest.param(lambda f: (f / "run_1/spl.txt").write_text(make_samples(f)[:150]), "run_1/spl.txt", id="half"),
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


def rewrite(folder: Path, samples: str) -> None:
    """With a digest that fits, and the log's."""
    (folder / "run_1/spl.txt").write_text(samples)
    for file in ("client.json", "server.json"):
        listed = json.loads((folder / "power" / file).read_text())["results"]
        write_session(folder, file, list(listed))


@pytest.mark.parametrize(
    "later", [timedelta(days=1), timedelta(hours=-7), timedelta(minutes=3)], ids=["day", "zone", "near"]
)
def test_samples_of_another_run_are_refused_though_their_digest_fits(session: Path, later: timedelta) -> None:
    rewrite(session, make_samples(session, later=later))
    assert find(session) == [("power.times", "run_1/spl.txt", "no sample of the run")]


def test_a_clock_in_a_time_zone_that_the_session_states_is_believed(session: Path) -> None:
    rewrite(session, make_samples(session, later=timedelta(hours=-7)))
    edit("server.json", lambda d: d.update(timezone=25200))(session)
    assert not find(session)


@pytest.mark.parametrize(("every", "found"), [(1, []), (2, ["of the run's minutes"])])
def test_minutes_of_a_run_without_samples_are_counted(session: Path, every: int, found: list[str]) -> None:
    lengthen(session, 11)
    rewrite(session, make_samples(session, every=every))
    told = [(rule, text) for rule, _, text in find(session)]
    assert [rule for rule, _ in told] == ["power.times"] * len(found)
    for (_, text), part in zip(told, found, strict=True):
        assert text.startswith(("no sample in 5 ", "no sample in 6 "))
        assert text.endswith(part)


@pytest.mark.parametrize("year", ["9999", "0001"])
def test_a_run_beyond_all_times_says_nothing_of_its_samples(session: Path, year: str) -> None:
    path = session / "run_1" / LOGS[0]
    text = path.read_text()
    began = parse_detail(text.encode()).started
    assert began is not None
    path.write_text(text.replace(f"-{began.year} ", f"-{year} "))
    rewrite(session, make_samples(session) if year == "0001" else "Time,01-01-2026 00:00:00.5,Watts,1\n")
    assert "internal.rule" not in [f.rule.id for f in verify_tree(session.parents[6]).findings]
