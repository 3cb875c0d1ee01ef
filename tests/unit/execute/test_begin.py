"""What an attempt is given when it begins: what is known of its machines, and the files that it is made from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.execute.attempt import Attempt, MachineFacts
from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import AttemptContext, begin
from reconciler.files import RepositoryPaths
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, Summary
from reconciler.resource.settings import CellSettings
from tests.unit.diff.simulated import Wish, World, desire

SEEN = MachineFacts(({"host": "a"}, {"host": "b"}), ("550.1",))
FILES = ("answers.json", "child.log", "service.log", "telemetry.jsonl", "code.tar.gz", "requirements.txt")


def find_step(kind: Kind, mode: str = "") -> tuple[Step, object]:
    desired = desire([Wish("net")])
    steps = World().plan(desired).steps
    step = next(s for s in steps if s.change.address.kind is kind and s.change.address.mode == mode)
    detail = desired.detail(step.change.address)
    return step, replace(detail, settings=CellSettings({}))


def start(root: Path, step: Step, detail: object, upstream: dict[str, Summary], **known: object) -> Attempt:
    for name in FILES:
        (root / name).write_text(name)
    context = AttemptContext(
        RepositoryPaths(root / "repository"),
        Executors({}),
        "tool 1",
        {},
        False,
        lambda: datetime(2026, 1, 2, tzinfo=UTC),
        (),
        lambda artifact: root / artifact.name,
        dict[str, Record]().__getitem__,
        **known,  # type: ignore[arg-type]
    )
    return begin(step, detail, upstream, context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "mode", "known"),
    [(Kind.RUN, "performance", True), (Kind.RUN, "accuracy", True), (Kind.MODEL, "", False), (Kind.ENGINE, "", False)],
)
def test_run_is_told_what_is_known_of_the_machines_of_its_system(
    tmp_path: Path, kind: Kind, mode: str, known: bool
) -> None:
    step, detail = find_step(kind, mode)
    cell = find_step(Kind.RUN, "performance")[0].change.address.cell
    assert cell is not None
    nodes = {cell.system: SEEN, "other": MachineFacts(drivers=("1",))}
    attempt = start(tmp_path, step, detail, {}, nodes=nodes, shared_with="a desktop")
    shared = MachineFacts(shared_with="a desktop")
    assert attempt.intent.machine == (replace(SEEN, shared_with="a desktop") if known else shared)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    unknown = start(elsewhere, step, detail, {}, nodes={"other": SEEN}, shared_with="a desktop")
    assert unknown.intent.machine == shared


@pytest.mark.parametrize(("kind", "mode", "handed"), [(Kind.SCORE, "", True), (Kind.RUN, "performance", False)])
def test_files_of_what_it_is_made_from_are_handed_on_but_from_run_to_run(
    tmp_path: Path, kind: Kind, mode: str, handed: bool
) -> None:
    step, detail = find_step(kind, mode)
    artifacts = tuple(Artifact(name, f"sha of {name}", 1) for name in FILES)
    run = Summary(
        "Run/1",
        Address(Kind.RUN, "open/box/net/Offline/accuracy"),
        "k",
        Ended.DONE,
        "2026",
        1,
        artifacts,
        marks=("trial",),
    )
    attempt = start(tmp_path, step, detail, {"run": run})
    first = FILES[0]
    assert attempt.intent.made_from == ({f"run.{first}": f"sha of {first}"} if handed else {})
    assert [path.name for path in attempt.inputs.glob("run/*")] == ([first] if handed else [])
    assert attempt.intent.upstream == {"run": "Run/1"}
    assert "trial" in attempt.intent.marks
