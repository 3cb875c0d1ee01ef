"""What an audit says of dates, releases and descriptions that were written anew, though names and digests fit."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.history.audit import verify_described
from reconciler.history.rendered import WHERE
from reconciler.history.runs import DISTINCT, REMOVED_RUN
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import decode
from reconciler.record.decisions import write as write_decision
from reconciler.record.store import write_record
from reconciler.resource.decisions import Freeze
from reconciler.resource.inputs import Role, digest_inputs
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import Record, RecordedFact, RecordedInput
from reconciler.storage import git
from tests.passes.repository import SPEC, Repository
from tests.passes.test_audited import PERFORMANCE, claims, clone, edited, forged, of, recorded
from tests.passes.test_compliance import CELL
from tests.shared import need

__all__ = ["clone", "recorded"]
need("mlperf_loadgen")


def test_a_run_that_was_dated_after_its_log_and_its_commit_is_not_proven(clone: Repository) -> None:
    """The newest run counts: anyone who dates an old one anew chooses which is published."""
    forged(clone, PERFORMANCE, lambda record: replace(record, started="2100-01-01T00:00:00.000000Z"))
    clone.commit()
    found = claims(clone)
    assert of(found, Proof.MISSING) == {
        REMOVED_RUN,
        "performance: when it was made",
        "Run performance: started",
        "Run performance: when it was made",
    }
    assert "and its log began at 20" in found[CELL, "performance: when it was made"][1]
    assert "commit of 20" in found[CELL, "Run performance: when it was made"][1]


@pytest.mark.parametrize("waited", ["", "machine.job", "seconds"])
def test_a_later_run_that_was_dated_before_the_published_one_is_not_proven(clone: Repository, waited: str) -> None:
    """A worse run is passed over so, unless it may have waited in the meantime."""
    (path,) = clone.record_paths(PERFORMANCE)
    record = decode(path.read_bytes(), str(path))

    def next_year(text: str) -> str:
        return re.sub(
            r'("(?:test_datetime|power_\w+)", "value": ".*?)(20\d\d)', lambda m: m[1] + str(int(m[2]) + 1), text
        )

    worse = replace(edited(clone, record, DETAIL, next_year), started="2026-01-01T00:00:00.000000Z")
    if waited == "seconds":
        worse = replace(worse, seconds=10 * 365 * 86400.0)
    elif waited:
        worse = replace(worse, facts={**record.facts, waited: RecordedFact("slurm 7", Role.NOTE)})
    write_record(clone.paths, worse)
    clone.commit()
    found = claims(clone)
    name = f"unpublished performance of {worse.started}: when it was made"
    assert (name in of(found, Proof.MISSING)) is (not waited)
    if not waited:
        assert "before the published run, and its log began at 20" in found[CELL, name][1]


@pytest.mark.parametrize("minutes", [-20, 20])
def test_a_run_that_was_recorded_again_with_another_date_is_contradicted(clone: Repository, minutes: int) -> None:
    """It would be the newest again after a worse one, or count twice for the median."""
    (path,) = clone.record_paths(PERFORMANCE)
    record = decode(path.read_bytes(), str(path))
    started = datetime.fromisoformat(record.started) + timedelta(minutes=minutes)
    other = replace(record, started=f"{started:%Y-%m-%dT%H:%M:%S.%fZ}")
    write_record(clone.paths, other)
    clone.commit()
    found = claims(clone)
    later = max(record.started, other.started)
    assert f"Run performance of {later}: {DISTINCT}" in of(found, Proof.CONTRADICTED)


def test_a_log_that_lasted_longer_than_its_record_says_is_not_proven(clone: Repository) -> None:
    def longer(text: str) -> str:
        ended = re.search(r'"power_end", "value": "(\d\d)-(\d\d)-(\d{4})', text)
        assert ended
        return text.replace(ended[0], f'"power_end", "value": "{ended[1]}-{ended[2]}-{int(ended[3]) + 1}')

    forged(clone, f"Run:{CELL}/accuracy", lambda record: edited(clone, record, DETAIL, longer))
    clone.commit()
    assert "accuracy: how long it took" in of(claims(clone), Proof.MISSING)


@pytest.mark.parametrize("where", ["fact", "value", "log", "noise"])
def test_another_loadgen_than_wrote_the_log_is_contradicted(clone: Repository, where: str) -> None:
    def other(record: Record) -> Record:
        if where == "fact":
            fact = replace(record.facts["loadgen.version"], value="9.9.9")
            return replace(record, facts={**record.facts, "loadgen.version": fact})
        if where == "value":
            return replace(record, values={**record.values, "loadgen_version": "9.9.9 @ 0123456789"})
        if where == "noise":  # a line that LoadGen's logger did not write, and no reader of the log takes for one
            record = replace(record, values={**record.values, "loadgen_version": "9.9.9 @ 0123456789"})
            noise = '\nof "key": "loadgen_version", "value": "9.9.9 @ 0123456789"\n'
            return edited(clone, record, DETAIL, lambda text: text.replace("\n", noise, 1))
        stated = partial(re.sub, r'("loadgen_version", "value": ")\S+ @', r"\g<1>9.9.9 @")
        return edited(clone, record, DETAIL, stated)

    forged(clone, PERFORMANCE, other)
    clone.commit()
    found = claims(clone)
    assert "performance: LoadGen" in of(found, Proof.CONTRADICTED)
    assert "9.9.9" in found[CELL, "performance: LoadGen"][1]


def test_a_description_of_other_hardware_than_was_used_is_contradicted(clone: Repository) -> None:
    """It stales nothing, so that nothing is measured again."""

    def used(record: Record) -> Record:
        inputs = {**record.inputs, "hardware.count": RecordedInput(2, "specs/spec.yaml:9")}
        return replace(record, inputs=inputs, key=digest_inputs(Kind.RUN, {n: i.value for n, i in inputs.items()}))

    text = (clone.root / SPEC).read_text(encoding="utf-8")
    assert "description: {cooling: air}" in text
    described = 'description: {cooling: air, accelerators_per_node: "8", number_of_nodes: "1"}'
    clone.write(SPEC, text.replace("description: {cooling: air}", described))
    snapshot = read_snapshot(clone.root, git.resolve(clone.root, clone.commit() or "HEAD"))
    (path,) = clone.record_paths(PERFORMANCE)
    honest, cell = decode(path.read_bytes(), str(path)), Cell.parse(CELL)
    assert not list(verify_described(cell, "performance", honest, snapshot))
    (denied,) = verify_described(cell, "performance", used(honest), snapshot)
    assert denied.proof is Proof.CONTRADICTED
    assert denied.what.endswith("accelerators_per_node")
    assert set(re.findall(r"\d", denied.detail)) == {"8", "2"}
    nodes = RecordedFact([{"host": "n1"}, {"host": "n2"}], Role.NOTE)
    placed = replace(honest, facts={**honest.facts, "machine.nodes": nodes})
    (asked,) = verify_described(cell, "performance", placed, snapshot)
    assert (asked.proof, asked.detail[:20]) == (Proof.MISSING, "number_of_nodes is 1")


@pytest.mark.parametrize(
    ("made", "says"),
    [("2100-01-01T00:00:00Z", "but a commit of"), ("2001-01-01T00:00:00Z", "before the commit it was made on")],
)
def test_a_decision_dated_outside_its_commits_is_not_proven(clone: Repository, made: str, says: str) -> None:
    base = git.resolve(clone.root, "HEAD")
    freeze = Freeze(Cell.parse(CELL), "the deadline", "Ann <ann@acme.example>", made, None, base)
    write_decision(clone.paths, freeze)
    clone.commit()
    found = claims(clone)
    assert of(found, Proof.MISSING) == {"freeze: when it was decided"}
    assert says in found[CELL, "freeze: when it was decided"][1]


def test_a_history_that_was_cut_off_is_reported(clone: Repository) -> None:
    """What was removed before cannot be seen."""
    clone.write("notes.txt", "later\n")
    clone.commit()
    assert (WHERE, "history") not in claims(clone)
    (clone.root / ".git/shallow").write_text(f"{git.resolve(clone.root, 'HEAD')}\n")
    proof, detail = claims(clone)[WHERE, "history"]
    assert proof is Proof.ATTESTED
    assert detail.startswith("this clone is shallow")
