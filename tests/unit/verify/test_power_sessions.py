"""What is said of a power session, word for word: cells of a few small files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.resource.rules import AppliedRule
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.view import CellView
from reconciler.verify.power import verify_digests, verify_phases, verify_sessions, verify_stated_once, verify_times
from tests.unit.tree.small_cells import DETAIL, RUN, log, say, small_cell

SAMPLES, LOG = "run_1/spl.txt", f"run_1/{DETAIL}"
CLIENT, SERVER = "./performance/power/client.json", "./performance/power/server.json"


def sha(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def document(results: object, **more: object) -> str:
    """session_name on the second line, uuid on the third, results on the fourth."""
    return json.dumps({"session_name": "s", "uuid": "u", "results": results, **more}, indent=1)


def files(**changed: str | None) -> dict[str, str]:
    """By their names in the power folder and that of the samples; None leaves one out."""
    found: dict[str, str | None] = {
        "client": document({LOG: "00"}),
        "server": document({SAMPLES: sha("x")}),
        "samples": "x",
        **changed,
    }
    paths = {"client": CLIENT, "server": SERVER, "samples": f"./performance/{SAMPLES}"}
    return {paths[name][2:]: text for name, text in found.items() if text is not None}


def find(check: AppliedRule[CellView, Complaint], root: Path, texts: Mapping[str, str]) -> list[str]:
    return say(check(small_cell(root, texts)))


UNLISTED = "{}; see {}"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"client": None}, [f"{CLIENT}"]),
        ({"server": None}, [f"{SERVER}"]),
        ({"server": document({SAMPLES: "00"}, session_name="t")}, [f"{SERVER}:2; see {CLIENT}:2"]),
        ({"client": document({LOG: "00"}, uuid="v", session_name="s")}, [f"{SERVER}:3; see {CLIENT}:3"]),
        ({"client": document({LOG: "00"}, uuid="v", session_name="t")}, [f"{SERVER}:2; see {CLIENT}:2"]),
        ({"server": document({LOG: "00"})}, [UNLISTED.format(f"{SERVER}:4", f"{CLIENT}:4")]),
        ({"server": document({SAMPLES: 5})}, [UNLISTED.format(f"{SERVER}:4", f"{CLIENT}:4")]),
        ({"client": document({})}, [UNLISTED.format(f"{SERVER}:4", f"{CLIENT}:4")]),
        ({"client": document({"other/x": "00"})}, [UNLISTED.format(f"{SERVER}:4", f"{CLIENT}:4")]),
        ({"client": document({f"ranging/{'x' * 81}": "00"})}, [UNLISTED.format(f"{SERVER}:4", f"{CLIENT}:4")]),
        ({"client": document({f"power/{'x' * 80}": "00"})}, []),
        ({"server": document({SAMPLES.replace("/", "\\"): "00"})}, []),
        ({"samples": None}, [f"note ./performance/{SAMPLES}; see {SERVER}:4"]),
    ],
)
def test_client_and_director_have_one_session(tmp_path: Path, changed: dict[str, str | None], said: list[str]) -> None:
    assert find(verify_sessions, tmp_path, files(**changed)) == said


def test_names_with_two_values_are_asked_about_on_both_sides(tmp_path: Path) -> None:
    twice = '{"a": 1,\n"a": 2}'
    found = find(verify_stated_once, tmp_path, files(client=twice, server=twice))
    assert found == [f"{CLIENT}:1", f"{SERVER}:1"]


def test_each_file_that_a_session_lists_has_its_digest(tmp_path: Path) -> None:
    client = json.dumps({"results": {LOG: sha("a\nb\n"), "power/none": "00"}})
    right = files(client=client, server=document({SAMPLES: sha("x").upper(), "ranging/spl.txt": sha("y\r\nz\r\n")}))
    right |= {f"performance/{LOG}": "a\r\nb\r\n", "performance/ranging/spl.txt": "y\nz\n"}
    assert find(verify_digests, tmp_path / "a", right) == []
    wrong = right | {f"performance/{LOG}": "c", f"performance/{SAMPLES}": "d"}
    assert find(verify_digests, tmp_path / "b", wrong) == [
        f"./performance/{path}; see {read}"
        for path, text, wanted, read in (
            (LOG, "c", sha("a\nb\n"), f"{CLIENT}:1"),
            (SAMPLES, "d", sha("x").upper(), f"{SERVER}:5"),
        )
    ]
    assert find(verify_digests, tmp_path / "c", {f"performance/{LOG}": "c"}) == []


BEGAN, ENDED = "01-02-2026 10:00:30.000", "01-02-2026 10:05:10.000"


def sampled(*minutes: str, day: str = "01-02-2026") -> str:
    return "".join(f"Time,{day} {minute}:20.5,Watts,1,V\n" for minute in minutes)


ALL = ("10:01", "10:02", "10:03", "10:04")
LATER, EARLIER = ([each.replace("10:", hour) for each in ALL] for hour in ("11:", "09:"))


def timed(root: Path, samples: str, timezone: object = None, began: str = BEGAN, ended: str = ENDED) -> list[str]:
    reported = log(("a", 1), ("power_begin", began), ("power_end", ended))
    more = {} if timezone is None else {"timezone": timezone}
    texts = files(samples=samples, client=document({LOG: "00"}, **more)) | {f"{RUN}/{DETAIL}": reported}
    return find(verify_times, root, texts)


NONE = f"./performance/{SAMPLES}; see ./{RUN}/{DETAIL}:2"


def absent(count: int) -> str:
    return f"warning ./performance/{SAMPLES}; see ./{RUN}/{DETAIL}:2"


@pytest.mark.parametrize(
    ("samples", "timezone", "said"),
    [
        pytest.param(sampled(*ALL), None, [], id="each minute"),
        pytest.param(sampled("10:00", *ALL, "10:05"), None, [], id="those at the ends too"),
        pytest.param(sampled(*ALL[1:]), None, [absent(1)], id="all but the first"),
        pytest.param(sampled(*ALL[:-1]), None, [absent(1)], id="all but the last"),
        pytest.param(sampled("10:00"), None, [absent(4)], id="the first alone"),
        pytest.param(sampled("10:05"), None, [absent(4)], id="the last alone"),
        pytest.param(sampled("09:59", "10:06"), None, [NONE], id="none"),
        pytest.param(sampled(*ALL, day="02-01-2026"), None, [NONE], id="of another day"),
        pytest.param(" " + sampled("10:03"), None, [NONE], id="not at the beginning of a line"),
        pytest.param(sampled(*LATER), 3600, [], id="an hour later"),
        pytest.param(sampled(*EARLIER), 3600, [], id="an hour earlier"),
        pytest.param(sampled(*LATER), "3600", [f"note {NONE}"], id="in words"),
        pytest.param(sampled(*ALL, day="01-03-2026"), 86_400, [], id="a day later"),
        pytest.param(sampled(*LATER, day="01-03-2026"), 90_000, [NONE], id="more"),
        pytest.param(sampled(*LATER), None, [f"note {NONE}"], id="a time zone that is not stated"),
        pytest.param(sampled(*ALL), 3600, [], id="in UTC"),
        pytest.param("", None, [], id="empty"),
    ],
)
def test_samples_are_of_the_minutes_of_the_run(tmp_path: Path, samples: str, timezone: object, said: list[str]) -> None:
    assert timed(tmp_path, samples, timezone) == said


def message(cmd: str, sent: object, answered: object) -> dict[str, object]:
    return {"cmd": cmd, "cmd_time": sent, "reply": "OK", "reply_time": answered}


NINE = 1767344400  # 01-02-2026 09:00:00
HOUR = 3600


def phased(start: object, stop: object, more: list[object] | None = None) -> str:
    """The measured phase; messages on the first line but the last."""
    reported = [message("session,s,start,ranging", 1, 2), message("session,s,stop,ranging", 3, 4)]
    reported += [message("session,s,start,testing", 0, start), message("session,s,stop,testing", stop, 9e9)]
    return json.dumps(
        {"messages": [*reported, *(more or [])], "session_name": "s", "uuid": "u", "results": {LOG: "00"}}
    )


def within(root: Path, **sides: str) -> list[str]:
    reported = log(("a", 1), ("power_begin", BEGAN), ("power_end", ENDED))  # 10:00:30 to 10:05:10
    return find(verify_phases, root, files(**sides) | {f"{RUN}/{DETAIL}": reported})


BEGINS, ENDS = NINE + HOUR + 30, NINE + HOUR + 310


@pytest.mark.parametrize(
    ("start", "stop", "believed"),
    [
        (BEGINS, ENDS, True),
        (BEGINS + 60, ENDS - 60, True),  # clocks of two machines
        (BEGINS + 61, ENDS, False),
        (BEGINS, ENDS - 61, False),
        (BEGINS - HOUR, ENDS + HOUR, True),
        (BEGINS + 86_400, ENDS + 86_400, False),
        (BEGINS + 0.5, ENDS + 0.25, True),
        ("x", ENDS, True),
        (True, ENDS, True),
        (1e300, ENDS, True),
        (-1, ENDS, True),
    ],
)
def test_a_run_is_within_the_measured_phase(tmp_path: Path, start: object, stop: object, believed: bool) -> None:
    for side in ("client", "server"):
        found = within(tmp_path / side, **{side: phased(start, stop)})
        assert (not found) is believed
        assert set(found) <= {f"./performance/power/{side}.json:1; see ./{RUN}/{DETAIL}:2"}


def test_a_phase_is_reported_once(tmp_path: Path) -> None:
    late = phased(NINE, NINE + 5)
    (said,) = within(tmp_path, client=late, server=late)
    assert "client.json" in said


def test_a_session_without_its_phase_says_nothing(tmp_path: Path) -> None:
    for number, messages in enumerate((None, 7, ["x", 7], [message("session,s,start,testing", 1, 2)])):
        text = json.dumps({"messages": messages, "session_name": "s"})
        assert within(tmp_path / str(number), client=text, server=text) == []
    assert find(verify_phases, tmp_path / "none", files(client=phased(NINE, NINE))) == []


@pytest.mark.parametrize(
    ("marks", "others"),
    [
        (["s_testing"], 0),
        ([], 0),
        (["s_testing", "s_ranging"], 1),
        (["t_testing", "t_testing"], 2),
        (["s_testing2"], 1),
    ],
)
def test_samples_are_marked_with_their_session(tmp_path: Path, marks: list[str], others: int) -> None:
    samples = "".join(f"Time,x,Watts,1,Mark,{mark},Ch1\n" for mark in marks)
    said = f"./performance/{SAMPLES}; see {SERVER}:2"
    assert find(verify_sessions, tmp_path, files(samples=samples)) == ([said] if others else [])
