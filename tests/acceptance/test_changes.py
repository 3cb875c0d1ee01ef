"""What is changed or damaged is named; what hangs on it is done again, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.resource.records import Artifact
from tests.acceptance.conftest import SPEC, Said, console
from tests.passes.repository import Repository

SERVER = "open/this-machine/digits/Server"
ENGINE = f"Engine:{SERVER}"
ENGINE_FILE = "model.onnx"
PERFORMANCE = f"Run:{SERVER}/performance"


def plan(repository: Repository, *words: str) -> tuple[Said, list[dict[str, Any]]]:
    said = console(repository.root, "plan", "--json", *words)
    assert said.code in (0, 2), said.err
    report = said.report
    assert report["in_sync"] == (said.code == 0)
    return said, report["steps"]


def addresses(steps: list[dict[str, Any]]) -> list[str]:
    return [step["address"] for step in steps]


def line_of(repository: Repository, text: str) -> int:
    lines = (repository.root / SPEC).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def artifact(repository: Repository, address: str, name: str) -> Artifact:
    records = repository.records_of(address).values()
    return next(a for record in records for a in record.artifacts if a.name == name)


def in_sync_again(repository: Repository) -> bool:
    return console(repository.root, SPEC).code == 0 and plan(repository)[1] == []


def test_target_reaches_one_performance_run(repository: Repository) -> None:
    repository.edit(SPEC, "target_qps: 200 ", "target_qps: 210 ")
    said, steps = plan(repository)
    assert said.code == 2
    assert addresses(steps) == [PERFORMANCE, f"Result:{SERVER}"]
    why = console(repository.root, "why", SERVER)
    assert f"{SPEC}:{line_of(repository, 'target_qps: 210')}" in why.out
    assert ("200" in why.out, "210" in why.out) == (True, True)


def test_batch_size_reaches_engine_and_runs(repository: Repository) -> None:
    repository.edit(SPEC, "engine: {batch_size: 32}", "engine: {batch_size: 16}")
    said, steps = plan(repository)
    cell = "open/this-machine/digits/Offline"
    assert said.code == 2
    assert addresses(steps) == [
        f"Engine:{cell}", f"Run:{cell}/accuracy", f"Run:{cell}/performance", f"Score:{cell}", f"Result:{cell}",
    ]  # fmt: skip


def test_comment_changes_nothing(repository: Repository) -> None:
    repository.edit(SPEC, "# about ten seconds at this rate", "# some seconds")
    assert plan(repository)[0].code == 0


def test_note_is_only_rendered(repository: Repository) -> None:
    repository.edit(SPEC, "sw_notes: Rehearsal", "sw_notes: Another rehearsal")
    _, steps = plan(repository)
    assert {step["how"] for step in steps} == {"render"}
    records = set(repository.records())
    assert in_sync_again(repository)
    assert set(repository.records()) == records


def test_deleted_engine_is_reported_and_made_when_a_run_is_due(repository: Repository) -> None:
    for path in repository.objects_of(ENGINE):
        path.unlink()
    said = console(repository.root, "plan", "--json")
    assert said.code == 0
    assert any(ENGINE in str(drift) and "missing" in str(drift) for drift in said.report["drifts"])
    repository.edit(SPEC, "min_query_count: 2_000       # about", "min_query_count: 500       # about")
    _, steps = plan(repository)
    assert addresses(steps) == [ENGINE, PERFORMANCE, f"Result:{SERVER}"]
    assert in_sync_again(repository)
    assert repository.damage() == []


@pytest.mark.parametrize("restore_times", [False, True])
def test_flipped_engine_is_found_named_and_made_again(repository: Repository, restore_times: bool) -> None:
    path = repository.object_path(artifact(repository, ENGINE, ENGINE_FILE).sha256)
    repository.flip(path, restore_times=restore_times)
    words = ("--deep",) if restore_times else ()
    assert (plan(repository)[0].code == 0) == restore_times
    said, steps = plan(repository, *words)
    assert said.code == 2
    assert steps[0]["reason"] == "ArtifactCorrupt"
    assert all(address.startswith("Engine:") for address in addresses(steps))
    assert ENGINE_FILE in steps[0]["note"]
    assert console(repository.root, SPEC, *words).code == 0
    assert plan(repository, "--deep")[1] == []
    assert repository.damage() == []


def test_deleted_log_is_found_named_and_brought_back(repository: Repository) -> None:
    repository.log_of(PERFORMANCE, "mlperf_log_detail.txt").unlink()
    said, steps = plan(repository)
    assert (said.code, addresses(steps)) == (2, [PERFORMANCE])
    assert "mlperf_log_detail.txt" in steps[0]["note"]
    records = set(repository.records())
    assert in_sync_again(repository)
    assert set(repository.records()) == records
    assert repository.damage() == []


@pytest.mark.parametrize("restore_times", [False, True])
def test_edited_rendered_file_is_found_named_and_rendered_again(repository: Repository, restore_times: bool) -> None:
    before = repository.tree()
    name = "open/Quickstart/results/this-machine/digits/Server/user.conf"
    repository.flip(repository.paths.tree / name, restore_times=restore_times)
    words = ("--deep",) if restore_times else ()
    said, steps = plan(repository, *words)
    assert (said.code, addresses(steps)) == (2, [f"Result:{SERVER}"])
    assert name in steps[0]["note"]
    assert console(repository.root, SPEC, *words).code == 0
    assert repository.tree() == before


def test_why_says_why_a_cell_is_not_made_again(repository: Repository) -> None:
    said = console(repository.root, "why", SERVER)
    assert said.code == 0, said.err
    assert "Server" in said.out
