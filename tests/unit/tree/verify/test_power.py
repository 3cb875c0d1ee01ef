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

from reconciler.loadgen.log import parse_detail
from reconciler.tree.findings import Severity
from reconciler.verify.engine import verify_tree
from reconciler.verify.power import POWER_CONTRADICTIONS
from tests.unit.tree.power_sessions import LOGS, add_session, count, list_messages, make_samples, write_session


@pytest.fixture
def session(tree: Path) -> Path:
    """The performance folder of a result whose power was measured, as the kit leaves it."""
    return add_session(tree)


def lengthen(folder: Path, minutes: int) -> None:
    """The run lasts longer by that."""
    path = folder / "run_1" / LOGS[0]
    log = parse_detail(path.read_bytes())
    assert log.ended is not None
    later = f"{log.ended + timedelta(minutes=minutes):%m-%d-%Y %H:%M:%S.%f}"[:-3]
    path.write_text(path.read_text().replace(log.get("power_end"), later))


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
    ("file", "change", "line", "other"),
    [
        pytest.param("client.json", lambda d: d.update(session_name="x"), 2, 2, id="session"),
        pytest.param("server.json", lambda d: d.update(uuid={}), 3, 3, id="uuid"),
        pytest.param("client.json", lambda d: d.pop("session_name"), 2, 0, id="no-session-of-the-client"),
        pytest.param("server.json", lambda d: d.pop("uuid"), 0, 3, id="no-uuid-of-the-director"),
        pytest.param("server.json", lambda d: d.pop("results"), 0, 7, id="no-list-of-the-director"),
        pytest.param("client.json", lambda d: d.pop("results"), 7, 0, id="no-list-of-the-client"),
    ],
)
def test_both_sides_of_a_session_are_named_with_their_lines(
    session: Path, file: str, change: Callable[[dict[str, Any]], Any], line: int, other: int
) -> None:
    """0: it does not stand there."""
    edit(file, change)(session)
    (said,) = [f.complaint for f in verify_tree(session.parents[6]).findings if f.rule.id == "power.session"]
    assert (said.place.file.rpartition("/")[2], said.place.line) == ("server.json", line)
    assert said.other is not None
    assert (said.other.file.rpartition("/")[2], said.other.line) == ("client.json", other)


@pytest.mark.parametrize(
    "listed", [{"../../secret": "00"}, {"run_1/../../x": "00"}, {"run_1/spl.txt": 7}, "spl.txt", None]
)
def test_what_a_session_lists_leads_nowhere_else(session: Path, listed: object) -> None:
    edit("server.json", lambda d: d.update(results=listed))(session)
    assert [rule for rule, _, _ in find(session)] == ["power.session"]


@pytest.mark.parametrize(
    "messages",
    [None, 7, "Watts", {"cmd": "Watts"}, [], [7, None, "Watts", {"cmd": 3}, {}, []]],
    ids=["none", "number", "text", "object", "empty", "other"],
)
def test_messages_of_another_shape_hold_no_answer(session: Path, messages: object) -> None:
    edit("server.json", lambda d: d.update(ptd_messages=messages))(session)
    (finding,) = [f for f in verify_tree(session.parents[6]).findings if f.rule.kind in ("power", "internal")]
    said = finding.complaint
    assert (finding.rule.id, finding.severity) == ("power.watts", Severity.WARNING)
    assert (said.place.file.rpartition("/")[2], said.found) == (
        "server.json",
        "no answer of what the analyzer measured",
    )


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


@pytest.fixture
def counted(session: Path) -> Path:
    """A session whose director kept what the daemon counted, of samples that differ and of which two are not valid."""
    for run in ("ranging", "run_1"):
        first, second, *rest = make_samples(session).splitlines(keepends=True)
        zero = second.replace("Watts,210.5", "Watts,-1.25")
        higher = [line.replace("Watts,210.5", f"Watts,{211 + at % 3}.125000") for at, line in enumerate(rest)]
        (session / run / "spl.txt").write_text("".join((first, zero, *higher, zero)))
    messages = list_messages(session, missing=1)
    log = "".join(f"07-23-2026 12:55:00.1: Response to client sent: {item['reply']}\n" for item in messages)
    (session / "power/ptd_logs.txt").write_text(log)
    sign(session)
    edit("server.json", lambda d: d.update(ptd_messages=messages))(session)
    return session


def sign(folder: Path) -> None:
    """Each digest written anew, and all else kept."""

    def apply(document: dict[str, Any]) -> None:
        document["results"] = {n: hashlib.sha1((folder / n).read_bytes()).hexdigest() for n in document["results"]}

    for file in ("client.json", "server.json"):
        edit(file, apply)(folder)


def test_what_the_daemon_counted_of_honest_samples_is_believed(counted: Path) -> None:
    assert not verify_tree(counted.parents[6]).findings


