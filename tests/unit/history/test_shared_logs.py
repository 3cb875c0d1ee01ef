"""One run that a commit shows as two, by the logs of its records: values alone."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Proof
from reconciler.errors import LogError
from reconciler.history import runs as history_runs
from reconciler.history.runs import DISTINCT, find_copies
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Recorded, Summary
from reconciler.resource.settings import CellSettings, SubmissionSettings, SystemSettings

NET = Cell("closed", "box", "resnet", "Offline")
Claims = list[tuple[str, str]]


def run(identity: str, cell: Cell, log: str, started: str = "1", **fields: Any) -> Summary:
    artifacts = (Artifact("mlperf_log_summary.txt", f"s{identity}", 1, "logs"), Artifact(DETAIL, log, 1, "logs"))
    address = Address(Kind.RUN, f"{cell}/performance")
    return replace(
        Summary(identity, address, f"key of {cell}", Ended.DONE, started, 1.0, artifacts, metric=(identity, "qps")),
        **fields,
    )


def find(
    monkeypatch: pytest.MonkeyPatch,
    *runs: Summary,
    published: dict[Cell, str] | None = None,
    seen: dict[str, Iterable[str]] | None = None,
    official: dict[Cell, str] | None = None,
    systems: dict[str, SystemSettings] | None = None,
) -> Claims:
    """``published``: cell → record, all by default; ``seen``: log → its fingerprints, none for one that is no log."""
    known = {s.id: s for s in runs}
    chosen = {s.address.cell: s.id for s in runs if s.address.cell} if published is None else published
    by_key: dict[str, tuple[Summary, ...]] = {}
    for summary in runs:
        by_key[summary.key] = (*by_key.get(summary.key, ()), summary)
    results = {Address(Kind.RESULT, str(cell)): cell for cell in chosen}
    entered = {address: (official or {}).get(cell, "") for address, cell in results.items()}
    details = {
        a: SimpleNamespace(settings=CellSettings({"benchmark.official": name} if name else {}))
        for a, name in entered.items()
    }
    at: Any = SimpleNamespace(
        difference=SimpleNamespace(chosen={cell: Chosen(performance=i) for cell, i in chosen.items()}),
        committed=SimpleNamespace(summaries=known),
        recorded=Recorded(by_key),
        desired=SimpleNamespace(
            by_address={a: SimpleNamespace(address=a) for a in results},
            detail=details.get,
            submission=SubmissionSettings(systems=systems or {}),
        ),
    )
    logs: Any = SimpleNamespace(read=lambda artifacts: {a.sha256: a.sha256.encode() for a in artifacts})

    def parse(data: bytes, _: str) -> str:
        if seen is not None and data.decode() not in seen:
            raise LogError("no log")
        return data.decode()

    monkeypatch.setattr(history_runs, "parse_detail", parse)
    monkeypatch.setattr(history_runs, "find_fingerprints", lambda log: list((seen or {}).get(log, ())))
    found = list(find_copies(at, logs))
    assert {claim.proof for claim in found} <= {Proof.CONTRADICTED}
    return [(claim.where, claim.what) for claim in found]


OWN = f"Run performance: {DISTINCT}"
SERVER, STRICT = replace(NET, scenario="Server"), replace(NET, benchmark="resnet-99.9")
ELSEWHERE, OTHER = replace(NET, system="crate"), replace(NET, benchmark="bert")


@pytest.mark.parametrize(
    ("cell", "official", "shared"),
    [
        (SERVER, {}, True),
        (STRICT, {}, True),
        (ELSEWHERE, {}, False),
        (OTHER, {}, False),
        (OTHER, {OTHER: "resnet"}, False),
        (OTHER, {OTHER: "resnet-99.9"}, True),
        (replace(OTHER, system="crate"), {OTHER: "resnet-99.9"}, False),
    ],
    ids=["scenario", "variant", "system", "benchmark", "same official", "official variant", "both"],
)
def test_an_imported_log_counts_for_one_system_and_for_variants_of_one_benchmark(
    monkeypatch: pytest.MonkeyPatch, cell: Cell, official: dict[Cell, str], shared: bool
) -> None:
    # The later one is listed first.
    own = run("Run/b", cell, "log", "2"), run("Run/a", NET, "log", "1")
    imported = [replace(summary, marks=(IMPORTED,)) for summary in own]
    claims = [(str(NET), OWN), (str(cell), OWN)]
    assert find(monkeypatch, *imported, official=official) == ([] if shared else claims)
    assert find(monkeypatch, *own, official=official) == claims  # each attempt has a log of its own


def test_one_machine_may_be_declared_for_each_category(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = {"marks": (IMPORTED,)}
    runs = run("Run/a", NET, "log", "1", **imported), run("Run/b", ELSEWHERE, "log", "1", **imported)
    described: dict[str, object] = {"accelerator_model_name": "H200"}
    for category, description, shared in (
        ("edge", described, True),
        ("datacenter", described, False),
        ("edge", {"accelerator_model_name": "L4"}, False),
    ):
        systems = {
            "box": SystemSettings({"system.category": "datacenter"}, description=described),
            "crate": SystemSettings({"system.category": category}, description=description),
        }
        assert (find(monkeypatch, *runs, systems=systems) == []) is shared


def test_a_published_run_that_an_earlier_attempt_of_its_cell_claims_is_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also under another key, and where the earlier attempt failed."""
    for first in (
        replace(run("Run/a", NET, "log", "1"), key="other settings"),
        run("Run/a", NET, "log", "1", ended=Ended.FAILED),
    ):
        later = run("Run/b", NET, "log", "2")
        assert find(monkeypatch, first, later, published={NET: "Run/b"}) == [(str(NET), OWN)]
        assert find(monkeypatch, first, later, published={NET: "Run/a"}) == []
        again = replace(later, started="1")
        assert find(monkeypatch, first, again, published={NET: "Run/b"}) == []
        imported = replace(later, marks=(IMPORTED,))
        assert find(monkeypatch, first, imported, published={NET: "Run/b"}) == []


