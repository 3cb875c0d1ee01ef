"""`reconcile accept` on a real repository: what counts, until when, where it is said, and what is refused."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import jsonschema
import pytest

from reconciler.storage.files import hash_bytes
from reconciler.storage.packaged_files import read_shipped

from .conftest import CELL, Reconcile, commit, edit, expire, git, read_day


def changed(root: Path) -> None:
    edit(root, "batch_size: 8", "batch_size: 16")


def accept(reconcile: Reconcile, *more: str) -> Path:
    reconcile.succeed("accept", "digits", "--reason", "the kernels are the same", *more)
    return next(Path("state/accepted").glob("*.json"))


def test_accept_records_who_when_why_and_exactly_what(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    path = accept(reconcile)
    found = json.loads(path.read_text())
    assert (found["cell"], found["reason"]) == (CELL, "the kernels are the same")
    assert found["by"].startswith(git(recorded, "log", "-1", "--format=%an"))
    assert found["until"] == str(read_day(path) + timedelta(days=30))
    assert found["commit"] == git(recorded, "rev-parse", "HEAD")
    runs = {entry["address"]: entry for entry in found["accepted"]}
    assert set(runs) == {f"Run:{CELL}/accuracy", f"Run:{CELL}/performance", f"Score:{CELL}"}
    difference = runs[f"Run:{CELL}/performance"]["inputs"]
    assert {n: (i["before"], i["after"]) for n, i in difference.items()} == {"engine.batch_size": (8, 16)}
    assert path.name.endswith(f"{hash_bytes(path.read_bytes())[:20]}.json")


def test_revoke_answers_in_json_and_names_where_to_look_when_nothing_fits(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    path = accept(reconcile)
    assert "`reconcile accept --list`" in reconcile.refuse("accept", "zzz", "--revoke")
    assert reconcile.report("accept", "digits", "--revoke", ends=0)["revoked"] == [path.as_posix()]
    assert not path.exists()


def test_a_reason_cannot_drive_the_terminal_of_who_reads_it(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    found = reconcile.report("accept", "digits", "--reason", "fine\x1b[2J\x07 — größer", ends=0)
    assert found["reason"] == "fine[2J — größer"


def test_what_is_accepted_is_not_made_again_and_every_view_says_so(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    until = read_day(accept(reconcile, "--for", "2w")) + timedelta(days=14)
    reconcile()  # renders
    plan = reconcile.succeed("plan")
    assert f"accepted {CELL}: engine.batch_size 8 → 16, until {until}, by " in plan
    assert "In sync" in plan
    assert f"accepted until {until}" in reconcile.succeed("status")
    _, why, _ = reconcile("why", "digits")
    assert "the kernels are the same" in why
    assert "specs/one.yaml:19" in why
    document = reconcile.report("why", "digits")
    assert [a["stands"] for a in document["acceptances"]] == ["in force"]
    assert reconcile()[1].count("done in") == 0


def test_the_tree_shows_the_settings_of_the_runs_that_count(recorded: Path, reconcile: Reconcile) -> None:
    reconcile()
    readme = next(recorded.glob(".reconcile/tree/**/digits/Offline/README.md"))
    before = readme.read_bytes()
    changed(recorded)
    accept(reconcile)
    assert reconcile()[0] == 0
    assert b"engine.batch_size" in before
    assert readme.read_bytes() == before


def test_an_edited_acceptance_counts_for_nothing_and_says_so(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    path = accept(reconcile)
    path.write_text(path.read_text().replace(str(read_day(path) + timedelta(days=30)), "2999-01-01"))
    code, plan, _ = reconcile("plan")
    assert code == 2
    assert f"{path}: DamagedDecision: it was changed after it was written" in plan
    assert "to replace" in plan


def test_accept_list_and_revoke(recorded: Path, reconcile: Reconcile) -> None:
    assert "Nothing is accepted" in reconcile("accept", "--list")[1]
    changed(recorded)
    accept(reconcile, "--commit")
    assert git(recorded, "log", "-1", "--format=%s") == f"Accept {CELL}"
    assert git(recorded, "show", "--name-only", "--format=").splitlines() == [
        path.as_posix() for path in Path("state/accepted").glob("*.json")
    ]
    assert f"{CELL}: engine.batch_size 8 → 16, until" in reconcile("accept", "--list")[1]
    reconcile.succeed("accept", "digits", "--revoke", "--commit")
    assert not list(Path("state/accepted").glob("*"))
    assert git(recorded, "status", "--porcelain", "state") == ""
    assert reconcile("plan")[0] == 2


def test_a_revocation_killed_around_its_commit_is_finished_next(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    accept(reconcile, "--commit")
    (path,) = Path("state/accepted").glob("*.json")
    path.unlink()
    assert reconcile("accept", "digits", "--revoke")[0] == 1  # nothing here, and no one asked for a commit
    assert reconcile.report("accept", "digits", "--revoke", "--commit", ends=0)["revoked"] == [path.as_posix()]
    assert git(recorded, "log", "-1", "--format=%s") == f"Revoke what was accepted for {CELL}"
    assert git(recorded, "status", "--porcelain", "state") == ""
    git(recorded, "read-tree", "HEAD~1")
    assert git(recorded, "status", "--porcelain", "state") == f"AD {path.as_posix()}"
    assert reconcile("accept", "digits", "--revoke", "--commit")[0] == 1
    assert git(recorded, "status", "--porcelain", "state") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("digits",), "a decision needs a reason"),
        (("digits", "--reason", "x", "--until", "2001-01-01"), "not within the next 366 days"),
        (("digits", "--reason", "x", "--for", "9y"), "is not a duration"),
        (("digits", "--reason", "x", "--for", "0d"), "not within"),
    ],
)
def test_accept_wants_a_reason_and_an_end(
    recorded: Path, reconcile: Reconcile, arguments: tuple[str, ...], said: str
) -> None:
    changed(recorded)
    assert said in reconcile.refuse("accept", *arguments)
    assert not Path("state/accepted").exists()


def test_a_rehearsal_is_not_accepted_in_place_of_a_result(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "  rehearsal: true\n", "")
    edit(recorded, ", min_duration: 0, min_query_count: 512", "")
    err = reconcile.refuse("accept", "digits", "--reason", "please")
    assert "rehearsal True → None: a rehearsal's results always remain a rehearsal" in err
    assert "min_query_count 512 → 24576: round v6.1 (mlperf.conf) sets it for every result" in err


def test_an_audit_says_accepted_and_proves_nothing_by_it(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    accept(reconcile)
    commit(recorded, "Use larger batches, and accept them")
    claims = [c for c in reconcile.report("audit", ends=2)["claims"] if c["proof"] == "accepted"]
    assert {claim["what"] for claim in claims} == {"performance: inputs", "accuracy: inputs", "score: inputs"}
    assert "engine.batch_size 8 → 16" in claims[0]["detail"]
    assert "the kernels are the same" in claims[0]["detail"]
    _, out, _ = reconcile("audit")
    assert "  accepted     performance: inputs: " in out
    assert "0 missing, 0 contradicted." in out


def test_an_audit_holds_an_acceptance_to_the_day_of_its_commit(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    expire(accept(reconcile))
    commit(recorded, "Accept for too short a while")
    assert reconcile.report("audit")["proof"] == "missing"


@pytest.mark.parametrize("later", [False, True], ids=["edited", "decided again"])
def test_an_audit_knows_an_edited_acceptance(recorded: Path, reconcile: Reconcile, later: bool) -> None:
    """Nothing in the file itself gives it away; one that was revoked and made again says another time."""
    changed(recorded)
    path = accept(reconcile)
    commit(recorded, "Use larger batches, and accept them")
    bent = json.loads(path.read_text())
    bent["reason"] = "the director asked for it"
    if later:
        bent["made"] = (datetime.fromisoformat(bent["made"]) + timedelta(seconds=5)).isoformat()
    data = json.dumps(bent, indent=1).encode() + b"\n"
    path.unlink()
    other = path.with_name(f"{path.stem.rpartition('-')[0]}-{hash_bytes(data)[:20]}.json")
    other.write_bytes(data)
    commit(recorded, "Decide otherwise")
    claims = reconcile.report("audit", ends=2)["claims"]
    assert "the director asked for it" in next(c["detail"] for c in claims if c["proof"] == "accepted")
    found = [(c["where"], c["what"], c["detail"]) for c in claims if c["proof"] == "contradicted"]
    if later:
        assert found == []
        return
    (only,) = found
    assert (only[0], only[1].partition(":")[0]) == (CELL, "acceptance")
    assert other.as_posix() in only[2]
    assert path.as_posix() in only[2]
    git(recorded, "checkout", "--quiet", "HEAD~1", "--", path.as_posix())
    other.unlink()
    commit(recorded, "Restore what was decided")
    claims = reconcile.report("audit")["claims"]
    assert not any(claim["what"].startswith("acceptance: ") for claim in claims)


def test_pr_shows_an_acceptance_to_its_reviewer(recorded: Path, reconcile: Reconcile) -> None:
    changed(recorded)
    path = accept(reconcile)
    commit(recorded, "Use larger batches, and accept them")
    found = reconcile.report("pr", "--base", "HEAD~1", ends=0)
    assert not found["work"]
    assert [cell["effect"] for cell in found["cells"]] == ["accepted"]
    (remark,) = found["remarks"]
    assert (remark["level"], remark["file"]) == ("warning", path.as_posix())
    assert f"{CELL}: accepts engine.batch_size 8 → 16" in remark["message"]


def test_plan_as_json_names_decisions_and_a_saved_plan_is_bound_to_them(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    assert reconcile("plan", "-o", "plan.json")[0] == 2
    accept(reconcile)
    reconcile("freeze", "digits", "--reason", "the deadline is over")
    document = reconcile.report("plan")
    jsonschema.validate(document, json.loads(read_shipped("schemas/plan.schema.json")))
    assert [(a["cell"], a["stands"]) for a in document["acceptances"]] == [(CELL, "in force")]
    assert [(f["cell"], f["reason"]) for f in document["frozen"]] == [(CELL, "the deadline is over")]
    assert "decisions changed" in reconcile.refuse("apply", "plan.json")