@pytest.mark.parametrize("folder", ["run_1", "ranging"])
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param("Watts,21", "Watts,2", "a mean of", id="tenth"),
        pytest.param("Watts,212.125", "Watts,212.100", "a mean of", id="little"),
    ],
)
def test_watts_and_their_digest_written_anew_are_denied_by_what_was_counted(
    counted: Path, folder: str, old: str, new: str, found: str
) -> None:
    path = counted / folder / "spl.txt"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    sign(counted)
    ((rule, place, text),) = find(counted, watts=True)
    assert (rule, place) == ("power.watts", f"{folder}/spl.txt")
    assert text.startswith(found)


def test_a_peak_that_was_moved_between_samples_is_denied_by_the_most_that_was_counted(counted: Path) -> None:
    path = counted / "run_1/spl.txt"
    high, low = "Watts,213.125", "Watts,212.125"
    head, tail = path.read_text().split(high, 1)
    assert low in tail
    path.write_text(f"{head}Watts,214.125{tail.replace(low, 'Watts,211.125', 1)}")
    sign(counted)
    ((rule, _, text),) = find(counted, watts=True)
    assert rule == "power.watts"
    assert text.startswith("at most 214.125 W in ")


def test_samples_that_were_taken_out_are_asked_about(counted: Path) -> None:
    path = counted / "run_1/spl.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join((*lines[:3], *lines[5:])))
    sign(counted)
    ((rule, _, text),) = find(counted, watts=True)
    assert (rule, text) == ("power.watts", f"{len(lines) - 2} samples, {len(lines) - 4} of them above 0 W")


def test_answers_written_anew_are_denied_by_the_daemons_own_log(counted: Path) -> None:
    path = counted / "run_1/spl.txt"
    before = count(path, missing=1)
    path.write_text(path.read_text().replace("Watts,21", "Watts,2"))
    sign(counted)
    server = counted / "power/server.json"
    server.write_text(server.read_text().replace(before, count(path, missing=1)))
    found = find(counted, watts=True)
    assert [rule for rule, _, _ in found] == ["power.watts"] * 2, "the ranging run has the same samples"
    assert found[-1][1:] == ("power/ptd_logs.txt", f"the answer {before}")


def test_a_daemons_log_that_was_copied_before_its_last_line_is_believed(counted: Path) -> None:
    path = counted / "power/ptd_logs.txt"
    path.write_text(path.read_text().rpartition("Watts,")[0])
    sign(counted)
    assert not find(counted, watts=True)


@pytest.mark.parametrize("messages", [None, [], 7, [7], [{"cmd": "Watts", "reply": "Watts,1,2"}], [{"cmd": ["Go"]}]])
def test_messages_that_count_nothing_are_asked_about(counted: Path, messages: object) -> None:
    edit("server.json", lambda d: d.update(ptd_messages=messages))(counted)
    assert find(counted, watts=True) == [
        ("power.watts", "power/server.json", "no answer of what the analyzer measured")
    ]


def test_samples_that_are_listed_and_not_there_are_named(session: Path) -> None:
    (session / "run_1/spl.txt").unlink()
    assert find(session) == [("power.session", "run_1/spl.txt", "no samples")]


@pytest.mark.parametrize("file", ["client.json", "server.json"])
@pytest.mark.parametrize("left", ["", "{"])
def test_a_session_of_which_one_side_is_not_there_is_named(session: Path, file: str, left: str) -> None:
    (session / "power" / file).write_text(left) if left else (session / "power" / file).unlink()
    ((rule, place, found),) = find(session)
    assert (rule, place) == ("power.session", f"power/{file}")
    assert found == "no such file" or left


def measured(folder: Path, edit: Callable[[str], str] = str, channels: int = 0) -> list[tuple[str, str]]:
    """What is said of samples whose watts are of the volts, amperes and factors beside them, then edited and signed."""
    one = "Watts,210.500000,Volts,230.100000,Amps,0.963000,PF,0.949950"
    several = "".join(f",Ch{n},{one}" for n in range(1, channels + 1))
    own = one.replace("210.5", f"{210.5 * channels}") if channels else one
    text = make_samples(folder).replace("Watts,210.5,Volts,230.1", f"{own},Mark,testing{several}")
    (folder / "run_1/spl.txt").write_text(edit(text))
    sign(folder)
    found = verify_tree(folder.parents[6]).findings
    return [(f.severity.value, f.complaint.found) for f in found if f.rule.id == "power.products"]


@pytest.mark.parametrize("channels", [0, 3])
def test_watts_of_the_volts_and_amperes_beside_them_are_believed(session: Path, channels: int) -> None:
    assert measured(session, channels=channels) == []


def without_a_third_channel(text: str) -> str:
    head, third = f"Watts,{210.5 * 3}", "Ch3,Watts,210.500000,Volts,230.100000,Amps,0.963000,PF,0.949950"
    assert head in text
    assert third in text
    return text.replace(third, f"Ch3{',-1.000000'.join((',Watts', ',Volts', ',Amps', ',PF', ''))}").replace(
        head, "Watts,421.0"
    )


def test_a_channel_that_measured_nothing_is_left_out(session: Path) -> None:
    assert measured(session, without_a_third_channel, channels=3) == []


