"""What the record of an attempt says, and which of its files are kept, each under which name and where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.contract import Result
from reconciler.execute import attempt_record
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.attempt_record import build_record, describe_artifact
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import LOG_LIMIT, Ended, Record
from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import RuleContext
from reconciler.rules.results.format import AttemptVerdict, KeptFile, RunFiles
from reconciler.storage.code_archive import pack_code, unpack_code

CELL = "closed/box/net/Offline"
NAMES = {
    Kind.RUN: f"{CELL}/performance",
    Kind.COMPLIANCE_TEST: f"{CELL}/TEST01",
    Kind.VERDICT: f"{CELL}/TEST01",
    Kind.SCORE: CELL,
    Kind.ENGINE: CELL,
    Kind.DATASET: "net",
}
RULES = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3))
COMMAND = {"harness.command": ["go"]}


class Format:
    """Of a run that is well: keeps one log before all else, and the answers after it; ``asked``: what it judged."""

    LOGS = "log_*"

    def __init__(self, **verdict: Any) -> None:
        self.asked: list[Any] = []
        self.verdict = AttemptVerdict({"metric": 1}, **verdict)

    def judge_run(self, run: RunFiles) -> AttemptVerdict:
        self.asked.append(run)
        return self.verdict

    def judge_score(self, *asked: object) -> AttemptVerdict:
        self.asked.append(asked)
        return self.verdict

    def list_kept(self, run: RunFiles) -> Iterator[KeptFile]:
        yield KeptFile(run.output / "log_z", "log_z", in_git=True)

    def list_kept_answers(self, run: RunFiles) -> Iterator[KeptFile]:
        yield KeptFile(run.output / "answers", "answers")


def begin(
    root: Path, kind: Kind, files: dict[str, str], settings: dict[str, Any] | None = None, **more: Any
) -> Attempt:
    """``files``: of its folder, with what they say."""
    more = {"rules": RULES, **more}
    inputs = {"mode": ("performance", "default"), "target_qps": (7, "a.yaml:3")}
    address = Address(kind, NAMES[kind])
    intent = Intent("2026-1", address, "k" * 64, 3, "2026-01-02", inputs, CellSettings(settings or {}), **more)
    attempt = create(root, intent)
    for name, text in files.items():
        (attempt.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (attempt.folder / name).write_text(text)
    return attempt


def end(attempt: Attempt, **values: Any) -> tuple[Record, list[str]]:
    """With what is kept: a name that is in git as well with a plus."""
    Result(**{"done": True, "seconds": 1.23456, **values}).write(attempt.result)
    record, kept = build_record(attempt)
    return record, [f"+{item.name}" if item.in_git else item.name for item in kept]


@pytest.fixture
def of_format(monkeypatch: pytest.MonkeyPatch) -> Format:
    found = Format()
    monkeypatch.setattr(attempt_record, "find_format", lambda _: found)
    return found


RUN_FILES = {
    "output/log_z": "log",
    "output/answers": "answers",
    "output/outputs/more/b": "b",
    **{f"output/outputs/{name}": name for name in "zcamx"},
    "output/else": "not requested",
    "code.tar.gz": "code",
    "requirements.txt": "numpy",
    "child.log": "said",
    "service.log": "served",
    "telemetry.jsonl": "{}",
    "user.conf": "conf",
}
POWER = {**{f"session/{name}/p.csv": "p" for name in ("run_1", "power", "ranging", "a")}, "check.txt": "passed"}
KEPT_RUN = [
    "+log_z",
    *(f"outputs/{name}" for name in ("a", "c", "m", "more/b", "x", "z")),
    "+code.tar.gz",
    "+requirements.txt",
]
KEPT_LAST = ["answers", "child.log", "service.log", "telemetry.jsonl"]
KEPT_POWER = [*(f"+session/{name}/p.csv" for name in ("a", "power", "ranging", "run_1")), "power-check.txt"]


@pytest.mark.parametrize(
    ("kind", "files", "kept"),
    [
        (Kind.RUN, RUN_FILES, [*KEPT_RUN, *KEPT_LAST]),
        (Kind.RUN, {**RUN_FILES, **POWER}, [*KEPT_RUN, *KEPT_POWER, *KEPT_LAST]),
        (Kind.RUN, {**RUN_FILES, "check.txt": "of no session"}, [*KEPT_RUN, *KEPT_LAST]),
        (Kind.RUN, {"output/log_z": "log", "output/answers": "", "child.log": ""}, ["+log_z", "answers"]),
        (
            Kind.COMPLIANCE_TEST,
            {**RUN_FILES, "audit-settings.conf": "audit"},
            [*KEPT_RUN, "+audit-settings.conf", *KEPT_LAST],
        ),
        (Kind.SCORE, {"output/accuracy.txt": "a", "output/images/1": "i"}, ["+accuracy.txt", "+images/1"]),
        (Kind.VERDICT, {"output/verify.txt": "v"}, ["+verify.txt"]),
        (Kind.ENGINE, {"output/net.engine": "e", "telemetry.jsonl": "{}"}, ["net.engine", "telemetry.jsonl"]),
    ],
    ids=["run", "with power", "check of no session", "bare", "test", "score", "verdict", "engine"],
)
def test_what_an_attempt_left_is_kept_in_one_order(
    kind: Kind, files: dict[str, str], kept: list[str], of_format: Format, tmp_path: Path
) -> None:
    assert end(begin(tmp_path, kind, files))[1] == kept


@pytest.mark.parametrize(
    ("files", "settings", "kept"),
    [
        ({}, COMMAND, []),
        ({"user.conf": "conf", "child.log": "said", "service.log": "served"}, COMMAND, ["child.log", "service.log"]),
        ({"user.conf": "conf", "output/log_a": "a"}, COMMAND, ["log_a", "user.conf"]),
        ({"output/log_a": "a"}, COMMAND, ["log_a"]),
        ({"user.conf": "conf", "output/log_a": "a"}, {}, ["log_a"]),
        (
            {"output/below/log_b": "b", "output/log_c": "c", "output/log_a": "", "output/x": "x"},
            {},
            ["below/log_b", "log_c"],
        ),
        ({"output/log_folder/x": "x", "telemetry.jsonl": "{}", "code.tar.gz": "code"}, COMMAND, []),
    ],
    ids=["nothing", "no logs", "of a command", "without a conf", "of our harness", "below, and empty", "a folder"],
)
def test_of_a_failed_run_its_logs_are_kept_and_no_more(
    files: dict[str, str], settings: dict[str, Any], kept: list[str], of_format: Format, tmp_path: Path
) -> None:
    record, found = end(begin(tmp_path, Kind.RUN, files, settings), done=False, problem="it broke")
    assert (found, record.ended, record.problem, record.values) == (kept, Ended.FAILED, "it broke", {})
    assert of_format.asked == []


def test_the_code_that_is_kept_is_what_ran_behind_a_launcher(of_format: Format, tmp_path: Path) -> None:
    attempt = begin(tmp_path, Kind.RUN, RUN_FILES)
    attempt.code.write_bytes(pack_code({"harness/verbs/run.py": b"here", "own.py": b"own"}))
    attempt.launched_code.write_bytes(pack_code({"harness/verbs/run.py": b"there"}))
    end(attempt)
    assert unpack_code(attempt.code.read_bytes()) == {"harness/verbs/run.py": b"there", "own.py": b"own"}


def test_a_run_that_its_logs_deny_has_failed_whatever_its_child_said(of_format: Format, tmp_path: Path) -> None:
    of_format.verdict = AttemptVerdict({"contradictions": ["a"]}, "not what was asked", "contradiction", "look")
    record, kept = end(begin(tmp_path, Kind.RUN, RUN_FILES, COMMAND))
    assert (record.ended, record.problem, record.problem_class, record.fix, record.values) == (
        Ended.FAILED,
        "not what was asked",
        "contradiction",
        "look",
        {"contradictions": ["a"]},
    )
    assert kept == ["log_z", "user.conf", "child.log", "service.log"]


@pytest.mark.parametrize("kind", [Kind.RUN, Kind.COMPLIANCE_TEST])
@pytest.mark.parametrize(("marks", "conf"), [((), "written"), (("rehearsal",), "harvested")])
def test_a_run_is_judged_by_its_files_and_by_what_was_asked_of_it(
    kind: Kind, marks: tuple[str, ...], conf: str, of_format: Format, tmp_path: Path
) -> None:
    settings = {**(COMMAND if marks else {}), "harness.user_conf": conf}
    attempt = begin(tmp_path, kind, {**RUN_FILES, "audit-settings.conf": ""}, settings, marks=marks)
    record, _ = end(attempt, values={"clock_set": 1, "marks": ["synthetic"]})
    assert of_format.asked == [
        RunFiles(
            output=attempt.output,
            inputs={"mode": "performance", "target_qps": 7},
            rules=RULES,
            reported={"clock_set": 1},
            user_conf=attempt.user_conf,
            scratch=attempt.folder,
            by_command=bool(marks),
            rehearsal=bool(marks),
        )
    ]
    assert (record.ended, record.values, record.marks) == (Ended.DONE, {"metric": 1}, (*marks, "synthetic"))


def test_a_score_is_judged_by_what_its_scorer_and_its_run_left(of_format: Format, tmp_path: Path) -> None:
    attempt = begin(tmp_path, Kind.SCORE, {})
    end(attempt, values={"accuracy": "76.1"})
    assert of_format.asked == [(attempt.output, attempt.inputs / "run", RULES, {"accuracy": "76.1"})]


def test_a_log_that_is_too_large_for_git_is_in_the_store_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for size, places in ((LOG_LIMIT, ["objects", "logs"]), (LOG_LIMIT + 1, ["objects", "objects"])):
        path.write_bytes(b"x" * size)
        found = [describe_artifact(KeptFile(path, "log", in_git=shown)) for shown in (False, True)]
        assert [item.place for item in found] == places
        assert {item.size for item in found} == {size}