@pytest.mark.parametrize(("logged", "copied"), [("09:50", True), ("09:59", False), ("10:01", False), ("", False)])
def test_a_command_may_copy_the_log_of_an_imported_run(
    monkeypatch: pytest.MonkeyPatch, logged: str, copied: bool
) -> None:
    """Also imported again is its own log, which a slow clock may have dated a little before the attempt."""
    brought = logged and f"2026-01-01T{logged}:00.000000Z"
    runs = (
        run("Run/a", NET, "log", brought, marks=(IMPORTED,), seconds=300.0),
        run("Run/b", NET, "log", "2026-01-01T10:00:00.000000Z", seconds=310.0),
    )
    assert find(monkeypatch, *runs, published={NET: "Run/b"}) == [(str(NET), OWN)] * copied


def test_what_does_not_count_makes_no_run_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may be copied to another cell by mistake, or refused there and imported for the right cell."""
    honest, failed = run("Run/a", NET, "log", "1"), run("Run/b", ELSEWHERE, "log", "2", ended=Ended.FAILED)
    assert find(monkeypatch, honest, failed, published={NET: "Run/a"}) == []
    assert find(monkeypatch, honest, replace(failed, ended=Ended.DONE), published={NET: "Run/a"}) == []
    imported = replace(run("Run/c", NET, "log", "3"), marks=(IMPORTED,))
    assert find(monkeypatch, failed, imported, published={NET: "Run/c"}) == []


def test_a_run_that_was_recorded_twice_is_reported_for_its_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        run("Run/a", NET, "log", "1"),
        run("Run/b", NET, "log", "2"),
        run("Run/c", NET, "other", "3"),
        run("Run/d", NET, "log", "4", validity="INVALID"),
        run("Run/e", NET, "log", "5", marks=(IMPORTED,)),
        run("Run/f", NET, "log", "6", ended=Ended.FAILED),
        replace(run("Run/g", NET, "", "7"), artifacts=()),
        replace(run("Run/h", NET, "", "8"), artifacts=()),
        run("Run/i", NET, "log", "9"),
    ]
    expected = [(str(NET), f"Run performance of 2: {DISTINCT}"), (str(NET), f"Run performance of 9: {DISTINCT}")]
    assert find(monkeypatch, *runs, published={NET: "Run/c"}) == expected
    assert find(monkeypatch, *runs, published={NET: ""}) == []
    both = find(monkeypatch, *runs, published={SERVER: "Run/c", NET: "Run/c"})
    assert [where for where, _ in both] == [str(NET)] * 2 + [str(SERVER)] * 2