@pytest.mark.parametrize("watts", [105.25, 0.5], ids=["usual", "small"])
def test_watts_beside_a_channel_that_measured_nothing_are_judged(session: Path, watts: float) -> None:
    def edited(text: str) -> str:
        lines = without_a_third_channel(text).replace("Watts,421.0", f"Watts,{watts * 4}")
        return lines.replace("Watts,210.500000", f"Watts,{watts}").replace("Amps,0.963", f"Amps,{watts / 218.585:.6f}")

    assert ("error", "2 times the watts of the channels") in measured(session, edited, channels=3)


def without_one_value(text: str) -> str:
    """Every second sample: its watts are not those of what is left."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line.replace("Ch2,Watts,210.500000,Volts,230.100000", "Ch2,Watts,9.000000,Volts,-1.000000") if at % 2 else line
        for at, line in enumerate(lines)
    )


def test_a_sample_with_a_value_that_is_not_valid_is_left_out(session: Path) -> None:
    assert measured(session, without_one_value, channels=3) == []


@pytest.mark.parametrize(
    ("shorter", "watts", "found"),
    [
        pytest.param(0, "421.0", [], id="first"),
        pytest.param(1, "421.0", [], id="second"),
        pytest.param(0, "42.1", ["0.576 times the watts of the channels"], id="first-edited"),
        pytest.param(1, "42.1", ["0.7 times the watts of the channels"], id="second-edited"),
    ],
)
def test_samples_of_other_numbers_of_channels_are_judged_too(
    session: Path, shorter: int, watts: str, found: list[str]
) -> None:
    def without_a_channel_in_some_of_them(text: str) -> str:
        lines = text.splitlines(keepends=True)
        for at, line in list(enumerate(lines))[shorter::2]:
            lines[at] = line.partition(",Ch3,")[0].replace("Watts,631.5", f"Watts,{watts}") + "\n"
        return "".join(lines)

    assert [text for _, text in measured(session, without_a_channel_in_some_of_them, channels=3)] == found


@pytest.mark.parametrize(
    ("old", "new", "channels", "found"),
    [
        pytest.param("Watts,210.5", "Watts,21.05", 0, "0.1 times what volts, amperes and power factor give", id="own"),
        pytest.param(
            "Watts,210.5", "Watts,206.3", 0, "0.98 times what volts, amperes and power factor give", id="little"
        ),
        pytest.param("Watts,631.5", "Watts,63.15", 3, "0.1 times the watts of the channels", id="sum"),
        pytest.param("Ch1,Watts,210.5", "Ch1,Watts,110.5", 3, "1.19 times the watts of the channels", id="channel"),
    ],
)
def test_watts_that_were_edited_alone_are_denied_by_what_stands_beside_them(
    session: Path, old: str, new: str, channels: int, found: str
) -> None:
    said = measured(session, lambda text: text.replace(old, new), channels)
    assert ("error", found) in said


@pytest.mark.parametrize(
    ("channels", "old", "new", "found"),
    [
        pytest.param(0, "", "", [], id="honest"),
        pytest.param(2, "", "", [], id="honest channels"),
        pytest.param(0, "0.210500", "0.021050", ["0.1 times what volts, amperes and power factor give"], id="own"),
        pytest.param(2, "Watts,0.421", "Watts,0.0421", ["0.1 times the watts of the channels"], id="sum"),
    ],
)
def test_a_single_sample_of_a_machine_that_takes_next_to_nothing_is_judged(
    session: Path, channels: int, old: str, new: str, found: list[str]
) -> None:
    assert [text for _, text in measured(session, lambda text: weaken(text).replace(old, new), channels)] == found


@pytest.mark.parametrize(("head", "found"), [("0.421", []), ("0.0421", ["0.1 times the watts of the channels"])])
def test_channels_of_next_to_nothing_measured_something(session: Path, head: str, found: list[str]) -> None:
    """Beside one that measured nothing."""

    def edit(text: str) -> str:
        return weaken(without_a_third_channel(text)).replace("Watts,0.421", f"Watts,{head}")

    assert [text for _, text in measured(session, edit, channels=3)] == found


def weaken(text: str) -> str:
    """The first sample, of a thousandth of its power."""
    one = text.splitlines(keepends=True)[0].replace("Watts,210.500000", "Watts,0.210500")
    return one.replace("Watts,421.0", "Watts,0.421").replace("Amps,0.963", "Amps,0.000963")


def test_samples_that_the_kit_added_up_of_several_analyzers_are_passed_over(session: Path) -> None:
    def several(text: str) -> str:
        return text.replace("Watts,210.5", "Watts,421.0").replace(",Mark,testing", ",Mark,testing,Analyzer1,Time,x")

    assert measured(session, several) == []


def test_rules_of_sessions_by_their_ids() -> None:
    assert [(rule.id, check.__name__) for rule, check in POWER_CONTRADICTIONS] == [
        ("power.session", "verify_sessions"),
        ("files.repeated", "verify_stated_once"),
        ("power.digests", "verify_digests"),
        ("power.phases", "verify_phases"),
        ("power.times", "verify_times"),
    ]


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
