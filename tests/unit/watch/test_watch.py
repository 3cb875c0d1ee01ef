"""The watch as a process: whatever happens to the repository, it ends where a clean pass would."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from reconciler.record.decisions import write
from reconciler.resource.decisions import Freeze
from reconciler.storage.machine_locks import make_machine_lock
from tests.passes.repository import SPEC, Repository
from tests.processes import wait_for
from tests.unit.watch.watching import Watching, equals_a_clean_pass

# A cell whose run lasts: a server gets its queries one after another.
LONG = (
    "Server: {min_duration: 10 min, target_qps: 500, target_latency: 9 s, min_query_count: 500}\n          Offline: {"
)


def test_watch_follows_edits_heals_files_and_keeps_the_last_good_result(recorded: Repository) -> None:
    rendered = recorded.matching(".reconcile/tree/**/measurements.json")[0]
    good = rendered.read_bytes()
    with Watching(recorded) as watching:
        assert watching.wait("plan")["in_sync"]
        recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
        watching.in_sync()
        recorded.edit(SPEC, "spec:\n", "# a remark\nspec:\n")
        recorded.edit(SPEC, "category: edge", "category: edgy")
        assert "nothing runs until it is valid" in watching.wait("broken")["text"]
        rendered.write_bytes(b"edited by hand")
        recorded.edit(SPEC, "category: edgy", "category: edge")
        watching.wait("valid")
        watching.wait("pass", lambda event: event["in_sync"])
        assert rendered.read_bytes() == good
        assert watching.count("broken") == 1
        assert watching.stop() == 0
    equals_a_clean_pass(recorded)


def test_watch_when_commits_are_reverted_and_the_branch_is_reset_reads_the_world_anew(recorded: Repository) -> None:
    with Watching(recorded, "--commit") as watching:
        watching.wait("plan")
        recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
        recorded.git("commit", "--quiet", "--all", "--message", "More")
        watching.wait("committed")
        recorded.edit(SPEC, "target_qps: 200", "target_qps: 100")  # what was recorded for it counts again
        recorded.git("commit", "--quiet", "--all", "--message", "Revert")
        watching.wait("pass")
        recorded.git("reset", "--quiet", "--hard", "HEAD~2")
        watching.wait("head", lambda event: "not a descendant" in event["text"])
        watching.in_sync()
        assert watching.stop() == 0
    assert recorded.look().plan.in_sync


def test_watch_when_killed_and_started_again_ends_where_a_clean_pass_would(declared: Repository) -> None:
    with Watching(declared) as first:
        first.wait("began", lambda event: "Run" in event["address"])
        first.stop(signal.SIGKILL)
    with Watching(declared) as second:
        second.in_sync()
        assert second.stop(signal.SIGINT) == 0
    equals_a_clean_pass(declared)


def test_watch_when_the_spec_changes_under_a_run_gives_way(recorded: Repository) -> None:
    recorded.edit(SPEC, "Offline: {", LONG)
    with Watching(recorded, "--in-flight", "stop") as watching:
        watching.wait("moved")
        recorded.edit(SPEC, "spec:\n", "# supersedes nothing\nspec:\n")
        recorded.edit(SPEC, "{min_duration: 10 min", "{min_duration: 0")
        watching.wait("superseded")
        watching.in_sync()
        assert watching.stop() == 0
    equals_a_clean_pass(recorded)


def test_watch_when_the_spec_breaks_under_a_run_reports_it_at_once(recorded: Repository) -> None:
    recorded.edit(SPEC, "Offline: {", LONG)
    with Watching(recorded) as watching:
        watching.wait("moved")
        recorded.edit(SPEC, "min_duration: 10 min", "min_duratoin: 10 min")
        assert "min_duratoin" in watching.wait("broken")["text"]
        for _ in range(2):  # also if it breaks again in the same way
            recorded.edit(SPEC, "min_duratoin: 10 min", "min_duration: 10 min")
            watching.wait("valid")
            recorded.edit(SPEC, "min_duration: 10 min", "min_duratoin: 10 min")
            assert "min_duratoin" in watching.wait("broken")["text"]
        assert watching.stop() == 0


def test_watch_when_stopped_before_its_commit_says_how_much_is_not_committed(recorded: Repository) -> None:
    recorded.edit(SPEC, "Offline: {", LONG)
    with Watching(recorded, "--commit") as watching:
        watching.wait("outcome", lambda event: event["status"] == "Done")
        watching.wait("moved")
        assert watching.stop() == 0
    last = watching.reported()[-1]
    listed = ["git", "ls-files", "--others", "state/records"]
    untracked = subprocess.check_output(listed, cwd=recorded.root, text=True).splitlines()
    assert untracked
    assert (last["event"], last["uncommitted"]) == ("stopped", len(untracked))


def test_watch_when_another_cell_changes_lets_a_run_that_is_still_wanted_end(recorded: Repository) -> None:
    server = "Server: {target_qps: 200, target_latency: 9 s, min_query_count: 800}"  # four seconds
    recorded.edit(SPEC, "Offline: {", f"{server}\n          Offline: {{")
    with Watching(recorded, "--in-flight", "stop") as watching:
        watching.wait("began", lambda event: event["address"].endswith("Server/performance"))
        recorded.edit(SPEC, "{target_qps: 100, min_query", "{target_qps: 200, min_query")
        done = watching.wait("outcome")
        assert (done["address"][-18:], done["status"]) == ("Server/performance", "Done")
        assert watching.wait("superseded")["stopped"] == ""
        watching.in_sync()
        assert watching.stop() == 0
    equals_a_clean_pass(recorded)


def test_watch_when_a_run_waits_for_the_machine_gives_it_up_for_another_spec(recorded: Repository) -> None:
    with make_machine_lock("quiet").acquire(), Watching(recorded) as watching:
        watching.wait("plan")
        recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
        watching.wait("note", lambda event: "waiting" in event["text"])
        recorded.edit(SPEC, "target_qps: 200", "target_qps: 100")
        watching.wait("superseded")
        watching.in_sync()
        assert watching.stop() == 0
    equals_a_clean_pass(recorded)


def test_watch_when_a_file_that_the_spec_names_changes_plans_anew(recorded: Repository) -> None:
    """Inside the repository, outside it, and behind a link."""
    far = recorded.root.parent / "far" / "net.onnx"
    far.parent.mkdir()
    far.write_text("one")
    (recorded.root / "net.onnx").symlink_to(far)
    recorded.edit(SPEC, "model: {retraining", "model: {path: net.onnx, retraining")
    with Watching(recorded, "--observe", "cell=*") as watching:
        watching.wait("plan", lambda event: not event["in_sync"])
        far.with_name("other").write_text("not requested")
        far.with_name("new").write_text("two")
        far.with_name("new").replace(far)
        assert "models, data or code" in watching.wait("plan")["text"]
        recorded.edit(SPEC, "path: net.onnx", f"path: {far}")
        recorded.edit("benchmarks/tiny.py", "A benchmark of", "The benchmark of")
        assert "models, data or code" in watching.wait("plan", lambda event: "Dataset" in event["text"])["text"]
        assert watching.stop() == 0


@pytest.mark.parametrize("arguments", [("--observe", "scenario=Offline"), ("--freeze", "00:00-00:00")])
def test_watch_when_cells_are_blocked_only_reports(recorded: Repository, arguments: tuple[str, str]) -> None:
    recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
    with Watching(recorded, *arguments) as watching:
        plan = watching.wait("plan")
        assert (plan["due"], plan["in_sync"]) == (0, False)
        recorded.edit(SPEC, "target_qps: 200", "target_qps: 100")
        watching.in_sync()
        assert watching.count("began") == 0
        assert watching.stop() == 0


def test_watch_informs_a_hook_and_a_health_page(recorded: Repository) -> None:
    received = recorded.root.parent / "heard.json"
    hook = recorded.root.parent / "hook.py"
    hook.write_text(f"import sys\nwith open({str(received)!r}, 'a') as f: f.write(sys.stdin.read() + '\\n')\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Watching(recorded, "--exec", f"{sys.executable} {hook}", "--health", str(port)) as watching:
        recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
        watching.wait("pass")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            assert json.load(answer)["passes"] == 1
        # The hook of the pass may still be starting.
        wait_for(lambda: received.exists() and '"pass"' in received.read_text())
        assert watching.stop() == 0
    assert "pass" in [json.loads(line)["event"] for line in received.read_text().splitlines() if line]


def clone(source: Path, target: Path) -> Repository:
    subprocess.run(["git", "clone", "--quiet", str(source), str(target)], check=True)
    return Repository(target)


def bare(recorded: Repository) -> Path:
    """A remote called origin that has what is here."""
    path = recorded.root.parent / "remote.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(recorded.root), str(path)], check=True)
    recorded.git("remote", "add", "origin", str(path))
    return path


def test_watch_follows_a_remote_that_moves_is_rewritten_and_vanishes(recorded: Repository, tmp_path: Path) -> None:
    remote = bare(recorded)
    other = clone(remote, tmp_path / "other")
    with Watching(recorded, "--remote", "origin", "--poll", "0.2") as watching:
        watching.wait("plan")
        other.edit(SPEC, "target_qps: 100", "target_qps: 200")
        other.git("commit", "--quiet", "--all", "--message", "More")
        other.git("push", "--quiet", "origin", "main")
        watching.wait("fetched")
        watching.in_sync()
        other.git("commit", "--quiet", "--amend", "--message", "More, said better")
        other.git("push", "--quiet", "--force", "origin", "main")
        assert "force-pushed" in watching.wait("rewritten")["text"]
        remote.rename(tmp_path / "gone.git")
        assert "git fetch" in watching.wait("remote", lambda event: "git fetch" in event["text"])["text"]
        recorded.edit(SPEC, "target_qps: 200", "target_qps: 300")
        watching.in_sync()
        assert watching.stop() == 0
    equals_a_clean_pass(recorded)


def test_watch_pushes_records_on_top_of_what_others_pushed(recorded: Repository, tmp_path: Path) -> None:
    remote = bare(recorded)
    other = clone(remote, tmp_path / "other")
    other.write("notes.txt", "by someone else\n")
    other.commit()
    other.git("push", "--quiet", "origin", "main")
    recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
    recorded.git("commit", "--quiet", "--all", "--message", "More")
    with Watching(recorded, "--commit", "--push", "origin") as watching:
        watching.wait("pass")
        watching.wait("pushed")
        assert watching.stop() == 0
    other.git("pull", "--quiet", "--ff-only")
    assert len(other.records()) == len(recorded.records())
    equals_a_clean_pass(recorded)


def test_watch_when_under_embargo_pushes_nothing(recorded: Repository) -> None:
    remote = bare(recorded)
    before = subprocess.check_output(["git", "rev-parse", "main"], cwd=remote)
    recorded.edit(SPEC, "  rehearsal: true\n", "  rehearsal: true\n  embargo: {until: 2999-01-01}\n")
    with Watching(recorded, "--commit", "--push", "origin") as watching:
        assert "embargo until 2999-01-01" in watching.wait("refused")["text"]
        assert watching.stop() == 0
    assert subprocess.check_output(["git", "rev-parse", "main"], cwd=remote) == before


def test_watch_when_under_embargo_informs_a_hook_nothing_measured(recorded: Repository, tmp_path: Path) -> None:
    reported = tmp_path / "told.jsonl"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >> {reported}\necho >> {reported}\n")
    hook.chmod(0o755)
    recorded.edit(SPEC, "  rehearsal: true\n", "  rehearsal: true\n  embargo: {until: 2999-01-01}\n")
    recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
    with Watching(recorded, "--exec", str(hook)) as watching:
        watching.wait("pass")
        wait_for(lambda: '"pass"' in reported.read_text())
        assert watching.stop() == 0
    received = {event["event"]: event for event in map(json.loads, filter(None, reported.read_text().splitlines()))}
    assert received["plan"]["due"] > 0
    texts = {received["plan"]["text"], received["pass"]["text"]}
    (text,) = texts
    assert text.startswith(f"withheld: embargo until 2999-01-01: exec:{hook} ")
    assert received["started"]["text"].startswith("watching ")


def test_watch_leaves_a_frozen_cell_alone_until_it_is_unfrozen(recorded: Repository) -> None:
    cell = next(address.cell for address in recorded.look().recorded.by_address if address.cell)
    path = write(recorded.paths, Freeze(cell, "deadline", "Ada <ada@acme.com>", "2026-01-01T00:00:00", None, ""))
    before = len(recorded.records())
    recorded.edit(SPEC, "target_qps: 100", "target_qps: 200")
    with Watching(recorded) as watching:
        plan = watching.wait("plan", lambda event: "frozen since 2026-01-01 by Ada: deadline" in event["text"])
        assert (plan["due"], plan["in_sync"]) == (0, False)
        (recorded.root / path).unlink()
        watching.in_sync()
        assert watching.stop() == 0
    assert len(recorded.records()) == before + 1
    equals_a_clean_pass(recorded)
