"""The pure parts of the watch: what matters, when to look, when to try again, when to hold still."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError
from reconciler.watch.report import render_systemd_unit
from reconciler.watch.settings import WAITS, Backoff, find_freeze_end, parse
from reconciler.watch.source import Topic, classify_change
from reconciler.watch.watch import Queue

ROOT = Path("/r")
HOMES = {
    ROOT / "specs": Topic.SPECS,
    ROOT / "state": Topic.RECORDS,
    ROOT / ".reconcile/tree": Topic.TREE,
    ROOT / ".git": Topic.GIT,
    ROOT / ".reconcile": Topic.OURS,
    ROOT / "models/a.onnx": Topic.SOURCES,
    ROOT / "code": Topic.SOURCES,
}


@pytest.mark.parametrize(
    ("path", "kind", "topic"),
    [
        ("specs/a.yaml", "modified", Topic.SPECS),
        ("specs/a.yaml", "opened", None),
        ("specs/.a.yaml.swp", "created", None),
        ("specs/a.yaml~", "created", None),
        ("state/records/Run/x.json", "created", Topic.RECORDS),
        ("state/records/Run/.x.json.abc.partial", "created", None),
        (".reconcile/tree/open/a.json", "deleted", Topic.TREE),
        (".reconcile/index/a", "created", None),
        (".git/HEAD", "moved", Topic.GIT),
        (".git/HEAD.lock", "created", None),
        (".git/index", "modified", None),
        (".git/refs/heads/main", "modified", Topic.GIT),
        (".git/refs/heads/main.lock", "created", None),
        ("README.md", "modified", None),
        ("models/a.onnx", "moved", Topic.SOURCES),
        ("models/b.onnx", "moved", None),
        ("code/run.py", "modified", Topic.SOURCES),
        ("code/__pycache__/run.cpython-311.pyc", "modified", None),
        ("code/.git/HEAD", "modified", None),
    ],
)
def test_topic_of_a_changed_file(path: str, kind: str, topic: Topic | None) -> None:
    assert classify_change(ROOT / path, kind, folder=False, homes=HOMES) == topic


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_queue_when_changes_cease_gives_each_topic_once() -> None:
    clock = Clock()
    queue = Queue(0.3, clock)
    for _ in range(1000):
        queue.add("specs")
        queue.add("git")
    assert queue.compute_wait() == pytest.approx(0.3)
    assert queue.count_added() == {"specs": 1000, "git": 1000}
    clock.now += queue.compute_wait()
    assert queue.compute_wait() == 0
    assert queue.take(until=0.0) == ("specs", "git")
    assert queue.take(until=0.0) == ()


def test_queue_when_changes_never_cease_is_patient_but_not_for_ever() -> None:
    clock = Clock()
    queue = Queue(0.3, clock)
    for _ in range(100):
        queue.add("specs")
        clock.now += 0.1
    assert queue.compute_wait() == 0


@pytest.mark.parametrize("kind", WAITS)
def test_backoff_doubles_up_to_a_cap_and_is_forgotten_on_success(kind: str) -> None:
    backoff = Backoff()
    waits = [backoff.record_failure("key", kind, 0.0).seconds for _ in range(40)]
    assert waits[:2] == [WAITS[kind][0], 2 * WAITS[kind][0]]
    assert waits[-1] == WAITS[kind][1]
    assert backoff.list_waiting(WAITS[kind][1] - 1) == {"key"}
    assert not backoff.list_waiting(WAITS[kind][1] + 1)
    backoff.record_success("key")
    assert backoff.record_failure("key", kind, 0.0).tries == 1


@pytest.mark.parametrize(
    ("window", "now", "ends"),
    [
        ("22:00-06:00", datetime(2026, 1, 1, 23, 30), datetime(2026, 1, 2, 6)),
        ("22:00-06:00", datetime(2026, 1, 1, 5, 59), datetime(2026, 1, 1, 6)),
        ("22:00-06:00", datetime(2026, 1, 1, 6, 0), None),
        ("9:00-17:30", datetime(2026, 1, 1, 12, 0), datetime(2026, 1, 1, 17, 30)),
        ("9:00-17:30", datetime(2026, 1, 1, 17, 30), None),
    ],
)
def test_window_ends(window: str, now: datetime, ends: datetime | None) -> None:
    assert find_freeze_end([parse(window)], now) == ends


@pytest.mark.parametrize("text", ["22-06", "24:00-06:00", "22:00", ""])
def test_window_when_it_is_none_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ReconcilerError) as error:
        parse(text)
    assert "22:00-06:00" in error.value.fix


def test_unit_starts_the_same_watch_in_the_same_folder() -> None:
    text = render_systemd_unit(
        Path("/srv/my repo"), ["/venv/bin/reconcile", "watch", "--commit", "--observe", "system=b 100%"]
    )
    assert "WorkingDirectory=/srv/my repo\n" in text
    assert "ExecStart=/venv/bin/reconcile watch --commit --observe 'system=b 100%%'\n" in text
