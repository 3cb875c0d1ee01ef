"""``--official`` of a tree: what is made of the words of the two checkers, by stand-ins in a checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.check.official import run_official
from reconciler.errors import ReconcilerError
from reconciler.resource.rules import Rule, Severity
from reconciler.tree.findings import Complaint, Place, TreeFinding, TreeReport

NEWER, OLDER, OLDEST = "submission_checker/main.py", "submission_checker_old.py", "submission_checker.py"
GOOD = "[2026-01-01 10:00:00 main.py:9 INFO] SUMMARY: submission looks OK"
BAD = "[2026-01-01 10:00:00 main.py:9 ERROR] SUMMARY: submission has errors"
RESNET = "closed/Acme/results/sys1/resnet"


def stand_in(root: Path, file: str, *lines: str, status: int = 0) -> Path:
    """A checkout whose checker says these lines, and notes next to it how it was called."""
    path = root / "checkout/tools/submission" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    said = "\n".join(lines)
    path.write_text(
        "import json, os, sys\n"
        f"open({str(path.with_suffix('.called'))!r}, 'w').write(json.dumps([os.getcwd(), __name__, *sys.argv[1:]]))\n"
        f"print({said!r})\nraise SystemExit({status})\n"
    )
    return root / "checkout"


def called(root: Path, file: str) -> list[str]:
    noted: list[str] = json.loads((root / "checkout/tools/submission" / file).with_suffix(".called").read_text())
    return noted


def ask(root: Path, *findings: TreeFinding, seconds: float = 60.0, rounds: tuple[str, ...] = ("v6.1",)) -> TreeReport:
    report = TreeReport("tree", rounds, (), (), findings)
    return run_official(report, root / "tree", root / "checkout", "c0ffee", root / "output", seconds)


def own(rule: str, found: str = "of ours") -> TreeFinding:
    return TreeFinding(
        Rule(rule, rule, ("ours",)), "Acme", "closed/sys1/resnet", Complaint(Place("a.json", 3), found, "better")
    )


def test_without_a_checker_the_checkout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkout/tools/submission").mkdir(parents=True)
    with pytest.raises(
        ReconcilerError, match=f"has none of {NEWER}, {OLDER}, {OLDEST}, submission-checker.py in tools/submission"
    ):
        ask(tmp_path)


@pytest.mark.parametrize(
    ("file", "rule", "stem"),
    [(NEWER, "official.newer", "newer"), (OLDER, "official.older", "older"), (OLDEST, "official.older", "older")],
)
def test_each_checker_is_called_in_its_folder_with_its_round(tmp_path: Path, file: str, rule: str, stem: str) -> None:
    stand_in(tmp_path, file, f"ERROR:main:{RESNET}/Offline is odd", GOOD)
    report = ask(tmp_path)
    output = tmp_path / "output"
    folder, name, *arguments = called(tmp_path, file)
    assert (folder, name) == (str(tmp_path / "checkout/tools/submission"), "__main__")
    csv = str(output / f"{stem}_summary.csv")
    assert arguments == ["--input", str(tmp_path / "tree"), "--version", "v6.1", "--csv", csv]
    (run,) = report.official
    assert (run.commit, run.status, run.verdict, run.cause) == ("c0ffee", 0, "looks OK", "")
    assert run.output == str(output / f"{stem}_checker_log.txt")
    (finding,) = report.findings
    assert (finding.rule.id, finding.complaint.place) == (rule, Place(f"{stem}_checker_log.txt", 1))


def test_all_checkers_that_are_there_are_asked_and_what_was_found_before_stays(tmp_path: Path) -> None:
    stand_in(tmp_path, OLDER, f"ERROR:main:{RESNET}/Offline is odd", GOOD)
    stand_in(tmp_path, NEWER, BAD, status=1)
    earlier = own("run.valid")
    report = ask(tmp_path, earlier)
    assert [(run.status, run.verdict) for run in report.official] == [(1, "has errors"), (0, "looks OK")]
    assert [item.rule.id for item in report.findings] == ["run.valid", "official.older"]
    assert called(tmp_path, NEWER)[4:6] == ["--version", "v6.1"]


@pytest.mark.parametrize("rounds", [(), ("v7.0",), ("unknown",)])
def test_no_checker_is_started_for_a_round_that_is_unknown(tmp_path: Path, rounds: tuple[str, ...]) -> None:
    stand_in(tmp_path, NEWER, GOOD)
    with pytest.raises(ReconcilerError) as caught:
        ask(tmp_path, rounds=rounds)
    assert "--round" in caught.value.fix
    assert not (tmp_path / "output").exists()


def test_each_error_is_a_finding_of_its_cell_at_its_line(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    stand_in(
        tmp_path,
        OLDER,
        "[2026-01-01 10:00:00 x.py:1 INFO] closed/Acme/results/sys1/bert/Offline is examined",
        f"[2026-01-01 10:00:00 x.py:2 ERROR] {tree}/{RESNET}/Offline/performance is INVALID ",
        "ERROR:main:the moon is not full",
        f"[x ERROR] NoResults {RESNET}/Offline",
        f"[x ERROR] NoResults {RESNET}/Server",
        "[x ERROR] NoResults open/Bcme/results/sys1",
        "[x ERROR] open/Ann Bee/results/sys1/resnet/Offline is odd",
        "[x ERROR] open/Ann Bee/systems/sys2.json is odd",
        "[x ERROR] open/Ccme has no folder in open/Dcme/results",
        "closed/Acme/results/sys1/bert is no ERROR: of the checker",
        BAD,
    )
    report = ask(tmp_path)
    found = [(item.submitter, item.cell, item.complaint.place.line, item.complaint.found) for item in report.findings]
    assert found == [
        ("Acme", "closed/sys1/resnet/Offline", 2, f"{RESNET}/Offline/performance is INVALID"),
        ("Ann Bee", "open/sys1/resnet/Offline", 7, "open/Ann Bee/results/sys1/resnet/Offline is odd"),
        ("Ann Bee", "open/sys2", 8, "open/Ann Bee/systems/sys2.json is odd"),
        ("Dcme", "open", 9, "open/Ccme has no folder in open/Dcme/results"),
        ("Acme", "closed/sys1/resnet/Server", 5, f"NoResults {RESNET}/Server"),
        ("Bcme", "open/sys1", 6, "NoResults open/Bcme/results/sys1"),
    ]
    assert {item.severity for item in report.findings} == {Severity.ERROR}
    (run,) = report.official
    assert (run.verdict, run.unmapped) == ("has errors", ("the moon is not full",))


@pytest.mark.parametrize(
    ("said", "ours", "cause"),
    [
        (("began", "it broke", "", " "), (), "it broke"),
        ((), (), "no output"),
        (
            ("ModuleNotFoundError: No module named 'yaml'", "bye"),
            ("files.missing",),
            "install PyYAML in the environment of reconcile: pip install pyyaml",
        ),
        (("KeyError: x",), ("run.valid",), "KeyError: x"),
        (
            ("KeyError: x",),
            ("files.missing", "system.missing", "benchmark.known"),
            "KeyError: x; likely because of a.json:3: found by system.missing (system.missing)",
        ),
    ],
    ids=["last words", "silent", "no yaml", "nothing fatal", "fatal"],
)
def test_a_checker_that_dies_says_why(tmp_path: Path, said: tuple[str, ...], ours: tuple[str, ...], cause: str) -> None:
    stand_in(tmp_path, OLDER, *said, status=3)
    (run,) = ask(tmp_path, *(own(rule, f"found by {rule}") for rule in ours)).official
    assert (run.status, run.verdict, run.cause) == (3, "crashed", cause)


def test_a_checker_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    checkout = stand_in(tmp_path, OLDER, GOOD.partition("SUMMARY")[0])
    file = checkout / "tools/submission" / OLDER
    file.write_text(file.read_text().replace("raise SystemExit", "import time; time.sleep(600); raise SystemExit"))
    (run,) = ask(tmp_path, own("files.missing"), seconds=0.3).official
    assert (run.status, run.verdict, run.cause) == (-1, "crashed", "it was stopped after 0 s")
