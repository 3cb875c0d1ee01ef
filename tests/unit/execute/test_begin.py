"""What an attempt is given when it begins: what is known of its machines, and the files that it is made from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.execute.attempt import Attempt, MachineFacts
from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import AttemptContext, begin
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, Summary
from reconciler.resource.settings import CellSettings
from reconciler.storage.code_archive import unpack_code
from reconciler.storage.files import RepositoryPaths
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
        known.pop("load", dict[str, Record]().__getitem__),  # type: ignore[arg-type]
        **known,  # type: ignore[arg-type]
    )
    return begin(step, detail, upstream, context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "mode", "known"),
    [(Kind.RUN, "performance", True), (Kind.RUN, "accuracy", True), (Kind.MODEL, "", False), (Kind.ENGINE, "", False)],
)
def test_a_run_gets_what_is_known_of_its_machines(tmp_path: Path, kind: Kind, mode: str, known: bool) -> None:
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
def test_files_are_handed_on_but_from_run_to_run(tmp_path: Path, kind: Kind, mode: str, handed: bool) -> None:
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


COMMAND = {"harness.command": ["python", "run.py"], "harness.code": "code"}


def begin_run(
    root: Path,
    kind: Kind,
    mode: str,
    installed: dict[str, str] | None,
    settings: dict[str, object],
    system: str = "box",
) -> Attempt:
    step, detail = find_step(kind, mode)
    (root / "repository/code").mkdir(parents=True)
    (root / "repository/code/run.py").write_text("print()\n")
    known = replace(detail, settings=CellSettings(settings), locations={"benchmark.code": "digits"})
    return start(root, step, known, {}, installed={system: installed})


@pytest.mark.parametrize(
    ("installed", "settings", "system", "wanted"),
    [
        ({"numpy": "2.1", "mlcommons-loadgen": "6.0"}, {}, "box", "mlcommons-loadgen==6.0\nnumpy==2.1\n"),
        ({"numpy": "2.1"}, {}, "other", None),
        ({"numpy": "2.1"}, COMMAND, "box", None),
        ({}, {}, "box", None),
        (None, {}, "box", None),
    ],
    ids=["ours", "of another system", "of a command", "nothing", "not known"],
)
def test_a_performance_run_keeps_its_code_and_what_was_installed_next_to_it(
    tmp_path: Path,
    installed: dict[str, str] | None,
    settings: dict[str, object],
    system: str,
    wanted: str | None,
) -> None:
    """No one knows with what a command of the user's own runs."""
    attempt = begin_run(tmp_path, Kind.RUN, "performance", installed, {"engine.backend": "null", **settings}, system)
    code = unpack_code(attempt.code.read_bytes())
    assert ("harness/verbs/run.py" in code, "run.py" in code) == (not settings, bool(settings))
    assert (attempt.requirements.read_text() if attempt.requirements.exists() else None) == wanted


@pytest.mark.parametrize(("kind", "mode"), [(Kind.RUN, "accuracy"), (Kind.ENGINE, ""), (Kind.SCORE, "")])
def test_no_other_step_keeps_its_code(tmp_path: Path, kind: Kind, mode: str) -> None:
    attempt = begin_run(tmp_path, kind, mode, {"numpy": "2.1"}, {"engine.backend": "null"})
    assert not attempt.code.exists()
    assert not attempt.requirements.exists()


def test_a_verdict_is_begun_with_the_logs_that_are_here_and_with_what_is_known_of_the_others(tmp_path: Path) -> None:
    desired = desire([Wish("net", tests=("TEST01",))])
    step = next(s for s in World().plan(desired).steps if s.change.address.kind is Kind.VERDICT)
    detail = replace(desired.detail(step.change.address), settings=CellSettings({}))
    step = replace(step, change=replace(step.change, previous="Verdict/1"))
    here, gone = Artifact("answers.json", "here", 1), Artifact("gone.json", "gone", 1)
    upstream = {
        name: Summary(
            f"{name}/1", Address(kind, f"{step.change.address.cell}/{part}"), "k", Ended.DONE, "2026", 1, files
        )
        for name, kind, part, files in (
            ("audit", Kind.COMPLIANCE_TEST, "TEST01", (here, gone)),
            ("accuracy", Kind.RUN, "accuracy", (gone,)),
        )
    }
    answers = {"reasons": [], "figures": {}}

    def load(identity: str) -> Record:
        values = {"answers": answers} if identity == "Verdict/1" else {"response": {"dtype": "int32"}}
        known = {name: f"{name}/1" for name in upstream}
        return Record(step.change.address, "k", 1, Ended.DONE, "2026", 1, "", {}, values=values, upstream=known)

    attempt = start(tmp_path, step, detail, upstream, load=load)
    assert attempt.intent.made_from == {"audit.answers.json": "here"}
    assert sorted(path.name for path in attempt.inputs.rglob("*.json")) == ["answers.json"]
    assert (attempt.intent.known_answers, attempt.intent.response_dtype) == (answers, "int32")
    assert attempt.intent.supersedes == "Verdict/1"
    assert attempt.intent.upstream == {"audit": "audit/1", "accuracy": "accuracy/1"}
