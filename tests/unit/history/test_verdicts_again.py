"""A verdict in a commit is held against what its logs say: its own word, its figures, and its verify files."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.verdicts import verify_imported, verify_verdict
from reconciler.loadgen.log_files import SUMMARY
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Record, RecordedInput
from reconciler.resource.settings import CellSettings
from reconciler.rules.compliance.definition import RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import judge
from reconciler.rules.compliance.verdict import AuditVerdict

CELL = Cell("closed", "box", "net", "Offline")
ATTESTED = "; the accuracy as the scorer wrote it"
REPORT = "tokens: 1234\n{'exact_match': 81.5, 'samples': 90}\n"
LIMIT = {"limit.least_accuracy": "80"}
CHOSEN = Chosen("Run/a", "Run/p", "", (("TEST04", "Test/a"), ("TEST07", "Test/a")))


def summary(rate: str) -> bytes:
    return (
        f"Scenario : Offline\nSamples per second: {rate}\nResult is : VALID\nEarly stopping satisfied: Yes\n".encode()
    )


def make(address: Address, files: Mapping[str, str], **as_if: Any) -> Record:
    """Artifacts are named by their contents, as ``LOGS`` has them."""
    artifacts = tuple(Artifact(name, digest, 1, "logs") for name, digest in files.items())
    return Record(
        address,
        "k",
        1,
        Ended.DONE,
        "2026-03-01T12:00:00Z",
        1,
        "",
        as_if.pop("inputs", {}),
        artifacts=artifacts,
        **as_if,
    )


LOGS = {"100": summary("100"), "99": summary("99"), "150": summary("150")}
RUNS = {
    "Run/p": make(Address(Kind.RUN, f"{CELL}/performance"), {SUMMARY: "100"}),
    "Run/a": make(Address(Kind.RUN, f"{CELL}/accuracy"), {}),
    "Test/a": make(Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST04"), {SUMMARY: "99"}),
    "Test/fast": make(Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST04"), {SUMMARY: "150"}),
}


def judged(test: str, audit: str = "99") -> AuditVerdict:
    def run(name: str) -> RunLogs:
        return RunLogs(b"", LOGS[name])

    if test == "TEST07":
        return judge(
            test, VerdictInputs(RunLogs(), reports={"compliance_accuracy.txt": REPORT}, limits={"least_accuracy": "80"})
        )
    return judge(test, VerdictInputs(performance=run("100"), audit=run(audit), scenario="Offline"))


def recorded(test: str, verdict: AuditVerdict, audit: str = "Test/a") -> tuple[Record, dict[str, bytes]]:
    """As a pass records it, and all logs of the commit."""
    texts = verdict.files
    inputs = {"test": test, **LIMIT}
    record = make(
        Address(Kind.VERDICT, f"{CELL}/{test}"),
        {name: name for name in texts},
        inputs={name: RecordedInput(value, "") for name, value in inputs.items()},
        values={"passed": verdict.passed, "figures": dict(verdict.figures)},
        upstream={"audit": audit, "performance": "Run/p"},
    )
    return record, LOGS | {name: text.encode() for name, text in texts.items()}


def verify(test: str, record: Record, logs: Mapping[str, bytes], chosen: Chosen = CHOSEN) -> tuple[Proof, str]:
    at: Any = SimpleNamespace(records=RUNS, declared=lambda _: None)
    found = verify_verdict(CELL, test, record, chosen, at, logs)
    assert found == Claim(str(CELL), f"{test} verdict", found.proof, found.detail)
    return found.proof, found.detail


def test_verdicts_that_their_logs_bear_out_are_proven_or_attested() -> None:
    assert verify("TEST04", *recorded("TEST04", judged("TEST04"))) == (Proof.PROVEN, "TEST PASS, from its logs")
    assert verify("TEST07", *recorded("TEST07", judged("TEST07"))) == (
        Proof.ATTESTED,
        f"TEST PASS, from its logs{ATTESTED}",
    )
    fast = replace(CHOSEN, tests=(("TEST04", "Test/fast"),))
    failed = recorded("TEST04", judged("TEST04", "150"), "Test/fast")
    assert verify("TEST04", *failed, fast) == (Proof.PROVEN, "TEST FAIL, from its logs")


@pytest.mark.parametrize(
    ("edit", "wrong"),
    [
        pytest.param({"values": {"passed": False}}, "recorded TEST FAIL, the logs say TEST PASS", id="word"),
        pytest.param(
            {"values": {"passed": True, "figures": {"audit run": "98", "performance run": "100"}}},
            "recorded audit run: 98, the logs say 99",
            id="figure",
        ),
        pytest.param(
            {"upstream": {"audit": "Test/fast", "performance": "Run/p"}},
            "it is of another audit run than is published",
            id="another test",
        ),
        pytest.param(
            {"upstream": {"audit": "Test/fast", "performance": "Run/q"}},
            "it is of another audit and performance run than is published",
            id="other runs",
        ),
    ],
)
def test_verdict_that_its_logs_deny_is_contradicted(edit: dict[str, Any], wrong: str) -> None:
    record, logs = recorded("TEST04", judged("TEST04"))
    assert verify("TEST04", replace(record, **edit), logs) == (Proof.CONTRADICTED, wrong)


def test_figures_that_a_verdict_does_not_state_are_not_asked_for() -> None:
    record, logs = recorded("TEST04", judged("TEST04"))
    assert verify("TEST04", replace(record, values={"passed": True}), logs)[0] is Proof.PROVEN


@pytest.mark.parametrize(
    ("test", "edit", "wrong"),
    [
        ("TEST04", ("TEST PASS", "TEST FAIL"), "verify_performance.txt does not say what the logs say: TEST PASS"),
        ("TEST04", ("audit run: 99", "audit run: 98"), "verify_performance.txt says 98, the logs say 99"),
        ("TEST04", ("audit run: 99", "audit run: 99 of 7"), "verify_performance.txt says 7, the logs say nothing"),
        ("TEST04", ("audit run: 99\n", ""), "verify_performance.txt says nothing, the logs say 99"),
        ("TEST04", ("audit run: 99", "the audit run had 99"), ""),
        ("TEST07", ("TEST PASS", "TEST FAIL"), "verify_accuracy.txt does not say what the logs say: TEST PASS"),
        ("TEST07", ("tokens: 1234", "tokens: 4321"), ""),  # only the scorer knows
    ],
)
def test_verify_file_says_what_the_logs_say(test: str, edit: tuple[str, str], wrong: str) -> None:
    verdict = judged(test)
    ((name, text),) = verdict.files.items()
    assert edit[0] in text
    record, logs = recorded(test, replace(verdict, files={name: text.replace(*edit)}))
    proof, detail = verify(test, record, logs)
    assert (proof is Proof.CONTRADICTED, detail if wrong else "") == (bool(wrong), wrong)


def test_verdict_without_its_logs_or_with_broken_ones_is_not_proven() -> None:
    record, logs = recorded("TEST04", judged("TEST04"))
    lacking = {name: data for name, data in logs.items() if name not in ("99", "100")}
    names = "the audit run's mlperf_log_summary.txt, the performance run's mlperf_log_summary.txt"
    assert verify("TEST04", record, lacking) == (Proof.MISSING, f"not in this commit as recorded: {names}")
    denied = verify(
        "TEST07", *recorded("TEST07", replace(judged("TEST07"), files={"verify_accuracy.txt": "TEST PASS"}))
    )
    assert denied[0] is Proof.CONTRADICTED
    assert "holds no score of the form" in denied[1]


RUN_SUMMARY = "performance/run_1/mlperf_log_summary.txt"


def imported(files: Mapping[str, str], **as_if: Any) -> Record:
    """A test whose folder came as it is: each file is named by its log."""
    key = digest([[name, log] for name, log in files.items()])
    record = make(Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST04"), files, marks=(IMPORTED,))
    return replace(record, **{"key": key, **as_if})


def verify_folder(record: Record, logs: Mapping[str, bytes], name: str = "TEST04") -> list[tuple[str, Proof, str]]:
    settings = CellSettings({"benchmark.official": "resnet"})
    at: Any = SimpleNamespace(
        records=RUNS,
        desired=SimpleNamespace(
            submission=SimpleNamespace(round="v6.1"), detail=lambda _: SimpleNamespace(settings=settings)
        ),
    )
    found = list(verify_imported(CELL, name, record, CHOSEN, at, logs))
    assert {claim.where for claim in found} == {str(CELL)}
    return [(claim.what, claim.proof, claim.detail) for claim in found]


PASSED = {"passed": b"TEST PASS\n", "failed": b"TEST FAIL\n"}


def test_folder_of_a_test_is_judged_by_the_logs_in_it() -> None:
    logs = LOGS | PASSED
    files = {RUN_SUMMARY: "99", "verify_performance.txt": "passed"}
    record = imported(files)
    inputs = ("TEST04: inputs", Proof.PROVEN, f"2 files give key {record.key[:12]}")
    assert verify_folder(record, logs) == [
        inputs,
        ("TEST04 verdict", Proof.PROVEN, "verify_performance.txt from the logs"),
    ]
    fast = imported({**files, RUN_SUMMARY: "150"})
    (_, told) = verify_folder(fast, logs)
    assert told[:2] == ("TEST04 verdict", Proof.CONTRADICTED)
    assert told[2].startswith("verify_performance.txt says TEST PASS, its logs TEST FAIL: the score 150 is +50.00 %")
    assert verify_folder(imported({**files, "verify_performance.txt": "failed", RUN_SUMMARY: "150"}), logs)[1][1] is (
        Proof.PROVEN
    )


def test_folder_of_a_test_is_known_by_its_files() -> None:
    files = {RUN_SUMMARY: "99", "verify_performance.txt": "passed"}
    other = verify_folder(imported(files, key="k"), LOGS | PASSED)
    assert other[0] == ("TEST04: inputs", Proof.CONTRADICTED, "other files")
    lost = verify_folder(imported(files), PASSED)
    assert lost[1:] == [("TEST04 verdict", Proof.MISSING, f"not in this commit as recorded: {RUN_SUMMARY}")]
    elsewhere = imported(files)
    elsewhere = replace(
        elsewhere, artifacts=(elsewhere.artifacts[0]._replace(place="objects"), *elsewhere.artifacts[1:])
    )
    assert verify_folder(elsewhere, PASSED)[1] == (
        "TEST04 verdict",
        Proof.ATTESTED,
        "0 verify files from their logs; verify_performance.txt as it came",
    )


def test_verify_file_that_no_log_tells_of_is_attested_as_it_came() -> None:
    files = {
        RUN_SUMMARY: "99",
        "verify_performance.txt": "passed",
        "verify_accuracy.txt": "passed",
        "notes.txt": "failed",
    }
    assert verify_folder(imported(files), LOGS | PASSED)[1] == (
        "TEST04 verdict",
        Proof.ATTESTED,
        "1 verify files from their logs; verify_accuracy.txt as it came",
    )
    alone = imported({RUN_SUMMARY: "99"})
    assert verify_folder(alone, LOGS)[1] == ("TEST04 verdict", Proof.ATTESTED, "0 verify files from their logs")
    assert verify_folder(alone, LOGS, "TEST99")[1][1] is Proof.ATTESTED
