"""Samples of an analyzer against what its daemon counted and against each other, sample by sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.verify.power_readings import read_samples, verify_products, verify_watts
from tests.unit.tree.small_cells import DETAIL, log, say, small_cell

TESTING, RANGING, SERVER = "performance/run_1/spl.txt", "performance/ranging/spl.txt", "performance/power/server.json"
DAEMON = "performance/power/ptd_logs.txt"


def sample(*parts: tuple[object, ...]) -> str:
    """Watts, volts, amperes and factor of the whole and of each channel."""
    texts = [
        ",".join(f"{name},{value}" for name, value in zip(("Watts", "Volts", "Amps", "PF"), part, strict=True))
        for part in parts
    ]
    channels = "".join(f",Ch{number},{text}" for number, text in enumerate(texts[1:], start=1))
    return f"Time,01-02-2026 10:00:00.5,{texts[0]},Mark,m{channels}\n"


def plain(*watts: object) -> str:
    return "".join(sample((each, each, 1, 1)) for each in watts)


def answer(mean: str, least: str, most: str, total: int, valid: int) -> str:
    return f"Watts,{mean},{least},{most},{total},0,{valid}"


def session(*messages: tuple[str, str]) -> str:
    """The messages are on the second line."""
    return '{\n"ptd_messages": ' + json.dumps([{"cmd": cmd, "reply": reply} for cmd, reply in messages]) + "}"


COUNTED = answer("20.0", "10.0", "30.0", 3, 3)
GO = ("Go,1000,0,run_testing", "OK")


def find(root: Path, samples: str | None, *messages: tuple[str, str], log: str = "", file: str = TESTING) -> list[str]:
    files = {
        SERVER: session(*messages),
        **({file: samples} if samples is not None else {}),
        **({DAEMON: log} if log else {}),
    }
    return say(verify_watts(small_cell(root, {path: text for path, text in files.items() if text is not None})))


@pytest.mark.parametrize(
    ("samples", "counted", "said"),
    [
        (plain(10, 20, 30), COUNTED, ""),
        (plain(10, 20, 30, 99, 99), COUNTED, ""),
        (plain(10, 20, 30.0009), COUNTED, "./"),
        (plain(10, 20.0005, 30), COUNTED, ""),
        (plain(10, 20.0007, 30), COUNTED, "./"),
        (plain(10, 19.9993, 30), COUNTED, "./"),
        (plain(9.9, 20.1, 30), COUNTED, "./"),
        (plain(10.1, 19.9, 30), COUNTED, "./"),
        (plain(10, 19.9, 30.1), COUNTED, "./"),
        (plain(10, 20.1, 29.9), COUNTED, "./"),
        (plain(10, 19.9999, 30.0001), COUNTED, ""),
        (plain(10, 30), COUNTED, "warning ./"),
        (plain(10, 0, 30), COUNTED, "warning ./"),
        (plain(10, -1, 30), answer("20.0", "10.0", "30.0", 3, 2), ""),
        (plain(0, 0), answer("7.0", "7.0", "7.0", 2, 0), ""),
        (plain(0.5, 0), answer("0.5", "0.5", "0.5", 2, 1), ""),
        ("", COUNTED, ""),
        (None, COUNTED, ""),
    ],
)
def test_an_answer_is_of_published_samples(tmp_path: Path, samples: str | None, counted: str, said: str) -> None:
    wanted = [f"{said}{TESTING}; see ./performance/power/server.json:2"] if said else []
    assert find(tmp_path / "a", samples, GO, ("Watts", counted)) == wanted
    ranging = ("Go,1000,0,run_ranging", "OK"), ("Watts", counted), GO, ("Watts", answer("1.0", "1.0", "1.0", 0, 0))
    found = find(tmp_path / "b", samples, *ranging, file=RANGING)
    assert found == [line.replace(TESTING, RANGING) for line in wanted]


NOTHING = "warning ./performance/power/server.json"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [GO],
        [("Watts", COUNTED)],
        [GO, ("watts", COUNTED)],
        [GO, ("Watts", COUNTED[:-2])],
        [GO, ("Watts", COUNTED + ",1")],
        [GO, ("Watts", COUNTED.replace("20.0", "20"))],
        [("Go,1000,0,run_other", "OK"), ("Watts", COUNTED)],
        [("Went,1000,0,run_testing", "OK"), ("Watts", COUNTED)],
        [("Go,1000,0,run_ranging", "OK"), ("Watts", COUNTED)],
    ],
)
def test_a_session_without_an_answer_is_asked_about(tmp_path: Path, messages: list[tuple[str, str]]) -> None:
    assert find(tmp_path, plain(10, 20, 30), *messages) == [NOTHING]


@pytest.mark.parametrize(
    ("version", "asked"),
    [("2.1 @ 0123456789", False), (".5a1", False), ("3.1 @ 0123456789", False), ("4.0 @ 0123456789", True), ("", True)],
)
def test_kits_of_before_v4_0_asked_the_analyzer_for_nothing(tmp_path: Path, version: str, asked: bool) -> None:
    detail = {f"performance/run_1/{DETAIL}": log(("loadgen_version", version), ("a", 1))}
    files = {TESTING: plain(10, 20, 30), SERVER: session(GO), **detail}
    assert say(verify_watts(small_cell(tmp_path / "a", files))) == ([NOTHING] if asked else [])
    files[SERVER] = session(GO, ("Watts", answer("20.0", "11.0", "30.0", 3, 3)))
    (said,) = say(verify_watts(small_cell(tmp_path / "b", files)))
    assert said.startswith(f"./{TESTING};")


def test_the_daemons_log_has_no_answer_that_the_director_was_not_given(tmp_path: Path) -> None:
    sent = "x Response to client sent: "
    samples, given = plain(10, 20, 30), (GO, ("Watts", COUNTED))
    strange = answer("20.0", "10.0", "31.0", 3, 3)
    said = f"./{DAEMON}; see ./performance/power/server.json:2"
    assert find(tmp_path / "a", samples, *given, log=f"{sent}{COUNTED}\r\n") == []
    assert find(tmp_path / "b", samples, *given, log=f"{sent}{strange}\n{sent}{COUNTED}\n") == [said]
    assert find(tmp_path / "c", samples, *given, log=f"{sent}{COUNTED}\n{sent}{COUNTED}\n") == [said]
    assert find(tmp_path / "d", samples, *given, log=f"{sent}Watts,1.0\n") == []
    assert find(tmp_path / "e", samples, GO, log=f"{sent}{strange}\n") == [NOTHING]


WHOLE = (10, 5, 2, 1)


@pytest.mark.parametrize(
    ("text", "watts", "denied"),
    [
        pytest.param(sample(WHOLE), [10], [], id="honest"),
        pytest.param(sample((10.1, 5, 2, 1)), [10.1], [], id="near"),
        pytest.param(sample((10.11, 5, 2, 1)), [10.11], ["1.01 times"], id="more"),
        pytest.param(sample((9.9, 5, 2, 1)), [9.9], [], id="near below"),
        pytest.param(sample((9.89, 5, 2, 1)), [9.89], ["0.989 times"], id="less"),
        pytest.param(sample((20, 1, 1, 1), WHOLE, WHOLE), [20], [], id="of channels"),
        pytest.param(sample((20.21, 1, 1, 1), WHOLE, WHOLE), [20.21], ["1.01 sum"], id="of channels that are less"),
        pytest.param(sample((19.79, 1, 1, 1), WHOLE, WHOLE), [19.79], ["0.989 sum"], id="of channels that are more"),
        pytest.param(sample((20, 1, 1, 1), WHOLE, (10, 5, 4, 1)), [20], ["0.667 times"], id="of a channel"),
        pytest.param(sample((20, 1, 1, 1), (10, 5, 4, 0.5), (10, 5, 2, 1)), [20], [], id="of its own factor"),
        pytest.param(sample((10, 1, 1, 1), WHOLE, (0, -1, -1, -1)), [10], [], id="of a channel that measured nothing"),
        pytest.param(sample((10, 1, 1, 1), (0, -1, -1, -1), WHOLE), [10], [], id="of a first one that did"),
        pytest.param(sample((5, 1, 1, 1), (0, 1, 1, 1)), [5], [], id="of nothing"),
        pytest.param(sample((-5, 1, 1, 1), WHOLE), [-5], [], id="below nothing"),
        pytest.param(sample((30, 1, 1, 1), WHOLE, (20, -1, 1, 1)), [30], [], id="of volts that are not valid"),
        pytest.param(sample((0, 5, 2, 1)) + sample((20, 5, 2, 1)), [0, 20], ["2 times"], id="next to one of nothing"),
        pytest.param(sample(("010", "5", "2", "1")), [10], [], id="zeros in front"),
        pytest.param(sample(WHOLE) + sample((20, 1, 1, 1), WHOLE, WHOLE), None, [], id="two kinds"),
        pytest.param(sample((20, 1, 1, 1), WHOLE, WHOLE) + sample((90, 5, 2, 1)), None, ["3.67 times"], id="edited"),
        pytest.param(sample(WHOLE).replace("\n", "\r\n"), None, [], id="other line ends"),
        pytest.param("nothing\n", None, [], id="none"),
        pytest.param("", None, [], id="empty"),
    ],
)
def test_watts_are_those_of_volts_amperes_and_factor(text: str, watts: list[float] | None, denied: list[str]) -> None:
    found = read_samples(text.encode())
    said = {"times": "their product", "sum": "their sum"}
    wanted = [(amount, said[kind]) for amount, kind in map(str.split, denied)]
    assert found.watts == watts
    assert [(text.split()[0], by) for text, by in found.denied] == wanted


def test_products_are_reported_for_each_file_of_a_session(tmp_path: Path) -> None:
    lie = sample((5, 5, 2, 1))
    files: dict[str, Any] = {SERVER: "{}", TESTING: lie, RANGING: lie}
    both = [f"./{file}" for file in (RANGING, TESTING)]
    assert say(verify_products(small_cell(tmp_path / "a", files))) == both
    assert say(verify_products(small_cell(tmp_path / "b", {**files, RANGING: sample(WHOLE)}))) == both[1:]
    assert not list(verify_products(small_cell(tmp_path / "c", {TESTING: lie, RANGING: lie})))
    several = lie.replace(",Mark", ",Analyzer1,Mark")
    assert say(verify_products(small_cell(tmp_path / "d", {**files, TESTING: several}))) == both[:1]
